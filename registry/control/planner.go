package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/belay-mq/belay/consumers/observe"
	"github.com/belay-mq/belay/nacos"
	"github.com/belay-mq/belay/registry/fleet"
	"github.com/belay-mq/belay/registry/toggle"
)

// Plan reads the files that the intents concern and returns what writing them
// would change, whom that affects and what stands in the way. It writes nothing,
// and it may be asked for in a read-only context. Intents of one application are
// one write, all or none; an Edit or a Rollback must be the only one of its
// application.
//
// What must not be written stands in [FilePlan.Refusal]; the error is for intents
// that make no sense and files that cannot be read.
func (c *Control) Plan(ctx context.Context, intents ...Intent) (*Plan, error) {
	if c.cfg.Store == nil {
		return nil, errNoStore
	}
	now := time.Now()
	apps, byApp, err := c.group(intents, now)
	if err != nil {
		return nil, err
	}
	snap := c.snapshot()
	p := &Plan{Context: c.cfg.Context, Confirm: c.cfg.Confirm, Files: make([]FilePlan, len(apps))}
	errs := make([]error, len(apps))
	var wg sync.WaitGroup
	for i, app := range apps {
		wg.Go(func() {
			errs[i] = guarded("plan "+app, func() (err error) {
				p.Files[i], err = c.planFile(ctx, snap, app, byApp[app], now)
				return err
			})
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	c.sumUp(p, snap, now)
	return p, nil
}

// group sorts the intents by application and makes sure that they fit together.
func (c *Control) group(intents []Intent, now time.Time) (apps []string, byApp map[string][]Intent, err error) {
	if len(intents) == 0 {
		return nil, nil, errors.New("plan: there is no intent")
	}
	byApp = make(map[string][]Intent)
	for _, in := range intents {
		app := in.ID.App
		if app == "" {
			if app = c.cfg.App; app == "" {
				return nil, nil, fmt.Errorf("%s %q: the application is not named", in.Op, in.ID.Listener)
			}
			in.ID.App = app
		}
		in.By = c.operator(in.By)
		if in.Op == Undo && in.undo == nil {
			in.undo = c.undoOf(in.ID)
		}
		if _, seen := byApp[app]; !seen {
			apps = append(apps, app)
		}
		byApp[app] = append(byApp[app], in)
	}
	for _, list := range byApp {
		for i, in := range list {
			if in.wholeText() {
				if len(list) > 1 {
					return nil, nil, fmt.Errorf("%s of %s: it replaces the whole file, so no other change can go with it", in.Op, in.ID.App)
				}
				continue
			}
			if _, err := in.order(now, in.By); err != nil {
				return nil, nil, err
			}
			for _, other := range list[:i] {
				if other.ID == in.ID {
					return nil, nil, fmt.Errorf("%s is named twice", in.ID)
				}
			}
		}
	}
	return apps, byApp, nil
}

// wholeText says whether an intent replaces the whole file.
func (in Intent) wholeText() bool { return in.Op == Edit || in.Op == Rollback }

// planFile plans the write of one application.
func (c *Control) planFile(ctx context.Context, snap *fleet.Snapshot, app string, intents []Intent, now time.Time) (FilePlan, error) {
	key := c.key(app)
	f := FilePlan{App: app, Intents: intents}
	var err error
	if f.Base, err = c.cfg.Store.Get(ctx, key); err != nil {
		return f, fmt.Errorf("read the toggle file of %s: %w", app, err)
	}
	f.Base.Key = key
	if intents[0].wholeText() {
		err = c.planText(ctx, &f, intents[0])
	} else {
		err = c.planOrders(&f, snap, now)
	}
	if err != nil {
		return f, err
	}
	format := toggle.FormatOf(key.DataID)
	before := toggle.Parse(format, []byte(f.Base.Text))
	after := before
	if f.After != "" {
		after = toggle.Parse(format, []byte(f.After))
		if after.Fatal == nil { // of what cannot be read nothing applies
			f.Changes = toggle.Diff(before, after)
		}
		f.Diff = toggle.Unified([]byte(f.Base.Text), []byte(f.After), diffContext)
	}
	f.affect(snap)
	c.warnOfFile(ctx, &f, snap, after)
	return f, nil
}

// diffContext is how many lines stand around a change in a diff.
const diffContext = 2

// planOrders plans changes of single listeners.
func (c *Control) planOrders(f *FilePlan, snap *fleet.Snapshot, now time.Time) error {
	format := toggle.FormatOf(f.Base.Key.DataID)
	before := toggle.Parse(format, []byte(f.Base.Text))
	force := true
	for _, in := range f.Intents {
		force = force && in.Force
		order, err := in.order(now, in.By)
		if err != nil {
			return err
		}
		have, entry := before.Lookup(in.ID.Listener)
		if in.Op == Undo {
			c.stillMine(f, in.ID, &order, have)
		}
		if settled(order, have, entry) && (in.Op != Undo || asked(order.Reason, have.Reason)) {
			if !drifts(snap.Row(in.ID)) {
				f.already(in, have)
				continue
			}
			f.Warnings = append(f.Warnings, Warning{Code: "again", App: f.App,
				Text: fmt.Sprintf("the file says so already, but %s is not so: it is written again, which makes services apply it anew", in.ID.Listener)})
		}
		f.orders = append(f.orders, order)
		if in.Op == Scale && needsSteps(order, have, snap.Row(in.ID)) {
			f.TwoStep = true
			if f.steps == nil {
				f.steps = make(map[string]bool)
			}
			f.steps[order.ListenerID] = true
		}
	}
	if len(f.orders) == 0 {
		f.Unchanged, f.TwoStep = true, false
		return nil
	}
	after, err := toggle.Edit(format, []byte(f.Base.Text), force, f.orders...)
	var refusal *toggle.Refusal
	if errors.As(err, &refusal) {
		f.Refusal, f.Forceable = refusal, refusal.Forceable
		if !refusal.Forceable {
			return nil
		}
		after, err = toggle.Edit(format, []byte(f.Base.Text), true, f.orders...)
		if errors.As(err, &refusal) { // another fault stands behind the first
			f.Refusal, f.Forceable = refusal, false
			return nil
		}
	}
	if err != nil {
		return err
	}
	f.After = string(after)
	return nil
}

// drifts says whether a listener is not as its file wants it, such as one of a
// service that is not ours and was restarted: it runs although it is paused.
func drifts(row *fleet.Row) bool { return row != nil && row.State == fleet.Drift }

// already notes an intent that the file fulfils.
func (f *FilePlan) already(in Intent, have toggle.Toggle) {
	by := ""
	if have.UpdatedBy != nil {
		by = *have.UpdatedBy
	}
	if f.UnchangedBy == "" {
		f.UnchangedBy = by
	}
	text := map[Op]string{Pause: "already paused", Resume: "already wanted running", Scale: "already scaled so", Undo: "already as it was"}[in.Op]
	text = in.ID.Listener + " is " + text
	if by != "" {
		text += " by " + by
	}
	f.Warnings = append(f.Warnings, Warning{Code: "already", App: f.App, Text: text})
}

// needsSteps says whether a scale must be written in two steps: the container of a
// service that is not ours throws when the minimum rises above the maximum in
// force, and every entry after it is then skipped.
func needsSteps(order toggle.Intent, have toggle.Toggle, row *fleet.Row) bool {
	if row != nil && len(row.Hosts) > 0 || order.Min.Value == nil || order.Max.Value == nil {
		return false
	}
	inForce := 1 // at least
	if have.Max != nil {
		inForce = *have.Max
	} else if have.Min != nil {
		inForce = *have.Min
	}
	return *order.Min.Value > inForce
}

// planText plans the replacement of the whole file.
func (c *Control) planText(ctx context.Context, f *FilePlan, in Intent) error {
	text := in.Text
	if in.Op == Rollback {
		v, err := c.version(ctx, f.App, in.Version)
		if err != nil {
			return err
		}
		kept, err := c.keepStates(f, v.Text)
		if err != nil {
			return err
		}
		text = &kept
	}
	if text == nil || strings.TrimSpace(*text) == "" {
		return fmt.Errorf("%s of %s: the text is empty, and Nacos stores no empty file", in.Op, f.App)
	}
	f.After = *text
	if f.After == f.Base.Text && !f.Base.Absent {
		f.After, f.Unchanged = "", true
		return nil
	}
	err := toggle.Check(toggle.FormatOf(f.Base.Key.DataID), []byte(f.Base.Text), []byte(f.After), in.Force)
	var refusal *toggle.Refusal
	if errors.As(err, &refusal) {
		f.Refusal, f.Forceable = refusal, refusal.Forceable
	}
	return nil
}

// affect finds where the listeners run that the file's changes concern.
func (f *FilePlan) affect(snap *fleet.Snapshot) {
	var ids []string
	for _, in := range f.Intents {
		if !in.wholeText() {
			ids = append(ids, in.ID.Listener)
		}
	}
	for _, ch := range f.Changes {
		ids = append(ids, ch.ListenerID)
	}
	seen := make(map[string]bool)
	for _, listener := range ids {
		if seen[listener] {
			continue
		}
		seen[listener] = true
		a := Affected{ID: fleet.ID{App: f.App, Listener: listener}}
		if row := snap.Row(a.ID); row != nil {
			for _, h := range row.Hosts {
				if h.Lost {
					continue
				}
				a.Instances++
				if !slices.Contains(a.Hosts, h.Host) {
					a.Hosts = append(a.Hosts, h.Host)
				}
			}
			sort.Strings(a.Hosts)
		}
		f.Affected = append(f.Affected, a)
	}
}

// warnOfFile adds what a user should know of the file that would be written.
func (c *Control) warnOfFile(ctx context.Context, f *FilePlan, snap *fleet.Snapshot, after *toggle.File) {
	warn := func(code, format string, args ...any) {
		f.Warnings = append(f.Warnings, Warning{Code: code, App: f.App, Text: fmt.Sprintf(format, args...)})
	}
	problems := after.Warnings
	if after.Fatal != nil {
		problems = []toggle.Problem{*after.Fatal}
	}
	for _, p := range problems {
		if p.Class().Loud() {
			warn(string(p.Code), "%s (%s)", p.Class().Sentence(f.App), p)
		} else if p.Code == toggle.WindowEmpty {
			warn(string(p.Code), "%s", p)
		}
	}
	for _, t := range after.InForce() {
		for _, at := range plannedTimes(t) {
			if f.touches(t.ListenerID) && !at.After(time.Now()) {
				warn("past", "a planned time of %s has passed (%s): it acts as soon as this is written", t.ListenerID, stamp(at))
			}
		}
	}
	if !f.Base.Stale.IsZero() {
		warn("stale", "the toggle file was not read since %s; it may have changed", stamp(f.Base.Stale))
	}
	if f.Unchanged {
		return
	}
	if lossy, ok := c.cfg.Store.(Lossy); ok && !f.Base.Absent {
		if lost, err := lossy.Losses(ctx, f.Base.Key); err == nil && len(lost) > 0 {
			warn("metadata", "this write clears the config's %s", strings.Join(lost, ", "))
		}
	}
	for _, in := range f.Intents {
		if in.wholeText() {
			continue
		}
		row := snap.Row(in.ID)
		switch {
		case c.cfg.Fleet == nil:
		case row == nil:
			warn("unknown", "nobody knows a listener %s: no file, no instance", in.ID.Listener)
		case len(row.Hosts) == 0 && in.Op == Pause:
			warn("not-ours", "no instance reports %s: only the broker tells whether it stops, and after a restart its service runs again", in.ID.Listener)
		}
		if in.Op == Undo {
			c.undoWarnings(f, in.ID)
		}
	}
}

// touches says whether the write changes something of a listener.
func (f *FilePlan) touches(listener string) bool {
	for _, ch := range f.Changes {
		if ch.ListenerID == listener {
			return true
		}
	}
	return false
}

// sumUp collects hazards, warnings and writers over all files.
func (c *Control) sumUp(p *Plan, snap *fleet.Snapshot, now time.Time) {
	p.Writers = -1
	for _, f := range p.Files {
		timed := false
		for _, in := range f.Intents {
			timed = timed || in.timed(now)
			if row := snap.Row(in.ID); row != nil && !f.Unchanged {
				p.Hazards = append(p.Hazards, hazards(in, row)...)
			}
		}
		p.Warnings = append(p.Warnings, f.Warnings...)
		if !timed {
			continue
		}
		p.Timed = true
		n := int(min(c.running.Load(), 1))
		if a := snap.App(f.App); a != nil {
			n = max(n, a.Writers)
		}
		if n == 0 {
			p.Warnings = append(p.Warnings, Warning{Code: "no-writer", App: f.App, Text: "no process is there that could carry out the timed change; one must run when it is due"})
		}
		if p.Writers < 0 || n < p.Writers {
			p.Writers = n
		}
	}
	p.Writers = max(p.Writers, 0)
	if err := c.audit.check(); err != nil {
		p.Warnings = append(p.Warnings, Warning{Code: "audit", Text: "the audit log cannot be written: " + err.Error()})
	}
	sort.SliceStable(p.Hazards, func(i, j int) bool { return urgency(p.Hazards[i]) < urgency(p.Hazards[j]) })
	sort.SliceStable(p.Warnings, func(i, j int) bool { return gravity(p.Warnings[i]) > gravity(p.Warnings[j]) })
}

// hazards are those of the queues that an intent leaves without consumers, or, for
// a scale, with another number of them.
func hazards(in Intent, row *fleet.Row) []observe.Hazard {
	var list []observe.Hazard
	for _, q := range row.Queues {
		for _, h := range q.Hazards {
			scaling := h.Code == "exclusive" || h.Code == "single-active-consumer"
			if in.Op == Pause || in.Op == Undo || in.Op == Scale && scaling {
				if near, ok := q.NearLimit(row.MaxDelivery); ok && h.Code == observe.CodeDeliveryLimit {
					h = near
				}
				h.Text = "queue " + q.ID.Name + ": " + h.Text
				list = append(list, h)
			}
		}
	}
	return list
}

// urgency orders hazards: those that strike at once or lose messages first.
func urgency(h observe.Hazard) time.Duration {
	switch {
	case h.Code == "auto-delete" || h.Code == "exclusive":
		return -1
	case h.In > 0:
		return h.In
	}
	return 1 << 62
}

// gravity orders warnings: what services do not take first.
func gravity(w Warning) int {
	switch w.Code {
	case "already":
		return -1
	case "no-writer", "stale", "undo-changed":
		return int(toggle.Poisons)
	}
	return int(toggle.Code(w.Code).Class())
}

// parse reads the text of a state.
func parse(s nacos.State) *toggle.File {
	return toggle.Parse(toggle.FormatOf(s.Key.DataID), []byte(s.Text))
}
