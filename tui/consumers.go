package tui

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/belay-mq/belay/consumers/observe"
	"github.com/belay-mq/belay/registry/fleet"
	"github.com/belay-mq/belay/tui/cell"
	"github.com/belay-mq/belay/tui/filter"
	"github.com/belay-mq/belay/tui/keys"
	"github.com/belay-mq/belay/tui/style"
	"github.com/belay-mq/belay/tui/table"
)

// consumers is the home screen: one row for each listener.
type consumers struct {
	v     *view
	t     *table.Table[*fleet.Row, fleet.ID]
	f     listFilter
	match filter.Filter

	by      int // index of orders
	desc    bool
	order   []int32 // places in snap.Rows, sorted
	sorted  time.Time
	ids     []*fleet.Row // the rows that order was made for
	resort  bool
	shown   []*fleet.Row
	version uint64
	w, h    int
	hold    bool // a dialog is open: rows keep their places
}

// orders are what the list can be sorted by; without a key it is the snapshot's
// order, by name.
var orders = []struct {
	name string
	col  int // of consumerColumns
	desc bool
	key  func(*fleet.Row) float64
}{
	{"ready", colReady, true, func(r *fleet.Row) float64 { return numberKey(r.Ready) }},
	{"unacked", colUnack, true, func(r *fleet.Row) float64 { return numberKey(r.Unacked) }},
	{"in", colIn, true, func(r *fleet.Row) float64 { return numberKey(r.InRate) }},
	{"out", colOut, true, func(r *fleet.Row) float64 { return numberKey(r.OutRate) }},
	{"errors", colErr, true, func(r *fleet.Row) float64 { return numberKey(r.ErrRate) }},
	{"since", colSince, true, func(r *fleet.Row) float64 { return float64(r.Since.UnixMilli()) }},
	{"state", colState, false, func(r *fleet.Row) float64 { return float64(style.Rank(r.State)) }},
	{"name", colListener, false, nil},
}

// numberKey orders readings; what was never read comes below all others.
func numberKey(n observe.Number) float64 {
	if !n.Known || math.IsNaN(n.Value) {
		return -1
	}
	return n.Value
}

func newConsumers(v *view) *consumers {
	c := &consumers{v: v, desc: true}
	c.t = table.New(v.st, func(r *fleet.Row) fleet.ID { return r.ID }, consumerColumns(v)...)
	c.f.changed = func() {
		c.match = filter.Parse(c.f.text)
		c.resort = true
		c.refresh()
	}
	c.titles()
	return c
}

func (c *consumers) setSize(w, h int) {
	c.w, c.h = w, h
	c.t.SetSize(w, max(0, h-c.stripHeight()))
}

// stripHeight is the room of the newest feed lines below the list, with its rule.
// It takes what the list does not need, up to half of the body.
func (c *consumers) stripHeight() int {
	if c.h < 12 {
		return 0
	}
	least := 2
	if c.h >= 30 {
		least = 4
	}
	return max(least, min(c.h/2, c.h-2-len(c.v.snap.Rows), 1+len(c.v.feed.lines)))
}

// sortEvery is how often rows may change places by themselves.
const sortEvery = 2 * time.Second

func (c *consumers) refresh() {
	if c.v.snap.Version == c.version && !c.resort {
		return
	}
	c.version = c.v.snap.Version
	rows := c.v.snap.Rows
	same := len(rows) == len(c.ids)
	for i := 0; same && i < len(rows); i++ {
		same = rows[i] == c.ids[i] || rows[i].ID == c.ids[i].ID
	}
	c.ids = rows
	if !same {
		c.t.Measure(rows)
	}
	if c.resort || !same || !c.hold && c.v.now.Sub(c.sorted) >= sortEvery {
		c.sort(rows)
	}
	shown := make([]*fleet.Row, 0, len(rows))
	for _, i := range c.order {
		r := rows[i]
		if c.match.Empty() || c.match.Match(r.ID.App, r.ID.Listener, string(r.State), stateWord(r.State), r.Note, r.Reason) || c.matchQueue(r) {
			shown = append(shown, r)
		}
	}
	c.shown = shown
	c.t.Hide(colApp, oneApp(rows))
	c.t.SetRows(shown)
	c.resort = false
}

// matchQueue reports whether the filter finds a queue's name. An inverse filter
// hides by the other fields alone.
func (c *consumers) matchQueue(r *fleet.Row) bool {
	if strings.HasPrefix(strings.TrimSpace(c.f.text), "!") {
		return false
	}
	for _, q := range r.Queues {
		if c.match.Match(q.ID.Name) {
			return true
		}
	}
	return false
}

// sort orders rows anew. Rows that are alike keep the order of the snapshot.
func (c *consumers) sort(rows []*fleet.Row) {
	type keyed struct {
		key float64
		at  int32
	}
	ks := make([]keyed, len(rows))
	key := orders[c.by].key
	for i, r := range rows {
		k := float64(i) // by name is the snapshot's own order
		if key != nil {
			k = key(r)
		}
		if c.desc {
			k = -k
		}
		ks[i] = keyed{k, int32(i)}
	}
	slices.SortFunc(ks, func(a, b keyed) int {
		switch {
		case a.key < b.key:
			return -1
		case a.key > b.key:
			return 1
		}
		return int(a.at) - int(b.at)
	})
	c.order = c.order[:0]
	for _, k := range ks {
		c.order = append(c.order, k.at)
	}
	c.sorted = c.v.now
}

func (c *consumers) titles() {
	for i, col := range consumerColumns(c.v) {
		title := col.Title
		if i == orders[c.by].col {
			title += c.arrow()
		}
		c.t.SetTitle(i, title)
	}
}

func (c *consumers) arrow() string {
	if c.desc {
		return "▼"
	}
	return "▲"
}

func (c *consumers) render() []string {
	var lines []string
	if c.t.Len() == 0 {
		lines = c.empty()
	} else {
		lines = c.t.Render()
	}
	if n := c.stripHeight(); n > 0 {
		for len(lines) < c.h-n {
			lines = append(lines, "")
		}
		lines = append(lines, c.v.st.Dim.Paint("── feed "+strings.Repeat("─", max(0, c.w-8))))
		lines = append(lines, feedStrip(c.v, c.w, n-1)...)
	}
	return lines
}

// empty says why there is no row.
func (c *consumers) empty() []string {
	text := "No listener is known yet: no toggle file has an entry, no instance reports one."
	if len(c.v.snap.Rows) > 0 {
		text = fmt.Sprintf("None of %s listeners matches %q. esc clears the filter.", cell.Count(float64(len(c.v.snap.Rows))), cell.Clean(c.f.text))
	}
	lines := []string{""}
	for _, l := range cell.Wrap(text, c.w-6) {
		lines = append(lines, c.v.st.Dim.Paint(cell.Cut("   "+l, c.w)))
	}
	return lines
}

func (c *consumers) status() (left, right string) {
	var l []string
	if c.f.text != "" {
		l = append(l, c.v.st.Bold.Paint("filter ")+cell.Clean(c.f.text))
	}
	if all, hidden := c.t.Marked(); all > 0 {
		s := fmt.Sprintf("◆ %s marked", cell.Count(float64(all)))
		if hidden > 0 {
			s += fmt.Sprintf(", %d hidden by the filter", hidden)
		}
		l = append(l, c.v.st.Bold.Paint(s))
	}
	if c.t.Ranging() {
		l = append(l, c.v.st.Bold.Paint("range: move, then "+c.v.keys.Key(keys.Range)))
	}
	if len(l) == 0 {
		l = append(l, c.cut())
	}
	n := cell.Count(float64(len(c.v.snap.Rows)))
	if c.t.Len() != len(c.v.snap.Rows) {
		n = cell.Count(float64(c.t.Len())) + " of " + n
	}
	right = fmt.Sprintf("%s listeners · sort: %s %s", n, orders[c.by].name, c.arrow())
	if len(c.v.snap.Rows) == 1 {
		right = strings.Replace(right, "listeners", "listener", 1)
	}
	return strings.Join(l, "  "), c.v.st.Dim.Paint(right)
}

// cut is what the table had to cut of the row under the cursor: the application
// where its column is left out, and the whole note.
func (c *consumers) cut() string {
	r, ok := c.t.Row()
	if !ok {
		return ""
	}
	s, note := "", noteText(r)
	if !c.t.Shows(colApp) && !oneApp(c.v.snap.Rows) {
		s = cell.Clean(r.ID.App) + "  "
	}
	if cell.Width(note) > c.t.Width(colNote) {
		s += note
	}
	return c.v.st.Info.Paint(strings.TrimSpace(s))
}

func (c *consumers) do(a keys.Action) (bool, string) {
	if move(c.t, a) {
		return true, ""
	}
	switch a {
	case keys.Mark, keys.Range, keys.MarkAll:
		if c.t.Len() == 0 {
			return false, "there is no row to mark"
		}
	}
	switch a {
	case keys.Mark:
		c.t.Mark()
		c.t.Move(1)
	case keys.Range:
		c.t.Range()
	case keys.MarkAll:
		c.t.MarkAll()
	case keys.Sort:
		c.by = (c.by + 1) % len(orders)
		c.desc = orders[c.by].desc
		c.resorted()
	case keys.SortBack:
		c.desc = !c.desc
		c.resorted()
	case keys.Escape:
		switch {
		case c.t.Ranging(), c.f.text == "":
			return c.t.Unmark(), ""
		default:
			c.f.set("")
		}
	default:
		return false, ""
	}
	return true, ""
}

func (c *consumers) resorted() {
	c.resort = true
	c.titles()
	c.refresh()
}

func (c *consumers) hints() []keys.Action {
	return []keys.Action{keys.Pause, keys.Resume, keys.Scale, keys.Open, keys.Mark, keys.Filter, keys.Palette, keys.ShowFeed, keys.ShowHistory, keys.Help}
}

func (c *consumers) filtering() *listFilter { return &c.f }

// targets returns what an action acts on, or why there is nothing.
func (c *consumers) targets() ([]*fleet.Row, string) {
	if c.t.Ranging() {
		c.t.Range()
	}
	rows := c.t.Targets()
	if len(rows) > 0 {
		return rows, ""
	}
	if all, _ := c.t.Marked(); all > 0 {
		return nil, "all marked listeners are hidden by the filter: esc clears it"
	}
	return nil, "there is no listener to act on"
}
