package nacos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

// retryPause is the least time between two attempts of one write.
const retryPause = 150 * time.Millisecond

// emptyMD5 as the expected md5 makes a publish create only: Nacos applies it
// where nothing is stored and refuses it for every content that can be there.
const emptyMD5 = "d41d8cd98f00b204e9800998ecf8427e"

// Create stores a config that does not exist yet and returns its state. Where
// it exists, also since a moment ago, the error is *ConflictError; see Update
// for the others. On servers that ignore the expected md5 (r-nacos) the check
// is a read just before.
func (s *Store) Create(ctx context.Context, key Key, content Content) (State, error) {
	return s.write(ctx, key, content, "")
}

// Update replaces the text of a config whose text still has the md5 baseMD5,
// and returns the new state. Type, tags, application name and description stay
// (see Losses). The error is
//
//   - *ConflictError: the server holds something else, or nothing; nothing was
//     written;
//   - *OverwroteError: it was written, but a change that came in between was
//     lost by it, because the server ignores the expected md5;
//   - *LossError: nothing was written, because it would have cost metadata;
//   - ErrUnknownOutcome: the connection failed and later reads did not tell
//     either; every other error means that nothing was written;
//   - ErrUnavailable, ErrForbidden, ErrBadName, ErrBlank, ErrTooLarge, ErrClosed.
//
// A write whose answer was lost is read again and reported as done where it was
// applied. All retries together take at most Config.WriteTimeout.
func (s *Store) Update(ctx context.Context, key Key, content Content, baseMD5 string) (State, error) {
	if baseMD5 == "" {
		return State{}, fmt.Errorf("update %s: no md5 of the text that it replaces; use Create for a new config", key)
	}
	return s.write(ctx, key, content, baseMD5)
}

// writing is one write in progress.
type writing struct {
	store   *Store
	cell    *cell
	d       dialect
	key     Key
	content Content
	base    string // md5 that must be there; "" for a creation
	sum     string // md5 of the new text
	unsure  bool   // an attempt may have been applied without our knowing
	before  Detail // metadata that the write carries over
	began   State  // what was known when the newest attempt began
}

func (s *Store) write(ctx context.Context, key Key, content Content, base string) (State, error) {
	if err := s.check(key); err != nil {
		return State{}, err
	}
	if strings.TrimSpace(content.Text) == "" {
		return State{}, fmt.Errorf("write %s: %w; remove the config instead", key, ErrBlank)
	}
	if content.Operator == "" {
		content.Operator = s.cfg.Operator
	}
	ctx, stop := s.writeScope(ctx)
	defer stop()
	d, err := s.detector.get(ctx)
	if err != nil {
		return State{}, fmt.Errorf("write %s: nothing was written: %w", key, err)
	}
	w := &writing{store: s, cell: s.cell(key), d: d, key: key, content: content, base: base, sum: md5Hex(content.Text)}
	state, err := w.run(ctx)
	if c := (*ConflictError)(nil); errors.As(err, &c) {
		s.stats.conflicts.Add(1)
	}
	return state, err
}

// writeScope bounds a write with all its retries.
func (s *Store) writeScope(ctx context.Context) (context.Context, func()) {
	ctx, stop := s.scope(ctx)
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.WriteTimeout, fmt.Errorf("%w: gave up after %v", ErrUnavailable, s.cfg.WriteTimeout))
	return ctx, func() { cancel(); stop() }
}

// run looks, publishes, and looks again until the outcome is known.
func (w *writing) run(ctx context.Context) (State, error) {
	var last error
	for attempt := 0; ; attempt++ {
		if attempt > 0 {
			w.store.stats.retries.Add(1)
			pause := retryPause<<min(attempt-1, 2) + time.Duration(rand.Int64N(int64(retryPause)))
			if sleep(ctx, pause) != nil {
				return State{}, w.unfinished(ctx, last)
			}
		}
		epoch := w.cell.begin(&w.began)
		now, err := w.lookTwice(ctx)
		switch {
		case err != nil && w.final(err):
			return State{}, w.unfinished(ctx, err)
		case err != nil:
			last = err
			continue
		case w.unsure && now.md5() == w.sum:
			return w.done(ctx)
		case now.absent != (w.base == "") || now.md5() != w.base:
			if w.unsure && w.inHistory(ctx) {
				return w.done(ctx) // and overruled by now
			}
			return State{}, w.conflict(now, epoch)
		}
		if err = w.publish(ctx); err == nil {
			return w.done(ctx)
		}
		if w.final(err) {
			return State{}, w.unfinished(ctx, err)
		}
		// A refusal because of the md5 is not final: an earlier attempt of ours
		// may have been applied, or the copy that we looked at was old.
		refused := (*answerError)(nil)
		if !errors.As(err, &refused) || refused.status >= 500 && !refused.conflict() {
			w.unsure = true
		}
		last = err
	}
}

// lookTwice looks, and once more where the outcome is a surprise, or absence,
// that the server's copy may get wrong: it says so for a moment after a restart.
func (w *writing) lookTwice(ctx context.Context) (reading, error) {
	now, err := w.look(ctx)
	if err != nil || now.fresh {
		return now, err
	}
	settling := w.store.settling()
	expected := now.md5() == w.base || w.unsure && now.md5() == w.sum
	if !now.absent && (settling == 0 || expected) {
		return now, nil
	}
	if err := sleep(ctx, settling+absentPause); err != nil {
		return now, context.Cause(ctx)
	}
	return w.look(ctx)
}

// look reads what the server holds, with the metadata that a publish over HTTP
// must send again.
func (w *writing) look(ctx context.Context) (reading, error) {
	s := w.store
	if w.d.kind != kindOther && s.detailWorks() {
		detail, err := s.detail(ctx, w.d, w.key)
		switch {
		case err == nil:
			w.before = detail
			return reading{text: detail.Text, typ: detail.Type, fresh: true}, nil
		case errors.Is(err, ErrAbsent):
			w.before = Detail{}
			return reading{absent: true, fresh: true}, nil
		case !errors.Is(err, ErrForbidden) && !errors.Is(err, ErrRemovedAPI):
			return reading{}, err
		}
		s.detailRefused(err)
	}
	r, err := s.plain(ctx, w.d, w.key)
	if err != nil {
		return r, err
	}
	w.before = Detail{Type: r.typ}
	return w.cell.newest(r), nil
}

// final tells errors that no retry heals.
func (w *writing) final(err error) bool {
	var conflict *ConflictError
	var loss *LossError
	return errors.As(err, &conflict) || errors.As(err, &loss) || errors.Is(err, ErrForbidden) || errors.Is(err, ErrRemovedAPI) ||
		errors.Is(err, ErrTooLarge) || errors.Is(err, ErrBlank) || errors.Is(err, ErrBadName)
}

// unfinished says why the write was given up and whether it may be there.
func (w *writing) unfinished(ctx context.Context, last error) error {
	if last == nil {
		last = context.Cause(ctx)
	}
	if w.unsure {
		w.cell.refresh()
		return fmt.Errorf("write %s: %w: %w", w.key, ErrUnknownOutcome, last)
	}
	return fmt.Errorf("write %s: nothing was written: %w", w.key, last)
}

// conflict takes in what is there instead of the base.
func (w *writing) conflict(now reading, epoch uint64) error {
	actual := State{Key: w.key, Text: now.text, MD5: now.md5(), Absent: now.absent, Type: now.typ, Read: time.Now()}
	if state, wait := w.cell.believe(now, epoch); wait == 0 {
		actual = state
	} else {
		w.cell.refresh()
	}
	return &ConflictError{Key: w.key, BaseMD5: w.base, Actual: actual}
}

// done takes the written content in and checks that nothing foreign was lost.
func (w *writing) done(ctx context.Context) (State, error) {
	written := reading{text: w.content.Text, typ: w.typ()}
	state, foreign := w.cell.wrote(written, w.base, w.began)
	w.cell.refresh() // what is there by now
	lost, removed, overwrote := w.overwrote(ctx)
	if !overwrote && foreign.Seq > 0 && w.d.ignoresCAS() {
		lost, removed, overwrote = foreign.Text, foreign.Absent, true
	}
	if overwrote {
		return state, &OverwroteError{Key: w.key, Lost: lost, Removed: removed, Written: state}
	}
	return state, nil
}

// Remove deletes the config. Removing one that does not exist is no error.
// Nacos has no compare-and-remove. The operator of the configuration is
// recorded where the server takes one.
func (s *Store) Remove(ctx context.Context, key Key) error {
	if err := s.check(key); err != nil {
		return err
	}
	ctx, stop := s.writeScope(ctx)
	defer stop()
	d, err := s.detector.get(ctx)
	if err != nil {
		return fmt.Errorf("remove %s: %w", key, err)
	}
	c := s.cell(key)
	var began State
	for attempt := 0; ; attempt++ {
		c.begin(&began)
		err = s.removeOnce(ctx, d, key)
		if err == nil || errors.Is(err, ErrAbsent) {
			c.wrote(reading{absent: true}, began.MD5, began)
			c.refresh()
			return nil
		}
		// Repeating a removal does no harm.
		if !errors.Is(err, ErrUnavailable) || sleep(ctx, retryPause<<min(attempt, 3)) != nil {
			c.refresh()
			return err
		}
	}
}

func (s *Store) removeOnce(ctx context.Context, d dialect, key Key) error {
	r := call{what: "remove " + key.String(), method: http.MethodDelete, path: "/v1/cs/configs", query: v1Key(d, s.cfg.Namespace, key)}
	if s.cfg.Operator != "" {
		r.query.Set("src_user", s.cfg.Operator)
	}
	if d.kind == kindV3 {
		v3 := r
		v3.path, v3.query = "/v3/admin/cs/config", v3Key(d, s.cfg.Namespace, key)
		if s.cfg.Operator != "" {
			v3.query.Set("srcUser", s.cfg.Operator)
		}
		if _, err := s.client.do(ctx, v3); !errors.Is(err, ErrRemovedAPI) && !errors.Is(err, ErrForbidden) {
			return err
		}
	}
	_, err := s.client.do(ctx, r)
	return err
}
