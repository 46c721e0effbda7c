package nacos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Store reads, watches and writes configs of one namespace of a Nacos server
// or cluster. All methods may be called by any goroutine at any time; those
// with a context block until the server answered or the context or the
// configured timeout ended.
type Store struct {
	cfg      settled
	client   *client
	detector *detector
	stats    *stats
	push     *push
	sdk      *sdkPush

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup
	seq    atomic.Uint64

	mu             sync.Mutex
	closed         bool
	cells          map[Key]*cell
	noDetailUntil  time.Time
	publishRemoved atomic.Bool // publishes over HTTP are gone
	pollRemoved    atomic.Bool // the listen call of 1.x is gone
	watching       bool        // the poll and the push run
	kick           chan struct{}
}

// New checks the configuration and the TLS files and returns a store. The
// server need not be up: it is asked when the first call needs it.
func New(cfg Config) (*Store, error) {
	settled, err := cfg.settle()
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: settled, stats: &stats{}, cells: map[Key]*cell{}, kick: make(chan struct{}, 1)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.client = newClient(&s.cfg, s.stats)
	s.detector = newDetector(s.client)
	s.push = newPush(s)
	s.sdk = newSDKPush(s)
	s.stats.use("poll")
	s.stats.onReconnect = s.reconnected
	return s, nil
}

// reconnected runs when the server answers again: it may be another version
// now, and what was missed is read.
func (s *Store) reconnected() {
	s.detector.forget()
	s.pollRemoved.Store(false)
	s.publishRemoved.Store(false)
	s.kickPoll()
}

// settling is how much longer answers that differ from what is known are
// doubted: r-nacos tells absent and old contents for some seconds after a
// restart.
func (s *Store) settling() time.Duration {
	if s.detector.known().kind != kindOther {
		return 0
	}
	return max(0, settlePause-s.stats.sinceReconnect())
}

// spawn runs f on a goroutine that Close waits for; false after Close.
func (s *Store) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.wg.Go(f)
	return true
}

// scope returns a context that ends with ctx or with the store.
func (s *Store) scope(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.ctx, func() { cancel(ErrClosed) })
	return ctx, func() { stop(); cancel(nil) }
}

// begin starts a question to the server: a context that ends with the store,
// and the server's dialect. Without an error stop is to be called.
func (s *Store) begin(ctx context.Context) (_ context.Context, d dialect, stop func(), err error) {
	if s.ctx.Err() != nil {
		return nil, d, nil, ErrClosed
	}
	ctx, stop = s.scope(ctx)
	if d, err = s.detector.get(ctx); err != nil {
		stop()
		return nil, d, nil, err
	}
	return ctx, d, stop, nil
}

func (s *Store) check(key Key) error {
	if s.ctx.Err() != nil {
		return ErrClosed
	}
	return checkKey(key)
}

// cell returns the cell of a key, making it where it is new.
func (s *Store) cell(key Key) *cell {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.cells[key]
	if c == nil {
		c = &cell{store: s, key: key, watchers: map[*watcher]struct{}{}}
		s.cells[key] = c
	}
	return c
}

// watched returns the cells that somebody watches. A cell's lock is never taken
// under the store's: cells start their reads under their own.
func (s *Store) watched() []*cell {
	s.mu.Lock()
	list := slices.Collect(maps.Values(s.cells))
	s.mu.Unlock()
	return slices.DeleteFunc(list, func(c *cell) bool { return !c.isWatched() })
}

func (c *cell) isWatched() bool {
	_, watched := c.watchedSince()
	return watched
}

// watchedSince tells since when there is a watcher.
func (c *cell) watchedSince() (since time.Time, watched bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.since, len(c.watchers) > 0
}

// Get reads the config from the server: what it returns was current after the
// call began. A config that does not exist is a State with Absent set and no
// error; it is believed after a second read (150 ms later). Errors are
// ErrUnavailable, ErrForbidden, ErrBadName, ErrClosed or the context's; a state
// that is merely remembered is never returned.
func (s *Store) Get(ctx context.Context, key Key) (State, error) {
	if err := s.check(key); err != nil {
		return State{}, err
	}
	return s.cell(key).get(ctx)
}

// Watch returns a channel that holds the newest state of the config: the
// current one as soon as it is known, then every change that is seen. Values
// that the receiver did not take in time are replaced by newer ones, so a slow
// receiver misses states, never the last one. Nothing is sent before the first
// successful read; a state is sent again when it becomes stale and when it is
// fresh again. The channel closes when ctx ends or the store is closed, and at
// once for a name that Nacos would refuse (Get tells why).
//
// Any number of watchers of one config share one listener and one read.
func (s *Store) Watch(ctx context.Context, key Key) <-chan State {
	w := &watcher{ch: make(chan State, 1)}
	if s.check(key) != nil {
		close(w.ch)
		return w.ch
	}
	c := s.cell(key)
	c.mu.Lock()
	first := len(c.watchers) == 0
	c.watchers[w] = struct{}{}
	if first {
		c.since = time.Now()
	}
	if c.held.Seq > 0 && !first {
		w.ch <- c.held
	}
	w.stop = context.AfterFunc(ctx, func() { c.drop(w) })
	c.mu.Unlock()
	if s.ctx.Err() != nil {
		c.drop(w) // Close may have looked before the watcher was there
		return w.ch
	}
	if first {
		s.startWatching()
		c.welcome()
		s.relisten(c)
	}
	return w.ch
}

// welcome reads for the first watcher of a config. A state that was read
// before is sent again only after it was read anew: nobody watched meanwhile.
func (c *cell) welcome() {
	c.mu.Lock()
	known := c.held.Seq > 0
	c.mu.Unlock()
	f := c.refresh()
	if !known {
		return
	}
	c.store.spawn(func() {
		select {
		case <-f.done:
		case <-c.store.ctx.Done():
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if f.err == nil {
			for w := range c.watchers {
				select {
				case w.ch <- c.held:
				default: // already has it, or a newer one
				}
			}
		}
	})
}

// dropAll ends all watchers, with the store.
func (c *cell) dropAll() {
	c.mu.Lock()
	list := slices.Collect(maps.Keys(c.watchers))
	c.mu.Unlock()
	for _, w := range list {
		c.drop(w)
	}
}

// drop ends one watcher.
func (c *cell) drop(w *watcher) {
	c.mu.Lock()
	if _, ok := c.watchers[w]; ok {
		w.stop()
		delete(c.watchers, w)
		close(w.ch)
	}
	last := len(c.watchers) == 0
	c.mu.Unlock()
	if last {
		c.store.unlisten(c)
	}
}

// Health says how the connection fares and what goes wrong with the configs
// that are watched, a missing permission for instance. It sends no request.
func (s *Store) Health() Health {
	h := s.stats.health()
	h.SDKClients = s.sdk.working()
	if h.LastErr != "" {
		return h
	}
	for _, c := range s.watched() {
		c.mu.Lock()
		err := c.lastErr
		c.mu.Unlock()
		if err != nil {
			h.LastErr = err.Error()
			break
		}
	}
	return h
}

// Close ends all watches and connections. It waits for what runs, at most for
// ctx and one second; the error then says that something did not end. Closing
// twice is harmless.
func (s *Store) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.mu.Lock()
	cells := slices.Collect(maps.Values(s.cells))
	s.mu.Unlock()
	for _, c := range cells {
		c.dropAll()
	}
	done := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(done)
	}()
	defer s.client.close()
	ctx, cancel := context.WithTimeoutCause(ctx, closeTimeout, errors.New("goroutines did not end within one second"))
	defer cancel()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close nacos store: %w", context.Cause(ctx))
	}
}

const closeTimeout = time.Second
