package consumers

import "time"

// State is the state of one container. Its text is stable: presence reports and
// JSON carry it.
type State string

// The states of a container. Blocked (a broker alarm) is a flag beside any of
// them, see [Status.Blocked].
const (
	// Stopped: not consuming, and nothing is under way.
	Stopped State = "stopped"
	// Starting: asked to run, not yet subscribed on every queue.
	Starting State = "starting"
	// Running: subscribed, within its concurrency.
	Running State = "running"
	// Draining: cancelled, finishing what it holds.
	Draining State = "draining"
	// Recovering: the connection or a channel was lost; trying again.
	Recovering State = "recovering"
	// MissingQueue: a queue does not exist; trying again.
	MissingQueue State = "missing-queue"
	// Refused: the broker refuses login or permission; trying again.
	Refused State = "refused"
	// Failed: given up, because an option says so.
	Failed State = "failed"
)

// Cause says who wants a change of a listener and why. The zero value is a
// change without a known author.
type Cause struct {
	// By names the author: "toggle", an operator, "shutdown".
	By string
	// Reason is free text of the author, possibly empty.
	Reason string
	// Until is the time at which the change is to be reverted; zero when
	// nobody said so. It is shown, never acted upon, by a container.
	Until time.Time
}

// StopReport says what became of the messages that a container held when it
// was stopped.
type StopReport struct {
	// Handled counts the messages finished during the stop.
	Handled int
	// Requeued counts the messages given back unhandled.
	Requeued int
	// Abandoned counts the messages whose handler ran past the deadline; the
	// broker delivers them again.
	Abandoned int
	// Running counts the handlers that still run now.
	Running int
	// Phase is the step the stop came to: "idle" (nothing to do), "cancel",
	// "drain", "return", "close" or "done".
	Phase string
	// Took is the time the stop needed.
	Took time.Duration
}

// Failure describes the last message that a handler failed on.
type Failure struct {
	At            time.Time
	Error         string
	MessageID     string
	DeliveryCount int
}

// Status is a copy of what a container is doing. It is a value: reading or
// changing it affects nothing.
type Status struct {
	ListenerID string
	Queues     []string

	State  State
	Since  time.Time // when State was entered
	By     string    // who caused State
	Reason string
	Until  time.Time // zero: open ended

	Blocked   bool      // the broker holds back publishers (memory or disk alarm)
	Attempts  int       // recovery attempts since the last healthy session
	NextTry   time.Time // zero: none planned
	LastError string    // why it is recovering, refused or failed; "" when healthy

	Consumers   int // subscribed now
	Draining    int // cancelled and finishing what they hold
	Min, Max    int // concurrency in force
	Prefetch    int // per consumer
	InFlight    int // delivered and not yet settled
	AutoStartup bool

	Handled          uint64 // handler returned nil
	Failed           uint64 // handler returned an error or panicked
	Requeued         uint64 // given back to the broker
	Redelivered      uint64 // deliveries flagged as redelivered
	StaleAcks        uint64 // acks refused because their session had ended
	MaxDeliveryCount int    // highest x-delivery-count seen lately
	LastFailure      *Failure

	// Scaling says why the number of consumers is what it is, in words; "" when
	// nothing was decided yet.
	Scaling string
}
