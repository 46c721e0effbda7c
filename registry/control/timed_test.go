package control

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belay-mq/belay/nacos"
	"github.com/belay-mq/belay/registry/fleet"
)

// runs runs several controls on one store until the returned function is called.
func runs(t *testing.T, store *memory, n int, change func(*Config)) (dirs []string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range n {
		dir := t.TempDir()
		dirs = append(dirs, dir)
		cfg := Config{App: app, Store: store, AuditDir: dir, Operator: "belay"}
		if change != nil {
			change(&cfg)
		}
		c := newControl(t, cfg)
		wg.Go(func() {
			if err := c.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	return dirs, func() {
		cancel()
		wg.Wait()
	}
}

func in(d time.Duration) string { return stamp(time.Now().Add(d)) }

// TestTimedOnce carries a window out with five processes: each change is written
// exactly once.
func TestTimedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory("# notes stay\n" + lines("A enable=true reason=vendor updatedBy=anna pauseAt="+in(time.Hour)+" resumeAt="+in(2*time.Hour), "B enable=true"))
		dirs, stop := runs(t, store, 5, nil)
		defer stop()
		before := store.text()
		time.Sleep(time.Hour - time.Second)
		synctest.Wait()
		if store.text() != before {
			t.Fatal("written too early")
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		got := lookup(t, store.text(), "A")
		if *got.Enable || got.PauseAt != nil || got.ResumeAt == nil || *got.Reason != "vendor" || *got.UpdatedBy != "anna" || store.writes() != 1 {
			t.Fatalf("after %d writes\n%s", store.writes(), store.text())
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		got = lookup(t, store.text(), "A")
		if !*got.Enable || got.ResumeAt != nil || got.Reason != nil || store.writes() != 2 || !strings.HasPrefix(store.text(), "# notes stay\n") {
			t.Fatalf("after %d writes\n%s", store.writes(), store.text())
		}
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if store.writes() != 2 {
			t.Errorf("%d writes", store.writes())
		}
		n := 0
		for _, dir := range dirs {
			for _, line := range auditLines(t, dir) {
				if line.Result == "written" {
					n++
				}
				if line.Op != timedOp || line.By != "belay" {
					t.Errorf("audit %+v", line)
				}
			}
		}
		if n != 2 {
			t.Errorf("%d audit lines", n)
		}
	})
}

// TestTimedPast decides by the later of two times that have passed.
func TestTimedPast(t *testing.T) {
	tests := map[string]struct {
		entry  string
		enable bool
	}{
		"pause in the past":  {"A enable=true pauseAt=2001-01-01T00:00:00Z", false},
		"resume in the past": {"A enable=false resumeAt=2001-01-01T00:00:00Z", true},
		"window over":        {"A enable=true pauseAt=2001-01-01T00:00:00Z resumeAt=2001-01-02T00:00:00Z", true},
		"resumed, paused":    {"A pauseAt=2001-01-03T00:00:00Z resumeAt=2001-01-02T00:00:00Z", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// synctest begins in the year 2000.
				time.Sleep(time.Until(time.Date(2002, 1, 1, 0, 0, 0, 0, time.UTC)))
				store := newMemory(lines(tt.entry))
				_, stop := runs(t, store, 2, nil)
				defer stop()
				time.Sleep(time.Second)
				synctest.Wait()
				got := lookup(t, store.text(), "A")
				if got.Enable == nil || *got.Enable != tt.enable || got.PauseAt != nil || got.ResumeAt != nil || store.writes() != 1 {
					t.Errorf("after %d writes\n%s", store.writes(), store.text())
				}
			})
		})
	}
}

// TestTimedRetries goes on after errors, and does not fight over a file that it
// cannot change.
func TestTimedRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(lines("A enable=true pauseAt=" + in(time.Minute)))
		store.fail = func(int) (error, bool) { return nacos.ErrUnavailable, false }
		_, stop := runs(t, store, 1, nil)
		defer stop()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if store.writes() != 0 || store.tries() < 5 || store.tries() > 100 {
			t.Fatalf("%d tries, %d writes", store.tries(), store.writes())
		}
		store.mu.Lock()
		store.fail = nil
		store.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		if *lookup(t, store.text(), "A").Enable || store.writes() != 1 {
			t.Errorf("%d writes\n%s", store.writes(), store.text())
		}
	})
	synctest.Test(t, func(t *testing.T) {
		// The window stands in an entry that another entry of the same listener hides
		// from edits.
		store := newMemory(lines("A pauseAt=2000-01-01T00:00:10Z", "A enable=true"))
		_, stop := runs(t, store, 1, nil)
		defer stop()
		time.Sleep(time.Hour)
		synctest.Wait()
		if store.tries() > 3 {
			t.Errorf("%d tries\n%s", store.tries(), store.text())
		}
	})
}

// TestTimedFaults carries out what it can in a file with a fault that was there
// before, and leaves a fatal one alone.
func TestTimedFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(lines("A enable=true pauseAt=2000-01-01T00:00:10Z", "B enable=maybe"))
		_, stop := runs(t, store, 1, nil)
		defer stop()
		time.Sleep(time.Minute)
		synctest.Wait()
		if *lookup(t, store.text(), "A").Enable {
			t.Error("not paused")
		}
		fatal := store.text() + "x=\\u1\nrabbitmq.toggle.consumers[0].resumeAt=2000-01-01T00:00:20Z\n"
		store.put(key, fatal, "anna")
		time.Sleep(time.Minute)
		if store.text() != fatal {
			t.Error("a fatal file was written")
		}
	})
}

// TestTimedReadOnly writes nothing, and counts as nobody who could.
func TestTimedReadOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(lines("A enable=true pauseAt=2000-01-01T00:00:10Z"))
		_, stop := runs(t, store, 1, func(c *Config) { c.ReadOnly = true })
		defer stop()
		time.Sleep(time.Hour)
		synctest.Wait()
		if store.tries() != 0 {
			t.Errorf("%d tries", store.tries())
		}
	})
	if err := New(Config{}).Run(t.Context()); err == nil {
		t.Error("ran without a store")
	}
}

// TestTimedAllApps follows every application of the fleet.
func TestTimedAllApps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(lines("A enable=true pauseAt=2000-01-01T00:00:10Z"))
		show := newScene(store)
		_, stop := runs(t, store, 1, func(c *Config) { c.App, c.Fleet = "", show })
		defer stop()
		time.Sleep(time.Minute)
		synctest.Wait()
		if *lookup(t, store.text(), "A").Enable {
			t.Error("not paused")
		}
	})
}

// TestTimedAndUser lets a user's write in between stand.
func TestTimedAndUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(lines("A enable=true pauseAt=2000-01-01T00:00:10Z"))
		var once sync.Once
		store.before = func(int) { once.Do(func() { store.put(key, lines("A enable=true updatedBy=anna"), "anna") }) }
		_, stop := runs(t, store, 1, nil)
		defer stop()
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := lookup(t, store.text(), "A"); !*got.Enable || store.writes() != 0 {
			t.Errorf("got\n%s", store.text())
		}
	})
}

func TestUndo(t *testing.T) {
	store := newMemory(lines("A enable=true concurrentConsumers=2 reason=x", "B"))
	show := newScene(store)
	show.host("B", "host-a:1:x", func(*fleet.Host) {})
	c := newControl(t, Config{Store: store, Fleet: show})
	if _, err := c.UndoPlan(t.Context()); !errors.Is(err, ErrNothingToUndo) {
		t.Errorf("got %v", err)
	}
	write(t, c, Intent{Op: Pause, ID: id("A"), Reason: "y", Until: time.Now().Add(time.Hour)}, Intent{Op: Pause, ID: id("B")})
	write(t, c, Intent{Op: Pause, ID: id("A")}, Intent{Op: Scale, ID: id("B"), Min: ptr(3), Max: ptr(6)})
	store.put(key, "# new\n"+store.text(), "anna")

	p, err := c.UndoPlan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// B had no concurrency: what its instance reported is written out.
	if !strings.Contains(codes(p.Warnings), "undo-absent") || p.Files[0].Refusal != nil {
		t.Errorf("warnings %v, %v", p.Warnings, p.Files[0].Refusal)
	}
	if w := applied(t, c, p).Files[0]; w.Err != nil {
		t.Fatal(w.Err)
	}
	a, b := lookup(t, store.text(), "A"), lookup(t, store.text(), "B")
	if *a.Enable || a.ResumeAt == nil || *a.Reason != "y" || *b.Min != 2 || *b.Max != 4 || *b.Enable || !strings.HasPrefix(store.text(), "# new\n") {
		t.Errorf("got\n%s", store.text())
	}
	// An undo can be undone.
	if p, err = c.UndoPlan(t.Context()); err != nil {
		t.Fatal(err)
	}
	applied(t, c, p)
	if b := lookup(t, store.text(), "B"); *b.Min != 3 || *b.Max != 6 {
		t.Errorf("got\n%s", store.text())
	}
}

// TestUndoAbsent writes out that a listener ran.
func TestUndoAbsent(t *testing.T) {
	store := newMemory(lines("A", "B enable=true"))
	c := newControl(t, Config{Store: store})
	write(t, c, Intent{Op: Pause, ID: id("A")}, Intent{Op: Pause, ID: id("B")}, Intent{Op: Pause, ID: id("New")})
	p, err := c.UndoPlan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if codes(p.Warnings) != "undo-absent undo-absent" {
		t.Errorf("warnings %v", p.Warnings)
	}
	applied(t, c, p)
	for _, l := range []string{"A", "B", "New"} {
		if e := lookup(t, store.text(), l).Enable; e == nil || !*e {
			t.Errorf("%s is left as it was\n%s", l, store.text())
		}
	}
}

// TestUndoChanged leaves alone what somebody else has changed since.
func TestUndoChanged(t *testing.T) {
	store := newMemory(lines("A enable=true", "B enable=true"))
	c := newControl(t, Config{Store: store})
	write(t, c, Intent{Op: Pause, ID: id("A")}, Intent{Op: Pause, ID: id("B")})
	anna := newControl(t, Config{Store: store, Operator: "anna"})
	write(t, anna, Intent{Op: Resume, ID: id("A")})
	p, err := c.UndoPlan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(codes(p.Warnings), "undo-changed") || !strings.Contains(p.Warnings[0].Text, "by anna") {
		t.Errorf("warnings %v", p.Warnings)
	}
	applied(t, c, p)
	if !*lookup(t, store.text(), "B").Enable || *lookup(t, store.text(), "A").UpdatedBy != "anna" {
		t.Errorf("got\n%s", store.text())
	}
}

func TestHistoryAndRollback(t *testing.T) {
	store := newMemory(lines("A", "B enable=true"))
	c := newControl(t, Config{Store: store})
	first := store.text()
	write(t, c, Intent{Op: Pause, ID: id("A")}, Intent{Op: Scale, ID: id("B"), Min: ptr(1), Max: ptr(2)})
	list, err := c.History(t.Context(), app)
	if err != nil || len(list) != 2 {
		t.Fatalf("got %v, %v", list, err)
	}
	if v := list[0]; v.By != "oncall" || v.MD5 != sum(store.text()) || v.Changes[0].String() != "A: enable absent → false" || list[1].Text != first {
		t.Errorf("got %+v", v)
	}
	p := planned(t, c, Intent{Op: Rollback, ID: fleet.ID{App: app}, Version: list[1].ID})
	if got := codes(p.Warnings); got != "undo-absent undo-kept" {
		t.Errorf("warnings %v", p.Warnings)
	}
	if w := applied(t, c, p).Files[0]; w.Err != nil {
		t.Fatal(w.Err)
	}
	want := strings.Replace(first, "listenerId=A\n", "listenerId=A\nrabbitmq.toggle.consumers[0].enable=true\n", 1)
	if store.text() != want {
		t.Errorf("got\n%s", store.text())
	}
	if _, err := New(Config{Store: struct{ ConfigStore }{store}}).History(t.Context(), app); !errors.Is(err, ErrNoHistory) {
		t.Errorf("got %v", err)
	}
}

type historyOf struct {
	ConfigStore
	changes []nacos.Change
}

func (h historyOf) History(context.Context, nacos.Key, int) ([]nacos.Change, error) {
	return h.changes, nil
}

func TestHistoryOfAnUnreadableVersion(t *testing.T) {
	good, bad, off := lines("A enable=true"), lines("A enable=true")+"x=\\u1\n", lines("A enable=false")
	c := newControl(t, Config{Store: historyOf{newMemory(off), []nacos.Change{
		{ID: "3", Op: "update", Known: true, Text: off, Previous: bad},
		{ID: "2", Op: "update", Known: true, Text: bad, Previous: good},
		{ID: "1", Op: "insert", Known: true, Text: good},
	}}})
	list, err := c.History(t.Context(), app)
	if err != nil {
		t.Fatal(err)
	}
	if v := list[1]; len(v.Changes) != 0 || v.Unreadable != "cannot be read, line 3: \\u without four hex digits in \"x\"" {
		t.Errorf("the version that cannot be read: %+v", v)
	}
	if v := list[0]; len(v.Changes) != 1 || v.Changes[0].String() != "A: enable true → false" || v.Unreadable != "" {
		t.Errorf("the version after it: %+v", v)
	}
}

func TestAuditDirectory(t *testing.T) {
	store := newMemory(lines("A"))
	c := newControl(t, Config{Store: store, AuditDir: "/dev/null/x"})
	p := planned(t, c, Intent{Op: Pause, ID: id("A")})
	if codes(p.Warnings) != "audit" {
		t.Errorf("warnings %v", p.Warnings)
	}
	if w := applied(t, c, p).Files[0]; w.Err != nil {
		t.Errorf("an audit log that cannot be written stopped a pause: %v", w.Err)
	}
}
