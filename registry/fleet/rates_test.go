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
		s.add(point{at: at, handled: 10, failed: 5, requeued: 5, redelivered: 5, n: 15})
		p.at = at.Add(2 * time.Second)
		s.add(p)
		if _, _, ok := s.span(); ok {
			t.Errorf("%s fell and the series goes on", name)
		}
	}
}
