package broker

import (
	"sync"
	"sync/atomic"
)

// memory counts the bytes of all messages and raises an alarm above its
// limit: publishers are then blocked until nine tenths of it are free again.
// Tests raise the same alarm by hand.
type memory struct {
	used  atomic.Int64
	limit int64
	on    atomic.Bool // an alarm is in force

	mu      sync.Mutex
	reason  string // by hand; empty: none
	low     bool   // by memory
	cleared chan struct{}
	notify  func() // tells the connections, in a goroutine of its own
}

func (m *memory) add(n int64) {
	used := m.used.Add(n)
	if n > 0 && used > m.limit && !m.on.Load() {
		m.update(func() { m.low = true })
	} else if n < 0 && m.on.Load() && used < m.limit/10*9 {
		m.update(func() { m.low = false })
	}
}

func (m *memory) update(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
	on := m.low || m.reason != ""
	if on == m.on.Load() {
		return
	}
	m.on.Store(on)
	if on {
		m.cleared = make(chan struct{})
	} else {
		close(m.cleared)
	}
	m.notify()
}

// wait is closed when no alarm is in force; nil when none is now.
func (m *memory) wait() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.on.Load() {
		return nil
	}
	return m.cleared
}

func (m *memory) why() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reason != "" {
		return m.reason
	}
	return "low on memory"
}
