package tui

import (
	"io"
	"os"
	"sync"
)

// gate stands between the renderer and the terminal: while the terminal is lent
// to another program nothing passes. It is safe for concurrent use.
type gate struct {
	mu     sync.Mutex
	w      io.Writer
	closed bool
}

// Write passes p on, or drops it while the gate is closed.
func (g *gate) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return len(p), nil
	}
	return g.w.Write(p)
}

// shut closes the gate after a last word, or opens it with a first one.
func (g *gate) shut(closed bool, word string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, _ = io.WriteString(g.w, word)
	g.closed = closed
}

// fileGate is a gate before a terminal: Bubble Tea asks it for the window's size.
type fileGate struct {
	*gate
	f *os.File
}

// Fd is the terminal's.
func (g fileGate) Fd() uintptr { return g.f.Fd() }

// Read reads nothing: keys come another way.
func (g fileGate) Read([]byte) (int, error) { return 0, io.EOF }

// Close leaves the terminal open: it is not ours.
func (g fileGate) Close() error { return nil }
