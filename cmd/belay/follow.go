package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/belay-mq/belay/cmd/belay/internal/app"
	"github.com/belay-mq/belay/registry/control"
	"github.com/belay-mq/belay/registry/fleet"
)

const followStep = 25 * time.Millisecond

// follow waits until the effect of a write has an end on every listener, or wait has
// passed, and says what became of each. Progress goes to standard error.
func (g *globals) follow(ctx context.Context, b *app.Backend, plan *control.Plan, ticket control.Ticket, wait time.Duration) []result {
	var out []result
	pending := make(map[fleet.ID]int)
	for i, f := range plan.Files {
		w := ticket.Files[i]
		for _, id := range listenersOf(f) {
			r := result{App: id.App, ID: id.Listener, MD5: w.MD5, Result: resultOf(w, f.Unchanged)}
			if w.Err != nil {
				r.Error = w.Err.Error()
			}
			if row := b.Snapshot().Row(id); row != nil {
				r.Instances = resultInstances{Total: row.Inst.Total, Applied: row.Inst.Applied}
			}
			out = append(out, r)
			if r.Result == "written" && wait > 0 {
				pending[id] = len(out) - 1
			}
		}
	}
	deadline := time.NewTimer(wait)
	defer deadline.Stop()
	step := time.NewTicker(followStep)
	defer step.Stop()
	shown := ""
	for len(pending) > 0 {
		select {
		case <-ctx.Done():
			timeOut(out, pending, b.Outcomes(ticket))
			return out
		case <-deadline.C:
			timeOut(out, pending, b.Outcomes(ticket))
			return out
		case <-step.C:
		}
		outcomes := b.Outcomes(ticket)
		takeOutcomes(out, pending, outcomes)
		if line := progress(outcomes); line != shown {
			shown = line
			fmt.Fprintln(g.err, printable(line))
		}
	}
	sortResults(out)
	return out
}

// listenersOf are the listeners that a file's plan is about: those asked for, else those
// that an edited text or a version changes.
func listenersOf(f control.FilePlan) []fleet.ID {
	var ids []fleet.ID
	for _, in := range f.Intents {
		if in.ID.Listener != "" && !slices.Contains(ids, in.ID) {
			ids = append(ids, in.ID)
		}
	}
	for _, a := range f.Affected {
		if !slices.Contains(ids, a.ID) {
			ids = append(ids, a.ID)
		}
	}
	return ids
}

// resultOf is the result as far as the publish alone decides it.
func resultOf(w control.Written, unchanged bool) string {
	switch {
	case unchanged && w.Err == nil:
		return "unchanged"
	case w.Phase.Final():
		return string(w.Phase)
	}
	return "written"
}

func (r *result) take(e fleet.Effect) {
	r.Instances = resultInstances{Total: e.Total, Applied: e.Applied}
	r.behind = e.Behind
	if e.Err != "" {
		r.Error = e.Err
	}
	for _, v := range []struct {
		after time.Duration
		into  **int64
	}{{e.WrittenAfter, &r.WrittenMs}, {e.AppliedAfter, &r.AppliedMs}, {e.BrokerAfter, &r.BrokerMs}} {
		if v.after > 0 {
			n := v.after.Milliseconds()
			*v.into = &n
		}
	}
}

// takeOutcomes notes how far each listener has come, and takes out of pending what has
// ended.
func takeOutcomes(out []result, pending map[fleet.ID]int, outcomes []control.Outcome) {
	for _, oc := range outcomes {
		i, ok := pending[oc.ID]
		if !ok {
			continue
		}
		out[i].take(oc.Effect)
		if oc.Effect.Phase.Final() {
			out[i].Result = string(oc.Effect.Phase)
			delete(pending, oc.ID)
		}
	}
}

// timeOut ends what is still on its way: written, but not confirmed in time. The newest
// outcomes say who is behind.
func timeOut(out []result, pending map[fleet.ID]int, outcomes []control.Outcome) {
	takeOutcomes(out, pending, outcomes)
	for _, i := range pending {
		out[i].Result = string(fleet.Unconfirmed)
	}
}

// progress sums up how far the write has come.
func progress(outcomes []control.Outcome) string {
	seen, applied, total, done := 0, 0, 0, 0
	for _, o := range outcomes {
		e := o.Effect
		seen, applied, total = seen+e.Seen, applied+e.Applied, total+e.Total
		if e.Phase == fleet.Done {
			done++
		}
	}
	line := fmt.Sprintf("written, seen %d/%d, applied %d/%d", seen, total, applied, total)
	if done > 0 {
		line += fmt.Sprintf(", broker agrees on %d/%d", done, len(outcomes))
	}
	return line
}
