package observe

import "time"

// Health says how the two sides of an observer fare. It is a value.
type Health struct {
	Declare    Side
	Management Side
}

// Side is one way to read queues.
type Side struct {
	Configured bool
	OK         bool
	Since      time.Time     // when OK last changed
	LastOK     time.Time     // newest successful read
	Latency    time.Duration // of the newest successful read
	Err        string        // newest error in words, "" when OK
	Advice     string        // what to do about it
	Version    string        // of the broker, where known
}
