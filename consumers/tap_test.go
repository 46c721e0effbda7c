package consumers

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"testing"
	"testing/iotest"

	amqp "github.com/rabbitmq/amqp091-go"
)

func frameOf(kind byte, channel uint16, payload []byte) []byte {
	f := binary.BigEndian.AppendUint16([]byte{kind}, channel)
	f = binary.BigEndian.AppendUint32(f, uint32(len(payload)))
	return append(append(f, payload...), frameEnd)
}

func short(s string) []byte { return append([]byte{byte(len(s))}, s...) }

// deliver is the frames of one message, its body cut in pieces.
func deliver(channel uint16, tag string, number uint64, body string, pieces ...int) []byte {
	m := []byte{0, 60, 0, 60}
	m = append(m, short(tag)...)
	m = binary.BigEndian.AppendUint64(m, number)
	m = append(m, 1)
	m = append(m, short("ex")...)
	m = append(m, short("key")...)
	h := []byte{0, 60, 0, 0}
	h = binary.BigEndian.AppendUint64(h, uint64(len(body)))
	h = append(h, 0x80, 0x80) // content type, message id
	h = append(h, short("text/plain")...)
	h = append(h, short(fmt.Sprint(number))...)
	out := append(frameOf(typeMethod, channel, m), frameOf(typeHeader, channel, h)...)
	for _, n := range append(pieces, len(body)) {
		n = min(n, len(body))
		if n > 0 {
			out = append(out, frameOf(typeBody, channel, []byte(body[:n]))...)
		}
		body = body[n:]
	}
	return out
}

// tapped is a consumer that only receives.
func tapped(t *tap, tag string) *consumer {
	s := &consumer{c: &Container{}, box: newInbox()}
	t.subscribe(tag, "q", s)
	return s
}

func TestTapTakesItsOwnDeliveriesAndNothingElse(t *testing.T) {
	other := [][]byte{
		frameOf(typeMethod, 0, []byte{0, 10, 0, 10, 1, 2, 3}),
		deliver(3, "foreign", 1, "not ours"),
		frameOf(typeMethod, 2, []byte{0, 60, 0, 31, 0}),
		frameOf(8, 0, nil),
	}
	ours := [][]byte{deliver(2, "mine", 1, "hello"), deliver(2, "mine", 2, ""), deliver(2, "mine", 3, "in three parts", 3, 4)}
	var stream, rest []byte
	for i, f := range other {
		stream, rest = append(stream, f...), append(rest, f...)
		if i < len(ours) {
			stream = append(stream, ours[i]...)
		}
	}
	for name, r := range map[string]func(io.Reader) io.Reader{
		"whole": func(r io.Reader) io.Reader { return r }, "one byte at a time": iotest.OneByteReader, "halves": iotest.HalfReader,
	} {
		t.Run(name, func(t *testing.T) {
			p := newTap(r(bytes.NewReader(stream)))
			s := tapped(p, "mine")
			out, err := io.ReadAll(p)
			if err != nil {
				t.Fatal(err)
			}
			if out = bytes.ReplaceAll(out, heartbeat, nil); !bytes.Equal(out, bytes.ReplaceAll(rest, heartbeat, nil)) {
				t.Errorf("passed %x, want %x", out, rest)
			}
			got, _ := s.box.tryTake(nil)
			if len(got) != 3 {
				t.Fatalf("%d taken", len(got))
			}
			for i, body := range []string{"hello", "", "in three parts"} {
				d := got[i]
				if string(d.Body) != body || d.DeliveryTag != uint64(i+1) || !d.Redelivered || d.Exchange != "ex" || d.RoutingKey != "key" ||
					d.ContentType != "text/plain" || d.MessageId != fmt.Sprint(i+1) || d.ConsumerTag != "mine" || d.Queue != "q" {
					t.Errorf("%d: %+v", i, d)
				}
			}
		})
	}
}

func TestTapLetsTheClientSeeThatThePeerIsAlive(t *testing.T) {
	p := newTap(bytes.NewReader(deliver(1, "mine", 1, "x")))
	tapped(p, "mine")
	out, err := io.ReadAll(p)
	if err != nil || !bytes.Equal(out, heartbeat) {
		t.Errorf("%x, %v", out, err)
	}
}

func TestTapLeavesDeliveriesAfterTheEndOfASubscription(t *testing.T) {
	frames := deliver(1, "mine", 7, "late")
	p := newTap(bytes.NewReader(frames))
	s := tapped(p, "mine")
	p.unsubscribe("mine")
	if out, _ := io.ReadAll(p); !bytes.Equal(out, frames) {
		t.Errorf("%x", out)
	}
	if n := s.box.received(); n != 0 {
		t.Errorf("%d received", n)
	}
}

func TestTapRefusesMalformedContent(t *testing.T) {
	ok := deliver(1, "mine", 1, "body")
	for name, in := range map[string][]byte{
		"body before its header": append(bytes.Clone(ok[:methodLen(ok)]), frameOf(typeBody, 1, []byte("x"))...),
		"more body than said":    append(bytes.Clone(ok[:methodLen(ok)+methodLen(ok[methodLen(ok):])]), frameOf(typeBody, 1, []byte("too long"))...),
		"header cut off":         append(bytes.Clone(ok[:methodLen(ok)]), frameOf(typeHeader, 1, []byte{0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0x80})...),
	} {
		p := newTap(bytes.NewReader(in))
		tapped(p, "mine")
		if _, err := io.ReadAll(p); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// methodLen is the length of the first frame.
func methodLen(b []byte) int { return int(binary.BigEndian.Uint32(b[3:])) + frameExtra }

func FuzzTap(f *testing.F) {
	f.Add(deliver(1, "mine", 1, "hello", 2))
	f.Add(append(frameOf(typeMethod, 2, []byte{0, 60, 0, 31, 0}), deliver(2, "other", 9, "x")...))
	f.Add(frameOf(typeHeader, 1, []byte{0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0x20, 0, 0, 0, 0, 9, 1, 'k', 'F', 0, 0, 0, 2, 1, 'a'}))
	f.Fuzz(func(t *testing.T, in []byte) {
		// Without a subscription the stream is untouched.
		out, err := io.ReadAll(newTap(bytes.NewReader(in)))
		if !bytes.HasPrefix(in, out) || err == nil && len(out) != len(in) {
			t.Fatalf("%x became %x, %v", in, out, err)
		}
		p := newTap(bytes.NewReader(in))
		s := tapped(p, "mine")
		_, _ = io.ReadAll(p)
		got, _ := s.box.tryTake(nil)
		for _, d := range got {
			if d.ConsumerTag != "mine" || len(d.Body) > len(in) {
				t.Fatalf("%+v", d)
			}
		}
	})
}

func FuzzTable(f *testing.F) {
	f.Add([]byte{0, 0, 0, 4, 1, 'a', 't', 1})
	f.Add([]byte{0, 0, 0, 9, 1, 'a', 'A', 0, 0, 0, 2, 'b', 5})
	f.Fuzz(func(t *testing.T, in []byte) {
		d := decoder{b: in}
		table := d.table(0)
		if !d.bad {
			if err := table.Validate(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

var _ amqp.Acknowledger = (*acks)(nil)

// acks records what a tracker sends.
type acks struct {
	frames  []string
	settled map[uint64]bool
	top     uint64 // highest tag delivered
}

func (a *acks) note(verb string, tag uint64, multiple bool) error {
	a.frames = append(a.frames, fmt.Sprintf("%s %d %v", verb, tag, multiple))
	if tag == 0 {
		for i := uint64(1); i <= a.top; i++ {
			a.settled[i] = true
		}
		return nil
	}
	if a.settled[tag] {
		return fmt.Errorf("406: unknown delivery tag %d", tag)
	}
	if multiple {
		for i := uint64(1); i < tag; i++ {
			a.settled[i] = true
		}
	}
	a.settled[tag] = true
	return nil
}

func (a *acks) Ack(tag uint64, multiple bool) error     { return a.note("ack", tag, multiple) }
func (a *acks) Nack(tag uint64, multiple, _ bool) error { return a.note("nack", tag, multiple) }
func (a *acks) Reject(tag uint64, _ bool) error         { return a.note("reject", tag, false) }
