package consumers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Container runs one listener: between Min and Max consumers on its queues. Its
// methods are safe for concurrent use; the last wish wins.
//
// What is wanted (run or not, how many, which queues) is kept apart from what
// is: a wish is recorded at once and survives any outage, and one goroutine,
// the keeper, brings the consumers in line with it.
type Container struct {
	conn    *Conn
	cfg     Config
	handler Handler
	batch   BatchHandler
	events  events

	wake    chan struct{} // capacity 1: the keeper has something to look at
	unwatch func()        // ends the notices of conn
	ctx     context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	prefetch atomic.Int64

	handled, failed, requeued, redelivered, staleAcks atomic.Uint64
	inFlight                                          atomic.Int64
	counts                                            recentMax
	ups, downs                                        atomic.Uint64

	republisher republisher

	mu            sync.Mutex
	control       *channel // of the scaling; used by one evaluation at a time
	want          wish
	queues        []string
	missing       map[string]error
	active        []*consumer // subscribed or being so, oldest first
	draining      map[*consumer]bool
	busy          bool // a subscriber is at work
	endWork       context.CancelFunc
	try           attempts
	target        int // consumers wanted now, within min and max
	scaling       string
	failedErr     error
	lastFailure   *Failure
	failureLogged time.Time
	shown         shown
	blocked       bool
	dirty         bool // there is something to announce
	evaluating    bool // the backlog is being looked at
	nextScale     time.Time
	lastIdle      time.Time // of the idle event
	lastHandled   uint64
	closed        bool
	callbacks     []func()
	changed       chan struct{} // closed and replaced when shown changes
}

// wish is what was asked for last.
type wish struct {
	run      bool
	cause    Cause
	min, max int
}

// attempts is the back-off of the subscriber.
type attempts struct {
	n    int
	next time.Time
	err  error
}

// shown is the state as last computed, and since when.
type shown struct {
	state      State
	since      time.Time
	by, reason string
	until      time.Time
	err        error
}

// New checks cfg and returns a stopped container. Close it when it is no longer
// needed. Errors are [*ConfigError].
func New(conn *Conn, cfg Config, handler Handler) (*Container, error) {
	if handler == nil {
		return nil, &ConfigError{"Handler", "is nil"}
	}
	return newContainer(conn, cfg, handler, nil)
}

// NewBatch is [New] with a handler for several messages at a time.
func NewBatch(conn *Conn, cfg Config, handler BatchHandler) (*Container, error) {
	if handler == nil {
		return nil, &ConfigError{"Handler", "is nil"}
	}
	return newContainer(conn, cfg, nil, handler)
}

func newContainer(conn *Conn, cfg Config, h Handler, b BatchHandler) (*Container, error) {
	if conn == nil {
		return nil, &ConfigError{"Conn", "is nil; call Dial first"}
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Container{
		conn: conn, cfg: cfg, handler: h, batch: b,
		wake:    make(chan struct{}, 1),
		want:    wish{min: cfg.Min, max: cfg.Max},
		target:  cfg.Min,
		queues:  slices.Clone(cfg.Queues),
		missing: map[string]error{}, draining: map[*consumer]bool{},
		shown:   shown{state: Stopped, since: time.Now()},
		changed: make(chan struct{}),
	}
	c.prefetch.Store(int64(cfg.Prefetch))
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.unwatch = conn.watch(c.poke)
	c.wg.Go(c.keep)
	return c, nil
}

// ListenerID returns the name of the listener.
func (c *Container) ListenerID() string { return c.cfg.ListenerID }

func (c *Container) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Start asks the container to run. The wish is recorded at once and holds until
// Stop: a broker that is down, a missing queue or a refused login do not end
// it. Start then waits, until ctx ends, for the first attempt's outcome and
// returns nil whatever that is; [Container.Status] tells it. The only errors are
// [ErrClosed] and, with Config.FailOnMissingQueue, why the container has failed.
func (c *Container) Start(ctx context.Context, cause Cause) error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return ErrClosed
	}
	if !c.want.run || c.failedErr != nil {
		c.try = attempts{}
		c.failedErr = nil
		clear(c.missing)
	}
	c.want.run, c.want.cause = true, cause
	c.refresh()
	c.mu.Unlock()
	c.poke()
	c.announce()
	return c.await(ctx, func() (bool, error) {
		return c.shown.state != Starting || !c.want.run || c.closed, c.failedErr
	})
}

// await waits until done, called with mu held, or until ctx ends.
func (c *Container) await(ctx context.Context, done func() (bool, error)) error {
	for {
		c.mu.Lock()
		ok, err := done()
		changed := c.changed
		c.mu.Unlock()
		if ok {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// Stop asks the container to stop, and it stays stopped: no reconnect, no late
// queue starts it again, only Start does. It waits until everything received is
// handled or given back and the broker knows of no consumer, or until ctx ends;
// then the stop goes on behind and the report says how far it had come. A stop
// of a stopped container reports the phase "idle". The error is ctx's, or
// [ErrClosed].
func (c *Container) Stop(ctx context.Context, cause Cause) (StopReport, error) {
	begin := time.Now()
	c.mu.Lock()
	if c.closed && len(c.draining) == 0 {
		c.mu.Unlock()
		return StopReport{Phase: "idle"}, ErrClosed
	}
	leaving := c.recordStop(cause)
	c.mu.Unlock()
	c.poke()
	c.announce()
	report := StopReport{Phase: "idle"}
	if len(leaving) > 0 {
		report.Phase = "done"
	}
	err := c.awaitEnd(ctx, leaving, &report)
	report.Took = time.Since(begin)
	return report, err
}

// recordStop withdraws the wish and returns the consumers to wait for; mu is
// held.
func (c *Container) recordStop(cause Cause) []*consumer {
	if c.want.run {
		c.want.run, c.want.cause = false, cause
		c.failedErr = nil
	}
	if c.endWork != nil {
		c.endWork()
	}
	for _, s := range c.active {
		c.retire(s)
	}
	c.active = nil
	leaving := make([]*consumer, 0, len(c.draining))
	for s := range c.draining {
		leaving = append(leaving, s)
	}
	c.refresh()
	return leaving
}

// awaitEnd sums up the reports of consumers that have been retired.
func (c *Container) awaitEnd(ctx context.Context, leaving []*consumer, report *StopReport) error {
	for i, s := range leaving {
		select {
		case <-s.ended:
			report.add(s.report)
		case <-ctx.Done():
			report.Phase = "drain"
			for _, late := range leaving[i:] {
				select {
				case <-late.ended:
					report.add(late.report)
				default:
					if late.busy.Load() {
						report.Running++
					}
					if late.cancelling.Load() {
						report.Phase = "cancel"
					}
				}
			}
			return fmt.Errorf("stopping %s: %w", c.cfg.ListenerID, ctx.Err())
		}
	}
	return c.awaitSubscriber(ctx)
}

// awaitSubscriber waits for a subscriber that was cut short: a consumer that it
// had just opened is closed by it.
func (c *Container) awaitSubscriber(ctx context.Context) error {
	ended := false
	_ = c.await(ctx, func() (bool, error) {
		ended = !c.busy || c.want.run
		return ended, nil
	})
	if !ended {
		return fmt.Errorf("stopping %s: %w", c.cfg.ListenerID, ctx.Err())
	}
	return nil
}

func (r *StopReport) add(o StopReport) {
	r.Handled += o.Handled
	r.Requeued += o.Requeued
	r.Abandoned += o.Abandoned
	r.Running += o.Running
}

// Scale sets the bounds of the number of consumers, both at once. It is applied
// at once where the container runs: too few are started, too many are given up,
// idle ones first, and busy ones are cancelled at once and finish what they
// hold. Scale returns when the wish is recorded; errors are [*ConfigError] and
// [ErrClosed].
func (c *Container) Scale(_ context.Context, lo, hi int) error {
	if err := checkConcurrency(lo, hi, c.cfg.Exclusive); err != nil {
		return err
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return ErrClosed
	}
	c.want.min, c.want.max = lo, hi
	was := c.target
	c.target = min(max(c.target, lo), hi)
	if c.target != was {
		c.scaling = fmt.Sprintf("%d to %d: bounds set to %d–%d", was, c.target, lo, hi)
	}
	if c.want.run {
		c.shrink()
	}
	c.refresh()
	c.mu.Unlock()
	c.poke()
	c.announce()
	return nil
}

// SetPrefetch changes the prefetch. Running consumers are replaced by new ones,
// as a prefetch holds for the life of a subscription; they finish what they
// hold.
func (c *Container) SetPrefetch(_ context.Context, n int) error {
	if n < 1 || n > 65535 {
		return &ConfigError{"Prefetch", fmt.Sprintf("is %d; it must be 1 to 65535", n)}
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return ErrClosed
	}
	if c.prefetch.Swap(int64(n)) != int64(n) {
		for _, s := range c.active {
			c.retire(s)
		}
		c.active = nil
	}
	c.refresh()
	c.mu.Unlock()
	c.poke()
	c.announce()
	return nil
}

// AddQueues adds queues without stopping the others; one that is consumed
// already is left alone.
func (c *Container) AddQueues(_ context.Context, queues ...string) error {
	for _, q := range queues {
		if err := checkQueue(q); err != nil {
			return err
		}
	}
	return c.changeQueues(func() {
		for _, q := range queues {
			if !slices.Contains(c.queues, q) {
				c.queues = append(c.queues, q)
			}
		}
	})
}

// RemoveQueues ends the consumption of queues without stopping the others; what
// was received from them is handled. The last queue cannot be removed.
func (c *Container) RemoveQueues(_ context.Context, queues ...string) error {
	err := error(nil)
	changed := c.changeQueues(func() {
		left := slices.DeleteFunc(slices.Clone(c.queues), func(q string) bool { return slices.Contains(queues, q) })
		if len(left) == 0 {
			err = &ConfigError{"Queues", "the last queue cannot be removed; stop the container"}
			return
		}
		c.queues = left
		for _, q := range queues {
			delete(c.missing, q)
		}
	})
	if err != nil {
		return err
	}
	return changed
}

func (c *Container) changeQueues(f func()) error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return ErrClosed
	}
	f()
	c.try.next = time.Time{}
	c.refresh()
	c.mu.Unlock()
	c.poke()
	c.announce()
	return nil
}

// Close stops the container for good and waits, until ctx ends, for its
// handlers and goroutines. Closing twice is allowed.
func (c *Container) Close(ctx context.Context) error {
	_, err := c.Stop(ctx, Cause{By: "close"})
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.unwatch()
	c.cancel()
	c.mu.Lock()
	control := c.control
	c.control = nil
	c.mu.Unlock()
	if control != nil {
		control.close(ctx)
	}
	done := make(chan struct{})
	go func() { c.wg.Wait(); close(done) }()
	select {
	case <-done:
		c.republisher.close(ctx)
		return nil
	case <-ctx.Done():
		if err == nil || errors.Is(err, ErrClosed) {
			err = fmt.Errorf("closing %s: a handler still runs: %w", c.cfg.ListenerID, ctx.Err())
		}
		return err
	}
}
