package release

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

func TestWaitOrder(t *testing.T) {
	l := NewLatest()
	defer l.Close()
	row := Row{ID: 5, Epoch: 1, Message: "a+b+c"}
	l.add(row)
	for _, c := range []struct {
		name  string
		after Position
		waits bool
	}{
		{"anything", Position{}, false},
		{"an older id", Position{1, 4}, false},
		{"the same id", Position{1, 5}, true},
		{"a higher id", Position{1, 9}, true},
		{"a later epoch", Position{2, 1}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			if c.waits {
				cancel()
			}
			defer cancel()
			got, err := l.Wait(ctx, "a+b+c", c.after)
			if c.waits != errors.Is(err, context.Canceled) || !c.waits && got != row {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
	if _, ok := l.Get("A+b+c"); ok {
		t.Error("a case variant is the same key")
	}
	if len(l.keys["a+b+c"].waiters) != 0 {
		t.Error("a caller that has left is still waiting")
	}
}

func TestEpochBeginsKeysAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLatest()
		defer l.Close()
		l.add(Row{ID: 500, Epoch: 1, Message: "a"})
		got := make(chan Row)
		go func() {
			r, _ := l.Wait(context.Background(), "a", Position{1, 500})
			got <- r
		}()
		synctest.Wait()
		l.add(Row{ID: 3, Epoch: 1, Message: "a", Late: true})
		synctest.Wait()
		select {
		case r := <-got:
			t.Fatalf("an older row let a caller go: %v", r)
		default:
		}
		l.add(Row{ID: 1, Epoch: 2, Message: "a"})
		if r := <-got; r.Epoch != 2 || r.ID != 1 {
			t.Errorf("got %v", r)
		}
	})
}

// Ten thousand callers of one key are let go 100 at a time; another key's
// caller does not wait for them.
func TestTenThousandWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 10_000
		l := NewLatest()
		began := time.Now()
		var mu sync.Mutex
		var went []time.Duration
		var newer int
		var callers sync.WaitGroup
		for range n {
			callers.Go(func() {
				r, err := l.Wait(context.Background(), "crowd", Position{})
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				went = append(went, time.Since(began))
				if r.ID == 3 {
					newer++
				}
			})
		}
		var other time.Duration
		callers.Go(func() {
			if _, err := l.Wait(context.Background(), "other", Position{}); err != nil {
				t.Error(err)
			}
			other = time.Since(began)
		})
		synctest.Wait()
		l.add(Row{ID: 1, Epoch: 1, Message: "crowd"})
		l.add(Row{ID: 2, Epoch: 1, Message: "other"})
		time.Sleep(5050 * time.Millisecond)
		l.add(Row{ID: 3, Epoch: 1, Message: "crowd"})
		callers.Wait()
		l.Close()
		if other != 0 {
			t.Errorf("the other key's caller waited %s", other)
		}
		slices.Sort(went)
		for i, d := range went {
			if want := time.Duration(i/releaseBatch) * releasePause; d != want {
				t.Fatalf("caller %d went after %s, want %s", i, d, want)
			}
		}
		if want := n - 51*releaseBatch; newer != want {
			t.Errorf("%d callers got the newer row, want %d", newer, want)
		}
	})
}

func TestWaitersLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLatest()
		var callers sync.WaitGroup
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var gone, closed int
		var mu sync.Mutex
		for i := range 300 {
			callers.Go(func() {
				c := context.Background()
				if i%2 == 0 {
					c = ctx
				}
				_, err := l.Wait(c, fmt.Sprint("key", i%7), Position{})
				mu.Lock()
				defer mu.Unlock()
				switch {
				case errors.Is(err, context.DeadlineExceeded):
					gone++
				case errors.Is(err, ErrClosed):
					closed++
				}
			})
		}
		time.Sleep(2 * time.Second)
		l.Close()
		l.Close()
		callers.Wait()
		if gone != 150 || closed != 150 {
			t.Errorf("%d left and %d were closed, want 150 each", gone, closed)
		}
		if _, err := l.Wait(t.Context(), "key", Position{}); !errors.Is(err, ErrClosed) {
			t.Errorf("a wait after the close: %v", err)
		}
	})
}

// A caller that registers while the row comes is never forgotten.
func TestWaitRacesWithRows(t *testing.T) {
	l := NewLatest()
	defer l.Close()
	for i := range uint64(2000) {
		var callers sync.WaitGroup
		callers.Go(func() { l.add(Row{ID: i + 1, Epoch: 1, Message: "a"}) })
		callers.Go(func() {
			if r, err := l.Wait(t.Context(), "a", Position{1, i}); err != nil || r.ID != i+1 {
				t.Errorf("got %v, %v", r, err)
			}
		})
		callers.Wait()
	}
}

func TestLatestIsLoaded(t *testing.T) {
	onEach(t, allKinds, func(t *testing.T, b *bench) {
		b.bulk(1700) // 97 keys
		b.insert("only+the+newest")
		latest := NewLatest()
		defer latest.Close()
		s := b.scanner(func(c *ScannerConfig) { c.Latest, c.LookBack = latest, 1 })
		b.step(s)
		if latest.Len() != 98 {
			t.Errorf("%d keys, want 98", latest.Len())
		}
		if r, ok := latest.Get("app0+default+application"); !ok || r.ID != 1650 && r.ID < 1600 || !r.History {
			t.Errorf("the newest row is %+v", r)
		}
		got := make(chan Row, 1)
		go func() {
			r, _ := latest.Wait(context.Background(), "only+the+newest", Position{1, 1701})
			got <- r
		}()
		b.insert("only+the+newest")
		b.step(s)
		if r := <-got; r.ID != 1702 || r.History {
			t.Errorf("got %+v", r)
		}
	})
}
