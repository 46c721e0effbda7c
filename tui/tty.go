package tui

import (
	"encoding/base64"
	"errors"
	"io"
	"os"
	"strings"
	"sync"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/term"

	"github.com/belay-mq/belay/tui/input"
)

// What is sent to take the terminal and to give it back. Leaving is what Bubble Tea
// sends at its end, for the ends that it does not reach.
const (
	enterScreen = "\x1b[?1049h\x1b[2J\x1b[H\x1b[?25l\x1b[?2004h"
	leaveScreen = "\x1b[?2004l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?25h\x1b[?1049l"
)

// errNoTerminal is returned by Run where there is nothing to draw on.
var errNoTerminal = errors.New("the dashboard needs a terminal; for scripts use belay list or belay feed with -o json")

// tty owns the terminal: raw mode, keys, and who may write.
type tty struct {
	in     descriptor // nil where the input is no terminal
	out    *gate
	screen *os.File // nil where the output is no file
	outTTY bool
	reader *input.Reader
	env    func(string) string

	diverted func() // gives stdout and stderr back
	dismiss  func() // ends the watchman

	mu    sync.Mutex
	saved *term.State // as it was before raw mode; nil while it is not raw
}

// descriptor is an open file.
type descriptor interface{ Fd() uintptr }

// openTTY takes input and output as configured. gone is called when the
// terminal goes away.
func openTTY(cfg Config, env func(string) string, gone func(err error, isTerminal bool)) (*tty, io.Writer, error) {
	t := &tty{env: env}
	in := cfg.Input
	if in == nil {
		in = os.Stdin
		if !term.IsTerminal(os.Stdin.Fd()) {
			f, err := os.Open("/dev/tty")
			if err != nil {
				return nil, nil, errNoTerminal
			}
			in = f
		}
	}
	out := cfg.Output
	if out == nil {
		if !term.IsTerminal(os.Stdout.Fd()) {
			return nil, nil, errNoTerminal
		}
		f, restore := divert(cfg.LogPath)
		out, t.diverted = f, restore
	}
	if f, ok := in.(descriptor); ok && term.IsTerminal(f.Fd()) {
		t.in = f
	}
	t.out = &gate{w: out}
	var w io.Writer = t.out
	if f, ok := out.(*os.File); ok && term.IsTerminal(f.Fd()) {
		t.outTTY, t.screen = true, f
		w = fileGate{t.out, f}
	}
	if t.in != nil {
		t.dismiss = watch(cfg.LogPath)
	}
	if err := t.raw(); err != nil {
		t.end()
		return nil, nil, err
	}
	r, err := input.NewReader(in, func(err error) { gone(err, t.in != nil) })
	if err != nil {
		t.cooked()
		t.end()
		return nil, nil, err
	}
	t.reader = r
	return t, w, nil
}

// raw puts the terminal into raw mode.
func (t *tty) raw() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.in == nil || t.saved != nil {
		return nil
	}
	s, err := term.MakeRaw(t.in.Fd())
	if err != nil {
		return err
	}
	t.saved = s
	return nil
}

// cooked gives the terminal its former mode back.
func (t *tty) cooked() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.in != nil && t.saved != nil {
		_ = term.Restore(t.in.Fd(), t.saved)
		t.saved = nil
	}
}

// close ends the reading and restores the mode. After a rough end the screen is
// left too.
func (t *tty) close(rough bool) {
	if rough && t.outTTY {
		t.out.shut(true, leaveScreen)
	}
	_ = t.reader.Close()
	t.cooked()
	t.end()
}

// end gives back what openTTY took beside the mode.
func (t *tty) end() {
	if t.diverted != nil {
		t.diverted()
	}
	if t.dismiss != nil {
		t.dismiss()
	}
}

// Lend gives the terminal back, runs f and takes the terminal again. It is
// called beside the loop; the caller has the screen drawn anew.
func (t *tty) Lend(f func(*os.File) error) error {
	t.reader.Pause()
	t.out.shut(true, leaveScreen)
	t.cooked()
	err := f(t.screen)
	if e := t.raw(); e != nil && err == nil {
		err = e
	}
	t.out.shut(false, enterScreen)
	if e := t.reader.Resume(); e != nil && err == nil {
		err = e
	}
	return err
}

// Suspend stops the process as ctrl-z does, and goes on when it is continued.
func (t *tty) Suspend() tea.Msg {
	if err := t.Lend(func(*os.File) error { return stopProcess() }); err != nil {
		return noticeMsg{"suspend: " + err.Error(), true}
	}
	return resumedMsg{}
}

// mostCopied bounds a text for the clipboard; terminals ignore longer ones.
const mostCopied = 74_000

// Copy puts text on the clipboard of the terminal's user, with OSC 52, which
// works over SSH; inside tmux also passed through to the outer terminal.
func (t *tty) Copy(text string) {
	if len(text) > mostCopied {
		text = text[:mostCopied]
	}
	osc := "\x1b]52;c;" + base64.StdEncoding.EncodeToString([]byte(text)) + "\x07"
	if t.env("TMUX") != "" {
		osc += "\x1bPtmux;" + strings.ReplaceAll(osc, "\x1b", "\x1b\x1b") + "\x1b\\"
	}
	_, _ = io.WriteString(t.out, osc)
}
