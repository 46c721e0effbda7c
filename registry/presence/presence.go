package presence

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// The exchanges of presence. Both are durable and hold no messages.
const (
	Exchange    = "belay.presence"
	AskExchange = "belay.presence.ask"
)

const (
	defaultInterval = 2 * time.Second
	// minGap bounds the reports of one instance to ten a second.
	minGap = 100 * time.Millisecond
	// missed is how many reports may be missed before an instance counts as lost.
	missed = 3
	// opTimeout bounds every single exchange with the broker.
	opTimeout = 5 * time.Second
	// retryMin and retryMax bound the back-off after a lost connection.
	retryMin = 200 * time.Millisecond
	retryMax = 5 * time.Second
	// feedMax is the most feed lines that are handed over on one question.
	feedMax = 1000
)

// Conn is the connection that presence runs over; *consumers.Conn is one.
type Conn interface {
	App() string
	Instance() string
	Host() string
	// ConsumeChannel opens a channel on the consuming connection, PublishChannel
	// one on the publishing connection; both wait for a connection until ctx ends.
	ConsumeChannel(context.Context) (*amqp.Channel, error)
	PublishChannel(context.Context) (*amqp.Channel, error)
	// Blocked reports whether the broker holds back what we publish.
	Blocked() bool
}

// Config is what a [Presence] needs. Conn is required.
type Config struct {
	Conn Conn
	// Feed gives the newest lines of this process's feed since a time, as NDJSON
	// lines without their line ends, oldest first; nil when it keeps no feed. It
	// is called on presence's own goroutine and must not block.
	Feed func(since time.Time) [][]byte
	// Interval between two reports when nothing changes. Default 2 s.
	Interval time.Duration
	// Logger receives what goes wrong; nil discards it.
	Logger *slog.Logger
}

// Presence sends this process's reports and collects those of others. Its methods
// may be called from any goroutine.
type Presence struct {
	conn     Conn
	feed     func(time.Time) [][]byte
	interval time.Duration
	log      *slog.Logger

	wake     chan struct{} // a change to report
	asked    chan struct{} // somebody asks for a report
	sent     atomic.Uint64
	rejected atomic.Uint64

	mu       sync.Mutex
	seen     map[string]*entry
	onChange []func()
	health   Health
}

// Health says how presence fares.
type Health struct {
	Collecting bool      // reports are being received
	Since      time.Time // when Collecting last changed
	LastReport time.Time // newest report received
	Err        string    // newest error in words, "" while it works
	Blocked    bool      // a broker alarm holds reports back
	Sent       uint64    // reports sent
	Rejected   uint64    // reports that were dropped as malformed
	Instances  int
}

// Over returns a Presence over conn with every default.
func Over(conn Conn) *Presence { return New(Config{Conn: conn}) }

// New returns a Presence. It does nothing until Send or Collect is called.
func New(cfg Config) *Presence {
	if cfg.Interval <= 0 {
		cfg.Interval = defaultInterval
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Presence{
		conn:     cfg.Conn,
		feed:     cfg.Feed,
		interval: cfg.Interval,
		log:      cfg.Logger.With("component", "presence"),
		wake:     make(chan struct{}, 1),
		asked:    make(chan struct{}, 1),
		seen:     make(map[string]*entry),
	}
}

// Instance returns the id under which this process reports.
func (p *Presence) Instance() string { return p.conn.Instance() }

// Host returns the name of the host under which this process reports.
func (p *Presence) Host() string { return p.conn.Host() }

// Changed says that there is something new to report. It never blocks.
func (p *Presence) Changed() { signal(p.wake) }

// Health returns how presence fares. It never blocks for long.
func (p *Presence) Health() Health {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.health
	h.Blocked = p.conn.Blocked()
	h.Sent = p.sent.Load()
	h.Rejected = p.rejected.Load()
	h.Instances = len(p.seen)
	return h
}

func (p *Presence) setHealth(collecting bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.health.Collecting != collecting || p.health.Since.IsZero() {
		p.health.Collecting, p.health.Since = collecting, time.Now()
	}
	p.health.Err = ""
	if err != nil {
		p.health.Err = err.Error()
	}
}

// routingKey makes <application>.<instance> with dots made harmless, within
// AMQP's 255 bytes.
func routingKey(app, instance string) string {
	clean := func(s string) string {
		s = strings.ReplaceAll(s, ".", "_")
		if len(s) > 120 {
			s = s[:120]
		}
		return s
	}
	return clean(app) + "." + clean(instance)
}

func declareExchanges(ch *amqp.Channel) error {
	if err := ch.ExchangeDeclare(Exchange, amqp.ExchangeTopic, true, false, false, false, nil); err != nil {
		return fmt.Errorf("declare exchange %s: %w", Exchange, err)
	}
	if err := ch.ExchangeDeclare(AskExchange, amqp.ExchangeFanout, true, false, false, false, nil); err != nil {
		return fmt.Errorf("declare exchange %s: %w", AskExchange, err)
	}
	return nil
}

// again runs session until ctx ends, with a capped back-off after each failure.
// A session that lived for a while starts the back-off anew.
func (p *Presence) again(ctx context.Context, what string, session func(context.Context) error) {
	delay := retryMin
	for ctx.Err() == nil {
		began := time.Now()
		err := guard(what, func() error { return session(ctx) })
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > 2*retryMax {
			delay = retryMin
		}
		p.log.Warn("presence session ended", "session", what, "error", err, "retry_in", delay)
		select {
		case <-ctx.Done():
			return
		case <-time.After(delay):
		}
		delay = min(2*delay, retryMax)
	}
}

var errClosed = errors.New("the channel was closed")

// guard turns a panic of f into an error, so that presence never ends a process.
func guard(what string, f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s panicked: %v", what, r)
		}
	}()
	return f()
}

// bounded runs an exchange with the broker that takes no context of its own and
// stops waiting for it when ctx ends or the deadline passes. The channel is then
// closed by the caller, which ends the abandoned call.
func bounded(ctx context.Context, f func() error) error {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- guard("broker call", f) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// closeSoon closes ch without waiting for a broker that does not answer.
func closeSoon(ch *amqp.Channel) {
	go func() {
		_ = guard("close channel", ch.Close)
	}()
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
