package consumers

import (
	"sync"
	"sync/atomic"
)

// inbox holds what was received for one worker. The worker takes everything
// that is there at once: under load one wake-up brings many messages.
type inbox struct {
	mu     sync.Mutex
	items  []*Delivery
	total  int // ever put
	closed bool
	wake   chan struct{} // capacity 1
}

func newInbox() *inbox { return &inbox{wake: make(chan struct{}, 1)} }

// put adds what was received; false once closed.
func (b *inbox) put(batch []*Delivery) bool {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return false
	}
	first := len(b.items) == 0
	b.items = append(b.items, batch...)
	b.total += len(batch)
	b.mu.Unlock()
	if first {
		b.signal()
	}
	return true
}

func (b *inbox) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// close says that nothing more will come; what is there can still be taken.
func (b *inbox) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.signal()
}

// tryTake returns all that is there and takes spare as the next buffer. ok is
// false when nothing is there and nothing will come.
func (b *inbox) tryTake(spare []*Delivery) (batch []*Delivery, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.items) == 0 {
		return nil, !b.closed
	}
	batch, b.items = b.items, spare[:0]
	return batch, true
}

// take is tryTake that waits. It returns nothing, and false, once halted.
func (b *inbox) take(spare []*Delivery, halted *atomic.Bool) (batch []*Delivery, ok bool) {
	for {
		if halted.Load() {
			return nil, false
		}
		if batch, ok = b.tryTake(spare); len(batch) > 0 || !ok {
			return batch, ok
		}
		<-b.wake
	}
}

// received returns how many were ever put; it is final once closed.
func (b *inbox) received() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total
}
