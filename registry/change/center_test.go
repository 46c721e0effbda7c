package change

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func key(i int) Key { return Key{"dc", fmt.Sprintf("key-%d", i)} }

func pub(k Key, id, content string) Event {
	return Event{Key: k, Items: []Item{{ID: id, Content: content}}}
}

func TestDebounce(t *testing.T) {
	tests := []struct {
		name   string
		window Window
		every  time.Duration
		events int
		want   []time.Duration // delivered, since the start
	}{
		{"quiet after the last", Window{Max: time.Second, Quiet: 100 * time.Millisecond}, 50 * time.Millisecond, 3, []time.Duration{200 * time.Millisecond}},
		{"capped", Window{Max: 300 * time.Millisecond, Quiet: 100 * time.Millisecond}, 50 * time.Millisecond, 6, []time.Duration{300 * time.Millisecond}},
		{"two windows", Window{Max: time.Second, Quiet: 100 * time.Millisecond}, 150 * time.Millisecond, 2,
			[]time.Duration{100 * time.Millisecond, 250 * time.Millisecond}},
		{"fixed is not extended", Window{Max: 200 * time.Millisecond}, 50 * time.Millisecond, 4, []time.Duration{200 * time.Millisecond}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				w := newWorld(t, Config{Window: tt.window})
				for i := range tt.events {
					w.offer(pub(key(1), "r", fmt.Sprint(i)))
					w.settle(tt.every)
				}
				w.settle(2 * time.Second)
				seen, _ := w.take()
				var got []time.Duration
				for _, d := range seen {
					got = append(got, d.At.Sub(start))
				}
				if !slices.Equal(got, tt.want) {
					t.Errorf("delivered at %v, want %v", got, tt.want)
				}
			})
		})
	}
}

func TestBadConfig(t *testing.T) {
	notify := func(context.Context, Delivery) error { return nil }
	for name, cfg := range map[string]Config{
		"quiet above max":   {Window: Window{Max: time.Second, Quiet: 2 * time.Second}},
		"negative window":   {Window: Window{Max: -1}},
		"negative shards":   {Shards: -1},
		"nameless notifier": {Notifiers: []Notifier{{Notify: notify}}},
		"same name twice":   {Notifiers: []Notifier{{Name: "a", Notify: notify}, {Name: "a", Notify: notify}}},
		"no function":       {Notifiers: []Notifier{{Name: "a"}}},
	} {
		if c, err := New(cfg); err == nil {
			t.Errorf("%s: no error", name)
			c.Close(context.Background())
		}
	}
}

// A changed window applies to keys that start to wait afterwards.
func TestSetWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		w := newWorld(t, Config{Shards: 1})
		w.offer(pub(key(1), "r", "a"))
		for _, win := range []Window{{Max: 100 * time.Millisecond}, {Max: time.Second, Quiet: 20 * time.Millisecond}, {Max: DefaultWindow}} {
			if err := w.SetWindow(win); err != nil {
				t.Fatal(err)
			}
			w.offer(pub(key(1), "r", "b"), pub(Key{"dc", win.Max.String()}, "r", "a"))
		}
		if err := w.SetWindow(Window{Max: 1, Quiet: 2}); err == nil {
			t.Error("a quiet time above the window is accepted")
		}
		w.settle(2 * time.Second)
		seen, _ := w.take()
		var got []string
		for _, d := range seen {
			got = append(got, fmt.Sprint(d.Key.DataInfoID, " ", d.At.Sub(start)))
		}
		want := []string{"1s 20ms", "100ms 100ms", "key-1 500ms", "500ms 500ms"}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// Across keys of a shard the order is that of due times, ties by sequence.
func TestOrderAcrossKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{Shards: 1, Workers: 1})
		for i := range 200 {
			w.offer(pub(key(i*7919%200), "r", "a"))
		}
		w.settle(time.Second)
		seen, _ := w.take()
		for i := range seen {
			if want := key(i * 7919 % 200); seen[i].Key != want {
				t.Fatalf("delivery %d is of %v, want %v", i, seen[i].Key, want)
			}
		}
		if len(seen) != 200 {
			t.Errorf("saw %d deliveries", len(seen))
		}
	})
}

// A full shard makes new keys wait, and lets pending ones merge.
func TestFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{Shards: 1, MaxPending: 2})
		w.offer(pub(key(1), "r", "a"), pub(key(2), "r", "a"))
		if _, err := w.TryOffer(pub(key(3), "r", "a")); !errors.Is(err, ErrFull) {
			t.Errorf("new key: %v, want ErrFull", err)
		}
		if _, err := w.TryOffer(pub(key(1), "r", "b")); err != nil {
			t.Errorf("pending key: %v", err)
		}
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := w.Offer(short, pub(key(3), "r", "a")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("new key with a deadline: %v", err)
		}
		began := time.Now()
		w.offer(pub(key(3), "r", "a"))
		if d := time.Since(began); d != DefaultWindow-100*time.Millisecond {
			t.Errorf("waited %v, want until the window of the first ended", d)
		}
		if s := w.Stats(); s.Accepted != 4 || s.Refused != 1 {
			t.Errorf("accepted %d, refused %d; want 4, 1", s.Accepted, s.Refused)
		}
	})
}

func TestOfferWaitsUntilClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{Shards: 1, MaxPending: 1})
		w.offer(pub(key(1), "r", "a"))
		var err error
		var wg sync.WaitGroup
		wg.Go(func() { _, err = w.Offer(t.Context(), pub(key(2), "r", "a")) })
		synctest.Wait()
		w.end()
		wg.Wait()
		if !errors.Is(err, ErrClosed) {
			t.Errorf("the waiting offer ended with %v, want ErrClosed", err)
		}
	})
}

// A client-off is accepted on all shards or on none, and is not starved by new keys.
func TestClientOffAllOrNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{Shards: 4, MaxPending: 8})
		for i := range 40 {
			w.offer(Event{Key: key(i), Items: []Item{{ID: "r", Conn: "c", Content: "a"}}})
		}
		w.settle(time.Second)
		full := w.shardOf(w.hash(&Key{"dc", "key-0"}))
		filled := 0
		for i := 1000; filled < 8; i++ {
			k := key(i)
			if w.shardOf(w.hash(&k)) == full {
				w.offer(pub(k, "r", "a"))
				filled++
			}
		}
		before := w.Stats().Accepted
		if _, err := w.TryOffer(off("c")); !errors.Is(err, ErrFull) {
			t.Errorf("one full shard: %v, want ErrFull", err)
		}
		short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, err := w.ClientOff(short, "c"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("one full shard, with a deadline: %v", err)
		}
		if after := w.Stats().Accepted; after != before {
			t.Fatalf("%d keys were touched by a client-off that was not accepted", after-before)
		}
		var wg sync.WaitGroup
		var stop atomic.Bool
		for p := range 3 { // new keys that want the room
			wg.Go(func() {
				for i := 0; !stop.Load(); i++ {
					if _, err := w.Offer(t.Context(), pub(key(10_000+1000*p+i%1000), "r", fmt.Sprint(i))); err != nil {
						t.Error(err)
						return
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		n, err := w.ClientOff(t.Context(), "c")
		stop.Store(true)
		wg.Wait()
		if err != nil || n != 40 {
			t.Errorf("touched %d keys, error %v; want 40", n, err)
		}
		w.settle(2 * time.Second)
		for i := range 40 {
			if d, _ := w.Datum(key(i)); len(d.Items) != 0 {
				t.Fatalf("%v still holds %v", key(i), d.Items)
			}
		}
	})
}

func TestTombstoneExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		w.cached()
		w.offer(merge(Pub, 0, unpub("r1", 6)))
		w.settle(time.Second)
		w.offer(merge(Pub, 0, r("r1", "one", 5)))
		w.settle(time.Second)
		if d, _ := w.Datum(theKey); len(d.Items) != 0 {
			t.Fatalf("an older registration came back after the removal: %v", d.Items)
		}
		w.settle(DefaultTombstone)
		w.offer(merge(Pub, 0, r("r1", "one", 5)))
		w.settle(time.Second)
		if d, _ := w.Datum(theKey); len(d.Items) != 1 {
			t.Error("the removal is still remembered after its time")
		}
	})
}

func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{MaxItems: 3, MaxKeys: 10, Shards: 1})
		for i := range 10 {
			w.offer(pub(key(1), fmt.Sprint(i), "x"), Event{Key: key(1), Items: []Item{{ID: fmt.Sprint("gone", i), Unpub: true}}})
			if i%4 == 0 {
				w.settle(time.Second)
			}
		}
		w.settle(time.Second)
		d, _ := w.Datum(key(1))
		if show(d.Items) != "7=x 8=x 9=x" {
			t.Errorf("holds %s, want the three that were accepted last", show(d.Items))
		}
		if s := w.Stats(); s.Evicted != 7 {
			t.Errorf("evicted %d items, want 7", s.Evicted)
		}
		for i := range 1000 {
			w.offer(pub(key(i), "r", "x"))
			w.settle(time.Second)
		}
		if s := w.Stats(); s.Keys > 10 || s.Forgotten < 900 {
			t.Errorf("remembers %d keys, forgot %d; want at most 10", s.Keys, s.Forgotten)
		}
	})
}

// A key may have a lower limit of its own.
func TestItemLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{ItemLimit: func(k Key) int {
			if k == theKey {
				return 2
			}
			return 100
		}})
		for i := range 5 {
			w.offer(pub(theKey, fmt.Sprint(i), "x"), pub(key(1), fmt.Sprint(i), "x"))
		}
		w.settle(time.Second)
		few, _ := w.Datum(theKey)
		all, _ := w.Datum(key(1))
		if show(few.Items) != "3=x 4=x" || len(all.Items) != 5 {
			t.Errorf("hold %s and %s", show(few.Items), show(all.Items))
		}
	})
}

// Removals within one window are bounded too.
func TestBoundedRemovals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{MaxItems: 8})
		for i := range 1000 {
			w.offer(Event{Key: theKey, Items: []Item{{ID: fmt.Sprint("r", i), Unpub: true}}})
		}
		if st, _ := w.Get(theKey); len(st.PendingItems) > 17 {
			t.Errorf("%d removals wait, want about twice MaxItems", len(st.PendingItems))
		}
	})
}

func TestTemporaryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		w := newWorld(t, Config{Shards: 1, Workers: 1, MaxPending: 2, Observe: func(Delivery) { <-hold }})
		temp := Event{Key: theKey, Source: PubTemp, Items: []Item{{ID: "t"}}}
		w.offer(temp)
		synctest.Wait() // a worker has it
		w.offer(temp, temp)
		if _, err := w.TryOffer(temp); !errors.Is(err, ErrFull) {
			t.Errorf("third temporary event: %v, want ErrFull", err)
		}
		close(hold)
	})
}

// A step of the wall clock changes the times shown and nothing else.
func TestClockSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var step atomic.Int64
		var mu sync.Mutex
		var seen []Delivery
		c, err := newCenter(Config{Observe: func(d Delivery) { mu.Lock(); seen = append(seen, d); mu.Unlock() }},
			func() time.Time { return time.Now().Add(time.Duration(step.Load())) })
		if err != nil {
			t.Fatal(err)
		}
		version := int64(0)
		for i, by := range []time.Duration{0, time.Hour, -time.Hour, 0} {
			if _, err := c.Offer(t.Context(), pub(theKey, "r", fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
			time.Sleep(200 * time.Millisecond)
			step.Store(int64(by))
			if st, _ := c.Get(theKey); st.Remaining != 300*time.Millisecond {
				t.Errorf("step %v: remaining %v, want 300ms", by, st.Remaining)
			}
			time.Sleep(300*time.Millisecond - 1)
			synctest.Wait()
			mu.Lock()
			if len(seen) != i {
				t.Errorf("step %v: %d deliveries before the window ended, want %d", by, len(seen), i)
			}
			mu.Unlock()
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
			mu.Lock()
			if len(seen) != i+1 || seen[i].Delay < DefaultWindow || seen[i].Delay > DefaultWindow+10*time.Millisecond || seen[i].Now.Version <= version {
				t.Fatalf("step %v: %+v", by, seen)
			}
			version = seen[i].Now.Version
			mu.Unlock()
		}
		c.Close(context.Background())
	})
}

func TestKeyStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		w := newWorld(t, Config{})
		w.cached()
		now := time.Now()
		w.offer(merge(Pub, 0, r("r2", "two", 7)))
		w.settle(120 * time.Millisecond)
		w.offer(merge(Pub, 0, r("r2", "zwei", 9)), merge(Pub, 0, r("r2", "zwo", 8)), Event{Key: key(2), Late: true, Items: []Item{r("x", "x", 1)}})
		list := w.Waiting(0)
		if len(list) != 2 || list[0].Key != theKey || list[1].Key != key(2) {
			t.Fatalf("waiting: %+v, want the two keys by due time", list)
		}
		st := list[0]
		cached, _ := w.Get(theKey)
		if cached.State != Pending || st.State != Pending || !st.FirstSeen.Equal(start) || !st.Since.Equal(now) ||
			!st.Due.Equal(now.Add(DefaultWindow)) || st.Remaining != 380*time.Millisecond || st.MergedNow != 1 || st.Stale != 1 ||
			st.Accepted != 4 || st.Delivered != 1 || st.Sources != SourcesOf(Pub) || st.LastDeliveredVersion != 10 ||
			st.LastAcceptedVersion <= 10 || st.LastItemVersion != 9 || st.PendingFrom != 9 || st.PendingTo != 9 ||
			!st.LastDeliveredAt.Equal(start.Add(DefaultWindow)) || st.MergedTotal != 0 {
			t.Errorf("%+v", st)
		}
		if list[1].Late != 1 {
			t.Errorf("late %d, want 1", list[1].Late)
		}
		if one := w.Waiting(1); len(one) != 1 || one[0].Key != theKey {
			t.Errorf("Waiting(1) = %+v", one)
		}
		w.settle(time.Second)
		st, ok := w.Get(theKey)
		if !ok || st.State != Idle || st.MergedTotal != 1 || st.Delivered != 2 || st.LastDeliveredVersion != st.LastAcceptedVersion || st.Items != 2 {
			t.Errorf("after delivery: %+v", st)
		}
		if _, ok := w.Get(key(99)); ok {
			t.Error("an unknown key is known")
		}
	})
}

func TestCloseFlushesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{Shards: 1, Workers: 1})
		start := time.Now()
		for i := range 5 {
			w.offer(pub(key(i), "r", "a"))
			w.settle(10 * time.Millisecond)
		}
		report, err := w.Close(t.Context())
		if err != nil || report.Delivered != 5 || len(report.Undelivered) != 0 {
			t.Errorf("Close: %+v, %v", report, err)
		}
		if d := time.Since(start); d != 50*time.Millisecond {
			t.Errorf("Close took %v", d-50*time.Millisecond)
		}
		seen, told := w.take()
		for i, d := range seen {
			if d.Key != key(i) {
				t.Errorf("delivery %d is of %v, not in due order", i, d.Key)
			}
		}
		if len(seen) != 5 || told == "" {
			t.Errorf("saw %d, told %q", len(seen), told)
		}
		if again, err := w.Close(t.Context()); err != nil || again.Delivered != 5 {
			t.Errorf("second Close: %+v, %v", again, err)
		}
	})
}

func TestCloseGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := New(Config{Shards: 1, Notifiers: []Notifier{{Name: "deaf", Sources: Subscribers,
			Notify: func(ctx context.Context, d Delivery) error { <-ctx.Done(); return ctx.Err() }}}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			if _, err := c.Offer(t.Context(), pub(key(i), "r", "a")); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		report, err := c.Close(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !slices.Equal(report.Undelivered, []Key{key(0), key(1), key(2)}) {
			t.Errorf("Close: %+v, %v", report, err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		w.offer(pub(key(1), "r", "a"), merge(PubTemp, 0, r("t", "t", 1)), pub(key(1), "r", "b"))
		synctest.Wait()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		report, err := w.Close(ended)
		if !errors.Is(err, context.Canceled) || !slices.Equal(report.Undelivered, []Key{key(1)}) {
			t.Errorf("Close with a context that has ended: %+v, %v", report, err)
		}
		if s := w.Stats(); s.Undelivered != 2 || s.Pending != 0 {
			t.Errorf("%+v", s.Counters)
		}
		w.balanced()
		w.gaveUp = true
	})
}

// Close ends although a key's turn is taken while nothing else is left to do.
func TestCloseWhileDelivering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{Shards: 1, Observe: func(Delivery) { time.Sleep(2 * time.Second) }})
		w.offer(pub(theKey, "r", "a"))
		w.settle(600 * time.Millisecond)
		w.offer(pub(theKey, "r", "b"), merge(PubTemp, 0, r("t", "t", 1)))
		if report, err := w.Close(t.Context()); err != nil || report.Delivered != 3 {
			t.Errorf("Close: %+v, %v", report, err)
		}
	})
}

// Many producers, real time, every kind of event: the accounts balance at every look, and every key ends as its last
// event says.
func TestStress(t *testing.T) {
	var delivering sync.Map
	var overlap atomic.Int64
	c, err := New(Config{Shards: 3, MaxPending: 50, MaxItems: 16, Window: Window{Max: 5 * time.Millisecond}, Observe: func(d Delivery) {
		if _, busy := delivering.LoadOrStore(d.Key, true); busy {
			overlap.Add(1)
		}
		delivering.Delete(d.Key)
	}, Notifiers: []Notifier{
		{Name: "good", Sources: Subscribers, Notify: func(context.Context, Delivery) error { return nil }},
		{Name: "small", Sources: Subscribers, Mailbox: 4, Notify: func(context.Context, Delivery) error { return nil }},
	}})
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var look sync.WaitGroup
	look.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			s := c.Stats()
			if s.Accepted != s.Merged+s.Delivered+s.Suppressed+s.Stale+s.Pending+s.Undelivered {
				t.Errorf("accounts do not balance: %+v", s.Counters)
				return
			}
			c.Waiting(10)
		}
	})
	const producers, each = 4, 3000
	var wg sync.WaitGroup
	for p := range producers {
		wg.Go(func() {
			for i := range each {
				k := Key{"dc", fmt.Sprint(p, "/", i%70)}
				e := Event{Key: k, Items: []Item{{ID: "r", Conn: fmt.Sprint("c", p), Content: fmt.Sprint(i)}}}
				switch i % 50 {
				case 7:
					e.Scope, e.Source = ScopeSnapshot, Snapshot
				case 13:
					e.Source = PubTemp
				case 21:
					e.Source, e.Items = Clean, nil
				}
				if _, err := c.Offer(t.Context(), e); err != nil {
					t.Error(err)
					return
				}
				if i%500 == 0 {
					if _, err := c.ClientOff(t.Context(), "nobody"); err != nil {
						t.Error(err)
					}
				}
			}
			for i := range 70 {
				if _, err := c.Offer(t.Context(), pub(Key{"dc", fmt.Sprint(p, "/", i)}, "r", "last")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if _, err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	close(stop)
	look.Wait()
	if overlap.Load() > 0 {
		t.Errorf("%d deliveries of a key overlapped", overlap.Load())
	}
	for p := range producers {
		for i := range 70 {
			if d, _ := c.Datum(Key{"dc", fmt.Sprint(p, "/", i)}); show(d.Items) != "r=last" {
				t.Fatalf("%d/%d ends as %v", p, i, d.Items)
			}
		}
	}
	s := c.Stats()
	if s.Pending != 0 || s.Undelivered != 0 || s.Accepted < producers*each {
		t.Errorf("%+v", s.Counters)
	}
	for _, n := range s.Notifiers {
		if n.Posted != n.Done+n.Superseded+n.DeadLetters+n.Undelivered || n.Waiting != 0 {
			t.Errorf("%+v", n)
		}
	}
}
