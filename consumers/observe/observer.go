package observe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Channels opens channels to the broker; *consumers.Conn does. The observer
// needs few, but closes and reopens them often, so a Conn of its own keeps
// that away from consumers.
type Channels interface {
	ConsumeChannel(ctx context.Context) (*amqp.Channel, error)
}

// Config configures an [Observer]. Conn is required.
type Config struct {
	// Conn opens channels to the broker, on the virtual host VHost.
	Conn Channels
	// Interval between two passive declares of one queue. Default: 1 s.
	Interval time.Duration
	// Lag is how old the management API's numbers may be at most. Where it
	// counts other consumers than the broker, that is called a disagreement
	// only after both have been steady for so long. Default: 10 s.
	Lag time.Duration
	// Logger takes what changes: a side that fails or is back. Default:
	// nothing is logged.
	Logger *slog.Logger
	// Management is the address of the management API with a user,
	// https://user:password@host:15671. Default: empty, it is not asked.
	Management Secret
	// ManagementInterval between two questions about one queue. The API's own
	// numbers change every 5 s. Default: 5 s.
	ManagementInterval time.Duration
	// Parallel bounds the calls under way at once, for each side. Default: 4.
	Parallel int
	// Timeout bounds each call. Default: 5 s.
	Timeout time.Duration
	// TLS is used for an https address. Default: the system's roots.
	TLS *tls.Config
	// VHost is the virtual host of Conn. Default: "/".
	VHost string
}

// Observer reads queues for as long as Run runs. Its methods are safe for
// concurrent use.
type Observer struct {
	cfg Config
	log *slog.Logger
	api *client // nil without the management API

	queues atomic.Pointer[map[QueueID]*Queue]
	health atomic.Pointer[Health]

	mu      sync.Mutex
	wanted  []QueueID
	changed bool
	refresh bool
	wake    chan struct{}
	running bool
}

// New checks cfg and returns an observer that reads nothing before Run. A
// management address that is none is an error.
func New(cfg Config) (*Observer, error) {
	if cfg.Conn == nil {
		return nil, errors.New("observe: Config.Conn is missing")
	}
	setDefault(&cfg.Interval, time.Second)
	setDefault(&cfg.Lag, 10*time.Second)
	setDefault(&cfg.ManagementInterval, 5*time.Second)
	setDefault(&cfg.Parallel, 4)
	setDefault(&cfg.Timeout, 5*time.Second)
	setDefault(&cfg.VHost, "/")
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	o := &Observer{cfg: cfg, log: cfg.Logger.With("component", "observe", "vhost", cfg.VHost), wake: make(chan struct{}, 1)}
	if cfg.Management != "" {
		var err error
		if o.api, err = newClient(cfg); err != nil {
			return nil, err
		}
	}
	o.queues.Store(&map[QueueID]*Queue{})
	o.health.Store(&Health{Declare: Side{Configured: true}, Management: Side{Configured: o.api != nil}})
	return o, nil
}

func setDefault[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}

// Want replaces the set of queues to read; those of other virtual hosts are
// ignored. It never blocks.
func (o *Observer) Want(ids []QueueID) {
	o.mu.Lock()
	o.wanted = append([]QueueID(nil), ids...)
	o.changed = true
	o.mu.Unlock()
	o.signal()
}

// Refresh reads every queue again soon. It never blocks.
func (o *Observer) Refresh() {
	o.mu.Lock()
	o.refresh = true
	o.mu.Unlock()
	o.signal()
}

func (o *Observer) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// Queues returns what is known of the wanted queues. Map and values are
// shared and must not be changed. It never blocks.
func (o *Observer) Queues() map[QueueID]*Queue { return *o.queues.Load() }

// Health says how the two sides fare. It never blocks.
func (o *Observer) Health() Health { return *o.health.Load() }

// Run reads queues until ctx ends, and returns when its calls have ended, or
// after one more Timeout with an error that says how many did not. It may run
// once at a time.
func (o *Observer) Run(ctx context.Context) error {
	o.mu.Lock()
	if o.running {
		o.mu.Unlock()
		return errors.New("observe: Run is already running")
	}
	o.running = true
	o.mu.Unlock()
	defer func() {
		o.mu.Lock()
		o.running = false
		o.mu.Unlock()
	}()
	r := newRound(o)
	r.start(ctx)
	r.loop(ctx)
	return r.stop()
}

// round is one Run: the state of all queues, owned by the goroutine of Run.
type round struct {
	o       *Observer
	queues  map[QueueID]*tracked
	health  Health
	names   map[string]connection // connection_name → who it is
	asked   map[string]bool       // names that are being asked for
	dirty   bool
	publish *time.Timer

	declares   []job
	questions  []job
	toDeclare  chan job
	toAsk      chan job
	results    chan func(time.Time) // applied by the owner
	api        apiState
	calls      sync.WaitGroup
	inProgress atomic.Int64
}

// job is one call to make.
type job struct {
	id      QueueID
	history time.Duration // the step of the last hour's samples, where they are wanted
	name    string        // of a connection to look up, in place of a queue
	probe   bool          // overview and whoami
	major   int           // of the broker's version
}

func newRound(o *Observer) *round {
	return &round{
		o: o, queues: make(map[QueueID]*tracked), names: make(map[string]connection), asked: make(map[string]bool),
		health: *o.health.Load(), toDeclare: make(chan job), toAsk: make(chan job), results: make(chan func(time.Time), 64),
	}
}

func (r *round) start(ctx context.Context) {
	for range r.o.cfg.Parallel {
		r.spawn(func() { r.declaring(ctx) })
		if r.o.api != nil {
			r.spawn(func() { r.asking(ctx) })
		}
	}
}

// spawn runs f in a goroutine that Run waits for.
func (r *round) spawn(f func()) {
	r.inProgress.Add(1)
	r.calls.Go(func() {
		defer r.inProgress.Add(-1)
		defer func() {
			if p := recover(); p != nil {
				r.o.log.Error("panic while observing", "panic", p, "stack", string(debug.Stack()))
			}
		}()
		f()
	})
}

// stop waits for calls that are under way.
func (r *round) stop() error {
	ended := make(chan struct{})
	go func() { r.calls.Wait(); close(ended) }()
	t := time.NewTimer(r.o.cfg.Timeout)
	defer t.Stop()
	select {
	case <-ended:
		if r.o.api != nil {
			r.o.api.http.CloseIdleConnections()
		}
		return nil
	case <-t.C:
		return fmt.Errorf("observing vhost %q: %d calls to the broker did not end within %v; they end with their connection", r.o.cfg.VHost, r.inProgress.Load(), r.o.cfg.Timeout)
	}
}

// Bounds on what is done in a second, whatever the number of queues: more
// queues are read less often.
const (
	publishEvery      = 50 * time.Millisecond // between two snapshots
	declaresPerSecond = 500
	asksPerSecond     = 50
)

// interval is the time between two declares of one queue.
func (r *round) interval() time.Duration {
	return max(r.o.cfg.Interval, time.Duration(len(r.queues))*time.Second/declaresPerSecond)
}

// askInterval is the time between two questions about one queue.
func (r *round) askInterval() time.Duration {
	return max(r.o.cfg.ManagementInterval, time.Duration(len(r.queues))*time.Second/asksPerSecond)
}

func (r *round) loop(ctx context.Context) {
	tick := time.NewTicker(max(r.o.cfg.Interval/4, 10*time.Millisecond))
	defer tick.Stop()
	r.publish = time.NewTimer(time.Hour)
	defer r.publish.Stop()
	r.takeWishes(time.Now())
	for {
		// A nil channel is never chosen: nothing to hand out.
		var toDeclare, toAsk chan<- job
		var declare, ask job
		if len(r.declares) > 0 {
			toDeclare, declare = r.toDeclare, r.declares[0]
		}
		if len(r.questions) > 0 {
			toAsk, ask = r.toAsk, r.questions[0]
		}
		select {
		case <-ctx.Done():
			return
		case <-r.o.wake:
			r.takeWishes(time.Now())
		case now := <-tick.C:
			r.schedule(now)
		case toDeclare <- declare:
			r.declares = r.declares[1:]
		case toAsk <- ask:
			r.questions = r.questions[1:]
		case apply := <-r.results:
			apply(time.Now())
		case now := <-r.publish.C:
			r.publishNow(now)
		}
	}
}

// touch makes a snapshot soon, in which t, unless nil, is made anew.
func (r *round) touch(t *tracked) {
	if t != nil {
		t.dirty = true
	}
	if !r.dirty {
		r.dirty = true
		r.publish.Reset(publishEvery)
	}
}

func (r *round) publishNow(now time.Time) {
	r.dirty = false
	out := make(map[QueueID]*Queue, len(r.queues))
	for id, t := range r.queues {
		if t.dirty || t.shown == nil {
			t.shown, t.dirty = t.snapshot(now, r), false
		}
		out[id] = t.shown
	}
	r.o.queues.Store(&out)
	h := r.health
	r.o.health.Store(&h)
}

// takeWishes carries out Want and Refresh.
func (r *round) takeWishes(now time.Time) {
	o := r.o
	o.mu.Lock()
	wanted, changed, refresh := o.wanted, o.changed, o.refresh
	o.changed, o.refresh = false, false
	o.mu.Unlock()
	if changed || len(r.queues) == 0 {
		r.want(wanted, now)
	}
	if refresh {
		for _, t := range r.queues {
			t.declareDue, t.askDue = now, now
		}
		r.api.due = now
	}
	r.schedule(now)
}

func (r *round) want(ids []QueueID, now time.Time) {
	keep := make(map[QueueID]bool, len(ids))
	for _, id := range ids {
		if id.VHost != r.o.cfg.VHost {
			continue
		}
		keep[id] = true
		if r.queues[id] == nil {
			r.queues[id] = newTracked(id, now)
		}
	}
	for id := range r.queues {
		if !keep[id] {
			delete(r.queues, id)
		}
	}
	r.touch(nil)
}

// schedule queues the calls that are due, at most one of a kind for each
// queue at once.
func (r *round) schedule(now time.Time) {
	for id, t := range r.queues {
		if !t.declaring && !now.Before(t.declareDue) {
			t.declaring, t.declareDue = true, now.Add(r.interval())
			r.declares = append(r.declares, job{id: id})
		}
		if r.api.usable && !t.asking && !now.Before(t.askDue) {
			t.asking, t.askDue = true, now.Add(r.askInterval())
			j := job{id: id, major: r.api.major}
			if t.needsHistory {
				j.history = max(r.historyStep(), time.Minute) // the API keeps an hour by the minute
			}
			r.questions = append(r.questions, j)
		}
		if stale := t.staleAt(now, r.interval()); stale != t.stale {
			t.stale = stale
			r.touch(t)
		}
	}
	if r.o.api != nil && !r.api.probing && !now.Before(r.api.due) {
		r.api.probing = true
		r.questions = append([]job{{probe: true}}, r.questions...)
	}
}

// report hands a result to the owner; it is dropped when Run is over.
func (r *round) report(ctx context.Context, apply func(now time.Time)) {
	select {
	case r.results <- apply:
	case <-ctx.Done():
	}
}

// turn records a success or failure of one side.
func (r *round) turn(name string, s *Side, now time.Time, latency time.Duration, err, advice string) {
	ok := err == ""
	if s.OK != ok || s.Since.IsZero() {
		s.Since = now
		if ok {
			r.o.log.Info("reading queues works", "by", name)
		} else {
			r.o.log.Warn("reading queues fails", "by", name, "error", err)
		}
	}
	s.OK, s.Err, s.Advice = ok, err, advice
	if ok {
		s.LastOK, s.Latency = now, latency
	}
	r.touch(nil)
}
