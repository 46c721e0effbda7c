package broker

import (
	"encoding/binary"
	"slices"
	"sync/atomic"
	"time"
)

// channel is one channel of a connection. Content that comes in and confirms
// that go out belong to the connection's reader; the rest to the vhost's
// lock.
type channel struct {
	conn *conn
	id   uint16
	v    *vhost

	consumers       map[string]*consumer
	unacked         unacked
	nextTag         uint64
	consumed        int // unacknowledged deliveries to consumers
	prefetch        int // for the channel as a whole
	defaultPrefetch int // for each consumer to come
	flow            bool
	closing         atomic.Bool // changed under the lock
	lastQueue       string

	content   content
	confirms  bool
	published uint64 // publishings since confirm.select
	confirmed uint64 // of these, confirmed to the client
}

// content is a publishing of which frames are still to come.
type content struct {
	open   bool
	method method
	header []byte
	body   []byte
	size   uint64
}

func newChannel(c *conn, id uint16) *channel {
	return &channel{conn: c, id: id, v: c.vhost, consumers: make(map[string]*consumer), flow: true}
}

func (ch *channel) reply(id methodID, f func([]byte) []byte) { ch.conn.send(ch.id, id, f) }

func (ch *channel) ok(id methodID, noWait bool) {
	if !noWait {
		ch.reply(id, nil)
	}
}

// handle carries out one method, under the vhost's lock.
func (ch *channel) handle(m *method) *replyError {
	switch m.id {
	case channelFlow:
		return ch.setFlow(m)
	case channelFlowOk, basicCancelOk:
		return nil
	case exchangeDeclare:
		return ch.declareExchange(m)
	case exchangeDelete:
		return ch.deleteExchange(m)
	case exchangeBind, exchangeUnbind:
		return ch.bindExchange(m)
	case queueDeclare:
		return ch.declareQueue(m)
	case queueBind, queueUnbind:
		return ch.bindQueue(m)
	case queuePurge:
		return ch.purgeQueue(m)
	case queueDelete:
		return ch.deleteQueue(m)
	case basicQos:
		return ch.qos(m)
	case basicConsume:
		return ch.consume(m)
	case basicCancel:
		return ch.cancel(m)
	case basicGet:
		return ch.get(m)
	case basicAck, basicReject, basicNack:
		return ch.settle(m)
	case basicRecover, basicRecoverAsync:
		return ch.recover(m)
	case confirmSelect:
		ch.confirms = true
		ch.ok(confirmSelectOk, m.bit(0))
		return nil
	case txSelect, txCommit, txRollback:
		return connectionError(540, "%s is not implemented by the embedded broker", m.id)
	}
	return connectionError(503, "%s is not valid on a channel", m.id)
}

func (ch *channel) setFlow(m *method) *replyError {
	ch.flow = m.bit(0)
	ch.reply(channelFlowOk, func(b []byte) []byte { return append(b, boolByte(ch.flow)) })
	if ch.flow {
		ch.serveAll()
	}
	return nil
}

// serveAll lets every queue that the channel consumes from deliver again.
func (ch *channel) serveAll() {
	for _, c := range ch.consumers {
		c.q.dispatch()
	}
}

func (ch *channel) qos(m *method) *replyError {
	if m.size != 0 {
		return connectionError(540, "prefetch_size!=0 (%d)", m.size)
	}
	if !m.bit(0) {
		ch.defaultPrefetch = int(m.count)
		ch.ok(basicQosOk, false)
		return nil
	}
	if m.count > 0 {
		for _, c := range ch.consumers {
			if c.q.quorum {
				return connectionError(540, "queue '%s' in vhost '%s' does not support global qos", c.q.name, ch.v.name)
			}
		}
	}
	ch.prefetch = int(m.count)
	ch.ok(basicQosOk, false)
	ch.serveAll()
	return nil
}

func (ch *channel) consume(m *method) *replyError {
	q, refused := ch.queueFor(m.queue, permRead)
	if refused != nil {
		return refused
	}
	c := &consumer{
		tag: m.tag, ch: ch, q: q, noAck: m.bit(1), exclusive: m.bit(2), prefetch: ch.defaultPrefetch, args: m.args, since: time.Now(),
	}
	if c.tag == "" {
		c.tag = generatedName("amq.ctag-")
	}
	if _, ok := ch.consumers[c.tag]; ok {
		return connectionError(530, "attempt to reuse consumer tag '%s'", c.tag)
	}
	if c.noAck {
		c.prefetch = 0
	}
	if refused := c.check(); refused != nil {
		return refused
	}
	if refused := ch.v.room("consumer", c.tag, ch.conn.consumers, ch.v.b.cfg.MaxQueues, c.args); refused != nil {
		return refused
	}
	ch.conn.consumers++
	ch.consumers[c.tag] = c
	if !m.bit(3) {
		ch.reply(basicConsumeOk, func(b []byte) []byte { return appendShortstr(b, c.tag) })
	}
	q.subscribe(c)
	q.dispatch()
	return nil
}

// check refuses a consumer that its queue does not allow.
func (c *consumer) check() *replyError {
	q := c.q
	if p, ok := c.args["x-priority"]; ok {
		n, isNumber := integer(p)
		if !isNumber {
			return channelError(406, "invalid arg 'x-priority' for %s: %s", q.v.describe(q.name), expectedInteger(p))
		}
		c.priority = n
	}
	taken := len(q.consumers) > 0 && (c.exclusive || q.consumers[0].exclusive)
	if taken || c.exclusive && q.set.singleActive {
		return channelError(403, "%s in exclusive use", q.v.describe(q.name))
	}
	if q.quorum && c.ch.prefetch > 0 {
		return connectionError(540, "%s does not support global qos", q.v.describe(q.name))
	}
	return nil
}

func (ch *channel) cancel(m *method) *replyError {
	c := ch.consumers[m.tag]
	if c != nil {
		ch.drop(c)
	}
	if !m.bit(0) {
		ch.reply(basicCancelOk, func(b []byte) []byte { return appendShortstr(b, m.tag) })
	}
	if c != nil {
		ch.conn.b.faults.cancelled(c)
		c.q.unsubscribe(c)
	}
	return nil
}

func (ch *channel) get(m *method) *replyError {
	q, refused := ch.queueFor(m.queue, permRead)
	if refused != nil {
		return refused
	}
	if q.quorum && q.set.singleActive {
		return channelError(405, "cannot obtain access to locked %s. basic.get operations are not supported by quorum queues with single active consumer", ch.v.describe(q.name))
	}
	q.touch()
	q.expire()
	it := q.ready.pop()
	if it == nil {
		q.stats.gotEmpty++
		ch.reply(basicGetEmpty, func(b []byte) []byte { return append(b, 0) })
		return nil
	}
	noAck := m.bit(0)
	ch.nextTag++
	header := it.msg.header
	if q.quorum && it.deliveries > 0 {
		header = redeliveryHeader(it)
	}
	ch.conn.out.append(func(b []byte) []byte {
		b = appendGetOk(b, ch.id, ch.nextTag, it, q.ready.n)
		return appendContent(b, ch.id, header, it.msg.body, ch.conn.frameMax)
	})
	q.stats.got(it, noAck)
	if noAck {
		ch.v.release(it.msg)
		return nil
	}
	q.unacked++
	ch.unacked.add(pending{tag: ch.nextTag, item: it, queue: q, since: ch.v.now()})
	return nil
}

// settle is basic.ack, basic.nack and basic.reject.
func (ch *channel) settle(m *method) *replyError {
	multiple := m.id != basicReject && m.bit(0)
	requeue := m.id == basicReject && m.bit(0) || m.id == basicNack && m.bit(1)
	var taken []pending
	switch {
	case multiple && m.delivery == 0:
		taken = ch.unacked.takeAll()
	case ch.unacked.find(m.delivery) < 0:
		return channelError(406, "unknown delivery tag %d", m.delivery)
	case multiple:
		ch.unacked.takeUpTo(m.delivery, func(p pending) { taken = append(taken, p) })
	default:
		// The common case needs no slice.
		p, _ := ch.unacked.take(m.delivery)
		if !requeue {
			ch.free(p)
			p.queue.settle(p, m.id != basicAck)
			ch.resume(p.queue)
			return nil
		}
		taken = []pending{p}
	}
	if requeue {
		by := byNack
		if m.id == basicReject {
			by = byReject
		}
		ch.giveBack(taken, by)
		return nil
	}
	for _, p := range taken {
		ch.free(p)
		p.queue.settle(p, m.id != basicAck)
	}
	ch.resumeAll(taken)
	return nil
}

// free takes a delivery off the counts that prefetch looks at.
func (ch *channel) free(p pending) {
	if p.from == nil {
		return
	}
	p.from.unacked--
	ch.consumed--
	if p.from.unacked == 0 {
		delete(p.queue.leaving, p.from)
	}
}

// resume lets a queue deliver again after an acknowledgement. A prefetch for
// the whole channel may have held back other queues too.
func (ch *channel) resume(q *queue) {
	if ch.prefetch > 0 {
		ch.serveAll()
		return
	}
	q.dispatch()
}

func (ch *channel) resumeAll(taken []pending) {
	var last *queue
	for _, p := range taken {
		if p.queue != last {
			last = p.queue
			ch.resume(last)
		}
	}
}

// giveBack returns deliveries to their queues.
func (ch *channel) giveBack(taken []pending, by comeback) {
	byQueue := make(map[*queue][]pending)
	var order []*queue
	for _, p := range taken {
		ch.free(p)
		if _, ok := byQueue[p.queue]; !ok {
			order = append(order, p.queue)
		}
		byQueue[p.queue] = append(byQueue[p.queue], p)
	}
	for _, q := range order {
		q.giveBack(byQueue[q], by)
	}
	ch.resumeAll(taken)
}

func (ch *channel) recover(m *method) *replyError {
	if !m.bit(0) {
		return connectionError(540, "requeue=false")
	}
	ch.giveBack(ch.unacked.takeAll(), byNack)
	if m.id == basicRecover {
		ch.ok(basicRecoverOk, false)
	}
	return nil
}

// drop forgets a consumer of the channel; its queue is told elsewhere.
func (ch *channel) drop(c *consumer) {
	delete(ch.consumers, c.tag)
	ch.conn.consumers--
}

// close takes the channel's consumers away and returns its deliveries.
func (ch *channel) close() {
	ch.closing.Store(true)
	tags := make([]string, 0, len(ch.consumers))
	for tag := range ch.consumers {
		tags = append(tags, tag)
	}
	slices.Sort(tags)
	var gone []*consumer
	for _, tag := range tags {
		gone = append(gone, ch.consumers[tag])
	}
	for _, c := range gone {
		ch.drop(c)
	}
	ch.giveBack(ch.unacked.takeAll(), byClosing)
	for _, c := range gone {
		c.q.unsubscribe(c)
		c.q.dispatch()
	}
}

// queueName is the name a method means: an empty one is the queue that the
// channel declared last.
func (ch *channel) queueName(name string) (string, *replyError) {
	if name != "" {
		return name, nil
	}
	if ch.lastQueue == "" {
		return "", connectionError(404, "no previously declared queue")
	}
	return ch.lastQueue, nil
}

// queueFor finds the queue that a method means, which the user must have the
// permission for.
func (ch *channel) queueFor(name string, p permission) (*queue, *replyError) {
	name, refused := ch.queueName(name)
	if refused != nil {
		return nil, refused
	}
	if refused := ch.conn.allowed(p, "queue", name); refused != nil {
		return nil, refused
	}
	return ch.v.queueFor(ch.conn, name)
}

// flushConfirms sends one basic.ack for all publishings taken since the last.
func (ch *channel) flushConfirms() {
	if ch.confirmed == ch.published {
		return
	}
	n := ch.published - ch.confirmed
	ch.confirmed = ch.published
	ch.reply(basicAck, func(b []byte) []byte {
		b = binary.BigEndian.AppendUint64(b, ch.confirmed)
		return append(b, boolByte(n > 1))
	})
}

// refuse sends basic.nack for the publishing just taken.
func (ch *channel) refuse() {
	ch.published--
	ch.flushConfirms()
	ch.published++
	ch.confirmed = ch.published
	ch.reply(basicNack, func(b []byte) []byte {
		return append(binary.BigEndian.AppendUint64(b, ch.published), 0)
	})
}
