package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Table is an AMQP field table: queue and consumer arguments, message headers,
// client properties. Values are nil, bool, the sized integers, float32,
// float64, string, []byte, time.Time, Decimal, []any and Table.
type Table map[string]any

// Decimal is AMQP's decimal field value: Value / 10^Scale.
type Decimal struct {
	Scale uint8
	Value int32
}

// maxTableDepth bounds nesting, so that a hostile table cannot exhaust the
// stack.
const maxTableDepth = 32

var (
	errShort  = errors.New("payload is shorter than its fields")
	errNested = errors.New("field table is nested too deeply")
)

// decoder reads the fields of one payload. The first error sticks; callers
// look at err once, after the last field.
type decoder struct {
	b     []byte
	err   error
	depth int
	names *interner
}

func (d *decoder) take(n uint64) []byte {
	if d.err != nil {
		return nil
	}
	if n > uint64(len(d.b)) {
		d.err = errShort
		d.b = nil
		return nil
	}
	p := d.b[:n]
	d.b = d.b[n:]
	return p
}

func (d *decoder) octet() byte {
	if p := d.take(1); p != nil {
		return p[0]
	}
	return 0
}

func (d *decoder) short() uint16 {
	if p := d.take(2); p != nil {
		return binary.BigEndian.Uint16(p)
	}
	return 0
}

func (d *decoder) long() uint32 {
	if p := d.take(4); p != nil {
		return binary.BigEndian.Uint32(p)
	}
	return 0
}

func (d *decoder) longlong() uint64 {
	if p := d.take(8); p != nil {
		return binary.BigEndian.Uint64(p)
	}
	return 0
}

func (d *decoder) shortstr() string {
	p := d.take(uint64(d.octet()))
	if d.names != nil {
		return d.names.intern(p)
	}
	return string(p)
}

func (d *decoder) longstr() string { return string(d.take(uint64(d.long()))) }

func (d *decoder) table() Table {
	t := Table{}
	d.nested(func(in *decoder) {
		key := in.shortstr()
		t[key] = in.value()
	})
	if d.err != nil {
		return nil
	}
	return t
}

func (d *decoder) array() []any {
	a := []any{}
	d.nested(func(in *decoder) { a = append(a, in.value()) })
	if d.err != nil {
		return nil
	}
	return a
}

// nested reads elements until the length that stands before them is used up.
func (d *decoder) nested(element func(in *decoder)) {
	p := d.take(uint64(d.long()))
	if d.err != nil {
		return
	}
	if d.depth >= maxTableDepth {
		d.err = errNested
		return
	}
	in := decoder{b: p, depth: d.depth + 1}
	for len(in.b) > 0 && in.err == nil {
		element(&in)
	}
	d.err = in.err
}

func (d *decoder) value() any {
	switch kind := d.octet(); kind {
	case 't':
		return d.octet() != 0
	case 'b':
		return int8(d.octet())
	case 'B':
		return d.octet()
	case 's', 'U':
		return int16(d.short())
	case 'u':
		return d.short()
	case 'I':
		return int32(d.long())
	case 'i':
		return d.long()
	case 'l', 'L':
		return int64(d.longlong())
	case 'f':
		return math.Float32frombits(d.long())
	case 'd':
		return math.Float64frombits(d.longlong())
	case 'D':
		return Decimal{Scale: d.octet(), Value: int32(d.long())}
	case 'S':
		return d.longstr()
	case 'x':
		return slices.Clone(d.take(uint64(d.long())))
	case 'T':
		return time.Unix(int64(d.longlong()), 0).UTC()
	case 'A':
		return d.array()
	case 'F':
		return d.table()
	case 'V':
		return nil
	default:
		if d.err == nil {
			d.err = fmt.Errorf("unknown field type %q", kind)
		}
		return nil
	}
}

// interner keeps the few names that a connection repeats with every message
// (exchange, routing key, queue), so that each is allocated once. It forgets
// all of them when a client uses too many.
type interner struct{ m map[string]string }

const maxInterned = 512

func (n *interner) intern(p []byte) string {
	if s, ok := n.m[string(p)]; ok {
		return s
	}
	if n.m == nil || len(n.m) >= maxInterned {
		n.m = make(map[string]string)
	}
	s := string(p)
	n.m[s] = s
	return s
}

func appendShortstr(b []byte, s string) []byte {
	if len(s) > 255 {
		s = s[:255]
	}
	b = append(b, byte(len(s)))
	return append(b, s...)
}

func appendLongstr(b []byte, s string) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(s)))
	return append(b, s...)
}

func appendTable(b []byte, t Table) []byte {
	at := len(b)
	b = append(b, 0, 0, 0, 0)
	keys := make([]string, 0, len(t))
	for k := range t {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		b = appendShortstr(b, k)
		b = appendValue(b, t[k])
	}
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	return b
}

func appendValue(b []byte, v any) []byte {
	switch v := v.(type) {
	case bool:
		if v {
			return append(b, 't', 1)
		}
		return append(b, 't', 0)
	case int8:
		return append(b, 'b', byte(v))
	case uint8:
		return append(b, 'B', v)
	case int16:
		return binary.BigEndian.AppendUint16(append(b, 's'), uint16(v))
	case uint16:
		return binary.BigEndian.AppendUint16(append(b, 'u'), v)
	case int32:
		return binary.BigEndian.AppendUint32(append(b, 'I'), uint32(v))
	case uint32:
		return binary.BigEndian.AppendUint32(append(b, 'i'), v)
	case int64:
		return binary.BigEndian.AppendUint64(append(b, 'l'), uint64(v))
	case float32:
		return binary.BigEndian.AppendUint32(append(b, 'f'), math.Float32bits(v))
	case float64:
		return binary.BigEndian.AppendUint64(append(b, 'd'), math.Float64bits(v))
	case Decimal:
		return binary.BigEndian.AppendUint32(append(b, 'D', v.Scale), uint32(v.Value))
	case string:
		return appendLongstr(append(b, 'S'), v)
	case []byte:
		return appendLongstr(append(b, 'x'), string(v))
	case time.Time:
		return binary.BigEndian.AppendUint64(append(b, 'T'), uint64(v.Unix()))
	case []any:
		b = append(b, 'A')
		at := len(b)
		b = append(b, 0, 0, 0, 0)
		for _, e := range v {
			b = appendValue(b, e)
		}
		binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4))
		return b
	case Table:
		return appendTable(append(b, 'F'), v)
	default:
		return append(b, 'V')
	}
}

// integer reads an argument that clients send in any integer width.
func integer(v any) (int64, bool) {
	switch v := v.(type) {
	case int8:
		return int64(v), true
	case uint8:
		return int64(v), true
	case int16:
		return int64(v), true
	case uint16:
		return int64(v), true
	case int32:
		return int64(v), true
	case uint32:
		return int64(v), true
	case int64:
		return v, true
	}
	return 0, false
}
