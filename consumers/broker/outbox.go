package broker

import (
	"sync"
	"sync/atomic"
)

// outbox is a connection's output: frames are appended by whoever has
// something for the client, and written by the connection's writer, all that
// has gathered at once.
type outbox struct {
	limit   int64
	mu      sync.Mutex
	buf     []byte
	spare   []byte
	closed  bool
	size    atomic.Int64 // bytes appended and not written yet
	starved atomic.Bool  // a delivery was held back because the outbox was full
	wake    chan struct{}
	room    chan struct{} // signalled when the outbox falls under its limit
}

func newOutbox(limit int64) *outbox {
	return &outbox{limit: limit, wake: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// append adds frames; f appends them to the buffer that it gets.
func (o *outbox) append(f func([]byte) []byte) {
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		return
	}
	before := len(o.buf)
	o.buf = f(o.buf)
	o.size.Add(int64(len(o.buf) - before))
	o.mu.Unlock()
	signal(o.wake)
}

// admit says whether a delivery may be appended. After a no, the writer
// serves the connection's consumers again once there is room.
func (o *outbox) admit() bool {
	if o.size.Load() < o.limit {
		return true
	}
	o.starved.Store(true)
	return o.size.Load() < o.limit
}

// take is everything that waits to be written.
func (o *outbox) take() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := o.buf
	o.buf, o.spare = o.spare[:0], nil
	return out
}

// written gives a buffer back after its bytes have gone out.
func (o *outbox) written(buf []byte) {
	o.mu.Lock()
	if cap(buf) <= int(2*o.limit) {
		o.spare = buf[:0]
	}
	o.mu.Unlock()
	if o.size.Add(-int64(len(buf))) < o.limit {
		signal(o.room)
	}
}

// close drops all that comes from now on.
func (o *outbox) close() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	signal(o.wake)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
