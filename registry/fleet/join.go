package fleet

import (
	"sort"
	"time"

	"github.com/belay-mq/belay/consumers"
	"github.com/belay-mq/belay/consumers/observe"
	"github.com/belay-mq/belay/registry"
	"github.com/belay-mq/belay/registry/presence"
	"github.com/belay-mq/belay/registry/toggle"
)

// rowState is what is remembered of a row from one snapshot to the next.
type rowState struct {
	state    State
	since    time.Time
	whole    bool      // the file was read and somebody reports: another state is a change
	differs  time.Time // since when wanted and actual differ; zero: they do not
	disputed time.Time // since when the broker disagrees; zero: it does not
	queues   []string  // the names known of its queues
	rates    rates
}

// join makes all rows. It is called by Run only.
func (f *Fleet) join(in *inputs, now time.Time) []*Row {
	ids := make(map[ID]bool, len(f.rows))
	for id := range in.hosts {
		ids[id] = true
	}
	for app, file := range in.files {
		for id := range file.toggles {
			ids[ID{App: app, Listener: id}] = true
		}
	}
	rows := make([]*Row, 0, len(ids))
	for id := range ids {
		st := f.rows[id]
		if st == nil {
			st = &rowState{}
			f.rows[id] = st
		}
		rows = append(rows, f.row(id, st, in, now))
	}
	for id := range f.rows {
		if !ids[id] {
			delete(f.rows, id)
		}
	}
	sort.Slice(rows, func(i, j int) bool {
		a, b := rows[i].ID, rows[j].ID
		return a.App < b.App || a.App == b.App && a.Listener < b.Listener
	})
	return rows
}

// row joins one listener.
func (f *Fleet) row(id ID, st *rowState, in *inputs, now time.Time) *Row {
	r := &Row{ID: id}
	file := in.files[id.App]
	t, entry := file.toggles[id.Listener]
	var want registry.Wanted
	if entry {
		r.Desired = desired(t)
		want = registry.WantedAt(t, now)
	}
	hosts := in.hosts[id]
	r.addHosts(hosts, t, want)
	r.addQueues(st, hosts, in)
	r.Broker = r.brokerCount(in)
	st.rates.add(hosts, r.Queues, now)
	st.rates.fill(r)
	if e, ok := in.effects[id]; ok {
		r.Effect = &e
	}
	facts := factsOf(r, want, file, st, now)
	facts.unread = f.cfg.Store != nil && !file.known
	r.State, r.Done, r.Total = facts.decide()
	if r.State != st.state {
		if st.whole || r.State == Pausing || r.State == Resuming {
			st.since = now
		} else {
			st.since = r.firstSince(now)
		}
		st.state = r.State
	}
	st.whole = !facts.unread && (st.whole || r.State != Unknown)
	r.Since = st.since
	r.whoAndWhy()
	r.staleness(file, in, now)
	r.Note = note(r, facts, file, now)
	return r
}

// addHosts sums up what the instances report.
func (r *Row) addHosts(hosts []hostView, t toggle.Toggle, want registry.Wanted) {
	r.Inst.Total = len(hosts)
	for _, h := range hosts {
		l := h.report
		host := Host{Instance: h.seen.Report.Instance, Host: h.seen.Report.Host, Report: *l, At: h.seen.Received, Lost: h.seen.Lost}
		if file := h.seen.Report.File; file != nil {
			host.FileMD5 = file.MD5
		}
		host.Applied = Matches(*l, want.Enable, t.Min, t.Max)
		r.Hosts = append(r.Hosts, host)
		if h.seen.Lost {
			continue
		}
		r.Inst.Reporting++
		if host.Applied {
			r.Inst.Applied++
		}
		a := &r.Actual
		a.Known = true
		a.Consumers += l.Consumers
		a.Draining += l.Draining
		a.InFlight += l.InFlight
		a.Min += l.Min
		a.Max += l.Max
		if f := l.LastFailure; f != nil && (r.LastFailure == nil || f.At.After(r.LastFailure.At)) {
			r.LastFailure = f
		}
		r.MaxDelivery = max(r.MaxDelivery, l.MaxDeliveryCount)
	}
}

// Matches reports whether a listener is as wanted: nil has no opinion.
func Matches(l presence.ListenerReport, enable *bool, lo, hi *int) bool {
	state := consumers.State(l.State)
	if enable != nil {
		if *enable && state != consumers.Running {
			return false
		}
		if !*enable && (state != consumers.Stopped || l.Consumers > 0 || l.Draining > 0) {
			return false
		}
	}
	return (lo == nil || *lo == l.Min) && (hi == nil || *hi == l.Max)
}

// addQueues looks up the row's queues: those that instances report, else the one that
// the file names, else those known from before.
func (r *Row) addQueues(st *rowState, hosts []hostView, in *inputs) {
	var names []string
	seen := make(map[string]bool)
	add := func(q string) {
		if q != "" && !seen[q] {
			seen[q] = true
			names = append(names, q)
		}
	}
	for _, h := range hosts {
		for _, q := range h.report.Queues {
			add(q)
		}
	}
	if len(names) == 0 {
		add(r.Desired.Queue)
	}
	if len(names) == 0 {
		names = st.queues
	}
	sort.Strings(names)
	st.queues = names
	vhost := in.vhost(r.ID.App)
	for _, name := range names {
		q := in.queues[observe.QueueID{VHost: vhost, Name: name}]
		if q == nil {
			continue
		}
		r.Queues = append(r.Queues, q)
		r.Ready = sum(r.Ready, q.Ready)
		r.Unacked = sum(r.Unacked, q.Unacked)
	}
	if !r.Unacked.Known && r.Actual.Known {
		r.Unacked = observe.Number{Value: float64(r.Actual.InFlight), At: newest(r.Hosts), Source: observe.Presence, Known: true}
	}
}

func newest(hosts []Host) time.Time {
	var at time.Time
	for _, h := range hosts {
		if h.At.After(at) {
			at = h.At
		}
	}
	return at
}

// sum adds readings; the older time is the sum's.
func sum(a, b observe.Number) observe.Number {
	if !b.Known {
		return a
	}
	if !a.Known {
		return b
	}
	a.Value += b.Value
	if b.At.Before(a.At) {
		a.At = b.At
	}
	if a.Source != b.Source {
		a.Source = observe.Derived
	}
	return a
}

// brokerCount is how many consumers of this listener the broker shows: the highest
// over its queues, since each consumer subscribes to all of them.
func (r *Row) brokerCount(in *inputs) observe.Number {
	var out observe.Number
	for _, q := range r.Queues {
		n := r.ours(q, in)
		if n.Known && (!out.Known || n.Value > out.Value) {
			out = n
		}
	}
	return out
}

// ours counts this listener's consumers on one queue. The list of the management API
// names them, but is some seconds old; the count of a passive declare is exact, but
// counts everybody. So the count, less the other listeners that report consumers on
// that queue, decides where it explains itself; else the list does.
func (r *Row) ours(q *observe.Queue, in *inputs) observe.Number {
	if q.Missing {
		return observe.Number{Known: true, At: q.Consumers.At, Source: q.Consumers.Source}
	}
	n := q.Consumers
	if n.Known {
		others := 0
		for id, c := range in.onQueue[q.ID] {
			if id != r.ID {
				others += c
			}
		}
		n.Value = max(n.Value-float64(others), 0)
	}
	explained := n.Known && (n.Value == 0 || r.Actual.Known && int(n.Value) == r.Actual.Consumers)
	if explained || q.ConsumerList == nil {
		return n
	}
	listed := observe.Number{Known: true, At: q.ListAt, Source: observe.Management}
	for _, c := range q.ConsumerList {
		if c.ListenerID == r.ID.Listener && (c.App == "" || c.App == r.ID.App) {
			listed.Value++
		}
	}
	return listed
}

// firstSince is when a state that was found at the first whole look began: when the file was
// changed, for a paused listener of which that is known; else when the last instance
// entered its state.
func (r *Row) firstSince(now time.Time) time.Time {
	if at := r.Desired.UpdatedAt; r.State == Paused && !at.IsZero() && at.Before(now) {
		return at
	}
	var at time.Time
	for _, h := range r.Hosts {
		if !h.Lost && h.Report.Since.After(at) {
			at = h.Report.Since
		}
	}
	if at.IsZero() || at.After(now) {
		return now
	}
	return at
}

// whoAndWhy takes the author of the state from the file, else from an instance.
func (r *Row) whoAndWhy() {
	r.By, r.Reason = r.Desired.UpdatedBy, r.Desired.Reason
	if r.By != "" {
		return
	}
	for _, h := range r.Hosts {
		if by := h.Report.By; by != "" && by != "toggle" && by != "autostart" {
			r.By = h.Report.By
			if r.Reason == "" {
				r.Reason = h.Report.Reason
			}
			return
		}
	}
}

// staleness says which of the sources that the state rests on is old.
func (r *Row) staleness(file fileView, in *inputs, now time.Time) {
	mark := func(since time.Time, source string) {
		if !since.IsZero() && (r.Stale.IsZero() || since.Before(r.Stale)) {
			r.Stale, r.StaleSrc = since, source
		}
	}
	mark(file.stale, "nacos")
	if since := in.deaf[in.vhost(r.ID.App)]; !since.IsZero() && now.Sub(since) > staleAfter {
		mark(since, "presence")
	}
	for _, q := range r.Queues {
		mark(q.Stale, "broker")
	}
}

// staleAfter is three intervals of the reports.
const staleAfter = 6 * time.Second
