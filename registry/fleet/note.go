package fleet

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/belay-mq/belay/consumers"
	"github.com/belay-mq/belay/consumers/observe"
	"github.com/belay-mq/belay/registry/presence"
)

// maxNote bounds a note; screens cut it further.
const maxNote = 200

// note is the one sentence that helps most: why the row is as it is, who is behind, or
// where its queue is heading.
func note(r *Row, f *facts, file fileView, now time.Time) string {
	return presence.Clean(pickNote(r, f, file, now), maxNote)
}

func pickNote(r *Row, f *facts, file fileView, now time.Time) string {
	if e := r.Effect; e != nil {
		if s := effectNote(e); s != "" {
			return s
		}
	}
	switch r.State {
	case Unknown:
		return f.unknownNote(file)
	case Failed, MissingQueue, Recovering:
		return f.troubleNote(now)
	case Pausing, Resuming, Scaling, Starting:
		return f.progressNote()
	case Drift:
		return f.driftNote()
	case Paused:
		return f.pausedNote()
	case Stopped:
		if n := f.count[consumers.Stopped]; n < f.fresh {
			return fmt.Sprintf("%d of %d stopped", n, f.fresh)
		}
		return causeNote(r.By, r.Reason)
	}
	return f.runningNote(file)
}

// effectNote speaks of a write only while it needs attention.
func effectNote(e *Effect) string {
	switch e.Phase {
	case Unconfirmed:
		if len(e.Behind) == 0 {
			return "written, not confirmed"
		}
		return "written, not confirmed: " + list(e.Behind) + " behind"
	case Superseded:
		if e.SupersededBy != "" {
			return e.Op + " overruled by " + e.SupersededBy
		}
		return e.Op + " overruled by a later write"
	case Conflict:
		return e.Op + " not written: the file was changed meanwhile"
	case WriteFailed:
		return e.Op + " failed: " + e.Err
	}
	return ""
}

func (f *facts) unknownNote(file fileView) string {
	r := f.row
	lost := 0
	for _, h := range r.Hosts {
		if h.Lost {
			lost++
		}
	}
	switch {
	case lost == 1:
		return "its instance " + r.Hosts[0].Instance + " is lost"
	case lost > 1:
		return fmt.Sprintf("all %d instances are lost", lost)
	case r.Broker.Known && f.enable != nil && !*f.enable:
		return "no instance reports it; wanted paused, broker shows 0"
	case r.Broker.Known:
		return "no instance reports it; broker shows 0"
	case file.watched > 0:
		return fmt.Sprintf("no instance reports it; %d listen in Nacos", file.watched)
	}
	return "no instance reports it"
}

// troubleNote tells of the instance that is worst off.
func (f *facts) troubleNote(now time.Time) string {
	bad := func(h Host) bool {
		s := consumers.State(h.Report.State)
		switch f.row.State {
		case Failed:
			return !h.Lost && s == consumers.Failed
		case MissingQueue:
			return !h.Lost && s == consumers.MissingQueue
		}
		return !h.Lost && (s == consumers.Recovering || s == consumers.Refused)
	}
	var worst *Host
	n := 0
	for i, h := range f.row.Hosts {
		if bad(h) {
			n++
			if worst == nil || h.Report.Attempts > worst.Report.Attempts {
				worst = &f.row.Hosts[i]
			}
		}
	}
	if worst == nil {
		return ""
	}
	l := worst.Report
	var b strings.Builder
	if f.fresh > 1 {
		fmt.Fprintf(&b, "%d of %d %s", n, f.fresh, strings.ReplaceAll(l.State, "-", " "))
	} else {
		b.WriteString(strings.ReplaceAll(l.State, "-", " "))
	}
	if l.Attempts > 0 {
		fmt.Fprintf(&b, ", attempt %d", l.Attempts)
	}
	if l.NextTry != nil && l.NextTry.After(now) {
		fmt.Fprintf(&b, ", next try in %s", Short(l.NextTry.Sub(now)))
	}
	if l.LastError != nil {
		b.WriteString(": " + *l.LastError)
	}
	return b.String()
}

// progressNote names one instance that is not there yet, and what it still does.
func (f *facts) progressNote() string {
	for _, h := range f.row.Hosts {
		if h.Lost || h.Applied {
			continue
		}
		switch {
		case h.Report.Draining > 0 || h.Report.State == string(consumers.Draining):
			return fmt.Sprintf("%s still draining %d", h.Instance, h.Report.InFlight)
		case h.Report.Attempts > 0:
			return fmt.Sprintf("%s tries to start, attempt %d", h.Instance, h.Report.Attempts)
		}
		return h.Instance + " not there yet"
	}
	return ""
}

func (f *facts) driftNote() string {
	r := f.row
	off := f.enable != nil && !*f.enable
	switch {
	case f.fresh == 0 && off:
		return "running although paused" + since(r.Desired.UpdatedAt) + fmt.Sprintf(", broker shows %d", int(r.Broker.Value))
	case f.differs.IsZero():
		return f.disputeNote(off)
	}
	var behind []string
	draining := 0
	for _, h := range r.Hosts {
		if !h.Lost && !h.Applied {
			behind = append(behind, h.Instance)
			draining += h.Report.Draining
		}
	}
	switch {
	case off && draining > 0:
		return "still draining: " + list(behind)
	case off:
		return "running although paused" + since(r.Desired.UpdatedAt) + ": " + list(behind)
	case f.enable != nil && f.count[consumers.Stopped] > 0:
		return "stopped although wanted running: " + list(behind)
	}
	return "not as wanted: " + list(behind)
}

// disputeNote says what the broker shows against the instances; of what is wanted only
// where the file says so.
func (f *facts) disputeNote(off bool) string {
	says, shown := "reported running", int(f.row.Broker.Value)
	switch {
	case off:
		says = "wanted paused"
	case f.enable != nil:
		says = "wanted running"
	case shown > 0:
		says = "reported stopped"
	}
	text := fmt.Sprintf("%s, broker shows %d", says, shown)
	if more := shown - f.row.Actual.Consumers; more > 0 && f.row.Actual.Known {
		// A service without presence, another team's, or an instance that is lost.
		text += fmt.Sprintf(", %d of nobody who reports", more)
	}
	return text
}

func since(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return " since " + t.Local().Format("2 Jan 15:04")
}

func (f *facts) pausedNote() string {
	r := f.row
	if n := f.fresh - f.count[consumers.Stopped]; n > 0 {
		return fmt.Sprintf("%d of %d not stopped", n, f.fresh)
	}
	return causeNote(r.By, r.Reason)
}

func causeNote(by, reason string) string {
	switch {
	case by == "" || by == "toggle":
		return reason
	case reason == "":
		return "by " + by
	}
	return by + ": " + reason
}

// runningNote says what is most pressing of a listener that runs.
func (f *facts) runningNote(file fileView) string {
	r := f.row
	switch {
	case r.Looping:
		return f.loopingNote()
	case f.unread:
		return "its toggle file was not read yet"
	case file.loud != nil && !f.next.IsZero():
		return file.loud.Text
	}
	for _, q := range r.Queues {
		if q.Disagree && q.ManagementConsumers.Known {
			return fmt.Sprintf("consumers of %s: %d by declare, %d by management", q.ID.Name, int(q.Consumers.Value), int(q.ManagementConsumers.Value))
		}
	}
	if urgent := pressing(r.Queues); urgent != nil {
		return urgent.Text
	}
	if !f.next.IsZero() && !r.Desired.PauseAt.IsZero() && r.Desired.PauseAt.Equal(f.next) {
		return "pauses " + f.next.Local().Format("15:04")
	}
	for _, h := range r.Hosts {
		if !h.Lost && h.Report.Blocked {
			return "publishing is blocked by a broker alarm"
		}
	}
	if lost := r.Inst.Total - r.Inst.Reporting; lost > 0 {
		return fmt.Sprintf("%d of %d instances lost", lost, r.Inst.Total)
	}
	for _, q := range r.Queues {
		if q.Forecast != "" {
			return q.Forecast
		}
	}
	return ""
}

func (f *facts) loopingNote() string {
	r := f.row
	s := fmt.Sprintf("looping: redelivered %.0f %%", r.Redeliv.Value)
	count := r.MaxDelivery
	if count == 0 && r.LastFailure != nil {
		count = r.LastFailure.DeliveryCount
	}
	if count == 0 {
		return s
	}
	for _, q := range r.Queues {
		if q.DeliveryLimit > 0 {
			return fmt.Sprintf("%s, delivery %d of %d", s, count, q.DeliveryLimit)
		}
	}
	return fmt.Sprintf("%s, delivery %d", s, count)
}

// pressing returns the hazard that strikes soonest, if it does within an hour while the
// listener runs as it does now.
func pressing(queues []*observe.Queue) *observe.Hazard {
	var out *observe.Hazard
	for _, q := range queues {
		for i, h := range q.Hazards {
			if h.In > 0 && h.In < time.Hour && (out == nil || h.In < out.In) {
				out = &q.Hazards[i]
			}
		}
	}
	return out
}

// list names at most two and counts the rest.
func list(names []string) string {
	names = slices.Clone(names)
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) > 2 {
		return fmt.Sprintf("%s, %s and %d more", names[0], names[1], len(names)-2)
	}
	return strings.Join(names, ", ")
}

// Short writes a duration as a person would say it: "4 s", "12 min", "3 h", "2 d".
func Short(d time.Duration) string {
	switch {
	case d < 0:
		return "0 s"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 100*time.Second:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 100*time.Minute:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d d", int(d.Hours()/24))
}
