package field

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/belay-mq/belay/tui/style"
)

func TestEditing(t *testing.T) {
	for _, c := range []struct{ start, keys, want string }{
		{"vendor", "backspace backspace", "vend"},
		{"vendor", "home delete", "endor"},
		{"vendor maintenance", "ctrl+w", "vendor "},
		{"vendor maintenance", "ctrl+u", ""},
		{"vendor", "home right right ctrl+k", "ve"},
		{"vendor", "left left left ctrl+u", "dor"},
		{"", "backspace delete left right ctrl+w", ""},
	} {
		f := New(c.start)
		for k := range strings.FieldsSeq(c.keys) {
			if !f.Key(k) {
				t.Errorf("%s is no editing key", k)
			}
		}
		if f.Text() != c.want {
			t.Errorf("%q after %s: %q, want %q", c.start, c.keys, f.Text(), c.want)
		}
	}
	f := New("ac")
	f.Key("left")
	f.Insert('b', '\n', '漢')
	if f.Text() != "ab 漢c" {
		t.Errorf("inserted %q", f.Text())
	}
	f.Insert([]rune(strings.Repeat("x", 1000))...)
	if n := len([]rune(f.Text())); n != maxLen {
		t.Errorf("%d runes", n)
	}
	if f.Key("f5") {
		t.Error("f5 edits")
	}
}

func TestRenderKeepsItsWidth(t *testing.T) {
	st, err := style.New(false, nil)
	if err != nil {
		t.Fatal(err)
	}
	f := New("")
	for range 60 {
		for w := range 30 {
			for _, focus := range []bool{true, false} {
				if got := ansi.StringWidth(f.Render(w, focus, "a hint that is long", st)); got != w {
					t.Fatalf("%q in %d is %d wide", f.Text(), w, got)
				}
			}
		}
		f.Insert([]rune("a漢 é")[len(f.Text())%4])
		if len(f.Text())%7 == 0 {
			f.Key("left")
		}
	}
}
