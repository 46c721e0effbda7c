package tui

import (
	"fmt"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/belay-mq/belay/registry/control"
	"github.com/belay-mq/belay/registry/fleet"
	"github.com/belay-mq/belay/registry/toggle"
	"github.com/belay-mq/belay/tui/cell"
	"github.com/belay-mq/belay/tui/filter"
	"github.com/belay-mq/belay/tui/keys"
	"github.com/belay-mq/belay/tui/style"
	"github.com/belay-mq/belay/tui/table"
)

// versions is the screen of a toggle file's history.
type versions struct {
	v        *view
	t        *table.Table[*control.Version, string]
	f        listFilter
	match    filter.Filter
	app      string
	listener string // shown alone first; "" shows all
	all      []control.Version
	err      error
	loading  bool
	w, h     int
}

func newVersions(v *view) *versions {
	s := &versions{v: v}
	type ver = *control.Version
	s.t = table.New(v.st, func(x ver) string { return x.ID },
		table.Column[ver]{Title: "TIME", Max: 19, Keep: true, Text: func(x ver) string { return x.At.In(v.loc).Format("2006-01-02 15:04:05") }, Style: func(ver) style.Style { return v.st.Dim }},
		table.Column[ver]{Title: "WHO", Min: 6, Max: 18, Fit: true, Priority: 90, Text: func(x ver) string { return or(cell.Clean(x.By), "-") }},
		table.Column[ver]{Title: "FROM", Min: 6, Max: 24, Fit: true, Priority: 50, Text: func(x ver) string { return or(cell.Clean(x.From), "-") }, Style: func(ver) style.Style { return v.st.Dim }},
		table.Column[ver]{Title: "OP", Max: 8, Priority: 40, Text: func(x ver) string { return cell.Clean(x.Op) }},
		table.Column[ver]{Title: "CHANGE", Min: 20, Want: 44, Flex: true, Priority: 60, Keep: true, Text: s.change},
		table.Column[ver]{Title: "MD5", Max: 7, Priority: 30, Text: func(x ver) string { return short(x.MD5) }, Style: func(ver) style.Style { return v.st.Dim }},
	)
	s.f.changed = func() {
		s.match = filter.Parse(s.f.text)
		s.fill()
	}
	return s
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// change sums up what a version changed, the chosen listener's changes first.
func (s *versions) change(x *control.Version) string {
	var mine, others []string
	for _, c := range x.Changes {
		if s.listener != "" && c.ListenerID == s.listener {
			mine = append(mine, c.String())
		} else {
			others = append(others, c.String())
		}
	}
	if s.listener != "" && len(mine) > 0 {
		others = nil
	}
	text := strings.Join(append(mine, others...), "; ")
	switch {
	case text != "":
	case !x.Known:
		text = "(content not read)"
	case x.Unreadable != "":
		text = x.Unreadable + "; nothing of it applies"
	default:
		text = "no toggle changed"
	}
	return cell.Clean(text)
}

// begin shows another application's history, filtered to a listener first.
func (s *versions) begin(app, listener string) {
	if app != s.app {
		s.all, s.err = nil, nil
	}
	s.app, s.listener, s.loading = app, listener, true
	s.fill()
}

// none says that there is no application.
func (s *versions) none() { s.app, s.all, s.loading = "", nil, false; s.fill() }

// take takes the answer to a question for the history.
func (s *versions) take(msg historyMsg) {
	if msg.app != s.app {
		return
	}
	s.loading = false
	s.err = msg.err
	if msg.err == nil {
		s.all = msg.versions
	}
	s.fill()
}

func (s *versions) fill() {
	var rows []*control.Version
	for i := range s.all {
		x := &s.all[i]
		if s.listener != "" && !touches(x, s.listener) {
			continue
		}
		if s.match.Match(x.By, x.From, x.Op, x.MD5, s.change(x)) {
			rows = append(rows, x)
		}
	}
	s.t.Measure(rows)
	s.t.SetRows(rows)
}

// touches reports whether a version changed a listener.
func touches(x *control.Version, listener string) bool {
	for _, c := range x.Changes {
		if c.ListenerID == listener {
			return true
		}
	}
	return false
}

func (s *versions) setSize(w, h int) {
	s.w, s.h = w, h
	s.t.SetSize(w, h)
}

func (s *versions) refresh() {}

func (s *versions) render() []string {
	if s.t.Len() > 0 {
		return s.t.Render()
	}
	var text string
	how := s.v.st.Dim
	switch {
	case s.app == "":
		text = "No application is known yet."
	case s.loading:
		text = "reading the history …"
	case s.err != nil:
		text, how = s.err.Error(), s.v.st.Bad
	case len(s.all) > 0:
		text = fmt.Sprintf("None of %d versions changed %s. esc shows all.", len(s.all), or(s.listener, "what the filter says"))
	default:
		text = "Nacos keeps no history of this file."
	}
	out := []string{""}
	for _, l := range cell.Wrap(cell.Clean(text), max(10, s.w-6)) {
		out = append(out, how.Paint("   "+l))
	}
	return out
}

func (s *versions) status() (left, right string) {
	l := []string{cell.Clean(s.app)}
	if s.listener != "" {
		l = append(l, s.v.st.Bold.Paint("listener ")+cell.Clean(s.listener))
	}
	if s.f.text != "" {
		l = append(l, s.v.st.Bold.Paint("filter ")+cell.Clean(s.f.text))
	}
	if s.err != nil && s.t.Len() > 0 {
		l = append(l, s.v.st.Bad.Paint("not read anew: "+cell.Clean(s.err.Error())))
	}
	return strings.Join(l, "  "), s.v.st.Dim.Paint(fmt.Sprintf("%d of %d versions", s.t.Len(), len(s.all)))
}

func (s *versions) do(a keys.Action) (bool, string) {
	if a == keys.Escape {
		switch {
		case s.f.text != "":
			s.f.set("")
		case s.listener != "":
			s.listener = ""
			s.fill()
		default:
			return false, ""
		}
		return true, ""
	}
	return move(s.t, a), ""
}

func (s *versions) hints() []keys.Action {
	return []keys.Action{keys.Open, keys.Filter, keys.Undo, keys.ShowConsumer, keys.Palette, keys.Back, keys.Help}
}

func (s *versions) filtering() *listFilter { return &s.f }

// versionDialog shows what a version changed, and offers to roll back to it.
type versionDialog struct {
	x      *control.Version
	before string
	app    string
	raw    bool
	yes    bool
	scroll int
	ask    uint64
	failed string
}

// openVersion opens the version under the cursor.
func (m *Model) openVersion() tea.Cmd {
	s := m.history()
	x, ok := s.t.Row()
	if !ok {
		m.say("there is no version", false)
		return nil
	}
	d := &versionDialog{x: x, app: s.app}
	for i := range s.all {
		if &s.all[i] == x && i+1 < len(s.all) {
			d.before = s.all[i+1].Text
		}
	}
	m.open(d)
	return nil
}

func (d *versionDialog) key(m *Model, k tea.KeyMsg) (bool, tea.Cmd) {
	switch k.String() {
	case "esc", "q":
		return true, nil
	case "d":
		d.raw = !d.raw
		d.scroll = 0
	case "j", "down":
		d.scroll++
	case "k", "up":
		d.scroll = max(0, d.scroll-1)
	case "pgdown", "ctrl+d":
		d.scroll += 10
	case "pgup", "ctrl+u":
		d.scroll = max(0, d.scroll-10)
	case "tab", "shift+tab":
		d.yes = !d.yes
	case "left", "h":
		d.yes = false
	case "right", "l":
		d.yes = true
	case "enter":
		if !d.yes {
			return true, nil
		}
		if m.readOnly() {
			d.failed = "read-only: this context allows no writing"
			return false, nil
		}
		d.ask = m.ask()
		return false, m.planCmd(d.ask, d.intents())
	}
	return false, nil
}

func (d *versionDialog) intents() []control.Intent {
	return []control.Intent{{Op: control.Rollback, ID: fleet.ID{App: d.app}, Version: d.x.ID}}
}

func (d *versionDialog) message(m *Model, msg tea.Msg) (bool, tea.Cmd) {
	p, ok := msg.(planMsg)
	if !ok || p.ask != d.ask {
		return false, nil
	}
	d.ask = 0
	if p.err != nil {
		d.failed = p.err.Error()
		return false, nil
	}
	m.close(d)
	m.open(newConfirm(m, control.Rollback, "Roll "+d.app+" back to "+d.x.At.In(m.v.loc).Format("2006-01-02 15:04:05"), "Roll back", p.plan, d.intents()))
	return false, nil
}

func (d *versionDialog) render(m *Model, w, h int) []string {
	st := m.v.st
	bw := min(w, 100)
	in := bw - 4
	lines := []string{
		st.Dim.Paint("when ") + d.x.At.In(m.v.loc).Format("2006-01-02 15:04:05 MST") + st.Dim.Paint(" ("+d.x.At.UTC().Format("15:04:05")+" UTC)"),
		st.Dim.Paint("who  ") + or(cell.Clean(d.x.By), "not known to Nacos") + st.Dim.Paint("  from ") + or(cell.Clean(d.x.From), "-"),
		"",
	}
	if d.raw {
		diff := diffLines(st, toggle.Unified([]byte(d.before), []byte(d.x.Text), 2), in)
		if !d.x.Known {
			diff = []string{st.Dim.Paint("the content of this version was not read")}
		} else if len(diff) == 0 {
			diff = []string{st.Dim.Paint("no line differs")}
		}
		lines = append(lines, diff...)
	} else {
		for _, c := range d.x.Changes {
			for _, l := range cell.Wrap(cell.Clean(c.String()), in-2) {
				lines = append(lines, "  "+l)
			}
		}
		switch {
		case len(d.x.Changes) > 0:
		case !d.x.Known:
			lines = append(lines, st.Dim.Paint("  the content of this version was not read"))
		case d.x.Unreadable != "":
			for _, l := range cell.Wrap(cell.Clean(d.x.Unreadable+"; nothing of it applies"), in-2) {
				lines = append(lines, "  "+st.Bad.Paint(l))
			}
		default:
			lines = append(lines, st.Dim.Paint("  no toggle changed"))
		}
	}
	room := max(1, h-5)
	d.scroll = max(0, min(d.scroll, len(lines)-room))
	if len(lines) > room {
		lines = append([]string(nil), lines[d.scroll:d.scroll+room]...)
	}
	button := func(text string, on bool) string {
		if on {
			return st.Selected.Paint("▸ " + text + " ")
		}
		return "[ " + text + " ]"
	}
	left := st.Dim.Paint("d raw diff, esc closes")
	if d.ask != 0 {
		left = st.Dim.Paint("reading the file …")
	}
	if d.failed != "" {
		left = st.Bad.Paint(cell.Clean(d.failed))
	}
	buttons := button("Close", !d.yes)
	if !m.readOnly() {
		buttons += "  " + button("Roll back to this …", d.yes)
	}
	lines = append(lines, "", cell.Spread(cell.Cut(left, in-cell.Width(buttons)-1), buttons, in))
	return box(st, "version "+cell.Clean(d.x.ID)+" of "+cell.Clean(d.app), lines, bw)
}

func (d *versionDialog) hint() string {
	return "d raw diff   j k move   ← → choose   enter   esc close"
}
