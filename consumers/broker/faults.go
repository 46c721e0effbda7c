package broker

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// faults are the hooks by which tests make the broker misbehave. Idle they
// cost an atomic load for each frame.
type faults struct {
	frozen   atomic.Pointer[chan struct{}] // closed by Thaw; nil: not frozen
	delay    atomic.Int64
	dropping atomic.Int64 // methods still to drop, of all names
	late     atomic.Pointer[lateDeliveries]
	mu       sync.Mutex
	drop     map[string]int
}

// lateDeliveries is what DeliverAfterCancel asked for.
type lateDeliveries struct {
	left  atomic.Int64 // cancels
	after time.Duration
}

// pass waits while the broker is frozen.
func (f *faults) pass(done <-chan struct{}) error {
	thawed := f.frozen.Load()
	if thawed == nil {
		return nil
	}
	select {
	case <-*thawed:
		return nil
	case <-done:
		return net.ErrClosed
	}
}

// pause is the delay before each write.
func (f *faults) pause(done <-chan struct{}) {
	d := time.Duration(f.delay.Load())
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-done:
	}
}

// drops says whether this reply is to be swallowed.
func (f *faults) drops(id methodID) bool {
	if f.dropping.Load() == 0 {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.drop[id.String()] == 0 {
		return false
	}
	f.drop[id.String()]--
	f.dropping.Add(-1)
	return true
}

// Freeze makes the broker silent: sockets stay open and connections are
// accepted, but nothing is read further or answered until Thaw.
func (b *Broker) Freeze() {
	c := make(chan struct{})
	b.faults.frozen.CompareAndSwap(nil, &c)
}

// Thaw ends a Freeze. What came in meanwhile is carried out.
func (b *Broker) Thaw() {
	if c := b.faults.frozen.Swap(nil); c != nil {
		close(*c)
	}
}

// Delay holds every write to a client back by d, until Delay(0).
func (b *Broker) Delay(d time.Duration) { b.faults.delay.Store(int64(d)) }

// DropReply swallows the next n methods of this name that the broker would
// send, such as "basic.cancel-ok". Deliveries cannot be dropped.
func (b *Broker) DropReply(name string, n int) {
	b.faults.mu.Lock()
	defer b.faults.mu.Unlock()
	if b.faults.drop == nil {
		b.faults.drop = make(map[string]int)
	}
	b.faults.drop[name] += n
	b.faults.dropping.Add(int64(n))
}

// DeliverAfterCancel makes the next n cancels break the rule that nothing
// follows basic.cancel-ok: when after has passed since it, one more message of
// the queue is delivered to the cancelled consumer, where the queue has one and
// the channel is still open. It replaces what an earlier call has left.
func (b *Broker) DeliverAfterCancel(n int, after time.Duration) {
	l := &lateDeliveries{after: after}
	l.left.Store(int64(n))
	b.faults.late.Store(l)
}

// cancelled delivers a late message to a consumer that was just cancelled,
// where DeliverAfterCancel asked for it; the vhost's lock is held.
func (f *faults) cancelled(c *consumer) {
	l := f.late.Load()
	if l == nil || l.left.Add(-1) < 0 {
		return
	}
	if l.after <= 0 {
		c.deliverLate()
		return
	}
	time.AfterFunc(l.after, func() {
		defer c.ch.conn.b.rescue("late delivery")
		c.ch.v.mu.Lock()
		defer c.ch.v.mu.Unlock()
		c.deliverLate()
	})
}

// deliverLate is deliver without asking whether the consumer may have more.
func (c *consumer) deliverLate() {
	if c.ch.closing.Load() {
		return
	}
	if it := c.q.ready.pop(); it != nil {
		c.deliver(it)
	}
}

// Block raises an alarm: connections that publish are told and held back, as
// RabbitMQ does when memory or disk run low.
func (b *Broker) Block(reason string) {
	if reason == "" {
		reason = "low on memory"
	}
	b.memory.update(func() { b.memory.reason = reason })
}

// Unblock ends the alarm of Block.
func (b *Broker) Unblock() { b.memory.update(func() { b.memory.reason = "" }) }

// tellBlocked sends connection.blocked once for an alarm.
func (b *Broker) tellBlocked(c *conn) {
	if !c.blockedNotify || c.blocked.Swap(true) {
		return
	}
	reason := b.memory.why()
	c.send(0, connectionBlocked, func(out []byte) []byte { return appendShortstr(out, reason) })
}

// alarmChanged tells connections that were held back when an alarm is over.
// Its beginning they learn when they publish; others never do. It looks at
// the state of now, so that two changes in a row cannot be told in the wrong
// order.
func (b *Broker) alarmChanged() {
	defer b.rescue("alarm")
	b.alarms.Lock()
	defer b.alarms.Unlock()
	on := b.memory.on.Load()
	b.log.Warn("memory alarm", "on", on, "reason", b.memory.why(), "bytes", b.memory.used.Load())
	if on {
		return
	}
	for _, c := range b.conns() {
		if c.blocked.Swap(false) {
			c.send(0, connectionUnblocked, nil)
		}
	}
}

// Kill closes the socket of one connection without a word, and says whether
// there was such a connection.
func (b *Broker) Kill(id uint64) bool {
	for _, c := range b.conns() {
		if c.id == id {
			c.kill()
			return true
		}
	}
	return false
}

// KillAll closes the sockets of all connections without a word.
func (b *Broker) KillAll() {
	for _, c := range b.conns() {
		c.kill()
	}
}

// CancelConsumer cancels a consumer from the broker's side, as RabbitMQ does
// when a queue goes away, and says whether there was one. An empty tag means
// every consumer of the queue.
func (b *Broker) CancelConsumer(vhost, queue, tag string) bool {
	v := b.vhost(vhost)
	if v == nil {
		return false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	q := v.queues[queue]
	if q == nil {
		return false
	}
	var found []*consumer
	for _, c := range q.consumers {
		if tag == "" || c.tag == tag {
			found = append(found, c)
		}
	}
	for _, c := range found {
		c.cancelByServer()
		q.unsubscribe(c)
	}
	return len(found) > 0
}
