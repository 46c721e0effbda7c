package consumers

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func newAcks(top uint64) *acks { return &acks{settled: map[uint64]bool{}, top: top} }

func TestAcksTravelTogether(t *testing.T) {
	a := newAcks(10)
	k := newTracker(a, 5, time.Hour)
	defer k.abort()
	for tag := uint64(1); tag <= 10; tag++ {
		if err := k.settle(tag, acked); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"ack 5 true", "ack 10 true"}; !slices.Equal(a.frames, want) {
		t.Errorf("%v, want %v", a.frames, want)
	}
}

func TestAHoleIsNotCoveredByAMultipleAck(t *testing.T) {
	a := newAcks(6)
	k := newTracker(a, 5, time.Hour)
	defer k.abort()
	for _, tag := range []uint64{1, 2, 4, 5, 6} {
		_ = k.settle(tag, acked)
	}
	if want := []string{"ack 2 true", "ack 4 false", "ack 5 false", "ack 6 false"}; !slices.Equal(a.frames, want) || a.settled[3] {
		t.Errorf("%v, want %v", a.frames, want)
	}
	if err := k.settle(4, acked); !errors.Is(err, ErrSettled) {
		t.Errorf("second ack: %v", err)
	}
	_ = k.settle(3, requeued)
	if err := k.settle(3, acked); !errors.Is(err, ErrSettled) {
		t.Errorf("ack after the requeue: %v", err)
	}
}

func TestAMultipleAckEndsAtATagThatIsUnacked(t *testing.T) {
	a := newAcks(4)
	k := newTracker(a, 3, time.Hour)
	defer k.abort()
	_ = k.settle(1, acked)
	_ = k.settle(2, acked)
	_ = k.settle(3, rejected)
	_ = k.finish(false)
	if want := []string{"reject 3 false", "ack 2 true"}; !slices.Equal(a.frames, want) {
		t.Errorf("%v, want %v", a.frames, want)
	}
}

func TestAnAckIsNotHeldBackForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAcks(1)
		k := newTracker(a, 50, 20*time.Millisecond)
		_ = k.settle(1, acked)
		time.Sleep(19 * time.Millisecond)
		synctest.Wait()
		if n := k.sent(); n != 0 {
			t.Errorf("%d frames were sent early", n)
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if n := k.sent(); n != 1 {
			t.Errorf("%d frames", n)
		}
		k.abort()
	})
}

func TestFinishGivesBackTheRestWithOneFrame(t *testing.T) {
	a := newAcks(9)
	k := newTracker(a, 50, time.Hour)
	for _, tag := range []uint64{1, 2, 3, 5} {
		_ = k.settle(tag, acked)
	}
	if err := k.finish(true); err != nil {
		t.Fatal(err)
	}
	if want := []string{"ack 3 true", "ack 5 false", "nack 0 true"}; !slices.Equal(a.frames, want) {
		t.Errorf("%v, want %v", a.frames, want)
	}
	if err := k.settle(4, acked); !errors.Is(err, ErrStale) {
		t.Errorf("ack after the end: %v", err)
	}
}

// TestAnyOrderOfCompletion settles in random order, in random ways, and lets a
// strict broker look at every frame.
func TestAnyOrderOfCompletion(t *testing.T) {
	for range 300 {
		n := 1 + rand.N(500)
		a := newAcks(uint64(n))
		k := newTracker(a, 1+rand.N(60), time.Hour)
		window := 1 + rand.N(100)
		var open []uint64
		next := uint64(1)
		for next <= uint64(n) || len(open) > 0 {
			for next <= uint64(n) && len(open) < window {
				open = append(open, next)
				next++
			}
			i := rand.N(len(open))
			what := acked
			if rand.N(10) == 0 {
				what = []settlement{requeued, rejected}[rand.N(2)]
			}
			if err := k.settle(open[i], what); err != nil {
				t.Fatalf("tag %d: %v\n%v", open[i], err, a.frames)
			}
			open = slices.Delete(open, i, i+1)
			for _, tag := range open {
				if a.settled[tag] {
					t.Fatalf("tag %d was settled before its time\n%v", tag, a.frames)
				}
			}
		}
		if err := k.finish(false); err != nil {
			t.Fatal(err)
		}
		if len(a.settled) != n || k.count() != uint64(n) {
			t.Fatalf("%d of %d settled", len(a.settled), n)
		}
	}
}

func BenchmarkTracker(b *testing.B) {
	k := newTracker(nothing{}, 50, time.Hour)
	defer k.abort()
	tag := uint64(0)
	for b.Loop() {
		tag++
		_ = k.settle(tag, acked)
	}
}

type nothing struct{}

func (nothing) Ack(uint64, bool) error        { return nil }
func (nothing) Nack(uint64, bool, bool) error { return nil }
func (nothing) Reject(uint64, bool) error     { return nil }

func TestScalingDecisions(t *testing.T) {
	for _, tc := range []struct {
		name string
		l    load
		want int
	}{
		{"nothing waits", load{active: 2, min: 1, max: 8, handled: 100}, 2},
		{"less waits than is cleared", load{active: 2, min: 1, max: 8, ready: 90, handled: 100}, 2},
		{"more waits than is cleared", load{active: 2, min: 1, max: 8, ready: 150, handled: 100}, 3},
		{"at most double", load{active: 2, min: 1, max: 8, ready: 10000, handled: 100}, 4},
		{"never above max", load{active: 6, min: 1, max: 8, ready: 10000, handled: 100}, 8},
		{"at max", load{active: 8, min: 1, max: 8, ready: 10000, handled: 100}, 8},
		{"nothing cleared", load{active: 1, min: 1, max: 8, ready: 5}, 2},
		{"idle ones leave together", load{active: 8, min: 1, max: 8, idle: 5}, 3},
		{"never below min", load{active: 32, min: 1, max: 32, idle: 32}, 1},
		{"idle but something waits", load{active: 8, min: 1, max: 8, idle: 5, ready: 1, handled: 10}, 8},
		{"none running", load{min: 1, max: 8, ready: 100}, 1},
	} {
		got, why := tc.l.decide()
		if got != tc.want || (why == "") != (got == max(tc.l.active, tc.l.min)) {
			t.Errorf("%s: %d (%q), want %d", tc.name, got, why, tc.want)
		}
	}
}

func TestBackoff(t *testing.T) {
	var b Backoff
	for n, want := range map[int]time.Duration{1: 400 * time.Millisecond, 2: 800 * time.Millisecond, 7: 25600 * time.Millisecond, 8: 30 * time.Second, 1000: 30 * time.Second} {
		if got := b.Ceiling(n); got != want {
			t.Errorf("ceiling of attempt %d is %s, want %s", n, got, want)
		}
		for range 100 {
			if d := b.Delay(n); d < DefaultBackoffMin || d > want {
				t.Errorf("attempt %d waits %s", n, d)
			}
		}
	}
}

func TestRecentMaximumFades(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recentMax
		r.note(7)
		time.Sleep(recentSpan + time.Second)
		r.note(2)
		if got := r.max(time.Now()); got != 7 {
			t.Errorf("%d in the next span", got)
		}
		time.Sleep(recentSpan)
		if got := r.max(time.Now()); got != 2 {
			t.Errorf("%d in the one after", got)
		}
		time.Sleep(3 * recentSpan)
		if got := r.max(time.Now()); got != 0 {
			t.Errorf("%d in the end", got)
		}
	})
}
