package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/belay-mq/belay/cmd/belay/internal/config"
	"github.com/belay-mq/belay/consumers"
	"github.com/belay-mq/belay/consumers/observe"
	"github.com/belay-mq/belay/nacos"
	"github.com/belay-mq/belay/registry/control"
	"github.com/belay-mq/belay/registry/fleet"
	"github.com/belay-mq/belay/registry/presence"
)

// Options say how a backend is opened.
type Options struct {
	// App restricts it to one application; empty: all of the context.
	App string
	// Dashboard: the process is one. It carries out planned changes and tells others of
	// itself.
	Dashboard bool
	// Feed keeps a timeline of changes; a dashboard always does. FeedSince is how far
	// back its past goes; zero: one hour.
	Feed      bool
	FeedSince time.Time
	// Logger receives what goes wrong.
	Logger *slog.Logger
	// Operator is recorded as the author of writes.
	Operator string
	// ReadOnly refuses writes, whatever the context says.
	ReadOnly bool
	// StateDir keeps the audit log and the scanner's checkpoint.
	StateDir string
}

// Backend is a running context. Its methods may be called from any goroutine.
type Backend struct {
	ctx   *config.Context
	opts  Options
	log   *slog.Logger
	store *nacos.Store
	vhost []*vhost
	fleet *fleet.Fleet
	// control is nil where the context has no Nacos.
	control *control.Control
	// timeline is nil where no feed is kept.
	timeline   *timeline
	pastLoaded chan struct{}
	started    time.Time

	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu    sync.Mutex
	ended []fleet.Health // parts that ended before the backend did
}

// vhost is one virtual host of the context's broker.
type vhost struct {
	name     string
	conn     *consumers.Conn
	presence *presence.Presence
	watching *consumers.Conn // the observer's
	observer *observe.Observer
}

// Open connects to the parts that the context names and begins to follow them. It does
// not wait for any: what cannot be reached is shown, and followed when it comes back.
// The context must not have embedded parts; see [StartEmbedded].
func Open(ctx context.Context, c *config.Context, opts Options) (_ *Backend, err error) {
	if HasEmbedded(c) {
		return nil, ErrEmbedded
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	b := &Backend{ctx: c, opts: opts, log: opts.Logger, started: time.Now().UTC(), pastLoaded: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close(context.WithoutCancel(ctx)))
		}
	}()
	fc := fleet.Config{
		Context: c.Name, Label: c.Label, Logger: opts.Logger, DataIDs: []string{dataID(c.Nacos)},
		Only: opts.App, ReadOnly: b.readOnly(), Health: b.health,
	}
	if c.Nacos != nil {
		if b.store, err = openStore(c.Nacos, "belay", opts.Logger); err != nil {
			return nil, err
		}
		fc.Store = b.store
	}
	if opts.Feed || opts.Dashboard {
		if b.timeline, err = b.newTimeline(); err != nil {
			return nil, err
		}
	}
	if c.RabbitMQ != nil {
		if err = b.openVHosts(ctx, c, opts.Logger); err != nil {
			return nil, err
		}
		for _, v := range b.vhost {
			fc.Brokers = append(fc.Brokers, fleet.Broker{VHost: v.name, Presence: v.presence, Observer: v.observer})
		}
	}
	fc.Apps = b.apps()
	b.fleet = fleet.New(fc)
	if b.store != nil {
		b.control = b.newControl()
	}
	b.run(ctx)
	return b, nil
}

// apps are the applications of the context that the options do not leave out.
func (b *Backend) apps() []fleet.AppConfig {
	var out []fleet.AppConfig
	if b.ctx.Nacos == nil {
		return nil
	}
	id := dataID(b.ctx.Nacos)
	for _, a := range b.ctx.Nacos.Applications {
		if b.opts.App == "" || b.opts.App == a.Name {
			out = append(out, fleet.AppConfig{Name: a.Name, DataID: id, VHost: a.VHost})
		}
	}
	if len(out) == 0 && b.opts.App != "" {
		out = append(out, fleet.AppConfig{Name: b.opts.App, DataID: id})
	}
	return out
}

func (b *Backend) openVHosts(ctx context.Context, c *config.Context, log *slog.Logger) error {
	for _, name := range vhosts(c) {
		conn, err := openConn(ctx, c.RabbitMQ, connName{vhost: name}, log)
		if err != nil {
			return err
		}
		v := &vhost{name: name, conn: conn, presence: presence.New(presence.Config{Conn: conn, Feed: b.feedSince, Logger: log})}
		b.vhost = append(b.vhost, v)
		if v.watching, err = openConn(ctx, c.RabbitMQ, connName{vhost: name}, log); err != nil {
			return err
		}
		if v.observer, err = openObserver(c.RabbitMQ, v.watching, name, log); err != nil {
			return err
		}
	}
	return nil
}

// run starts the goroutines, which end with Close.
func (b *Backend) run(ctx context.Context) {
	ctx, b.cancel = context.WithCancel(context.WithoutCancel(ctx))
	b.goGuarded("fleet", func() error { return b.fleet.Run(ctx) })
	for _, v := range b.vhost {
		b.goGuarded("presence", func() error { return v.presence.Collect(ctx) })
		b.goGuarded("observer", func() error { return v.observer.Run(ctx) })
	}
	if b.timeline != nil {
		b.runTimeline(ctx)
	}
	if b.opts.Dashboard {
		b.runDashboard(ctx)
	}
}

// goGuarded runs a part. One that fails or panics does not come back, so health tells
// of it from then on.
func (b *Backend) goGuarded(what string, f func() error) {
	b.wg.Go(func() {
		err := guarded(what, f)
		if err == nil || errors.Is(err, context.Canceled) {
			return
		}
		b.log.Error("a part of the backend ended", "part", what, "error", err)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.ended = append(b.ended, fleet.Health{
			Name: what, State: fleet.HealthDown, Since: time.Now().UTC(), Text: "ended", Err: err.Error(),
			Advice: "it does not come back by itself: restart belay; its log has more",
		})
	})
}

// Close ends everything that Open began. It waits at most closeTimeout and says what did
// not end by then.
func (b *Backend) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	if b.cancel != nil {
		b.cancel()
	}
	var errs []error
	if b.control != nil {
		errs = append(errs, b.control.Close(ctx))
	}
	errs = append(errs, b.wait(ctx))
	if b.timeline != nil {
		b.timeline.latest.Close()
		errs = append(errs, b.timeline.feed.Close(ctx))
	}
	if b.store != nil {
		errs = append(errs, b.store.Close(ctx))
	}
	for _, v := range b.vhost {
		for _, c := range []*consumers.Conn{v.conn, v.watching} {
			if c != nil {
				errs = append(errs, c.Close(ctx))
			}
		}
	}
	return errors.Join(errs...)
}

// wait waits for the goroutines, but not for one that hangs in a server's answer.
func (b *Backend) wait(ctx context.Context) error {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.wg.Wait()
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("parts of the backend did not end in time: %w", ctx.Err())
	}
}

// Snapshot returns the newest state of everything. It never blocks.
func (b *Backend) Snapshot() *fleet.Snapshot { return b.fleet.Snapshot() }

const (
	// settleQuiet is how long no new report may come before the answers count as
	// complete.
	settleQuiet = 150 * time.Millisecond
	// settleMost is how long the instances are waited for at most.
	settleMost = 500 * time.Millisecond
	settleStep = 10 * time.Millisecond
)

// Settle waits for a first whole picture: every toggle file read, then the reports of
// the instances, which have half a second to answer. It returns an error when a server
// could not be reached before ctx passed its deadline, and ctx's own where it was
// cancelled.
func (b *Backend) Settle(ctx context.Context) error {
	if err := b.await(ctx, filesRead); err != nil {
		return b.nacosUnreachable(err)
	}
	if len(b.vhost) == 0 {
		return nil
	}
	var deaf presence.Health
	if err := b.await(ctx, func(*fleet.Snapshot) bool {
		for _, v := range b.vhost {
			if deaf = v.presence.Health(); !deaf.Collecting {
				return false
			}
		}
		return true
	}); err != nil {
		if errors.Is(err, context.Canceled) {
			return err
		}
		return &UnreachableError{Server: "rabbitmq", Err: errors.New(deaf.Err)}
	}
	began, last, count := time.Now(), time.Now(), 0
	if err := b.await(ctx, func(*fleet.Snapshot) bool {
		n := 0
		for _, v := range b.vhost {
			n += len(v.presence.Instances())
		}
		if n != count {
			count, last = n, time.Now()
		}
		return count > 0 && time.Since(last) > settleQuiet || time.Since(began) > settleMost
	}); err != nil {
		return err
	}
	if len(b.apps()) == 0 && b.store != nil {
		// Instances may have told of applications that Nacos has no file of yet.
		began = time.Now()
		if err := b.await(ctx, func(s *fleet.Snapshot) bool {
			return filesRead(s) && (allFollowed(s) || time.Since(began) > settleMost)
		}); err != nil {
			return b.nacosUnreachable(err)
		}
	}
	began = time.Now()
	return b.await(ctx, func(s *fleet.Snapshot) bool { return queuesRead(s) || time.Since(began) > settleMost })
}

// nacosUnreachable says why the files could not be read in time, or that the wait was
// interrupted.
func (b *Backend) nacosUnreachable(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	why := b.store.Health().LastErr
	if s := b.Snapshot(); why == "" && !s.Searched {
		why = s.SearchErr
	}
	return &UnreachableError{Server: "nacos", Err: errors.New(why)}
}

// filesRead holds when every application is known, and its toggle file was read or is
// known to be absent.
func filesRead(s *fleet.Snapshot) bool {
	for _, a := range s.Apps {
		if a.File.Seq == 0 {
			return false
		}
	}
	return s.Searched
}

// allFollowed holds when the application of every instance is known.
func allFollowed(s *fleet.Snapshot) bool {
	for _, i := range s.Instances {
		if i.Listeners > 0 && s.App(i.App) == nil {
			return false
		}
	}
	return true
}

// queuesRead holds when something is known of every queue that an instance reports.
func queuesRead(s *fleet.Snapshot) bool {
	for _, r := range s.Rows {
		if len(r.Hosts) > 0 && len(r.Queues) == 0 {
			return false
		}
		for _, q := range r.Queues {
			if !q.Ready.Known && !q.Missing && q.Err == "" {
				return false
			}
		}
	}
	return true
}

// await looks again and again until ok holds of the newest snapshot.
func (b *Backend) await(ctx context.Context, ok func(*fleet.Snapshot) bool) error {
	t := time.NewTicker(settleStep)
	defer t.Stop()
	for !ok(b.fleet.Snapshot()) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
			b.fleet.Wake()
		}
	}
	return nil
}

// UnreachableError says that a server could not be reached in time.
type UnreachableError struct {
	Server string
	Err    error
}

func (e *UnreachableError) Error() string {
	if e.Err == nil || e.Err.Error() == "" {
		return e.Server + " could not be reached in time; 'belay doctor' checks every connection"
	}
	return e.Server + " could not be reached: " + e.Err.Error()
}

func (e *UnreachableError) Unwrap() error { return e.Err }
