package tui

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/belay-mq/belay/registry/control"
	"github.com/belay-mq/belay/registry/feed"
	"github.com/belay-mq/belay/registry/fleet"
	"github.com/belay-mq/belay/tui/style"
)

// Backend is everything behind the screens. The methods without a context are
// called in the dashboard's loop and must not block; the others are called beside
// it, with a deadline, several at once.
type Backend interface {
	// Snapshot returns the newest state; nil before the first.
	Snapshot() *fleet.Snapshot
	// Feed returns at most max lines with a Seq above after, oldest first, and how many
	// were lost between after and the first of them.
	Feed(after uint64, max int) (lines []feed.Line, dropped uint64)
	// Pending returns the lines that wait in the change center now.
	Pending() []feed.Line
	// Steps returns every step that a key of the feed went through, oldest first.
	Steps(key string) []feed.Line
	// Plan holds intents against the files as they are now; it writes nothing.
	Plan(ctx context.Context, intents ...control.Intent) (*control.Plan, error)
	// Apply writes a plan. Progress is in later snapshots.
	Apply(ctx context.Context, plan *control.Plan) (control.Ticket, error)
	// UndoPlan plans the undoing of this process's newest write.
	UndoPlan(ctx context.Context) (*control.Plan, error)
	// History returns the versions of an application's toggle file, newest first.
	History(ctx context.Context, app string) ([]control.Version, error)
	// Refresh asks for everything to be read again soon.
	Refresh()
}

// Outages is offered by the demo's backend: parts that can be switched off to
// see what happens (":outage broker").
type Outages interface {
	// Names lists the parts.
	Names() []string
	// Toggle switches a part off, or on again. It may block for some seconds.
	Toggle(name string) error
}

// Config is what the dashboard needs. Only Backend must be set.
type Config struct {
	// ASCII draws with ASCII signs only.
	ASCII bool
	// Backend is what is shown and acted upon.
	Backend Backend
	// Env is the environment that $EDITOR and NO_COLOR are read from; nil is the
	// process's.
	Env []string
	// Input is where keys come from; nil is standard input, or the terminal
	// where that is redirected.
	Input io.Reader
	// Keys rebinds actions, by their names (see package keys) to one or several keys
	// ("ctrl-p", "p space").
	Keys map[string]string
	// Label is the context's name as the header and the confirmations show it; empty takes
	// the snapshot's.
	Label string
	// Location is the time zone of the times shown; nil is the local one.
	Location *time.Location
	// LogPath is named in the error after a crash; empty where there is no log file.
	LogPath string
	// Logger is where crashes and failed commands are told; nil discards.
	Logger *slog.Logger
	// NoColor uses bold, dim and reverse only. Run sets it where the environment
	// has NO_COLOR, or TERM is "dumb".
	NoColor bool
	// Output is the terminal; nil is standard output.
	Output io.Writer
	// ReadOnly offers no writing key. Writes are refused by the backend in any case;
	// a read-only snapshot has the same effect.
	ReadOnly bool
	// Theme changes colours.
	Theme style.Theme
}
