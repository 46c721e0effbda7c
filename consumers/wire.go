package consumers

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// writeTimeout bounds one write. The client's own shutdown waits for a writer
// that is stuck in the socket, so without it a peer that stops reading would
// hold a connection for ever.
const writeTimeout = 30 * time.Second

// socket is a net.Conn with a tap and bounded writes. Read and Write may each be
// called by one goroutine at a time, which is what the client does.
type socket struct {
	net.Conn
	tap      *tap
	deadline time.Time
}

func newSocket(c net.Conn) *socket { return &socket{Conn: c, tap: newTap(c)} }

func (s *socket) Read(p []byte) (int, error) { return s.tap.Read(p) }

func (s *socket) Write(p []byte) (int, error) {
	// Moving the deadline costs as much as the write of an ack, so it is
	// moved once per sixth of the timeout.
	if now := time.Now(); s.deadline.Sub(now) < writeTimeout*5/6 {
		s.deadline = now.Add(writeTimeout)
		if err := s.SetWriteDeadline(s.deadline); err != nil {
			return 0, err
		}
	}
	return s.Conn.Write(p)
}

// wire is one open AMQP connection and the socket under it.
type wire struct {
	*amqp.Connection
	sock  *socket
	since time.Time
}

// drop closes the socket without a handshake. Everything that waits for the
// broker on this connection fails at once; the broker requeues what is unacked.
func (w *wire) drop() { _ = w.sock.Close() }

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
