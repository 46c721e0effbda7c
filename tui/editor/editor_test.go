package editor

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/belay-mq/belay/tui/style"
)

func TestUntouchedTextStays(t *testing.T) {
	for _, s := range []string{"", "a", "a\n", "a\r\nb\r\n", "a\r\nb\nc", "\ufeffa=1\n", "\n\n", "\ta\x0b漢\n"} {
		if got := New(s).Text(); got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
	if Editable("\xff") || !Editable("漢") {
		t.Error("what can be edited")
	}
}

func TestEditing(t *testing.T) {
	a := New("one\r\ntwo\r\n")
	a.Key("end")
	a.Key("enter")
	a.Insert([]rune("new")...)
	if got := a.Text(); got != "one\r\nnew\r\ntwo\r\n" {
		t.Errorf("a new line: %q", got)
	}
	a.Key("home")
	a.Key("backspace")
	if got := a.Text(); got != "onenew\r\ntwo\r\n" {
		t.Errorf("joined: %q", got)
	}
	a.Key("end")
	a.Key("delete")
	if got := a.Text(); got != "onenewtwo\r\n" {
		t.Errorf("joined by delete: %q", got)
	}
	a.Key("home")
	a.Key("ctrl+k")
	if got := a.Text(); got != "\r\n" {
		t.Errorf("cut: %q", got)
	}
}

// Keys at random keep the cursor in the text and the picture in its room.
func TestRandomKeys(t *testing.T) {
	st, err := style.New(true, nil)
	if err != nil {
		t.Fatal(err)
	}
	ks := []string{"up", "down", "left", "right", "home", "end", "enter", "tab", "backspace", "delete", "ctrl+k", "ctrl+u", "pgup", "pgdown", "ctrl+home", "ctrl+end"}
	rng := rand.New(rand.NewPCG(7, 8))
	a := New("a=1\r\nb=漢字\n# c\n")
	for range 20_000 {
		if rng.IntN(3) == 0 {
			a.Insert([]rune("x漢=#\n\t\x1b")[rng.IntN(7)])
		} else {
			a.Key(ks[rng.IntN(len(ks))])
		}
		w, h := 12+rng.IntN(30), 1+rng.IntN(8)
		lines := a.Render(w, h, st, func(line int) (string, style.Style) { return "!", st.Warn })
		if len(lines) != h {
			t.Fatalf("%d lines in %d", len(lines), h)
		}
		for _, l := range lines {
			if n := ansi.StringWidth(l); n > w {
				t.Fatalf("%q is %d wide in %d", l, n, w)
			}
		}
	}
}

func TestMerge(t *testing.T) {
	base := "a\nb\nc\nd\ne\n"
	for _, c := range []struct {
		name, mine, theirs, want string
		ok                       bool
	}{
		{"different lines", "A\nb\nc\nd\ne\n", "a\nb\nc\nd\nE\n", "A\nb\nc\nd\nE\n", true},
		{"the same change", "a\nX\nc\nd\ne\n", "a\nX\nc\nd\ne\n", "a\nX\nc\nd\ne\n", true},
		{"the same line differently", "a\nX\nc\nd\ne\n", "a\nY\nc\nd\ne\n", "", false},
		{"mine unchanged", base, "a\nc\nd\ne\nf\n", "a\nc\nd\ne\nf\n", true},
		{"theirs unchanged", "z\n" + base, base, "z\n" + base, true},
		{"removed and changed", "a\nc\nd\ne\n", "a\nB\nc\nd\ne\n", "", false},
		{"both insert at one place", "a\n1\nb\nc\nd\ne\n", "a\n2\nb\nc\nd\ne\n", "", false},
	} {
		got, ok := Merge(base, c.mine, c.theirs)
		if ok != c.ok || ok && got != c.want {
			t.Errorf("%s: %q, %v, want %q", c.name, got, ok, c.want)
		}
	}
}

// Merging with an unchanged side gives the other side, whatever the texts are.
func FuzzMerge(f *testing.F) {
	f.Add("a\nb\n", "a\nc\n")
	f.Add("", "x")
	f.Fuzz(func(t *testing.T, base, other string) {
		if len(base)+len(other) > 4000 {
			return
		}
		for _, c := range [][3]string{{base, other, base}, {base, base, other}, {base, other, other}} {
			if got, ok := Merge(c[0], c[1], c[2]); !ok || got != other {
				t.Errorf("%q + %q + %q: %q, %v", c[0], c[1], c[2], got, ok)
			}
		}
	})
}

func ExampleMerge() {
	base := "a.enable=true\nb.enable=true\n"
	mine := "a.enable=false\nb.enable=true\n"
	theirs := base + "c.enable=true\n"
	text, ok := Merge(base, mine, theirs)
	fmt.Print(strings.TrimSpace(text), "\n", ok, "\n")
	// Output:
	// a.enable=false
	// b.enable=true
	// c.enable=true
	// true
}
