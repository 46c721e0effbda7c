package broker

import (
	"slices"
	"time"
)

// queue holds messages and hands them to its consumers. All of it belongs to
// the vhost's lock.
type queue struct {
	v          *vhost
	name       string
	quorum     bool
	durable    bool
	exclusive  bool
	autoDelete bool
	owner      *conn // of an exclusive queue
	args       Table
	set        settings

	ready     ready
	consumers []*consumer        // highest priority first; the next to be served first among equals
	active    *consumer          // the single active consumer, where the queue has one
	leaving   map[*consumer]bool // of a quorum queue: cancelled, with deliveries not settled
	unacked   int
	nextSeq   uint64
	deleted   bool

	expiry    *time.Timer // for the next message that expires
	expiryAt  int64
	idle      *time.Timer // for x-expires
	lastUse   int64
	idleSince time.Time // wall clock, for the management API

	stats queueStats
}

// enqueue takes a message in, and says whether it did: a full queue whose
// overflow is reject-publish does not.
func (q *queue) enqueue(m *message) bool {
	if q.set.rejects() && q.full(len(m.body)) {
		if q.set.overflow == overflowRejectDLX {
			q.deadLetter(m, reasonMaxLength)
		}
		return false
	}
	it := &item{msg: m, seq: q.nextSeq}
	q.nextSeq++
	ttl := q.set.ttl
	if m.ttl >= 0 && (ttl < 0 || m.ttl < ttl) {
		ttl = m.ttl
	}
	if ttl >= 0 {
		it.expires = max(1, q.v.now()+int64(ttl))
	}
	q.v.retain(m)
	q.stats.published++
	if ttl == 0 && q.ready.n == 0 {
		// Without any time to wait it is for a consumer that waits, or nobody.
		if c := q.next(); c != nil {
			c.deliver(it)
			return true
		}
	}
	q.ready.push(it)
	q.dispatch()
	q.dropOverflow()
	q.expire()
	return true
}

func (q *queue) full(more int) bool {
	return q.set.maxLength >= 0 && int64(q.ready.n) >= q.set.maxLength ||
		q.set.maxBytes >= 0 && q.ready.bytes+int64(more) > q.set.maxBytes
}

// dropOverflow drops from the head while the queue is above its length limit.
func (q *queue) dropOverflow() {
	if q.set.rejects() {
		return
	}
	for q.ready.n > 0 && (q.set.maxLength >= 0 && int64(q.ready.n) > q.set.maxLength ||
		q.set.maxBytes >= 0 && q.ready.bytes > q.set.maxBytes) {
		q.discard(q.ready.popLowest(), reasonMaxLength)
	}
}

// expire drops what is over its time at the head, and arms the timer for the
// next.
func (q *queue) expire() {
	head := q.ready.peek()
	if head == nil || head.expires == 0 {
		return
	}
	now := q.v.now()
	for head != nil && head.expires != 0 && head.expires <= now {
		q.discard(q.ready.pop(), reasonExpired)
		head = q.ready.peek()
	}
	if head == nil || head.expires == 0 || q.expiry != nil && q.expiryAt <= head.expires {
		return
	}
	if q.expiry != nil {
		q.expiry.Stop()
	}
	q.expiryAt = head.expires
	var timer *time.Timer
	timer = q.v.after(time.Duration(head.expires-now), func() {
		if q.expiry == timer {
			q.expiry = nil
		}
		if !q.deleted {
			q.expire()
		}
	})
	q.expiry = timer
}

// discard lets an item go: to the dead letter exchange, where there is one.
func (q *queue) discard(it *item, why string) {
	if q.set.deadLetters {
		q.deadLetter(it.msg, why)
	}
	q.v.release(it.msg)
}

// dispatch hands ready items to consumers that can take them.
func (q *queue) dispatch() {
	for q.ready.n > 0 && len(q.consumers) > 0 {
		if it := q.ready.peek(); it.expires != 0 && it.expires <= q.v.now() {
			q.expire()
			continue
		}
		c := q.next()
		if c == nil {
			return
		}
		c.deliver(q.ready.pop())
	}
}

// next is the consumer to serve now: of the highest priority that can take
// something, the one served longest ago.
func (q *queue) next() *consumer {
	if q.set.singleActive {
		if q.active != nil && q.active.able() {
			return q.active
		}
		return nil
	}
	for i, c := range q.consumers {
		if !c.able() {
			continue
		}
		end := i
		for end+1 < len(q.consumers) && q.consumers[end+1].priority == c.priority {
			end++
		}
		copy(q.consumers[i:end], q.consumers[i+1:end+1])
		q.consumers[end] = c
		return c
	}
	return nil
}

// subscribe adds a consumer behind those of its priority.
func (q *queue) subscribe(c *consumer) {
	at := len(q.consumers)
	if !q.set.singleActive {
		for at > 0 && q.consumers[at-1].priority < c.priority {
			at--
		}
	}
	q.consumers = slices.Insert(q.consumers, at, c)
	if q.set.singleActive && q.active == nil {
		q.active = c
	}
	q.touch()
}

// unsubscribe removes a consumer; the last one takes an auto-delete queue
// with it.
func (q *queue) unsubscribe(c *consumer) {
	at := slices.Index(q.consumers, c)
	if at < 0 {
		return
	}
	q.consumers = slices.Delete(q.consumers, at, at+1)
	if q.quorum && c.unacked > 0 {
		if q.leaving == nil {
			q.leaving = make(map[*consumer]bool)
		}
		q.leaving[c] = true
	}
	if q.active == c {
		q.active = nil
		if len(q.consumers) > 0 {
			q.active = q.consumers[0]
		}
	}
	q.touch()
	if q.autoDelete && len(q.consumers) == 0 {
		q.v.deleteQueue(q)
		return
	}
	if q.quorum {
		// A classic queue waits for something else to happen, so that what a
		// cancelled consumer still gives back keeps its place.
		q.dispatch()
	}
}

// settle ends a delivery for good: acknowledged, or rejected.
func (q *queue) settle(p pending, rejected bool) {
	q.unacked--
	if rejected {
		if q.deleted {
			q.v.release(p.item.msg)
			return
		}
		q.discard(p.item, reasonRejected)
		return
	}
	q.stats.acked++
	q.v.release(p.item.msg)
}

// comeback says by which way deliveries return to their queue, because not
// every way counts against a quorum queue's delivery limit.
type comeback int

const (
	byNack    comeback = iota // basic.nack or basic.recover
	byReject                  // basic.reject
	byClosing                 // the channel or connection went away
)

// giveBack returns deliveries to their places in the queue.
func (q *queue) giveBack(returned []pending, by comeback) {
	q.unacked -= len(returned)
	if q.deleted {
		for _, p := range returned {
			q.v.release(p.item.msg)
		}
		return
	}
	counts := q.quorum && (by != byNack || !q.v.b.cfg.NackKeepsCount)
	for _, p := range slices.Backward(returned) {
		p.item.redelivered = true
		if counts {
			p.item.deliveries++
		}
		if q.quorum && q.set.deliveryLimit >= 0 && int64(p.item.deliveries) > q.set.deliveryLimit {
			q.discard(p.item, reasonDeliveryLimit)
			continue
		}
		q.ready.insert(p.item)
	}
	q.dispatch()
	q.dropOverflow()
	q.expire()
}

// purge drops every ready item and says how many there were.
func (q *queue) purge() int {
	n := q.ready.n
	for q.ready.n > 0 {
		q.v.release(q.ready.pop().msg)
	}
	return n
}

// touch marks the queue as used, for x-expires and idle_since.
func (q *queue) touch() {
	q.lastUse = q.v.now()
	q.idleSince = time.Now()
	if q.set.expires <= 0 || q.idle != nil || q.deleted {
		return
	}
	q.watchIdle(q.set.expires)
}

func (q *queue) watchIdle(wait time.Duration) {
	q.idle = q.v.after(wait, func() {
		q.idle = nil
		if q.deleted || q.set.expires <= 0 {
			return
		}
		left := q.set.expires - time.Duration(q.v.now()-q.lastUse)
		switch {
		case len(q.consumers) > 0:
			q.watchIdle(q.set.expires)
		case left > 0:
			q.watchIdle(left)
		default:
			q.v.deleteQueue(q)
		}
	})
}

func (q *queue) stopTimers() {
	if q.expiry != nil {
		q.expiry.Stop()
	}
	if q.idle != nil {
		q.idle.Stop()
	}
}
