package control

import (
	"context"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/belay-mq/belay/registry"
	"github.com/belay-mq/belay/registry/fleet"
	"github.com/belay-mq/belay/registry/toggle"
)

const (
	// followEvery is how often the snapshot is looked at; the fleet makes at most
	// ten a second.
	followEvery = 100 * time.Millisecond
	// followFor is how long an unconfirmed write is still followed, because a slow
	// drain may yet end.
	followFor = 10 * time.Minute
	// keepTickets is of how many writes the outcome is kept.
	keepTickets = 100
)

// Outcome is how far a write has come for one listener.
type Outcome struct {
	ID     fleet.ID
	Effect fleet.Effect
}

// followed is one listener of a write. The follower's goroutine owns it while it
// runs; others read the effect under the lock.
type followed struct {
	id    fleet.ID
	base  []string // the instances that were there when the write began
	want  toggle.Toggle
	entry bool

	mu     sync.Mutex
	effect fleet.Effect
	final  chan struct{} // closed at the first end state
	ended  bool
}

// follower follows the write of one file.
type follower struct {
	control   *Control
	app       string
	listeners []*followed
	md5       string
	seq       uint64
	later     map[string]bool // md5s of our text and of what came after it
}

// begin announces a write.
func (c *Control) begin(ticket uint64, f *FilePlan, now time.Time) *follower {
	fo := &follower{control: c, app: f.App}
	snap := c.snapshot()
	for _, a := range f.Affected {
		l := &followed{id: a.ID, final: make(chan struct{}), effect: fleet.Effect{
			Ticket: ticket, Op: string(f.opOf(a.ID)), By: f.Intents[0].By, At: now, Phase: fleet.Writing,
		}}
		if row := snap.Row(a.ID); row != nil {
			for _, h := range row.Hosts {
				if !h.Lost {
					l.base = append(l.base, h.Instance)
				}
			}
		}
		l.effect.Total = len(l.base)
		fo.listeners = append(fo.listeners, l)
		c.show(l)
	}
	c.mu.Lock()
	c.follow[ticket] = append(c.follow[ticket], fo.listeners...)
	delete(c.follow, ticket-keepTickets)
	c.mu.Unlock()
	return fo
}

// opOf is what is done to a listener.
func (f *FilePlan) opOf(id fleet.ID) Op {
	for _, in := range f.Intents {
		if in.ID == id {
			return in.Op
		}
	}
	return f.Intents[0].Op
}

func (c *Control) show(l *followed) {
	if c.cfg.Fleet != nil {
		c.cfg.Fleet.SetEffect(l.id, l.effect)
	}
}

// set changes an effect, and shows it if it differs.
func (c *Control) set(l *followed, change func(*fleet.Effect)) {
	l.mu.Lock()
	e := l.effect
	e.Behind = slices.Clone(e.Behind)
	change(&e)
	same := e.Phase == l.effect.Phase && e.Seen == l.effect.Seen && e.Applied == l.effect.Applied && e.Total == l.effect.Total &&
		slices.Equal(e.Behind, l.effect.Behind)
	l.effect = e
	if e.Phase.Final() && !l.ended {
		l.ended = true
		close(l.final)
	}
	l.mu.Unlock()
	if !same {
		c.show(l)
	}
}

// written takes the outcome of the publish and begins to follow its effect.
func (fo *follower) written(w Written, pub *publication) {
	c := fo.control
	file := toggle.Parse(toggle.FormatOf(pub.base.Key.DataID), []byte(pub.text))
	for _, l := range fo.listeners {
		l.want, l.entry = file.Lookup(l.id.Listener)
		c.set(l, func(e *fleet.Effect) {
			e.Phase, e.MD5 = w.Phase, w.MD5
			e.WrittenAfter = time.Since(e.At)
			if w.Err != nil {
				e.Err = w.Err.Error()
			}
		})
	}
	if w.Phase != fleet.Written || c.cfg.Fleet == nil {
		return
	}
	fo.md5, fo.seq = w.MD5, pub.written.Seq
	fo.later = map[string]bool{w.MD5: true}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.wg.Go(func() {
		if err := guarded("follow a write", fo.run); err != nil {
			c.log.Error("the effect of a write is no longer followed", "app", fo.app, "error", err)
		}
	})
}

// run looks at snapshots until every listener has come to an end.
func (fo *follower) run() error {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		select {
		case <-fo.control.work.Done():
			return nil
		case <-tick.C:
		}
		if fo.look(fo.control.cfg.Fleet.Snapshot(), time.Now()) {
			return nil
		}
	}
}

// look takes one snapshot in. It reports whether there is nothing more to come.
func (fo *follower) look(snap *fleet.Snapshot, now time.Time) (over bool) {
	app := snap.App(fo.app)
	fresh := app != nil && (app.File.MD5 == fo.md5 || app.File.Seq > fo.seq)
	if fresh {
		fo.later[app.File.MD5] = true
	}
	over = true
	for _, l := range fo.listeners {
		l.mu.Lock()
		e := l.effect
		l.mu.Unlock()
		age := now.Sub(e.At) - e.WrittenAfter
		if e.Phase.Final() && (e.Phase != fleet.Unconfirmed || age > followFor) {
			continue
		}
		over = false
		row := snap.Row(l.id)
		fo.control.set(l, func(e *fleet.Effect) {
			if fresh {
				if by, yes := l.superseded(app, row, fo.md5, now); yes {
					e.Phase, e.SupersededBy, e.Behind = fleet.Superseded, by, nil
					return
				}
				l.progress(e, row, fo.later, now)
			}
			if !e.Phase.Final() && age >= fo.control.cfg.ConfirmIn {
				e.Phase = fleet.Unconfirmed
				if len(e.Behind) == 0 && !fresh {
					e.Behind = []string{"the toggle file (Nacos)"}
				}
			}
		})
	}
	return over
}

// superseded says whether a later write wants something else of the listener.
func (l *followed) superseded(app *fleet.App, row *fleet.Row, md5 string, now time.Time) (by string, yes bool) {
	if app.File.MD5 == md5 || app.InForce != app.File.MD5 {
		return "", false
	}
	if row == nil || !row.Desired.Entry {
		return "", l.entry
	}
	d := row.Desired
	due := registry.WantedAt(l.want, now)
	pauseAt, _ := l.want.PauseTime()
	resumeAt, _ := l.want.ResumeTime()
	// A planned change that was carried out is ours.
	planned := func(at, have time.Time) bool { return at.Equal(have) || have.IsZero() && !at.After(now) }
	same := equal(d.Min, l.want.Min) && equal(d.Max, l.want.Max) && (equal(d.Enable, l.want.Enable) || equal(d.Enable, due.Enable)) &&
		planned(pauseAt, d.PauseAt) && planned(resumeAt, d.ResumeAt)
	return d.UpdatedBy, !same
}

// progress counts who is there.
func (l *followed) progress(e *fleet.Effect, row *fleet.Row, later map[string]bool, now time.Time) {
	e.Seen, e.Applied, e.Behind = 0, 0, nil
	hosts := make(map[string]*fleet.Host)
	if row != nil {
		for i := range row.Hosts {
			hosts[row.Hosts[i].Instance] = &row.Hosts[i]
		}
	}
	for _, name := range l.base {
		h := hosts[name]
		switch {
		case h == nil || h.Lost && noConsumers(row, name, h.At): // it said bye, or the broker shows that it ended
			e.Seen++
			e.Applied++
		case h.Lost:
			e.Behind = append(e.Behind, name)
		case !later[h.FileMD5]:
			e.Behind = append(e.Behind, name)
		case !h.Applied:
			e.Seen++
			e.Behind = append(e.Behind, name)
		default:
			e.Seen++
			e.Applied++
		}
	}
	since := now.Sub(e.At)
	if e.Seen == e.Total && e.SeenAfter == 0 && e.Total > 0 {
		e.SeenAfter = since
	}
	if e.Applied < e.Total {
		if e.Seen > 0 && e.Phase == fleet.Written {
			e.Phase = fleet.Seen
		}
		return
	}
	if e.AppliedAfter == 0 && e.Total > 0 {
		e.AppliedAfter = since
	}
	agrees, known := l.brokerAgrees(e, row, now)
	switch {
	case agrees:
		if known {
			e.BrokerAfter = since
		}
		e.Phase = fleet.Done
	case e.Total > 0 && e.Phase != fleet.Unconfirmed:
		e.Phase = fleet.Applied
	}
	if !agrees {
		e.Behind = behindQueues(row)
	}
}

// noConsumers says whether a list of consumers that is newer than the last report
// of an instance has none of it left.
func noConsumers(row *fleet.Row, instance string, last time.Time) bool {
	if len(row.Queues) == 0 {
		return false
	}
	for _, q := range row.Queues {
		if q.Consumers.Known && q.Consumers.At.After(last) && q.Consumers.Value == 0 {
			continue
		}
		if q.ConsumerList == nil || !q.ListAt.After(last) {
			return false
		}
		for _, consumer := range q.ConsumerList {
			if consumer.Instance == instance {
				return false
			}
		}
	}
	return true
}

// brokerAgrees says whether the broker shows what the write wants. Where no source
// shows queues, the reports of the instances are all there is to know.
func (l *followed) brokerAgrees(e *fleet.Effect, row *fleet.Row, now time.Time) (agrees, known bool) {
	want := registry.WantedAt(l.want, now)
	if want.Enable == nil && l.want.Min == nil {
		return true, false // nothing that a broker could show
	}
	if row == nil {
		return false, false
	}
	if e.Total > 0 && len(row.Queues) == 0 && !row.Broker.Known {
		return true, false
	}
	reached := e.At.Add(max(e.WrittenAfter, e.AppliedAfter))
	if !row.Broker.Known || !row.Broker.At.After(reached) {
		return false, false
	}
	count := int(row.Broker.Value)
	switch {
	case want.Enable != nil && !*want.Enable:
		return count == 0, true
	case row.Actual.Known:
		return count > 0 || row.Actual.Consumers == 0, true
	case l.want.Min != nil:
		return count >= *l.want.Min, true
	}
	return count > 0, true
}

// behindQueues names the queues for which the broker is waited.
func behindQueues(row *fleet.Row) []string {
	if row == nil {
		return []string{"the broker"}
	}
	var names []string
	for _, q := range row.Queues {
		names = append(names, "queue "+q.ID.Name)
	}
	if len(names) == 0 {
		return []string{"the broker"}
	}
	sort.Strings(names)
	return names
}

// Outcomes tells how far a write has come, for each listener that it affects. It
// is empty for a ticket that is not known (any more). It never blocks.
func (c *Control) Outcomes(t Ticket) []Outcome {
	c.mu.Lock()
	list := slices.Clone(c.follow[t.ID])
	c.mu.Unlock()
	out := make([]Outcome, len(list))
	for i, l := range list {
		l.mu.Lock()
		out[i] = Outcome{l.id, l.effect}
		l.mu.Unlock()
	}
	return out
}

// Wait waits until the write has come to an end for each listener, or until ctx
// ends, and returns the outcomes. One that ends unconfirmed is followed further and
// may be done later; see Outcomes.
func (c *Control) Wait(ctx context.Context, t Ticket) []Outcome {
	c.mu.Lock()
	list := slices.Clone(c.follow[t.ID])
	c.mu.Unlock()
	for _, l := range list {
		select {
		case <-l.final:
		case <-ctx.Done():
		case <-c.work.Done():
		}
	}
	return c.Outcomes(t)
}
