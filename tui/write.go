package tui

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/belay-mq/belay/nacos"
	"github.com/belay-mq/belay/registry/control"
	"github.com/belay-mq/belay/registry/fleet"
	"github.com/belay-mq/belay/tui/cell"
	"github.com/belay-mq/belay/tui/field"
	"github.com/belay-mq/belay/tui/when"
)

// armAfter is how long a plan must have been on the screen before it can be
// confirmed: keys that were already on their way when it appeared, of a paste or
// of an impatient hand, confirm nothing.
const armAfter = 300 * time.Millisecond

// typingPause is how long after the newest key of a field the plan is made anew.
const typingPause = 300 * time.Millisecond

// planAge is how old a plan with planned times gets before it is made anew.
const planAge = 5 * time.Second

// The stops of a dialog, in the order of tab. A dialog has some of them; the last
// is always the buttons.
type stop int

const (
	stopReason stop = iota
	stopFrom
	stopUntil
	stopMin
	stopMax
	stopOne   // resume with one consumer
	stopForce // write although the file has a fault
	stopButtons
)

// writeDialog is the confirmation of a write: hazards first, then whom it
// concerns and the diff of each file, then the fields and the buttons. It plans
// while one types; only a plan that is shown can be confirmed.
type writeDialog struct {
	op    control.Op
	title string
	verb  string // of the button
	ids   []fleet.ID
	fixed []control.Intent // of an edit, a rollback: made elsewhere

	fields map[stop]*field.Field
	one    bool
	force  bool
	at     stop
	yes    bool   // the confirming button is selected
	typed  string // the number or name typed at the buttons

	plan     *control.Plan
	planErr  error
	ask      uint64    // of the plan that is being made; 0 none
	made     string    // the input that plan was made from
	asked    time.Time // when that plan was asked for
	shown    time.Time // when the first plan appeared
	edited   time.Time // when a field was last changed; zero: planned since
	applying bool
	apply    uint64
	queued   bool // confirmed while the plan was being made anew
	failed   string
	scroll   int
	conflict *nacos.ConflictError
	yours    *control.Plan             // what was confirmed before the conflict
	done     func(*Model)              // called when it was written; may be nil
	clash    func(*Model, nacos.State) // takes a conflict instead of this dialog; may be nil
}

func newWrite(op control.Op, rows []*fleet.Row) *writeDialog {
	d := &writeDialog{op: op, verb: title(string(op)), fields: map[stop]*field.Field{}}
	for _, r := range rows {
		d.ids = append(d.ids, r.ID)
	}
	what := strconv.Itoa(len(rows)) + " listeners"
	if len(rows) == 1 {
		what = cell.Clean(rows[0].ID.String())
	}
	d.title = d.verb + " " + what
	d.fields[stopReason] = &field.Field{}
	switch op {
	case control.Pause:
		d.fields[stopFrom], d.fields[stopUntil] = &field.Field{}, &field.Field{}
	case control.Scale:
		lo, hi := scaleNow(rows)
		a, b := field.New(lo), field.New(hi)
		d.fields[stopMin], d.fields[stopMax] = &a, &b
		d.at = stopMin
	}
	return d
}

// newConfirm is the confirmation of a plan that is there already: undo, edit,
// rollback.
func newConfirm(m *Model, op control.Op, heading, verb string, plan *control.Plan, intents []control.Intent) *writeDialog {
	d := &writeDialog{op: op, title: heading, verb: verb, plan: plan, shown: m.v.now, fields: map[stop]*field.Field{}, fixed: intents, at: stopButtons}
	for _, f := range plan.Files {
		for _, a := range f.Affected {
			d.ids = append(d.ids, a.ID)
		}
	}
	d.made = d.input()
	return d
}

func title(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// scaleNow is the range in force, where it is one for all rows.
func scaleNow(rows []*fleet.Row) (lo, hi string) {
	for i, r := range rows {
		var a, b string
		switch {
		case r.Desired.Min != nil && r.Desired.Max != nil:
			a, b = strconv.Itoa(*r.Desired.Min), strconv.Itoa(*r.Desired.Max)
		case len(r.Hosts) > 0:
			a, b = strconv.Itoa(r.Hosts[0].Report.Min), strconv.Itoa(r.Hosts[0].Report.Max)
		}
		if i > 0 && (a != lo || b != hi) {
			return "", ""
		}
		lo, hi = a, b
	}
	return lo, hi
}

// stops are the dialog's own, in order.
func (d *writeDialog) stops() []stop {
	var s []stop
	for _, x := range []stop{stopMin, stopMax, stopReason, stopFrom, stopUntil} {
		if d.fields[x] != nil {
			s = append(s, x)
		}
	}
	if d.op == control.Resume {
		s = append(s, stopOne)
	}
	if d.forceable() {
		s = append(s, stopForce)
	}
	return append(s, stopButtons)
}

// forceable reports whether a file had a fault before that may be passed over.
func (d *writeDialog) forceable() bool {
	if d.force {
		return true
	}
	if d.plan != nil {
		for _, f := range d.plan.Files {
			if f.Refusal != nil && f.Forceable {
				return true
			}
		}
	}
	return false
}

func (d *writeDialog) text(s stop) string {
	if f := d.fields[s]; f != nil {
		return strings.TrimSpace(f.Text())
	}
	return ""
}

// input is everything the plan depends on.
func (d *writeDialog) input() string {
	var b strings.Builder
	for _, s := range []stop{stopReason, stopFrom, stopUntil, stopMin, stopMax} {
		b.WriteString(d.text(s))
		b.WriteByte(0)
	}
	fmt.Fprint(&b, d.one, d.force)
	return b.String()
}

// intents makes the intents of the fields, or says what is wrong with them.
func (d *writeDialog) intents(m *Model) ([]control.Intent, error) {
	if d.fixed != nil {
		out := append([]control.Intent(nil), d.fixed...)
		for i := range out {
			out[i].Force = d.force
		}
		return out, nil
	}
	base := control.Intent{Op: d.op, Reason: d.text(stopReason), Force: d.force}
	var err error
	if base.At, err = when.Parse(d.text(stopFrom), m.v.now); err != nil {
		return nil, fmt.Errorf("from: %w", err)
	}
	if base.Until, err = when.Parse(d.text(stopUntil), m.until0(base.At)); err != nil {
		return nil, fmt.Errorf("until: %w", err)
	}
	if d.op == control.Scale {
		lo, err1 := strconv.Atoi(d.text(stopMin))
		hi, err2 := strconv.Atoi(d.text(stopMax))
		switch {
		case err1 != nil || err2 != nil:
			return nil, errors.New("min and max are whole numbers")
		case lo < 1:
			return nil, errors.New("min is at least 1; to have none, pause the listener")
		case hi < lo:
			return nil, fmt.Errorf("max %d is below min %d", hi, lo)
		}
		base.Min, base.Max = &lo, &hi
	}
	if d.one {
		n := 1
		base.Min, base.Max = &n, &n
	}
	out := make([]control.Intent, len(d.ids))
	for i, id := range d.ids {
		out[i] = base
		out[i].ID = id
	}
	return out, nil
}

// until0 is the moment that a length of time typed in "until" counts from: the
// begin of the pause.
func (m *Model) until0(at time.Time) time.Time {
	if at.IsZero() {
		return m.v.now
	}
	return at.In(m.v.loc)
}

// replan starts making a plan from the fields as they are.
func (d *writeDialog) replan(m *Model) tea.Cmd {
	d.edited = time.Time{}
	if d.plan != nil && !d.outdated(m) && d.made == d.input() && d.planErr == nil && d.ask == 0 {
		return nil
	}
	is, err := d.intents(m)
	if err != nil {
		d.plan, d.planErr, d.ask, d.made = nil, err, 0, d.input()
		return nil
	}
	d.ask, d.made, d.asked = m.ask(), d.input(), m.v.now
	return m.planCmd(d.ask, is)
}

// outdated reports whether the times of the plan have moved on: "15m" counts from now,
// not from when the dialog was opened.
func (d *writeDialog) outdated(m *Model) bool {
	if d.fixed != nil || d.plan == nil || d.fields[stopUntil] == nil || d.text(stopFrom) == "" && d.text(stopUntil) == "" {
		return false
	}
	return m.v.now.Sub(d.asked) >= planAge
}

// message takes answers, and the tick that plans anew after a pause in typing.
func (d *writeDialog) message(m *Model, msg tea.Msg) (bool, tea.Cmd) {
	switch msg := msg.(type) {
	case tickMsg:
		if !d.edited.IsZero() && m.v.now.Sub(d.edited) >= typingPause {
			return false, d.replan(m)
		}
		if d.edited.IsZero() && d.ask == 0 && !d.applying && d.outdated(m) {
			return false, d.replan(m)
		}
	case planMsg:
		if msg.ask != d.ask {
			return false, nil
		}
		d.ask = 0
		d.takePlan(m, msg)
		if d.queued {
			d.queued = false
			return false, d.confirm(m)
		}
	case applyMsg:
		if msg.ask == d.apply {
			return d.applied(m, msg)
		}
	}
	return false, nil
}

func (d *writeDialog) takePlan(m *Model, msg planMsg) {
	old := d.plan
	d.planErr = msg.err
	if msg.err != nil {
		d.plan, d.queued = nil, false
		return
	}
	d.plan = msg.plan
	if d.shown.IsZero() {
		d.shown = m.v.now
	}
	if d.at == stopButtons && old != nil && !sameDangers(old, d.plan) {
		d.shown = m.v.now // what is new needs its time to be read, too
	}
	if d.queued && !sameDangers(old, d.plan) {
		d.queued = false
		d.failed = "the plan has changed: read it, then press enter again"
	}
}

// sameDangers reports whether two plans warn of the same and concern the same.
func sameDangers(a, b *control.Plan) bool {
	if a == nil || b == nil {
		return false
	}
	return dangers(a) == dangers(b)
}

func blankDigit(r rune) rune {
	if r >= '0' && r <= '9' {
		return '0'
	}
	return r
}

func dangers(p *control.Plan) string {
	var b strings.Builder
	for _, h := range p.Hazards {
		b.WriteString(strings.Map(blankDigit, h.Text) + "\n") // "in 12 min" is still the same in a minute
	}
	for _, w := range p.Warnings {
		b.WriteString(w.Text + "\n")
	}
	for _, f := range p.Files {
		fmt.Fprintln(&b, f.App, f.Unchanged, f.TwoStep, f.Refusal, len(f.Affected))
	}
	return b.String()
}

// confirm writes the plan, if it is the one that the fields ask for, was shown
// long enough and nothing stands in the way; else it says what does.
func (d *writeDialog) confirm(m *Model) tea.Cmd {
	d.failed = ""
	if d.plan != nil && d.plan.Confirm.RequireReason && d.fields[stopReason] != nil && d.text(stopReason) == "" {
		d.failed = "a reason is required in " + m.v.label
		d.at, d.yes = stopReason, false
		return nil
	}
	if want := d.expect(m); want != "" && d.typed != want {
		d.failed = "type " + want + " first"
		return nil
	}
	if d.made != d.input() || d.ask != 0 || d.outdated(m) {
		cmd := d.replan(m)
		d.queued = d.ask != 0
		return cmd
	}
	switch {
	case d.planErr != nil:
		d.failed = "cannot be written: " + d.planErr.Error()
		return nil
	case d.plan == nil:
		return d.replan(m)
	case m.v.now.Sub(d.shown) < armAfter:
		d.failed = "that was too quick to have read it: press enter again"
		return nil
	}
	for _, f := range d.plan.Files {
		if f.Refusal != nil && !(d.force && f.Forceable) && !f.Unchanged {
			d.failed = "refused: " + f.Refusal.Text
			if f.NeedsEdit() {
				d.failed += "; esc, then e edits the file"
			}
			return nil
		}
	}
	d.applying, d.apply = true, m.ask()
	return m.applyCmd(d.apply, d.plan)
}

// applied takes the outcome of the write.
func (d *writeDialog) applied(m *Model, msg applyMsg) (closed bool, cmd tea.Cmd) {
	d.applying = false
	if msg.err != nil {
		d.failed = "not written: " + msg.err.Error()
		return false, nil
	}
	var said []string
	bad, lost := false, false
	for _, w := range msg.ticket.Files {
		var c *nacos.ConflictError
		switch {
		case errors.As(w.Err, &c) && d.clash != nil:
			d.clash(m, c.Actual)
			return true, nil
		case errors.As(w.Err, &c):
			d.conflict, d.yours = c, d.plan
			d.plan, d.made, d.shown, d.yes, d.typed = nil, "", time.Time{}, false, ""
			return false, d.replan(m)
		case w.Err != nil:
			said, bad = append(said, w.App+" not written: "+w.Err.Error()), true
		case w.Merged:
			said = append(said, w.App+" written; somebody else's change is kept")
		case w.Lost != "":
			said, lost = append(said, w.App+" written, but a change that somebody made meanwhile was overwritten: this server ignores the expected md5; the history has it"), true
		case w.MD5 == "" && w.UnchangedBy != "":
			said = append(said, w.App+" is already so, by "+w.UnchangedBy)
		case w.MD5 == "":
			said = append(said, w.App+" is already so")
		default:
			said = append(said, fmt.Sprintf("%s written (md5 %.6s…)", w.App, w.MD5))
		}
	}
	if bad {
		d.failed = strings.Join(said, "; ")
		return false, nil
	}
	if d.done != nil {
		d.done(m)
	}
	m.home().t.Unmark()
	m.say(string(d.op)+": "+strings.Join(said, "; ")+". The row shows how far it has come.", lost)
	return true, nil
}

// undoPlanned opens the confirmation of an undo.
func (m *Model) undoPlanned(msg undoMsg) {
	switch {
	case msg.err != nil && !errors.Is(msg.err, control.ErrNothingToUndo):
		m.say("undo: "+msg.err.Error(), true)
	case msg.err != nil:
		m.say("nothing to undo: no write of this dashboard is left; 3 (history) rolls back", false)
	default:
		m.open(newConfirm(m, control.Undo, "Undo my last toggle", "Undo", msg.plan, nil))
	}
}
