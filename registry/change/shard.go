package change

import (
	"sync"
	"time"
)

// shard owns a part of the keys. Everything below mu is guarded by it; it is held for the length of one accept, or
// of one batch of at most batchSize keys, never while a callback runs.
type shard struct {
	c        *Center
	maxItems int
	maxKeys  int
	maxPend  int

	mu     sync.Mutex
	turn   *sync.Cond // a worker may have something to do
	wake   chan struct{}
	keys   table
	queues []*queue // [0] is what is due at once; the last one takes new keys
	temps  fifo[temp]
	parked []temp // of keys whose turn it was not
	errs   map[*record]trouble

	seq      uint64
	lastNow  int64 // the clock when it was last read
	sleeping int64 // until when the waiting worker sleeps
	led      bool  // a worker waits for the clock
	nextLook int64 // what is merely due is left to gather until then
	npend    int
	space    chan struct{} // closed when room is made; nil when nobody waits
	held     bool          // a client-off waits for room: new keys stand behind it
	closed   bool
	aborted  bool

	count Counters
}

// temp is a temporary event on its way.
type temp struct {
	rec     *record
	items   []Item
	first   int64
	version int64
	seq     uint64
	late    bool
}

// trouble is what notifiers said of a key.
type trouble struct {
	last    string
	retries int
}

const (
	batchSize = 64
	never     = int64(1)<<62 - 1
	// tick is how long keys gather after a batch that took all that was due: under load a worker wakes once for many.
	tick = int64(time.Millisecond)
)

func newShard(c *Center) *shard {
	s := &shard{
		c: c, maxItems: c.cfg.MaxItems, maxPend: c.cfg.MaxPending, maxKeys: c.cfg.MaxKeys,
		wake: make(chan struct{}, 1), sleeping: never,
		queues: []*queue{{}, {window: c.cfg.Window}}, errs: map[*record]trouble{}, keys: table{rehash: c.hash},
	}
	if s.maxKeys > 0 {
		s.maxKeys = max(1, s.maxKeys/c.cfg.Shards)
	}
	s.turn = sync.NewCond(&s.mu)
	return s
}

// now reads the clock and keeps the answer for those who can do with the last one.
func (s *shard) now() int64 {
	s.lastNow = s.c.now()
	return s.lastNow
}

// clock is the version that the last read time stands for.
func (s *shard) clock() int64 { return s.c.epoch + s.lastNow/int64(time.Microsecond) }

// room reports whether an event of this record, which may be nil, can be accepted now.
func (s *shard) room(r *record, temporary bool) bool {
	if temporary {
		return s.temps.len()+len(s.parked) < s.maxPend
	}
	return r != nil && r.waiting || s.npend < s.maxPend && !s.held
}

// accept takes an event that there is room for and returns its sequence number.
func (s *shard) accept(r *record, e *Event, hash uint64) uint64 {
	if r == nil {
		r = s.add(&e.Key, hash)
	}
	s.seq++
	s.count.Accepted++
	s.count.Pending++
	r.accepted++
	r.used = true
	if e.Late {
		r.late++
	}
	if e.Source == PubTemp {
		s.acceptTemp(r, e)
		return s.seq
	}
	s.touch(r)
	s.took(r, e.Source, s.apply(r, e, s.seq, s.lastNow, s.clock()))
	if e.Late {
		r.pend.late = true
	}
	if e.Scope == ScopeSnapshot {
		s.hurry(r)
	}
	return s.seq
}

// took counts an event that was applied.
func (s *shard) took(r *record, from Source, v verdict) {
	p := &r.pend
	p.events++
	switch v {
	case stale:
		p.stale++
		r.stale++
	case dropped:
		p.dropped++
		r.suppressed++
	default:
		p.reasons |= 1 << from
	}
}

// add makes a record, and room for it where the shard remembers too many.
func (s *shard) add(key *Key, hash uint64) *record {
	for s.maxKeys > 0 && s.keys.count >= s.maxKeys && s.keys.sweep(s.forget) {
		s.count.Forgotten++
	}
	r := s.keys.add(key, hash)
	r.firstSeen = s.now()
	return r
}

// forget reports whether the record must stay because a mailbox holds it; if not, its errors go with it.
func (s *shard) forget(r *record) (held bool) {
	for _, b := range s.c.notifiers {
		if b.holds(r) {
			return true
		}
	}
	delete(s.errs, r)
	return false
}

// touch makes the key wait, or, where it is debounced, wait on.
func (s *shard) touch(r *record) {
	p := &r.pend
	if r.waiting {
		if p.q != nil && p.q.debounces() {
			p.due = p.q.window.nextDue(p.first, s.now())
		}
		return
	}
	now := s.now()
	q := s.queues[len(s.queues)-1]
	r.waiting = true
	p.first, p.seq, p.existed = now, s.seq, r.exists
	p.due = q.window.nextDue(now, now)
	q.push(r)
	s.npend++
	s.alarm(p.due)
}

// hurry makes a key due at once.
func (s *shard) hurry(r *record) {
	p := &r.pend
	if p.q == s.queues[0] {
		return
	}
	p.due = s.now()
	if p.q != nil { // else its turn comes when the running delivery ends
		p.q.remove(r)
		s.queues[0].push(r)
		s.alarm(p.due)
	}
}

func (s *shard) acceptTemp(r *record, e *Event) {
	t := temp{rec: r, first: s.now(), version: r.localVersion(s.clock()), seq: s.seq, late: e.Late}
	r.floor = t.version
	t.items = append([]Item(nil), e.Items...)
	for i := range t.items {
		t.items[i].seq = s.seq
	}
	r.temps++
	s.temps.push(t)
	s.alarm(t.first)
}

// alarm wakes the worker that waits for the clock where it would sleep beyond due.
func (s *shard) alarm(due int64) {
	if due < s.sleeping {
		s.sleeping = due
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// spaceChan is closed the next time that room is made.
func (s *shard) spaceChan() <-chan struct{} {
	if s.space == nil {
		s.space = make(chan struct{})
	}
	return s.space
}

func (s *shard) madeRoom() {
	if s.space != nil {
		close(s.space)
		s.space = nil
	}
}

// setWindow makes w the setting of keys that start to wait from now on.
func (s *shard) setWindow(w Window) {
	for _, q := range s.queues[1:] {
		if q.window == w { // make it the last one again
			s.queues = append(remove(s.queues, q), q)
			return
		}
	}
	s.queues = append(s.queues, &queue{window: w})
}

func remove(list []*queue, q *queue) []*queue {
	out := list[:0:0]
	for _, x := range list {
		if x != q {
			out = append(out, x)
		}
	}
	return out
}

// firstDue is the pending key that is due next, in all queues, or nil. Queues of former settings go when they are
// empty.
func (s *shard) firstDue() *record {
	var best *record
	for i := 0; i < len(s.queues); i++ {
		q := s.queues[i]
		r := q.first()
		if r == nil {
			if i > 0 && i < len(s.queues)-1 {
				s.queues = remove(s.queues, q)
				i--
			}
			continue
		}
		if best == nil || r.pend.due < best.pend.due || r.pend.due == best.pend.due && r.pend.seq < best.pend.seq {
			best = r
		}
	}
	return best
}
