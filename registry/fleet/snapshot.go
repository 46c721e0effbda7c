package fleet

import (
	"time"

	"github.com/belay-mq/belay/consumers/observe"
	"github.com/belay-mq/belay/nacos"
	"github.com/belay-mq/belay/registry/presence"
)

// ID is the identity of a listener everywhere: the same listenerId in two
// applications is two listeners.
type ID struct {
	App      string
	Listener string
}

// String returns "app/listener".
func (id ID) String() string { return id.App + "/" + id.Listener }

// State is what a user sees for one listener. Its text is stable: JSON carries it.
type State string

// The states, worst first: of several that match, the first in this order wins.
const (
	Unknown      State = "unknown"       // no instance reports it and the broker shows no consumer of it
	Failed       State = "failed"        // an instance has given up
	MissingQueue State = "missing-queue" // an instance finds no queue
	Recovering   State = "recovering"    // an instance lost the broker or is refused
	Pausing      State = "pausing"       // a write or change of the file is on its way
	Resuming     State = "resuming"
	Scaling      State = "scaling"
	Starting     State = "starting"
	Drift        State = "drift"     // wanted and actual differ for longer than 10 s, or the broker disagrees
	Paused       State = "paused"    // wanted off, all stopped
	Stopped      State = "stopped"   // no opinion, all stopped
	Unmanaged    State = "unmanaged" // running, no entry in the file
	Running      State = "running"   // wanted on or no opinion, all running
)

// Phase is how far the effect of a write has come. Its text is stable.
type Phase string

// The phases of an effect. The last five are final.
const (
	Writing     Phase = "writing"     // the publish is under way
	Written     Phase = "written"     // Nacos has it
	Seen        Phase = "seen"        // some instances report the new file
	Applied     Phase = "applied"     // all instances have applied it; the broker not yet
	Done        Phase = "done"        // the broker agrees
	Superseded  Phase = "superseded"  // a later write overrules it
	Conflict    Phase = "conflict"    // somebody else's change contradicts it; not written
	WriteFailed Phase = "failed"      // not written
	Unconfirmed Phase = "unconfirmed" // written, and somebody is behind
)

// Final reports whether the phase is an end state.
func (p Phase) Final() bool {
	switch p {
	case Done, Superseded, Conflict, WriteFailed, Unconfirmed:
		return true
	}
	return false
}

// Effect is the progress of one write on one listener. Control makes it, the
// fleet shows it in [Row.Effect].
type Effect struct {
	Ticket  uint64
	Op      string // "pause", "resume", "scale", "edit", "rollback", "undo"
	By      string
	At      time.Time // when the write began
	Phase   Phase
	Seen    int // instances that have the new file
	Applied int // instances on which the listener matches
	Total   int // instances that were there when the write began
	// How long after At each step was reached; 0 while it was not.
	WrittenAfter, SeenAfter, AppliedAfter, BrokerAfter time.Duration
	Behind                                             []string // instances, or the queue, that are not there yet
	SupersededBy                                       string   // who wrote over it
	Err                                                string
	MD5                                                string // of the content written
}

// Desired is what the toggle file says of a listener.
type Desired struct {
	Entry             bool // the file has an entry for it
	Enable            *bool
	Min, Max          *int
	Reason, UpdatedBy string
	UpdatedAt         time.Time // zero where absent
	PauseAt, ResumeAt time.Time // zero where absent
	Queue             string    // "queue" of the entry
}

// Actual sums up what the instances report.
type Actual struct {
	Known     bool // at least one instance reports
	Consumers int
	Draining  int
	InFlight  int
	Min, Max  int // summed over the instances
}

// Instances counts the processes that host a listener.
type Instances struct {
	Total     int // known, the lost ones that were not seen to end included
	Applied   int // on which the listener is as wanted
	Reporting int // whose reports are fresh
}

// Host is one instance's share of a listener.
type Host struct {
	Instance string
	Host     string
	Report   presence.ListenerReport
	At       time.Time // of the report
	Lost     bool      // three reports missed, no goodbye
	FileMD5  string    // the toggle file it has applied
	Applied  bool      // as wanted
}

// Row is one listener as every screen and command shows it.
type Row struct {
	ID      ID
	State   State
	Done    int // with Pausing, Resuming, Scaling, Starting: k of n instances
	Total   int
	Note    string // one short sentence, the most useful one
	Desired Desired
	Actual  Actual
	Inst    Instances
	Hosts   []Host
	Queues  []*observe.Queue
	Ready   observe.Number // summed over the queues
	Unacked observe.Number
	Broker  observe.Number // consumers of ours that the broker shows
	InRate  observe.Number
	OutRate observe.Number
	ErrRate observe.Number // failed and requeued a second
	Redeliv observe.Number // redelivered, percent
	Looping bool           // mostly redelivered messages that fail again
	// MaxDelivery is the highest delivery count that an instance saw lately.
	MaxDelivery int
	// LastFailure is the newest over all instances, nil when none failed.
	LastFailure *presence.FailureReport
	Since       time.Time // when State was entered, zero unknown
	By          string
	Reason      string
	Stale       time.Time // zero: fresh; else since when the source that State rests on was not read
	StaleSrc    string    // which source: "nacos", "presence", "broker"
	Effect      *Effect   // of the newest write, until some seconds after its end
}

// App is one application: its toggle file and who could act on it.
type App struct {
	Name     string
	Key      nacos.Key
	File     nacos.State     // newest state of the config; Text may be bad
	InForce  string          // md5 of the text in force; differs from File.MD5 where that is bad
	Problems []Problem       // of the newest text, worst first
	Writers  int             // processes that can carry out a timed change
	Watchers []nacos.Watcher // the newest list that could be read
	WatchErr string          // why it could not be read since
}

// Problem is a fault of a toggle file in words.
type Problem struct {
	Code  string
	Line  int
	Text  string
	Loud  bool   // services refuse the file, drop it, break off or go deaf
	Class string // "refuses", "drops", "breaks-off", "poisons", …
}

// Instance is one process.
type Instance struct {
	ID        string
	App       string // "" for a dashboard
	Host      string
	Started   time.Time
	At        time.Time // of its newest report
	Lost      bool
	CanWrite  bool
	FileMD5   string
	AppliedAt time.Time
	Listeners int
}

// Health is one connection or part of the backend.
type Health struct {
	Name    string // "nacos", "rabbit", "management", "apollo", "presence", "scanner", "center"
	State   HealthState
	Text    string        // version, transport, position: one line
	Err     string        // newest error in words
	Advice  string        // what to do about it
	Since   time.Time     // when State was entered
	LastOK  time.Time     // newest success; its age stands in the header
	Latency time.Duration // of the newest success
	// Counters are shown on the health screen in this order.
	Counters []Counter
}

// Counter is a named figure of a part.
type Counter struct {
	Name  string
	Value int64
}

// HealthState is the state of a part.
type HealthState string

// The states of a part.
const (
	HealthOK     HealthState = "ok"
	HealthStale  HealthState = "stale" // not read for 3 intervals
	HealthDown   HealthState = "down"
	HealthAbsent HealthState = "absent" // not configured
)

// Snapshot is everything a screen shows, at one moment. It is immutable and may
// be read by anybody for as long as wanted.
type Snapshot struct {
	Version   uint64 // rises with every snapshot
	At        time.Time
	Context   string
	Label     string // of the context, "" = Context
	ReadOnly  bool
	Rows      []*Row      // by application, then listener
	Apps      []*App      // by name
	Searched  bool        // Apps are configured, or Nacos has been searched for them
	SearchErr string      // why the newest search failed
	Instances []*Instance // by application, then id
	Health    []Health
	Blocked   bool // reports are held back by a broker alarm
}

// Row returns the row of a listener, nil where there is none.
func (s *Snapshot) Row(id ID) *Row {
	lo, hi := 0, len(s.Rows)
	for lo < hi {
		mid := (lo + hi) / 2
		r := s.Rows[mid].ID
		if r.App < id.App || r.App == id.App && r.Listener < id.Listener {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < len(s.Rows) && s.Rows[lo].ID == id {
		return s.Rows[lo]
	}
	return nil
}

// App returns the application of that name, nil where there is none.
func (s *Snapshot) App(name string) *App {
	for _, a := range s.Apps {
		if a.Name == name {
			return a
		}
	}
	return nil
}
