// Package quiet keeps Bubble Tea from asking the terminal anything while the
// program starts.
//
// Bubble Tea v1 asks for the terminal's background colour in a package
// initialiser. On a terminal that does not answer, that holds up every command
// of the binary for five seconds, and on a dumb one it leaves escape bytes in
// the output. An explicit answer keeps it from asking. Go initialises packages
// in the order of their import paths as far as their dependencies allow (Go
// specification, "Program initialization"), and this path sorts before Bubble
// Tea's, so the answer is there in time.
//
// The answer itself means nothing: the dashboard paints with the terminal's own
// palette, which is right on a light and on a dark background.
package quiet

import "github.com/charmbracelet/lipgloss"

func init() { lipgloss.SetHasDarkBackground(true) }
