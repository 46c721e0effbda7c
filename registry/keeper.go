package registry

import (
	"context"
	"fmt"
	"time"

	"github.com/belay-mq/belay/consumers"
	"github.com/belay-mq/belay/registry/toggle"
)

const (
	// callTimeout bounds one call of a listener's Start or Scale. A stop may take as
	// long as the listener's own drain.
	callTimeout = 30 * time.Second
	// retryAfter is how long a failed wish waits before it is tried again.
	retryAfter = 2 * time.Second
)

// keeper keeps one listener as the file wants it. Its run goroutine is the only one
// that calls the listener's Start, Stop and Scale while the registry runs; the fields
// below are guarded by the registry's lock.
type keeper struct {
	reg      *Registry
	id       string
	listener Listener
	wake     chan struct{}
	next     time.Time // of a planned change; only run uses it

	toggle  *toggle.Toggle // nil: no entry
	wish    uint64         // counts the wishes; wakes alone are no news
	done    uint64         // the wish that was carried out last
	started bool           // the first start was decided
	settled bool           // the newest wish was carried out
	err     error
	errAt   time.Time
}

// want stores what the file says; the caller wakes the keeper. The registry's lock is
// held.
func (k *keeper) want(t toggle.Toggle, all map[string]toggle.Toggle) {
	k.toggle = nil
	if _, ok := all[k.id]; ok {
		k.toggle = &t
	}
	k.settled = false
	k.wish++
}

// run carries out wishes until ctx ends. A newer wish takes over from a call that has
// not returned: a stop that drains, a start that waits for the broker.
func (k *keeper) run(ctx context.Context) {
	for {
		next := k.apply(ctx)
		var timer <-chan time.Time
		if next > 0 {
			timer = time.After(next)
		}
		select {
		case <-ctx.Done():
			return
		case <-k.wake:
		case <-timer:
		}
	}
}

// apply makes the listener as it is wanted now and returns when to look again, 0 for
// only when woken.
func (k *keeper) apply(ctx context.Context) time.Duration {
	k.reg.mu.Lock()
	released, t, first, wish := k.reg.released, k.toggle, !k.started, k.wish
	again := k.err != nil || !time.Now().Before(k.next)
	k.reg.mu.Unlock()
	if !released || !first && wish == k.done && !again {
		return k.untilNext()
	}
	err := k.reg.guarded("listener "+k.id, func() error { return k.step(ctx, t, first, wish) })
	if ctx.Err() != nil {
		return 0
	}
	k.reg.mu.Lock()
	k.started, k.done = k.started || k.wish == wish, wish // what was overtaken decided nothing
	k.settled = err == nil && k.wish == wish
	k.err, k.errAt = err, time.Now()
	if err == nil {
		k.errAt = time.Time{}
	}
	k.reg.version++
	k.reg.mu.Unlock()
	k.reg.changed()
	if err != nil {
		k.reg.log.Error("a toggle could not be applied", "listener", k.id, "error", err)
		return retryAfter
	}
	k.next = distant
	if t != nil {
		if w := WantedAt(*t, time.Now()); !w.Next.IsZero() {
			k.next = w.Next
		}
	}
	return k.untilNext()
}

// distant is later than any planned time.
var distant = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// untilNext is the time until the next planned change. That is a wall-clock time;
// looking again at least every minute follows a clock that is set.
func (k *keeper) untilNext() time.Duration {
	if k.next.Equal(distant) || k.next.IsZero() {
		return 0
	}
	return min(max(time.Until(k.next), time.Millisecond), time.Minute)
}

// step compares and acts: concurrency first, so that a listener that starts does so
// with the right number of consumers.
func (k *keeper) step(ctx context.Context, t *toggle.Toggle, first bool, wish uint64) error {
	if t == nil {
		if first && k.listener.Status().AutoStartup {
			return k.start(ctx, consumers.Cause{By: "autostart"}, wish)
		}
		return nil
	}
	if err := k.scale(ctx, t, wish); err != nil || k.newerThan(wish) {
		return err
	}
	w := WantedAt(*t, time.Now())
	st := k.listener.Status()
	switch {
	case w.Enable == nil:
		if first && st.AutoStartup {
			return k.start(ctx, consumers.Cause{By: "autostart"}, wish)
		}
	case *w.Enable:
		if !active(st.State) {
			return k.start(ctx, causeOf(t), wish)
		}
	default:
		if st.State != consumers.Stopped || first {
			return k.stop(ctx, causeOf(t), wish)
		}
	}
	return nil
}

// active holds for a container that runs or tries to.
func active(s consumers.State) bool {
	switch s {
	case consumers.Starting, consumers.Running, consumers.Recovering, consumers.MissingQueue, consumers.Refused:
		return true
	}
	return false
}

func (k *keeper) scale(ctx context.Context, t *toggle.Toggle, wish uint64) error {
	if t.Min == nil && t.Max == nil {
		return nil
	}
	st := k.listener.Status()
	lo, hi := st.Min, st.Max
	if t.Min != nil {
		lo = *t.Min
	}
	if t.Max != nil {
		hi = *t.Max
	}
	if lo == st.Min && hi == st.Max {
		return nil
	}
	if lo < 1 || hi < lo {
		return fmt.Errorf("concurrency %d to %d of %s is not possible (the file says %s to %s); set both with min ≥ 1 and max ≥ min", lo, hi, k.id, number(t.Min), number(t.Max))
	}
	return k.call(ctx, fmt.Sprintf("scale %s to %d–%d", k.id, lo, hi), callTimeout, wish, func(ctx context.Context) error {
		return k.listener.Scale(ctx, lo, hi)
	})
}

func number(n *int) string {
	if n == nil {
		return "nothing"
	}
	return fmt.Sprint(*n)
}

func (k *keeper) start(ctx context.Context, why consumers.Cause, wish uint64) error {
	return k.call(ctx, "start "+k.id, callTimeout, wish, func(ctx context.Context) error {
		return k.listener.Start(ctx, why)
	})
}

// stop has no bound: the drain has its own.
func (k *keeper) stop(ctx context.Context, why consumers.Cause, wish uint64) error {
	return k.call(ctx, "stop "+k.id, 0, wish, func(ctx context.Context) error {
		_, err := k.listener.Stop(ctx, why)
		return err
	})
}

// call returns when do has. A newer wish ends the context of do: the listener then
// goes on by itself, and the wish decides. A limit of 0 is none.
func (k *keeper) call(ctx context.Context, what string, limit time.Duration, wish uint64, do func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if limit > 0 {
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	done := make(chan error, 1)
	k.reg.wg.Go(func() { done <- k.reg.guarded(what, func() error { return do(ctx) }) })
	for {
		select {
		case err := <-done:
			if err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
			return nil
		case <-k.wake:
			if k.newerThan(wish) {
				signal(k.wake)
				cancel()
				<-done
				return nil
			}
		}
	}
}

func (k *keeper) newerThan(wish uint64) bool {
	k.reg.mu.Lock()
	defer k.reg.mu.Unlock()
	return k.wish != wish
}

func causeOf(t *toggle.Toggle) consumers.Cause {
	c := consumers.Cause{By: "toggle"}
	if t.Reason != nil {
		c.Reason = *t.Reason
	}
	if t.UpdatedBy != nil && *t.UpdatedBy != "" {
		c.By = *t.UpdatedBy
	}
	if at, ok := t.ResumeTime(); ok && t.Enable != nil && !*t.Enable {
		c.Until = at
	}
	return c
}
