package server

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"time"
)

// grpcOffset is how far the gRPC port lies above the HTTP port; clients count on it.
const grpcOffset = 1000

// settle is how long calls wait that were read right after a thaw, so that their clients' cancellations, which lie
// behind them in the same buffers, come first.
const settle = 50 * time.Millisecond

// gate stops all sockets of a server at once. The zero value is open.
type gate struct {
	mu     sync.Mutex
	closed chan struct{} // nil: open; else closed by thaw
	thawed time.Time
}

func (g *gate) freeze() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed == nil {
		g.closed = make(chan struct{})
	}
}

func (g *gate) thaw() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed != nil {
		close(g.closed)
		g.closed = nil
		g.thawed = time.Now()
	}
}

// pass blocks while the gate is closed, until done is.
func (g *gate) pass(done <-chan struct{}) {
	for {
		g.mu.Lock()
		closed := g.closed
		g.mu.Unlock()
		if closed == nil {
			return
		}
		select {
		case <-closed:
		case <-done:
			return
		}
	}
}

// settled waits after a thaw until cancelled calls can be told from others, and returns the error of a cancelled one.
func (g *gate) settled(ctx context.Context) error {
	g.mu.Lock()
	thawed := g.thawed
	g.mu.Unlock()
	if !thawed.IsZero() {
		wait(ctx, settle-time.Since(thawed))
	}
	return ctx.Err()
}

// socket is a listener whose connections pass the gate and can be cut one by one. Close cuts them all.
type socket struct {
	net.Listener
	gate *gate
	done chan struct{}

	mu    sync.Mutex
	conns map[string]*conn // by remote address
}

func newSocket(l net.Listener, g *gate) *socket {
	return &socket{Listener: l, gate: g, done: make(chan struct{}), conns: make(map[string]*conn)}
}

func (s *socket) Accept() (net.Conn, error) {
	inner, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: inner, socket: s, done: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.done:
		_ = inner.Close()
		return nil, net.ErrClosed
	default:
	}
	s.conns[inner.RemoteAddr().String()] = c
	return c, nil
}

func (s *socket) Close() error {
	s.mu.Lock()
	select {
	case <-s.done:
	default:
		close(s.done)
	}
	open := make([]*conn, 0, len(s.conns))
	for _, c := range s.conns {
		open = append(open, c)
	}
	s.mu.Unlock()
	err := s.Listener.Close()
	for _, c := range open {
		_ = c.Close()
	}
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// cut closes the connection from the given remote address.
func (s *socket) cut(remote string) {
	s.mu.Lock()
	c := s.conns[remote]
	s.mu.Unlock()
	if c != nil {
		_ = c.Close()
	}
}

// conn is a connection that stands still while the gate is closed.
type conn struct {
	net.Conn
	socket *socket
	once   sync.Once
	done   chan struct{}
}

func (c *conn) Read(b []byte) (int, error) {
	c.socket.gate.pass(c.done)
	n, err := c.Conn.Read(b)
	c.socket.gate.pass(c.done) // what came in while frozen was not read yet
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	c.socket.gate.pass(c.done)
	return c.Conn.Write(b)
}

func (c *conn) Close() error {
	c.once.Do(func() {
		close(c.done)
		c.socket.mu.Lock()
		defer c.socket.mu.Unlock()
		delete(c.socket.conns, c.RemoteAddr().String())
	})
	return c.Conn.Close()
}

// Ports that are picked lie below the range from which operating systems take the local ports of outgoing connections,
// so that a stopped server finds its ports free when it restarts.
const (
	firstPort = 10000
	lastPort  = 32767 - grpcOffset
	portTries = 200
)

// listenPair listens on addr for HTTP and on the port 1000 above it for gRPC. Port 0 picks a free pair.
func listenPair(ctx context.Context, addr string) (web, rpc net.Listener, err error) {
	host, portText, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, nil, fmt.Errorf("address %q: %w", addr, err)
	}
	port, err := strconv.Atoi(portText)
	if err != nil || port < 0 || port > 65535-grpcOffset {
		return nil, nil, fmt.Errorf("address %q: the port must lie between 0 and %d, because gRPC is served %d above it", addr, 65535-grpcOffset, grpcOffset)
	}
	if port != 0 {
		return listenBoth(ctx, host, port)
	}
	for range portTries {
		web, rpc, err = listenBoth(ctx, host, firstPort+rand.IntN(lastPort-firstPort))
		if err == nil || ctx.Err() != nil {
			return web, rpc, err
		}
	}
	return nil, nil, fmt.Errorf("no free pair of ports found in %d tries: %w", portTries, err)
}

func listenBoth(ctx context.Context, host string, port int) (web, rpc net.Listener, err error) {
	web, err = listen(ctx, host, port)
	if err != nil {
		return nil, nil, err
	}
	rpc, err = listen(ctx, host, port+grpcOffset)
	if err != nil {
		return nil, nil, errors.Join(err, web.Close())
	}
	return web, rpc, nil
}

func listen(ctx context.Context, host string, port int) (net.Listener, error) {
	var config net.ListenConfig
	return config.Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
}

// splitAddr takes an address apart; what is not one has port 0.
func splitAddr(addr string) (host string, port int) {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return addr, 0
	}
	port, _ = strconv.Atoi(text)
	return host, port
}
