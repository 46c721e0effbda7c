// Package editor is a text of many lines that is being typed: the toggle file in
// the dashboard.
//
// It keeps what it does not touch byte for byte: line ends, a byte order mark, a
// missing line end at the end of the text.
package editor

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/belay-mq/belay/tui/cell"
	"github.com/belay-mq/belay/tui/style"
)

// Area is the text with a cursor. It is not safe for concurrent use.
type Area struct {
	lines    [][]rune // a trailing \r belongs to its line
	row, col int
	top      int
	left     int
	crlf     bool
	page     int
}

// New returns an area with a text in it and the cursor at its begin. The text must
// be valid UTF-8: anything else would not come out as it went in.
func New(text string) *Area {
	a := &Area{page: 10}
	a.Set(text)
	return a
}

// Editable reports whether a text would come out of an area as it went in.
func Editable(text string) bool { return utf8.ValidString(text) }

// Set replaces the text; the cursor stays as near as it can.
func (a *Area) Set(text string) {
	a.lines = a.lines[:0]
	for l := range strings.SplitSeq(text, "\n") {
		a.lines = append(a.lines, []rune(l))
	}
	a.crlf = strings.Contains(text, "\r\n")
	a.row = min(a.row, len(a.lines)-1)
	a.fix()
}

// Text returns the text.
func (a *Area) Text() string {
	var b strings.Builder
	for i, l := range a.lines {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(string(l))
	}
	return b.String()
}

// Line is the cursor's line, from 1.
func (a *Area) Line() int { return a.row + 1 }

// Go puts the cursor on a line, from 1.
func (a *Area) Go(line int) {
	a.row = max(0, min(line-1, len(a.lines)-1))
	a.col = 0
}

// end is where the cursor can go in a line: before its \r.
func (a *Area) end(row int) int {
	n := len(a.lines[row])
	if n > 0 && a.lines[row][n-1] == '\r' {
		return n - 1
	}
	return n
}

func (a *Area) fix() { a.col = max(0, min(a.col, a.end(a.row))) }

// Insert types runes at the cursor; "\n" begins a line. Other control characters
// but tabs are left out.
func (a *Area) Insert(rs ...rune) {
	for _, r := range rs {
		switch {
		case r == '\n' || r == '\r':
			a.split()
		case r == '\t' || r >= ' ' && r != 0x7f && (r < 0x80 || r >= 0xa0):
			l := a.lines[a.row]
			l = append(l, 0)
			copy(l[a.col+1:], l[a.col:])
			l[a.col] = r
			a.lines[a.row] = l
			a.col++
		}
	}
}

// split breaks the line at the cursor.
func (a *Area) split() {
	l := a.lines[a.row]
	before := append([]rune(nil), l[:a.col]...)
	after := append([]rune(nil), l[a.col:]...)
	if a.crlf {
		before = append(before, '\r')
	}
	a.lines[a.row] = before
	a.lines = append(a.lines, nil)
	copy(a.lines[a.row+2:], a.lines[a.row+1:])
	a.lines[a.row+1] = after
	a.row++
	a.col = 0
}

// join puts the next line at the end of this one.
func (a *Area) join(row int) {
	if row+1 >= len(a.lines) {
		return
	}
	head := a.lines[row][:a.end(row)]
	a.lines[row] = append(append([]rune(nil), head...), a.lines[row+1]...)
	a.lines = append(a.lines[:row+1], a.lines[row+2:]...)
}

// Key takes an editing key by its name and reports whether it was one.
func (a *Area) Key(name string) bool {
	switch name {
	case "up":
		a.row = max(0, a.row-1)
	case "down":
		a.row = min(len(a.lines)-1, a.row+1)
	case "pgup":
		a.row = max(0, a.row-a.page)
	case "pgdown":
		a.row = min(len(a.lines)-1, a.row+a.page)
	case "ctrl+home":
		a.row, a.col = 0, 0
	case "ctrl+end":
		a.row = len(a.lines) - 1
		a.col = a.end(a.row)
	case "left":
		switch {
		case a.col > 0:
			a.col--
		case a.row > 0:
			a.row--
			a.col = a.end(a.row)
		}
	case "right":
		switch {
		case a.col < a.end(a.row):
			a.col++
		case a.row+1 < len(a.lines):
			a.row, a.col = a.row+1, 0
		}
	case "home", "ctrl+a":
		a.col = 0
	case "end", "ctrl+e":
		a.col = a.end(a.row)
	case "enter":
		a.split()
	case "tab":
		a.Insert('\t')
	case "backspace", "ctrl+h":
		switch {
		case a.col > 0:
			l := a.lines[a.row]
			a.lines[a.row] = append(l[:a.col-1], l[a.col:]...)
			a.col--
		case a.row > 0:
			a.row--
			a.col = a.end(a.row)
			a.join(a.row)
		}
	case "delete":
		if a.col < a.end(a.row) {
			l := a.lines[a.row]
			a.lines[a.row] = append(l[:a.col], l[a.col+1:]...)
		} else {
			a.join(a.row)
		}
	case "ctrl+k":
		if a.col < a.end(a.row) {
			l := a.lines[a.row]
			a.lines[a.row] = append(l[:a.col], l[a.end(a.row):]...)
		} else {
			a.join(a.row)
		}
	case "ctrl+u":
		l := a.lines[a.row]
		a.lines[a.row] = append([]rune(nil), l[a.col:]...)
		a.col = 0
	default:
		return false
	}
	a.fix()
	return true
}

// tabWide is the width of a tab as it is drawn.
const tabWide = 4

// shown is a line as it is drawn.
func shown(rs []rune) string {
	var b strings.Builder
	for _, r := range rs {
		switch r {
		case '\t':
			b.WriteString(cell.Blank(tabWide))
		case '\r':
		default:
			b.WriteString(cell.Clean(string(r)))
		}
	}
	return b.String()
}

// Render draws h lines of w columns: a line number, a sign, the text. sign gives a
// line's sign and style, "" where it has none.
func (a *Area) Render(w, h int, st *style.Set, sign func(line int) (string, style.Style)) []string {
	a.page = max(1, h-1)
	if a.row < a.top {
		a.top = a.row
	}
	if a.row >= a.top+h {
		a.top = a.row - h + 1
	}
	digits := max(3, len(strconv.Itoa(len(a.lines))))
	room := max(4, w-digits-4)
	at := cell.Width(shown(a.lines[a.row][:a.col]))
	if at < a.left {
		a.left = at
	}
	if at >= a.left+room {
		a.left = at - room + 1
	}
	out := make([]string, 0, h)
	for i := a.top; i < a.top+h; i++ {
		if i >= len(a.lines) {
			out = append(out, st.Dim.Paint(cell.Right("~", digits)))
			continue
		}
		s, how := sign(i + 1)
		if s == "" {
			s, how = " ", st.Plain
		}
		head := st.Dim.Paint(cell.Right(strconv.Itoa(i+1), digits)) + " " + how.Paint(s) + " "
		text := shown(a.lines[i])
		if i != a.row {
			out = append(out, head+paintLine(st, how, cutLeft(text, a.left, room)))
			continue
		}
		before := cutLeft(shown(a.lines[i][:a.col]), a.left, room)
		under, after := " ", ""
		if a.col < a.end(i) {
			under = shown(a.lines[i][a.col : a.col+1])
			if under == "" {
				under = " "
			}
			after = shown(a.lines[i][a.col+1:])
		}
		rest := room - cell.Width(before) - cell.Width(under)
		out = append(out, head+paintLine(st, how, before)+st.Selected.Paint(cell.Cut(under, max(1, room-cell.Width(before))))+paintLine(st, how, cutTo(after, rest)))
	}
	return out
}

// paintLine paints the text of a line that has a sign.
func paintLine(st *style.Set, how style.Style, text string) string {
	if strings.HasPrefix(strings.TrimSpace(text), "#") && how == st.Plain {
		return st.Dim.Paint(text)
	}
	return how.Paint(text)
}

// cutTo cuts without a sign that something was cut.
func cutTo(s string, w int) string {
	var b strings.Builder
	n := 0
	for _, r := range s {
		rw := cell.Width(string(r))
		if n+rw > w {
			break
		}
		n += rw
		b.WriteRune(r)
	}
	return b.String()
}

// cutLeft leaves out the first columns, then cuts to w.
func cutLeft(s string, left, w int) string {
	if left == 0 {
		return cutTo(s, w)
	}
	n := 0
	for i, r := range s {
		if n >= left {
			return cutTo(s[i:], w)
		}
		n += cell.Width(string(r))
	}
	return ""
}
