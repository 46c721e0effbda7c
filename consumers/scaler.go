package consumers

import (
	"context"
	"fmt"
	"time"
)

// load is what one evaluation of the scaling looks at.
type load struct {
	active   int // consumers running
	min, max int
	ready    int           // messages waiting in the queues
	handled  uint64        // since the evaluation before
	idle     int           // consumers idle for the quiet period
	quiet    time.Duration // that period
}

// decide returns how many consumers there should be and why; the text is empty
// where nothing changes.
//
// Up: while more is waiting than the running consumers clear until the next
// evaluation, to as many as would clear it at the rate of each, at most double.
// Down: all that have been idle for the quiet period, while nothing waits.
func (l load) decide() (target int, why string) {
	target = min(max(l.active, l.min), l.max)
	clears := int(l.handled)
	switch {
	case l.active == 0:
		return target, ""
	case l.ready > clears && l.active < l.max:
		need := l.max
		if clears > 0 {
			each := max(clears/l.active, 1)
			need = (l.ready + each - 1) / each
		}
		target = min(l.max, max(l.active+1, min(need, 2*l.active)))
		return target, fmt.Sprintf("%d to %d: %d messages wait, %d were cleared in one interval", l.active, target, l.ready, clears)
	case l.ready == 0 && l.idle > 0 && l.active > l.min:
		target = max(l.min, l.active-l.idle)
		return target, fmt.Sprintf("%d to %d: %d consumers idle for %s", l.active, target, l.idle, l.quiet)
	}
	return target, ""
}

// evaluate looks at the backlog and moves the target. It runs in a goroutine of
// its own, once per interval.
func (c *Container) evaluate(ctx context.Context) {
	var ready int
	err := caught(c.cfg.Logger, "looking at the backlog", func() (err error) {
		ready, err = c.backlog(ctx)
		return err
	})
	c.mu.Lock()
	defer c.announce()
	defer c.mu.Unlock()
	c.evaluating = false
	if !c.want.run {
		c.poke() // the control channel is no longer needed
	}
	if err != nil || !c.want.run {
		return
	}
	now := time.Now()
	l := load{active: len(c.active), min: c.want.min, max: c.want.max, ready: ready, quiet: c.cfg.ScaleDownAfter}
	handled := c.handled.Load() + c.failed.Load()
	l.handled, c.lastHandled = handled-c.lastHandled, handled
	for _, s := range c.active {
		if s.idleSince(now) >= l.quiet {
			l.idle++
		}
	}
	target, why := l.decide()
	if why == "" {
		return
	}
	if target > c.target {
		c.ups.Add(1)
	} else if target < c.target {
		c.downs.Add(1)
	}
	c.target, c.scaling, c.dirty = target, why, true
	c.emit(EventScaled, "", why, nil)
	c.poke()
}

// idleSince returns how long the consumer has had nothing to do.
func (s *consumer) idleSince(now time.Time) time.Duration {
	if s.busy.Load() {
		return 0
	}
	return now.Sub(time.Unix(0, s.lastActive.Load()))
}

// backlog returns how many messages are ready in the queues that exist, by
// passive declares on a control channel that is kept from one evaluation to the
// next.
func (c *Container) backlog(ctx context.Context) (int, error) {
	c.mu.Lock()
	queues, ch := c.present(), c.control
	c.mu.Unlock()
	if ch == nil || ch.IsClosed() {
		var err error
		if ch, err = c.conn.consume.channel(ctx); err != nil {
			return 0, err
		}
		c.mu.Lock()
		c.control = ch
		c.mu.Unlock()
	}
	ready := 0
	for _, q := range queues {
		err := ch.request(ctx, "looking at the backlog of "+q, func() error {
			info, err := ch.QueueDeclarePassive(q, false, false, false, false, nil)
			ready += info.Messages
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	return ready, nil
}
