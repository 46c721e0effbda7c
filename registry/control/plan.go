package control

import (
	"time"

	"github.com/belay-mq/belay/consumers/observe"
	"github.com/belay-mq/belay/nacos"
	"github.com/belay-mq/belay/registry/fleet"
	"github.com/belay-mq/belay/registry/toggle"
)

// Op is what an intent asks for. Its text is stable.
type Op string

// The operations.
const (
	Pause    Op = "pause"
	Resume   Op = "resume"
	Scale    Op = "scale"
	Edit     Op = "edit"     // a whole new text
	Rollback Op = "rollback" // a version of the history
	Undo     Op = "undo"     // the former values of my last write; see [Control.UndoPlan]
)

// Intent is what a user wants changed. Held against the current file it
// becomes a [Plan].
type Intent struct {
	Op Op
	// ID is the listener; its Listener is empty for Edit and Rollback.
	ID fleet.ID
	// By is the operator; empty takes the operator of the control.
	By string
	// Reason may be required by the context.
	Reason string
	// At and Until make a planned window or an end; zero: now, and until resumed.
	At, Until time.Time
	// Min and Max: the concurrency of Scale, or of "resume with one consumer"; nil
	// leaves it alone.
	Min, Max *int
	// Text is the new text of Edit.
	Text *string
	// Version is the history id of Rollback.
	Version string
	// Force writes although the file had a fault before; it never passes a fatal
	// input, a document separator or a new fault.
	Force bool

	undo *toggle.Intent // of Undo: the former values
}

// Plan is a set of intents held against the files as they are now. It is
// immutable; making one writes nothing.
type Plan struct {
	Context string // the label shown in confirmations
	Files   []FilePlan
	// Hazards and Warnings over all files, worst first.
	Hazards  []observe.Hazard
	Warnings []Warning
	// Writers counts the processes that could carry out a timed change; it
	// matters only where Timed.
	Writers int
	Timed   bool
	// Confirm says how the context wants it confirmed.
	Confirm Confirm
}

// Confirm is what a context asks of a confirmation.
type Confirm struct {
	RequireReason   bool
	TypeContextName bool
}

// FilePlan is the part of a plan in one application's file: one publish, or two
// for a two-step scale.
type FilePlan struct {
	App     string
	Intents []Intent
	Base    nacos.State // what was read
	After   string      // the text to be written
	Changes []toggle.Change
	Diff    string // unified, for showing
	// Unchanged: the file already says so; UnchangedBy names who made it so.
	Unchanged   bool
	UnchangedBy string
	// Refusal is why the edit must not be written, nil when it may. Forceable:
	// the fault was there before, and Force passes it.
	Refusal   *toggle.Refusal
	Forceable bool
	// TwoStep: services that are not ours would throw on min above max, so max
	// is published first.
	TwoStep  bool
	Affected []Affected
	Warnings []Warning

	orders []toggle.Intent // the changes of the file; empty for a whole new text
	steps  map[string]bool // the listeners of a two-step scale
}

// NeedsEdit tells that a line of the file stands in the way of a toggle, and that no
// force passes it: somebody has to edit the file first.
func (f *FilePlan) NeedsEdit() bool {
	return f.Refusal != nil && !f.Forceable && f.Refusal.Line > 0 && len(f.orders) > 0
}

// Affected is a listener that the plan changes, and where it runs.
type Affected struct {
	ID        fleet.ID
	Instances int
	Hosts     []string
}

// Warning is something the user should read before confirming.
type Warning struct {
	// Code is stable: a code of package toggle for a fault of the file, else
	// "again", "already", "audit", "metadata", "no-writer", "not-ours", "past",
	// "stale", "undo-absent", "undo-changed", "undo-kept" or "unknown".
	Code string
	App  string
	Text string
}

// Ticket names a write whose progress is in later snapshots.
type Ticket struct {
	ID    uint64
	Files []Written
}

// Written is the outcome of the publish for one application.
type Written struct {
	App   string
	MD5   string // of the content now in force; "" where nothing was written
	Phase fleet.Phase
	Err   error // *nacos.ConflictError, *toggle.Refusal, …; nil when written or unchanged
	// Merged: somebody else's change was found and the intent applied to it.
	Merged bool
	// UnchangedBy names who made the file so where nothing had to be written.
	UnchangedBy string
	// Lost is what a change of somebody else had written that this write
	// overwrote, on a server that ignores the expected md5 (r-nacos).
	Lost string
}

// Version is one version of a toggle file.
type Version struct {
	ID      string
	At      time.Time
	By      string
	From    string
	Op      string
	Changes []toggle.Change
	MD5     string
	Text    string
	Known   bool // Text was read
	// Unreadable says in words why nothing of Text can be read, "" where it can. Such a
	// version changes nothing, and the next one is held against what was in force before.
	Unreadable string
}
