package release

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

const (
	deletesPerQuery = 100
	cleanTimeout    = 5 * time.Second
)

// CleanerConfig sets a [Cleaner] up.
type CleanerConfig struct {
	// Logger may be nil.
	Logger *slog.Logger
	// Pause is waited between two rounds, so that one round serves many
	// messages of a key. 0 is one second.
	Pause time.Duration
}

// Cleaner deletes rows that a newer row of the same key has replaced, 100 at a
// time. It never deletes the newest row of a key, compares messages byte by
// byte whatever the database's collation says, and several may run at once.
type Cleaner struct {
	cfg  CleanerConfig
	db   *DB
	wake chan struct{}

	mu      sync.Mutex
	offered map[string]uint64 // the highest id of each key
	status  CleanerStatus
}

// CleanerStatus is what a cleaner shows of itself; a copy.
type CleanerStatus struct {
	Deleted   uint64
	LastError error // nil when the last round succeeded
	Pending   int   // keys that were offered and not yet cleaned
}

// NewCleaner makes a cleaner of db's table. It does nothing until [Cleaner.Run].
func NewCleaner(db *DB, cfg CleanerConfig) *Cleaner {
	cfg.Pause = orDuration(cfg.Pause, time.Second)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Cleaner{cfg: cfg, db: db, wake: make(chan struct{}, 1), offered: map[string]uint64{}}
}

// Offer tells the cleaner of a committed message. It never blocks, and keeps
// one id of each key.
func (c *Cleaner) Offer(m Sent) {
	c.mu.Lock()
	c.offered[m.Message] = max(c.offered[m.Message], m.ID)
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Status may be called by any goroutine.
func (c *Cleaner) Status() CleanerStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := c.status
	st.Pending = len(c.offered)
	return st
}

// Run cleans what is offered until ctx ends, and then returns nil. A key whose
// cleaning failed is tried again after 1 to 30 seconds.
func (c *Cleaner) Run(ctx context.Context) error {
	failures := 0
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.wake:
		}
		pause := c.cfg.Pause
		if err := c.round(ctx); err != nil && ctx.Err() == nil {
			failures++
			pause = backOff(failures)
			c.cfg.Logger.Warn("release cleaner: "+err.Error(), "component", "release", "nextTry", pause)
		} else {
			failures = 0
		}
		if !sleep(ctx, pause) {
			return nil
		}
	}
}

// round cleans every key that was offered, and offers those again that failed.
func (c *Cleaner) round(ctx context.Context) error {
	c.mu.Lock()
	offered := c.offered
	c.offered = map[string]uint64{}
	c.mu.Unlock()
	var failed error
	for message, id := range offered {
		n, err := c.Clean(ctx, Sent{ID: id, Message: message})
		c.mu.Lock()
		c.status.Deleted += uint64(n)
		c.mu.Unlock()
		if err != nil {
			failed = err
			c.Offer(Sent{ID: id, Message: message})
		}
	}
	c.mu.Lock()
	c.status.LastError = failed
	c.mu.Unlock()
	return failed
}

// Clean deletes the rows of a message's key that are older than the newest one
// at or below its id, and gives how many it deleted. Where that row is not
// committed or is gone, the newest that can be seen stays.
func (c *Cleaner) Clean(ctx context.Context, m Sent) (int, error) {
	var above, kept uint64
	var doomed []any
	deleted := 0
	for {
		rows, err := c.twins(ctx, m, above)
		if err != nil {
			return deleted, err
		}
		for _, r := range rows {
			above = r.ID
			if r.Message != m.Message {
				continue // equal to the database, another key to us
			}
			if kept > 0 {
				doomed = append(doomed, c.db.q.arg(kept))
			}
			kept = r.ID
		}
		last := len(rows) < deletesPerQuery
		for len(doomed) >= deletesPerQuery || last && len(doomed) > 0 {
			n := min(len(doomed), deletesPerQuery)
			gone, err := c.remove(ctx, doomed[:n])
			if err != nil {
				return deleted, err
			}
			deleted += gone
			doomed = doomed[n:]
		}
		if last {
			return deleted, nil
		}
	}
}

func (c *Cleaner) twins(ctx context.Context, m Sent, above uint64) ([]Row, error) {
	ctx, cancel := context.WithTimeout(ctx, cleanTimeout)
	defer cancel()
	q := c.db.q
	rows, err := c.db.read(ctx, nil, q.twins(deletesPerQuery), m.Message, q.arg(above), q.arg(m.ID))
	if err != nil {
		return nil, fmt.Errorf("release: find old rows of %.200q in %s: %w", m.Message, c.db, err)
	}
	return rows, nil
}

// remove gives how many rows it deleted: another cleaner may have been first.
func (c *Cleaner) remove(ctx context.Context, ids []any) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, cleanTimeout)
	defer cancel()
	res, err := c.db.pool.ExecContext(ctx, c.db.q.remove(len(ids)), ids...)
	if err != nil {
		return 0, fmt.Errorf("release: delete %d old rows in %s: %w", len(ids), c.db, err)
	}
	n, err := res.RowsAffected()
	return int(n), err
}
