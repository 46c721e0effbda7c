// Package cell makes the text of one place on the screen: cleaned of what must
// not reach a terminal, measured in columns, cut and padded to a width.
//
// Everything here is a function of its arguments, safe for concurrent use.
package cell

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// plain reports whether s is printable ASCII only: its width is its length and
// nothing in it needs cleaning.
func plain(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

// Clean returns s without anything that could act on a terminal or on the order
// of the text around it: escape sequences, control characters (line ends and
// tabs become a space), bidirectional overrides, zero-width and other format
// characters, invalid UTF-8. Every text that comes from outside goes through it
// before it is shown or logged.
func Clean(s string) string {
	if plain(s) {
		return s
	}
	s = ansi.Strip(s)
	if plain(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for _, r := range s {
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			b.WriteByte(' ')
		case r == utf8.RuneError, unicode.IsControl(r), unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co, unicode.Cs):
			// Left out: format characters reorder or hide what stands beside them.
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Lines returns the lines of a text from outside, each cleaned; tabs become four spaces.
func Lines(s string) []string {
	s = strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\t", "    ")
	ls := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
	for i := range ls {
		ls[i] = Clean(ls[i])
	}
	return ls
}

// Width returns the columns that s takes; escape sequences take none.
func Width(s string) int {
	if plain(s) {
		return len(s)
	}
	return ansi.StringWidth(s)
}

const blanks = "                                                                                                                                "

// Blank returns n spaces; none for n ≤ 0.
func Blank(n int) string {
	if n <= 0 {
		return ""
	}
	if n <= len(blanks) {
		return blanks[:n]
	}
	return strings.Repeat(" ", n)
}

// Cut returns s cut to at most w columns, with "…" in the last one where
// something was left out. Escape sequences in s stay.
func Cut(s string, w int) string {
	if w <= 0 {
		return ""
	}
	if len(s) <= w && plain(s) {
		return s
	}
	if Width(s) <= w {
		return s
	}
	return ansi.Truncate(s, w, "…")
}

// Left returns s in exactly w columns, at the left.
func Left(s string, w int) string {
	s = Cut(s, w)
	return s + Blank(w-Width(s))
}

// Right returns s in exactly w columns, at the right.
func Right(s string, w int) string {
	s = Cut(s, w)
	return Blank(w-Width(s)) + s
}

// Spread returns one line of exactly w columns with l at its left and r at its
// right end. Where both do not fit, r is left out, then l is cut.
func Spread(l, r string, w int) string {
	lw, rw := Width(l), Width(r)
	if lw+rw+1 > w {
		return Left(l, w)
	}
	return l + Blank(w-lw-rw) + r
}

// Wrap breaks a cleaned text into lines of at most w columns, at spaces where
// there are any.
func Wrap(s string, w int) []string {
	if w < 1 {
		return nil
	}
	if Width(s) <= w {
		return []string{s}
	}
	return strings.Split(ansi.Wrap(s, w, ""), "\n")
}

// Over lays box, a picture of lines, over lines with its upper left corner in
// column x of line y. Lines are of width w.
func Over(lines, box []string, x, y, w int) {
	for i, b := range box {
		n := y + i
		if n < 0 || n >= len(lines) {
			continue
		}
		bw := Width(b)
		left := ansi.Truncate(lines[n], x, "")
		left += Blank(x - Width(left))
		right := ""
		if x+bw < w {
			right = ansi.TruncateLeft(lines[n], x+bw, "")
		}
		lines[n] = Cut(left+reset+b+reset+right, w)
	}
}

const reset = "\x1b[m"
