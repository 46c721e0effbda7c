package broker

import (
	"encoding/binary"
	"time"
)

// Reasons why a message leaves a queue unread, as x-death names them.
const (
	reasonRejected      = "rejected"
	reasonExpired       = "expired"
	reasonMaxLength     = "maxlen"
	reasonDeliveryLimit = "delivery_limit"
)

// deadLetter publishes a copy of m to the queue's dead letter exchange, with
// the death written into its headers. A missing exchange drops it.
func (q *queue) deadLetter(m *message, why string) {
	x := q.v.exchanges[q.set.deadExchange]
	if x == nil {
		return
	}
	p, err := parseProperties(m.header)
	if err != nil {
		return
	}
	headers, err := p.headers()
	if err != nil {
		headers = Table{}
	}
	keys := append([]any{m.key}, ccKeys(headers)...)
	key := m.key
	if q.set.hasDeadKey {
		key = q.set.deadKey
		delete(headers, "CC")
	}
	headers["x-death"] = q.death(m, &p, headers, keys, why)
	if _, ok := headers["x-first-death-queue"]; !ok {
		headers["x-first-death-queue"] = q.name
		headers["x-first-death-reason"] = why
		headers["x-first-death-exchange"] = m.exchange
	}
	p[propHeaders] = appendTable(nil, headers)
	p[propExpiration] = nil
	dead := &message{
		exchange: x.name, key: key, header: p.appendHeader(nil, len(m.body)), body: m.body,
		persistent: m.persistent, priority: m.priority, ttl: -1,
	}
	q.v.publish(x, dead, func(to *queue) bool { return !inCycle(to, headers, why) })
}

func ccKeys(headers Table) []any {
	keys, _ := headers["CC"].([]any)
	return keys
}

// death is the new x-death array: one entry for each queue and reason, the
// newest first.
func (q *queue) death(m *message, p *properties, headers Table, keys []any, why string) []any {
	old, _ := headers["x-death"].([]any)
	entry := Table{
		"count": int64(1), "reason": why, "queue": q.name, "time": time.Now().UTC(),
		"exchange": m.exchange, "routing-keys": keys,
	}
	if p[propExpiration] != nil {
		entry["original-expiration"] = p.text(propExpiration)
	}
	out := []any{entry}
	for _, e := range old {
		t, ok := e.(Table)
		if ok && t["queue"] == q.name && t["reason"] == why {
			n, _ := integer(t["count"])
			t["count"] = n + 1
			out[0] = t
			continue
		}
		out = append(out, e)
	}
	return out
}

// inCycle says whether a message came back to a queue with no consumer having
// had a part in it; such a message is dropped, or it would go round for ever.
func inCycle(to *queue, headers Table, why string) bool {
	if why == reasonRejected {
		return false
	}
	deaths, _ := headers["x-death"].([]any)
	for _, e := range deaths {
		t, ok := e.(Table)
		if !ok {
			continue
		}
		if t["reason"] == reasonRejected {
			return false
		}
		if t["queue"] == to.name {
			return true
		}
	}
	return false
}

// redeliveryHeader is the content header with the delivery count in it, as
// quorum queues send from the second delivery on.
func redeliveryHeader(it *item) []byte {
	return it.msg.withHeaders(func(t Table) { t["x-delivery-count"] = int64(it.deliveries) })
}

// appendDeliver encodes basic.deliver.
func appendDeliver(b []byte, channel uint16, consumerTag string, tag uint64, it *item) []byte {
	b, at := beginFrame(b, frameMethod, channel)
	b = binary.BigEndian.AppendUint32(b, uint32(basicDeliver))
	b = appendShortstr(b, consumerTag)
	b = binary.BigEndian.AppendUint64(b, tag)
	b = append(b, boolByte(it.redelivered))
	b = appendShortstr(b, it.msg.exchange)
	b = appendShortstr(b, it.msg.key)
	return endFrame(b, at)
}

func boolByte(v bool) byte {
	if v {
		return 1
	}
	return 0
}
