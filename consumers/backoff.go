package consumers

import (
	"math/rand/v2"
	"time"
)

// Backoff is a capped exponential back-off with full jitter: the wait before
// attempt n is uniform between Min and min(Max, Min·2ⁿ). The zero value is the
// default. It is a value; any number of goroutines may use one.
type Backoff struct {
	// Max caps a single wait. Default: 30 s.
	Max time.Duration
	// Min is the shortest wait. Default: 200 ms.
	Min time.Duration
}

// Default bounds of [Backoff].
const (
	DefaultBackoffMin = 200 * time.Millisecond
	DefaultBackoffMax = 30 * time.Second
)

func (b Backoff) withDefaults() Backoff {
	if b.Min <= 0 {
		b.Min = DefaultBackoffMin
	}
	if b.Max <= 0 {
		b.Max = DefaultBackoffMax
	}
	b.Max = max(b.Max, b.Min)
	return b
}

// Ceiling returns the longest wait before attempt n; attempts count from 1.
func (b Backoff) Ceiling(n int) time.Duration {
	b = b.withDefaults()
	d := b.Min
	for i := 0; i < n && d < b.Max; i++ {
		d *= 2
	}
	return min(d, b.Max)
}

// Delay draws the wait before attempt n; attempts count from 1.
func (b Backoff) Delay(n int) time.Duration {
	b = b.withDefaults()
	span := b.Ceiling(n) - b.Min
	if span <= 0 {
		return b.Min
	}
	return b.Min + rand.N(span+1)
}
