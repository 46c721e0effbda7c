package consumers

import (
	"encoding/binary"
	"errors"
	"math"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// errMalformed is what a decoder leaves for content that is not AMQP.
var errMalformed = errors.New("malformed content from the broker")

// maxNesting bounds tables within tables.
const maxNesting = 32

// decoder reads AMQP 0-9-1 fields from a frame's payload. After the first field
// that is not there it yields zero values and bad is set.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) take(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.bad, d.b = true, nil
		return nil
	}
	p := d.b[:n:n]
	d.b = d.b[n:]
	return p
}

func (d *decoder) u8() uint8 {
	if p := d.take(1); p != nil {
		return p[0]
	}
	return 0
}

func (d *decoder) u16() uint16 {
	if p := d.take(2); p != nil {
		return binary.BigEndian.Uint16(p)
	}
	return 0
}

func (d *decoder) u32() uint32 {
	if p := d.take(4); p != nil {
		return binary.BigEndian.Uint32(p)
	}
	return 0
}

func (d *decoder) u64() uint64 {
	if p := d.take(8); p != nil {
		return binary.BigEndian.Uint64(p)
	}
	return 0
}

// short returns a short string's bytes, which are the frame's own.
func (d *decoder) short() []byte { return d.take(uint64(d.u8())) }

func (d *decoder) long() []byte { return d.take(uint64(d.u32())) }

func (d *decoder) time() time.Time { return time.Unix(int64(d.u64()), 0) }

func (d *decoder) table(depth int) amqp.Table {
	in := decoder{b: d.long()}
	if depth > maxNesting {
		d.bad = true
		return nil
	}
	t := amqp.Table{}
	for len(in.b) > 0 && !in.bad {
		key := string(in.short())
		t[key] = in.field(depth)
	}
	d.bad = d.bad || in.bad
	return t
}

func (d *decoder) array(depth int) []any {
	in := decoder{b: d.long()}
	if depth > maxNesting {
		d.bad = true
		return nil
	}
	a := []any{}
	for len(in.b) > 0 && !in.bad {
		a = append(a, in.field(depth))
	}
	d.bad = d.bad || in.bad
	return a
}

// field yields the Go types that amqp091-go gives for the same bytes.
func (d *decoder) field(depth int) any {
	switch d.u8() {
	case 't':
		return d.u8() != 0
	case 'B':
		return d.u8()
	case 'b':
		return int8(d.u8())
	case 's':
		return int16(d.u16())
	case 'u':
		return d.u16()
	case 'I':
		return int32(d.u32())
	case 'i':
		return d.u32()
	case 'l':
		return int64(d.u64())
	case 'f':
		return math.Float32frombits(d.u32())
	case 'd':
		return math.Float64frombits(d.u64())
	case 'D':
		return amqp.Decimal{Scale: d.u8(), Value: int32(d.u32())}
	case 'S':
		return string(d.long())
	case 'A':
		return d.array(depth + 1)
	case 'T':
		return d.time()
	case 'F':
		return d.table(depth + 1)
	case 'x':
		return append([]byte{}, d.long()...)
	case 'V':
		return nil
	}
	d.bad = true
	return nil
}

// properties reads the property list of a content header into m.
func (d *decoder) properties(m *amqp.Delivery) {
	flags := d.u16()
	text := func(bit uint16, to *string) {
		if flags&bit != 0 {
			*to = string(d.short())
		}
	}
	text(1<<15, &m.ContentType)
	text(1<<14, &m.ContentEncoding)
	if flags&(1<<13) != 0 {
		m.Headers = d.table(0)
	}
	if flags&(1<<12) != 0 {
		m.DeliveryMode = d.u8()
	}
	if flags&(1<<11) != 0 {
		m.Priority = d.u8()
	}
	text(1<<10, &m.CorrelationId)
	text(1<<9, &m.ReplyTo)
	text(1<<8, &m.Expiration)
	text(1<<7, &m.MessageId)
	if flags&(1<<6) != 0 {
		m.Timestamp = d.time()
	}
	text(1<<5, &m.Type)
	text(1<<4, &m.UserId)
	text(1<<3, &m.AppId)
}
