package consumers

import (
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// tracker turns the settlements of one channel into as few frames as possible.
// Delivery tags of a channel are consecutive, so every tag from base on is
// outstanding until it was settled here, seen or not: a multiple ack never
// covers a message that is still being handled, whatever the order of
// completion. Its methods may be called from any goroutine.
type tracker struct {
	to    amqp.Acknowledger
	batch int           // acks per frame
	idle  time.Duration // the longest that an ack is held back

	mu      sync.Mutex
	base    uint64       // lowest tag whose settlement was not sent
	ring    []settlement // of the tags from base on; its length is a power of two
	end     uint64       // one past the highest tag settled
	pending int          // acks not sent
	settled uint64       // messages settled, sent or not
	timer   *time.Timer
	armed   bool
	closed  bool
	frames  uint64 // ack frames sent

	goal    uint64
	reached chan struct{}
}

func newTracker(to amqp.Acknowledger, batch int, idle time.Duration) *tracker {
	return &tracker{to: to, batch: max(batch, 1), idle: idle, base: 1, end: 1, ring: make([]settlement, 64)}
}

func (t *tracker) at(tag uint64) *settlement { return &t.ring[tag&uint64(len(t.ring)-1)] }

// grow makes room for tag.
func (t *tracker) grow(tag uint64) {
	n := len(t.ring)
	for tag-t.base >= uint64(n) {
		n *= 2
	}
	if n == len(t.ring) {
		return
	}
	old := t.ring
	t.ring = make([]settlement, n)
	for i := t.base; i < t.end; i++ {
		*t.at(i) = old[i&uint64(len(old)-1)]
	}
}

// settle records the settlement of one message and sends what is due.
func (t *tracker) settle(tag uint64, what settlement) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return ErrStale
	}
	if tag < t.base {
		return ErrSettled
	}
	t.grow(tag)
	s := t.at(tag)
	if tag < t.end && *s != outstanding {
		return ErrSettled
	}
	t.end = max(t.end, tag+1)
	t.settled++
	t.check()
	if what != acked {
		*s = sent
		return t.lost(t.send(tag, what))
	}
	*s = acked
	if t.pending++; t.pending >= t.batch {
		return t.lost(t.flush())
	}
	if !t.armed {
		t.arm()
	}
	return nil
}

func (t *tracker) send(tag uint64, what settlement) error {
	if what == requeued {
		return t.to.Nack(tag, false, true)
	}
	return t.to.Reject(tag, false)
}

// lost closes the tracker where the channel could not be written to.
func (t *tracker) lost(err error) error {
	if err == nil {
		return nil
	}
	t.shut()
	return ErrStale
}

func (t *tracker) arm() {
	t.armed = true
	if t.timer == nil {
		t.timer = time.AfterFunc(t.idle, t.expire)
		return
	}
	t.timer.Reset(t.idle)
}

func (t *tracker) expire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.armed = false
	if !t.closed && t.pending > 0 {
		_ = t.lost(t.flush())
	}
}

// flush sends the pending acks: one frame for all up to the first message that
// is not settled, one frame each for those after it.
func (t *tracker) flush() error {
	if t.pending == 0 {
		return nil
	}
	// The tag of a multiple ack must itself be unacked: the broker answers 406
	// for one that it does not know.
	var last uint64
	n := 0
	for ; t.base < t.end; t.base++ {
		s := t.at(t.base)
		if *s == outstanding {
			break
		}
		if *s == acked {
			last = t.base
			n++
		}
		*s = outstanding
	}
	if n > 0 {
		t.pending -= n
		t.frames++
		if err := t.to.Ack(last, n > 1); err != nil {
			return err
		}
	}
	for tag := t.base; t.pending > 0 && tag < t.end; tag++ {
		if s := t.at(tag); *s == acked {
			*s = sent
			t.pending--
			t.frames++
			if err := t.to.Ack(tag, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// count returns how many messages were settled.
func (t *tracker) count() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.settled
}

// sent returns how many ack frames were sent.
func (t *tracker) sent() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.frames
}

// whenSettled returns a channel that is closed when total messages are settled.
func (t *tracker) whenSettled(total uint64) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	reached := make(chan struct{})
	t.goal, t.reached = total, reached
	t.check()
	return reached
}

func (t *tracker) check() {
	if t.reached != nil && t.settled >= t.goal {
		close(t.reached)
		t.reached = nil
	}
}

// outstandingUpTo returns the tags up to last that are not settled.
func (t *tracker) outstandingUpTo(last uint64) []uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	var tags []uint64
	for tag := t.base; tag <= last; tag++ {
		if tag >= t.end || *t.at(tag) == outstanding {
			tags = append(tags, tag)
		}
	}
	return tags
}

// finish sends the pending acks, gives everything else back where asked to, and
// refuses later settlements.
func (t *tracker) finish(giveBack bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return ErrStale
	}
	err := t.flush()
	if err == nil && giveBack {
		// Tag 0 stands for all that are unacked, also those that the client
		// never showed.
		err = t.to.Nack(0, true, true)
	}
	t.shut()
	return err
}

// abort refuses later settlements and sends nothing.
func (t *tracker) abort() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.shut()
}

func (t *tracker) shut() {
	t.closed = true
	if t.timer != nil {
		t.timer.Stop()
	}
}
