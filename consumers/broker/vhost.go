package broker

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// vhost is one namespace of exchanges and queues. Its lock guards all that
// routing and delivery touch: exchanges, queues, consumers, and the channels'
// unacknowledged deliveries. Nothing blocks while it is held: what goes to a
// client is appended to the connection's output and written elsewhere.
type vhost struct {
	b    *Broker
	name string

	mu        sync.Mutex
	exchanges map[string]*exchange
	queues    map[string]*queue
	bindings  int // of all exchanges
	policies  []Policy
	targets   []*queue // scratch of route
}

func newVhost(b *Broker, name string) *vhost {
	v := &vhost{b: b, name: name, exchanges: make(map[string]*exchange), queues: make(map[string]*queue)}
	for name, kind := range map[string]string{
		"": "direct", "amq.direct": "direct", "amq.fanout": "fanout", "amq.topic": "topic",
		"amq.headers": "headers", "amq.match": "headers",
	} {
		v.exchanges[name] = &exchange{name: name, kind: kind, durable: true}
	}
	return v
}

// now is the broker's monotonic time in nanoseconds.
func (v *vhost) now() int64 { return v.b.now() }

// after runs f under the vhost's lock when d has passed.
func (v *vhost) after(d time.Duration, f func()) *time.Timer {
	return time.AfterFunc(d, func() {
		defer v.b.rescue("timer")
		v.mu.Lock()
		defer v.mu.Unlock()
		if !v.b.stopped() {
			f()
		}
	})
}

// rescue keeps a panic in one goroutine from ending the process.
func (b *Broker) rescue(what string) {
	if p := recover(); p != nil {
		b.log.Error("panic in the embedded broker", "in", what, "panic", p, "stack", string(debug.Stack()))
	}
}

// retain counts one more queue that holds m, release one less; the broker's
// memory is the sum over messages that some queue holds.
func (v *vhost) retain(m *message) {
	m.refs++
	if m.refs == 1 {
		v.b.memory.add(m.size())
	}
}

func (v *vhost) release(m *message) {
	m.refs--
	if m.refs == 0 {
		v.b.memory.add(-m.size())
	}
}

// outcome is what became of a published message.
type outcome struct {
	routed   int
	rejected bool
}

// publish routes a message to every queue that accept lets through.
func (v *vhost) publish(x *exchange, m *message, accept func(*queue) bool) outcome {
	queues := v.route(x, m)
	v.targets = nil // dead letters publish while the queues are walked
	var out outcome
	// Held until every queue has it, or a consumer that takes it at once
	// would let its memory be counted twice.
	v.retain(m)
	for _, q := range queues {
		if accept != nil && !accept(q) {
			continue
		}
		out.routed++
		if !q.deleted && !q.enqueue(m) {
			out.rejected = true
		}
	}
	v.release(m)
	v.targets = queues[:0]
	return out
}

// deleteQueue removes a queue, its bindings and its messages, and cancels its
// consumers.
func (v *vhost) deleteQueue(q *queue) {
	if q.deleted {
		return
	}
	q.deleted = true
	delete(v.queues, q.name)
	q.stopTimers()
	q.purge()
	for _, c := range q.consumers {
		c.cancelByServer()
	}
	q.consumers, q.active = nil, nil
	if q.owner != nil {
		delete(q.owner.exclusives, q)
	}
	v.dropBindings(func(b *binding) bool { return b.queue == q })
}

// dropBindings removes bindings everywhere, and auto-delete exchanges that
// lost their last one.
func (v *vhost) dropBindings(f func(*binding) bool) {
	for _, x := range v.exchanges {
		n := x.unbindIf(f)
		v.bindings -= n
		if n > 0 && x.autoDelete && len(x.bindings) == 0 {
			v.deleteExchange(x)
		}
	}
}

func (v *vhost) deleteExchange(x *exchange) {
	delete(v.exchanges, x.name)
	v.bindings -= x.unbindIf(func(*binding) bool { return true })
	v.dropBindings(func(b *binding) bool { return b.target == x })
}

// queueFor finds a queue that this connection may use.
func (v *vhost) queueFor(c *conn, name string) (*queue, *replyError) {
	q := v.queues[name]
	if q == nil {
		return nil, channelError(404, "no queue '%s' in vhost '%s'", name, v.name)
	}
	if q.exclusive && q.owner != c {
		return nil, channelError(405, "cannot obtain exclusive access to locked queue '%s' in vhost '%s'. It could be originally declared on another connection or the exclusive property value does not match that of the original declaration.", name, v.name)
	}
	return q, nil
}

func (v *vhost) exchangeFor(name string) (*exchange, *replyError) {
	x := v.exchanges[name]
	if x == nil {
		return nil, channelError(404, "no exchange '%s' in vhost '%s'", name, v.name)
	}
	return x, nil
}

// crash is what a restart leaves of a vhost: durable queues with their
// persistent messages, durable exchanges, and the bindings between them.
func (v *vhost) crash() {
	for _, q := range v.queues {
		if !q.durable {
			v.deleteQueue(q)
			continue
		}
		q.keepPersistent()
		q.touch()
	}
	for _, x := range v.exchanges {
		if !x.durable {
			v.deleteExchange(x)
		}
	}
}

// keepPersistent drops the messages that a restart loses.
func (q *queue) keepPersistent() {
	kept := newReady(q.set.priorities)
	for q.ready.n > 0 {
		if it := q.ready.pop(); it.msg.persistent || q.quorum {
			kept.push(it)
		} else {
			q.v.release(it.msg)
		}
	}
	q.ready = kept
}

func generatedName(prefix string) string {
	var raw [16]byte
	rand.Read(raw[:]) //nolint:errcheck // crypto/rand.Read never fails
	return prefix + base64.RawURLEncoding.EncodeToString(raw[:])
}

func (v *vhost) describe(q string) string { return fmt.Sprintf("queue '%s' in vhost '%s'", q, v.name) }

// wakeUp arms the timers of what a restart kept.
func (v *vhost) wakeUp() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, q := range v.queues {
		q.expiry, q.idle = nil, nil
		q.touch()
		q.expire()
	}
}
