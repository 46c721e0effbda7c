package release

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"
)

const (
	pageSize     = 500
	minInterval  = 100 * time.Millisecond
	minBackOff   = time.Second
	maxBackOff   = 30 * time.Second
	surveyTicks  = 10      // an idle scanner's ticks between two surveys
	maxVerifies  = 3       // of one tick
	maxVariants  = 100_000 // messages remembered for the warning about case
	skewAllowed  = 5 * time.Millisecond
	allLookBack  = -1
	defaultGaps  = 10_000
	defaultAlarm = time.Minute
)

// ErrRunning is returned by [Scanner.Run] while another Run of it is on.
var ErrRunning = errors.New("release: the scanner is running already")

// ScannerConfig sets a [Scanner] up. The zero value reads every second from
// 1,000 ids before the newest on, and tells nobody.
type ScannerConfig struct {
	// AlarmAfter is the age at which an open gap raises an alarm, once. 0 is
	// one minute.
	AlarmAfter time.Duration
	// CheckpointDir is a directory for the scanner's position, so that the next
	// process goes on where this one ended. One directory may serve several
	// databases, but not two scanners of one. Empty keeps no checkpoint.
	CheckpointDir string
	// Interval is the pause between the end of one tick and the next. 0 is one
	// second, less than 100 ms is an error.
	Interval time.Duration
	// Latest is loaded with the whole table at the start, and is told of each
	// row before the listeners. It may be nil.
	Latest *Latest
	// Listeners are told of each row, in order.
	Listeners []Listener
	// Logger may be nil.
	Logger *slog.Logger
	// LookBack is how many ids below the newest are read at a start without
	// checkpoint, so that an insert which is not committed yet is found. 0 is
	// 1,000, negative is the whole table. Rows found there are history.
	LookBack int
	// MaxGaps bounds the open gaps, 0 is 10,000, the least is 1,000. At the bound the scanner
	// waits for proof; when the oldest gap has reached AlarmAfter it gives gaps
	// up, oldest first, with an alarm.
	MaxGaps int
	// OnEvent is told of events by the scanner's goroutine; it must be fast.
	// A panic in it is recovered and logged. It may be nil.
	OnEvent func(Event)
	// QueryTimeout is the deadline of each query. 0 is 5 seconds.
	QueryTimeout time.Duration
	// UnprovenAfter is the age at which a gap is given up where the database
	// offers no proof: a replica, a sequence with a cache, missing rights. 0 is
	// 10 minutes.
	UnprovenAfter time.Duration
}

func (c ScannerConfig) withDefaults() (ScannerConfig, error) {
	if c.Interval != 0 && c.Interval < minInterval {
		return c, fmt.Errorf("release: the interval %s is below %s", c.Interval, minInterval)
	}
	c.Interval = orDuration(c.Interval, time.Second)
	c.AlarmAfter = orDuration(c.AlarmAfter, defaultAlarm)
	c.QueryTimeout = orDuration(c.QueryTimeout, 5*time.Second)
	c.UnprovenAfter = orDuration(c.UnprovenAfter, 10*time.Minute)
	switch {
	case c.LookBack == 0:
		c.LookBack = 1000
	case c.LookBack < 0:
		c.LookBack = allLookBack
	}
	if c.MaxGaps <= 0 {
		c.MaxGaps = defaultGaps
	}
	c.MaxGaps = max(c.MaxGaps, 2*pageSize)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// Scanner reads new rows of one table, each exactly once while the process
// lives, and at least once over a crash where it has a checkpoint. Rows come in
// the order of their ids, but for late ones.
type Scanner struct {
	cfg       ScannerConfig
	db        *DB
	running   atomic.Bool
	published atomic.Pointer[Status]

	// Everything below belongs to the goroutine of Run.

	ahead    *readAhead  // nil: nothing is read ahead
	anchor   fingerprint // the newest row at or below the cursor that is there; ID 0: none
	cursor   uint64
	epoch    int
	fold     bool
	gaps     gapSet
	life     incarnation
	memory   memory
	old      *past // of the last epoch, while the new one is read for the first time
	prover   prover
	replay   bool   // rows up to startMax may have been handed over before
	inHand   []Row  // the buffer of the page in hand
	saved    []byte // the last checkpoint
	saveErr  error
	startMax uint64
	started  bool
	status   Status
	surveyed time.Time
	dbNow    time.Time // at surveyed
	clock    time.Time // the database's, at the last look
	variants map[string]string
}

// NewScanner makes a scanner of db's table. It reads nothing yet.
func NewScanner(db *DB, cfg ScannerConfig) (*Scanner, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Scanner{cfg: cfg, db: db, epoch: 1, variants: map[string]string{}}
	s.status.Phase = PhaseIdle
	s.publish()
	return s, nil
}

// Run reads until ctx ends, and then returns nil. Errors of the database do
// not end it: they are shown by [Scanner.Status] and events, and it tries again
// after 1 to 30 seconds. After Run has returned it may be called again, and goes
// on where it was.
func (s *Scanner) Run(ctx context.Context) error {
	if !s.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer s.running.Store(false)
	defer func() {
		s.status.Phase = PhaseIdle
		s.publish()
	}()
	s.status.Phase = PhaseStarting
	s.publish()
	for {
		pause := s.cfg.Interval
		began := time.Now()
		err := s.tick(ctx)
		s.status.TickTook = time.Since(began)
		switch {
		case ctx.Err() != nil:
			s.saveCheckpoint()
			return nil
		case err != nil:
			pause = s.failed(err)
		default:
			s.succeeded()
		}
		s.saveCheckpoint()
		s.publish()
		if !sleep(ctx, pause) {
			return nil
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// backOff is the pause after the n-th failure in a row, with a jitter of a
// fifth to either side.
func backOff(n int) time.Duration {
	d := minBackOff << min(n-1, 10)
	d = min(d, maxBackOff)
	jitter := 0.8 + 0.4*rand.Float64()
	return min(max(time.Duration(float64(d)*jitter), minBackOff), maxBackOff)
}

func (s *Scanner) failed(err error) time.Duration {
	if s.status.Attempts == 0 {
		s.status.ErrorSince = time.Now()
	}
	s.status.Attempts++
	pause := backOff(s.status.Attempts)
	s.status.LastError = err
	s.status.NextTry = time.Now().Add(pause)
	s.status.Phase = PhaseFailing
	s.event(Event{Kind: EventError, Err: err, NextTry: s.status.NextTry,
		Text: fmt.Sprintf("%v (try %d, next in %s)", err, s.status.Attempts, pause.Round(time.Millisecond))})
	return pause
}

// recovered ends a run of errors, if there is one.
func (s *Scanner) recovered() {
	if s.status.Attempts == 0 {
		return
	}
	down := time.Since(s.status.ErrorSince).Round(time.Millisecond)
	tries := s.status.Attempts
	s.status.Attempts, s.status.LastError = 0, nil
	s.status.ErrorSince, s.status.NextTry = time.Time{}, time.Time{}
	s.event(Event{Kind: EventRecovered, Text: fmt.Sprintf("reads again after %s and %d failed tries", down, tries)})
}

func (s *Scanner) succeeded() {
	s.status.Ticks++
	s.recovered()
	if s.status.Phase != PhaseHolding {
		s.status.Phase = PhaseWaiting
	}
}

// event fills in what all events share, logs it and hands it on.
func (s *Scanner) event(e Event) {
	e.At, e.Database, e.Epoch = time.Now(), s.db.name, s.epoch
	level := slog.LevelInfo
	switch e.Kind {
	case EventAlarm, EventError, EventListener, EventEpoch:
		level = slog.LevelWarn
	case EventGapOpened, EventGapClosed:
		level = slog.LevelDebug
		e.History = e.To <= s.startMax
	}
	if e.Kind == EventAlarm {
		s.status.Alarms++
	}
	s.cfg.Logger.Log(context.Background(), level, "release scanner: "+e.Text, "component", "release", "database", e.Database, "kind", string(e.Kind))
	if s.cfg.OnEvent == nil {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			s.cfg.Logger.Error("release scanner: OnEvent panicked", "component", "release", "panic", v)
		}
	}()
	s.cfg.OnEvent(e)
}

// query runs one read with its deadline.
func (s *Scanner) query(ctx context.Context, what string, do func(context.Context) error) error {
	s.status.Queries++
	ctx, cancel := context.WithTimeout(ctx, s.cfg.QueryTimeout)
	defer cancel()
	if err := guarded(func() error { return do(ctx) }); err != nil {
		return fmt.Errorf("release: %s of %s: %w", what, s.db, err)
	}
	return nil
}

// guarded makes an error of a driver's panic.
func guarded(do func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return do()
}

func (s *Scanner) rows(ctx context.Context, what, query string, args ...any) (rows []Row, err error) {
	err = s.query(ctx, what, func(ctx context.Context) error {
		rows, err = s.db.read(ctx, nil, query, args...)
		return err
	})
	return rows, err
}

// survey asks for the database's clock, its newest id and its ignored rows.
func (s *Scanner) survey(ctx context.Context) error {
	return s.query(ctx, "survey", func(ctx context.Context) error {
		v, err := s.db.survey(ctx)
		if err != nil {
			return err
		}
		s.surveyed, s.dbNow = time.Now(), v.now
		s.status.Newest = v.newest
		if v.ignored != s.status.Ignored && v.ignored > 0 {
			s.event(Event{Kind: EventAlarm, Text: fmt.Sprintf("%d rows have an id of 0 or less and are ignored", v.ignored)})
		}
		s.status.Ignored = v.ignored
		return nil
	})
}

// look sets the clock for the rows of one read: that is exact enough, and a
// look for each row would be felt.
func (s *Scanner) look() { s.clock = s.dbNow.Add(time.Since(s.surveyed)) }

// deliver hands a row to everybody.
func (s *Scanner) deliver(ctx context.Context, r Row) {
	r.Epoch = s.epoch
	r.Lag = s.clock.Sub(r.ChangedAt)
	if r.Lag < 0 && r.Lag > -skewAllowed {
		r.Lag = 0
	}
	r.Skewed = r.Lag < 0
	s.count(r)
	if s.cfg.Latest != nil {
		s.cfg.Latest.add(r)
	}
	for i, l := range s.cfg.Listeners {
		err := guarded(func() error { return l.HandleRow(ctx, r) })
		if err == nil {
			continue
		}
		s.status.ListenerErrors++
		if p := (*PanicError)(nil); errors.As(err, &p) {
			s.cfg.Logger.Error("release scanner: listener panicked", "component", "release", "row", r.ID, "panic", p.Value, "stack", string(p.Stack))
		}
		s.event(Event{Kind: EventListener, Err: err, From: r.ID, To: r.ID,
			Text: fmt.Sprintf("listener %d failed at row %d: %v", i+1, r.ID, err)})
	}
}

func (s *Scanner) count(r Row) {
	st := &s.status
	st.Rows++
	if r.Late {
		st.Late++
	}
	if r.Replay {
		st.Replayed++
	}
	if r.History {
		st.History++
	} else {
		st.Lag, st.Skewed, st.LastRow = r.Lag, r.Skewed, r.ChangedAt
	}
	if _, ok := ParseKey(r.Message); !ok {
		st.Malformed++
	}
	if !s.fold {
		return
	}
	folded := strings.ToLower(strings.TrimRight(r.Message, " "))
	first, seen := s.variants[folded]
	switch {
	case !seen && len(s.variants) < maxVariants:
		s.variants[folded] = r.Message
	case seen && first != r.Message:
		s.variants[folded] = r.Message
		s.event(Event{Kind: EventVariant, From: r.ID, To: r.ID,
			Text: fmt.Sprintf("%.200q and %.200q are two keys, but equal to this database", first, r.Message)})
	}
}
