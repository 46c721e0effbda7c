package observe

import "time"

// tracked is what the owner keeps of one queue.
type tracked struct {
	id     QueueID
	since  time.Time // wanted since
	lastOK time.Time // of either side
	fresh  time.Time // the newest reading holds until then
	stale  time.Time
	err    string
	shown  *Queue // in the newest snapshot
	dirty  bool   // it is to be made anew

	declareDue, askDue time.Time
	declaring, asking  bool
	askedOK            time.Time
	needsHistory       bool

	missing   bool
	locked    bool // exclusive to another connection
	ready     Number
	consumers Number
	steadyAt  time.Time // when the declared consumer count last changed

	facts   *facts // by the management API; nil: not known
	counted []counts
	trend   trend
	history history
}

func newTracked(id QueueID, now time.Time) *tracked {
	return &tracked{id: id, since: now, declareDue: now, askDue: now, needsHistory: true}
}

// read notes that something was read which holds for three intervals.
func (t *tracked) read(now time.Time, interval time.Duration) {
	t.lastOK, t.stale = now, time.Time{}
	if until := now.Add(3 * interval); until.After(t.fresh) {
		t.fresh = until
	}
}

// staleAt is since when nothing was read, once that is three intervals ago;
// zero before.
func (t *tracked) staleAt(now time.Time, interval time.Duration) time.Time {
	last, fresh := t.lastOK, t.fresh
	if last.IsZero() {
		last, fresh = t.since, t.since.Add(3*interval)
	}
	if now.After(fresh) {
		return last
	}
	return time.Time{}
}

// declared takes the numbers of a passive declare.
func (t *tracked) declared(ready, consumers int, now time.Time) {
	t.missing, t.locked, t.err = false, false, ""
	if !t.consumers.Known || int(t.consumers.Value) != consumers {
		t.steadyAt = now
	}
	t.ready = Number{Value: float64(ready), At: now, Source: Declare, Known: true}
	t.consumers = Number{Value: float64(consumers), At: now, Source: Declare, Known: true}
}

// sample notes a ready count for forecasts and for the graph.
func (t *tracked) sample(now time.Time, ready float64, step time.Duration) {
	t.trend.add(point{now, ready})
	in, out := t.rates()
	t.history.add(Sample{At: now, Ready: ready, InRate: in.Value, OutRate: out.Value}, step)
}

// gone notes that the queue is not there.
func (t *tracked) gone(now time.Time) {
	t.missing, t.locked, t.err = true, false, ""
	t.ready, t.consumers = Number{}, Number{Value: 0, At: now, Source: Declare, Known: true}
	t.facts, t.counted, t.trend = nil, nil, trend{}
	t.needsHistory = true
}

func (t *tracked) rates() (in, out Number) {
	if t.facts == nil {
		return Number{}, Number{}
	}
	return t.facts.in, t.facts.out
}

// snapshot is the queue as readers see it.
func (t *tracked) snapshot(now time.Time, r *round) *Queue {
	q := &Queue{
		ID: t.id, Missing: t.missing, Ready: t.ready, Consumers: t.consumers,
		History: t.history.samples(), Stale: t.stale, Err: t.err,
	}
	if t.missing {
		return q
	}
	state := State{ID: t.id, Ready: t.ready, Net: t.trend.slope(now), Arrivals: q.History, Locked: t.locked}
	if f := t.facts; f != nil {
		q.Unacked, q.InRate, q.OutRate = f.unacked, f.in, f.out
		q.SettingsKnown = f.policyKnown
		q.DeliveryLimit = f.settings.DeliveryLimit
		q.ConsumerList, q.ListAt = t.list(r), f.listAt
		q.Redelivered, q.Looping = looping(t.counted)
		state.Settings, state.In, state.Out, state.Bytes, state.Unacked = f.settings, f.in, f.out, f.bytes, f.unacked
		if f.ready.Known && outdated(t.ready, f.ready, r.interval()) {
			q.Ready = f.ready
		}
		t.compare(q, r)
	}
	state.Ready, state.Consumers, state.Now = q.Ready, q.Consumers, now
	q.Hazards = state.Hazards()
	q.Forecast = state.Forecast(q.Hazards)
	if q.Looping {
		q.Forecast = loopingText(q.Redelivered)
	}
	return q
}

// outdated says whether a declared number is so much older than the one of
// the management API that the latter is shown.
func outdated(declared, other Number, interval time.Duration) bool {
	return !declared.Known || other.At.Sub(declared.At) > 3*interval
}

// compare sets the consumer counts of both sides. The management API is
// believed to disagree only when the broker's count has been steady for
// longer than the API may lag behind.
func (t *tracked) compare(q *Queue, r *round) {
	m := t.facts.consumers
	switch {
	case !m.Known:
	case outdated(t.consumers, m, r.interval()):
		q.Consumers = m
	case m.Value != t.consumers.Value && m.At.Sub(t.steadyAt) > r.o.cfg.Lag:
		q.ManagementConsumers, q.Disagree = m, true
	}
}

// list is the consumer list with what is known of their connections.
func (t *tracked) list(r *round) []Consumer {
	if t.facts.list == nil {
		return nil
	}
	out := make([]Consumer, len(t.facts.list))
	for i, c := range t.facts.list {
		if who, ok := r.names[c.Connection]; ok {
			c.App, c.Instance = who.app, who.instance
			if who.name != "" {
				c.Connection = who.name
			}
		}
		out[i] = c
	}
	return out
}
