package consumers

import (
	"net"
	"sync"
	"time"
)

const (
	// writeTimeout bounds one write. The client's own shutdown waits for a
	// writer that is stuck in the socket, so without it a peer that stops
	// reading would hold a connection for ever.
	writeTimeout = 30 * time.Second
	// lastWrite bounds the writing of what is left when a socket is closed.
	lastWrite = 100 * time.Millisecond
	// maxUnsent is how much may wait to be written before Write waits.
	maxUnsent = 256 << 10
	// burst is how soon a write must follow another to be left to the writer:
	// a lone one goes out at once, by its caller.
	burst = 50 * time.Microsecond
)

// socket is the client's view of a net.Conn: reads go through the tap; writes
// are gathered while one is under way, so that a burst of acks, each of which
// the client would send by itself, becomes one system call here and one packet
// for the broker.
type socket struct {
	net.Conn
	tap  *tap
	done chan struct{} // closed when the writer has ended and the socket is closed

	mu     sync.Mutex
	cond   sync.Cond // signalled on every change below
	unsent []byte
	busy   bool      // a write is under way
	last   time.Time // when the newest Write came
	until  time.Time // the write deadline in force
	closed bool
	err    error // of a write; ends everything
}

func newSocket(c net.Conn) *socket {
	s := &socket{Conn: c, tap: newTap(c), done: make(chan struct{})}
	s.cond.L = &s.mu
	go s.write()
	return s
}

// Read is called by the client's reader alone.
func (s *socket) Read(p []byte) (int, error) { return s.tap.Read(p) }

// Write takes p to be written soon, or writes it where none came just before.
// An error of the writer is returned by the next call, and ends the connection
// at once.
func (s *socket) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.unsent) > maxUnsent && s.err == nil && !s.closed {
		s.cond.Wait()
	}
	if s.err != nil {
		return 0, s.err
	}
	if s.closed {
		return 0, net.ErrClosed
	}
	now := time.Now()
	lone := now.Sub(s.last) > burst && !s.busy && len(s.unsent) == 0
	s.last = now
	if lone {
		s.send(p, now)
		return len(p), s.err
	}
	s.unsent = append(s.unsent, p...)
	s.cond.Broadcast()
	return len(p), nil
}

// send writes p; mu is held, and given back meanwhile.
func (s *socket) send(p []byte, now time.Time) {
	s.busy = true
	// Moving the deadline costs as much as a small write.
	if !s.closed && s.until.Sub(now) < writeTimeout*5/6 {
		s.until = now.Add(writeTimeout)
		_ = s.SetWriteDeadline(s.until)
	}
	s.mu.Unlock()
	_, err := s.Conn.Write(p)
	s.mu.Lock()
	s.busy = false
	if err != nil {
		s.err = err
	}
	s.cond.Broadcast()
}

// SetDeadline is for the client's handshakes.
func (s *socket) SetDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = time.Time{}
	return s.Conn.SetDeadline(t)
}

// Close ends the socket; what is unsent has a last moment to leave.
func (s *socket) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		_ = s.SetWriteDeadline(time.Now().Add(lastWrite)) // also of a write under way
		s.cond.Broadcast()
	}
	return nil
}

// write is the writer; it owns the end of the socket.
func (s *socket) write() {
	defer close(s.done)
	defer s.Conn.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	var spare []byte
	for s.err == nil {
		if s.busy || len(s.unsent) == 0 && !s.closed {
			s.cond.Wait()
			continue
		}
		if len(s.unsent) == 0 {
			return
		}
		out := s.unsent
		s.unsent = spare[:0]
		s.send(out, time.Now())
		spare = out
	}
}
