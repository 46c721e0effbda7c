package broker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

var protocolHeader = []byte("AMQP\x00\x00\x09\x01")

// errHandshake ends a connection that got no further than its handshake.
var errHandshake = errors.New("handshake refused")

// serverProperties are what connection.start tells of the broker.
func (b *Broker) serverProperties() Table {
	return Table{
		"product": "RabbitMQ", "version": b.cfg.Version, "platform": "belay embedded broker",
		"cluster_name": "belay@embedded",
		"capabilities": Table{
			"publisher_confirms": true, "exchange_exchange_bindings": true, "basic.nack": true,
			"consumer_cancel_notify": true, "connection.blocked": true, "consumer_priorities": true,
			"authentication_failure_close": true, "per_consumer_qos": true, "direct_reply_to": false,
		},
	}
}

// handshake goes from the protocol header to connection.open-ok.
func (c *conn) handshake() error {
	if err := c.nc.SetReadDeadline(time.Now().Add(handshakeWait)); err != nil {
		return err
	}
	if err := c.protocol(); err != nil {
		return err
	}
	c.send(0, connectionStart, func(b []byte) []byte {
		b = appendTable(append(b, 0, 9), c.b.serverProperties())
		b = appendLongstr(b, "PLAIN AMQPLAIN")
		return appendLongstr(b, "en_US")
	})
	m, err := c.expect(connectionStartOk)
	if err != nil {
		return err
	}
	if err := c.authenticate(m); err != nil {
		return err
	}
	if err := c.tune(); err != nil {
		return err
	}
	if m, err = c.expect(connectionOpen); err != nil {
		return err
	}
	if err := c.open(m.kind); err != nil {
		return err
	}
	c.send(0, connectionOpenOk, func(b []byte) []byte { return append(b, 0) })
	c.ready.Store(true)
	signal(c.out.wake)
	return c.nc.SetReadDeadline(time.Time{})
}

func (c *conn) protocol() error {
	var head [8]byte
	if _, err := io.ReadFull(c.frames.r, head[:]); err != nil {
		return err
	}
	if bytes.Equal(head[:], protocolHeader) {
		return c.b.faults.pass(c.done)
	}
	c.out.append(func(b []byte) []byte { return append(b, protocolHeader...) })
	return fmt.Errorf("%w: protocol header %q", errHandshake, head)
}

// expect reads one method of the handshake.
func (c *conn) expect(id methodID) (*method, error) {
	for {
		f, err := c.next()
		if err != nil {
			return nil, err
		}
		if f.kind == frameHeartbeat {
			continue
		}
		if f.kind != frameMethod || f.channel != 0 {
			return nil, connectionError(505, "expected %s", id)
		}
		m, err := decodeMethod(f.payload, nil)
		if err != nil {
			return nil, err
		}
		if m.id == connectionClose {
			c.send(0, connectionCloseOk, nil)
			return nil, errClosed
		}
		if m.id != id {
			e := connectionError(503, "expected %s, got %s", id, m.id)
			e.method = m.id
			return nil, e
		}
		return &m, nil
	}
}

// authenticate checks PLAIN or AMQPLAIN. A refusal is told only to clients
// that say they understand it; others see the connection close.
func (c *conn) authenticate(m *method) error {
	c.properties = m.args
	c.name, _ = m.args["connection_name"].(string)
	capabilities, _ := m.args["capabilities"].(Table)
	c.cancelNotify, _ = capabilities["consumer_cancel_notify"].(bool)
	c.blockedNotify, _ = capabilities["connection.blocked"].(bool)

	var name, password string
	switch m.kind {
	case "PLAIN":
		parts := strings.SplitN(m.response, "\x00", 3)
		if len(parts) == 3 {
			name, password = parts[1], parts[2]
		}
	case "AMQPLAIN":
		// A table without its length.
		d := decoder{b: appendLongstr(nil, m.response)}
		t := d.table()
		name, _ = t["LOGIN"].(string)
		password, _ = t["PASSWORD"].(string)
	default:
		return connectionError(503, "unknown authentication mechanism '%s'", m.kind)
	}
	if c.user = c.b.login(name, password); c.user != nil {
		return nil
	}
	if told, _ := capabilities["authentication_failure_close"].(bool); told {
		return connectionError(403, "Login was refused using authentication mechanism %s. For details see the broker logfile.", m.kind)
	}
	return fmt.Errorf("%w: wrong user or password for %q", errHandshake, name)
}

func (c *conn) tune() error {
	cfg := &c.b.cfg
	c.send(0, connectionTune, func(b []byte) []byte {
		b = binary.BigEndian.AppendUint16(b, uint16(cfg.MaxChannels))
		b = binary.BigEndian.AppendUint32(b, uint32(cfg.MaxFrame))
		return binary.BigEndian.AppendUint16(b, uint16(cfg.Heartbeat/time.Second))
	})
	m, err := c.expect(connectionTuneOk)
	if err != nil {
		return err
	}
	if m.size != 0 && m.size < frameMinSize {
		return connectionError(530, "frame_max=%d < %d min size", m.size, frameMinSize)
	}
	if m.size == 0 || m.size > uint32(cfg.MaxFrame) {
		return connectionError(530, "frame_max=%d > %d max size", m.size, cfg.MaxFrame)
	}
	if m.count > uint16(cfg.MaxChannels) || m.count == 0 {
		return connectionError(530, "channel_max=%d > %d max value", m.count, cfg.MaxChannels)
	}
	c.frameMax, c.channelMax = m.size, m.count
	c.frames.max = m.size - frameOverhead
	c.heartbeat = time.Duration(m.heartbeat) * time.Second
	return nil
}

func (c *conn) open(name string) error {
	refuse := func(e *replyError) error {
		e.method = connectionOpen
		return e
	}
	v := c.b.vhost(name)
	if v == nil {
		return refuse(connectionError(530, "vhost %s not found", name))
	}
	if !c.user.mayEnter(name) {
		return refuse(connectionError(530, "access to vhost '%s' refused for user '%s'", name, c.user.name))
	}
	c.vhost = v
	return nil
}
