package tui

import (
	"fmt"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	container "github.com/belay-mq/belay/consumers"
	"github.com/belay-mq/belay/consumers/observe"
	"github.com/belay-mq/belay/registry/control"
	"github.com/belay-mq/belay/registry/fleet"
	"github.com/belay-mq/belay/tui/cell"
	"github.com/belay-mq/belay/tui/keys"
	"github.com/belay-mq/belay/tui/report"
	"github.com/belay-mq/belay/tui/style"
	"github.com/belay-mq/belay/tui/when"
)

// The panes of the detail, in the order of tab.
const (
	paneInstances = iota
	paneQueue
	paneChanges
	panes
)

// detail answers of one listener: what is it doing, who did that, and since when
// does it hurt.
type detail struct {
	v       *view
	row     *fleet.Row
	gone    bool // no longer in the snapshot
	history []control.Version
	histErr error
	loading bool
	pane    int
	scroll  [panes]int
	w, h    int
	lens    [panes]int
	rooms   [panes]int
}

func newDetail(v *view, r *fleet.Row) *detail { return &detail{v: v, row: r, loading: true} }

func (d *detail) setSize(w, h int) { d.w, d.h = w, h }

func (d *detail) refresh() {
	if r := d.v.snap.Row(d.row.ID); r != nil {
		d.row, d.gone = r, false
	} else {
		d.gone = true
	}
}

// take takes the history of the listener's file.
func (d *detail) take(msg historyMsg) {
	if msg.app == d.row.ID.App {
		d.loading, d.history, d.histErr = false, msg.versions, msg.err
	}
}

func (d *detail) filtering() *listFilter { return nil }

func (d *detail) hints() []keys.Action {
	return []keys.Action{keys.Pause, keys.Resume, keys.Scale, keys.NextPane, keys.Note, keys.ShowHistory, keys.Back, keys.Help}
}

func (d *detail) status() (left, right string) {
	s := cell.Clean(d.row.ID.String())
	if d.gone {
		s += "  " + d.v.st.Bad.Paint("no longer known")
	}
	return d.v.st.Bold.Paint(s), ""
}

func (d *detail) do(a keys.Action) (bool, string) {
	if a == keys.NextPane {
		d.pane = (d.pane + 1) % panes
		return true, ""
	}
	if a == keys.Open {
		return false, "this is the detail already; " + d.v.keys.Key(keys.Back) + " goes back"
	}
	return move(scroller{&d.scroll[d.pane], d.lens[d.pane], d.rooms[d.pane]}, a), ""
}

// render draws the head, then the three panes, each with the room it needs as far
// as there is some.
func (d *detail) render() []string {
	out := d.head()
	content := [panes][]string{d.instances(), d.queue(), d.changes()}
	names := [panes]string{"instances", "queue", "changes of the file"}
	rest := d.h - len(out) - panes
	share := shares(rest, content)
	for p := range panes {
		n := share[p]
		d.lens[p], d.rooms[p] = len(content[p]), n
		d.scroll[p] = max(0, min(d.scroll[p], len(content[p])-n))
		out = append(out, d.rule(names[p], p == d.pane, len(content[p])-n-d.scroll[p], d.scroll[p]))
		lo := d.scroll[p]
		for i := range n {
			if lo+i < len(content[p]) {
				out = append(out, cell.Cut(content[p][lo+i], d.w))
			} else {
				out = append(out, "")
			}
		}
	}
	return out
}

// shares divides lines among the panes: none gets more than it needs while
// another lacks some.
func shares(rest int, content [panes][]string) (n [panes]int) {
	for rest > 0 {
		given := false
		for p := range panes {
			if rest > 0 && n[p] < len(content[p]) {
				n[p]++
				rest--
				given = true
			}
		}
		if !given {
			n[panes-1] += rest
			return n
		}
	}
	return n
}

func (d *detail) rule(name string, focus bool, below, above int) string {
	st := d.v.st
	mark := "── "
	paint := st.Dim
	if focus {
		mark, paint = "▸─ ", st.Bold
	}
	more := ""
	if below > 0 || above > 0 {
		more = fmt.Sprintf(" (%d above, %d below)", above, max(0, below))
	}
	s := mark + name + more + " "
	return paint.Paint(s + strings.Repeat("─", max(0, d.w-cell.Width(s))))
}

// head says what it is doing and who did that.
func (d *detail) head() []string {
	st, r := d.v.st, d.row
	var out []string
	add := func(label, text string) {
		for i, l := range cell.Wrap(cell.Clean(text), max(10, d.w-12)) {
			if i > 0 {
				label = ""
			}
			out = append(out, " "+st.Dim.Paint(cell.Left(label, 9))+" "+l)
		}
	}
	state := stateText(d.v, r)
	line := stateStyle(d.v, r).Paint(state)
	if !r.Since.IsZero() {
		line += st.Dim.Paint("  since " + d.v.moment(r.Since) + " (" + d.v.ago(r.Since) + ")")
	}
	by := or(r.Desired.UpdatedBy, r.By)
	if by != "" {
		line += st.Dim.Paint("  by ") + cell.Clean(by)
	}
	if reason := or(r.Desired.Reason, r.Reason); reason != "" {
		line += st.Dim.Paint(": ") + cell.Clean(reason)
	}
	out = append(out, cell.Cut(" "+st.Dim.Paint("now       ")+line, d.w))
	add("wanted", d.wanted())
	if n := noteText(r); n != "" && n != cell.Clean(by+": "+or(r.Desired.Reason, r.Reason)) {
		add("note", n)
	}
	if s := risingSince(d.v, r); s != "" {
		add("hurts", s)
	}
	if f := lastFailure(r); f != "" {
		add("failure", f)
	}
	return out
}

// wanted is what the toggle file says.
func (d *detail) wanted() string {
	w := d.row.Desired
	if !w.Entry {
		return "no entry in the toggle file: no opinion"
	}
	var parts []string
	switch {
	case w.Enable == nil:
		parts = append(parts, "enable: no opinion")
	case *w.Enable:
		parts = append(parts, "on")
	default:
		parts = append(parts, "off")
	}
	if w.Min != nil || w.Max != nil {
		show := func(n *int) string {
			if n == nil {
				return "any"
			}
			return fmt.Sprint(*n)
		}
		parts = append(parts, "consumers "+show(w.Min)+"–"+show(w.Max)+" of each instance")
	}
	if !w.PauseAt.IsZero() {
		parts = append(parts, "pauses "+when.Text(w.PauseAt, d.v.now))
	}
	if !w.ResumeAt.IsZero() {
		parts = append(parts, "resumes "+when.Text(w.ResumeAt, d.v.now))
	}
	if !w.UpdatedAt.IsZero() {
		parts = append(parts, "written "+d.v.ago(w.UpdatedAt)+" ago")
	}
	return strings.Join(parts, ", ")
}

// lastFailure is the newest failure of any instance in one line.
func lastFailure(r *fleet.Row) string {
	var best *fleet.Host
	for i := range r.Hosts {
		h := &r.Hosts[i]
		if f := h.Report.LastFailure; f != nil && (best == nil || f.At.After(best.Report.LastFailure.At)) {
			best = h
		}
	}
	if best == nil {
		return ""
	}
	f := best.Report.LastFailure
	return fmt.Sprintf("%s on %s: %s (message %s, delivery %d)", f.At.Local().Format("15:04:05"), or(best.Host, best.Instance), f.Error, or(f.MessageID, "without id"), f.DeliveryCount)
}

// instances is a line for each process: wanted against actual.
func (d *detail) instances() []string {
	st := d.v.st
	if len(d.row.Hosts) == 0 {
		return []string{st.Dim.Paint("   no instance reports this listener")}
	}
	wide := 14
	for i := range d.row.Hosts {
		wide = max(wide, min(34, cell.Width(cell.Clean(d.row.Hosts[i].Instance))))
	}
	if d.w < 100 {
		wide = min(wide, 18)
	}
	narrow := d.w < 100
	head := "   " + cell.Left("INSTANCE", wide) + "  " + cell.Left("STATE", 14) + "  " + cell.Left("CONS", 7) + cell.Right("FLIGHT", 8) + cell.Right("HANDLED", 11) + cell.Right("FAILED", 8)
	if narrow {
		head += "  FILE"
	} else {
		head += cell.Right("REQUEUED", 10) + "  " + cell.Left("FILE", 14) + "  REPORT"
	}
	out := []string{st.Dim.Paint(cell.Cut(head, d.w))}
	for i := range d.row.Hosts {
		h := &d.row.Hosts[i]
		p := &h.Report
		state, how := containerGlyph(p.State)+" "+strings.ReplaceAll(p.State, "-", " "), st.Warn
		switch {
		case h.Lost:
			state, how = "✗ lost", st.Bad
		case h.Applied:
			how = st.OK
		}
		cons := fmt.Sprintf("%d/%d-%d", p.Consumers, p.Min, p.Max)
		line := "   " + cell.Left(cell.Clean(h.Instance), wide) + "  " + how.Paint(cell.Left(cell.Clean(state), 14)) + "  " + cell.Left(cons, 7) +
			cell.Right(cell.Count(float64(p.InFlight)), 8) + cell.Right(cell.Count(float64(p.Handled)), 11) + failedCell(st, p.Failed)
		if narrow {
			line += "  " + d.file(h, true)
		} else {
			line += cell.Right(cell.Count(float64(p.Requeued)), 10) + "  " + cell.Left(d.file(h, false), 14) + "  " + st.Dim.Paint(d.v.ago(h.At)+" old")
		}
		out = append(out, cell.Cut(line, d.w))
		if p.LastError != nil && *p.LastError != "" {
			text := fmt.Sprintf("%s; attempt %d", *p.LastError, p.Attempts)
			if p.NextTry != nil {
				text += ", next try " + p.NextTry.In(d.v.loc).Format("15:04:05")
			}
			out = append(out, cell.Cut("     "+st.Warn.Paint(cell.Clean(text)), d.w))
		}
	}
	return out
}

// file is the version of the toggle file that an instance has applied; brief says
// only where it is not the newest.
func (d *detail) file(h *fleet.Host, brief bool) string {
	s := short(h.FileMD5)
	a := d.v.snap.App(d.row.ID.App)
	switch {
	case a == nil || h.FileMD5 == "":
	case h.FileMD5 != a.File.MD5:
		s += " older"
	case !brief:
		s += " newest"
	}
	return s
}

// containerGlyph is the sign of a container's state.
func containerGlyph(state string) string {
	switch container.State(state) {
	case container.Running:
		return "●"
	case container.Stopped:
		return "■"
	case container.Starting, container.Draining:
		return "◐"
	case container.Recovering:
		return "↻"
	case container.MissingQueue, container.Refused, container.Failed:
		return "✗"
	}
	return "?"
}

func failedCell(st *style.Set, n uint64) string {
	s := cell.Right(cell.Count(float64(n)), 8)
	if n > 0 {
		return st.Warn.Paint(s)
	}
	return s
}

// changes are the listener's changes in the file's history.
func (d *detail) changes() []string {
	st := d.v.st
	switch {
	case d.histErr != nil:
		return []string{"   " + st.Dim.Paint(cell.Clean(d.histErr.Error()))}
	case d.loading:
		return []string{"   " + st.Dim.Paint("reading the history …")}
	}
	var out []string
	for i := range d.history {
		x := &d.history[i]
		var cs []string
		for _, c := range x.Changes {
			if c.ListenerID == d.row.ID.Listener {
				cs = append(cs, c.Field+" "+or(c.Before, "absent")+" → "+or(c.After, "absent"))
			}
		}
		if len(cs) == 0 {
			continue
		}
		who := or(cell.Clean(x.By), "-")
		if x.From != "" {
			who += " (" + cell.Clean(x.From) + ")"
		}
		line := "   " + st.Dim.Paint(stamp(x.At.In(d.v.loc), d.v.now)) + "  " + cell.Left(who, 24) + "  " + cell.Clean(strings.Join(cs, ", "))
		out = append(out, cell.Cut(line, d.w))
	}
	if len(out) == 0 {
		out = append(out, "   "+st.Dim.Paint("no change of this listener in the history that Nacos keeps"))
	}
	return out
}

// stamp is a time in a column, with its date where it is not the last such time.
func stamp(t, now time.Time) string {
	if now.Sub(t) < 20*time.Hour {
		return cell.Left(t.Format("15:04:05"), 12)
	}
	return cell.Left(t.Format("2 Jan 15:04"), 12)
}

// queueNumber is a number with its source and age.
func (d *detail) queueNumber(name string, n observe.Number, show func(float64) string) string {
	st := d.v.st
	if !n.Known {
		return st.Dim.Paint(name+" ") + "-"
	}
	return st.Dim.Paint(name+" ") + show(n.Value) + st.Dim.Paint(fmt.Sprintf(" (%s, %s)", n.Source, d.v.ago(n.At)))
}

// copyNote puts the incident note of the row on the clipboard.
func (m *Model) copyNote() tea.Cmd {
	r := m.row()
	if r == nil || m.at != screenConsumers {
		m.say("choose a listener on the consumers first, "+m.v.keys.Key(keys.ShowConsumer), false)
		return nil
	}
	return m.copy(report.Text(report.Input{Feed: m.v.feed.lines, ID: r.ID, Label: m.v.label, Location: m.v.loc, Now: m.v.now, Snapshot: m.v.snap}), "an incident note")
}
