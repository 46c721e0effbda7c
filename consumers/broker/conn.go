package broker

import (
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// conn is one client's connection. Its reader carries out what the client
// asks; its writer sends what has gathered in the outbox.
type conn struct {
	b      *Broker
	id     uint64
	nc     net.Conn
	frames *frameReader
	out    *outbox
	since  time.Time

	// Set during the handshake, before any channel is there.
	user          *user
	rights        atomic.Pointer[user] // of the newest channel's opening
	vhost         *vhost
	properties    Table
	name          string
	frameMax      uint32
	channelMax    uint16
	heartbeat     time.Duration
	cancelNotify  bool
	blockedNotify bool

	channels   map[uint16]*channel // changed by the reader, under the vhost's lock
	exclusives map[*queue]bool     // under the vhost's lock
	consumers  int                 // of all channels, under the vhost's lock
	names      interner
	partial    int // bytes of contents that are not whole yet

	blocked atomic.Bool // was told so
	ready   atomic.Bool // handshake is over

	closing sync.Once
	done    chan struct{} // closed when the connection is to end
}

func newConn(b *Broker, nc net.Conn, id uint64) *conn {
	return &conn{
		b: b, id: id, nc: nc, since: time.Now(),
		frames:   newFrameReader(nc, frameMinSize-frameOverhead),
		out:      newOutbox(int64(b.cfg.MaxOutput)),
		channels: make(map[uint16]*channel), exclusives: make(map[*queue]bool),
		frameMax: frameMinSize, done: make(chan struct{}),
	}
}

// end makes the connection end soon; the writer flushes what it has.
func (c *conn) end() { c.closing.Do(func() { close(c.done) }) }

// kill ends the connection at once, without a word.
func (c *conn) kill() {
	c.out.close()
	c.end()
	c.nc.Close()
}

// send appends one method, unless a fault hook swallows it.
func (c *conn) send(channel uint16, id methodID, f func([]byte) []byte) {
	if c.b.faults.drops(id) {
		return
	}
	c.out.append(func(b []byte) []byte {
		b, at := beginFrame(b, frameMethod, channel)
		b = binary.BigEndian.AppendUint32(b, uint32(id))
		if f != nil {
			b = f(b)
		}
		return endFrame(b, at)
	})
}

// serve runs the connection to its end.
func (c *conn) serve() {
	defer c.b.forget(c)
	var writer sync.WaitGroup
	writer.Go(func() {
		defer c.b.rescue("connection writer")
		c.write()
	})
	err := c.read()
	c.leave()
	c.end()
	// A client that does not read must not keep the writer for longer.
	cut := time.AfterFunc(closeWait, func() { c.nc.Close() })
	writer.Wait()
	cut.Stop()
	c.nc.Close()
	if err != nil && !errors.Is(err, net.ErrClosed) {
		c.b.log.Debug("connection ended", "connection", c.name, "remote", c.nc.RemoteAddr().String(), "error", err)
	}
}

// leave takes everything of the connection out of its vhost.
func (c *conn) leave() {
	v := c.vhost
	if v == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for id, ch := range c.channels {
		ch.close()
		delete(c.channels, id)
	}
	for q := range c.exclusives {
		v.deleteQueue(q)
	}
}

// read carries out frames until the connection ends. A reply error is told to
// the client.
func (c *conn) read() (err error) {
	defer func() {
		if p := recover(); p != nil {
			c.b.log.Error("panic while serving a client", "connection", c.name, "panic", p)
			err = c.fail(connectionError(541, "internal error"))
		}
	}()
	err = c.handshake()
	for err == nil {
		if !c.frames.buffered() {
			c.flushConfirms()
		}
		var f frame
		if f, err = c.next(); err == nil {
			err = c.frame(f)
		}
	}
	var refused *replyError
	var broken *frameError
	switch {
	case errors.Is(err, errClosed):
		return nil
	case errors.As(err, &refused):
		return c.fail(refused)
	case errors.As(err, &broken):
		return c.fail(connectionError(501, "%s", broken.msg))
	}
	return err
}

// errClosed ends the reader after an orderly close.
var errClosed = errors.New("connection closed by the client")

// next reads a frame when the broker is ready to take one.
func (c *conn) next() (frame, error) {
	if err := c.waitOutput(); err != nil {
		return frame{}, err
	}
	if c.heartbeat > 0 && !c.frames.buffered() {
		if err := c.nc.SetReadDeadline(time.Now().Add(2 * c.heartbeat)); err != nil {
			return frame{}, err
		}
	}
	f, err := c.frames.next()
	if err != nil {
		return f, err
	}
	return f, c.b.faults.pass(c.done)
}

// waitOutput holds a client back that asks for more than it reads.
func (c *conn) waitOutput() error {
	for c.out.size.Load() > 2*c.out.limit {
		select {
		case <-c.out.room:
		case <-c.done:
			return net.ErrClosed
		}
	}
	return nil
}

// fail closes the connection with a reply code, and reads on for a moment so
// that the client gets to see it.
func (c *conn) fail(e *replyError) error {
	c.leave()
	c.b.log.Warn("closing a connection", "connection", c.name, "code", e.code, "text", e.Error())
	c.send(0, connectionClose, e.appendClose)
	if err := c.nc.SetReadDeadline(time.Now().Add(closeWait)); err != nil {
		return e
	}
	for {
		f, err := c.frames.next()
		if err != nil {
			return e
		}
		if f.kind == frameMethod && f.channel == 0 && len(f.payload) >= 4 {
			switch methodID(binary.BigEndian.Uint32(f.payload)) {
			case connectionCloseOk:
				return e
			case connectionClose:
				c.send(0, connectionCloseOk, nil)
				return e
			}
		}
	}
}

const (
	closeWait     = 2 * time.Second
	writeWait     = 15 * time.Second
	handshakeWait = 10 * time.Second
)

// write sends what gathers in the outbox, in one write for each wake-up, and
// heartbeats when there is nothing else.
func (c *conn) write() {
	var beat *time.Timer
	var beats <-chan time.Time // nil before the handshake, and without heartbeats
	defer func() {
		if beat != nil {
			beat.Stop()
		}
	}()
	for {
		switch {
		case !c.ready.Load() || c.heartbeat <= 0:
		case beat == nil:
			beat = time.NewTimer(c.heartbeat / 2)
			beats = beat.C
		default:
			beat.Reset(c.heartbeat / 2)
		}
		select {
		case <-c.out.wake:
		case <-beats:
			c.out.append(func(b []byte) []byte {
				b, at := beginFrame(b, frameHeartbeat, 0)
				return endFrame(b, at)
			})
		case <-c.done:
			c.flush() //nolint:errcheck // it ends either way
			return
		}
		if err := c.flush(); err != nil {
			c.kill()
			return
		}
		if c.out.starved.Swap(false) {
			c.serveConsumers()
		}
	}
}

func (c *conn) flush() error {
	if err := c.b.faults.pass(c.done); err != nil {
		return err
	}
	c.b.faults.pause(c.done)
	buf := c.out.take()
	if len(buf) == 0 {
		c.out.written(buf)
		return nil
	}
	if err := c.nc.SetWriteDeadline(time.Now().Add(writeWait)); err != nil {
		return err
	}
	_, err := c.nc.Write(buf)
	c.out.written(buf)
	return err
}

// serveConsumers lets queues deliver that found the outbox full.
func (c *conn) serveConsumers() {
	c.vhost.mu.Lock()
	defer c.vhost.mu.Unlock()
	for _, ch := range c.channels {
		ch.serveAll()
	}
}

func (c *conn) flushConfirms() {
	for _, ch := range c.channels {
		ch.flushConfirms()
	}
}
