package control

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/belay-mq/belay/nacos"
	"github.com/belay-mq/belay/registry/fleet"
	"github.com/belay-mq/belay/registry/toggle"
)

// written is this control's newest write.
type written struct {
	files []*fileRecord
}

// fileRecord is what was there before a write of one file, and what it wrote.
type fileRecord struct {
	app       string
	before    *toggle.File
	format    toggle.Format
	listeners map[string]inForce
	wrote     nacos.State
}

// inForce is how a listener was before a write, as its instances report it.
type inForce struct {
	running  *bool
	min, max *int
}

// record notes the state in force of the listeners that a write affects.
func (c *Control) record(f *FilePlan) *fileRecord {
	snap := c.snapshot()
	r := &fileRecord{app: f.App, before: parse(f.Base), format: toggle.FormatOf(f.Base.Key.DataID), listeners: make(map[string]inForce)}
	for _, a := range f.Affected {
		state := inForce{}
		if row := snap.Row(a.ID); row != nil {
			for _, h := range row.Hosts {
				if h.Lost {
					continue
				}
				running := h.Report.Consumers > 0 || h.Report.State == string(fleet.Running)
				if state.running == nil || running {
					state.running = &running
				}
				if h.Report.Min > 0 && state.min == nil {
					lo, hi := h.Report.Min, h.Report.Max
					state.min, state.max = &lo, &hi
				}
			}
		}
		r.listeners[a.ID.Listener] = state
	}
	return r
}

// remember keeps the records of a write for undo.
func (c *Control) remember(records []*fileRecord) {
	records = slices.DeleteFunc(records, func(r *fileRecord) bool { return r == nil })
	if len(records) == 0 {
		return
	}
	c.mu.Lock()
	c.mine = &written{files: records}
	c.mu.Unlock()
}

// UndoPlan plans the undoing of this control's newest write: the former values of
// those properties that it changed, not the whole old file. Where a former value
// was absent, the state in force before is written out, because an absent value
// would leave the listener as it is. Properties that somebody else has changed
// since are left alone; the plan's warnings say so. The error is
// [ErrNothingToUndo] where there is nothing.
func (c *Control) UndoPlan(ctx context.Context) (*Plan, error) {
	c.mu.Lock()
	mine := c.mine
	c.mu.Unlock()
	if mine == nil {
		return nil, ErrNothingToUndo
	}
	var intents []Intent
	for _, r := range mine.files {
		for listener := range r.listeners {
			id := fleet.ID{App: r.app, Listener: listener}
			if undo := c.undoOf(id); undo != nil {
				intents = append(intents, Intent{Op: Undo, ID: id, undo: undo})
			}
		}
	}
	if len(intents) == 0 {
		return nil, ErrNothingToUndo
	}
	slices.SortFunc(intents, func(a, b Intent) int {
		if a.ID.String() < b.ID.String() {
			return -1
		}
		return 1
	})
	return c.Plan(ctx, intents...)
}

// recordOf finds what this control's newest write did to a listener.
func (c *Control) recordOf(id fleet.ID) (r *fileRecord, was, wrote toggle.Toggle, ok bool) {
	c.mu.Lock()
	mine := c.mine
	c.mu.Unlock()
	if mine == nil {
		return nil, was, wrote, false
	}
	for _, r := range mine.files {
		if _, affected := r.listeners[id.Listener]; r.app == id.App && affected {
			was, _ = r.before.Lookup(id.Listener)
			wrote, _ = toggle.Parse(r.format, []byte(r.wrote.Text)).Lookup(id.Listener)
			return r, was, wrote, true
		}
	}
	return nil, was, wrote, false
}

// undoOf makes the order that brings a listener's former values back, nil where
// the newest write changed nothing of it.
func (c *Control) undoOf(id fleet.ID) *toggle.Intent {
	r, was, wrote, ok := c.recordOf(id)
	if !ok {
		return nil
	}
	state := r.listeners[id.Listener]
	in := toggle.Intent{Op: toggle.Add, ListenerID: id.Listener}
	changed := false
	if !equal(was.Enable, wrote.Enable) {
		changed = true
		switch {
		case was.Enable != nil:
			in.Enable = toggle.To(*was.Enable)
		case state.running != nil:
			in.Enable = toggle.To(*state.running)
		default:
			in.Enable = toggle.To(true)
		}
	}
	if !equal(was.Min, wrote.Min) {
		changed, in.Min = true, former(was.Min, state.min)
	}
	if !equal(was.Max, wrote.Max) {
		changed, in.Max = true, former(was.Max, state.max)
	}
	if !equal(was.Reason, wrote.Reason) {
		changed, in.Reason = true, former(was.Reason, nil)
	}
	if !equal(was.PauseAt, wrote.PauseAt) {
		changed, in.PauseAt = true, ahead(was.PauseAt)
	}
	if !equal(was.ResumeAt, wrote.ResumeAt) {
		changed, in.ResumeAt = true, ahead(was.ResumeAt)
	}
	if !changed {
		return nil
	}
	return &in
}

// former is a value that is written back: the one before, else the one in force,
// else none.
func former[T any](was, state *T) toggle.Opt[T] {
	switch {
	case was != nil:
		return toggle.To(*was)
	case state != nil:
		return toggle.To(*state)
	}
	return toggle.Null[T]()
}

// ahead is a planned time that is written back; one that has passed would act at
// once.
func ahead(was *string) toggle.Opt[string] {
	if was != nil {
		if at, err := time.Parse(time.RFC3339, *was); err == nil && at.After(time.Now()) {
			return toggle.To(*was)
		}
	}
	return toggle.Null[string]()
}

// stillMine takes out of an undo what somebody else has changed since, and says
// so.
func (c *Control) stillMine(f *FilePlan, id fleet.ID, order *toggle.Intent, have toggle.Toggle) {
	_, _, wrote, ok := c.recordOf(id)
	if !ok {
		return
	}
	keep := func(name string, same bool, clear func()) {
		if same {
			return
		}
		clear()
		by := "somebody else"
		if have.UpdatedBy != nil && *have.UpdatedBy != "" {
			by = *have.UpdatedBy
		}
		f.Warnings = append(f.Warnings, Warning{Code: "undo-changed", App: f.App, Text: fmt.Sprintf("%s of %s was changed by %s since: it stays", name, id.Listener, by)})
	}
	if order.Enable.Present {
		keep("enable", equal(wrote.Enable, have.Enable), func() { order.Enable = toggle.Opt[bool]{} })
	}
	if order.Min.Present || order.Max.Present {
		keep("concurrency", equal(wrote.Min, have.Min) && equal(wrote.Max, have.Max), func() { order.Min, order.Max = toggle.Opt[int]{}, toggle.Opt[int]{} })
	}
	if order.PauseAt.Present {
		keep("pauseAt", equal(wrote.PauseAt, have.PauseAt), func() { order.PauseAt = toggle.Opt[string]{} })
	}
	if order.ResumeAt.Present {
		keep("resumeAt", equal(wrote.ResumeAt, have.ResumeAt), func() { order.ResumeAt = toggle.Opt[string]{} })
	}
}

// undoWarnings tells which former values were absent.
func (c *Control) undoWarnings(f *FilePlan, id fleet.ID) {
	_, was, _, ok := c.recordOf(id)
	if !ok {
		return
	}
	for _, order := range f.orders {
		if order.ListenerID != id.Listener {
			continue
		}
		warn := func(code, format string, args ...any) {
			f.Warnings = append(f.Warnings, Warning{Code: code, App: f.App, Text: fmt.Sprintf(format, args...)})
		}
		if order.Enable.Value != nil && was.Enable == nil {
			warn("undo-absent", "%s had no enable before; the state in force then is written out: enable=%v", id.Listener, *order.Enable.Value)
		}
		switch {
		case order.Min.Value != nil && was.Min == nil || order.Max.Value != nil && was.Max == nil:
			warn("undo-absent", "%s had no concurrency before; the one in force then is written out", id.Listener)
		case order.Min.Present && order.Min.Value == nil || order.Max.Present && order.Max.Value == nil:
			warn("undo-kept", "%s had no concurrency before and no instance told it: it keeps its consumers until it restarts", id.Listener)
		}
	}
}
