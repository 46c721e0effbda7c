package observe

import "time"

// Source says where a number was read.
type Source string

// The sources of numbers.
const (
	// Declare is a passive declare on the broker: exact to the millisecond.
	Declare Source = "declare"
	// Management is the management API: complete, but up to 10 s old.
	Management Source = "management"
	// Presence is an instance's own report.
	Presence Source = "presence"
	// Derived was computed from two readings.
	Derived Source = "derived"
)

// Number is a reading. A number that was never read has Known false and is
// shown as "-".
type Number struct {
	Value  float64
	At     time.Time // when it was read; its age is measured from here
	Source Source
	Known  bool
}

// QueueID names a queue.
type QueueID struct {
	VHost string
	Name  string
}

// Queue is what the broker shows of one queue. It is an immutable value.
type Queue struct {
	ID      QueueID
	Missing bool // the broker says 404

	Ready, Unacked, Consumers Number
	InRate, OutRate           Number // messages a second
	// ManagementConsumers is set beside Consumers where the two sources
	// disagree (see Disagree); screens then show both.
	ManagementConsumers Number
	Disagree            bool

	// ConsumerList is nil where the management API is not configured, not
	// allowed or disabled.
	ConsumerList []Consumer
	ListAt       time.Time

	// SettingsKnown says that the queue's arguments and policy were read, so
	// that Hazards are all there are. Only the management API tells them.
	SettingsKnown bool
	// Redelivered is how many of the newest minute's deliveries were
	// redeliveries, in percent; Looping says that consumers mostly give back
	// what they get. Only the management API tells.
	Redelivered Number
	Looping     bool

	// DeliveryLimit is the queue's x-delivery-limit, from arguments or policy; 0
	// where there is none or it is not known.
	DeliveryLimit int
	Hazards       []Hazard
	// Forecast is the most useful sentence about where the queue is heading
	// ("drains in 4 min"), "" when there is none.
	Forecast string
	// History holds the newest hour of samples, oldest first.
	History []Sample

	// Stale is zero while reads succeed; else since when none did for 3 intervals.
	Stale time.Time
	Err   string // newest error in words
}

// Consumer is one consumer of a queue as the management API lists it.
type Consumer struct {
	Tag        string
	ListenerID string // from the consumer argument x-listener-id; "" for foreign consumers
	Connection string // connection_name, or the peer address
	Instance   string // belay-instance of the connection, "" for foreign ones
	App        string // belay-app of the connection
	Prefetch   int
	Active     bool
}

// Hazard is something that a pause of the queue's consumers may do harm with.
type Hazard struct {
	Code  string // "auto-delete", "expires", "ttl", "max-length", "delivery-limit", "exclusive", "single-active-consumer"
	Queue QueueID
	Text  string        // a sentence for the confirmation
	In    time.Duration // when it strikes at the measured rates; 0 unknown or at once
}

// Sample is one point of a queue's graph.
type Sample struct {
	At              time.Time
	Ready           float64
	InRate, OutRate float64
}
