package server

import (
	"context"
	"maps"
	"sync"
	"time"
)

// entry is a config as reads and listens see it. It is never changed in place.
type entry struct {
	content, md5, typ, dataKey string
	modified                   int64
}

// collisionRetry is how long real servers wait before they try to dump a config again that was being read.
const collisionRetry = time.Second

// dump is the copy of the database from which all reads are served and against which all listens are compared. Like
// the real one it lags: a change becomes visible at the next tick. It is safe for concurrent use.
type dump struct {
	db      *database
	faults  *Faults
	tick    time.Duration // <= 0: changes are visible before the publish returns
	changed func(key, *entry)

	wake chan struct{}

	mu      sync.RWMutex
	entries map[key]*entry
	readers map[key]int       // reads in progress
	pending map[key]time.Time // when a changed key may be dumped
}

func newDump(db *database, faults *Faults, tick time.Duration, changed func(key, *entry)) *dump {
	return &dump{db: db, faults: faults, tick: tick, changed: changed, wake: make(chan struct{}, 1),
		entries: make(map[key]*entry), readers: make(map[key]int), pending: make(map[key]time.Time)}
}

// load copies the whole database, as a server does before it serves.
func (d *dump) load() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.entries)
	clear(d.pending)
	for _, k := range d.db.keys() {
		d.entries[k] = newEntry(d.db.get(k))
	}
}

func newEntry(r *record) *entry {
	if r == nil {
		return nil
	}
	return &entry{content: r.Content, md5: r.MD5, typ: r.Type, dataKey: r.EncryptedDataKey, modified: r.Modified}
}

// get returns what reads see of k, nil if nothing. It holds a read lock on k for as long as the faults say; a dump
// that falls into that time collides.
func (d *dump) get(ctx context.Context, k key) *entry {
	hold := d.faults.readHold()
	if hold <= 0 {
		return d.peek(k)
	}
	d.mu.Lock()
	d.readers[k]++
	e := d.entries[k]
	d.mu.Unlock()
	wait(ctx, hold)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.readers[k]--; d.readers[k] == 0 {
		delete(d.readers, k)
	}
	return e
}

// peek is get without the read lock: comparisons of md5 take none.
func (d *dump) peek(k key) *entry {
	if d.faults.absent() {
		return nil
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.entries[k]
}

// md5 returns the md5 that listens are compared with, "" for a missing config.
func (d *dump) md5(k key) string {
	if e := d.peek(k); e != nil {
		return e.md5
	}
	return ""
}

// note says that k has changed in the database.
func (d *dump) note(k key) {
	delay := d.faults.dumpDelay()
	if d.tick <= 0 && delay <= 0 && d.copy(k) {
		return
	}
	d.mu.Lock()
	due := time.Now().Add(delay)
	if old, ok := d.pending[k]; !ok || due.After(old) {
		d.pending[k] = due
	}
	d.mu.Unlock()
	d.signal()
}

func (d *dump) signal() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// copy dumps k now. It reports false if a read of k is in the way; the dump is then due again after a second.
func (d *dump) copy(k key) bool {
	d.mu.Lock()
	if d.readers[k] > 0 || d.faults.collide() {
		d.pending[k] = time.Now().Add(collisionRetry)
		d.mu.Unlock()
		d.signal()
		return false
	}
	delete(d.pending, k)
	old, next := d.entries[k], newEntry(d.db.get(k))
	if next == nil {
		delete(d.entries, k)
	} else {
		d.entries[k] = next
	}
	d.mu.Unlock()
	if (old == nil) != (next == nil) || old != nil && old.md5 != next.md5 {
		d.changed(k, next)
	}
	return true
}

// run dumps what is pending, at ticks counted from its start, until ctx ends. An idle engine sleeps.
func (d *dump) run(ctx context.Context) {
	start := time.Now()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	hidden := false
	for {
		if absent := d.faults.absent(); hidden != absent {
			hidden = absent
			if !hidden {
				d.announce()
			}
		}
		if at, ok := d.next(start); ok {
			timer.Reset(time.Until(at))
		} else {
			timer.Stop()
		}
		select {
		case <-ctx.Done():
			return
		case <-d.wake:
		case <-timer.C:
			for _, k := range d.due(time.Now()) {
				d.copy(k)
			}
		}
	}
}

// announce tells everybody who listens that configs can be seen again.
func (d *dump) announce() {
	d.mu.RLock()
	entries := maps.Clone(d.entries)
	d.mu.RUnlock()
	for k, e := range entries {
		d.changed(k, e)
	}
}

// next returns the first tick at which something is due, or when hidden configs are to be seen again.
func (d *dump) next(start time.Time) (time.Time, bool) {
	at, ok := d.nextTick(start)
	if until := d.faults.hiddenUntil(); time.Now().Before(until) && (!ok || until.Before(at)) {
		return until, true
	}
	return at, ok
}

func (d *dump) nextTick(start time.Time) (time.Time, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	var first time.Time
	for _, at := range d.pending {
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	if first.IsZero() || d.tick <= 0 {
		return first, !first.IsZero()
	}
	return start.Add(first.Sub(start).Truncate(d.tick) + d.tick), true
}

func (d *dump) due(now time.Time) []key {
	d.mu.RLock()
	defer d.mu.RUnlock()
	var keys []key
	for k, at := range d.pending {
		if !at.After(now) {
			keys = append(keys, k)
		}
	}
	return keys
}

// wait sleeps for a while, or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
