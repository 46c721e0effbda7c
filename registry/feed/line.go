package feed

import "time"

// Source says what a line tells of.
type Source string

// The sources.
const (
	Release  Source = "release"
	Toggle   Source = "toggle"
	Consumer Source = "consumer"
	Instance Source = "instance"
	Broker   Source = "broker"
	Scanner  Source = "scanner"
)

// Status is the merge and delay status of a line. Its text is stable.
type Status string

// The statuses, a closed set. Waiting lines are read from the center's pending
// keys and never stored.
const (
	Waiting    Status = "waiting"
	Delivered  Status = "delivered"
	Suppressed Status = "suppressed"
	Stale      Status = "stale"
	Replay     Status = "replay"
	Failed     Status = "failed"
	DeadLetter Status = "dead-letter"
	GapOpen    Status = "gap-open"
	GapClosed  Status = "gap-closed"
	Epoch      Status = "epoch"
	Applied    Status = "applied"
	Cleaned    Status = "cleaned"
)

// Line is one line of the timeline. It is a value; stored lines never change.
type Line struct {
	// Seq orders the lines of this process, from 1; 0 for a waiting line.
	Seq    uint64
	At     time.Time
	Source Source
	// Key is what the line is about: a release message's key, an
	// application/listener, an instance.
	Key string
	// App and Listener are set where the line is about one, for marking it on a
	// listener's graph.
	App, Listener string
	// Version is the newest version merged into the line; FromVersion the first,
	// "" where there is only one.
	Version, FromVersion string
	Status               Status
	// Merged counts the events absorbed; screens show ×(Merged + 1).
	Merged int
	// Delay is the time between the first event and the delivery; Remaining, of
	// a waiting line, the time until then; Window the whole window.
	Delay, Remaining, Window time.Duration
	Late                     bool // found in a gap, after higher ids
	Malformed                bool // the key has not three non-empty parts
	// OK and Failed count the listeners (notifiers) that took it.
	OK, Failed int
	// Text says what happened ("running → paused by oncall").
	Text string
	// By is the operator or cause where known.
	By string
}
