package nacos

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// lag bounds how long the server's copy stays behind its database (2.08 s
	// was the worst that was measured).
	lag = 2500 * time.Millisecond
	// absentPause is the time between the two reads that make a config absent.
	absentPause = 150 * time.Millisecond
	// settlePause is how long r-nacos may tell old things after a restart.
	settlePause = 3 * time.Second
)

// cell is what a store knows of one config. All reads of the config go through
// it, one after the other, so the newest read wins by construction.
type cell struct {
	store *Store
	key   Key

	mu       sync.Mutex
	held     State // the newest believed state; Seq 0: nothing is known yet
	watchers map[*watcher]struct{}
	since    time.Time // of the first of the watchers that follow each other
	flight   *flight   // the read that runs
	next     *flight   // the read that follows it
	dirty    bool      // something changed and has not been read successfully
	lastOK   time.Time
	lastErr  error
	// A state that replaced another is protected against copies that lag
	// behind: until fence, a lagging read of an md5 in outdated is ignored.
	fence    time.Time
	outdated map[string]bool
	epoch    uint64    // counts own writes: a read that was begun before one is void
	doubt    time.Time // since when reads say absent while that is not believed
}

// flight is one read that any number of callers wait for.
type flight struct {
	done  chan struct{}
	state State
	err   error
}

// refresh asks for a read that begins after now and does not wait for it.
func (c *cell) refresh() *flight {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dirty = true
	if c.next != nil {
		return c.next
	}
	f := &flight{done: make(chan struct{})}
	if c.flight != nil {
		c.next = f
		return f
	}
	c.flight = f
	if !c.store.spawn(func() { c.fly(f) }) {
		c.flight = nil
		f.err = ErrClosed
		close(f.done)
	}
	return f
}

// get waits for a read that begins after now.
func (c *cell) get(ctx context.Context) (State, error) {
	f := c.refresh()
	select {
	case <-f.done:
		return f.state, f.err
	case <-ctx.Done():
		return State{}, fmt.Errorf("read %s: %w", c.key, context.Cause(ctx))
	}
}

// fly carries out reads until none is asked for.
func (c *cell) fly(f *flight) {
	for f != nil {
		c.mu.Lock()
		c.dirty = false
		c.mu.Unlock()
		f.state, f.err = c.readBelieved()
		c.mu.Lock()
		if f.err != nil {
			c.dirty, c.lastErr = true, f.err
		}
		c.flight, c.next = c.next, nil
		done := f
		f = c.flight
		c.mu.Unlock()
		close(done.done)
	}
}

// readBelieved reads until the outcome can be believed: an absent config is
// read twice, and a copy that lags behind what is known is read again.
func (c *cell) readBelieved() (state State, err error) {
	ctx := c.store.ctx
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("read %s: panic: %v", c.key, p)
		}
	}()
	for {
		c.mu.Lock()
		epoch := c.epoch
		c.mu.Unlock()
		r, err := c.store.read(ctx, c.key)
		if ctx.Err() != nil {
			return State{}, ErrClosed
		}
		if err != nil {
			return State{}, err
		}
		state, wait := c.believe(r, epoch)
		if wait == 0 {
			return state, nil
		}
		if err := sleep(ctx, wait); err != nil {
			return State{}, ErrClosed
		}
	}
}

// believe takes in one reading that was begun in the given epoch. A wait other
// than zero means that it is not believed and another read is due after it.
func (c *cell) believe(r reading, epoch uint64) (State, time.Duration) {
	now := time.Now()
	sum := r.md5()
	c.mu.Lock()
	defer c.mu.Unlock()
	if epoch != c.epoch {
		return State{}, time.Nanosecond // begun before an own write, perhaps
	}
	known := c.held.Seq > 0
	same := known && r.absent == c.held.Absent && sum == c.held.MD5
	if !same && !r.fresh && now.Before(c.fence) && c.outdated[sum] {
		return State{}, min(200*time.Millisecond, max(time.Millisecond, c.fence.Sub(now)))
	}
	settling := c.store.settling()
	switch {
	case same:
		c.doubt = time.Time{}
	case known && settling > 0:
		return State{}, settling
	case r.absent && c.doubt.IsZero():
		c.doubt = now
		return State{}, absentPause + settling
	case r.absent && now.Sub(c.doubt) < absentPause+settling:
		return State{}, absentPause
	}
	c.doubt = time.Time{}
	return c.adopt(r, now), 0
}

// adopt makes the reading the held state and tells the watchers. c.mu is held.
func (c *cell) adopt(r reading, now time.Time) State {
	sum := r.md5()
	changed := c.held.Seq == 0 || r.absent != c.held.Absent || sum != c.held.MD5
	wasStale := !c.held.Stale.IsZero()
	if changed {
		if c.held.Seq > 0 && r.fresh {
			c.protect(c.held.MD5, now)
		}
		delete(c.outdated, sum)
		c.held = State{Key: c.key, Text: r.text, MD5: sum, Absent: r.absent, Seq: c.store.seq.Add(1), Type: r.typ}
	} else if r.typ != "" {
		c.held.Type = r.typ
	}
	c.held.Read, c.held.Stale, c.held.LastErr = now, time.Time{}, nil
	c.lastOK, c.lastErr = now, nil
	if changed || wasStale {
		c.tell()
	}
	if changed {
		c.store.relisten(c)
	}
	return c.held
}

// protect marks an md5 as outdated for as long as copies may still show it.
// c.mu is held.
func (c *cell) protect(sum string, now time.Time) {
	if now.After(c.fence) || c.outdated == nil {
		c.outdated = map[string]bool{}
	}
	c.outdated[sum] = true
	c.fence = now.Add(lag)
}

// begin starts an attempt to write: it notes what is known and returns the
// epoch for readings that are made from now on.
func (c *cell) begin(known *State) (epoch uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*known = c.held
	return c.epoch
}

// newest returns the reading, or what is held where the reading is of a copy
// that lags behind it.
func (c *cell) newest(r reading) reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !r.fresh && time.Now().Before(c.fence) && c.outdated[r.md5()] {
		return reading{text: c.held.Text, typ: c.held.Type, absent: c.held.Absent}
	}
	return r
}

// wrote takes in what an own write left on the server, and protects it against
// lagging copies of the former content. Where something else than the former or
// the new content was believed since the write began, that is newer than the
// write (older is impossible where the expected md5 was compared): it stays,
// and is returned as foreign.
func (c *cell) wrote(r reading, before string, began State) (written, foreign State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	written = State{Key: c.key, Text: r.text, MD5: r.md5(), Absent: r.absent, Type: r.typ, Read: now}
	if c.held.Seq > began.Seq && c.held.MD5 != before && c.held.MD5 != written.MD5 {
		written.Seq = began.Seq
		return written, c.held
	}
	c.epoch++
	c.protect(before, now)
	return c.adopt(r, now), State{}
}

// confirmed notes that the server said that the held content is current.
func (c *cell) confirmed(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held.Seq == 0 || at.Before(c.lastOK) {
		return
	}
	c.lastOK, c.lastErr = at, nil
	if !c.held.Stale.IsZero() {
		c.held.Stale, c.held.LastErr = time.Time{}, nil
		c.tell()
	}
}

// failed notes an error that concerns all configs.
func (c *cell) failed(err error) {
	c.mu.Lock()
	c.lastErr = err
	c.mu.Unlock()
}

// age marks the state as stale when nothing was read for limit.
func (c *cell) age(now time.Time, limit time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held.Seq == 0 || !c.held.Stale.IsZero() || now.Sub(c.lastOK) < limit {
		return
	}
	c.held.Stale, c.held.LastErr = c.lastOK, c.lastErr
	c.tell()
}

// snapshot returns the held state, the md5 for listen requests and whether a
// read is due.
func (c *cell) snapshot() (held State, due bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held, c.held.Seq == 0 || c.dirty && c.flight == nil
}

// watcher is one channel of Watch.
type watcher struct {
	ch   chan State
	stop func() bool // ends the wait for the end of its context
}

// tell gives the held state to all watchers; the latest value wins. c.mu is
// held, so nobody else sends or closes meanwhile.
func (c *cell) tell() {
	for w := range c.watchers {
		select {
		case <-w.ch:
		default:
		}
		w.ch <- c.held
	}
}

// sleep waits, at most until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
