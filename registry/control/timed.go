package control

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/belay-mq/belay/nacos"
	"github.com/belay-mq/belay/registry"
	"github.com/belay-mq/belay/registry/fleet"
	"github.com/belay-mq/belay/registry/toggle"
)

const (
	// seekApps is how often the snapshot is searched for applications.
	seekApps = time.Second
	// spread bounds the random delay by which several processes avoid writing at
	// the same moment; the first one to write does it for all.
	spread = 300 * time.Millisecond
	// longestSleep bounds a wait for a wall-clock time, so that a clock that is set
	// is noticed.
	longestSleep = time.Minute
	// firstRetry and lastRetry bound the pauses after errors.
	firstRetry, lastRetry = time.Second, 30 * time.Second
)

// Run carries out planned changes until ctx ends: a pauseAt or resumeAt that has
// come becomes enable=false or enable=true by compare-and-publish, and the key is
// removed. Any number of processes may run it for the same application; exactly one
// of them writes. It follows Config.App, or all applications of the fleet's
// snapshot. In a read-only context it does nothing but wait.
//
// It must not be called twice at the same time for the same applications.
func (c *Control) Run(ctx context.Context) error {
	if c.cfg.ReadOnly {
		<-ctx.Done()
		return nil
	}
	if c.cfg.Store == nil || c.cfg.App == "" && c.cfg.Fleet == nil {
		return errors.New("control: Store, and App or Fleet, are required to carry out planned changes")
	}
	c.running.Add(1)
	defer c.running.Add(-1)
	var wg sync.WaitGroup
	defer wg.Wait()
	known := make(map[string]bool)
	keep := func(app string) {
		if known[app] {
			return
		}
		known[app] = true
		wg.Go(func() { c.keepTime(ctx, app) })
	}
	if c.cfg.App != "" {
		keep(c.cfg.App)
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(seekApps)
	defer tick.Stop()
	for {
		for _, a := range c.snapshot().Apps {
			keep(a.Name)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// keepTime follows the file of one application and carries out what is due. A panic
// is reported, and the file is followed anew.
func (c *Control) keepTime(ctx context.Context, app string) {
	for ctx.Err() == nil {
		err := guarded("timed changes of "+app, func() error { return c.follows(ctx, app) })
		if err != nil && ctx.Err() == nil {
			c.log.Error("planned changes are not followed for a moment", "app", app, "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(firstRetry):
		}
	}
}

func (c *Control) follows(ctx context.Context, app string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	key := c.key(app)
	states := c.cfg.Store.Watch(ctx, key)
	var state nacos.State
	var done string // md5 of a file of which everything possible was carried out
	retry := firstRetry
	timer := time.NewTimer(longestSleep)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case s, open := <-states:
			if !open {
				return ctx.Err()
			}
			if s.Seq == 0 && s.MD5 == "" && !s.Absent {
				continue // nothing was read yet
			}
			s.Key = key
			state = s
		case <-timer.C:
		}
		wait := nextDue(parse(state), time.Now())
		if wait == 0 && state.MD5 != done {
			switch again, err := c.carryOut(ctx, app, key); {
			case ctx.Err() != nil:
				return nil
			case err != nil:
				c.log.Warn("a planned change could not be carried out yet", "app", app, "error", err)
				wait, retry = retry, min(retry*2, lastRetry)
			case again == state.MD5:
				done, wait = again, longestSleep
				c.log.Error("a planned change is due, but the file is laid out so that it stays", "app", app)
			default: // the watch brings what was written
				wait, retry = firstRetry, firstRetry
			}
		} else if wait == 0 {
			wait = longestSleep
		}
		timer.Reset(min(wait, longestSleep))
	}
}

// nextDue is how long it takes until something is due: 0 if it is now.
func nextDue(f *toggle.File, now time.Time) time.Duration {
	next := longestSleep
	for _, t := range f.InForce() {
		for _, at := range plannedTimes(t) {
			next = min(next, max(0, at.Sub(now)))
		}
	}
	return next
}

func plannedTimes(t toggle.Toggle) []time.Time {
	var list []time.Time
	if at, ok := t.PauseTime(); ok {
		list = append(list, at)
	}
	if at, ok := t.ResumeTime(); ok {
		list = append(list, at)
	}
	return list
}

// dueOrders are the changes that are due.
func dueOrders(f *toggle.File, now time.Time) []toggle.Intent {
	var orders []toggle.Intent
	for _, t := range f.InForce() {
		order := toggle.Intent{Op: toggle.Set, ListenerID: t.ListenerID, UpdatedAt: toggle.To(stamp(now))}
		due := false
		if at, ok := t.PauseTime(); ok && !at.After(now) {
			due, order.PauseAt = true, toggle.Null[string]()
		}
		if at, ok := t.ResumeTime(); ok && !at.After(now) {
			due, order.ResumeAt = true, toggle.Null[string]()
		}
		if !due {
			continue
		}
		if enable := registry.WantedAt(t, now).Enable; enable != nil {
			order.Enable = toggle.To(*enable)
			if *enable {
				order.Reason = toggle.Null[string]()
			}
		}
		orders = append(orders, order)
	}
	return orders
}

// carryOut reads the file and writes what is due in it. It returns the md5 of the
// file as it is then. Somebody else having done it is no error.
func (c *Control) carryOut(ctx context.Context, app string, key nacos.Key) (md5 string, err error) {
	select {
	case <-ctx.Done():
		return "", nil
	case <-time.After(time.Duration(rand.Int64N(int64(spread)))):
	}
	began := time.Now()
	state, err := c.cfg.Store.Get(ctx, key)
	if err != nil {
		return "", fmt.Errorf("read the toggle file of %s: %w", app, err)
	}
	state.Key = key
	orders := dueOrders(parse(state), began)
	if len(orders) == 0 {
		return "", nil // another process was faster
	}
	format := toggle.FormatOf(key.DataID)
	text := []byte(state.Text)
	var refused error
	for _, order := range orders { // one that cannot be carried out stops no other
		next, err := toggle.Edit(format, text, true, order)
		if err != nil {
			refused = errors.Join(refused, fmt.Errorf("carry out the planned change of %s: %w", order.ListenerID, err))
			continue
		}
		text = next
	}
	if string(text) == state.Text {
		if refused != nil {
			c.log.Error("planned changes cannot be written", "app", app, "error", refused)
		}
		return state.MD5, nil
	}
	if refused != nil {
		c.log.Error("some planned changes cannot be written", "app", app, "error", refused)
	}
	f := &FilePlan{App: app, Base: state, After: string(text), Intents: []Intent{{Op: timedOp, ID: fleet.ID{App: app}, By: c.cfg.Operator}}}
	pub := &publication{control: c, file: f, base: state, text: string(text)}
	written, err := pub.publish(ctx)
	var conflict *nacos.ConflictError
	if errors.As(err, &conflict) {
		return "", nil // another process was faster, or a user; the watch tells
	}
	if err == nil {
		pub.written = written
	}
	c.auditWrite(f, pub.outcome(err), pub, began)
	if err != nil {
		return "", err
	}
	c.log.Info("a planned change was carried out", "app", app, "md5", written.MD5)
	return written.MD5, nil
}
