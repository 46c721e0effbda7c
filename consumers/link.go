package consumers

import (
	"context"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// healthyAfter is how long a connection or session must have lasted for the
// back-off to start over.
const healthyAfter = 10 * time.Second

// link keeps one connection open for as long as somebody wants it. Its state is
// guarded by mu; one goroutine at a time dials, one watches an open connection.
type link struct {
	ep      *endpoint
	purpose string
	notify  func() // called without mu

	ctx    context.Context // ends with close
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu       sync.Mutex
	wire     *wire // nil: not connected
	changed  chan struct{}
	waiters  int
	dialing  bool
	closed   bool
	used     bool
	attempts int
	nextTry  time.Time
	lastErr  error
	since    time.Time
	blocked  bool
}

func newLink(ep *endpoint, purpose string, notify func()) *link {
	ctx, cancel := context.WithCancel(context.Background())
	return &link{ep: ep, purpose: purpose, notify: notify, ctx: ctx, cancel: cancel, changed: make(chan struct{})}
}

// update changes the state under the lock and tells everybody.
func (l *link) update(f func()) {
	l.mu.Lock()
	f()
	close(l.changed)
	l.changed = make(chan struct{})
	l.mu.Unlock()
	l.notify()
}

func (l *link) asked() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.used
}

func (l *link) health() Health {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := Health{Connected: l.wire != nil, Since: l.since, Blocked: l.blocked}
	if l.wire == nil {
		h.Attempts, h.NextTry = l.attempts, l.nextTry
		if l.lastErr != nil {
			h.LastError, h.Refused = l.lastErr.Error(), isRefused(l.lastErr)
		}
	}
	return h
}

// failure returns why the link is not connected; nil when it is, or when that
// was never tried.
func (l *link) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wire != nil {
		return nil
	}
	return l.lastErr
}

// spawn runs f in a goroutine that close waits for; not once closed.
func (l *link) spawn(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.wg.Go(f)
	return true
}

// acquire returns the open connection, dialing and waiting until ctx ends.
func (l *link) acquire(ctx context.Context) (*wire, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used = true
	l.waiters++
	defer func() { l.waiters-- }()
	for {
		if l.closed {
			return nil, ErrClosed
		}
		if l.wire != nil && !l.wire.IsClosed() {
			return l.wire, nil
		}
		if l.wire == nil && !l.dialing {
			l.dialing = true
			l.wg.Go(l.dialUntilConnected)
		}
		changed := l.changed
		l.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		l.mu.Lock()
		if err := ctx.Err(); err != nil {
			if l.lastErr != nil {
				return nil, fmt.Errorf("waiting for the %s connection: %w (last attempt: %w)", l.purpose, err, l.lastErr)
			}
			return nil, fmt.Errorf("waiting for the %s connection: %w", l.purpose, err)
		}
	}
}

// dialUntilConnected tries until it is connected, the link is closed, or nobody
// waits any more.
func (l *link) dialUntilConnected() {
	for {
		l.mu.Lock()
		n := l.attempts
		l.mu.Unlock()
		if n > 0 && !l.pause(l.ep.Recovery.Delay(n)) {
			return
		}
		w, err := l.ep.dial(l.ctx, l.purpose)
		if err == nil {
			l.connected(w)
			return
		}
		l.ep.Logger.Warn("no connection to the broker", "purpose", l.purpose, "attempt", n+1, "error", err)
		l.update(func() { l.attempts++; l.lastErr = err })
	}
}

// pause waits before the next attempt and reports whether to make it.
func (l *link) pause(d time.Duration) bool {
	l.update(func() { l.nextTry = time.Now().Add(d) })
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nextTry = time.Time{}
	if l.closed || l.waiters == 0 {
		l.dialing = false
		return false
	}
	return true
}

func (l *link) connected(w *wire) {
	closed := w.NotifyClose(make(chan *amqp.Error, 1))
	blocked := w.NotifyBlocked(make(chan amqp.Blocking, 8))
	var drop bool
	l.update(func() {
		l.dialing = false
		if drop = l.closed; drop {
			return
		}
		l.wire, l.since, l.lastErr = w, w.since, nil
		l.wg.Go(func() { l.watch(w, closed, blocked) })
	})
	if drop {
		w.drop()
		return
	}
	l.ep.Logger.Info("connected to the broker", "purpose", l.purpose, "broker", l.ep.shown)
}

// watch waits for the end of an open connection.
func (l *link) watch(w *wire, closed chan *amqp.Error, blocked chan amqp.Blocking) {
	var reason error
	for done := false; !done; {
		select {
		case b, ok := <-blocked:
			if !ok {
				blocked = nil
				continue
			}
			l.update(func() { l.blocked = b.Active })
			l.ep.Logger.Warn("broker alarm", "blocked", b.Active, "reason", b.Reason)
		case e, ok := <-closed:
			switch {
			case l.ctx.Err() != nil: // closed by us; the end of the stream may outrun the broker's answer
			case ok:
				reason = fmt.Errorf("connection to %s lost: %w", l.ep.shown, e)
			default:
				reason = fmt.Errorf("connection to %s lost", l.ep.shown)
			}
			done = true
		}
	}
	w.drop()
	l.update(func() {
		l.wire, l.since, l.blocked = nil, time.Now(), false
		l.lastErr = reason
		if time.Since(w.since) >= healthyAfter {
			l.attempts = 0
		}
		l.attempts++
	})
	if reason != nil {
		l.ep.Logger.Warn("connection to the broker lost", "purpose", l.purpose, "error", reason)
	}
}

// channel opens a channel, waiting for a connection until ctx ends.
func (l *link) channel(ctx context.Context) (*channel, error) {
	for {
		w, err := l.acquire(ctx)
		if err != nil {
			return nil, err
		}
		ch := &channel{link: l, wire: w, turn: make(chan struct{}, 1)}
		err = ch.request(ctx, "opening a channel", func() error {
			c, err := w.Channel()
			if err == nil {
				ch.opened(c)
			}
			return err
		})
		if err == nil {
			return ch, nil
		}
		ch.abandon()
		if !w.IsClosed() || ctx.Err() != nil {
			return nil, err
		}
	}
}

func (l *link) close(ctx context.Context) error {
	var w *wire
	l.update(func() { l.closed = true; w = l.wire })
	l.cancel()
	if w != nil {
		// The handshake is a courtesy: a broker that does not answer is
		// dropped by the deadline.
		deadline, ok := ctx.Deadline()
		if !ok || time.Until(deadline) > l.ep.ReplyTimeout {
			deadline = time.Now().Add(l.ep.ReplyTimeout)
		}
		l.wg.Go(func() {
			_ = w.CloseDeadline(deadline)
			w.drop()
		})
	}
	done := make(chan struct{})
	go func() { l.wg.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		if w != nil {
			w.drop()
		}
		return fmt.Errorf("%s connection: %w", l.purpose, ctx.Err())
	}
}

// channel is an AMQP channel whose requests have a deadline and wait for each
// other, as the protocol has no way to tell replies apart.
type channel struct {
	*amqp.Channel
	link *link
	wire *wire
	turn chan struct{} // capacity 1: held while a request is under way

	mu        sync.Mutex
	abandoned bool
}

// opened hands over the channel; one that nobody waits for any more is closed.
func (ch *channel) opened(c *amqp.Channel) {
	ch.mu.Lock()
	ch.Channel = c
	late := ch.abandoned
	ch.mu.Unlock()
	if late {
		_ = c.Close()
	}
}

func (ch *channel) abandon() {
	ch.mu.Lock()
	ch.abandoned = true
	c := ch.Channel
	ch.mu.Unlock()
	if c != nil { // the request that failed may still be under way
		ch.link.spawn(func() { ch.close(context.Background()) })
	}
}

// request runs one request to the broker. It returns when the reply is there
// or ctx ends; in the latter case the request goes on, and a connection that
// does not answer within ReplyTimeout is dropped.
func (ch *channel) request(ctx context.Context, doing string, f func() error) error {
	select {
	case ch.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", doing, ctx.Err())
	}
	result := make(chan error, 1)
	var late sync.Once
	timer := time.AfterFunc(ch.link.ep.ReplyTimeout, func() {
		late.Do(func() { result <- ErrNoReply })
		ch.wire.drop()
	})
	if !ch.link.spawn(func() {
		err := f()
		timer.Stop()
		<-ch.turn
		late.Do(func() { result <- err })
	}) {
		timer.Stop()
		<-ch.turn
		return ErrClosed
	}
	select {
	case err := <-result:
		if err != nil {
			return fmt.Errorf("%s: %w", doing, err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", doing, ctx.Err())
	}
}

// close closes the channel and waits for the reply until ctx ends.
func (ch *channel) close(ctx context.Context) {
	_ = ch.request(ctx, "closing a channel", ch.Channel.Close)
}
