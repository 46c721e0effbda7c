// Package field is a line of text that is being typed.
package field

import (
	"unicode"

	"github.com/belay-mq/belay/tui/cell"
	"github.com/belay-mq/belay/tui/style"
)

// maxLen bounds what can be typed, in runes.
const maxLen = 400

// Field is one line of text with a cursor. The zero value is empty. It is not
// safe for concurrent use.
type Field struct {
	text []rune
	at   int
}

// New returns a field with text in it and the cursor at its end.
func New(text string) Field {
	r := []rune(text)
	return Field{text: r, at: len(r)}
}

// Text returns what was typed.
func (f *Field) Text() string { return string(f.text) }

// Set replaces the text and puts the cursor at its end.
func (f *Field) Set(text string) { *f = New(text) }

// Insert puts runes in at the cursor; control characters become spaces.
func (f *Field) Insert(rs ...rune) {
	for _, r := range rs {
		if len(f.text) >= maxLen {
			return
		}
		if unicode.IsControl(r) {
			r = ' '
		}
		f.text = append(f.text, 0)
		copy(f.text[f.at+1:], f.text[f.at:])
		f.text[f.at] = r
		f.at++
	}
}

// Key takes an editing key by its name ("left", "ctrl+w", …) and reports
// whether it was one.
func (f *Field) Key(name string) bool {
	switch name {
	case "left", "ctrl+b":
		f.at = max(0, f.at-1)
	case "right", "ctrl+f":
		f.at = min(len(f.text), f.at+1)
	case "home", "ctrl+a":
		f.at = 0
	case "end", "ctrl+e":
		f.at = len(f.text)
	case "backspace", "ctrl+h":
		if f.at > 0 {
			f.text = append(f.text[:f.at-1], f.text[f.at:]...)
			f.at--
		}
	case "delete":
		if f.at < len(f.text) {
			f.text = append(f.text[:f.at], f.text[f.at+1:]...)
		}
	case "ctrl+u":
		f.text = f.text[f.at:]
		f.at = 0
	case "ctrl+k":
		f.text = f.text[:f.at]
	case "ctrl+w", "alt+backspace":
		i := f.at
		for i > 0 && f.text[i-1] == ' ' {
			i--
		}
		for i > 0 && f.text[i-1] != ' ' {
			i--
		}
		f.text = append(f.text[:i], f.text[f.at:]...)
		f.at = i
	default:
		return false
	}
	return true
}

// Render draws the field in exactly w columns; with focus the cursor is shown
// in reverse. hint stands dim in an empty field.
func (f *Field) Render(w int, focus bool, hint string, st *style.Set) string {
	if w <= 0 {
		return ""
	}
	if len(f.text) == 0 {
		hint = cell.Cut(hint, w-1)
		rest := st.Field.Paint(cell.Blank(w - 1 - cell.Width(hint)))
		if !focus {
			return st.Dim.Paint(hint) + st.Field.Paint(" ") + rest
		}
		return st.Selected.Paint(" ") + st.Dim.Paint(hint) + rest
	}
	// Show the part around the cursor that fits.
	from := 0
	for from < f.at && cell.Width(cell.Clean(string(f.text[from:f.at])))+1 > w {
		from++
	}
	before := cell.Clean(string(f.text[from:f.at]))
	if !focus {
		return st.Field.Paint(cell.Left(before+cell.Clean(string(f.text[f.at:])), w))
	}
	under, after := " ", ""
	if f.at < len(f.text) {
		under, after = cell.Clean(string(f.text[f.at:f.at+1])), cell.Clean(string(f.text[f.at+1:]))
	}
	if cell.Width(before)+cell.Width(under) > w {
		under = " " // a wide sign in the last column
	}
	room := w - cell.Width(before) - cell.Width(under)
	return st.Field.Paint(before) + st.Selected.Paint(under) + st.Field.Paint(cell.Left(after, room))
}
