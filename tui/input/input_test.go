package input

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// keysOf feeds chunks with pauses between them, and returns the keys.
func keysOf(pause time.Duration, chunks ...string) []string {
	var s Splitter
	var out []string
	add := func(ks [][]byte) {
		for _, k := range ks {
			out = append(out, string(k))
		}
	}
	for _, c := range chunks {
		add(s.Feed([]byte(c)))
		if w := s.Wait(); w > 0 && pause >= w {
			add(s.Timeout())
		}
	}
	for s.Wait() > 0 {
		add(s.Timeout())
	}
	return out
}

var sequences = []string{"\x1b[A", "\x1b[B", "\x1b[3~", "\x1b[1;5C", "\x1bOP", "\x1b[15~", "\x1b[<64;10;20M", "\x1b[Z", "\x1b[1;2D", "\x1b[[A", "\x1b[M !!", "\x1b[200~some text\r\n\x1b[201~"}

// Every sequence cut at every byte, with 20 ms between, stays one key.
func TestSplitSequencesAreJoined(t *testing.T) {
	for _, seq := range sequences {
		for i := 1; i < len(seq); i++ {
			got := keysOf(20*time.Millisecond, "j"+seq[:i], seq[i:]+"k")
			if want := []string{"j", seq, "k"}; fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%q cut at %d: %q", seq, i, got)
			}
		}
		var each []string
		for i := range len(seq) {
			each = append(each, seq[i:i+1])
		}
		if got := keysOf(20*time.Millisecond, each...); len(got) != 1 || got[0] != seq {
			t.Errorf("%q byte by byte: %q", seq, got)
		}
	}
}

func TestKeys(t *testing.T) {
	for _, c := range []struct {
		name   string
		pause  time.Duration
		chunks []string
		want   []string
	}{
		{"several in one read", 0, []string{"jjj/set"}, []string{"j", "j", "j", "/", "s", "e", "t"}},
		{"escape alone", time.Second, []string{"\x1b", "j"}, []string{"\x1b", "j"}},
		{"escape, then a key soon", 10 * time.Millisecond, []string{"\x1b", "j"}, []string{"\x1b", "j"}},
		{"alt and a key", 0, []string{"\x1bj"}, []string{"\x1bj"}},
		{"escape twice", time.Second, []string{"\x1b\x1b"}, []string{"\x1b", "\x1b"}},
		{"escape before a sequence", 0, []string{"\x1b\x1b[A"}, []string{"\x1b", "\x1b[A"}},
		{"a sequence whose begin came too early", 100 * time.Millisecond, []string{"\x1b", "[A", "j"}, []string{"\x1b", "\x1b[A", "j"}},
		{"a sequence that never ends", time.Second, []string{"\x1b[1;", "j"}, []string{"j"}},
		{"a sequence cut short by another", 0, []string{"\x1b[1\x1b[B"}, []string{"\x1b[B"}},
		{"an answer of the terminal", 0, []string{"\x1b]11;rgb:00/00/00\x07j\x1bP+r\x1b\\k"}, []string{"j", "k"}},
		{"a rune in two reads", 0, []string{"\xe6\xbc", "\xa2"}, []string{"漢"}},
		{"not UTF-8", 0, []string{"a\xffb"}, []string{"a", "b"}},
		{"C1", 0, []string{"a\u009bb"}, []string{"a", "b"}},
		{"control keys", 0, []string{"\r\t\x03 "}, []string{"\r", "\t", "\x03", " "}},
		{"a paste is one key", 0, []string{"\x1b[200~p\ry", "\r\x1b[201~q"}, []string{"\x1b[200~p\ry\r\x1b[201~", "q"}},
		{"an end of paste alone", 0, []string{"\x1b[201~q"}, []string{"q"}},
		{"a paste that never ends", 3 * time.Second, []string{"\x1b[200~p\ry\r", "q"}, []string{"q"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := keysOf(c.pause, c.chunks...); fmt.Sprintf("%q", got) != fmt.Sprintf("%q", c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// A huge paste is bounded, and its end is still found.
func TestLongPaste(t *testing.T) {
	var s Splitter
	s.Feed([]byte("\x1b[200~"))
	for range 100 {
		s.Feed([]byte(strings.Repeat("x", 64<<10)))
		if len(s.buf) > maxPaste {
			t.Fatalf("%d bytes kept", len(s.buf))
		}
	}
	s.Feed([]byte("yy\x1b[20"))
	ks := s.Feed([]byte("1~q"))
	if len(ks) != 2 || string(ks[1]) != "q" || len(ks[0]) > maxPaste+64 {
		t.Errorf("%d keys", len(ks))
	}
}

// However the bytes are cut, the keys are the same, and nothing is kept for ever.
func FuzzSplitter(f *testing.F) {
	for _, s := range sequences {
		f.Add([]byte(s+"j"+s), uint16(3))
	}
	f.Add([]byte("\x1b[1\x1b]x\x07\x1bO\xe6\xbc\xa2"), uint16(2))
	f.Fuzz(func(t *testing.T, b []byte, cut uint16) {
		at := 0
		if len(b) > 0 {
			at = int(cut) % len(b)
		}
		whole := keysOf(0, string(b))
		parts := keysOf(0, string(b[:at]), string(b[at:]))
		// A cut right behind an escape makes "alt and key" two keys: that is meant.
		if at > 0 && b[at-1] == 0x1b {
			return
		}
		if fmt.Sprintf("%q", whole) != fmt.Sprintf("%q", parts) {
			t.Errorf("%q cut at %d: %q, whole %q", b, at, parts, whole)
		}
	})
}

// slow is a terminal that sends bytes with pauses.
type slow struct {
	chunks []string
	pause  time.Duration
	end    chan struct{}
}

func (s *slow) Read(p []byte) (int, error) {
	if len(s.chunks) == 0 {
		<-s.end
		return 0, io.EOF
	}
	time.Sleep(s.pause)
	n := copy(p, s.chunks[0])
	s.chunks = s.chunks[1:]
	return n, nil
}

func TestReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &slow{chunks: []string{"j\x1b", "[", "A", "\x1b", "k"}, pause: 20 * time.Millisecond, end: make(chan struct{})}
		gone := make(chan error, 1)
		r, err := NewReader(src, func(err error) { gone <- err })
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 100)
		for _, want := range []string{"j", "\x1b[A", "\x1b", "k"} {
			n, err := r.Read(buf)
			if err != nil || string(buf[:n]) != want {
				t.Errorf("read %q, %v, want %q", buf[:n], err, want)
			}
		}
		close(src.end)
		if err := <-gone; err != io.EOF {
			t.Errorf("gone: %v", err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if _, err := r.Read(buf); err != io.EOF {
			t.Errorf("read after close: %v", err)
		}
	})
}

// A key longer than the buffer comes in parts.
func TestReaderShortBuffer(t *testing.T) {
	r, err := NewReader(strings.NewReader("\x1b[200~hello\x1b[201~"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var got []byte
	buf := make([]byte, 4)
	for len(got) < 17 {
		n, err := r.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, buf[:n]...)
	}
	if string(got) != "\x1b[200~hello\x1b[201~" {
		t.Errorf("got %q", got)
	}
}

type panics struct{}

func (panics) Read([]byte) (int, error) { panic("boom") }

func TestReaderPanic(t *testing.T) {
	gone := make(chan error, 1)
	r, err := NewReader(panics{}, func(err error) { gone <- err })
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if p, ok := (<-gone).(*Panic); !ok || p.Value != "boom" || !strings.Contains(string(p.Stack), "input_test.go") {
		t.Errorf("got %v", p)
	}
}
