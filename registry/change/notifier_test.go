package change

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// journal keeps what a notifier's attempts came to, with their times.
type journal struct {
	mu    sync.Mutex
	start time.Time
	lines []string
}

func (j *journal) report(a Attempt) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf("%v %s %s #%d %v", time.Since(j.start), a.Notifier, show(a.Delivery.Now.Items), a.Number, a.Result))
}

func (j *journal) check(t *testing.T, want ...string) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	if !slices.Equal(j.lines, want) {
		t.Errorf("attempts:\n got %q\nwant %q", j.lines, want)
	}
}

// failing is a center with one notifier that fails as often as fails says.
func failing(t *testing.T, fail func(Delivery, int) error) (*world, *journal) {
	t.Helper()
	j := &journal{start: time.Now()}
	calls := 0
	w := newWorld(t, Config{Report: func(a Attempt) {
		if a.Notifier == "n" {
			j.report(a)
		}
	}, Notifiers: []Notifier{{Name: "n", Sources: Subscribers, Notify: func(_ context.Context, d Delivery) error {
		calls++
		return fail(d, calls)
	}}}})
	return w, j
}

var errNo = errors.New("no")

func TestRetries(t *testing.T) {
	t.Run("succeeds", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, j := failing(t, func(_ Delivery, call int) error {
				if call <= 2 {
					return errNo
				}
				return nil
			})
			w.offer(pub(theKey, "r", "a"))
			w.settle(10 * time.Second)
			j.check(t, "500ms n r=a #1 retrying", "1s n r=a #2 retrying", "2s n r=a #3 done")
			if st, _ := w.Get(theKey); st.Retries != 2 || st.LastError != "n: no" {
				t.Errorf("retries %d, last error %q", st.Retries, st.LastError)
			}
		})
	})
	t.Run("dead letter", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, j := failing(t, func(Delivery, int) error { return errNo })
			w.offer(pub(theKey, "r", "a"))
			w.settle(10 * time.Second)
			j.check(t, "500ms n r=a #1 retrying", "1s n r=a #2 retrying", "2s n r=a #3 retrying", "4s n r=a #4 dead-letter")
			for _, n := range w.Stats().Notifiers {
				if n.Name == "n" && (n.DeadLetters != 1 || n.Retries != 3 || n.Waiting != 0) {
					t.Errorf("%+v", n)
				}
			}
		})
	})
	t.Run("newer takes its place", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var got []Delivery
			w, j := failing(t, func(d Delivery, call int) error {
				if call <= 2 {
					return errNo
				}
				got = append(got, d)
				return nil
			})
			w.offer(pub(theKey, "r", "a"))
			w.settle(700 * time.Millisecond) // failed once
			w.offer(pub(theKey, "r", "b"))
			w.settle(10 * time.Second)
			j.check(t, "500ms n r=a #1 retrying", "1s n r=a #2 retrying", "1.2s n r=b #1 done")
			if len(got) != 1 || got[0].Merged != 1 || len(got[0].Prev.Items) != 0 {
				t.Errorf("the newer delivery does not stand for the older one: %+v", got)
			}
		})
	})
	t.Run("panic", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, j := failing(t, func(_ Delivery, call int) error {
				if call == 1 {
					panic("broken")
				}
				return nil
			})
			w.offer(pub(theKey, "r", "a"))
			w.settle(10 * time.Second)
			j.check(t, "500ms n r=a #1 retrying", "1s n r=a #2 done")
			if st, _ := w.Get(theKey); st.LastError != `n: notifier "n" panicked: broken` {
				t.Errorf("last error %q", st.LastError)
			}
		})
	})
}

// A slow notifier delays only itself, and is told the latest state of each key.
func TestSlowNotifier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, j := failing(t, func(Delivery, int) error { time.Sleep(5 * time.Second); return nil })
		for i := range 5 {
			w.offer(pub(theKey, "r", fmt.Sprint(i)))
			w.settle(time.Second)
		}
		seen, told := w.take()
		if len(seen) != 5 || told != "backup backup backup backup backup session session session session session" {
			t.Errorf("saw %d, told %q: the others were delayed", len(seen), told)
		}
		for _, d := range seen {
			if d.Delay != DefaultWindow {
				t.Errorf("delayed by %v", d.Delay)
			}
		}
		w.settle(20 * time.Second)
		j.check(t, "5.5s n r=0 #1 done", "10.5s n r=4 #1 done")
	})
}

// A mailbox is bounded; what waits longest is given up and reported.
func TestMailboxFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{start: time.Now()}
		hold := make(chan struct{})
		w := newWorld(t, Config{Shards: 1, Report: func(a Attempt) {
			if a.Notifier == "n" {
				j.report(a)
				if a.Result == DeadLetter && !errors.Is(a.Err, ErrMailboxFull) {
					t.Errorf("dead letter: %v", a.Err)
				}
			}
		}, Notifiers: []Notifier{{Name: "n", Mailbox: 2, Sources: Subscribers,
			Notify: func(context.Context, Delivery) error { <-hold; return nil }}}})
		for i := range 5 {
			w.offer(pub(key(i), "r", fmt.Sprint(i)))
			w.settle(time.Second)
		}
		close(hold)
		w.settle(time.Second)
		j.check(t, "5s n r=0 #1 done", "5s n r=1 #0 dead-letter", "5s n r=2 #0 dead-letter", "5s n r=3 #1 done", "5s n r=4 #1 done")
	})
}

// A panicking observer or report harms nobody.
func TestPanickingCallbacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{Observe: func(Delivery) { panic("observe") }, Report: func(Attempt) { panic("report") }})
		for i := range 3 {
			w.offer(pub(theKey, "r", fmt.Sprint(i)))
			w.settle(time.Second)
		}
		if seen, told := w.take(); len(seen) != 3 || told != "backup backup backup session session session" {
			t.Errorf("saw %d, told %q", len(seen), told)
		}
	})
}

// A record stays while a mailbox refers to it.
func TestForgetSparesMail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		var got []Key
		w := newWorld(t, Config{Shards: 1, MaxKeys: 3, Notifiers: []Notifier{{Name: "n", Sources: Subscribers,
			Notify: func(_ context.Context, d Delivery) error { <-hold; got = append(got, d.Key); return nil }}}})
		for i := range 8 {
			w.offer(pub(key(i), "r", "a"))
			w.settle(time.Second)
		}
		if s := w.Stats(); s.Keys != 8 {
			t.Errorf("remembers %d keys; all 8 have mail waiting", s.Keys)
		}
		close(hold)
		w.settle(time.Second)
		for i, k := range got {
			if k != key(i) {
				t.Errorf("delivery %d is of %v", i, k)
			}
		}
	})
}
