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
	closed bool
	err    error // of the writer; ends everything
}

func newSocket(c net.Conn) *socket {
	s := &socket{Conn: c, tap: newTap(c), done: make(chan struct{})}
	s.cond.L = &s.mu
	go s.write()
	return s
}

// Read is called by the client's reader alone.
func (s *socket) Read(p []byte) (int, error) { return s.tap.Read(p) }

// Write takes p to be written soon. An error of the writer is returned by the
// next call, and ends the connection at once.
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
	s.unsent = append(s.unsent, p...)
	s.cond.Broadcast()
	return len(p), nil
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
	var spare []byte
	for {
		s.mu.Lock()
		for len(s.unsent) == 0 && !s.closed {
			s.cond.Wait()
		}
		out := s.unsent
		s.unsent = spare[:0]
		if !s.closed {
			_ = s.SetWriteDeadline(time.Now().Add(writeTimeout))
		}
		s.cond.Broadcast()
		s.mu.Unlock()
		if len(out) == 0 {
			return
		}
		if _, err := s.Conn.Write(out); err != nil {
			s.mu.Lock()
			s.err = err
			s.cond.Broadcast()
			s.mu.Unlock()
			return
		}
		spare = out
	}
}
