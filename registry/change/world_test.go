package change

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a center with SOFARegistry's notifiers, and what they and the observer heard. It lives in a synctest
// bubble.
type world struct {
	*Center
	t    *testing.T
	mu   sync.Mutex
	seen []Delivery
	told map[string][]Delivery

	gaveUp bool // Close is expected to fail
	judged int  // how many of seen the oracle's test has looked at
}

var theKey = Key{"dc", "com.example.Settle"}

func newWorld(t *testing.T, cfg Config) *world {
	t.Helper()
	w := &world{t: t, told: map[string][]Delivery{}}
	for name, set := range map[string]Sources{
		"session": Subscribers, "backup": Replicas, "snapshot-backup": SnapshotReplicas, "temp": Temporary,
	} {
		cfg.Notifiers = append(cfg.Notifiers, Notifier{Name: name, Sources: set,
			Notify: func(_ context.Context, d Delivery) error {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.told[name] = append(w.told[name], d)
				return nil
			}})
	}
	observe := cfg.Observe
	cfg.Observe = func(d Delivery) {
		w.mu.Lock()
		w.seen = append(w.seen, d)
		w.mu.Unlock()
		if observe != nil {
			observe(d)
		}
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w.Center = c
	t.Cleanup(func() { w.end() })
	return w
}

func (w *world) end() {
	w.t.Helper()
	if _, err := w.Close(context.Background()); err != nil && !w.gaveUp {
		w.t.Error(err)
	}
	w.balanced()
}

// balanced checks that no event was lost or counted twice.
func (w *world) balanced() {
	w.t.Helper()
	s := w.Stats()
	if s.Accepted != s.Merged+s.Delivered+s.Suppressed+s.Stale+s.Pending+s.Undelivered {
		w.t.Errorf("accounts do not balance: %+v", s.Counters)
	}
}

func (w *world) offer(events ...Event) {
	w.t.Helper()
	for _, e := range events {
		if e.Key == (Key{}) && e.Scope != ScopeClient {
			e.Key = theKey
		}
		if _, err := w.Offer(w.t.Context(), e); err != nil {
			w.t.Fatalf("offer %+v: %v", e, err)
		}
		w.balanced()
	}
}

// settle lets d pass and everything come to rest.
func (w *world) settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
	w.balanced()
}

// take returns what the observer saw since the last call and who was told of it.
func (w *world) take() (seen []Delivery, told string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var names []string
	for name, list := range w.told {
		for range list {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	seen, w.seen, w.told = w.seen, nil, map[string][]Delivery{}
	return seen, strings.Join(names, " ")
}

// cached begins a test with the key cached as {r1} at version 10, registered by connection c1.
func (w *world) cached() {
	w.t.Helper()
	w.offer(Event{Kind: Cover, Source: Sync, Version: 10, Items: []Item{r("r1", "one", 5)}})
	w.settle(time.Second)
	if _, told := w.take(); told != "session" {
		w.t.Fatalf("setting up told %q", told)
	}
}

// r is an item of connection c1.
func r(id, content string, version int64) Item {
	return Item{ID: id, Conn: "c1", Content: content, Version: version, Registered: 1000}
}

func unpub(id string, version int64) Item {
	return Item{ID: id, Conn: "c1", Version: version, Registered: 1000, Unpub: true}
}

func merge(s Source, version int64, items ...Item) Event {
	return Event{Source: s, Version: version, Items: items}
}

func cover(s Source, version int64, items ...Item) Event {
	return Event{Kind: Cover, Source: s, Version: version, Items: items}
}

func snapshot(items ...Item) Event {
	return Event{Scope: ScopeSnapshot, Source: Snapshot, Items: items}
}

func off(conn string) Event { return Event{Scope: ScopeClient, Conn: conn} }

// show writes items as "r1=one r2=two".
func show(items []Item) string {
	var out []string
	for _, x := range items {
		out = append(out, x.ID+"="+x.Content)
	}
	return strings.Join(out, " ")
}

// The table T1: one event, the key cached as {r1} at version 10, nothing pending.
func TestOneEvent(t *testing.T) {
	unknown := Key{"dc", "unknown"}
	tests := []struct {
		name    string
		event   Event
		delay   time.Duration
		outcome Outcome
		version string // new, kept, or the number
		items   string
		told    string
		stored  string // where it differs from items
	}{
		{"merge pub", merge(Pub, 0, r("r2", "two", 1)), DefaultWindow, Delivered, "new", "r1=one r2=two", "backup session", ""},
		{"merge pub, equal content", merge(Pub, 0, r("r1", "one", 6)), DefaultWindow, Suppressed, "kept", "r1=one", "", ""},
		{"merge pub, equal content on another connection",
			merge(Pub, 0, Item{ID: "r1", Conn: "c2", Content: "one", Version: 6}), DefaultWindow, Suppressed, "kept", "r1=one", "", ""},
		{"merge pub unpub, newer", merge(Pub, 0, unpub("r1", 6)), DefaultWindow, Delivered, "new", "", "backup session", ""},
		{"merge pub unpub, older", merge(Pub, 0, unpub("r1", 4)), DefaultWindow, Stale, "kept", "r1=one", "", ""},
		{"merge pub unpub, equal order", merge(Pub, 0, unpub("r1", 5)), DefaultWindow, Delivered, "new", "", "backup session", ""},
		{"merge pub unpub, older registration of the same version",
			merge(Pub, 0, Item{ID: "r1", Version: 5, Registered: 999, Unpub: true}), DefaultWindow, Stale, "kept", "r1=one", "", ""},
		{"merge pub unpub, item unknown", merge(Pub, 0, unpub("r9", 1)), DefaultWindow, Suppressed, "kept", "r1=one", "", ""},
		{"merge pub unpub, key unknown", Event{Key: unknown, Items: []Item{unpub("r9", 1)}}, DefaultWindow, Suppressed, "0", "", "", ""},
		{"cover pub", cover(Pub, 3, r("r2", "two", 1)), DefaultWindow, Delivered, "new", "r2=two", "backup session", ""},
		{"cover pub, equal content", cover(Pub, 0, r("r1", "one", 1)), DefaultWindow, Suppressed, "kept", "r1=one", "", ""},
		{"merge pub-temp", merge(PubTemp, 0, r("r2", "two", 1)), 0, DeliveredTemp, "new", "r1=one r2=two", "temp", "r1=one"},
		{"merge pub-temp, its own id wins", merge(PubTemp, 0, r("r1", "temp", 1)), 0, DeliveredTemp, "new", "r1=temp", "temp", "r1=one"},
		{"cover pub-temp", cover(PubTemp, 3, r("r2", "two", 1)), 0, DeliveredTemp, "new", "r1=one r2=two", "temp", "r1=one"},
		{"merge sync, newer", merge(Sync, 20, r("r2", "two", 1)), DefaultWindow, Delivered, "20", "r1=one r2=two", "session", ""},
		{"merge sync, older", merge(Sync, 9, r("r2", "two", 1)), DefaultWindow, Delivered, "10", "r1=one r2=two", "session", ""},
		{"cover sync, newer", cover(Sync, 20, r("r2", "two", 1)), DefaultWindow, Delivered, "20", "r2=two", "session", ""},
		{"cover sync, older", cover(Sync, 9, r("r2", "two", 1)), DefaultWindow, Stale, "kept", "r1=one", "", ""},
		{"cover sync, same version", cover(Sync, 10, r("r2", "two", 1)), DefaultWindow, Suppressed, "kept", "r1=one", "", ""},
		{"merge backup", merge(Backup, 20, r("r2", "two", 1)), DefaultWindow, Replayed, "20", "r1=one r2=two", "", ""},
		{"cover backup, newer", cover(Backup, 20, r("r2", "two", 1)), DefaultWindow, Replayed, "20", "r2=two", "", ""},
		{"cover backup, older", cover(Backup, 9, r("r2", "two", 1)), DefaultWindow, Stale, "kept", "r1=one", "", ""},
		{"cover clean", cover(Clean, 0), DefaultWindow, Cleaned, "0", "", "", ""},
		{"merge clean", merge(Clean, 0), DefaultWindow, Cleaned, "0", "", "", ""},
		{"clean, key unknown", Event{Key: unknown, Source: Clean}, DefaultWindow, Suppressed, "0", "", "", ""},
		{"snapshot", snapshot(r("r2", "two", 1)), 0, Delivered, "new", "r2=two", "session snapshot-backup", ""},
		{"snapshot, equal content", snapshot(r("r1", "one", 1)), 0, Suppressed, "kept", "r1=one", "", ""},
		{"snapshot, empty", snapshot(), 0, Delivered, "new", "", "session snapshot-backup", ""},
		{"snapshot, empty, key unknown", Event{Key: unknown, Scope: ScopeSnapshot, Source: Snapshot}, 0, Suppressed, "0", "", "", ""},
		{"client-off", off("c1"), DefaultWindow, Delivered, "new", "", "backup session", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, Config{})
				w.cached()
				w.offer(tt.event)
				if tt.delay > 0 {
					w.settle(tt.delay - 1)
					if seen, _ := w.take(); len(seen) > 0 {
						t.Fatalf("delivered too early: %+v", seen)
					}
				}
				w.settle(10 * time.Millisecond)
				seen, told := w.take()
				checkOne(t, w, tt.event, seen, told, tt.outcome, tt.version, tt.items, tt.told, tt.stored)
			})
		})
	}
}

func checkOne(t *testing.T, w *world, e Event, seen []Delivery, told string, outcome Outcome, version, items, wantTold, stored string) {
	t.Helper()
	if len(seen) != 1 {
		t.Fatalf("saw %d outcomes, want 1: %+v", len(seen), seen)
	}
	d := seen[0]
	if d.Outcome != outcome {
		t.Errorf("outcome %v, want %v", d.Outcome, outcome)
	}
	if got := show(d.Now.Items); got != items {
		t.Errorf("items %q, want %q", got, items)
	}
	if told != wantTold {
		t.Errorf("told %q, want %q", told, wantTold)
	}
	switch v := d.Now.Version; version {
	case "new":
		if v <= 1_000_000 {
			t.Errorf("version %d, want a new one from the clock", v)
		}
	case "kept":
		if v != 10 {
			t.Errorf("version %d, want 10 as before", v)
		}
	default:
		if fmt.Sprint(v) != version {
			t.Errorf("version %d, want %s", v, version)
		}
	}
	if stored == "" {
		stored = items
	}
	k := e.Key
	if k == (Key{}) {
		k = theKey
	}
	if datum, _ := w.Datum(k); show(datum.Items) != stored {
		t.Errorf("stored %q, want %q", show(datum.Items), stored)
	}
}

// The rows of T1 that are refused.
func TestRefusedEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{MaxItems: 2})
		x := r("r1", "one", 1)
		for name, e := range map[string]Event{
			"datum scope with snapshot":   {Source: Snapshot, Items: []Item{x}},
			"snapshot scope with pub":     {Scope: ScopeSnapshot, Items: []Item{x}},
			"sync without version":        {Source: Sync, Items: []Item{x}},
			"nothing to merge":            {},
			"client without a connection": {Scope: ScopeClient},
			"too many items":              {Items: []Item{x, x, x}},
			"unknown source":              {Source: Off, Items: []Item{x}},
		} {
			if _, err := w.Offer(t.Context(), e); !errors.Is(err, ErrBadEvent) {
				t.Errorf("%s: %v, want ErrBadEvent", name, err)
			}
		}
		w.end()
		if _, err := w.Offer(t.Context(), merge(Pub, 0, x)); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v, want ErrClosed", err)
		}
		if _, err := w.ClientOff(t.Context(), "c1"); !errors.Is(err, ErrClosed) {
			t.Errorf("client-off after Close: %v, want ErrClosed", err)
		}
		if s := w.Stats(); s.Accepted != 0 {
			t.Errorf("accepted %d events", s.Accepted)
		}
	})
}

// The table T2: X pending, then Y within the window; the key cached as {r1} at version 10.
func TestTwoEvents(t *testing.T) {
	const both = "backup session"
	tests := []struct {
		name    string
		x, y    Event
		outcome Outcome
		items   string
		told    string
		merged  int
		stale   int
		version int64 // 0: not checked
	}{
		{"PUB r2, PUB r2' newer", merge(Pub, 0, r("r2", "two", 1)), merge(Pub, 0, r("r2", "zwei", 2)),
			Delivered, "r1=one r2=zwei", both, 1, 0, 0},
		{"PUB r2, PUB r2 older", merge(Pub, 0, r("r2", "two", 2)), merge(Pub, 0, r("r2", "zwei", 1)),
			Delivered, "r1=one r2=two", both, 0, 1, 0},
		{"PUB r2, unpub r2 newer", merge(Pub, 0, r("r2", "two", 1)), merge(Pub, 0, unpub("r2", 2)),
			Suppressed, "r1=one", "", 1, 0, 10},
		{"unpub r1, PUB r1 same content", merge(Pub, 0, unpub("r1", 6)), merge(Pub, 0, r("r1", "one", 7)),
			Suppressed, "r1=one", "", 1, 0, 10},
		{"unpub r1, PUB r1 new content", merge(Pub, 0, unpub("r1", 6)), merge(Pub, 0, r("r1", "eins", 7)),
			Delivered, "r1=eins", both, 1, 0, 0},
		{"PUB r2, SYNC COVER {r1} newer", merge(Pub, 0, r("r2", "two", 1)), cover(Sync, future, r("r1", "one", 5)),
			Suppressed, "r1=one", "", 1, 0, 10},
		{"PUB r2, BACKUP COVER {r1} newer", merge(Pub, 0, r("r2", "two", 1)), cover(Backup, future, r("r1", "one", 5)),
			Suppressed, "r1=one", "", 1, 0, 10},
		{"PUB r2, SYNC COVER {r3} newer", merge(Pub, 0, r("r2", "two", 1)), cover(Sync, future, r("r3", "three", 1)),
			Delivered, "r3=three", both, 1, 0, future},
		{"PUB r2, SYNC COVER {r3} older than the PUB", merge(Pub, 0, r("r2", "two", 1)), cover(Sync, 20, r("r3", "three", 1)),
			Delivered, "r1=one r2=two", both, 0, 1, 0},
		{"BACKUP COVER {r1}, PUB r2", cover(Backup, 20, r("r1", "one", 5)), merge(Pub, 0, r("r2", "two", 1)),
			Delivered, "r1=one r2=two", both, 1, 0, 0},
		{"SYNC COVER {r3}, PUB r2", cover(Sync, 20, r("r3", "three", 1)), merge(Pub, 0, r("r2", "two", 1)),
			Delivered, "r2=two r3=three", both, 1, 0, 0},
		{"SYNC COVER v5, SYNC COVER v4", cover(Sync, 15, r("r5", "five", 1)), cover(Sync, 14, r("r4", "four", 1)),
			Delivered, "r5=five", "session", 0, 1, 15},
		{"SYNC MERGE v5 {a}, SYNC MERGE v4 {b}", merge(Sync, 15, r("a", "a", 1)), merge(Sync, 14, r("b", "b", 1)),
			Delivered, "a=a b=b r1=one", "session", 1, 0, 15},
		{"SYNC COVER v5, SYNC MERGE v6", cover(Sync, 15, r("a", "a", 1)), merge(Sync, 16, r("b", "b", 1)),
			Delivered, "a=a b=b", "session", 1, 0, 16},
		{"CLEAN, PUB r2", cover(Clean, 0), merge(Pub, 0, r("r2", "two", 1)), Delivered, "r2=two", both, 1, 0, 0},
		{"PUB r2, CLEAN", merge(Pub, 0, r("r2", "two", 1)), cover(Clean, 0), Cleaned, "", "", 1, 0, 0},
		{"CLEAN, CLEAN", cover(Clean, 0), cover(Clean, 0), Cleaned, "", "", 1, 0, 0},
		{"CLEAN, BACKUP COVER {r3}", cover(Clean, 0), cover(Backup, 20, r("r3", "three", 1)), Replayed, "r3=three", "", 1, 0, 20},
		{"BACKUP COVER, CLEAN", cover(Backup, 20, r("r3", "three", 1)), cover(Clean, 0), Cleaned, "", "", 1, 0, 0},
		{"PUB r2, client-off", merge(Pub, 0, r("r2", "two", 1)), off("c1"), Delivered, "", both, 1, 0, 0},
		{"PUB r2 of another connection, client-off", merge(Pub, 0, Item{ID: "r2", Conn: "c2", Content: "two"}), off("c1"),
			Delivered, "r2=two", both, 1, 0, 0},
		{"client-off, PUB r1 equal", off("c1"), merge(Pub, 0, r("r1", "one", 5)), Suppressed, "r1=one", "", 1, 0, 10},
		{"client-off, PUB r1 older", off("c1"), merge(Pub, 0, r("r1", "one", 4)), Delivered, "", both, 0, 1, 0},
		{"client-off, PUB r1 new content", off("c1"), merge(Pub, 0, r("r1", "eins", 6)), Delivered, "r1=eins", both, 1, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, Config{})
				w.cached()
				w.offer(tt.x)
				w.settle(100 * time.Millisecond)
				w.offer(tt.y)
				w.settle(DefaultWindow - 100*time.Millisecond - 1)
				if seen, _ := w.take(); len(seen) > 0 {
					t.Fatalf("delivered before the window of the first event ended: %+v", seen)
				}
				w.settle(20 * time.Millisecond)
				seen, told := w.take()
				if len(seen) != 1 {
					t.Fatalf("saw %d outcomes, want 1: %+v", len(seen), seen)
				}
				d := seen[0]
				if d.Outcome != tt.outcome || show(d.Now.Items) != tt.items || told != tt.told {
					t.Errorf("%v {%s} told %q; want %v {%s} told %q", d.Outcome, show(d.Now.Items), told, tt.outcome, tt.items, tt.told)
				}
				if d.Merged != tt.merged || d.Stale != tt.stale {
					t.Errorf("merged %d, stale %d; want %d, %d", d.Merged, d.Stale, tt.merged, tt.stale)
				}
				if tt.version != 0 && d.Now.Version != tt.version {
					t.Errorf("version %d, want %d", d.Now.Version, tt.version)
				}
				if datum, _ := w.Datum(theKey); show(datum.Items) != tt.items {
					t.Errorf("stored %q, want %q", show(datum.Items), tt.items)
				}
				w.settle(2 * time.Second)
				if seen, _ := w.take(); len(seen) > 0 {
					t.Errorf("a second outcome: %+v", seen)
				}
			})
		})
	}
}

// future is a version above those that the bubble's clock, which starts in the year 2000, makes.
const future = int64(4_000_000_000_000_000)

// The rows of T2 in which something is due before the window ends.
func TestTwoEventsTemporary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		w.cached()
		w.offer(merge(Pub, 0, r("r2", "two", 1)))
		w.settle(100 * time.Millisecond)
		w.offer(merge(PubTemp, 0, r("t", "now", 1)))
		w.offer(merge(PubTemp, 0, r("t", "then", 1)))
		w.settle(10 * time.Millisecond)
		seen, told := w.take()
		if len(seen) != 2 || show(seen[0].Now.Items) != "r1=one t=now" || show(seen[1].Now.Items) != "r1=one t=then" || told != "temp temp" {
			t.Fatalf("saw %+v, told %q; want two views in order, without what is pending", seen, told)
		}
		if seen[0].Now.Version >= seen[1].Now.Version {
			t.Errorf("versions %d, %d do not rise", seen[0].Now.Version, seen[1].Now.Version)
		}
		w.settle(DefaultWindow)
		last, told := w.take()
		if len(last) != 1 || show(last[0].Now.Items) != "r1=one r2=two" || told != "backup session" || last[0].Delay != DefaultWindow {
			t.Errorf("saw %+v, told %q; want r2 on its own due", last, told)
		}
		if last[0].Now.Version <= seen[1].Now.Version {
			t.Errorf("version %d is not above the temporary %d", last[0].Now.Version, seen[1].Now.Version)
		}
	})
}

func TestTwoEventsSnapshot(t *testing.T) {
	for name, tt := range map[string]struct {
		x           Event
		items, told string
	}{
		"PUB r2, SNAPSHOT":       {merge(Pub, 0, r("r2", "two", 1)), "r3=three", "backup session snapshot-backup"},
		"SNAPSHOT 1, SNAPSHOT 2": {snapshot(r("r2", "two", 1)), "r3=three", "session snapshot-backup"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				busy := Key{"dc", "busy"} // holds the only worker up until both events are pending
				hold := make(chan struct{})
				w := newWorld(t, Config{Shards: 1, Workers: 1, Observe: func(d Delivery) {
					if d.Key == busy {
						<-hold
					}
				}})
				w.cached()
				w.offer(Event{Key: busy, Source: PubTemp, Items: []Item{{ID: "t"}}})
				synctest.Wait()
				w.offer(tt.x, snapshot(r("r3", "three", 1)))
				_, _ = w.take()
				close(hold)
				w.settle(time.Millisecond)
				seen, told := w.take()
				told = strings.TrimSuffix(told, " temp") // of busy
				if len(seen) != 1 || show(seen[0].Now.Items) != tt.items || told != tt.told || seen[0].Merged != 1 {
					t.Errorf("saw %+v, told %q; want one delivery of %s at once, told %q", seen, told, tt.items, tt.told)
				}
			})
		})
	}
}

func TestEventWhileDelivering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var start, end []time.Duration
		began := time.Now()
		w := newWorld(t, Config{Observe: func(Delivery) {
			start = append(start, time.Since(began))
			time.Sleep(2 * time.Second)
			end = append(end, time.Since(began))
		}})
		w.offer(merge(Pub, 0, r("r1", "one", 1)))
		w.settle(600 * time.Millisecond) // v1 is being delivered
		if st, _ := w.Get(theKey); st.State != Delivering {
			t.Errorf("state %v, want delivering", st.State)
		}
		w.offer(merge(Pub, 0, r("r1", "two", 2)))
		w.offer(merge(PubTemp, 0, r("t", "temp", 2)))
		w.settle(10 * time.Second)
		seen, _ := w.take()
		if len(seen) != 3 {
			t.Fatalf("saw %d outcomes, want 3", len(seen))
		}
		for i := 1; i < len(start); i++ {
			if start[i] < end[i-1] {
				t.Errorf("delivery %d began at %v, before the one before it ended at %v", i, start[i], end[i-1])
			}
		}
		for i := 1; i < len(seen); i++ {
			if seen[i].Now.Version <= seen[i-1].Now.Version && seen[i].Outcome != DeliveredTemp {
				t.Errorf("version %d follows %d", seen[i].Now.Version, seen[i-1].Now.Version)
			}
		}
	})
}
