package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Broker is a running embedded broker. Its methods may be called from any
// goroutine.
type Broker struct {
	cfg    Config
	log    *slog.Logger
	epoch  time.Time
	memory memory
	faults faults
	down   atomic.Bool // stopped
	alarms sync.Mutex  // held while connections are told of an alarm

	mu       sync.Mutex
	addr     string // kept over a Restart; empty without a listener
	listener net.Listener
	users    map[string]*user
	vhosts   map[string]*vhost
	live     map[uint64]*conn
	lastID   uint64
	halt     chan struct{} // closed to end the janitor and the sampling

	management     *http.Server
	managementAddr string // kept over a Restart
	sampler        sampler
	stats          atomic.Int32 // StatsMode

	running sync.WaitGroup
}

// ErrStopped is returned by Dial while the broker is stopped.
var ErrStopped = errors.New("broker is stopped")

// Listen starts a broker on cfg.Addr. The context bounds only the start; end
// the broker with Close.
func Listen(ctx context.Context, cfg Config) (*Broker, error) {
	b, err := New(cfg)
	if err != nil {
		return nil, err
	}
	if err := b.open(ctx, b.cfg.Addr, b.cfg.ManagementAddr); err != nil {
		return nil, errors.Join(err, b.Close(ctx))
	}
	return b, nil
}

// New starts a broker that listens on no socket: clients reach it through
// Dial alone.
func New(cfg Config) (*Broker, error) {
	cfg = cfg.withDefaults()
	b := &Broker{
		cfg: cfg, log: cfg.Logger, epoch: time.Now().Add(-time.Second), // no event has time 0

		users: make(map[string]*user), vhosts: make(map[string]*vhost), live: make(map[uint64]*conn),
	}
	b.memory.limit = cfg.MaxMemory
	b.memory.notify = func() { b.running.Go(b.alarmChanged) }
	for _, u := range cfg.Users {
		if err := b.SetUser(u); err != nil {
			return nil, err
		}
	}
	for _, name := range cfg.Vhosts {
		b.AddVhost(name)
	}
	for _, p := range cfg.Policies {
		if err := b.SetPolicy(p.Vhost, p.Policy); err != nil {
			return nil, err
		}
	}
	b.startJanitor()
	return b, nil
}

// open listens on the addresses that are not empty.
func (b *Broker) open(ctx context.Context, addr, management string) error {
	if addr != "" {
		if err := b.listen(ctx, addr); err != nil {
			return err
		}
	}
	if management == "" {
		return nil
	}
	return b.manage(ctx, management)
}

func (b *Broker) startJanitor() {
	stop := make(chan struct{})
	b.mu.Lock()
	b.halt = stop
	b.mu.Unlock()
	b.running.Go(func() { b.janitor(stop) })
}

func (b *Broker) listen(ctx context.Context, addr string) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("listening for AMQP on %s: %w", addr, err)
	}
	b.mu.Lock()
	b.listener, b.addr = l, l.Addr().String()
	b.mu.Unlock()
	b.running.Go(func() {
		defer b.rescue("listener")
		for {
			nc, err := l.Accept()
			if err != nil {
				if errors.Is(err, net.ErrClosed) {
					return
				}
				b.log.Warn("accepting a connection", "error", err)
				time.Sleep(10 * time.Millisecond)
				continue
			}
			if err := b.serve(nc); err != nil {
				nc.Close()
			}
		}
	})
	return nil
}

// serve runs a client's connection in its own goroutine.
func (b *Broker) serve(nc net.Conn) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped() {
		return ErrStopped
	}
	if len(b.live) >= b.cfg.MaxConnections {
		return fmt.Errorf("more than %d connections", b.cfg.MaxConnections)
	}
	b.lastID++
	c := newConn(b, nc, b.lastID)
	b.live[c.id] = c
	b.running.Go(func() {
		defer b.rescue("connection")
		c.serve()
	})
	return nil
}

func (b *Broker) forget(c *conn) {
	b.mu.Lock()
	delete(b.live, c.id)
	b.mu.Unlock()
}

// Dial connects a client through memory. Its shape is that of amqp.Config's
// Dial; the arguments are not looked at.
func (b *Broker) Dial(_, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	if err := b.serve(server); err != nil {
		client.Close()
		server.Close()
		return nil, &net.OpError{Op: "dial", Net: "pipe", Err: err}
	}
	return client, nil
}

// Addr is the address that the broker listens on; it stays the same over a
// Restart. Empty for a broker made by New.
func (b *Broker) Addr() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.addr
}

// URL is an amqp:// address with the first configured user and vhost.
func (b *Broker) URL() string {
	u := b.cfg.Users[0]
	host := b.Addr()
	if host == "" {
		host = "embedded"
	}
	return (&url.URL{Scheme: "amqp", User: url.UserPassword(u.Name, string(u.Password)), Host: host}).String() +
		"/" + url.PathEscape(b.cfg.Vhosts[0])
}

// Stop ends the broker as if its process had died: connections break, and
// only durable queues with their persistent messages are kept for Restart.
// It waits until every goroutine has ended, or ctx.
func (b *Broker) Stop(ctx context.Context) error {
	b.mu.Lock()
	if b.stopped() {
		b.mu.Unlock()
		return nil
	}
	b.down.Store(true)
	l := b.listener
	b.listener = nil
	close(b.halt)
	management := b.management
	b.management = nil
	b.mu.Unlock()
	if l != nil {
		l.Close()
	}
	if management != nil {
		management.Close()
	}
	b.Thaw()
	b.KillAll()
	ended := make(chan struct{})
	go func() { b.running.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-ctx.Done():
		return fmt.Errorf("stopping the broker: %w", ctx.Err())
	}
	for _, v := range b.allVhosts() {
		v.mu.Lock()
		v.crash()
		v.mu.Unlock()
	}
	return nil
}

// Restart starts a stopped broker again, on the address that it had.
func (b *Broker) Restart(ctx context.Context) error {
	b.mu.Lock()
	if !b.stopped() {
		b.mu.Unlock()
		return errors.New("restarting a broker that is not stopped: call Stop before")
	}
	b.down.Store(false)
	addr, management := b.addr, b.managementAddr
	b.mu.Unlock()
	for _, v := range b.allVhosts() {
		v.wakeUp()
	}
	b.startJanitor()
	return b.open(ctx, addr, management)
}

// Close stops the broker for good and drops all that it holds.
func (b *Broker) Close(ctx context.Context) error {
	err := b.Stop(ctx)
	for _, v := range b.allVhosts() {
		v.mu.Lock()
		for _, q := range v.queues {
			v.deleteQueue(q)
		}
		v.mu.Unlock()
	}
	return err
}

func (b *Broker) stopped() bool { return b.down.Load() }

func (b *Broker) now() int64 { return int64(time.Since(b.epoch)) }

func (b *Broker) vhost(name string) *vhost {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.vhosts[name]
}

func (b *Broker) allVhosts() []*vhost {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]*vhost, 0, len(b.vhosts))
	for _, v := range b.vhosts {
		out = append(out, v)
	}
	return out
}

func (b *Broker) conns() []*conn {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]*conn, 0, len(b.live))
	for _, c := range b.live {
		out = append(out, c)
	}
	slices.SortFunc(out, func(x, y *conn) int { return int(int64(x.id) - int64(y.id)) })
	return out
}
