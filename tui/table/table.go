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
	// Min and Max are widths in columns; with Fit the column is as wide as its
	// widest text between them, else it is Max wide. One column, the one with Flex, takes the rest.
	Min, Max int
	Fit      bool
	Flex     bool
	Right    bool // numbers stand at the right
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
}

// New returns an empty table.
func New[R any, K comparable](st *style.Set, id func(R) K, cols ...Column[R]) *Table[R, K] {
	return &Table[R, K]{cols: cols, id: id, st: st, marks: map[K]struct{}{}, fits: make([]int, len(cols))}
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
	t.measure()
	t.layout()
	t.scroll()
}

// measure finds the widest text of the columns that fit theirs.
func (t *Table[R, K]) measure() {
	for c := range t.cols {
		col := &t.cols[c]
		if !col.Fit {
			continue
		}
		w := max(col.Min, cell.Width(col.Title))
		for _, r := range t.rows {
			if w >= col.Max {
				break
			}
			w = max(w, cell.Width(col.Text(r)))
		}
		t.fits[c] = min(w, col.Max)
	}
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
		case col.Fit:
			return t.fits[c]
		}
		return col.Max
	}
	total := func() int {
		n := 3
		for c := range t.cols {
			if keep[c] {
				n += width(c) + gap
			}
		}
		return n - gap
	}
	for total() > t.w {
		lowest := -1
		for c := range t.cols {
			if keep[c] && !t.cols[c].Keep && (lowest < 0 || t.cols[c].Priority < t.cols[lowest].Priority) {
				lowest = c
			}
		}
		if lowest < 0 {
			break
		}
		keep[lowest] = false
	}
	t.shown, t.widths = t.shown[:0], t.widths[:0]
	rest := t.w - total()
	for c := range t.cols {
		if !keep[c] {
			continue
		}
		w := width(c)
		if t.cols[c].Flex && rest > 0 {
			grow := rest
			if t.cols[c].Max > 0 {
				grow = min(rest, t.cols[c].Max-w)
			}
			w += grow
			rest -= grow
		}
		t.shown = append(t.shown, c)
		t.widths = append(t.widths, w)
	}
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
