package consumers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// keep is the keeper: it brings what is in line with what is wanted.
func (c *Container) keep() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(c.step())
		select {
		case <-c.wake:
		case <-timer.C:
		case <-c.ctx.Done():
			return
		}
	}
}

// step starts what is due and returns how long nothing else is.
func (c *Container) step() time.Duration {
	defer c.announce()
	c.mu.Lock()
	defer c.mu.Unlock()
	wait := time.Hour
	if c.want.run && c.failedErr == nil && !c.closed {
		c.shrink()
		if due := time.Until(c.try.next); due > 0 {
			wait = due
		} else if !c.busy && c.needsWork() {
			c.busy = true
			ctx, cancel := context.WithCancel(c.ctx)
			c.endWork = cancel
			c.wg.Go(func() { c.subscriber(ctx) })
		}
		wait = min(wait, c.scaleStep(), c.idleStep())
	} else if c.control != nil && !c.evaluating {
		control := c.control
		c.control = nil
		c.wg.Go(func() { control.close(c.ctx) })
	}
	c.refresh()
	return wait
}

// scaleStep starts an evaluation where one is due and returns the wait for the
// next; mu is held.
func (c *Container) scaleStep() time.Duration {
	if c.want.max == c.want.min || len(c.active) == 0 {
		c.nextScale = time.Now().Add(c.cfg.ScaleInterval)
		c.lastHandled = c.handled.Load() + c.failed.Load()
		return time.Hour
	}
	if due := time.Until(c.nextScale); due > 0 {
		return due
	}
	c.nextScale = time.Now().Add(c.cfg.ScaleInterval)
	if !c.evaluating {
		c.evaluating = true
		c.wg.Go(func() { c.evaluate(c.ctx) })
	}
	return c.cfg.ScaleInterval
}

// idleStep sends the idle event where it is due and returns the wait for the
// next; mu is held.
func (c *Container) idleStep() time.Duration {
	span := c.cfg.IdleEvent
	if span <= 0 {
		return time.Hour
	}
	if len(c.active) == 0 {
		return span
	}
	now := time.Now()
	quiet := now.Sub(c.lastIdle)
	for _, s := range c.active {
		quiet = min(quiet, s.idleSince(now))
	}
	if quiet < span {
		return span - quiet
	}
	c.lastIdle = now
	c.emit(EventIdle, "", fmt.Sprintf("no message for %s", span), nil)
	return span
}

// needsWork reports whether consumers, subscriptions or cancels are due; mu is
// held.
func (c *Container) needsWork() bool {
	if len(c.active) < c.target || len(c.missing) > 0 {
		return true
	}
	for _, s := range c.active {
		if len(s.tags) != len(c.queues) {
			return true
		}
		for q := range s.tags {
			if !slices.Contains(c.queues, q) {
				return true
			}
		}
	}
	return false
}

// shrink retires what is above the target: idle consumers first, then the
// youngest; mu is held.
func (c *Container) shrink() {
	over := len(c.active) - c.target
	for _, idle := range []bool{true, false} {
		for i := len(c.active) - 1; i >= 0 && over > 0; i-- {
			if s := c.active[i]; !idle || !s.busy.Load() {
				c.retire(s)
				c.active = slices.Delete(c.active, i, i+1)
				over--
			}
		}
	}
}

// retire moves a consumer from active to draining; mu is held and the caller
// takes it out of active.
func (c *Container) retire(s *consumer) {
	c.draining[s] = true
	c.dirty = true
	s.retire()
}

// remove forgets a consumer that has ended.
func (c *Container) remove(s *consumer) {
	c.mu.Lock()
	c.dirty = true
	delete(c.draining, s)
	c.active = slices.DeleteFunc(c.active, func(o *consumer) bool { return o == s })
	c.refresh()
	c.mu.Unlock()
	c.poke()
}

// sessionLost is told of a consumer whose channel is gone.
func (c *Container) sessionLost(s *consumer, e *amqp.Error) {
	err := ErrSessionLost
	if e != nil {
		err = fmt.Errorf("the channel of a consumer was lost: %w", e)
	}
	c.mu.Lock()
	ours := slices.Contains(c.active, s)
	if ours {
		if time.Now().Before(c.try.next) {
			// Another consumer was lost to the same cause.
		} else if time.Since(s.since) >= healthyAfter {
			c.try = attempts{err: err}
		} else {
			c.delay(err)
		}
	}
	c.mu.Unlock()
	if ours {
		c.cfg.Logger.Warn("consumer lost", "listener", c.cfg.ListenerID, "error", err)
		c.emit(EventRecovering, "", err.Error(), err)
	}
}

// delay counts a failed attempt and plans the next; mu is held.
func (c *Container) delay(err error) {
	c.try.n++
	c.try.err = err
	c.try.next = time.Now().Add(c.cfg.Recovery.Delay(c.try.n))
}

// cancelledByBroker is told of a subscription that the broker ended: its queue
// was deleted, or moved. The first time it is looked into at once.
func (c *Container) cancelledByBroker(s *consumer, tag string) {
	c.mu.Lock()
	queue := ""
	for q, t := range s.tags {
		if t == tag {
			queue = q
			delete(s.tags, q)
		}
	}
	err := fmt.Errorf("the broker cancelled the consumer of queue %s", queue)
	switch {
	case time.Now().Before(c.try.next):
	case c.try.n == 0 || time.Since(s.since) >= healthyAfter:
		c.try = attempts{n: 1, err: err}
	default:
		c.delay(err)
	}
	c.refresh()
	c.mu.Unlock()
	c.emit(EventCancelled, queue, err.Error(), nil)
	c.announce()
	c.poke()
}

// subscriber opens what is due, once, and records the outcome.
func (c *Container) subscriber(ctx context.Context) {
	err := caught(c.cfg.Logger, "subscribing", func() error { return c.subscribeAll(ctx) })
	c.mu.Lock()
	cut := ctx.Err() != nil
	c.endWork()
	c.busy, c.endWork = false, nil
	var fresh error
	switch {
	case cut:
	case err != nil:
		if c.try.err == nil || c.try.err.Error() != err.Error() {
			fresh = err
		}
		c.delay(err)
		if isMissing(err) && c.cfg.FailOnMissingQueue {
			c.failedErr = err
			c.recordFailed()
		}
	default:
		c.try.err, c.try.next = nil, time.Time{}
	}
	c.refresh()
	c.mu.Unlock()
	if fresh != nil {
		c.cfg.Logger.Warn("consuming is not possible, trying again", "listener", c.cfg.ListenerID, "error", fresh)
	}
	c.poke()
}

func (c *Container) recordFailed() {
	for _, s := range c.active {
		c.retire(s)
	}
	c.active = nil
}

// subscribeAll looks at missing queues, completes the consumers there are and
// opens those that lack.
func (c *Container) subscribeAll(ctx context.Context) error {
	var errs []error
	if err := c.recheck(ctx); err != nil {
		errs = append(errs, err)
	}
	c.mu.Lock()
	current := slices.Clone(c.active)
	c.mu.Unlock()
	for _, s := range current {
		if err := c.complete(ctx, s); err != nil {
			errs = append(errs, err)
		}
	}
	for ctx.Err() == nil {
		c.mu.Lock()
		enough := len(c.active) >= c.target || len(c.present()) == 0
		c.mu.Unlock()
		if enough {
			break
		}
		if err := c.add(ctx); err != nil {
			errs = append(errs, err)
			break
		}
	}
	return errors.Join(errs...)
}

// present returns the wanted queues that are not known to be missing; mu is
// held.
func (c *Container) present() []string {
	return slices.DeleteFunc(slices.Clone(c.queues), func(q string) bool { return c.missing[q] != nil })
}

// recheck looks whether missing queues have come.
func (c *Container) recheck(ctx context.Context) error {
	c.mu.Lock()
	var gone []string
	for q := range c.missing {
		gone = append(gone, q)
	}
	c.mu.Unlock()
	slices.Sort(gone)
	var errs []error
	for _, q := range gone {
		if err := c.probe(ctx, q); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// probe declares a queue passively on a channel of its own, which the broker
// closes where the queue is missing, and records what it finds.
func (c *Container) probe(ctx context.Context, queue string) error {
	ch, err := c.conn.consume.channel(ctx)
	if err != nil {
		return err
	}
	err = ch.request(ctx, "looking for queue "+queue, func() error {
		_, err := ch.QueueDeclarePassive(queue, false, false, false, false, nil)
		return err
	})
	if !ch.IsClosed() {
		ch.close(ctx)
	}
	c.mu.Lock()
	_, was := c.missing[queue]
	if isMissing(err) {
		c.missing[queue] = err
	} else if err == nil {
		delete(c.missing, queue)
	}
	c.mu.Unlock()
	if isMissing(err) && !was {
		c.emit(EventMissingQueue, queue, "queue "+queue+" does not exist", err)
	}
	return err
}

// complete subscribes a running consumer to what it lacks. Each queue is looked
// for first: consuming from a missing one would cost the consumer its channel.
func (c *Container) complete(ctx context.Context, s *consumer) error {
	c.mu.Lock()
	var lacks, extra []string
	for _, q := range c.present() {
		if !s.subscribed(q) {
			lacks = append(lacks, q)
		}
	}
	for q := range s.tags {
		if !slices.Contains(c.queues, q) {
			extra = append(extra, q)
		}
	}
	c.mu.Unlock()
	for _, q := range extra {
		if err := s.unsubscribe(ctx, q); err != nil {
			return err
		}
	}
	for _, q := range lacks {
		if err := c.probe(ctx, q); err != nil {
			return err
		}
		if err := s.subscribe(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

// add opens one more consumer. Its queues are not looked for first, which
// saves a request and a channel each where all is well; after a 404 they are.
func (c *Container) add(ctx context.Context) error {
	s, err := c.openConsumer(ctx)
	if err != nil {
		return err
	}
	c.mu.Lock()
	queues := c.present()
	c.mu.Unlock()
	for _, q := range queues {
		if err = s.subscribe(ctx, q); err != nil {
			break
		}
	}
	c.mu.Lock()
	keep := err == nil && ctx.Err() == nil && c.want.run && len(c.active) < c.target
	if keep {
		c.active = append(c.active, s)
		c.dirty = true
	} else {
		c.retire(s)
	}
	c.refresh()
	c.mu.Unlock()
	c.announce()
	if isMissing(err) {
		for _, q := range queues {
			if e := c.probe(ctx, q); e != nil && !isMissing(e) {
				return e
			}
		}
	}
	return err
}
