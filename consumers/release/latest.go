package release

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	releaseBatch = 100
	releasePause = 100 * time.Millisecond
)

// ErrClosed is returned to those who wait on a [Latest] that was closed.
var ErrClosed = errors.New("release: closed")

// Latest keeps the newest row of each key, and lets many callers wait for a key
// to move on. Give it to a scanner as [ScannerConfig.Latest]. All methods may be
// called by any number of goroutines. [Latest.Close] it after the scanner.
type Latest struct {
	mu      sync.Mutex
	keys    map[string]*latestKey
	closed  bool
	done    chan struct{}
	release sync.WaitGroup
}

type latestKey struct {
	row     Row
	known   bool
	waiters []*waiter // in the order of their coming
	busy    bool      // a goroutine releases waiters
}

type waiter struct {
	after Position
	row   chan Row // holds one
}

// NewLatest makes an empty Latest.
func NewLatest() *Latest {
	return &Latest{keys: map[string]*latestKey{}, done: make(chan struct{})}
}

// Get is the newest row of a message, compared byte by byte. A key whose rows
// were deleted, or lost with an epoch, keeps its last row.
func (l *Latest) Get(message string) (Row, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.keys[message]
	if k == nil || !k.known {
		return Row{}, false
	}
	return k.row, true
}

// Len is the number of keys that have a row.
func (l *Latest) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, k := range l.keys {
		if k.known {
			n++
		}
	}
	return n
}

// Wait returns the newest row of a message once it is past after; at once where
// it is already. Callers that wait for one key are let go in batches of 100 with
// 100 ms between, so that thousands of them do not come down on the application
// together; other keys are not held up. The error is ctx's, or [ErrClosed].
func (l *Latest) Wait(ctx context.Context, message string, after Position) (Row, error) {
	w := &waiter{after: after, row: make(chan Row, 1)}
	// Registered before the check, under one lock: no row can come in between.
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return Row{}, ErrClosed
	}
	k := l.key(message)
	if k.known && k.row.Position().After(after) {
		row := k.row
		l.mu.Unlock()
		return row, nil
	}
	k.waiters = append(k.waiters, w)
	l.mu.Unlock()
	select {
	case row := <-w.row:
		return row, nil
	case <-ctx.Done():
		l.leave(message, w)
		return Row{}, ctx.Err()
	case <-l.done:
		return Row{}, ErrClosed
	}
}

// Close ends every wait with [ErrClosed] and returns when nothing of l runs any more.
func (l *Latest) Close() {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.done)
	}
	l.mu.Unlock()
	l.release.Wait()
}

func (l *Latest) key(message string) *latestKey {
	k := l.keys[message]
	if k == nil {
		k = &latestKey{}
		l.keys[message] = k
	}
	return k
}

func (l *Latest) leave(message string, w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.keys[message]
	for i, other := range k.waiters {
		if other == w {
			k.waiters = append(k.waiters[:i], k.waiters[i+1:]...)
			break
		}
	}
	if len(k.waiters) == 0 && !k.known && !k.busy {
		delete(l.keys, message)
	}
}

// add takes a row, if it is newer than what is there, and lets waiters go.
func (l *Latest) add(r Row) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.key(r.Message)
	if k.known && !r.Position().After(k.row.Position()) {
		return
	}
	k.row, k.known = r, true
	if l.closed || k.busy || !k.let(releaseBatch) {
		return
	}
	k.busy = true
	l.release.Go(func() { l.letGo(k) })
}

// let hands the row to the first n waiters that are to have it, and says whether
// there are more.
func (k *latestKey) let(n int) (more bool) {
	kept := k.waiters[:0]
	for _, w := range k.waiters {
		switch {
		case !k.row.Position().After(w.after):
			kept = append(kept, w)
		case n == 0:
			kept, more = append(kept, w), true
		default:
			w.row <- k.row
			n--
		}
	}
	clear(k.waiters[len(kept):])
	k.waiters = kept
	return more
}

// letGo releases one key's waiters, batch by batch, until none is due.
func (l *Latest) letGo(k *latestKey) {
	pause := time.NewTicker(releasePause)
	defer pause.Stop()
	for {
		select {
		case <-l.done:
			return
		case <-pause.C:
		}
		l.mu.Lock()
		k.busy = k.let(releaseBatch)
		busy := k.busy
		l.mu.Unlock()
		if !busy {
			return
		}
	}
}

// loadLatest reads the whole table up to the newest row at the start.
func (s *Scanner) loadLatest(ctx context.Context) error {
	for from := uint64(1); ; {
		rows, err := s.rows(ctx, "load the latest rows", s.db.q.page(pageSize), s.db.q.arg(from))
		if err != nil {
			return err
		}
		for _, r := range rows {
			if r.ID > s.startMax {
				return nil
			}
			r.Epoch, r.History = s.epoch, true
			s.cfg.Latest.add(r)
			from = r.ID + 1
		}
		if len(rows) < pageSize {
			return nil
		}
	}
}
