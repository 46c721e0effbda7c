package consumers

import (
	"sync"
	"time"
)

// recentSpan is half of what "lately" means for Status.MaxDeliveryCount.
const recentSpan = 5 * time.Minute

// recentMax keeps the greatest of the numbers noted in the present and in the
// previous span: for at least recentSpan, at most twice as long.
type recentMax struct {
	mu        sync.Mutex
	begin     time.Time // of the present span
	now, last int
}

func (r *recentMax) note(n int) {
	if n == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn(time.Now())
	r.now = max(r.now, n)
}

func (r *recentMax) max(at time.Time) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn(at)
	return max(r.now, r.last)
}

func (r *recentMax) turn(at time.Time) {
	switch age := at.Sub(r.begin); {
	case age >= 2*recentSpan:
		r.begin, r.now, r.last = at, 0, 0
	case age >= recentSpan:
		r.begin, r.now, r.last = at, 0, r.now
	}
}
