package consumers

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// wire is one open AMQP connection and the socket under it.
type wire struct {
	*amqp.Connection
	sock  *socket
	since time.Time
}

// drop closes the socket without a handshake. Everything that waits for the
// broker on this connection fails at once; the broker requeues what is unacked.
func (w *wire) drop() {
	_ = w.sock.Close()
	<-w.sock.done
}

// dial opens a connection whose purpose ("consuming", "publishing") is shown
// to the broker.
func (ep *endpoint) dial(ctx context.Context, purpose string) (*wire, error) {
	ctx, cancel := context.WithTimeout(ctx, ep.ConnectTimeout)
	defer cancel()
	raw, err := ep.DialFunc(ctx, "tcp", ep.address)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", ep.shown, err)
	}
	deadline, _ := ctx.Deadline()
	_ = raw.SetDeadline(deadline)
	// The handshake below knows no context: closing the socket ends it.
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	defer stop()
	conn := raw
	if ep.tls != nil {
		secure := tls.Client(raw, ep.tls)
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = raw.Close()
			return nil, fmt.Errorf("TLS handshake with %s: %w", ep.shown, err)
		}
		conn = secure
	}
	sock := newSocket(conn)
	cfg := amqp.Config{
		SASL:       ep.sasl(),
		Vhost:      ep.uri.Vhost,
		ChannelMax: ep.uri.ChannelMax,
		FrameSize:  maxFrame,
		Heartbeat:  ep.Heartbeat,
		Locale:     "en_US",
		// The client writes into this table, so each dial has its own.
		Properties: amqp.Table{
			"connection_name": fmt.Sprintf("%s %s (%s)", ep.App, ep.Instance, purpose),
			"belay-app":       ep.App,
			"belay-instance":  ep.Instance,
			"product":         "belay",
			"platform":        "Go",
		},
	}
	if hb, ok := heartbeatOf(ep.URL); ok {
		cfg.Heartbeat = hb
	}
	c, err := amqp.Open(sock, cfg)
	if err != nil {
		_ = sock.Close()
		return nil, fmt.Errorf("opening an AMQP connection to %s: %w", ep.shown, err)
	}
	return &wire{Connection: c, sock: sock, since: time.Now()}, nil
}
