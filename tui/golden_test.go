package tui

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"github.com/belay-mq/belay/tui/internal/fake"
)

var update = flag.Bool("update", false, "write the golden files anew")

// driver drives a model without a terminal. It runs inside a synctest bubble,
// so that the model's time is the test's.
type driver struct {
	t  *testing.T
	m  *Model
	be *fake.Backend
}

// drive runs f with a dashboard of the scene in a window of w × h.
func drive(t *testing.T, w, h int, f func(*driver), change ...func(*Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		be := fake.Scene(time.Now())
		cfg := Config{Backend: be, Location: time.UTC, NoColor: false}
		for _, c := range change {
			c(&cfg)
		}
		m, err := NewModel(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		d := &driver{t, m, be}
		d.send(tea.WindowSizeMsg{Width: w, Height: h})
		f(d)
	})
}

// send gives the model a message and carries out what it asks for, until
// nothing is left but ticks.
func (d *driver) send(msg tea.Msg) {
	d.t.Helper()
	_, cmd := d.m.Update(msg)
	d.run(cmd)
}

func (d *driver) run(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	switch msg := cmd().(type) {
	case nil, tickMsg:
	case tea.BatchMsg:
		for _, c := range msg {
			d.run(c)
		}
	default:
		d.send(msg)
	}
}

// wait lets time pass, with the ticks of the loop.
func (d *driver) wait(dur time.Duration) {
	end := time.Now().Add(dur)
	for time.Now().Before(end) {
		time.Sleep(tick)
		_, cmd := d.m.Update(tickMsg(time.Now()))
		if b, ok := cmd().(tea.BatchMsg); ok {
			for _, c := range b[:len(b)-1] { // the last is the next tick
				d.run(c)
			}
		}
	}
}

// press presses keys one after another: "p", "enter", "ctrl+d" …
func (d *driver) press(names ...string) {
	d.t.Helper()
	for _, n := range names {
		d.send(keyOf(n))
	}
}

// typed types text rune by rune.
func (d *driver) typed(text string) {
	d.t.Helper()
	for _, r := range text {
		d.press(string(r))
	}
}

// keyOf is the message of a key by its name.
func keyOf(name string) tea.KeyMsg {
	if name == " " {
		return tea.KeyMsg{Type: tea.KeySpace, Runes: []rune{' '}}
	}
	if r := []rune(name); len(r) == 1 {
		return tea.KeyMsg{Type: tea.KeyRunes, Runes: r}
	}
	for k := tea.KeyType(-100); k < 128; k++ {
		if (tea.Key{Type: k}).String() == name {
			return tea.KeyMsg{Type: k}
		}
	}
	panic("no key " + name)
}

// screen is the picture without colours.
func (d *driver) screen() string { return ansi.Strip(d.m.View()) }

// sees fails unless the screen shows each text.
func (d *driver) sees(texts ...string) {
	d.t.Helper()
	s := d.screen()
	for _, x := range texts {
		if !strings.Contains(s, x) {
			d.t.Fatalf("the screen does not show %q:\n%s", x, s)
		}
	}
}

// golden compares the picture with a file.
// lacks fails if the screen shows one of the texts.
func (d *driver) lacks(texts ...string) {
	d.t.Helper()
	screen := d.screen()
	for _, text := range texts {
		if strings.Contains(screen, text) {
			d.t.Errorf("the screen shows %q:\n%s", text, screen)
		}
	}
}

func (d *driver) golden(name string) {
	d.t.Helper()
	s := d.m.View()
	for i, l := range strings.Split(s, "\n") {
		if w := ansi.StringWidth(l); w > d.m.w {
			d.t.Errorf("line %d is %d wide in a window of %d", i+1, w, d.m.w)
		}
	}
	if n := strings.Count(s, "\n") + 1; n > d.m.h {
		d.t.Errorf("%d lines in a window of %d", n, d.m.h)
	}
	var b strings.Builder
	for _, l := range strings.Split(ansi.Strip(s), "\n") {
		b.WriteString(strings.TrimRight(l, " ") + "\n")
	}
	got := b.String()
	path := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			d.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			d.t.Fatal(err)
		}
		if dir := os.Getenv("TUI_ANSI"); dir != "" {
			_ = os.WriteFile(filepath.Join(dir, name+".ansi"), []byte(s), 0o644)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		d.t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		d.t.Errorf("%s differs (-want +got); if it should, run the test with -update:\n%s", path, diff)
	}
}

var sizes = [][2]int{{80, 24}, {120, 40}, {200, 60}, {50, 12}}

func TestGoldens(t *testing.T) {
	for _, c := range []struct {
		name  string
		do    func(*driver)
		sizes [][2]int
	}{
		{"consumers", func(*driver) {}, sizes},
		{"detail", func(d *driver) { d.press("enter"); d.wait(time.Second) }, sizes[:3]},
		{"feed", func(d *driver) { d.press("2") }, sizes},
		{"history", func(d *driver) { d.press("3") }, sizes[:2]},
		{"version", func(d *driver) { d.press("3", "enter") }, sizes[:2]},
		{"instances", func(d *driver) { d.press("4") }, sizes[:2]},
		{"health", func(d *driver) { d.press("5") }, sizes[:2]},
		{"help", func(d *driver) { d.press("?") }, sizes},
		{"pause", func(d *driver) {
			d.press("p")
			d.typed("vendor maintenance")
			d.press("tab", "tab")
			d.typed("1h")
			d.press("tab")
		}, sizes},
		{"pause-several", func(d *driver) {
			d.press(" ", " ", "p")
			d.typed("maintenance")
			d.press("tab", "tab", "tab")
			d.typed("2")
		}, sizes[:2]},
		{"scale", func(d *driver) { d.press("s") }, sizes[:1]},
		{"resume", func(d *driver) { d.press("r", "tab", " ") }, sizes[:1]},
		{"palette", func(d *driver) { d.press(":"); d.typed("so") }, sizes[:2]},
		{"filter", func(d *driver) { d.press("/"); d.typed("settle") }, sizes[:1]},
		{"edit", func(d *driver) {
			d.press("j", "e")
			for range 7 {
				d.press("down")
			}
			d.typed("rabbitmq.toggle.consumers[1].enable=maybe")
			d.press("up", "end", "backspace", "backspace", "backspace", "backspace", "backspace")
			d.typed("true")
			d.press("down")
		}, sizes[:3]},
		{"edit-review", func(d *driver) {
			d.press("j", "e", "down", "down", "end", "backspace", "backspace", "backspace", "backspace")
			d.typed("false")
			d.press("ctrl+s")
		}, sizes[:1]},
		{"steps", func(d *driver) { d.press("2", "k", "enter") }, sizes[:1]},
	} {
		for _, s := range c.sizes {
			name := fmt.Sprintf("%s-%dx%d", c.name, s[0], s[1])
			t.Run(name, func(t *testing.T) {
				drive(t, s[0], s[1], func(d *driver) {
					c.do(d)
					d.golden(name)
				})
			})
		}
	}
}
