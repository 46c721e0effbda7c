package change

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Defaults of Config.
const (
	DefaultWindow     = 500 * time.Millisecond
	DefaultShards     = 4
	DefaultWorkers    = 5
	DefaultMaxPending = 65536
	DefaultMaxItems   = 1024
	DefaultMaxKeys    = 1 << 18
	DefaultMailbox    = 65536
	DefaultTombstone  = 60 * time.Second
)

// Window says how long the changes of a key are merged before they are delivered.
//
// With Quiet zero the window is fixed: a change is delivered Max after the first event of its key, whatever follows.
// With Quiet above zero it is a debounce: Quiet after the last event, but no later than Max after the first.
type Window struct {
	Max   time.Duration // default DefaultWindow
	Quiet time.Duration // default 0, a fixed window; at most Max
}

func (w Window) check() error {
	switch {
	case w.Max < 0 || w.Quiet < 0:
		return fmt.Errorf("window %v with quiet time %v: neither may be negative", w.Max, w.Quiet)
	case w.Quiet > w.Max:
		return fmt.Errorf("quiet time %v is longer than the window %v: no change could ever wait for it", w.Quiet, w.Max)
	}
	return nil
}

// Config is what a Center is made of. The zero value is usable: it merges for 500 ms and tells nobody.
type Config struct {
	// ItemLimit may lower MaxItems for a key; it is called with the shard locked, must be fast and must not call the
	// center. Default: no key has a limit of its own.
	ItemLimit func(Key) int
	// Logger hears about panics of notifiers and dead letters. Default: nothing is logged.
	Logger *slog.Logger
	// MaxItems is how many items a key may hold; beyond it the item accepted longest ago is dropped and counted.
	// An event with more is ErrBadEvent. It also bounds the tombstones of a key. Default DefaultMaxItems.
	MaxItems int
	// MaxKeys is how many keys are remembered over all shards, with their items and statistics. Beyond it an idle
	// key that was not used for long is forgotten as if it had never been seen, and counted. Default
	// DefaultMaxKeys; a negative number means no bound.
	MaxKeys int
	// MaxPending is how many keys of one shard may wait at a time. Default DefaultMaxPending.
	MaxPending int
	// Notifiers are told about delivered changes.
	Notifiers []Notifier
	// Observe is called for every outcome, also for those that no notifier hears of (suppressed, stale, cleaned,
	// replayed). It is called by the workers, for one key in order, for different keys concurrently, with no lock
	// held. It must be fast: while it runs its key waits. It may call the center, but not Close, and not Offer,
	// which may block on the worker that would make room.
	Observe func(Delivery)
	// Report is called after every attempt of a notifier, from that notifier's goroutine.
	Report func(Attempt)
	// Shards is the number of independent parts that keys are spread over. Default DefaultShards.
	Shards int
	// Tombstone is how long the removal of an item is remembered. Default DefaultTombstone.
	Tombstone time.Duration
	// Window is how long changes are merged. Default: fixed, DefaultWindow.
	Window Window
	// Workers is the number of goroutines per shard that apply and hand over changes, at most 255. Default
	// DefaultWorkers.
	Workers int
}

func (c Config) withDefaults() (Config, error) {
	set := func(p *int, def int) {
		if *p == 0 {
			*p = def
		}
	}
	set(&c.MaxItems, DefaultMaxItems)
	set(&c.MaxKeys, DefaultMaxKeys)
	set(&c.MaxPending, DefaultMaxPending)
	set(&c.Shards, DefaultShards)
	set(&c.Workers, DefaultWorkers)
	if c.MaxItems < 0 || c.MaxPending < 0 || c.Shards < 0 || c.Workers < 0 {
		return c, errors.New("MaxItems, MaxPending, Shards and Workers must not be negative")
	}
	c.Workers = min(c.Workers, 255)
	if c.Tombstone == 0 {
		c.Tombstone = DefaultTombstone
	}
	if c.Window.Max == 0 && c.Window.Quiet == 0 {
		c.Window.Max = DefaultWindow
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	names := map[string]bool{}
	c.Notifiers = append([]Notifier(nil), c.Notifiers...)
	for i := range c.Notifiers {
		n := &c.Notifiers[i]
		set(&n.Mailbox, DefaultMailbox)
		if n.Name == "" || names[n.Name] {
			return c, fmt.Errorf("notifier %d is named %q: every notifier needs a name of its own", i, n.Name)
		}
		if n.Notify == nil {
			return c, fmt.Errorf("notifier %q has no Notify function", n.Name)
		}
		names[n.Name] = true
	}
	return c, c.Window.check()
}
