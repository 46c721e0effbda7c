package consumers

import (
	"errors"
	"slices"
	"time"
)

// state derives the state from what is wanted and what is; mu is held.
func (c *Container) state() (State, error) {
	switch {
	case c.failedErr != nil:
		return Failed, c.failedErr
	case !c.want.run && len(c.draining) > 0:
		return Draining, nil
	case !c.want.run:
		return Stopped, nil
	case len(c.missing) > 0:
		return MissingQueue, c.missingErr()
	case len(c.active) >= c.want.min && c.whole():
		return Running, nil
	}
	err := c.try.err
	if down := c.conn.consume.failure(); down != nil {
		err = down
	}
	switch {
	case isRefused(err):
		return Refused, err
	case err != nil:
		return Recovering, err
	}
	return Starting, nil
}

// missingErr says which queues are missing; mu is held.
func (c *Container) missingErr() error {
	var errs []error
	for _, q := range c.queues {
		if err := c.missing[q]; err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// whole reports whether every consumer is subscribed to every queue.
func (c *Container) whole() bool {
	for _, s := range c.active {
		if len(s.tags) < len(c.queues) {
			return false
		}
	}
	return true
}

// refresh computes the state anew and wakes those who wait for it; mu is held.
func (c *Container) refresh() {
	state, err := c.state()
	next := shown{state: state, since: c.shown.since, by: c.want.cause.By, reason: c.want.cause.Reason, until: c.want.cause.Until, err: err}
	switch state {
	case Recovering, Refused, MissingQueue, Failed:
		next.by, next.until = "broker", time.Time{}
		if next.reason = ""; err != nil {
			next.reason = err.Error()
		}
	}
	was := c.shown
	if blocked := c.conn.Blocked(); blocked != c.blocked {
		c.blocked, c.dirty = blocked, true
		if blocked {
			c.emit(EventBlocked, "", "the broker holds back publishers", nil)
		} else {
			c.emit(EventUnblocked, "", "the broker takes messages again", nil)
		}
	}
	if next.state != was.state {
		next.since = time.Now()
		c.emitState(next)
	}
	if next.state != was.state || next.by != was.by || next.reason != was.reason || !next.until.Equal(was.until) {
		c.dirty = true
	}
	c.shown = next
	close(c.changed)
	c.changed = make(chan struct{})
}

var stateEvents = map[State]EventKind{
	Running: EventStarted, Stopped: EventStopped, Draining: EventDraining,
	Recovering: EventRecovering, Refused: EventRefused, Failed: EventFailed,
}

func (c *Container) emitState(s shown) {
	if kind, ok := stateEvents[s.state]; ok {
		c.emit(kind, "", s.reason, s.err)
	}
}

// announce calls the registered functions where something changed since the
// last call; mu is not held.
func (c *Container) announce() {
	c.mu.Lock()
	all := c.callbacks
	dirty := c.dirty
	c.dirty = false
	c.mu.Unlock()
	if !dirty {
		return
	}
	tell(c.cfg.Logger, all)
}

// OnChange registers a function to be called after every change of the state
// or of the number of consumers. It is called without locks held and must not
// block; several changes may share one call. A panic in it is logged. Functions cannot
// be removed.
func (c *Container) OnChange(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.callbacks = append(c.callbacks[:len(c.callbacks):len(c.callbacks)], f)
}

// Status returns a copy of what the container is doing. It never waits for the
// broker or for a handler.
func (c *Container) Status() Status {
	h := c.conn.consume.health()
	c.mu.Lock()
	defer c.mu.Unlock()
	st := Status{
		ListenerID: c.cfg.ListenerID,
		Queues:     slices.Clone(c.queues),
		State:      c.shown.state, Since: c.shown.since, By: c.shown.by, Reason: c.shown.reason, Until: c.shown.until,
		Blocked:  c.conn.Blocked(),
		Min:      c.want.min,
		Max:      c.want.max,
		Prefetch: int(c.prefetch.Load()),
		InFlight: int(max(0, c.inFlight.Load())), AutoStartup: !c.cfg.ManualStartup,
		Consumers: c.subscribed(), Draining: len(c.draining),
		Handled: c.handled.Load(), Failed: c.failed.Load(), Requeued: c.requeued.Load(),
		Redelivered: c.redelivered.Load(), StaleAcks: c.staleAcks.Load(), MaxDeliveryCount: c.counts.max(time.Now()),
		Scaling: c.scaling,
	}
	if c.lastFailure != nil {
		f := *c.lastFailure
		st.LastFailure = &f
	}
	if c.shown.err != nil {
		st.LastError = c.shown.err.Error()
	}
	if c.want.run && c.shown.state != Running {
		st.Attempts, st.NextTry = c.try.n, c.try.next
		if !h.Connected {
			st.Attempts, st.NextTry = h.Attempts, h.NextTry
		}
	}
	return st
}

// subscribed counts the consumers that consume from a queue at least; mu is
// held.
func (c *Container) subscribed() int {
	n := 0
	for _, s := range c.active {
		if len(s.tags) > 0 {
			n++
		}
	}
	return n
}

// failure counts and remembers a handler's error, and logs it: at most one a second,
// as a message that goes round fails many times in one.
func (c *Container) failure(d *Delivery, err error) {
	n := c.failed.Add(1)
	c.mu.Lock()
	if time.Since(c.failureLogged) >= time.Second {
		c.failureLogged = time.Now()
		c.cfg.Logger.Warn("handler failed", "listener", c.cfg.ListenerID, "queue", d.Queue, "message", d.MessageId,
			"failed", n, "error", clip(err.Error(), 1000))
	}
	c.lastFailure = &Failure{At: time.Now(), Error: clip(err.Error(), 1000), MessageID: d.MessageId, DeliveryCount: d.DeliveryCount()}
	c.mu.Unlock()
	c.emit(EventHandlerFailed, d.Queue, err.Error(), err)
}
