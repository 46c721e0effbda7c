package feed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belay-mq/belay/registry/change"
	"github.com/belay-mq/belay/registry/fleet"
)

const (
	// DefaultCapacity is how many lines are kept.
	DefaultCapacity = 10_000
	// lookEvery is how often snapshots are compared; the fleet makes at most ten a second, and the window is longer.
	lookEvery = 200 * time.Millisecond
	// progressEvery is how often the scanner's progress is looked at.
	progressEvery = time.Second
	// grace is how long a line waits for what its listeners say.
	grace = 300 * time.Millisecond
	// rowsKept is how many rows of a release message the center remembers, to name the lowest of a merge.
	rowsKept = 64
	// mostInstances is how many instances a listener may have.
	mostInstances = 4096
	// mostPending bounds what Pending lists.
	mostPending = 1000
)

// Config is what a [Feed] needs. The zero value keeps a timeline of what is handed to it.
type Config struct {
	// Capacity is how many lines are kept; the oldest go first and are counted. Default DefaultCapacity.
	Capacity int
	// Listeners are told of delivered release messages, one delivery per merge, each at its own pace; see
	// [change.Notifier]. The feed shows how many took it.
	Listeners []change.Notifier
	// Logger receives what goes wrong; nil discards it.
	Logger *slog.Logger
	// Scanner gives what the scanner shows of itself; nil where there is none. It must not block.
	Scanner func() Progress
	// Snapshot gives the newest state of the fleet, of which Run makes lines; nil where there is none. It must not
	// block.
	Snapshot func() *fleet.Snapshot
	// Window is how long changes are merged. Default 500 ms, fixed.
	Window change.Window
}

// Feed is the timeline of a context. Its methods may be called from any goroutine.
type Feed struct {
	cfg    Config
	log    *slog.Logger
	center *change.Center
	start  time.Time
	window time.Duration
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	snap   atomic.Pointer[fleet.Snapshot]
	look   lookout

	handings sync.Map // name → *handing

	mu       sync.Mutex // guards what follows; held for short steps, never while the center is called
	ring     ring
	holding  int    // the past is being loaded: live lines wait in held
	held     []Line //
	past     covers
	since    time.Time // how far back the past goes, once it is loaded
	steps    stepLog
	awaiting map[awaited]*tally
	applying map[fleet.ID]*applying
	gone     map[string]string // instance → how it went
	gaps     []Line            // open now, as the scanner last said
	counts   Counters
	closed   bool
}

// Counters count what the feed did.
type Counters struct {
	Lines   uint64 // ever added
	Dropped uint64 // pushed out by newer ones
	Known   uint64 // not added because the past had them already, or does not go back that far
	Refused uint64 // handed over by other processes and not valid
}

// New returns a feed. Run makes lines of the fleet's snapshots; Close stops it.
func New(cfg Config) (*Feed, error) {
	if cfg.Capacity <= 0 {
		cfg.Capacity = DefaultCapacity
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Window == (change.Window{}) {
		cfg.Window.Max = change.DefaultWindow
	}
	f := &Feed{
		cfg: cfg, log: cfg.Logger.With("component", "feed"), start: time.Now(), window: cfg.Window.Max,
		ring: newRing(cfg.Capacity), steps: newStepLog(), past: newCovers(), awaiting: map[awaited]*tally{},
		applying: map[fleet.ID]*applying{}, gone: map[string]string{},
	}
	f.look.reset()
	f.look.quiet = f.start.Add(quietFor)
	f.ctx, f.cancel = context.WithCancel(context.Background())
	cc := change.Config{
		ItemLimit: func(k change.Key) int {
			if domainOf(k) == release {
				return rowsKept
			}
			return mostInstances
		},
		Logger:   f.log,
		MaxItems: mostInstances,
		MaxKeys:  1 << 16,
		Observe:  f.observe,
		Report:   f.report,
		Window:   cfg.Window,
	}
	for _, l := range cfg.Listeners {
		cc.Notifiers = append(cc.Notifiers, onlyReleases(l))
	}
	var err error
	if f.center, err = change.New(cc); err != nil {
		f.cancel()
		return nil, fmt.Errorf("feed: %w", err)
	}
	return f, nil
}

// Run follows snapshots and the scanner's progress until ctx ends.
func (f *Feed) Run(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var version uint64
	var progress time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if f.cfg.Snapshot != nil {
			if s := f.cfg.Snapshot(); s != nil && s.Version != version {
				version = s.Version
				if err := f.Compare(ctx, s); err != nil && !errors.Is(err, change.ErrClosed) && ctx.Err() == nil {
					f.log.Warn("a snapshot was not compared", "error", err)
				}
			}
		}
		if f.cfg.Scanner != nil && time.Since(progress) >= progressEvery {
			progress = time.Now()
			f.progress(ctx, f.cfg.Scanner())
		}
	}
}

// Close delivers what waits, stops the center and returns what it left. The lines can still be read.
func (f *Feed) Close(ctx context.Context) error {
	report, err := f.center.Close(ctx)
	f.cancel()
	f.mu.Lock()
	f.closed = true
	for k := range f.awaiting {
		f.settleLocked(k)
	}
	f.mu.Unlock()
	if err != nil {
		return fmt.Errorf("close the feed: %d changes were not handed over: %w", len(report.Undelivered), err)
	}
	return nil
}

// Lines returns at most most lines that come after the line numbered after, oldest first, and how many were
// dropped before they could be read. It does not block.
func (f *Feed) Lines(after uint64, most int) (lines []Line, dropped uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ring.after(after, most)
}

// Counters returns what the feed did, and what its change center did.
func (f *Feed) Counters() (Counters, change.Stats) {
	f.mu.Lock()
	c := f.counts
	f.mu.Unlock()
	return c, f.center.Stats()
}

// add appends a line, or keeps it until the past is there.
func (f *Feed) add(l Line) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.addLocked(l)
}

func (f *Feed) addLocked(l Line) {
	if l.At.IsZero() {
		l.At = time.Now()
	}
	if f.holding > 0 {
		if len(f.held) < f.cfg.Capacity {
			f.held = append(f.held, l)
		} else {
			f.counts.Dropped++
		}
		return
	}
	f.counts.Lines++
	if f.ring.push(l) {
		f.counts.Dropped++
	}
}

// observe makes a line of an outcome. The center's workers call it.
func (f *Feed) observe(d change.Delivery) {
	switch domainOf(d.Key) {
	case release:
		f.seeRelease(d)
	case toggles:
		f.seeToggle(d)
	case consumer:
		f.seeConsumer(d)
	case instance:
		f.seeInstance(d)
	case scanner:
		f.seeScanner(d)
	case health:
		f.seeHealth(d)
	case handed:
		f.seeHanded(d)
	}
}

// base fills a line with what every outcome has.
func (f *Feed) base(d *change.Delivery, s Source) Line {
	return Line{
		At: d.At, Source: s, Status: statusOf(d.Outcome), Merged: d.Merged, Delay: d.Delay, Window: f.window, Late: d.Late,
	}
}

func statusOf(o change.Outcome) Status {
	switch o {
	case change.Suppressed:
		return Suppressed
	case change.Stale:
		return Stale
	case change.Cleaned:
		return Cleaned
	case change.Replayed:
		return Replay
	}
	return Delivered
}
