package change

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"time"
)

// Center merges and delays changes per key. Its methods may be called from any goroutine, except that callbacks of
// Config must not call Close.
type Center struct {
	cfg       Config
	seed      maphash.Seed
	shards    []*shard
	notifiers []*mailbox
	start     time.Time
	epoch     int64            // the wall clock at the start in microseconds; versions count on from it
	wall      func() time.Time // for display only

	workers sync.WaitGroup
	offs    chan struct{} // held by the client-off that waits for room
	close   sync.Once
	done    chan struct{}
	report  CloseReport
	err     error
}

// New starts a center. Close stops it.
func New(cfg Config) (*Center, error) { return newCenter(cfg, time.Now) }

func newCenter(cfg Config, wall func() time.Time) (*Center, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("change center: %w", err)
	}
	c := &Center{
		cfg: cfg, seed: maphash.MakeSeed(), start: time.Now(), wall: wall,
		offs: make(chan struct{}, 1), done: make(chan struct{}),
	}
	c.epoch = wall().UnixMicro()
	for i := range cfg.Notifiers {
		c.notifiers = append(c.notifiers, newMailbox(c, cfg.Notifiers[i]))
	}
	for range cfg.Shards {
		s := newShard(c)
		c.shards = append(c.shards, s)
		for id := range cfg.Workers {
			c.workers.Add(1)
			go s.work(uint8(id + 1))
		}
	}
	return c, nil
}

// now is the monotonic time since the start; steps of the wall clock do not change it.
func (c *Center) now() int64 { return int64(time.Since(c.start)) }

// hash spreads keys over shards by its upper bits and over the slots of a shard by its lower ones.
func (c *Center) hash(k *Key) uint64 {
	h := maphash.String(c.seed, k.DataInfoID)
	if k.DataCenter != "" {
		h = h*0x9E3779B97F4A7C15 ^ maphash.String(c.seed, k.DataCenter)
	}
	return h
}

func (c *Center) shardOf(hash uint64) *shard {
	return c.shards[(hash>>32)*uint64(len(c.shards))>>32]
}

// Offer accepts an event and returns its sequence number within the shard of its key. While the shard holds
// MaxPending keys and the event's key is not among them it waits for room, until ctx ends; an event that merges with
// a pending one never waits. Errors: ErrBadEvent, ErrClosed, or the context's. An event is accepted as a whole or
// not at all.
//
// An event with ScopeClient is handed to ClientOff and returns no sequence number.
func (c *Center) Offer(ctx context.Context, e Event) (uint64, error) { return c.offer(ctx, &e, true) }

// TryOffer is Offer, but where Offer would wait it returns ErrFull.
func (c *Center) TryOffer(e Event) (uint64, error) { return c.offer(context.Background(), &e, false) }

func (c *Center) offer(ctx context.Context, e *Event, wait bool) (uint64, error) {
	if err := e.check(c.cfg.MaxItems); err != nil {
		return 0, err
	}
	if e.Scope == ScopeClient {
		_, err := c.clientOff(ctx, e.Conn, wait)
		return 0, err
	}
	hash := c.hash(&e.Key)
	s := c.shardOf(hash)
	s.mu.Lock()
	for {
		if s.closed {
			s.mu.Unlock()
			return 0, ErrClosed
		}
		r := s.keys.find(&e.Key, hash)
		if s.room(r, e.Source == PubTemp) {
			seq := s.accept(r, e, hash)
			s.mu.Unlock()
			return seq, nil
		}
		if !wait {
			s.count.Refused++
			s.mu.Unlock()
			return 0, ErrFull
		}
		space := s.spaceChan()
		s.mu.Unlock()
		select {
		case <-space:
		case <-ctx.Done():
			return 0, fmt.Errorf("waiting for room in the change center: %w", context.Cause(ctx))
		}
		s.mu.Lock()
	}
}

// ClientOff removes the items that a connection registered and that were accepted before it, cached and pending
// ones alike, in all shards at once: it first waits until every shard has room for the keys that it touches, then
// accepts on all of them; where ctx ends before, on none. It returns the number of keys touched, each of which
// counts as one accepted event. It costs a pass over all keys. Errors: ErrClosed, ErrBadEvent (no connection), or
// the context's.
func (c *Center) ClientOff(ctx context.Context, conn string) (keys int, err error) {
	if conn == "" {
		return 0, fmt.Errorf("%w: client-off without a connection", ErrBadEvent)
	}
	return c.clientOff(ctx, conn, true)
}

func (c *Center) clientOff(ctx context.Context, conn string, wait bool) (int, error) {
	if wait {
		select {
		case c.offs <- struct{}{}:
		case <-ctx.Done():
			return 0, fmt.Errorf("waiting for another client-off: %w", context.Cause(ctx))
		}
	} else {
		select {
		case c.offs <- struct{}{}:
		default:
			return 0, ErrFull
		}
	}
	defer func() { <-c.offs }()
	for waited := false; ; waited = true {
		touched, full, closed := c.lockForOff(conn)
		switch {
		case closed:
			c.unlockAll(false)
			return 0, ErrClosed
		case full == nil:
			keys := 0
			for i, s := range c.shards {
				keys += len(touched[i])
				s.acceptOff(touched[i], conn)
			}
			c.unlockAll(false)
			return keys, nil
		case !wait:
			full.count.Refused++
			c.unlockAll(false)
			return 0, ErrFull
		case waited && ctx.Err() != nil:
			c.unlockAll(false)
			return 0, fmt.Errorf("waiting for room in the change center: %w", context.Cause(ctx))
		}
		space := full.spaceChan()
		c.unlockAll(true)
		select {
		case <-space:
		case <-ctx.Done():
		}
	}
}

// lockForOff locks every shard and lists the records with items of conn; full is the first shard without room.
func (c *Center) lockForOff(conn string) (touched [][]*record, full *shard, closed bool) {
	touched = make([][]*record, len(c.shards))
	for _, s := range c.shards {
		s.mu.Lock()
	}
	for i, s := range c.shards {
		closed = closed || s.closed
		opens := 0
		s.keys.all(func(r *record) bool {
			if r.holds(conn) {
				touched[i] = append(touched[i], r)
				if !r.waiting {
					opens++
				}
			}
			return true
		})
		// A connection with more keys than a shard may hold pending goes through when nothing else is pending:
		// it could never be accepted otherwise.
		if s.npend+opens > s.maxPend && s.npend > 0 && full == nil {
			full = s
		}
	}
	return touched, full, closed
}

// unlockAll gives the shards back. Where held is set a client-off still waits, and new keys wait behind it: else
// they would take the room that it waits for, for ever.
func (c *Center) unlockAll(held bool) {
	for _, s := range c.shards {
		if s.held && !held {
			s.madeRoom()
		}
		s.held = held
		s.mu.Unlock()
	}
}

// holds reports whether the accepted state has a live item of conn.
func (r *record) holds(conn string) bool {
	found := false
	r.each(func(x *Item) { found = found || x.Conn == conn })
	return found
}

// acceptOff removes the connection's items from the records.
func (s *shard) acceptOff(touched []*record, conn string) {
	for _, r := range touched {
		s.seq++
		s.count.Accepted++
		s.count.Pending++
		r.accepted++
		r.used = true
		s.touch(r)
		r.off(conn, s.seq, s.clock())
		s.took(r, Off, kept)
	}
}

// SetWindow changes how long keys wait that start to wait from now on; those that wait already keep their window.
func (c *Center) SetWindow(w Window) error {
	if err := w.check(); err != nil {
		return fmt.Errorf("change center: %w", err)
	}
	for _, s := range c.shards {
		s.mu.Lock()
		s.setWindow(w)
		s.mu.Unlock()
	}
	return nil
}

// CloseReport says how Close ended.
type CloseReport struct {
	// Delivered counts the events that the center delivered in its life.
	Delivered uint64
	// Undelivered are the keys with changes that were not handed over, or that some notifier did not take.
	Undelivered []Key
}

// Close refuses new events, lets everything pending go at once in due order, waits until the notifiers have taken
// it, retries included, and stops all goroutines. When ctx ends first, the rest is given up and listed in the
// report, and the error is the context's. A notifier that does not heed its context may outlive Close by its
// running call. Later calls wait for the first one and return the same.
func (c *Center) Close(ctx context.Context) (CloseReport, error) {
	c.close.Do(func() {
		c.report, c.err = c.shutdown(ctx)
		close(c.done)
	})
	<-c.done
	return c.report, c.err
}

func (c *Center) shutdown(ctx context.Context) (CloseReport, error) {
	var report CloseReport
	stop := func(abort bool) {
		for _, s := range c.shards {
			s.mu.Lock()
			s.closed = true
			s.aborted = s.aborted || abort
			s.sleeping = 0
			s.madeRoom()
			s.stir()
			s.mu.Unlock()
		}
	}
	stop(ctx.Err() != nil)
	idle := make(chan struct{})
	go func() { c.workers.Wait(); close(idle) }()
	select {
	case <-idle:
	case <-ctx.Done():
		stop(true)
		<-idle // at most the running batch of each worker
	}
	seen := map[Key]bool{}
	for _, s := range c.shards {
		s.mu.Lock()
		s.abandon(func(k Key) { seen[k] = true })
		report.Delivered += s.count.Delivered
		s.mu.Unlock()
	}
	var errs []error
	for _, n := range c.notifiers {
		if err := n.close(ctx, func(k Key) { seen[k] = true }); err != nil {
			errs = append(errs, err)
		}
	}
	for k := range seen {
		report.Undelivered = append(report.Undelivered, k)
	}
	slices.SortFunc(report.Undelivered, compareKeys)
	if len(seen) > 0 && ctx.Err() != nil {
		errs = append(errs, fmt.Errorf("closing the change center with %d keys undelivered: %w", len(seen), context.Cause(ctx)))
	}
	return report, errors.Join(errs...)
}

// abandon counts what is still pending as undelivered.
func (s *shard) abandon(each func(Key)) {
	s.keys.all(func(r *record) bool {
		if p := &r.pend; r.waiting {
			each(r.key)
			s.count.Undelivered += uint64(p.events - p.stale - p.dropped)
			s.count.Stale += uint64(p.stale)
			s.count.Suppressed += uint64(p.dropped)
			s.count.Pending -= uint64(p.events)
			if p.q != nil {
				p.q.remove(r)
			}
			s.release(r)
		}
		return true
	})
	for _, t := range s.parked {
		s.temps.push(t)
	}
	s.parked = nil
	for s.temps.len() > 0 {
		t := s.temps.pop()
		each(t.rec.key)
		s.count.Undelivered++
		s.count.Pending--
	}
}
