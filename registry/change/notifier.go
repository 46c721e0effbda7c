package change

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// Notifier is told about delivered changes. Each has a goroutine and a mailbox of its own, so a slow one delays
// nobody else; it falls behind alone, and is then told the latest state of each key rather than each step.
type Notifier struct {
	// Mailbox is how many deliveries may wait for this notifier; beyond it the oldest is a dead letter. Default
	// DefaultMailbox.
	Mailbox int
	// Name says in reports which notifier it was. Each notifier needs its own.
	Name string
	// Notify is called for one delivery at a time. Its context ends when Close gives up. An error is retried after
	// 0.5, 1 and 2 s, unless a newer delivery of the key takes its place; after the last retry the delivery is a
	// dead letter. A panic counts as an error.
	Notify func(context.Context, Delivery) error
	// Sources are the sources that it listens to, see Subscribers and the sets beside it.
	Sources Sources
}

// retryAfter is the pause before each retry.
var retryAfter = [...]time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second}

// ErrMailboxFull is the error of a dead letter whose notifier is too far behind.
var ErrMailboxFull = errors.New("the notifier's mailbox is full")

// Result is how an attempt to notify ended.
type Result uint8

// The results.
const (
	Done       Result = iota
	Retrying          // failed, will be tried again
	Superseded        // failed, and a newer delivery of the key takes its place
	DeadLetter        // given up
)

func (r Result) String() string { return name(int(r), "done", "retrying", "superseded", "dead-letter") }

// Attempt reports one attempt to tell a notifier of a delivery.
type Attempt struct {
	Delivery Delivery
	Err      error // nil only with Done
	Notifier string
	Number   int // from 1; 0 where no attempt was made because the mailbox was full
	Result   Result
}

// mail is a delivery that waits for a notifier.
type mail struct {
	d          Delivery
	attempts   int
	due        int64
	list       *mailList
	prev, next *mail
}

type mailList struct{ head, tail *mail }

func (l *mailList) push(m *mail) {
	m.list, m.prev, m.next = l, l.tail, nil
	if l.tail == nil {
		l.head = m
	} else {
		l.tail.next = m
	}
	l.tail = m
}

func (l *mailList) remove(m *mail) {
	if m.prev == nil {
		l.head = m.next
	} else {
		m.prev.next = m.next
	}
	if m.next == nil {
		l.tail = m.prev
	} else {
		m.next.prev = m.prev
	}
	m.list, m.prev, m.next = nil, nil, nil
}

// mailbox holds the latest delivery per key for one notifier.
type mailbox struct {
	Notifier
	c      *Center
	ctx    context.Context
	cancel context.CancelFunc
	gone   chan struct{} // closed when the goroutine ended

	mu      sync.Mutex
	wake    chan struct{}
	byKey   map[*record]*mail
	temps   map[*record]int // temporary deliveries per key: each of them counts
	ready   mailList
	retry   [len(retryAfter)]mailList // constant pauses: a list each is in due order
	free    *mail
	dead    []Attempt // mailbox full; reported by the notifier's goroutine
	waiting int
	asleep  bool
	closed  bool
	running *record

	count NotifierCounters
}

// maxDead bounds the dead letters that wait to be reported; beyond it they are only counted.
const maxDead = 1024

func newMailbox(c *Center, n Notifier) *mailbox {
	m := &mailbox{
		Notifier: n, c: c, gone: make(chan struct{}), wake: make(chan struct{}, 1), byKey: map[*record]*mail{},
		temps: map[*record]int{},
	}
	m.count.Name = n.Name
	m.ctx, m.cancel = context.WithCancel(context.Background())
	go m.run()
	return m
}

// post puts the deliveries that the notifier is owed into the mailbox. It does not block on the notifier.
func (b *mailbox) post(batch []Delivery) {
	b.mu.Lock()
	for i := range batch {
		d := &batch[i]
		switch d.Outcome {
		case Suppressed, Stale:
		default:
			if b.Sources.Owes(d.Reasons) {
				b.put(d)
			}
		}
	}
	wake := b.asleep && b.ready.head != nil
	if wake {
		b.asleep = false
	}
	b.mu.Unlock()
	if wake {
		select {
		case b.wake <- struct{}{}:
		default:
		}
	}
}

func (b *mailbox) put(d *Delivery) {
	b.count.Posted++
	temporary := d.Outcome == DeliveredTemp
	if !temporary {
		if m := b.byKey[d.rec]; m != nil {
			b.count.Superseded++
			old := m.d
			m.d = *d
			m.d.absorb(&old)
			if m.list != &b.ready {
				m.list.remove(m)
				m.attempts = 0
				b.ready.push(m)
			}
			return
		}
	}
	if b.waiting >= b.Mailbox {
		b.overflow()
	}
	m := b.free
	if m == nil {
		m = &mail{}
	} else {
		b.free = m.next
	}
	*m = mail{d: *d}
	b.ready.push(m)
	b.waiting++
	b.enter(m)
}

// enter notes which record a mail holds.
func (b *mailbox) enter(m *mail) {
	if m.d.Outcome == DeliveredTemp {
		b.temps[m.d.rec]++
	} else {
		b.byKey[m.d.rec] = m
	}
}

// leave is the reverse of enter.
func (b *mailbox) leave(m *mail) {
	r := m.d.rec
	if m.d.Outcome != DeliveredTemp {
		if b.byKey[r] == m {
			delete(b.byKey, r)
		}
	} else if b.temps[r]--; b.temps[r] == 0 {
		delete(b.temps, r)
	}
}

// holds reports whether the mailbox refers to the record.
func (b *mailbox) holds(r *record) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.byKey[r] != nil || b.temps[r] > 0 || b.running == r
}

// absorb makes d tell also of what an older delivery of the key would have told.
func (d *Delivery) absorb(old *Delivery) {
	d.Merged += old.Merged + 1
	d.Stale += old.Stale
	d.Dropped += old.Dropped
	d.Prev = old.Prev
	d.Reasons |= old.Reasons
	d.Late = d.Late || old.Late
}

// overflow gives up the delivery that waits longest.
func (b *mailbox) overflow() {
	m := b.ready.head
	for i := range b.retry {
		if m == nil {
			m = b.retry[i].head
		}
	}
	b.count.DeadLetters++
	if len(b.dead) < maxDead {
		b.dead = append(b.dead, Attempt{Delivery: m.d, Err: ErrMailboxFull, Notifier: b.Name, Result: DeadLetter})
	}
	b.drop(m)
}

// drop removes a mail from the mailbox.
func (b *mailbox) drop(m *mail) {
	m.list.remove(m)
	b.leave(m)
	b.waiting--
	*m = mail{next: b.free}
	b.free = m
}

// run is the notifier's goroutine.
func (b *mailbox) run() {
	defer close(b.gone)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		if dead := b.dead; len(dead) > 0 {
			b.dead = nil
			b.mu.Unlock()
			for i := range dead {
				b.told(dead[i])
			}
			b.mu.Lock()
			continue
		}
		due := b.wakeRetries()
		switch {
		case b.ctx.Err() != nil:
			return
		case b.ready.head != nil:
			b.deliver(b.ready.head)
			continue
		case b.closed && b.waiting == 0:
			return
		}
		b.asleep = true
		b.mu.Unlock()
		timer.Reset(time.Duration(due - b.c.now()))
		select {
		case <-b.wake:
		case <-timer.C:
		case <-b.ctx.Done():
		}
		b.mu.Lock()
		b.asleep = false
	}
}

// wakeRetries makes retries ready whose pause is over, and says when the next one's is.
func (b *mailbox) wakeRetries() int64 {
	next := never
	for i := range b.retry {
		l := &b.retry[i]
		for l.head != nil {
			m := l.head
			if m.due > b.c.now() {
				next = min(next, m.due)
				break
			}
			l.remove(m)
			b.ready.push(m)
		}
	}
	return next
}

// deliver makes one attempt; the lock is given back meanwhile.
func (b *mailbox) deliver(m *mail) {
	d, number := m.d, m.attempts+1
	b.running = d.rec
	b.drop(m)
	b.mu.Unlock()
	err := b.call(d)
	b.mu.Lock()
	a := Attempt{Delivery: d, Err: err, Notifier: b.Name, Number: number}
	temporary := d.Outcome == DeliveredTemp
	newer := b.byKey[d.rec]
	switch {
	case err == nil:
		b.count.Done++
	case b.ctx.Err() != nil:
		// Close gave up: keep it where close counts what is left.
		a.Result = DeadLetter
		b.keep(&d, number, &b.ready)
	case newer != nil && !temporary:
		a.Result = Superseded
		b.count.Superseded++
		newer.d.absorb(&d)
	case number > len(retryAfter):
		a.Result = DeadLetter
		b.count.DeadLetters++
	default:
		a.Result = Retrying
		b.count.Retries++
		b.keep(&d, number, &b.retry[number-1])
	}
	b.mu.Unlock()
	b.told(a)
	b.mu.Lock()
	b.running = nil
}

// keep puts a failed delivery back into the mailbox.
func (b *mailbox) keep(d *Delivery, attempts int, l *mailList) {
	m := &mail{d: *d, attempts: attempts}
	if attempts <= len(retryAfter) {
		m.due = b.c.now() + int64(retryAfter[attempts-1])
	}
	l.push(m)
	b.waiting++
	b.enter(m)
}

func (b *mailbox) call(d Delivery) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("notifier %q panicked: %v", b.Name, v)
			b.c.cfg.Logger.Error("change: notifier panicked", "notifier", b.Name, "key", d.Key.String(), "panic", v,
				"stack", string(debug.Stack()))
		}
	}()
	return b.Notify(b.ctx, d)
}

// told notes a failed attempt in the key's statistics and reports every attempt.
func (b *mailbox) told(a Attempt) {
	if a.Err != nil {
		s, r := a.Delivery.shard, a.Delivery.rec
		s.mu.Lock()
		if r.key == a.Delivery.Key { // a dead letter of a full mailbox holds no record
			t := s.errs[r]
			t.last = fmt.Sprintf("%s: %v", b.Name, a.Err)
			if a.Result == Retrying {
				t.retries++
			}
			s.errs[r] = t
		}
		s.mu.Unlock()
		if a.Result == DeadLetter {
			b.c.cfg.Logger.Warn("change: dead letter", "notifier", b.Name, "key", a.Delivery.Key.String(), "error", a.Err)
		}
	}
	if b.c.cfg.Report == nil {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			b.c.cfg.Logger.Error("change: report panicked", "panic", v, "stack", string(debug.Stack()))
		}
	}()
	b.c.cfg.Report(a)
}

// close waits until the mailbox is empty, or ctx ends, and names the keys that are left.
func (b *mailbox) close(ctx context.Context, left func(Key)) error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
	defer b.cancel()
	select {
	case <-b.gone:
		return nil
	case <-ctx.Done():
	}
	b.cancel()
	var err error
	grace := time.NewTimer(time.Second)
	defer grace.Stop()
	select {
	case <-b.gone:
	case <-grace.C:
		err = fmt.Errorf("notifier %q does not return although its context ended", b.Name)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running != nil {
		left(b.running.key)
	}
	lists := []*mailList{&b.ready}
	for i := range b.retry {
		lists = append(lists, &b.retry[i])
	}
	for _, l := range lists {
		for l.head != nil {
			left(l.head.d.Key)
			b.count.Undelivered++
			b.drop(l.head)
		}
	}
	return err
}
