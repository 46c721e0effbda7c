package server

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	pb "github.com/nacos-group/nacos-sdk-go/v2/api/grpc"
)

// How a server finds out that a client is gone although its connection stands.
const (
	detectEvery = 3 * time.Second  // how often silent clients are looked for
	silentAfter = 20 * time.Second // when a client counts as silent
	detectWait  = 5 * time.Second  // how long it may take to say that it lives
)

// connection is one gRPC connection. The fields of the setup are written before it is registered.
type connection struct {
	id     string
	remote net.Addr
	socket *socket

	clientIP string // as the client claims it
	app      string
	version  string
	labels   map[string]string
	created  time.Time

	active   atomic.Int64 // Unix milliseconds of the last sign of life
	detected atomic.Int64 // when a silent client was asked, 0 if it was not
	lastPush atomic.Int64 // counts the server's requests

	mu      sync.Mutex
	listens map[key]listened
	outbox  []outgoing // each config at most once
	wake    chan struct{}
}

// listened is what a client says of a config that it listens to.
type listened struct {
	md5    string
	tenant string // as the client wrote it
}

// outgoing is a request of the server that waits to be sent.
type outgoing struct {
	kind string
	key  key // of a push
	body func(id string) any
}

func newConnection(remote net.Addr, s *socket, serial int64) *connection {
	now := time.Now()
	host, port := splitAddr(remote.String())
	c := &connection{id: fmt.Sprintf("%d_%s_%d_%d", now.UnixMilli(), host, port, serial), remote: remote, socket: s,
		created: now, listens: make(map[key]listened), wake: make(chan struct{}, 1)}
	c.alive()
	return c
}

func (c *connection) alive() {
	c.active.Store(time.Now().UnixMilli())
	c.detected.Store(0)
}

// cut closes the connection under everybody's feet.
func (c *connection) cut() { c.socket.cut(c.remote.String()) }

// listen notes what the client says of k, or forgets it.
func (c *connection) listen(k key, l listened, on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if on {
		c.listens[k] = l
	} else {
		delete(c.listens, k)
	}
}

func (c *connection) listening(k key) (listened, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, ok := c.listens[k]
	return l, ok
}

func (c *connection) all() map[key]listened {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.listens)
}

// post queues a request of the server, unless the same is waiting already.
func (c *connection) post(o outgoing) {
	c.mu.Lock()
	if !slices.ContainsFunc(c.outbox, func(have outgoing) bool { return have.kind == o.kind && have.key == o.key }) {
		c.outbox = append(c.outbox, o)
	}
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *connection) takeOutbox() []outgoing {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.outbox
	c.outbox = nil
	return out
}

// send writes what is posted to the client's stream until ctx ends or the stream breaks. It is the only sender.
func (c *connection) send(ctx context.Context, stream pb.BiRequestStream_RequestBiStreamServer) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.wake:
		}
		for _, o := range c.takeOutbox() {
			id := fmt.Sprint(c.lastPush.Add(1))
			payload, err := encodePayload(o.kind, o.body(id))
			if err != nil {
				return err
			}
			if err := stream.Send(payload); err != nil {
				return fmt.Errorf("push to %s: %w", c.id, err)
			}
		}
	}
}

// connections are the clients that have completed the setup. It is safe for concurrent use.
type connections struct {
	faults *Faults
	serial atomic.Int64

	mu  sync.RWMutex
	all map[string]*connection // by id
}

func newConnections(faults *Faults) *connections {
	return &connections{faults: faults, all: make(map[string]*connection)}
}

func (cs *connections) add(c *connection) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.all[c.id] = c
}

func (cs *connections) drop(c *connection) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	delete(cs.all, c.id)
}

func (cs *connections) registered(c *connection) bool {
	cs.mu.RLock()
	defer cs.mu.RUnlock()
	return cs.all[c.id] == c
}

// list returns the connections, oldest first.
func (cs *connections) list() []*connection {
	cs.mu.RLock()
	defer cs.mu.RUnlock()
	list := slices.Collect(maps.Values(cs.all))
	slices.SortFunc(list, func(a, b *connection) int {
		if n := a.created.Compare(b.created); n != 0 {
			return n
		}
		return strings.Compare(a.id, b.id)
	})
	return list
}

// push tells every client that listens to k that it has changed. Where one of them calls the default namespace "",
// a 3.x server uses that name towards all of them, and those that call it "public" do not recognise the config.
func (cs *connections) push(k key, sharedTenant bool) {
	type target struct {
		c      *connection
		tenant string
	}
	var targets []target
	unnamed := false
	for _, c := range cs.list() {
		if l, ok := c.listening(k); ok {
			targets = append(targets, target{c, l.tenant})
			unnamed = unnamed || l.tenant == ""
		}
	}
	for _, t := range targets {
		if cs.faults.losePush() {
			continue
		}
		tenant := t.tenant
		if sharedTenant && unnamed {
			tenant = ""
		}
		t.c.post(outgoing{kind: "ConfigChangeNotifyRequest", key: k, body: func(id string) any {
			return notifyRequest{RequestID: id, Module: "config", configContext: configContext{Group: k.group, DataID: k.dataID, Tenant: tenant}}
		}})
	}
}

// detect asks silent clients whether they live, and cuts those that did not answer, until ctx ends.
func (cs *connections) detect(ctx context.Context) {
	ticker := time.NewTicker(detectEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := time.Now()
		for _, c := range cs.list() {
			asked := c.detected.Load()
			switch {
			case asked != 0 && now.UnixMilli()-asked >= detectWait.Milliseconds():
				cs.drop(c)
				c.cut()
			case asked == 0 && now.UnixMilli()-c.active.Load() >= silentAfter.Milliseconds():
				c.detected.Store(now.UnixMilli())
				c.post(outgoing{kind: "ClientDetectionRequest", body: func(id string) any {
					return detectRequest{RequestID: id, Module: "internal"}
				}})
			}
		}
	}
}
