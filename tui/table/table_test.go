package table

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/belay-mq/belay/tui/style"
)

type row struct {
	id   string
	text string
}

func newTable(t testing.TB) *Table[row, string] {
	st, err := style.New(true, nil)
	if err != nil {
		t.Fatal(err)
	}
	return New(st, func(r row) string { return r.id },
		Column[row]{Title: "ID", Min: 2, Max: 8, Fit: true, Keep: true, Text: func(r row) string { return r.id }},
		Column[row]{Title: "LEN", Max: 5, Right: true, Priority: 10, Text: func(r row) string { return fmt.Sprint(len(r.text)) }},
		Column[row]{Title: "TEXT", Min: 6, Want: 10, Flex: true, Priority: 50, Text: func(r row) string { return r.text }},
	)
}

func rowsOf(ids string) []row {
	var out []row
	for _, id := range strings.Fields(ids) {
		out = append(out, row{id, "text of " + id})
	}
	return out
}

func cursor(tb *Table[row, string]) string {
	r, _ := tb.Row()
	return r.id
}

func TestCursorStaysWithItsRow(t *testing.T) {
	tb := newTable(t)
	tb.SetSize(40, 4)
	tb.SetRows(rowsOf("a b c d e"))
	tb.Move(2)
	for _, c := range []struct{ rows, want string }{
		{"e d c b a", "c"},
		{"c", "c"},
		{"a b d e", "a"}, // gone: the place, which is the first
		{"x a", "a"},
		{"", ""},
		{"p q", "p"},
	} {
		tb.SetRows(rowsOf(c.rows))
		if got := cursor(tb); got != c.want {
			t.Errorf("after %q the cursor is on %q, want %q", c.rows, got, c.want)
		}
	}
}

func TestTargets(t *testing.T) {
	tb := newTable(t)
	tb.SetSize(40, 10)
	tb.SetRows(rowsOf("a b c d e"))
	targets := func() string {
		var ids []string
		for _, r := range tb.Targets() {
			ids = append(ids, r.id)
		}
		return strings.Join(ids, " ")
	}
	check := func(what, want string) {
		t.Helper()
		if got := targets(); got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	check("no mark: the row under the cursor", "a")
	tb.Go(1)
	tb.Mark()
	tb.Go(3)
	tb.Mark()
	check("the marked ones", "b d")
	tb.SetRows(rowsOf("d c a"))
	check("the marked ones that are seen", "d")
	tb.SetRows(rowsOf("c a"))
	check("all marks hidden: nothing", "")
	if all, hidden := tb.Marked(); all != 2 || hidden != 2 {
		t.Errorf("%d marked, %d hidden", all, hidden)
	}
	tb.SetRows(rowsOf("a b c d e"))
	tb.Unmark()
	tb.Go(1)
	tb.Range()
	tb.Go(3)
	tb.Range()
	check("a range", "b c d")
	tb.MarkAll()
	check("all", "a b c d e")
	tb.MarkAll()
	check("none again", "d")
	tb.Range()
	tb.SetRows(rowsOf("a c")) // the anchor d is hidden
	tb.Range()
	check("a range whose begin is hidden", "c")
}

// Moving about at random never leaves the rows, and the cursor is always drawn.
func TestRandomMoves(t *testing.T) {
	tb := newTable(t)
	rng := rand.New(rand.NewPCG(5, 6))
	for range 20_000 {
		switch rng.IntN(7) {
		case 0:
			tb.SetSize(rng.IntN(60), rng.IntN(12))
		case 1:
			var rows []row
			for i := range rng.IntN(30) {
				rows = append(rows, row{fmt.Sprint(i * (1 + rng.IntN(3))), strings.Repeat("漢", rng.IntN(9))})
			}
			tb.SetRows(rows)
		case 2:
			tb.Move(rng.IntN(9) - 4)
		case 3:
			tb.Page(float64(rng.IntN(5)-2) / 2)
		case 4:
			tb.Mark()
		case 5:
			tb.Range()
		case 6:
			tb.Click(rng.IntN(14))
		}
		lines := tb.Render()
		if len(lines) != max(0, tb.h) && tb.w > 0 {
			t.Fatalf("%d lines in %d", len(lines), tb.h)
		}
		seen := false
		for _, l := range lines {
			if w := ansi.StringWidth(l); w > tb.w {
				t.Fatalf("%q is %d wide in %d", l, w, tb.w)
			}
			seen = seen || strings.Contains(l, "▸")
		}
		if len(tb.rows) > 0 && tb.h > 1 && tb.w > 3 && !seen {
			t.Fatalf("the cursor at %d of %d is not drawn:\n%s", tb.cur, len(tb.rows), strings.Join(lines, "\n"))
		}
	}
}

func TestColumnsDropByPriority(t *testing.T) {
	tb := newTable(t)
	tb.SetRows(rowsOf("a"))
	tb.Measure(rowsOf("aaaa bbbbbbbbbbbb"))
	for _, c := range []struct {
		w    int
		want string
	}{
		{60, "0 1 2"},
		{3 + 8 + 2 + 5 + 2 + 10, "0 1 2"}, // all, and TEXT has what it wants
		{3 + 8 + 2 + 5 + 2 + 9, "0 2"},    // LEN goes, so that TEXT has what it wants
		{3 + 8 + 2 + 6, "0 2"},
		{3 + 8 + 2 + 5, "0"},
		{1, "0"},
	} {
		tb.SetSize(c.w, 3)
		if got := strings.Trim(fmt.Sprint(tb.shown), "[]"); got != c.want {
			t.Errorf("in %d: columns %s, want %s", c.w, got, c.want)
		}
	}
	tb.SetSize(60, 3)
	tb.Hide(1, true)
	if tb.Shows(1) || !tb.Shows(2) || tb.Width(2) == 0 || tb.Width(1) != 0 {
		t.Error("hiding a column")
	}
}

// A column that grew for a long text gives the room back when the text has long been
// short, so that the columns dropped for it come back.
func TestGrownColumnsShrinkAgain(t *testing.T) {
	st, err := style.New(true, nil)
	if err != nil {
		t.Fatal(err)
	}
	tb := New(st, func(r row) string { return r.id },
		Column[row]{Title: "STATE", Min: 5, Max: 30, Grow: true, Keep: true, Text: func(r row) string { return r.text }},
		Column[row]{Title: "UNACK", Max: 5, Priority: 10, Text: func(r row) string { return r.id }},
	)
	tb.SetSize(24, 4)
	shows := func() bool { return strings.Contains(strings.Join(tb.Render(), "\n"), "UNACK") }
	tb.SetRows([]row{{"a", "running"}})
	if !shows() {
		t.Fatal("UNACK is not there at first")
	}
	tb.SetRows([]row{{"a", "running, 27s old, and more"}})
	if shows() {
		t.Fatal("UNACK is there although STATE needs the room")
	}
	tb.SetRows([]row{{"a", "running"}})
	if shows() {
		t.Error("the column flutters: it shrank at once")
	}
	for range shrinkAfter {
		shows()
	}
	if !shows() {
		t.Error("UNACK did not come back")
	}
}
