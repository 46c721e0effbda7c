package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belay-mq/belay/nacos"
	"github.com/belay-mq/belay/registry"
	"github.com/belay-mq/belay/registry/fleet"
)

// The errors of Plan and Apply that callers may want to tell apart. A conflict
// is a [*nacos.ConflictError] and a refused edit a [*toggle.Refusal] in
// [Written.Err].
var (
	// ErrReadOnly: the context does not allow writes.
	ErrReadOnly = errors.New("this context is read-only: nothing is written")
	// ErrReasonRequired: the context wants a reason for every change.
	ErrReasonRequired = errors.New("this context requires a reason")
	// ErrNothingToUndo: this process has written nothing, or nothing of it is
	// still in force.
	ErrNothingToUndo = errors.New("there is no write of mine to undo")
	// ErrNoHistory: the store keeps no history.
	ErrNoHistory = errors.New("this server keeps no history of a toggle file")
	// ErrNoVersion: the history has no version of that name.
	ErrNoVersion = errors.New("there is no such version")
	// ErrClosed: the control was closed.
	ErrClosed = errors.New("control is closed")
)

var errNoStore = errors.New("control: no store is configured, so there are no toggle files")

// ConfigStore is where toggle files are read and written; *nacos.Store is one.
// Its errors are those of package nacos. All methods may be called concurrently.
type ConfigStore interface {
	registry.ConfigStore
	// Create stores a config that does not exist yet.
	Create(context.Context, nacos.Key, nacos.Content) (nacos.State, error)
	// Update replaces a config whose text still has the md5 given; else the error
	// is a *nacos.ConflictError.
	Update(context.Context, nacos.Key, nacos.Content, string) (nacos.State, error)
}

// Historian is a ConfigStore that keeps former versions.
type Historian interface {
	History(ctx context.Context, key nacos.Key, limit int) ([]nacos.Change, error)
}

// Lossy is a ConfigStore whose writes may cost metadata.
type Lossy interface {
	// Losses names what the next write of a config would clear.
	Losses(context.Context, nacos.Key) ([]string, error)
}

// Fleet shows the listeners and takes the progress of writes; *fleet.Fleet is one.
type Fleet interface {
	Snapshot() *fleet.Snapshot
	SetEffect(fleet.ID, fleet.Effect)
}

// Config is what a [Control] needs. Store must be set, all else may be left out.
type Config struct {
	// App is the application whose timed changes Run carries out. Empty: all of
	// the fleet's snapshot.
	App string
	// AuditDir is where the audit log is kept, one line of JSON for each write in
	// audit.ndjson. Empty: none is kept.
	AuditDir string
	// Confirm is handed on in plans. RequireReason is enforced for pausing, resuming
	// and scaling.
	Confirm Confirm
	// Context is the label of the environment in plans and audit lines.
	Context string
	// ConfirmIn is how long the instances and the broker have to get where a
	// write wants them before it counts as unconfirmed. Default 10 s.
	ConfirmIn time.Duration
	// DataID is the toggle file of applications that the fleet does not know.
	// Default rabbitmq-toggle.properties.
	DataID string
	// Fleet tells whom a write affects and shows its progress. Nil: plans have no
	// hazards, and nothing is followed.
	Fleet Fleet
	// Logger receives what goes wrong; nil discards it.
	Logger *slog.Logger
	// Operator is who writes where an intent does not say.
	Operator string
	// ReadOnly refuses every write.
	ReadOnly bool
	// StepWait is the pause between the two writes of a two-step scale, in which
	// services must have applied the first. Default 5 s.
	StepWait time.Duration
	// Store is where the files are.
	Store ConfigStore
}

const (
	defaultDataID    = "rabbitmq-toggle.properties"
	defaultConfirmIn = 10 * time.Second
	defaultStepWait  = 5 * time.Second
)

// Control writes toggle files. Its methods may be called from any goroutine.
type Control struct {
	cfg     Config
	log     *slog.Logger
	audit   *audit
	running atomic.Int32 // calls of Run that carry out timed changes

	work context.Context // ends with Close
	stop context.CancelFunc
	wg   sync.WaitGroup // the followers of effects

	mu      sync.Mutex
	closed  bool
	tickets uint64
	follow  map[uint64][]*followed // by ticket
	mine    *written               // newest write, for undo
}

// New returns a control. It does nothing until it is asked to.
func New(cfg Config) *Control {
	if cfg.DataID == "" {
		cfg.DataID = defaultDataID
	}
	if cfg.ConfirmIn <= 0 {
		cfg.ConfirmIn = defaultConfirmIn
	}
	if cfg.StepWait <= 0 {
		cfg.StepWait = defaultStepWait
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Control{cfg: cfg, log: cfg.Logger.With("component", "control"), audit: newAudit(cfg.AuditDir), follow: make(map[uint64][]*followed)}
	c.work, c.stop = context.WithCancel(context.Background())
	return c
}

// Close stops following the effects of writes and waits for that, at most until
// ctx ends. Writes after it are refused.
func (c *Control) Close(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.stop()
	done := make(chan struct{})
	go func() {
		c.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close control: %w", context.Cause(ctx))
	}
}

// snapshot returns the fleet as it is shown, an empty one where there is none.
func (c *Control) snapshot() *fleet.Snapshot {
	if c.cfg.Fleet != nil {
		if s := c.cfg.Fleet.Snapshot(); s != nil {
			return s
		}
	}
	return &fleet.Snapshot{}
}

// key names the toggle file of an application.
func (c *Control) key(app string) nacos.Key {
	if a := c.snapshot().App(app); a != nil && a.Key.DataID != "" {
		return a.Key
	}
	return nacos.Key{DataID: c.cfg.DataID, Group: app}
}

func (c *Control) operator(by string) string {
	if by != "" {
		return by
	}
	return c.cfg.Operator
}

// guarded runs f and turns a panic into an error.
func guarded(what string, f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s: panic: %v", what, r)
		}
	}()
	return f()
}
