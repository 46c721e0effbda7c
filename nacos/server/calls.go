package server

import "sync"

// calls counts the calls in progress of one service. A sync.WaitGroup does not do: calls still begin while stop waits.
type calls struct {
	mu      sync.Mutex
	n       int
	stopped bool
	idle    chan struct{} // closed by the last call after stop
}

// enter begins a call; false means that the service has stopped.
func (c *calls) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return false
	}
	c.n++
	return true
}

func (c *calls) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n--; c.n == 0 && c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
}

// stop refuses further calls and waits for those in progress.
func (c *calls) stop() {
	c.mu.Lock()
	c.stopped = true
	var idle chan struct{}
	if c.n > 0 {
		if c.idle == nil {
			c.idle = make(chan struct{})
		}
		idle = c.idle
	}
	c.mu.Unlock()
	if idle != nil {
		<-idle
	}
}
