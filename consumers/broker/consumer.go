package broker

import (
	"encoding/binary"
	"time"
)

// consumer is one basic.consume on a channel.
type consumer struct {
	tag       string
	ch        *channel
	q         *queue
	noAck     bool
	exclusive bool
	priority  int64
	prefetch  int // 0: no bound
	unacked   int
	args      Table
	since     time.Time
}

// able says whether the consumer can take a delivery now: its prefetch and
// its channel's have room, the client wants flow, and the connection's output
// is not full. A connection that is full asks again when it has written.
func (c *consumer) able() bool {
	ch := c.ch
	if !ch.flow || ch.closing.Load() {
		return false
	}
	if !c.noAck {
		if c.prefetch > 0 && c.unacked >= c.prefetch || ch.prefetch > 0 && ch.consumed >= ch.prefetch {
			return false
		}
	}
	return ch.conn.out.admit()
}

// deliver sends one item to the client.
func (c *consumer) deliver(it *item) {
	ch := c.ch
	ch.nextTag++
	header := it.msg.header
	if c.q.quorum && it.deliveries > 0 {
		header = redeliveryHeader(it)
	}
	ch.conn.out.append(func(b []byte) []byte {
		b = appendDeliver(b, ch.id, c.tag, ch.nextTag, it)
		return appendContent(b, ch.id, header, it.msg.body, ch.conn.frameMax)
	})
	c.q.stats.delivered(it, c.noAck)
	if c.noAck {
		c.q.v.release(it.msg)
		return
	}
	c.unacked++
	ch.consumed++
	c.q.unacked++
	ch.unacked.add(pending{tag: ch.nextTag, item: it, queue: c.q, from: c, since: c.q.v.now()})
}

// cancelByServer tells the client that its consumer is gone.
func (c *consumer) cancelByServer() {
	c.ch.drop(c)
	if !c.ch.conn.cancelNotify {
		return
	}
	c.ch.conn.send(c.ch.id, basicCancel, func(b []byte) []byte {
		return append(appendShortstr(b, c.tag), 1)
	})
}

func appendGetOk(b []byte, channel uint16, tag uint64, it *item, left int) []byte {
	b, at := beginFrame(b, frameMethod, channel)
	b = binary.BigEndian.AppendUint32(b, uint32(basicGetOk))
	b = binary.BigEndian.AppendUint64(b, tag)
	b = append(b, boolByte(it.redelivered))
	b = appendShortstr(b, it.msg.exchange)
	b = appendShortstr(b, it.msg.key)
	b = binary.BigEndian.AppendUint32(b, uint32(left))
	return endFrame(b, at)
}
