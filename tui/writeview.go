package tui

import (
	"fmt"
	"strings"

	"github.com/belay-mq/belay/registry/control"
	"github.com/belay-mq/belay/registry/toggle"
	"github.com/belay-mq/belay/tui/cell"
	"github.com/belay-mq/belay/tui/style"
	"github.com/belay-mq/belay/tui/when"
)

// diffContext is how many lines of a diff a dialog shows of each file at most.
const diffMost = 400

func (d *writeDialog) render(m *Model, w, h int) []string {
	bw := min(w, 100)
	in := bw - 4
	foot := d.form(m, in)
	head := d.matter(m, in)
	room := max(1, h-2-len(foot)-1)
	if len(head) > room {
		d.scroll = min(d.scroll, len(head)-room+1)
		more := len(head) - d.scroll - (room - 1)
		head = append([]string(nil), head[d.scroll:d.scroll+room-1]...)
		hint := "pgup back"
		if more > 0 {
			hint = fmt.Sprintf("… %d more lines, pgdn", more)
		}
		head = append(head, m.v.st.Dim.Paint(hint))
	} else {
		d.scroll = 0
	}
	inner := append(head, m.v.st.Dim.Paint(strings.Repeat("─", in)))
	heading := d.title
	if l := m.contextLabel(d.plan); l != "" {
		heading += " in " + l
	}
	return box(m.v.st, cell.Clean(heading), append(inner, foot...), bw)
}

func (m *Model) contextLabel(p *control.Plan) string {
	if p != nil && p.Context != "" {
		return p.Context
	}
	return m.v.label
}

// matter is what there is to read before confirming: dangers, whom it concerns,
// the diff.
func (d *writeDialog) matter(m *Model, w int) []string {
	st := m.v.st
	var out []string
	para := func(s style.Style, lead, text string) {
		for i, l := range cell.Wrap(cell.Clean(text), w-cell.Width(lead)) {
			if i > 0 {
				lead = cell.Blank(cell.Width(lead))
			}
			out = append(out, s.Paint(lead+l))
		}
	}
	if d.conflict != nil {
		d.conflictLines(m, w, para, &out)
	}
	for _, line := range d.staleLines(m) {
		para(st.Warn, "! ", line)
	}
	if d.plan == nil {
		switch {
		case d.planErr != nil:
			para(st.Bad, "✗ ", d.planErr.Error())
		default:
			out = append(out, st.Dim.Paint("reading the file …"))
		}
		d.listOnly(m, &out)
		return out
	}
	p := d.plan
	for _, hz := range p.Hazards {
		text := hz.Text
		if hz.In > 0 && !strings.Contains(text, "in ") {
			text += ", in " + cell.Span(hz.In)
		}
		para(st.Bad, "! ", text)
	}
	for _, wn := range p.Warnings {
		text := wn.Text
		if wn.App != "" && len(p.Files) > 1 {
			text = wn.App + ": " + text
		}
		para(st.Warn, "! ", text)
	}
	if len(out) > 0 {
		out = append(out, "")
	}
	for _, f := range p.Files {
		d.fileLines(m, f, w, para, &out)
	}
	if len(p.Files) == 0 {
		out = append(out, "There is nothing to change.")
	}
	return out
}

// listOnly names the listeners while there is no plan.
func (d *writeDialog) listOnly(m *Model, out *[]string) {
	*out = append(*out, "")
	for i, id := range d.ids {
		if i == 8 && len(d.ids) > 9 {
			*out = append(*out, m.v.st.Dim.Paint(fmt.Sprintf("  and %d more", len(d.ids)-i)))
			break
		}
		*out = append(*out, "  "+cell.Clean(id.String()))
	}
}

// staleLines warn where what is shown is old.
func (d *writeDialog) staleLines(m *Model) []string {
	var out []string
	seen := map[string]bool{}
	for _, id := range d.ids {
		r := m.v.snap.Row(id)
		if r == nil || r.Stale.IsZero() || seen[r.StaleSrc] {
			continue
		}
		seen[r.StaleSrc] = true
		out = append(out, fmt.Sprintf("what %s says is %s old", r.StaleSrc, cell.Age(m.v.age(r.Stale))))
	}
	return out
}

// fileLines tells of one file: whom it concerns, in words, and the diff.
func (d *writeDialog) fileLines(m *Model, f control.FilePlan, w int, para func(style.Style, string, string), out *[]string) {
	st := m.v.st
	*out = append(*out, st.Bold.Paint(cell.Cut(cell.Clean(f.App), w)))
	if f.Unchanged {
		text := "already so"
		if d.op == control.Pause {
			text = "already paused"
		}
		if f.UnchangedBy != "" {
			text += " by " + f.UnchangedBy
		}
		para(st.Info, "  ", text+": nothing to write")
	}
	for _, a := range f.Affected {
		para(st.Plain, "  ", d.affectedText(m, a))
	}
	if f.Refusal != nil {
		text := f.Refusal.Text
		if f.Refusal.Line > 0 && !strings.Contains(text, "line") {
			text = fmt.Sprintf("line %d: %s", f.Refusal.Line, text)
		}
		if f.Forceable {
			text += " (it was so before; you may write all the same)"
		}
		para(st.Bad, "  ✗ ", text)
	}
	if f.TwoStep {
		para(st.Warn, "  ! ", "written in two steps, max first: services that are not ours would refuse a min above the max in force")
	}
	if len(f.Changes) > 0 && (d.op == control.Edit || d.op == control.Rollback || d.op == control.Undo) {
		for _, c := range f.Changes {
			para(st.Plain, "  ", c.String())
		}
	}
	if !f.Unchanged {
		*out = append(*out, diffLines(st, f.Diff, w)...)
	}
	*out = append(*out, "")
}

// affectedText names a listener and where it runs.
func (d *writeDialog) affectedText(m *Model, a control.Affected) string {
	s := cell.Clean(a.ID.Listener)
	switch n := a.Instances; n {
	case 0:
		s += ": no instance reports it"
	case 1:
		s += " on 1 instance"
	default:
		s += fmt.Sprintf(" on %d instances", n)
	}
	if len(a.Hosts) > 0 && len(a.Hosts) <= 6 {
		s += ": " + cell.Clean(strings.Join(a.Hosts, ", "))
	}
	if r := m.v.snap.Row(a.ID); r != nil {
		glyph, word, _ := m.v.st.State(r.State)
		s += fmt.Sprintf("; now %s %s", glyph, word)
		if r.Ready.Known {
			s += ", " + cell.Count(r.Ready.Value) + " ready"
		}
	}
	return s
}

// diffLines paints a unified diff.
func diffLines(st *style.Set, diff string, w int) []string {
	if strings.TrimSpace(diff) == "" {
		return nil
	}
	lines := cell.Lines(diff)
	var out []string
	for i, l := range lines {
		if i == diffMost {
			out = append(out, st.Dim.Paint(fmt.Sprintf("  … %d more lines", len(lines)-i)))
			break
		}
		s := st.Dim
		switch {
		case strings.HasPrefix(l, "+++"), strings.HasPrefix(l, "---"), strings.HasPrefix(l, "@@"):
		case strings.HasPrefix(l, "+"):
			s = st.Add
		case strings.HasPrefix(l, "-"):
			s = st.Del
		}
		out = append(out, s.Paint(cell.Cut("  "+l, w)))
	}
	return out
}

// form is the fields and the buttons.
func (d *writeDialog) form(m *Model, w int) []string {
	st := m.v.st
	var out []string
	label := func(s stop, text string) string {
		if d.at == s {
			return st.Bold.Paint("▸ " + cell.Left(text, 7))
		}
		return "  " + cell.Left(text, 7)
	}
	add := func(s stop, text, hint, note string) {
		f := d.fields[s]
		if f == nil {
			return
		}
		fw := min(40, w-10)
		if note != "" || s == stopMin || s == stopMax {
			fw = 16
		}
		if s == stopReason {
			fw = w - 10
		}
		line := label(s, text) + " " + f.Render(fw, d.at == s, hint, st)
		if note != "" {
			line += "  " + note
		}
		out = append(out, cell.Cut(line, w))
	}
	add(stopMin, "min", "", st.Dim.Paint("consumers at least, of each instance"))
	add(stopMax, "max", "", st.Dim.Paint("consumers at most"))
	hint := "why; it is shown to everybody"
	if d.plan != nil && d.plan.Confirm.RequireReason {
		hint = "why; required here"
	}
	add(stopReason, "reason", hint, "")
	add(stopFrom, "from", "now", d.timeNote(m, stopFrom))
	add(stopUntil, "until", "until resumed", d.timeNote(m, stopUntil))
	box := func(on bool) string {
		if on {
			return "[x]"
		}
		return "[ ]"
	}
	if d.op == control.Resume {
		out = append(out, cell.Cut(label(stopOne, "")+" "+box(d.one)+" with 1 consumer, to try a fix (space)", w))
	}
	if d.forceable() {
		out = append(out, cell.Cut(label(stopForce, "")+" "+st.Warn.Paint(box(d.force)+" write although the file has a fault (space)"), w))
	}
	return append(out, "", d.buttons(m, w))
}

// timeNote resolves a typed time in local time and UTC, and says who would carry
// it out.
func (d *writeDialog) timeNote(m *Model, s stop) string {
	st := m.v.st
	text := d.text(s)
	if text == "" {
		if s == stopFrom {
			return st.Dim.Paint("empty: now; or 22:00, 15m")
		}
		return st.Dim.Paint("empty: until resumed; or 15m, 1h, 14:30")
	}
	base := m.v.now
	if s == stopUntil {
		if at, err := when.Parse(d.text(stopFrom), m.v.now); err == nil {
			base = m.until0(at)
		}
	}
	t, err := when.Parse(text, base)
	if err != nil {
		return st.Bad.Paint(cell.Clean(err.Error()))
	}
	note := when.Text(t, m.v.now) + ", in " + cell.Span(t.Sub(m.v.now))
	if d.plan != nil && d.plan.Timed {
		switch n := d.plan.Writers; n {
		case 0:
			return note + st.Bad.Paint("; nobody is there to carry it out")
		case 1:
			note += "; 1 process can do it"
		default:
			note += fmt.Sprintf("; %d processes can do it", n)
		}
	}
	return note
}

func (d *writeDialog) buttons(m *Model, w int) string {
	st := m.v.st
	focus := d.at == stopButtons
	button := func(text string, selected bool) string {
		if focus && selected {
			return st.Selected.Paint("▸ " + text + " ")
		}
		return "[ " + text + " ]"
	}
	left := ""
	switch {
	case d.applying:
		left = st.Busy.Paint("◐ writing …")
	case d.failed != "":
		left = st.Bad.Paint(cell.Clean(d.failed))
	case d.queued || d.ask != 0 && focus:
		left = st.Dim.Paint("reading the file …")
	case d.closeOnly():
	case d.expect(m) != "":
		left = fmt.Sprintf("type %s to confirm: ", st.Bold.Paint(cell.Clean(d.expect(m)))) + cell.Clean(d.typed)
		if focus {
			left += st.Selected.Paint(" ")
		}
	case focus:
		left = st.Dim.Paint("← → choose, enter")
	default:
		left = st.Dim.Paint("tab, enter go on; esc cancels")
	}
	right := button("Cancel", !d.yes) + "  " + button(d.verb, d.yes)
	if d.closeOnly() {
		right = button("Close", true)
	}
	room := w - cell.Width(right) - 1
	return cell.Spread(cell.Cut(left, room), right, w)
}

// conflictLines show their change, beside which ours could not be written.
func (d *writeDialog) conflictLines(m *Model, w int, para func(style.Style, string, string), out *[]string) {
	st := m.v.st
	para(st.Bad, "! ", "Somebody changed this file meanwhile, and nothing was written. Theirs, then yours, then both together:")
	base := ""
	app := d.conflict.Key.Group
	yours := ""
	if d.yours != nil {
		for _, f := range d.yours.Files {
			if f.App == app || len(d.yours.Files) == 1 {
				base, yours = f.Base.Text, f.Diff
			}
		}
	}
	*out = append(*out, st.Bold.Paint("theirs"))
	switch {
	case d.conflict.Actual.Absent:
		*out = append(*out, st.Del.Paint("  the file was removed"))
	default:
		*out = append(*out, diffLines(st, toggle.Unified([]byte(base), []byte(d.conflict.Actual.Text), 1), w)...)
	}
	*out = append(*out, st.Bold.Paint("yours"))
	*out = append(*out, diffLines(st, yours, w)...)
	together := "merged: your intent on their text"
	if d.op == control.Rollback {
		together = "if you go on, their change is undone as well"
	}
	*out = append(*out, st.Bold.Paint(together))
}
