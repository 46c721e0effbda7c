package nacos

import (
	"sync"
	"sync/atomic"
	"time"
)

// stats collects what Health shows. It is safe for concurrent use.
type stats struct {
	requests, polls, pushes, conflicts, retries atomic.Uint64

	mu        sync.Mutex
	version   string
	transport string
	connected bool
	lastOK    time.Time
	latency   time.Duration
	since     time.Time
	lastErr   string
	// reconnected is when the connection came (back): what a server says right
	// after that may be wrong.
	reconnected time.Time
	onReconnect func()
}

func (s *stats) ok(latency time.Duration) {
	now := time.Now()
	s.mu.Lock()
	s.lastOK, s.latency = now, latency
	back := !s.connected
	if back {
		s.connected, s.since, s.reconnected, s.lastErr = true, now, now, ""
	}
	hook := s.onReconnect
	s.mu.Unlock()
	if back && hook != nil {
		hook()
	}
}

func (s *stats) fail(err error) {
	s.mu.Lock()
	if s.connected || s.since.IsZero() {
		s.connected, s.since = false, time.Now()
	}
	s.lastErr = err.Error()
	s.mu.Unlock()
}

// doubt notes that a long-lived connection broke or came back, which a restart
// of the server does even where no request failed meanwhile.
func (s *stats) doubt() {
	s.mu.Lock()
	s.reconnected = time.Now()
	s.mu.Unlock()
}

func (s *stats) server(version string) {
	s.mu.Lock()
	s.version = version
	s.mu.Unlock()
}

func (s *stats) use(transport string) {
	s.mu.Lock()
	s.transport = transport
	s.mu.Unlock()
}

// sinceReconnect is how long the server has been answering without a break.
func (s *stats) sinceReconnect() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.reconnected)
}

func (s *stats) health() Health {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Health{
		Server: s.version, Transport: s.transport, Connected: s.connected, LastOK: s.lastOK, Latency: s.latency,
		Since: s.since, LastErr: s.lastErr,
		Polls: s.polls.Load(), Pushes: s.pushes.Load(), Conflicts: s.conflicts.Load(), Retries: s.retries.Load(),
	}
}
