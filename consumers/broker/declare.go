package broker

import (
	"encoding/binary"
	"strings"
)

func (ch *channel) declareExchange(m *method) *replyError {
	noWait := m.bit(bitNoWait)
	x := ch.v.exchanges[m.exchange]
	if m.bit(bitPassive) {
		if x == nil {
			return channelError(404, "no exchange '%s' in vhost '%s'", m.exchange, ch.v.name)
		}
		ch.ok(exchangeDeclareOk, noWait)
		return nil
	}
	if refused := ch.conn.allowed(permConfigure, "exchange", m.exchange); refused != nil {
		return refused
	}
	if m.exchange == "" {
		return channelError(403, "operation not permitted on the default exchange")
	}
	if !knownKind(m.kind) {
		return connectionError(503, "invalid exchange type '%s'", m.kind)
	}
	if x != nil {
		if refused := ch.v.checkExchange(x, m); refused != nil {
			return refused
		}
		ch.ok(exchangeDeclareOk, noWait)
		return nil
	}
	if strings.HasPrefix(m.exchange, "amq.") {
		return channelError(403, "exchange name '%s' contains reserved prefix 'amq.*'", m.exchange)
	}
	if refused := ch.v.room("exchange", m.exchange, len(ch.v.exchanges), ch.v.b.cfg.MaxQueues, m.args); refused != nil {
		return refused
	}
	x = &exchange{name: m.exchange, kind: m.kind, durable: m.bit(1), autoDelete: m.bit(2), internal: m.bit(3), args: m.args}
	x.alternate, _ = m.args["alternate-exchange"].(string)
	ch.v.exchanges[x.name] = x
	ch.ok(exchangeDeclareOk, noWait)
	return nil
}

func (ch *channel) deleteExchange(m *method) *replyError {
	if refused := ch.conn.allowed(permConfigure, "exchange", m.exchange); refused != nil {
		return refused
	}
	if m.exchange == "" {
		return channelError(403, "operation not permitted on the default exchange")
	}
	if strings.HasPrefix(m.exchange, "amq.") {
		return channelError(403, "deletion of system exchange '%s' in vhost '%s' not allowed", m.exchange, ch.v.name)
	}
	if x := ch.v.exchanges[m.exchange]; x != nil {
		if m.bit(0) && len(x.bindings) > 0 {
			return channelError(406, "exchange '%s' in vhost '%s' in use", m.exchange, ch.v.name)
		}
		ch.v.deleteExchange(x)
	}
	ch.ok(exchangeDeleteOk, m.bit(1))
	return nil
}

// bindExchange is exchange.bind and exchange.unbind.
func (ch *channel) bindExchange(m *method) *replyError {
	if m.exchange == "" || m.queue == "" {
		return channelError(403, "operation not permitted on the default exchange")
	}
	if refused := ch.conn.allowed(permWrite, "exchange", m.queue); refused != nil {
		return refused
	}
	if refused := ch.conn.allowed(permRead, "exchange", m.exchange); refused != nil {
		return refused
	}
	source, refused := ch.v.exchangeFor(m.exchange)
	if refused != nil {
		return refused
	}
	target, refused := ch.v.exchangeFor(m.queue)
	if refused != nil {
		return refused
	}
	b := &binding{key: m.key, args: m.args, target: target}
	if m.id == exchangeBind {
		if refused := ch.v.bind(source, b); refused != nil {
			return refused
		}
		ch.ok(exchangeBindOk, m.bit(0))
		return nil
	}
	ch.v.unbind(source, b)
	ch.ok(exchangeUnbindOk, m.bit(0))
	return nil
}

func (v *vhost) bind(x *exchange, b *binding) *replyError {
	if refused := v.room("binding", b.key, v.bindings, 10*v.b.cfg.MaxQueues, b.args); refused != nil {
		return refused
	}
	if x.bind(b) {
		v.bindings++
	}
	return nil
}

// maxArgs is how many bytes of arguments one object may keep.
const maxArgs = 16 << 10

// room refuses a new object of which there are too many, or whose arguments
// are too large to keep.
func (v *vhost) room(kind, name string, have, limit int, args Table) *replyError {
	if have >= limit {
		return connectionError(506, "cannot declare %s '%s': %s limit in vhost '%s' (%d) is reached", kind, name, kind, v.name, limit)
	}
	if len(args) > 0 && len(appendTable(nil, args)) > maxArgs {
		return connectionError(506, "cannot declare %s '%s': its arguments are larger than %d bytes", kind, name, maxArgs)
	}
	return nil
}

func (v *vhost) unbind(x *exchange, b *binding) {
	n := x.unbindIf(b.same)
	v.bindings -= n
	if n > 0 && x.autoDelete && len(x.bindings) == 0 {
		v.deleteExchange(x)
	}
}

// bindQueue is queue.bind and queue.unbind.
func (ch *channel) bindQueue(m *method) *replyError {
	if m.exchange == "" {
		return channelError(403, "operation not permitted on the default exchange")
	}
	q, refused := ch.queueFor(m.queue, permWrite)
	if refused != nil {
		return refused
	}
	if refused := ch.conn.allowed(permRead, "exchange", m.exchange); refused != nil {
		return refused
	}
	x, refused := ch.v.exchangeFor(m.exchange)
	if refused != nil {
		return refused
	}
	key := m.key
	if m.queue == "" && key == "" {
		key = q.name
	}
	b := &binding{key: key, args: m.args, queue: q}
	if m.id == queueBind {
		if refused := ch.v.bind(x, b); refused != nil {
			return refused
		}
		ch.ok(queueBindOk, m.bit(0))
		return nil
	}
	ch.v.unbind(x, b)
	ch.ok(queueUnbindOk, false)
	return nil
}

func (ch *channel) declareQueue(m *method) *replyError {
	name, noWait := m.queue, m.bit(bitNoWait)
	if m.bit(bitPassive) {
		q, refused := ch.v.queueFor(ch.conn, name)
		if refused != nil {
			return refused
		}
		ch.declared(q, noWait)
		return nil
	}
	if name == "" {
		name = generatedName("amq.gen-")
	} else if strings.HasPrefix(name, "amq.") && ch.v.queues[name] == nil {
		return channelError(403, "queue name '%s' contains reserved prefix 'amq.*'", name)
	}
	if refused := ch.conn.allowed(permConfigure, "queue", name); refused != nil {
		return refused
	}
	if q := ch.v.queues[name]; q != nil {
		if refused := ch.redeclare(q, m); refused != nil {
			return refused
		}
		ch.declared(q, noWait)
		return nil
	}
	q, refused := ch.newQueue(name, m)
	if refused != nil {
		return refused
	}
	ch.declared(q, noWait)
	return nil
}

// declared answers a declaration and makes q the channel's last queue.
func (ch *channel) declared(q *queue, noWait bool) {
	ch.lastQueue = q.name
	q.touch()
	q.expire()
	if noWait {
		return
	}
	ch.reply(queueDeclareOk, func(b []byte) []byte {
		b = appendShortstr(b, q.name)
		b = binary.BigEndian.AppendUint32(b, uint32(q.ready.n))
		return binary.BigEndian.AppendUint32(b, uint32(q.subscribers()))
	})
}

// subscribers is the consumer count that a declaration reports. That of a
// quorum queue is wrong in the way of RabbitMQ before 4.3: a consumer that was
// cancelled counts until its deliveries are settled, and one that waits to
// become the single active consumer does not count.
func (q *queue) subscribers() int {
	n := len(q.consumers)
	if q.quorum && q.set.singleActive && n > 0 {
		n = 1
	}
	return n + len(q.leaving)
}

// comparedArgs are the arguments in which two declarations must agree.
var comparedArgs = []string{
	"x-expires", "x-message-ttl", "x-dead-letter-exchange", "x-dead-letter-routing-key", "x-max-length", "x-max-length-bytes",
	"x-single-active-consumer", "x-max-priority", "x-overflow", "x-queue-mode", "x-queue-type", "x-delivery-limit", "x-quorum-initial-group-size",
}

// redeclare compares a declaration with the queue that is there.
func (ch *channel) redeclare(q *queue, m *method) *replyError {
	unlike := func(arg string, received, current bool) *replyError {
		return channelError(406, "inequivalent arg '%s' for queue '%s' in vhost '%s': received '%v' but current is '%v'", arg, q.name, ch.v.name, received, current)
	}
	if q.durable != m.bit(bitDurable) {
		return unlike("durable", m.bit(bitDurable), q.durable)
	}
	if q.autoDelete != m.bit(bitAutoDelete) {
		return unlike("auto_delete", m.bit(bitAutoDelete), q.autoDelete)
	}
	if q.exclusive != m.bit(bitExclusive) || q.exclusive && q.owner != ch.conn {
		_, locked := ch.v.queueFor(ch.conn, q.name)
		if locked != nil {
			return locked
		}
		return channelError(405, "cannot obtain exclusive access to locked queue '%s' in vhost '%s'. It could be originally declared on another connection or the exclusive property value does not match that of the original declaration.", q.name, ch.v.name)
	}
	for _, arg := range comparedArgs {
		if arg == "x-queue-type" && queueType(m.args) == queueType(q.args) {
			continue
		}
		if refused := sameArg(arg, ch.v.describe(q.name), m.args, q.args); refused != nil {
			return refused
		}
	}
	return nil
}

func queueType(args Table) any {
	if kind, ok := args["x-queue-type"]; ok {
		return kind
	}
	return "classic"
}

func (ch *channel) newQueue(name string, m *method) (*queue, *replyError) {
	if refused := ch.v.checkArgs(name, m.args); refused != nil {
		return nil, refused
	}
	q := &queue{
		v: ch.v, name: name, args: m.args,
		durable: m.bit(bitDurable), exclusive: m.bit(bitExclusive), autoDelete: m.bit(bitAutoDelete),
	}
	switch kind, ok := m.args["x-queue-type"]; {
	case !ok || kind == "classic":
	case kind == "quorum":
		q.quorum = true
		if refused := q.checkQuorum(); refused != nil {
			return nil, refused
		}
	default:
		return nil, channelError(406, "invalid arg 'x-queue-type' for queue '%s' in vhost '%s': \"unsupported queue type '%v'\"", name, ch.v.name, kind)
	}
	if refused := ch.mayDeadLetter(name, m.args); refused != nil {
		return nil, refused
	}
	if refused := ch.v.room("queue", name, len(ch.v.queues), ch.v.b.cfg.MaxQueues, m.args); refused != nil {
		return nil, refused
	}
	q.set = ch.v.settings(q)
	q.ready = newReady(q.set.priorities)
	if q.exclusive {
		q.owner = ch.conn
		ch.conn.exclusives[q] = true
	}
	ch.v.queues[name] = q
	return q, nil
}

// checkQuorum refuses what quorum queues cannot be.
func (q *queue) checkQuorum() *replyError {
	invalid := func(what string) *replyError {
		return channelError(406, "invalid property '%s' for %s", what, q.v.describe(q.name))
	}
	switch {
	case q.autoDelete:
		return invalid("auto-delete")
	case q.exclusive:
		return invalid("exclusive-owner")
	case !q.durable:
		return invalid("non-durable")
	}
	for _, arg := range []string{"x-max-priority", "x-queue-mode"} {
		if _, ok := q.args[arg]; ok {
			return channelError(406, "invalid arg '%s' for queue '%s' in vhost '%s' of queue type rabbit_quorum_queue", arg, q.name, q.v.name)
		}
	}
	return nil
}

// mayDeadLetter checks that the user may read the queue and write to its dead
// letter exchange.
func (ch *channel) mayDeadLetter(name string, args Table) *replyError {
	to, ok := args["x-dead-letter-exchange"].(string)
	if !ok {
		if _, ok := args["x-dead-letter-routing-key"]; ok {
			return channelError(406, "invalid arg 'x-dead-letter-routing-key' for queue '%s' in vhost '%s': %s", name, ch.v.name, "routing_key_but_no_dlx_defined")
		}
		return nil
	}
	if refused := ch.conn.allowed(permRead, "queue", name); refused != nil {
		return refused
	}
	return ch.conn.allowed(permWrite, "exchange", to)
}

func (ch *channel) purgeQueue(m *method) *replyError {
	q, refused := ch.queueFor(m.queue, permRead)
	if refused != nil {
		return refused
	}
	ch.counted(queuePurgeOk, m.bit(0), q.purge())
	return nil
}

func (ch *channel) counted(id methodID, noWait bool, n int) {
	if !noWait {
		ch.reply(id, func(b []byte) []byte { return binary.BigEndian.AppendUint32(b, uint32(n)) })
	}
}

func (ch *channel) deleteQueue(m *method) *replyError {
	name, refused := ch.queueName(m.queue)
	if refused != nil {
		return refused
	}
	if refused := ch.conn.allowed(permConfigure, "queue", name); refused != nil {
		return refused
	}
	ifUnused, ifEmpty, noWait := m.bit(0), m.bit(1), m.bit(2)
	if ch.v.queues[name] == nil {
		ch.counted(queueDeleteOk, noWait, 0)
		return nil
	}
	q, refused := ch.v.queueFor(ch.conn, name)
	if refused != nil {
		return refused
	}
	if ifUnused && len(q.consumers) > 0 {
		return channelError(406, "%s in use", ch.v.describe(name))
	}
	if ifEmpty && q.ready.n > 0 {
		return channelError(406, "%s not empty", ch.v.describe(name))
	}
	n := q.ready.n
	ch.v.deleteQueue(q)
	ch.counted(queueDeleteOk, noWait, n)
	return nil
}

// publish routes a message that has come in whole.
func (ch *channel) publish(c *content) *replyError {
	m := &c.method
	if ch.confirms {
		ch.published++
	}
	if refused := ch.conn.allowed(permWrite, "exchange", m.exchange); refused != nil {
		return refused
	}
	x, refused := ch.v.exchangeFor(m.exchange)
	if refused != nil {
		return refused
	}
	if x.internal {
		return channelError(403, "cannot publish to internal exchange '%s' in vhost '%s'", x.name, ch.v.name)
	}
	if m.bit(1) {
		return connectionError(540, "immediate=true")
	}
	msg, props, err := newMessage(m.exchange, m.key, c.header, c.body)
	if err != nil {
		refused, _ := err.(*replyError) //nolint:errorlint // newMessage returns it unwrapped
		return refused
	}
	if props[propUserID] != nil && props.text(propUserID) != ch.conn.user.name {
		return channelError(406, "user_id property set to '%s' but authenticated user was '%s'", props.text(propUserID), ch.conn.user.name)
	}
	out := ch.v.publish(x, msg, nil)
	if out.routed == 0 && m.bit(0) {
		ch.giveReturn(msg)
	}
	if ch.confirms && out.rejected {
		ch.refuse()
	}
	return nil
}

// giveReturn sends an unroutable mandatory message back.
func (ch *channel) giveReturn(m *message) {
	ch.conn.out.append(func(b []byte) []byte {
		b, at := beginFrame(b, frameMethod, ch.id)
		b = binary.BigEndian.AppendUint32(b, uint32(basicReturn))
		b = binary.BigEndian.AppendUint16(b, 312)
		b = appendShortstr(b, "NO_ROUTE")
		b = appendShortstr(b, m.exchange)
		b = appendShortstr(b, m.key)
		b = endFrame(b, at)
		return appendContent(b, ch.id, m.header, m.body, ch.conn.frameMax)
	})
}

// settings are the limits of a queue under the policies now in force.
func (v *vhost) settings(q *queue) settings {
	limit := int64(-1)
	if q.quorum {
		limit = int64(v.b.cfg.DefaultDeliveryLimit)
		if limit == 0 {
			limit = -1
		}
	}
	var definition Table
	if p := v.policyFor(q.name); p != nil {
		definition = p.Definition
	}
	return settingsOf(q.args, definition, limit)
}
