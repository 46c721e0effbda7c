// Package report writes the incident note of a listener: who did what, why and
// when, how deep the queue was before and after, and what each instance confirms.
package report

import (
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/belay-mq/belay/consumers/observe"
	"github.com/belay-mq/belay/registry/feed"
	"github.com/belay-mq/belay/registry/fleet"
	"github.com/belay-mq/belay/tui/cell"
)

// Input is what a note is written from.
type Input struct {
	// Feed is the timeline, oldest first; the lines of the listener are taken from it.
	Feed []*feed.Line
	// ID names the listener.
	ID fleet.ID
	// Label is the context's name.
	Label string
	// Location is the time zone of the note; nil is the local one.
	Location *time.Location
	// Now is when it is written; ages count from it.
	Now time.Time
	// Snapshot is the newest state.
	Snapshot *fleet.Snapshot
}

// Text writes the note as plain text, every number with its source and age. A
// listener that is not known gives a note that says so.
func Text(in Input) string {
	loc := in.Location
	if loc == nil {
		loc = time.Local
	}
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	at := func(t time.Time) string {
		l := t.In(loc)
		if _, off := l.Zone(); off == 0 {
			return l.Format("2006-01-02 15:04:05 UTC")
		}
		return l.Format("2006-01-02 15:04:05 MST") + " (" + t.UTC().Format("15:04:05") + " UTC)"
	}
	number := func(name string, n observe.Number, show func(float64) string) {
		if !n.Known {
			p("  %-11s not known", name)
			return
		}
		p("  %-11s %s (%s, %s old)", name, show(n.Value), n.Source, cell.Age(in.Now.Sub(n.At)))
	}
	p("%s in %s", cell.Clean(in.ID.String()), cell.Clean(in.Label))
	p("written %s", at(in.Now))
	r := in.Snapshot.Row(in.ID)
	if r == nil {
		p("this listener is not known now: no instance reports it and no toggle file has it")
		return b.String()
	}
	p("")
	state := strings.ReplaceAll(string(r.State), "-", " ")
	if !r.Since.IsZero() {
		state += ", since " + at(r.Since) + " (" + cell.Age(in.Now.Sub(r.Since)) + ")"
	}
	p("state: %s", state)
	if r.Note != "" {
		p("note: %s", cell.Clean(r.Note))
	}
	if !r.Stale.IsZero() {
		p("caution: %s was not read since %s", r.StaleSrc, at(r.Stale))
	}
	by := r.Desired.UpdatedBy
	if by == "" {
		by = r.By
	}
	if by != "" {
		p("who: %s", cell.Clean(by))
	}
	why := r.Desired.Reason
	if why == "" {
		why = r.Reason
	}
	if why != "" {
		p("why: %s", cell.Clean(why))
	}
	if !r.Desired.UpdatedAt.IsZero() {
		p("when: %s", at(r.Desired.UpdatedAt))
	}
	if !r.Desired.PauseAt.IsZero() {
		p("pauses: %s", at(r.Desired.PauseAt))
	}
	if !r.Desired.ResumeAt.IsZero() {
		p("resumes: %s", at(r.Desired.ResumeAt))
	}
	p("")
	p("queue")
	number("ready", r.Ready, cell.Count)
	number("unacked", r.Unacked, cell.Count)
	number("in/s", r.InRate, cell.Rate)
	number("out/s", r.OutRate, cell.Rate)
	number("errors/s", r.ErrRate, cell.Rate)
	number("consumers", r.Broker, cell.Count)
	depths(p, r, at)
	p("")
	p("instances: %d of %d as wanted", r.Inst.Applied, r.Inst.Total)
	for i := range r.Hosts {
		h := &r.Hosts[i]
		ok := "not as wanted"
		if h.Applied {
			ok = "as wanted"
		}
		if h.Lost {
			ok = "lost"
		}
		p("  %s: %s, %d consumers, %d in flight, %s handled, %s failed, file %.6s, %s (presence, %s old)", cell.Clean(h.Instance), h.Report.State,
			h.Report.Consumers, h.Report.InFlight, cell.Count(float64(h.Report.Handled)), cell.Count(float64(h.Report.Failed)), cell.Clean(h.FileMD5), ok, cell.Age(in.Now.Sub(h.At)))
		if f := h.Report.LastFailure; f != nil {
			p("    last failure %s: %s (message %s, delivery %d)", at(f.At), cell.Clean(f.Error), cell.Clean(f.MessageID), f.DeliveryCount)
		}
	}
	if e := r.Effect; e != nil {
		p("")
		p("newest write: %s by %s at %s: %s; seen %d/%d, applied %d/%d", e.Op, cell.Clean(e.By), at(e.At), e.Phase, e.Seen, e.Total, e.Applied, e.Total)
	}
	timeline(p, in, at)
	return b.String()
}

// depths says how deep each queue was before and after the listener's last change.
func depths(p func(string, ...any), r *fleet.Row, at func(time.Time) string) {
	change := r.Desired.UpdatedAt
	if change.IsZero() {
		change = r.Since
	}
	if change.IsZero() {
		return
	}
	for _, q := range r.Queues {
		n := len(q.History)
		i := sort.Search(n, func(i int) bool { return !q.History[i].At.Before(change) })
		if n == 0 || i >= n {
			continue
		}
		now, when := q.History[n-1].Ready, q.History[n-1].At
		if q.Ready.Known { // the number that is shown above: the graph may lag behind it
			now, when = q.Ready.Value, q.Ready.At
		}
		before := "not known before the change"
		if i > 0 {
			before = cell.Count(q.History[i-1].Ready) + " before the change (" + at(q.History[i-1].At) + ")"
		}
		p("  depth of %s: %s, %s now (%s)", cell.Clean(q.ID.Name), before, cell.Count(now), at(when))
	}
}

// timeline lists what the feed says of the listener, newest last.
func timeline(p func(string, ...any), in Input, at func(time.Time) string) {
	var mine []*feed.Line
	for _, l := range in.Feed {
		if l.App == in.ID.App && l.Listener == in.ID.Listener || l.Key == in.ID.String() {
			mine = append(mine, l)
		}
	}
	if len(mine) == 0 {
		return
	}
	p("")
	p("what happened")
	const most = 20
	if len(mine) > most {
		p("  (%d older lines left out)", len(mine)-most)
		mine = mine[len(mine)-most:]
	}
	for _, l := range mine {
		text := l.Text
		if text == "" {
			text = string(l.Status)
		}
		if l.By != "" && !strings.Contains(text, l.By) {
			text += ", by " + l.By
		}
		p("  %s  %s  %s", at(l.At), l.Source, cell.Clean(text))
	}
}
