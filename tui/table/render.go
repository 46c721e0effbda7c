package table

import (
	"strings"

	"github.com/belay-mq/belay/tui/cell"
)

// Render draws the table: the titles, then rows, exactly as many lines as it
// has room for, none wider than its width.
func (t *Table[R, K]) Render() []string {
	if t.h <= 0 || t.w <= 0 {
		return nil
	}
	if t.grow() {
		t.layout()
	}
	lines := make([]string, 0, t.h)
	lines = append(lines, t.st.Head.Paint(cell.Left(t.titles(), t.w)))
	lo, hi := -1, -1
	if t.anchor != nil {
		lo, hi = t.span()
	}
	var b strings.Builder
	for i := t.top; len(lines) < t.h; i++ {
		if i >= len(t.rows) {
			lines = append(lines, "")
			continue
		}
		_, marked := t.marks[t.id(t.rows[i])]
		if i >= lo && i <= hi {
			marked = true
		}
		b.Reset()
		t.line(&b, i, marked)
		lines = append(lines, b.String())
	}
	return lines
}

func (t *Table[R, K]) titles() string {
	var b strings.Builder
	b.WriteString("   ")
	for i, c := range t.shown {
		if i > 0 {
			b.WriteString(cell.Blank(gap))
		}
		if t.cols[c].Right {
			b.WriteString(cell.Right(t.cols[c].Title, t.widths[i]))
		} else {
			b.WriteString(cell.Left(t.cols[c].Title, t.widths[i]))
		}
	}
	return b.String()
}

// line draws one row. The row under the cursor has a pointer and is in reverse
// throughout, so that it is clear with and without colour; a marked one has a
// sign and is bold.
func (t *Table[R, K]) line(b *strings.Builder, i int, marked bool) {
	r := t.rows[i]
	selected := i == t.cur
	lead := "   "
	switch {
	case selected && marked:
		lead = "▸◆ "
	case selected:
		lead = "▸  "
	case marked:
		lead = " ◆ "
	}
	if !selected && marked {
		lead = t.st.Marked.Paint(lead)
	}
	b.WriteString(lead)
	for n, c := range t.shown {
		if n > 0 {
			b.WriteString(cell.Blank(gap))
		}
		col := &t.cols[c]
		text := cell.Clean(col.Text(r)) // whatever a column forgot
		if col.Right {
			text = cell.Right(text, t.widths[n])
		} else {
			text = cell.Left(text, t.widths[n])
		}
		if !selected && col.Style != nil {
			text = col.Style(r).Paint(text)
		}
		b.WriteString(text)
	}
	if selected {
		whole := cell.Left(b.String(), t.w)
		b.Reset()
		b.WriteString(t.st.Selected.Paint(whole))
		return
	}
	if w := 3 + sum(t.widths) + gap*max(0, len(t.widths)-1); w > t.w {
		whole := cell.Cut(b.String(), t.w)
		b.Reset()
		b.WriteString(whole)
	}
}

func sum(ns []int) int {
	n := 0
	for _, x := range ns {
		n += x
	}
	return n
}

// SetTitle changes a column's title, to show the sort order.
func (t *Table[R, K]) SetTitle(c int, title string) { t.cols[c].Title = title }
