package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/belay-mq/belay/consumers/release"
	"github.com/belay-mq/belay/nacos"
	"github.com/belay-mq/belay/registry/change"
	"github.com/belay-mq/belay/registry/feed"
	"github.com/belay-mq/belay/registry/fleet"
)

const (
	// openRetryMin and openRetryMax bound the pauses between tries to open the database.
	openRetryMin = time.Second
	openRetryMax = 30 * time.Second
	// searchTimeout bounds the search of applications for the past of a feed.
	searchTimeout = 3 * time.Second
)

// timeline is the feed of a backend and what fills it. The database may be down when it
// is opened, so it is opened again and again.
type timeline struct {
	feed   *feed.Feed
	latest *release.Latest
	opened chan struct{} // closed once db and scanner are there

	mu      sync.Mutex
	db      *release.DB
	scanner *release.Scanner
	err     error // of the newest try to open
	since   time.Time
	nextTry time.Time
}

// newTimeline makes the feed of a backend.
func (b *Backend) newTimeline() (*timeline, error) {
	t := &timeline{opened: make(chan struct{}), latest: release.NewLatest(), since: time.Now()}
	c := feed.Config{Logger: b.log, Snapshot: func() *fleet.Snapshot { return b.fleet.Snapshot() }}
	if r := b.ctx.Releases; r != nil {
		c.Scanner = t.progress
		c.Window = change.Window{Max: time.Duration(r.Window)}
	}
	var err error
	if t.feed, err = feed.New(c); err != nil {
		return nil, err
	}
	return t, nil
}

// progress is what the scanner shows of itself.
func (t *timeline) progress() feed.Progress {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.scanner != nil {
		return t.scanner.Status()
	}
	return feed.Progress{Phase: release.PhaseStarting, LastError: t.err, ErrorSince: t.since, NextTry: t.nextTry}
}

// runTimeline follows changes, loads the past, and reads release messages until ctx ends.
func (b *Backend) runTimeline(ctx context.Context) {
	t := b.timeline
	b.goGuarded("feed", func() error { return t.feed.Run(ctx) })
	b.goGuarded("the feed's past", func() error { return b.loadPast(ctx) })
	if b.ctx.Releases != nil {
		b.goGuarded("scanner", func() error { return b.scan(ctx) })
	}
}

// scan opens the database, in the end, and reads new rows until ctx ends.
func (b *Backend) scan(ctx context.Context) error {
	t, r := b.timeline, b.ctx.Releases
	delay := openRetryMin
	for {
		db, err := release.Open(ctx, release.DSN(r.DSN.Reveal()))
		if err == nil {
			return b.scanFrom(ctx, db)
		}
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the backend closes
		}
		t.mu.Lock()
		t.err, t.nextTry = err, time.Now().Add(delay)
		t.mu.Unlock()
		b.log.Warn("the release database could not be opened", "error", err, "retry_in", delay)
		if !sleep(ctx, delay) {
			return nil
		}
		delay = min(2*delay, openRetryMax)
	}
}

func (b *Backend) scanFrom(ctx context.Context, db *release.DB) error {
	t, r := b.timeline, b.ctx.Releases
	c := release.ScannerConfig{
		Interval: time.Duration(r.Interval), Latest: t.latest, Listeners: []release.Listener{t.feed},
		Logger: b.log, OnEvent: t.feed.HandleEvent,
	}
	if r.LookBack != nil {
		c.LookBack = max(*r.LookBack, 1) // to the scanner 0 is its default
	}
	if r.Checkpoint {
		c.CheckpointDir = b.opts.StateDir
	}
	s, err := release.NewScanner(db, c)
	if err != nil {
		t.mu.Lock()
		t.err = err // else health would say "starting" for ever
		t.mu.Unlock()
		return errors.Join(err, db.Close())
	}
	t.mu.Lock()
	t.db, t.scanner, t.err = db, s, nil
	t.mu.Unlock()
	close(t.opened)
	// The past comes first, so that the feed begins in the order of time.
	select {
	case <-b.pastLoaded:
	case <-ctx.Done():
	}
	return errors.Join(s.Run(ctx), db.Close())
}

// Recent reads the rows of the past, once the database could be opened.
func (t *timeline) Recent(ctx context.Context, since time.Time, limit int) ([]release.Row, error) {
	select {
	case <-t.opened:
		return t.db.Recent(ctx, since, limit)
	case <-ctx.Done():
		return nil, fmt.Errorf("the release database was not opened in time: %w", ctx.Err())
	}
}

// loadPast fills the feed with what happened before it began.
func (b *Backend) loadPast(ctx context.Context) error {
	defer close(b.pastLoaded) // the scanner waits for it
	p := feed.Past{Since: b.opts.FeedSince}
	if b.ctx.Releases != nil {
		p.Releases = b.timeline
	}
	for _, v := range b.vhost {
		p.Peers = append(p.Peers, v.presence)
	}
	if b.store != nil {
		p.History, p.Apps = b.store, b.fileKeys(ctx)
	}
	if err := b.timeline.feed.LoadPast(ctx, p); err != nil && ctx.Err() == nil {
		b.log.Warn("a part of the feed's past could not be loaded", "error", err)
	}
	return nil
}

// fileKeys names the toggle files: those of the configuration, else those found.
func (b *Backend) fileKeys(ctx context.Context) []nacos.Key {
	var keys []nacos.Key
	for _, a := range b.apps() {
		keys = append(keys, nacos.Key{DataID: a.DataID, Group: a.Name})
	}
	if keys != nil {
		return keys
	}
	ctx, cancel := context.WithTimeout(ctx, searchTimeout)
	defer cancel()
	keys, err := b.store.Search(ctx, dataID(b.ctx.Nacos))
	if err != nil {
		b.log.Debug("applications could not be searched for the feed's past", "error", err)
	}
	return keys
}

// PastLoaded is closed when the feed has its past, as far as that could be read.
func (b *Backend) PastLoaded() <-chan struct{} { return b.pastLoaded }

// Feed returns at most most lines that come after the line numbered after, and how many
// were dropped before they could be read. It never blocks.
func (b *Backend) Feed(after uint64, most int) (lines []feed.Line, dropped uint64) {
	if b.timeline == nil {
		return nil, 0
	}
	return b.timeline.feed.Lines(after, most)
}

// Pending returns the lines that wait in the change center now. It never blocks.
func (b *Backend) Pending() []feed.Line {
	if b.timeline == nil {
		return nil
	}
	return b.timeline.feed.Pending()
}

// Steps returns every step that a key of the feed went through. It never blocks.
func (b *Backend) Steps(key string) []feed.Line {
	if b.timeline == nil {
		return nil
	}
	return b.timeline.feed.Steps(key)
}

// feedSince is what other processes are given of this one's feed.
func (b *Backend) feedSince(since time.Time) [][]byte {
	if b.timeline == nil {
		return nil
	}
	return b.timeline.feed.Since(since)
}

// releaseHealth tells of the scanner and the change center.
func (b *Backend) releaseHealth() []fleet.Health {
	apollo := fleet.Health{Name: "apollo", State: fleet.HealthAbsent, Text: "not configured"}
	if b.timeline == nil {
		return nil
	}
	counts, stats := b.timeline.feed.Counters()
	center := fleet.Health{
		Name: "center", State: fleet.HealthOK, Since: b.started, LastOK: time.Now(),
		Text: fmt.Sprintf("merges for %s, %d keys wait", stats.Window.Max, stats.PendingKeys),
		Counters: []fleet.Counter{
			{Name: "accepted", Value: int64(stats.Accepted)}, {Name: "merged away", Value: int64(stats.Merged)},
			{Name: "delivered", Value: int64(stats.Delivered)}, {Name: "suppressed", Value: int64(stats.Suppressed)},
			{Name: "stale", Value: int64(stats.Stale)}, {Name: "lines", Value: int64(counts.Lines)},
			{Name: "lines dropped", Value: int64(counts.Dropped)},
		},
	}
	if b.ctx.Releases != nil {
		apollo = scannerHealth(b.timeline.progress(), b.started)
	}
	return []fleet.Health{apollo, center}
}

func scannerHealth(s feed.Progress, began time.Time) fleet.Health {
	h := fleet.Health{Name: "apollo", State: fleet.HealthOK, Since: began, LastOK: s.ReadAt}
	h.Text = fmt.Sprintf("%s, position %d, %d behind, %d gaps open, lag %s", s.Database, s.Position.ID, s.Behind(), s.GapsOpen, s.Lag.Round(time.Millisecond))
	if s.Database == "" {
		h.Text = "not opened yet"
	}
	if s.Skewed {
		h.Text += " (the database's clock was set back)"
	}
	h.Counters = []fleet.Counter{
		{Name: "rows", Value: int64(s.Rows)}, {Name: "late", Value: int64(s.Late)}, {Name: "gaps proven dead", Value: int64(s.Dead)},
		{Name: "unproven", Value: int64(s.Unproven)}, {Name: "malformed", Value: int64(s.Malformed)}, {Name: "ignored", Value: s.Ignored},
		{Name: "queries", Value: int64(s.Queries)}, {Name: "alarms", Value: int64(s.Alarms)},
	}
	if s.LastError != nil {
		h.State, h.Since, h.Err = fleet.HealthDown, s.ErrorSince, s.LastError.Error()
		h.Advice = "reading goes on where it was; check the dsn and that the database runs"
		if release.NoTable(s.LastError) {
			h.Advice = "check the dsn; 'belay release init' creates the table"
		}
		if until := time.Until(s.NextTry); until > 0 {
			h.Advice = "next try in " + fleet.Short(until) + "; " + h.Advice
		}
	} else if s.Phase == release.PhaseStarting {
		h.Text = "starting"
	}
	return h
}
