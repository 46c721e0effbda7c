package fleet

import (
	"testing"
	"time"
)

// A process that was restarted may have handled more, but failed less, than before: no
// rate may come out negative.
func TestAnyCounterThatFallsBeganAnew(t *testing.T) {
	at := time.Now()
	for name, p := range map[string]point{
		"handled":     {handled: 9, failed: 6, requeued: 6, redelivered: 6, n: 16},
		"failed":      {handled: 11, failed: 4, requeued: 6, redelivered: 6, n: 16},
		"redelivered": {handled: 11, failed: 6, requeued: 6, redelivered: 4, n: 16},
		"requeued":    {handled: 11, failed: 6, requeued: 4, redelivered: 6, n: 16},
		"n":           {handled: 11, failed: 6, requeued: 6, redelivered: 6, n: 14},
	} {
		var s series
		s.count(point{at: at, handled: 10, failed: 5, requeued: 5, redelivered: 5, n: 15})
		p.at = at.Add(2 * time.Second)
		s.count(p)
		if _, _, ok := s.span(); ok {
			t.Errorf("%s fell and the series goes on", name)
		}
	}
}

// A queue that gets shorter is no counter that began anew.
func TestDepthMayFall(t *testing.T) {
	at := time.Now()
	var s series
	for i, depth := range []float64{1000, 1100, 1000, 990, 980} {
		s.add(point{at: at.Add(time.Duration(i) * time.Second), n: depth})
	}
	first, last, ok := s.span()
	if !ok || last.n-first.n != -20 || last.at.Sub(first.at) != 4*time.Second {
		t.Errorf("from %v to %v, %v; want all of it", first, last, ok)
	}
}
