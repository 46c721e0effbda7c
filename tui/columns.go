package tui

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/belay-mq/belay/consumers/observe"
	"github.com/belay-mq/belay/registry/control"
	"github.com/belay-mq/belay/registry/fleet"
	"github.com/belay-mq/belay/tui/cell"
	"github.com/belay-mq/belay/tui/style"
	"github.com/belay-mq/belay/tui/table"
	"github.com/belay-mq/belay/tui/when"
)

// The columns of the home screen, by place.
const (
	colApp = iota
	colListener
	colState
	colCons
	colReady
	colUnack
	colIn
	colOut
	colErr
	colInst
	colSince
	colNote
)

// numberOld is the age from which a number is shown dim.
const numberOld = 15 * time.Second

func consumerColumns(v *view) []table.Column[*fleet.Row] {
	type row = *fleet.Row
	num := func(get func(row) observe.Number, show func(float64) string) func(row) string {
		return func(r row) string {
			if n := get(r); n.Known {
				return show(n.Value)
			}
			return "-"
		}
	}
	old := func(get func(row) observe.Number, hot func(row) style.Style) func(row) style.Style {
		return func(r row) style.Style {
			if n := get(r); !n.Known || !r.Stale.IsZero() || v.age(n.At) > numberOld {
				return v.st.Dim
			}
			if hot != nil {
				return hot(r)
			}
			return v.st.Plain
		}
	}
	ready := func(r row) observe.Number { return r.Ready }
	unack := func(r row) observe.Number { return r.Unacked }
	in := func(r row) observe.Number { return r.InRate }
	out := func(r row) observe.Number { return r.OutRate }
	errs := func(r row) observe.Number { return r.ErrRate }
	dimStale := func(r row) style.Style {
		if !r.Stale.IsZero() {
			return v.st.Dim
		}
		return v.st.Plain
	}
	cols := []table.Column[row]{
		colApp:      {Title: "APP", Min: 3, Max: 16, Fit: true, Priority: 80, Text: v.shortApp},
		colListener: {Title: "LISTENER", Min: 8, Max: 28, Fit: true, Keep: true, Text: func(r row) string { return cell.Clean(r.ID.Listener) }},
		colState: {Title: "STATE", Min: 10, Max: 24, Grow: true, Keep: true, Text: func(r row) string { return stateText(v, r) },
			Style: func(r row) style.Style { return stateStyle(v, r) }},
		colCons:  {Title: "CONS", Min: 5, Max: 9, Grow: true, Priority: 75, Text: consText, Style: dimStale},
		colReady: {Title: "READY", Min: 6, Max: 11, Grow: true, Right: true, Priority: 95, Text: num(ready, cell.Count), Style: old(ready, nil)},
		colUnack: {Title: "UNACK", Min: 5, Max: 9, Grow: true, Right: true, Priority: 45, Text: num(unack, cell.Count), Style: old(unack, nil)},
		colIn:    {Title: "IN/s", Min: 4, Max: 8, Grow: true, Right: true, Priority: 50, Text: num(in, cell.Rate), Style: old(in, nil)},
		colOut:   {Title: "OUT/s", Min: 5, Max: 8, Grow: true, Right: true, Priority: 60, Text: num(out, cell.Rate), Style: old(out, nil)},
		colErr: {Title: "ERR/s", Min: 5, Max: 8, Grow: true, Right: true, Priority: 65, Text: num(errs, cell.Rate), Style: old(errs, func(r row) style.Style {
			if r.ErrRate.Value > 0 {
				return v.st.Bad
			}
			return v.st.Plain
		})},
		colInst: {Title: "INST", Min: 4, Max: 7, Grow: true, Right: true, Priority: 70, Text: func(r row) string {
			return strconv.Itoa(r.Inst.Applied) + "/" + strconv.Itoa(r.Inst.Total)
		}, Style: func(r row) style.Style {
			if r.Inst.Applied < r.Inst.Total {
				return v.st.Warn
			}
			return dimStale(r)
		}},
		colSince: {Title: "SINCE", Min: 5, Max: 6, Grow: true, Right: true, Priority: 40, Text: func(r row) string {
			if r.Since.IsZero() {
				return "-"
			}
			return cell.Age(v.age(r.Since))
		}, Style: dimStale},
		colNote: {Title: "NOTE", Min: 14, Want: 22, Flex: true, Priority: 72, Text: noteText, Style: func(r row) style.Style { return noteStyle(v, r) }},
	}
	return cols
}

// shortApp is an application's name for the narrow column: without the ending
// that all applications share ("-service").
func (v *view) shortApp(r *fleet.Row) string {
	return cell.Clean(strings.TrimSuffix(r.ID.App, v.ending))
}

// sharedEnding is the ending after a "-" that several names share, "" where they
// share none.
func sharedEnding(apps []*fleet.App) string {
	if len(apps) < 2 {
		return ""
	}
	i := strings.LastIndexByte(apps[0].Name, '-')
	if i <= 0 {
		return ""
	}
	end := apps[0].Name[i:]
	for _, a := range apps {
		if !strings.HasSuffix(a.Name, end) || len(a.Name) == len(end) {
			return ""
		}
	}
	return end
}

// oneApp reports whether all rows belong to one application.
func oneApp(rows []*fleet.Row) bool {
	return len(rows) > 0 && rows[0].ID.App == rows[len(rows)-1].ID.App
}

func stateWord(s fleet.State) string { return strings.ReplaceAll(string(s), "-", " ") }

// stateText is glyph, word, progress and time of a row's state.
func stateText(v *view, r *fleet.Row) string {
	glyph, word, _ := v.st.State(r.State)
	if !r.Stale.IsZero() {
		word = "was " + word // the time that follows is not since when it is so
	}
	s := glyph + " " + word
	switch r.State {
	case fleet.Pausing, fleet.Resuming, fleet.Scaling, fleet.Starting:
		if r.Total > 0 {
			s += fmt.Sprintf(" %d/%d", r.Done, r.Total)
		}
	case fleet.Paused:
		if !r.Desired.ResumeAt.IsZero() {
			s += " → " + when.Short(r.Desired.ResumeAt, v.now)
		}
	}
	if !r.Stale.IsZero() {
		s += " " + cell.Age(v.age(r.Stale)) + " ago"
	}
	return s
}

func stateStyle(v *view, r *fleet.Row) style.Style {
	if !r.Stale.IsZero() || v.late() {
		return v.st.Dim
	}
	_, _, s := v.st.State(r.State)
	return s
}

// consText is consumers running / wanted range: "4/4-8".
func consText(r *fleet.Row) string {
	n := "-"
	switch {
	case r.Actual.Known:
		n = fmt.Sprint(r.Actual.Consumers)
	case r.Broker.Known:
		n = cell.Count(r.Broker.Value)
	}
	lo, hi := -1, -1
	switch {
	case r.Actual.Known:
		lo, hi = r.Actual.Min, r.Actual.Max
	case r.Desired.Min != nil && r.Desired.Max != nil:
		lo, hi = *r.Desired.Min, *r.Desired.Max
	}
	switch {
	case lo < 0:
		return n
	case lo == hi:
		return fmt.Sprintf("%s/%d", n, lo)
	}
	return fmt.Sprintf("%s/%d-%d", n, lo, hi)
}

// noteText is the progress of a write while there is one, else the row's note.
func noteText(r *fleet.Row) string {
	if r.Effect != nil {
		return cell.Clean(effectText(r))
	}
	return cell.Clean(r.Note)
}

func noteStyle(v *view, r *fleet.Row) style.Style {
	if e := r.Effect; e != nil {
		switch e.Phase {
		case fleet.Done:
			return v.st.OK
		case fleet.Conflict, fleet.WriteFailed, fleet.Unconfirmed:
			return v.st.Bad
		case fleet.Superseded:
			return v.st.Warn
		}
		return v.st.Busy
	}
	switch r.State {
	case fleet.Failed, fleet.MissingQueue, fleet.Recovering, fleet.Drift:
		return v.st.Warn
	}
	if r.Looping {
		return v.st.Warn
	}
	return v.st.Plain
}

// effectText says how far a write has come: "pause: written 0.1 s · seen 3/3 · applied 2/3, host-c behind".
func effectText(r *fleet.Row) string {
	e := r.Effect
	op := e.Op
	if op == string(control.Pause) && !r.Desired.PauseAt.IsZero() {
		op = "planned pause" // nothing is paused yet: what is done is to plan it
	}
	switch e.Phase {
	case fleet.Writing:
		return op + ": writing"
	case fleet.Conflict:
		return op + " not written: somebody changed the file meanwhile"
	case fleet.WriteFailed:
		return op + " not written: " + e.Err
	case fleet.Superseded:
		by := e.SupersededBy
		if by == "" {
			by = "a later write"
		}
		return op + ": overruled by " + by
	case fleet.Done:
		d := max(e.WrittenAfter, e.SeenAfter, e.AppliedAfter, e.BrokerAfter)
		s := op + " done"
		if op != e.Op {
			s = op + " noted"
		}
		if d > 0 {
			s += " in " + cell.Span(d)
		}
		if e.Total > 0 {
			if op != e.Op {
				return s + fmt.Sprintf(" by %d/%d", e.Applied, e.Total)
			}
			s += fmt.Sprintf(": applied %d/%d", e.Applied, e.Total)
			if e.BrokerAfter > 0 {
				s += ", broker agrees"
			}
		}
		return s
	}
	s := op + ": written"
	if e.WrittenAfter > 0 {
		s += " " + cell.Span(e.WrittenAfter)
	}
	if e.Total > 0 {
		s += fmt.Sprintf(" → seen %d/%d → applied %d/%d", e.Seen, e.Total, e.Applied, e.Total)
	}
	if e.Phase == fleet.Applied {
		s += " → broker …"
	}
	if e.Phase == fleet.Unconfirmed {
		s = op + " written, not confirmed"
	}
	if len(e.Behind) > 0 {
		s += "; behind: " + strings.Join(e.Behind, ", ")
	}
	return s
}
