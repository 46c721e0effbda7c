package consumers_test

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/belay-mq/belay/consumers"
)

// network is a transport whose connections a test can break, and which it can
// take down altogether. It works for every broker.
type network struct {
	mu    sync.Mutex
	conns []net.Conn
	down  bool
	dials int
}

var errDown = errors.New("network down")

// over sets the transport of a ConnConfig.
func (n *network) over(cfg *consumers.ConnConfig) { cfg.DialFunc = n.dial }

func (n *network) dial(ctx context.Context, network, address string) (net.Conn, error) {
	n.mu.Lock()
	n.dials++
	down := n.down
	n.mu.Unlock()
	if down {
		return nil, errDown
	}
	c, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.conns = append(n.conns, c)
	return c, nil
}

// kill breaks every connection without a word, as a pulled cable and a reset do.
func (n *network) kill() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.conns {
		_ = c.Close()
	}
	n.conns = nil
}

// set takes the network down or up.
func (n *network) set(up bool) {
	n.mu.Lock()
	n.down = !up
	n.mu.Unlock()
	if !up {
		n.kill()
	}
}

func (n *network) dialed() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dials
}
