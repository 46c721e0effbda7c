package broker

import (
	"bytes"
	"testing"
)

// Every payload that decodes, or does not, must do so without a panic and
// without more memory than its own size calls for.

func FuzzFrames(f *testing.F) {
	f.Add([]byte("AMQP\x00\x00\x09\x01"))
	f.Add([]byte{8, 0, 0, 0, 0, 0, 0, 0xCE})
	f.Add([]byte{1, 0, 1, 0, 0, 0, 4, 0, 20, 0, 10, 0xCE})
	f.Add([]byte{3, 0, 1, 0, 0, 255, 255, 'x'})
	f.Fuzz(func(t *testing.T, in []byte) {
		r := newFrameReader(bytes.NewReader(in), 1<<20)
		total := 0
		for {
			fr, err := r.next()
			if err != nil {
				break
			}
			total += len(fr.payload) + frameOverhead
		}
		if total > len(in) {
			t.Fatalf("%d bytes of frames out of %d", total, len(in))
		}
		if cap(r.buf) > 2*len(in)+2*readGrain {
			t.Fatalf("a buffer of %d for %d bytes", cap(r.buf), len(in))
		}
	})
}

func FuzzMethod(f *testing.F) {
	f.Add([]byte{0, 50, 0, 10, 0, 0, 1, 'q', 0, 0, 0, 0, 0})
	f.Add([]byte{0, 60, 0, 40, 0, 0, 0, 1, 'q', 0})
	f.Add([]byte{0, 10, 0, 11, 0, 0, 0, 0, 5, 'P', 'L', 'A', 'I', 'N', 0, 0, 0, 0, 0})
	f.Add([]byte{0, 50, 0, 10, 0, 0, 1, 'q', 0, 0, 0, 0, 7, 1, 'a', 'A', 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, in []byte) {
		var names interner
		if m, err := decodeMethod(in, &names); err == nil && m.id.String() == "" {
			t.Fatal("a method without a name")
		}
	})
}

// A table that decodes comes back the same after encoding.
func FuzzTable(f *testing.F) {
	f.Add(appendTable(nil, Table{"a": int32(1), "b": "x", "c": []any{true, nil, Table{"d": 1.5}}, "e": Decimal{2, 314}, "f": []byte{1}}))
	f.Fuzz(func(t *testing.T, in []byte) {
		d := decoder{b: in}
		table := d.table()
		if d.err != nil {
			return
		}
		once := appendTable(nil, table)
		d = decoder{b: once}
		again := d.table()
		if d.err != nil {
			t.Fatalf("what was encoded does not decode: %v", d.err)
		}
		if !bytes.Equal(once, appendTable(nil, again)) {
			t.Fatalf("%x became %x", once, appendTable(nil, again))
		}
	})
}

func FuzzHeader(f *testing.F) {
	f.Add([]byte{0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0x10, 0, 2})
	f.Add([]byte{0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0x20, 0, 0, 0, 0, 4, 1, 'a', 't', 1})
	f.Fuzz(func(t *testing.T, in []byte) {
		p, err := parseProperties(in)
		if err != nil {
			return
		}
		again, err := parseProperties(p.appendHeader(nil, 1))
		if err != nil {
			t.Fatalf("what was encoded does not parse: %v", err)
		}
		for i := range p {
			if !bytes.Equal(p[i], again[i]) {
				t.Fatalf("property %d: %x became %x", i, p[i], again[i])
			}
		}
		m := &message{header: in}
		m.withHeaders(func(t Table) { t["x"] = "y" })
		m.hasCC()
		m.carbonCopies()
	})
}
