package fleet

import (
	"time"

	"github.com/belay-mq/belay/consumers"
	"github.com/belay-mq/belay/registry"
)

// facts is what the state of one listener is decided from.
type facts struct {
	row      *Row
	enable   *bool     // wanted, planned times resolved
	next     time.Time // when a planned change is due
	recent   bool      // a change of the wish, or a difference, is younger than 10 s
	disputed bool      // the broker has disagreed for longer than that
	differs  time.Time // since when wanted and actual differ
	count    map[consumers.State]int
	fresh    int  // hosts that are not lost
	unread   bool // the file was not read: that it has no entry is not known
}

// factsOf remembers since when wanted and actual differ, and gathers the rest.
func factsOf(r *Row, want registry.Wanted, file fileView, st *rowState, now time.Time) *facts {
	f := &facts{row: r, enable: want.Enable, next: want.Next, count: make(map[consumers.State]int)}
	for _, h := range r.Hosts {
		if h.Lost {
			continue
		}
		f.fresh++
		f.count[consumers.State(h.Report.State)]++
	}
	remember(&st.differs, f.actualDiffers(), now)
	remember(&st.disputed, f.brokerDiffers(), now)
	f.differs = st.differs
	start := st.differs
	if changed := file.changed[r.ID.Listener]; changed.After(start) {
		start = changed
	}
	if e := r.Effect; e != nil && e.At.After(start) && !e.Phase.Final() {
		start = e.At
	}
	f.recent = !start.IsZero() && now.Sub(start) <= settleTime
	f.disputed = !st.disputed.IsZero() && now.Sub(st.disputed) > settleTime
	return f
}

// remember keeps in *since when a condition began.
func remember(since *time.Time, holds bool, now time.Time) {
	switch {
	case !holds:
		*since = time.Time{}
	case since.IsZero():
		*since = now
	}
}

// actualDiffers holds while some instance, or the broker where no instance reports,
// is not as the file wants it.
func (f *facts) actualDiffers() bool {
	r := f.row
	if f.fresh == 0 {
		return f.enable != nil && !*f.enable && r.Broker.Known && r.Broker.Value > 0
	}
	return r.Inst.Applied < f.fresh || f.count[consumers.Starting] > 0
}

// brokerDiffers holds while the broker shows something else than the instances say.
func (f *facts) brokerDiffers() bool {
	r := f.row
	if f.fresh == 0 || !r.Broker.Known {
		return false
	}
	switch {
	case f.count[consumers.Stopped] == f.fresh:
		return r.Broker.Value > 0
	case f.count[consumers.Running] == f.fresh && r.Actual.Consumers > 0:
		return r.Broker.Value == 0
	}
	return false
}

// decide returns the state: the first line of the list that matches. k of n counts the
// instances that are there where a change is on its way.
func (f *facts) decide() (s State, k, n int) {
	r := f.row
	k, n = r.Inst.Applied, r.Inst.Total
	if f.fresh == 0 {
		return f.decideByBroker(), k, n
	}
	switch {
	case f.count[consumers.Failed] > 0:
		return Failed, k, n
	case f.count[consumers.MissingQueue] > 0:
		return MissingQueue, k, n
	case f.count[consumers.Recovering]+f.count[consumers.Refused] > 0:
		return Recovering, k, n
	}
	if !f.differs.IsZero() {
		if f.recent {
			return f.progress(), k, n
		}
		return Drift, k, n
	}
	if f.disputed {
		return Drift, k, n
	}
	off := f.enable != nil && !*f.enable
	switch {
	case off:
		return Paused, k, n
	case f.count[consumers.Stopped]+f.count[consumers.Draining] > 0:
		return Stopped, k, n
	case !r.Desired.Entry && !f.unread:
		return Unmanaged, k, n
	}
	return Running, k, n
}

// decideByBroker is for listeners that no instance reports: services without presence.
func (f *facts) decideByBroker() State {
	r := f.row
	if !r.Broker.Known || r.Broker.Value == 0 {
		return Unknown
	}
	switch {
	case f.enable != nil && !*f.enable && f.recent:
		return Pausing
	case f.enable != nil && !*f.enable:
		return Drift
	case !r.Desired.Entry && !f.unread:
		return Unmanaged
	}
	return Running
}

// progress names the change that is on its way.
func (f *facts) progress() State {
	if f.enable != nil && !*f.enable {
		return Pausing
	}
	stopped := f.count[consumers.Stopped] + f.count[consumers.Draining]
	switch {
	case f.enable != nil && stopped > 0:
		return Resuming
	case f.count[consumers.Starting] > 0:
		if f.row.Effect != nil && f.row.Effect.Op == "resume" {
			return Resuming
		}
		return Starting
	}
	return Scaling
}
