// Package table is a table of any length of which only the visible rows are
// drawn. Its cursor and its marks belong to identities, not to places: they
// stay with their row when the table is sorted, filtered or read anew.
package table

import (
	"github.com/belay-mq/belay/tui/cell"
	"github.com/belay-mq/belay/tui/style"
)

// Column is one column of a table of R.
type Column[R any] struct {
	Title string
	// Min and Max are widths in columns. With Fit the column is as wide as the
	// widest text of all rows, between them. With Grow it is as wide as the widest
	// text that was on the screen so far. With Flex it is Min wide and takes a share of
	// what is left, up to Max (0: all). Without any it is Max wide.
	Min, Max  int
	Fit, Grow bool
	Flex      bool
	// Want is the width of a Flex column for which columns of a lower priority are
	// dropped; 0 is Min.
	Want  int
	Right bool // numbers stand at the right
	// Priority says what is dropped first when the window is narrow: the lowest.
	// Columns with Keep are never dropped.
	Priority int
	Keep     bool
	Text     func(R) string
	// Style paints the text; nil leaves it plain.
	Style func(R) style.Style
}

// Table shows rows R with identities K. It is not safe for concurrent use.
type Table[R any, K comparable] struct {
	cols []Column[R]
	id   func(R) K
	st   *style.Set

	rows   []R
	w, h   int
	cur    int
	key    K
	has    bool // key is set
	top    int
	marks  map[K]struct{}
	anchor *K // of a range that is being marked

	hidden map[int]bool
	shown  []int // columns that fit, by index
	widths []int
	fits   []int // measured text widths, by column
	spare  []int // draws in a row with room to spare, by column
}

// New returns an empty table.
func New[R any, K comparable](st *style.Set, id func(R) K, cols ...Column[R]) *Table[R, K] {
	return &Table[R, K]{cols: cols, id: id, st: st, marks: map[K]struct{}{}, fits: make([]int, len(cols)), spare: make([]int, len(cols))}
}

// SetSize gives the table its room: width, and height including the line of titles.
func (t *Table[R, K]) SetSize(w, h int) {
	if w != t.w || h != t.h {
		t.w, t.h = w, h
		t.layout()
		t.scroll()
	}
}

// SetRows shows these rows, in this order. The cursor stays on its row; where
// that is gone, it stays at its place. The table keeps the slice.
func (t *Table[R, K]) SetRows(rows []R) {
	t.rows = rows
	found := false
	if t.has {
		// The row is mostly where it was.
		if t.cur < len(rows) && t.id(rows[t.cur]) == t.key {
			found = true
		} else {
			for i, r := range rows {
				if t.id(r) == t.key {
					t.cur, found = i, true
					break
				}
			}
		}
	}
	if !found {
		t.place(t.cur)
	}
	t.layout()
	t.scroll()
}

// Measure gives the columns that fit the width of the widest text of these rows:
// all there are, so that a filter does not move columns.
func (t *Table[R, K]) Measure(rows []R) {
	for c := range t.cols {
		col := &t.cols[c]
		if !col.Fit {
			continue
		}
		w := max(col.Min, cell.Width(col.Title))
		for _, r := range rows {
			if w >= col.Max {
				break
			}
			w = max(w, cell.Width(col.Text(r)))
		}
		t.fits[c] = min(w, col.Max)
	}
	t.layout()
}

// shrinkAfter is how often a table is drawn with room to spare in a column before the
// column gives it back: long enough that columns do not flutter.
const shrinkAfter = 30

// grow widens the columns that grow with what is on the screen, and narrows them again
// when that has long been shorter. It reports whether a width changed.
func (t *Table[R, K]) grow() bool {
	changed := false
	for c := range t.cols {
		col := &t.cols[c]
		if !col.Grow || t.hidden[c] {
			continue
		}
		w := max(col.Min, cell.Width(col.Title))
		for i := t.top; i < len(t.rows) && i < t.top+t.page() && w < col.Max; i++ {
			w = max(w, cell.Width(col.Text(t.rows[i])))
		}
		w = min(w, col.Max)
		switch {
		case w == t.fits[c]:
			t.spare[c] = 0
			continue
		case w < t.fits[c]:
			if t.spare[c]++; t.spare[c] < shrinkAfter {
				continue
			}
		}
		t.fits[c], t.spare[c], changed = w, 0, true
	}
	return changed
}

const gap = 2

// layout decides which columns are shown and how wide.
func (t *Table[R, K]) layout() {
	keep := make([]bool, len(t.cols))
	for i := range keep {
		keep[i] = !t.hidden[i]
	}
	width := func(c int) int {
		col := &t.cols[c]
		switch {
		case col.Flex:
			return col.Min
		case col.Fit, col.Grow:
			return t.fits[c]
		}
		return col.Max
	}
	// total is the width of all kept columns; columns of a higher priority than
	// below get what they want.
	total := func(below int) int {
		n := 3 - gap
		for c := range t.cols {
			if !keep[c] {
				continue
			}
			w := width(c)
			if t.cols[c].Priority > below {
				w = max(w, t.cols[c].Want)
			}
			n += w + gap
		}
		return n
	}
	for {
		lowest := -1
		for c := range t.cols {
			if keep[c] && !t.cols[c].Keep && (lowest < 0 || t.cols[c].Priority < t.cols[lowest].Priority) {
				lowest = c
			}
		}
		if lowest < 0 || total(t.cols[lowest].Priority) <= t.w {
			break
		}
		keep[lowest] = false
	}
	t.shown, t.widths = t.shown[:0], t.widths[:0]
	for c := range t.cols {
		if keep[c] {
			t.shown = append(t.shown, c)
			t.widths = append(t.widths, width(c))
		}
	}
	t.share(t.w - (3 - gap + sum(t.widths) + gap*len(t.widths)))
}

// share gives what is left to the columns that take it: first what they want,
// then evenly.
func (t *Table[R, K]) share(rest int) {
	give := func(most func(*Column[R]) int) {
		for rest > 0 {
			gave := false
			for i, c := range t.shown {
				col := &t.cols[c]
				if col.Flex && rest > 0 && t.widths[i] < most(col) {
					t.widths[i]++
					rest--
					gave = true
				}
			}
			if !gave {
				return
			}
		}
	}
	give(func(c *Column[R]) int { return c.Want })
	give(func(c *Column[R]) int {
		if c.Max == 0 {
			return t.w
		}
		return c.Max
	})
}

// place puts the cursor on a row by its place.
func (t *Table[R, K]) place(i int) {
	t.cur = max(0, min(i, len(t.rows)-1))
	if len(t.rows) > 0 {
		t.key, t.has = t.id(t.rows[t.cur]), true
	} else {
		t.has = false
	}
}

// scroll moves the window so that the cursor is in it.
func (t *Table[R, K]) scroll() {
	n := t.page()
	if t.cur < t.top {
		t.top = t.cur
	}
	if t.cur >= t.top+n {
		t.top = t.cur - n + 1
	}
	t.top = max(0, min(t.top, len(t.rows)-n))
}

// page is the number of rows on the screen.
func (t *Table[R, K]) page() int { return max(1, t.h-1) }

// Move moves the cursor by n rows, and marks on the way while a range is open.
func (t *Table[R, K]) Move(n int) { t.Go(t.cur + n) }

// Page moves the cursor by a share of the window's height.
func (t *Table[R, K]) Page(share float64) {
	n := int(float64(t.page()) * share)
	if n == 0 {
		n = 1
		if share < 0 {
			n = -1
		}
	}
	t.Move(n)
}

// Go puts the cursor on the row at a place; too high a one is the last.
func (t *Table[R, K]) Go(i int) {
	t.place(i)
	t.scroll()
}

// Select puts the cursor on a row by its identity, if it is shown.
func (t *Table[R, K]) Select(k K) bool {
	for i, r := range t.rows {
		if t.id(r) == k {
			t.Go(i)
			return true
		}
	}
	return false
}

// Len is the number of rows.
func (t *Table[R, K]) Len() int { return len(t.rows) }

// At is the place of the cursor.
func (t *Table[R, K]) At() int { return t.cur }

// Bottom reports whether the cursor is on the last row.
func (t *Table[R, K]) Bottom() bool { return t.cur >= len(t.rows)-1 }

// Row returns the row under the cursor.
func (t *Table[R, K]) Row() (r R, ok bool) {
	if t.cur < len(t.rows) && t.has {
		return t.rows[t.cur], true
	}
	return r, false
}

// Click moves the cursor to the row shown in line y of the table (0 is the titles).
func (t *Table[R, K]) Click(y int) {
	if i := t.top + y - 1; y >= 1 && i < len(t.rows) {
		t.Go(i)
	}
}

// Hide leaves a column out, or shows it again.
func (t *Table[R, K]) Hide(c int, hide bool) {
	if t.hidden[c] == hide {
		return
	}
	if t.hidden == nil {
		t.hidden = map[int]bool{}
	}
	t.hidden[c] = hide
	t.layout()
}

// Nth returns the row at a place, which must be one.
func (t *Table[R, K]) Nth(i int) R { return t.rows[i] }

// Shows reports whether a column is on the screen.
func (t *Table[R, K]) Shows(c int) bool {
	for _, x := range t.shown {
		if x == c {
			return true
		}
	}
	return false
}

// Width is the width of a column on the screen, 0 where it is not shown.
func (t *Table[R, K]) Width(c int) int {
	for i, x := range t.shown {
		if x == c {
			return t.widths[i]
		}
	}
	return 0
}
