package broker

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// message is a published message. It is immutable once routed, and shared by
// every queue that holds it.
type message struct {
	exchange string
	key      string
	header   []byte // payload of the content header frame
	body     []byte

	persistent bool
	priority   uint8
	ttl        time.Duration // from the expiration property; negative: none
	refs       int           // queues that hold it, under the vhost's lock
}

// messageOverhead is what a message costs beside its bytes, about.
const messageOverhead = 256

func (m *message) size() int64 {
	return int64(len(m.header)+len(m.body)+len(m.key)) + messageOverhead
}

// Properties in the order of their flags, from bit 15 down.
const (
	propContentType = iota
	propContentEncoding
	propHeaders
	propDeliveryMode
	propPriority
	propCorrelationID
	propReplyTo
	propExpiration
	propMessageID
	propTimestamp
	propType
	propUserID
	propAppID
	propClusterID
	propCount
)

// headerFixed is what stands before the properties: class, weight, body size
// and the flags.
const headerFixed = 14

// properties are the raw encoded properties of a message, nil where absent.
type properties [propCount][]byte

// parseProperties splits a content header payload into its properties.
func parseProperties(header []byte) (properties, error) {
	var p properties
	if len(header) < headerFixed {
		return p, errShort
	}
	flags := binary.BigEndian.Uint16(header[12:])
	if flags&3 != 0 {
		return p, fmt.Errorf("content header has unknown property flags 0x%04x", flags&3)
	}
	d := decoder{b: header[headerFixed:]}
	for i := range propCount {
		if flags&(1<<(15-i)) == 0 {
			continue
		}
		whole := d.b
		switch i {
		case propHeaders:
			d.take(uint64(d.long()))
		case propDeliveryMode, propPriority:
			d.take(1)
		case propTimestamp:
			d.take(8)
		default:
			d.take(uint64(d.octet()))
		}
		if d.err != nil {
			return p, d.err
		}
		p[i] = whole[:len(whole)-len(d.b)]
	}
	return p, nil
}

// text is a shortstr property's content.
func (p *properties) text(i int) string {
	if len(p[i]) == 0 {
		return ""
	}
	return string(p[i][1:])
}

func (p *properties) headers() (Table, error) {
	if p[propHeaders] == nil {
		return Table{}, nil
	}
	d := decoder{b: p[propHeaders]}
	t := d.table()
	return t, d.err
}

// appendHeader encodes a content header payload.
func (p *properties) appendHeader(b []byte, bodySize int) []byte {
	b = binary.BigEndian.AppendUint16(b, 60)
	b = binary.BigEndian.AppendUint16(b, 0)
	b = binary.BigEndian.AppendUint64(b, uint64(bodySize))
	var flags uint16
	for i, raw := range p {
		if raw != nil {
			flags |= 1 << (15 - i)
		}
	}
	b = binary.BigEndian.AppendUint16(b, flags)
	for _, raw := range p {
		b = append(b, raw...)
	}
	return b
}

// withHeaders is the content header payload of m with its headers edited.
func (m *message) withHeaders(edit func(Table)) []byte {
	p, err := parseProperties(m.header)
	if err != nil {
		return m.header
	}
	t, err := p.headers()
	if err != nil {
		t = Table{}
	}
	edit(t)
	p[propHeaders] = appendTable(nil, t)
	return p.appendHeader(nil, len(m.body))
}

// newMessage builds a message from what a client sent. The header is copied,
// the body is taken over.
func newMessage(exchange, key string, header, body []byte) (*message, *properties, error) {
	p, err := parseProperties(header)
	if err != nil {
		return nil, nil, connectionError(502, "content header: %v", err)
	}
	m := &message{exchange: exchange, key: key, header: header, body: body, ttl: -1}
	if raw := p[propDeliveryMode]; raw != nil {
		m.persistent = raw[0] == 2
	}
	if raw := p[propPriority]; raw != nil {
		m.priority = raw[0]
	}
	if p[propExpiration] != nil {
		text := p.text(propExpiration)
		ms, err := strconv.ParseInt(text, 10, 64)
		if err != nil || ms < 0 || ms > maxTTL {
			return nil, nil, channelError(406, "invalid expiration '%s': %s", text, expirationFault(text, err))
		}
		m.ttl = time.Duration(ms) * time.Millisecond
	}
	return m, &p, nil
}

// maxTTL is the longest time to live that RabbitMQ takes, in milliseconds.
const maxTTL = 315_360_000_000

// expirationFault words what is wrong with an expiration as RabbitMQ does.
func expirationFault(text string, err error) string {
	if err == nil {
		return "{value_out_of_range," + text + "}"
	}
	rest := strings.TrimLeft(strings.TrimLeft(text, "+-"), "0123456789")
	if rest == strings.TrimLeft(text, "+-") {
		return "no_integer"
	}
	return "{leftover_string,\"" + rest + "\"}"
}

// headerTable is the decoded headers, empty where there are none or where
// they cannot be read.
func (m *message) headerTable() Table {
	p, err := parseProperties(m.header)
	if err != nil {
		return Table{}
	}
	t, err := p.headers()
	if err != nil {
		return Table{}
	}
	return t
}

// hasCC is a cheap test for headers that may name further routing keys.
func (m *message) hasCC() bool {
	return len(m.header) > headerFixed && binary.BigEndian.Uint16(m.header[12:])&(1<<(15-propHeaders)) != 0 &&
		(bytes.Contains(m.header, []byte("\x02CCA")) || bytes.Contains(m.header, []byte("\x03BCCA")))
}

// carbonCopies are the routing keys of the CC and BCC headers.
func (m *message) carbonCopies() []string {
	var out []string
	t := m.headerTable()
	for _, name := range []string{"CC", "BCC"} {
		keys, _ := t[name].([]any)
		for _, k := range keys {
			if s, ok := k.(string); ok {
				out = append(out, s)
			}
		}
	}
	return out
}
