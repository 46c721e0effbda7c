package broker

import (
	"encoding/binary"
	"net"
	"slices"
)

// frame carries out one frame after the handshake.
func (c *conn) frame(f frame) error {
	switch f.kind {
	case frameHeartbeat:
		return nil
	case frameMethod:
		m, err := decodeMethod(f.payload, &c.names)
		if err != nil {
			return err
		}
		if f.channel == 0 {
			return c.control(&m)
		}
		return c.onChannel(f.channel, &m)
	}
	ch := c.channels[f.channel]
	if ch == nil {
		return connectionError(504, "expected 'channel.open'")
	}
	if ch.closing.Load() {
		return nil
	}
	if f.kind == frameHeader {
		return c.contentHeader(ch, f.payload)
	}
	return c.contentBody(ch, f.payload)
}

// control carries out a method on channel 0.
func (c *conn) control(m *method) error {
	switch m.id {
	case connectionClose:
		c.flushConfirms()
		c.leave()
		c.send(0, connectionCloseOk, nil)
		return errClosed
	case connectionCloseOk:
		return errClosed
	case connectionUpdate:
		c.send(0, connectionUpdateOk, nil)
		return nil
	}
	e := connectionError(504, "%s is not valid on channel 0", m.id)
	e.method = m.id
	return e
}

func (c *conn) onChannel(id uint16, m *method) error {
	ch := c.channels[id]
	if ch == nil {
		return c.openChannel(id, m)
	}
	if ch.content.open && !ch.closing.Load() {
		return unexpected(m.id, "expected content header or body, got method %s", m.id)
	}
	switch m.id {
	case channelOpen:
		e := connectionError(504, "second 'channel.open' seen")
		e.method = m.id
		return e
	case channelClose:
		c.flushConfirms()
		c.closeChannel(ch)
		c.send(id, channelCloseOk, nil)
		return nil
	case channelCloseOk:
		if ch.closing.Load() {
			c.closeChannel(ch)
		}
		return nil
	}
	if ch.closing.Load() {
		return nil
	}
	if m.id == basicPublish {
		return c.beginContent(ch, m)
	}
	c.vhost.mu.Lock()
	var refused *replyError
	if !ch.closing.Load() {
		refused = ch.handle(m)
	}
	c.vhost.mu.Unlock()
	return c.refuse(ch, m.id, refused)
}

// refuse closes the channel where that is what an error means.
func (c *conn) refuse(ch *channel, id methodID, refused *replyError) error {
	if refused == nil {
		return nil
	}
	refused.method = id
	if refused.connection {
		return refused
	}
	c.failChannel(ch, refused)
	return nil
}

// failChannel closes a channel with a reply code. What the client sends until
// it has read that is ignored.
func (c *conn) failChannel(ch *channel, e *replyError) {
	c.dropContent(ch)
	c.vhost.mu.Lock()
	defer c.vhost.mu.Unlock()
	ch.fail(e)
}

// fail is failChannel for callers that hold the vhost's lock; a content that
// is still coming in is ignored.
func (ch *channel) fail(e *replyError) {
	c := ch.conn
	ch.close()
	c.b.log.Warn("closing a channel", "connection", c.name, "channel", ch.id, "code", e.code, "text", e.Error())
	c.send(ch.id, channelClose, e.appendClose)
}

func (c *conn) openChannel(id uint16, m *method) error {
	if m.id == channelCloseOk {
		return nil
	}
	if m.id != channelOpen {
		e := connectionError(504, "expected 'channel.open'")
		e.method = m.id
		return e
	}
	if c.channelMax > 0 && (id > c.channelMax || len(c.channels) >= int(c.channelMax)) {
		return connectionError(530, "number of channels opened (%d) has reached the negotiated channel_max (%d)", len(c.channels), c.channelMax)
	}
	c.rights.Store(c.b.rightsOf(c.user))
	c.vhost.mu.Lock()
	c.channels[id] = newChannel(c, id)
	c.vhost.mu.Unlock()
	c.send(id, channelOpenOk, func(b []byte) []byte { return append(b, 0, 0, 0, 0) })
	return nil
}

func (c *conn) closeChannel(ch *channel) {
	c.vhost.mu.Lock()
	defer c.vhost.mu.Unlock()
	c.dropContent(ch)
	if !ch.closing.Load() {
		ch.close()
	}
	delete(c.channels, ch.id)
}

func unexpected(id methodID, format string, args ...any) *replyError {
	e := connectionError(505, format, args...)
	e.method = id
	return e
}

// beginContent takes basic.publish; header and body follow. Under an alarm
// the connection is held back here.
func (c *conn) beginContent(ch *channel, m *method) error {
	if c.b.memory.on.Load() {
		c.b.tellBlocked(c)
		if cleared := c.b.memory.wait(); cleared != nil {
			c.flushConfirms()
			select {
			case <-cleared:
			case <-c.done:
				return net.ErrClosed
			}
		}
	}
	ch.content = content{open: true, method: *m}
	return nil
}

func (c *conn) contentHeader(ch *channel, payload []byte) error {
	p := &ch.content
	if !p.open || p.header != nil {
		return unexpected(0, "expected method, got content header")
	}
	if len(payload) < headerFixed {
		return connectionError(502, "content header is too short")
	}
	if class := binary.BigEndian.Uint16(payload); class != 60 {
		return unexpected(0, "expected content header for class 60, got one for class %d instead", class)
	}
	p.size = binary.BigEndian.Uint64(payload[4:])
	if p.size > uint64(c.b.cfg.MaxMessage) {
		size := p.size
		return c.refuse(ch, basicPublish, channelError(406, "message size %d is larger than configured max size %d", size, c.b.cfg.MaxMessage))
	}
	p.header = slices.Clone(payload)
	return c.whole(ch)
}

// bodyGrain is how much room is made for a body before any of it came.
const bodyGrain = 128 << 10

func (c *conn) contentBody(ch *channel, payload []byte) error {
	p := &ch.content
	if !p.open || p.header == nil {
		return unexpected(0, "expected method or content header, got content body")
	}
	if uint64(len(p.body))+uint64(len(payload)) > p.size {
		return connectionError(501, "content body is longer than the %d bytes announced", p.size)
	}
	if c.partial += len(payload); c.partial > c.b.cfg.MaxMessage {
		return connectionError(506, "unfinished messages on this connection are larger than %d bytes together", c.b.cfg.MaxMessage)
	}
	if p.body == nil {
		p.body = make([]byte, 0, min(p.size, bodyGrain))
	}
	p.body = append(p.body, payload...)
	return c.whole(ch)
}

// whole publishes the content when all of it is there.
func (c *conn) whole(ch *channel) error {
	p := &ch.content
	if uint64(len(p.body)) < p.size {
		return nil
	}
	done := *p
	c.dropContent(ch)
	c.vhost.mu.Lock()
	var refused *replyError
	if !ch.closing.Load() {
		refused = ch.publish(&done)
	}
	c.vhost.mu.Unlock()
	return c.refuse(ch, basicPublish, refused)
}

func (c *conn) dropContent(ch *channel) {
	c.partial -= len(ch.content.body)
	ch.content = content{}
}
