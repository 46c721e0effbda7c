package presence

import "time"

// Report is the state of one instance as it tells others, the JSON body of a
// message on the exchange belay.presence. Other languages may send it too.
type Report struct {
	V         int              `json:"v"` // 1
	App       string           `json:"app"`
	Instance  string           `json:"instance"` // host:pid:random
	Host      string           `json:"host"`
	Started   time.Time        `json:"started"`
	Seq       uint64           `json:"seq"` // rises from report to report, anew with each Started
	At        time.Time        `json:"at"`
	Bye       bool             `json:"bye"`      // the last report of an instance
	CanWrite  bool             `json:"canWrite"` // carries out timed changes
	File      *FileReport      `json:"file"`     // the toggle file in force; null before the first
	Listeners []ListenerReport `json:"listeners"`
}

// FileReport names the toggle file that an instance has applied.
type FileReport struct {
	MD5       string    `json:"md5"`
	AppliedAt time.Time `json:"appliedAt"`
}

// ListenerReport is the state of one listener of the reporting instance.
type ListenerReport struct {
	ID               string         `json:"id"`
	Queues           []string       `json:"queues"`
	State            string         `json:"state"` // a state of consumers.State
	Blocked          bool           `json:"blocked"`
	Attempts         int            `json:"attempts"`
	NextTry          *time.Time     `json:"nextTry"`
	LastError        *string        `json:"lastError"`
	Consumers        int            `json:"consumers"`
	Draining         int            `json:"draining"`
	Min              int            `json:"min"`
	Max              int            `json:"max"`
	Prefetch         int            `json:"prefetch"`
	InFlight         int            `json:"inFlight"`
	Handled          uint64         `json:"handled"`
	Failed           uint64         `json:"failed"`
	Requeued         uint64         `json:"requeued"`
	Redelivered      uint64         `json:"redelivered"`
	MaxDeliveryCount int            `json:"maxDeliveryCount"`
	LastFailure      *FailureReport `json:"lastFailure"`
	Since            time.Time      `json:"since"`
	By               string         `json:"by"`
	Reason           string         `json:"reason"`
}

// FailureReport is the newest message that a handler failed on.
type FailureReport struct {
	At            time.Time `json:"at"`
	Error         string    `json:"error"`
	MessageID     string    `json:"messageId"`
	DeliveryCount int       `json:"deliveryCount"`
}
