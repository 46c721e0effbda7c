// Package input turns what a terminal sends into whole keys.
//
// A terminal sends bytes, and a slow line cuts them anywhere: an arrow key may
// come as "ESC", and 20 ms later "[A", which a naive reader takes for the keys
// esc, [ and A. On the other hand one read may carry many keys. [Splitter] joins
// and splits them, [Reader] puts it before a program that takes one Read for
// one key.
package input

import (
	"bytes"
	"time"
	"unicode/utf8"
)

// How long a started sequence is waited for.
const (
	// EscWait is how long a lone escape byte may be the start of a sequence. It is the
	// delay of the key esc.
	EscWait = 60 * time.Millisecond
	// SeqWait is how long the rest of a sequence is waited for; nobody types
	// "ESC [". What is incomplete then is dropped.
	SeqWait = 500 * time.Millisecond
	// PasteWait is how long the end of a bracketed paste is waited for after its
	// newest byte.
	PasteWait = 2 * time.Second
)

// maxPaste bounds a paste, in bytes; the rest of a longer one is dropped.
const maxPaste = 1 << 20

var (
	pasteStart = []byte("\x1b[200~")
	pasteEnd   = []byte("\x1b[201~")
)

// Splitter cuts a stream of bytes into keys. It is a plain state machine
// without a clock: whoever feeds it calls Timeout when nothing came for Wait.
// It is not safe for concurrent use.
type Splitter struct {
	buf     []byte
	lateEsc bool // an esc was given out by a timeout; "[A" after it belongs to it
}

// Feed takes the bytes of one read and returns the keys that are now complete:
// each a printable rune, a control byte, an escape sequence, or a bracketed
// paste with its marks.
func (s *Splitter) Feed(b []byte) (keys [][]byte) {
	joined := len(s.buf) > 0
	if s.lateEsc && len(s.buf) == 0 && len(b) > 0 {
		if b[0] == '[' || b[0] == 'O' {
			s.buf = append(s.buf, 0x1b)
			joined = true
		}
		s.lateEsc = false
	}
	s.buf = append(s.buf, b...)
	for len(s.buf) > 0 {
		n, drop := next(s.buf, joined)
		if n == 0 {
			break
		}
		if !drop {
			keys = append(keys, bytes.Clone(s.buf[:n]))
		}
		s.buf = s.buf[n:]
		joined = false
	}
	if len(s.buf) > maxPaste && bytes.HasPrefix(s.buf, pasteStart) {
		keep := len(pasteEnd)
		tail := bytes.Clone(s.buf[len(s.buf)-keep:])
		s.buf = append(s.buf[:maxPaste-keep], tail...)
	}
	return keys
}

// Wait says how long to wait for more bytes before calling Timeout; 0 when
// nothing is pending.
func (s *Splitter) Wait() time.Duration {
	switch {
	case s.lateEsc:
		return SeqWait
	case len(s.buf) == 0:
		return 0
	case len(s.buf) == 1 && s.buf[0] == 0x1b:
		return EscWait
	case bytes.HasPrefix(s.buf, pasteStart):
		return PasteWait
	}
	return SeqWait
}

// Timeout says that nothing came for Wait. A lone escape byte is then the key esc;
// anything else that is incomplete is dropped.
func (s *Splitter) Timeout() (keys [][]byte) {
	if s.lateEsc {
		s.lateEsc = false
		return nil
	}
	if len(s.buf) == 1 && s.buf[0] == 0x1b {
		keys = [][]byte{{0x1b}}
		s.lateEsc = true
	}
	s.buf = s.buf[:0]
	return keys
}

// next measures the first key of b; 0 means that it is not complete. drop says
// that it is none that a program should see. joined says that b began in an
// earlier read.
func next(b []byte, joined bool) (n int, drop bool) {
	if b[0] != 0x1b {
		return nextRune(b)
	}
	if len(b) == 1 {
		return 0, false
	}
	switch b[1] {
	case 0x1b:
		return 1, false
	case '[':
		return nextCSI(b)
	case 'O':
		if len(b) < 3 {
			return 0, false
		}
		return 3, b[2] < 0x20
	case ']', 'P', '_', '^', 'X': // answers of a terminal, up to BEL or ST
		for i := 2; i < len(b); i++ {
			if b[i] == 0x07 {
				return i + 1, true
			}
			if b[i] == 0x1b && i+1 < len(b) {
				if b[i+1] == '\\' {
					return i + 2, true
				}
				return i, true
			}
		}
		return 0, false
	}
	// Alt and a key come in one read; an escape key and then another do not.
	if joined || b[1] < 0x20 || b[1] >= 0x7f {
		return 1, false
	}
	return 2, false
}

func nextRune(b []byte) (n int, drop bool) {
	if b[0] < 0x80 {
		return 1, false
	}
	if !utf8.FullRune(b) {
		return 0, false
	}
	r, w := utf8.DecodeRune(b)
	return w, r == utf8.RuneError || r >= 0x80 && r < 0xa0
}

func nextCSI(b []byte) (n int, drop bool) {
	if len(b) < 3 {
		return 0, false
	}
	if b[2] == '[' { // function keys of the Linux console
		if len(b) < 4 {
			return 0, false
		}
		return 4, false
	}
	if b[2] == 'M' { // mouse in the old encoding
		if len(b) < 6 {
			return 0, false
		}
		return 6, false
	}
	for i := 2; i < len(b); i++ {
		c := b[i]
		switch {
		case c >= 0x40 && c <= 0x7e:
			n = i + 1
			if !bytes.Equal(b[:n], pasteStart) {
				return n, bytes.Equal(b[:n], pasteEnd)
			}
			end := bytes.Index(b[n:], pasteEnd)
			if end < 0 {
				return 0, false
			}
			return n + end + len(pasteEnd), false
		case c < 0x20 || c > 0x7e: // not part of a sequence: it was cut short
			return i, true
		}
	}
	return 0, false
}
