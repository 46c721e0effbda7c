package consumers

import "sync"

// inbox holds what was received for one worker. The worker takes everything
// that is there at once: under load one wake-up brings many messages.
type inbox struct {
	mu     sync.Mutex
	items  []*Delivery
	closed bool
	wake   chan struct{} // capacity 1
}

func newInbox() *inbox { return &inbox{wake: make(chan struct{}, 1)} }

func (b *inbox) put(d *Delivery) {
	b.mu.Lock()
	first := len(b.items) == 0
	b.items = append(b.items, d)
	b.mu.Unlock()
	if first {
		b.signal()
	}
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

// take is tryTake that waits.
func (b *inbox) take(spare []*Delivery) (batch []*Delivery, ok bool) {
	for {
		if batch, ok = b.tryTake(spare); len(batch) > 0 || !ok {
			return batch, ok
		}
		<-b.wake
	}
}
