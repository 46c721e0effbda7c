package control

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belay-mq/belay/consumers/observe"
	"github.com/belay-mq/belay/nacos"
	"github.com/belay-mq/belay/registry/fleet"
	"github.com/belay-mq/belay/registry/toggle"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ptr[T any](v T) *T { return &v }

func TestPlanPause(t *testing.T) {
	store := newMemory(lines("SettleConsumer enable=true", "RefundConsumer"))
	show := newScene(store)
	show.host("SettleConsumer", "host-a:1:x", func(*fleet.Host) {})
	show.host("SettleConsumer", "host-b:1:y", func(*fleet.Host) {})
	show.host("SettleConsumer", "host-c:1:z", func(h *fleet.Host) { h.Lost = true })
	show.broker("SettleConsumer", 4)
	show.rows["SettleConsumer"].Queues[0].Hazards = []observe.Hazard{{Code: "ttl", In: time.Hour, Text: "late"}, {Code: "max-length", In: time.Minute, Text: "soon"}}
	c := newControl(t, Config{Store: store, Fleet: show, Context: "PROD"})
	before := store.text()

	until := time.Now().Add(time.Hour)
	p := planned(t, c, Intent{Op: Pause, ID: id("SettleConsumer"), Reason: "vendor", Until: until})
	if store.text() != before || store.tries() != 0 {
		t.Fatal("a plan wrote")
	}
	f := p.Files[0]
	if p.Context != "PROD" || f.App != app || f.Refusal != nil || f.Unchanged || f.Base.MD5 != sum(before) {
		t.Errorf("got %+v", f)
	}
	if len(f.Affected) != 1 || f.Affected[0].Instances != 2 || strings.Join(f.Affected[0].Hosts, " ") != "host-a host-b" {
		t.Errorf("affected %+v", f.Affected)
	}
	if len(p.Hazards) != 2 || p.Hazards[0].Code != "max-length" {
		t.Errorf("hazards %+v", p.Hazards)
	}
	if !p.Timed || p.Writers != 0 || !strings.Contains(codes(p.Warnings), "no-writer") {
		t.Errorf("timed %v, %d writers, %s", p.Timed, p.Writers, codes(p.Warnings))
	}
	if !strings.Contains(f.Diff, "-rabbitmq.toggle.consumers[0].enable=true\n+rabbitmq.toggle.consumers[0].enable=false\n") {
		t.Errorf("diff\n%s", f.Diff)
	}
	if f.Changes[0].String() != "SettleConsumer: enable true → false" {
		t.Errorf("changes %v", f.Changes)
	}
	got := lookup(t, f.After, "SettleConsumer")
	if *got.Reason != "vendor" || *got.UpdatedBy != "oncall" || *got.ResumeAt != stamp(until) || got.PauseAt != nil {
		t.Errorf("after\n%s", f.After)
	}
	show.writers = 3
	if p := planned(t, c, Intent{Op: Pause, ID: id("SettleConsumer"), At: time.Now().Add(time.Minute), Until: until}); p.Writers != 3 || codes(p.Warnings) != "" {
		t.Errorf("%d writers, %s", p.Writers, codes(p.Warnings))
	} else if got := lookup(t, p.Files[0].After, "SettleConsumer"); !*got.Enable || got.PauseAt == nil {
		t.Errorf("a planned window\n%s", p.Files[0].After)
	}
}

func TestPlanErrors(t *testing.T) {
	store := newMemory(lines("A"))
	c := newControl(t, Config{Store: store})
	now := time.Now()
	text := "x=1"
	tests := map[string][]Intent{
		"nothing":       nil,
		"no app":        {{Op: Pause, ID: fleet.ID{Listener: "A"}}},
		"unknown op":    {{Op: "drop", ID: id("A")}},
		"ends before":   {{Op: Pause, ID: id("A"), Until: now.Add(-time.Second)}},
		"ends early":    {{Op: Pause, ID: id("A"), At: now.Add(2 * time.Hour), Until: now.Add(time.Hour)}},
		"no numbers":    {{Op: Scale, ID: id("A")}},
		"twice":         {{Op: Pause, ID: id("A")}, {Op: Resume, ID: id("A")}},
		"edit and more": {{Op: Edit, ID: fleet.ID{App: app}, Text: &text}, {Op: Pause, ID: id("A")}},
		"empty text":    {{Op: Edit, ID: fleet.ID{App: app}, Text: ptr("  \n")}},
		"undo":          {{Op: Undo, ID: id("A")}},
		"no version":    {{Op: Rollback, ID: fleet.ID{App: app}, Version: "99"}},
	}
	for name, intents := range tests {
		if p, err := c.Plan(t.Context(), intents...); err == nil {
			t.Errorf("%s: planned %+v", name, p.Files)
		}
	}
	store.getErr = nacos.ErrUnavailable
	if _, err := c.Plan(t.Context(), Intent{Op: Pause, ID: id("A")}); !errors.Is(err, nacos.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

func TestPlanRefusals(t *testing.T) {
	store := newMemory(lines("A") + "rabbitmq.toggle.consumers[1].listenerId=B\nrabbitmq.toggle.consumers[1].enable=maybe\n")
	c := newControl(t, Config{Store: store})
	p := planned(t, c, Intent{Op: Pause, ID: id("A")})
	f := p.Files[0]
	if f.Refusal == nil || f.Refusal.Code != toggle.BadBoolean || f.Refusal.Line != 3 || !f.Forceable || f.Diff == "" {
		t.Fatalf("got %+v", f)
	}
	if !strings.Contains(p.Warnings[0].Text, app+" will not start with this file") {
		t.Errorf("warnings %v", p.Warnings)
	}
	ticket := applied(t, c, p)
	var refusal *toggle.Refusal
	if w := ticket.Files[0]; !errors.As(w.Err, &refusal) || w.Phase != fleet.WriteFailed || store.tries() != 0 {
		t.Errorf("got %+v", w)
	}
	p = planned(t, c, Intent{Op: Pause, ID: id("A"), Force: true})
	if p.Files[0].Refusal != nil {
		t.Fatalf("with force: %v", p.Files[0].Refusal)
	}
	applied(t, c, p)
	if *lookup(t, store.text(), "A").Enable {
		t.Error("not written")
	}
	if p := planned(t, c, Intent{Op: Scale, ID: id("A"), Min: ptr(4), Max: ptr(2), Force: true}); p.Files[0].Refusal == nil || p.Files[0].Forceable || p.Files[0].NeedsEdit() {
		t.Errorf("max below min: %+v", p.Files[0].Refusal)
	}
	bad := lines("A") + "x=\\u1\n"
	if p := planned(t, c, Intent{Op: Edit, ID: fleet.ID{App: app}, Text: &bad}); p.Files[0].Refusal == nil || p.Files[0].Refusal.Line != 2 || p.Files[0].NeedsEdit() {
		t.Errorf("a fatal text: %+v", p.Files[0].Refusal)
	}
	c = newControl(t, Config{Store: newMemory(bad)})
	if p := planned(t, c, Intent{Op: Pause, ID: id("A"), Force: true}); !p.Files[0].NeedsEdit() {
		t.Errorf("a pause in a fatal text: %+v", p.Files[0].Refusal)
	}
}

func TestReadOnlyAndReason(t *testing.T) {
	store := newMemory(lines("A"))
	c := newControl(t, Config{Store: store, ReadOnly: true})
	if _, err := c.Apply(t.Context(), planned(t, c, Intent{Op: Pause, ID: id("A")})); !errors.Is(err, ErrReadOnly) {
		t.Errorf("got %v", err)
	}
	c = newControl(t, Config{Store: store, Confirm: Confirm{RequireReason: true}})
	if _, err := c.Apply(t.Context(), planned(t, c, Intent{Op: Pause, ID: id("A")})); !errors.Is(err, ErrReasonRequired) {
		t.Errorf("got %v", err)
	}
	write(t, c, Intent{Op: Pause, ID: id("A"), Reason: "late"})
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Apply(t.Context(), planned(t, c, Intent{Op: Resume, ID: id("A"), Reason: "done"})); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
	if store.writes() != 1 {
		t.Errorf("%d writes", store.writes())
	}
}

func TestAlready(t *testing.T) {
	store := newMemory(lines("A enable=false updatedBy=anna reason=late", "B concurrentConsumers=2 maxConcurrentConsumers=4 enable=true"))
	c := newControl(t, Config{Store: store})
	p := planned(t, c, Intent{Op: Pause, ID: id("A")})
	if f := p.Files[0]; !f.Unchanged || f.UnchangedBy != "anna" || p.Warnings[0].Text != "A is already paused by anna" {
		t.Errorf("got %+v", p)
	}
	ticket := applied(t, c, p)
	if w := ticket.Files[0]; w.Err != nil || w.MD5 != "" || w.Phase != fleet.Done || w.UnchangedBy != "anna" {
		t.Errorf("got %+v", w)
	}
	for _, in := range []Intent{{Op: Resume, ID: id("B")}, {Op: Scale, ID: id("B"), Min: ptr(2), Max: ptr(4)}} {
		if p := planned(t, c, in); !p.Files[0].Unchanged {
			t.Errorf("%s: got %+v", in.Op, p.Files[0])
		}
	}
	// An end, or one consumer, is a change.
	for _, in := range []Intent{{Op: Pause, ID: id("A"), Until: time.Now().Add(time.Hour)}, {Op: Resume, ID: id("B"), Min: ptr(1), Max: ptr(1)}} {
		if p := planned(t, c, in); p.Files[0].Unchanged {
			t.Errorf("%s is unchanged", in.Op)
		}
	}
	// One of two is there already: one write for the other.
	if p := planned(t, c, Intent{Op: Pause, ID: id("A")}, Intent{Op: Pause, ID: id("B")}); p.Files[0].Unchanged || len(p.Files[0].Changes) == 0 || codes(p.Warnings) != "already" {
		t.Errorf("got %+v", p)
	}
	if store.tries() != 0 {
		t.Errorf("%d tries", store.tries())
	}
}

// TestDrift writes again what the file says already where the listener is not so.
func TestDrift(t *testing.T) {
	store := newMemory(lines("A enable=false updatedBy=anna"))
	show := newScene(store)
	c := newControl(t, Config{Store: store, Fleet: show})
	show.row("A").State = fleet.Drift
	p := planned(t, c, Intent{Op: Pause, ID: id("A")})
	if p.Files[0].Unchanged || !strings.Contains(codes(p.Warnings), "again") {
		t.Fatalf("got %+v", p)
	}
	before := store.text()
	if w := applied(t, c, p).Files[0]; w.Err != nil || store.text() == before {
		t.Errorf("got %+v", w)
	}
}

// TestRefusedWrite says at once why nothing was written.
func TestRefusedWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(lines("A"))
		store.fail = func(int) (error, bool) { return nacos.ErrForbidden, false }
		c := newControl(t, Config{Store: store})
		p := planned(t, c, Intent{Op: Pause, ID: id("A")})
		began := time.Now()
		if w := applied(t, c, p).Files[0]; !errors.Is(w.Err, nacos.ErrForbidden) || time.Since(began) > 0 {
			t.Errorf("after %s: %+v", time.Since(began), w)
		}
	})
	if _, err := New(Config{}).Plan(t.Context(), Intent{Op: Pause, ID: id("A")}); err == nil {
		t.Error("planned without a store")
	}
}

func TestResumeClears(t *testing.T) {
	store := newMemory(lines("A enable=false updatedBy=anna reason=late resumeAt=2036-01-02T03:04:05Z pauseAt=2036-01-01T03:04:05Z"))
	c := newControl(t, Config{Store: store})
	write(t, c, Intent{Op: Resume, ID: id("A"), Min: ptr(1), Max: ptr(1)})
	got := lookup(t, store.text(), "A")
	if !*got.Enable || got.Reason != nil || got.ResumeAt != nil || got.PauseAt != nil || *got.UpdatedBy != "oncall" || *got.Min != 1 || *got.Max != 1 {
		t.Errorf("got\n%s", store.text())
	}
}

// TestCreate writes the first toggle of an application without a file.
func TestCreate(t *testing.T) {
	store := newMemory("")
	c := newControl(t, Config{Store: store, AuditDir: t.TempDir()})
	ticket := write(t, c, Intent{Op: Pause, ID: id("A"), Reason: "x"})
	if ticket.Files[0].MD5 != sum(store.text()) || *lookup(t, store.text(), "A").Enable {
		t.Errorf("got\n%s", store.text())
	}
}

// TestConflictMerged keeps a foreign change that came in between.
func TestConflictMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(lines("A", "B"))
		dir := t.TempDir()
		c := newControl(t, Config{Store: store, AuditDir: dir})
		p := planned(t, c, Intent{Op: Pause, ID: id("A")})
		store.put(key, "# note\n"+lines("A", "B enable=false"), "anna")
		ticket := applied(t, c, p)
		if w := ticket.Files[0]; w.Err != nil || !w.Merged || w.MD5 != sum(store.text()) {
			t.Fatalf("got %+v", w)
		}
		if !strings.HasPrefix(store.text(), "# note\n") || *lookup(t, store.text(), "A").Enable || *lookup(t, store.text(), "B").Enable {
			t.Errorf("got\n%s", store.text())
		}
		audit := auditLines(t, dir)
		if len(audit) != 1 || !audit[0].Merged || audit[0].By != "oncall" || audit[0].Result != "written" || audit[0].Changes[0] != (AuditChange{"A", "enable", "", "false"}) {
			t.Errorf("audit %+v", audit)
		}
	})
}

// TestConflictContradicts shows both where the same listener was changed.
func TestConflictContradicts(t *testing.T) {
	tests := map[string]struct {
		theirs   string
		conflict bool
		by       string
	}{
		"paused, too":  {lines("A enable=false updatedBy=anna"), false, "anna"},
		"scaled":       {lines("A enable=true concurrentConsumers=3"), false, ""},
		"window":       {lines("A enable=true resumeAt=2036-01-01T00:00:00Z"), true, ""},
		"no opinion":   {lines("A"), true, ""},
		"removed":      {lines("B"), true, ""},
		"another text": {"# x\n" + lines("A enable=true"), false, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newMemory(lines("A enable=true"))
				c := newControl(t, Config{Store: store})
				p := planned(t, c, Intent{Op: Pause, ID: id("A")})
				store.put(key, tt.theirs, "anna")
				w := applied(t, c, p).Files[0]
				var conflict *nacos.ConflictError
				if errors.As(w.Err, &conflict) != tt.conflict {
					t.Fatalf("got %+v", w)
				}
				switch {
				case tt.conflict && (conflict.Actual.Text != tt.theirs || store.text() != tt.theirs || w.Phase != fleet.Conflict):
					t.Errorf("got %+v with\n%s", w, store.text())
				case tt.by != "" && (w.UnchangedBy != tt.by || w.MD5 != "" || store.writes() > 0):
					t.Errorf("got %+v", w)
				case !tt.conflict && *lookup(t, store.text(), "A").Enable:
					t.Errorf("got\n%s", store.text())
				}
			})
		})
	}
}

// TestConflictForEver gives up after some seconds.
func TestConflictForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(lines("A"))
		n := 0
		store.before = func(int) {
			n++
			store.put(key, strings.Repeat("#\n", n)+lines("A"), "robot")
		}
		c := newControl(t, Config{Store: store})
		p := planned(t, c, Intent{Op: Pause, ID: id("A")})
		began := time.Now()
		w := applied(t, c, p).Files[0]
		var conflict *nacos.ConflictError
		if !errors.As(w.Err, &conflict) {
			t.Fatalf("got %+v", w)
		}
		if took := time.Since(began); took < 4*time.Second || took > 7*time.Second || n > 40 {
			t.Errorf("gave up after %s and %d tries", took, n)
		}
	})
}

// TestEditConflict never merges a whole text.
func TestEditConflict(t *testing.T) {
	store := newMemory(lines("A"))
	c := newControl(t, Config{Store: store})
	text := lines("A enable=false")
	p := planned(t, c, Intent{Op: Edit, ID: fleet.ID{App: app}, Text: &text})
	store.put(key, "# x\n"+lines("A"), "anna")
	if w := applied(t, c, p).Files[0]; w.Phase != fleet.Conflict || store.writes() != 0 {
		t.Errorf("got %+v", w)
	}
}

// TestErrorsAfterPublish looks again before it says that a write failed.
func TestErrorsAfterPublish(t *testing.T) {
	for _, applies := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			store := newMemory(lines("A"))
			store.fail = func(int) (error, bool) { return nacos.ErrUnknownOutcome, applies }
			dir := t.TempDir()
			c := newControl(t, Config{Store: store, AuditDir: dir})
			w := applied(t, c, planned(t, c, Intent{Op: Pause, ID: id("A")})).Files[0]
			audit := auditLines(t, dir)
			if applies && (w.Err != nil || w.MD5 != sum(store.text()) || audit[0].Result != "written") {
				t.Errorf("applied: got %+v, %+v", w, audit)
			}
			if !applies && (!errors.Is(w.Err, nacos.ErrUnknownOutcome) || w.Phase != fleet.WriteFailed || audit[0].Error == "") {
				t.Errorf("not applied: got %+v, %+v", w, audit)
			}
		})
	}
}

// TestOverwrote tells of a foreign change that was lost on a server without
// compare-and-publish.
func TestOverwrote(t *testing.T) {
	store := newMemory(lines("A"))
	c := newControl(t, Config{Store: &overwriting{store}})
	if w := applied(t, c, planned(t, c, Intent{Op: Pause, ID: id("A")})).Files[0]; w.Err != nil || w.Lost != "theirs" || w.MD5 == "" {
		t.Errorf("got %+v", w)
	}
}

type overwriting struct{ *memory }

func (o *overwriting) Update(ctx context.Context, k nacos.Key, content nacos.Content, base string) (nacos.State, error) {
	s, err := o.memory.Update(ctx, k, content, base)
	if err != nil {
		return s, err
	}
	return s, &nacos.OverwroteError{Key: k, Lost: "theirs", Written: s}
}

// TestTwoSteps raises the maximum first where no instance reports.
func TestTwoSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(lines("A concurrentConsumers=1 maxConcurrentConsumers=2", "B"))
		show := newScene(store)
		c := newControl(t, Config{Store: store, Fleet: show})
		p := planned(t, c, Intent{Op: Scale, ID: id("A"), Min: ptr(4), Max: ptr(8)}, Intent{Op: Pause, ID: id("B")})
		if !p.Files[0].TwoStep {
			t.Fatal("not in two steps")
		}
		var between toggle.Toggle
		store.before = func(try int) {
			if try == 2 {
				between = lookup(t, store.text(), "A")
			}
		}
		began := time.Now()
		w := applied(t, c, p).Files[0]
		if w.Err != nil || store.writes() != 2 || time.Since(began) < 5*time.Second {
			t.Fatalf("got %+v after %d writes and %s", w, store.writes(), time.Since(began))
		}
		if *between.Min != 1 || *between.Max != 8 {
			t.Errorf("between %+v", between)
		}
		if got := lookup(t, store.text(), "A"); *got.Min != 4 || *got.Max != 8 || w.MD5 != sum(store.text()) || *lookup(t, store.text(), "B").Enable {
			t.Errorf("got\n%s", store.text())
		}
		show.host("A", "host-a:1:x", func(*fleet.Host) {})
		if p := planned(t, c, Intent{Op: Scale, ID: id("A"), Min: ptr(9), Max: ptr(9)}); p.Files[0].TwoStep {
			t.Error("ours are scaled in two steps")
		}
	})
}

// TestTwoDashboards pauses different listeners, and the same one, at once.
func TestTwoDashboards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(lines("A", "B", "C"))
		anna := newControl(t, Config{Store: store, Operator: "anna"})
		ben := newControl(t, Config{Store: store, Operator: "ben"})
		pa := planned(t, anna, Intent{Op: Pause, ID: id("A")}, Intent{Op: Pause, ID: id("C")})
		pb := planned(t, ben, Intent{Op: Pause, ID: id("B")}, Intent{Op: Pause, ID: id("C")})
		applied(t, anna, pa)
		applied(t, ben, pb)
		for _, l := range []string{"A", "B", "C"} {
			if *lookup(t, store.text(), l).Enable {
				t.Errorf("%s runs", l)
			}
		}
		if by := *lookup(t, store.text(), "C").UpdatedBy; by != "anna" {
			t.Errorf("C was paused again by %s", by)
		}
		if w := applied(t, ben, planned(t, ben, Intent{Op: Pause, ID: id("C")})).Files[0]; w.UnchangedBy != "anna" {
			t.Errorf("got %+v", w)
		}
	})
}

// TestTwoApplications gives each application its own publish and result.
func TestTwoApplications(t *testing.T) {
	store := newMemory(lines("A"))
	other := nacos.Key{DataID: file, Group: "order-service"}
	theirs := fleet.ID{App: other.Group, Listener: "A"}
	store.put(other, lines("A"), "")
	dir := t.TempDir()
	c := newControl(t, Config{Store: store, AuditDir: dir})
	p := planned(t, c, Intent{Op: Pause, ID: id("A")}, Intent{Op: Pause, ID: theirs, By: "anna"})
	if len(p.Files) != 2 || p.Files[0].App != app || p.Files[1].App != other.Group {
		t.Fatalf("got %+v", p.Files)
	}
	store.put(other, lines("B"), "ben")
	ticket := applied(t, c, p)
	var conflict *nacos.ConflictError
	if mine, other := ticket.Files[0], ticket.Files[1]; mine.Err != nil || mine.MD5 == "" || !errors.As(other.Err, &conflict) {
		t.Errorf("got %+v", ticket.Files)
	}
	results := map[string]string{}
	for _, line := range auditLines(t, dir) {
		results[line.App] = line.By + " " + line.Result
	}
	if results[app] != "oncall written" || results[other.Group] != "anna conflict" {
		t.Errorf("audit %v", results)
	}
	// Only what was written can be undone.
	if p, err := c.UndoPlan(t.Context()); err != nil || len(p.Files) != 1 || p.Files[0].App != app {
		t.Errorf("got %+v, %v", p, err)
	}
}

func TestPlanWarnings(t *testing.T) {
	store := newMemory(lines("A", "A enable=true"))
	store.losses = []string{"description"}
	s := store.states[key]
	s.Stale = time.Now()
	store.states[key] = s
	show := newScene(store)
	c := newControl(t, Config{Store: store, Fleet: show})
	if got := codes(planned(t, c, Intent{Op: Pause, ID: id("A")}).Warnings); got != "stale metadata not-ours" {
		t.Errorf("warnings %s", got)
	}
	if got := codes(planned(t, c, Intent{Op: Pause, ID: id("Nobody")}).Warnings); got != "stale metadata unknown" {
		t.Errorf("warnings %s", got)
	}
	text := lines("A enable=true pauseAt=2001-01-01T00:00:00Z concurrentConsumers=0")
	p := planned(t, c, Intent{Op: Edit, ID: fleet.ID{App: app}, Text: &text})
	if got := codes(p.Warnings); got != "stale out-of-range past metadata" {
		t.Errorf("warnings %s: %v", got, p.Warnings)
	}
	if a := p.Files[0].Affected; len(a) != 1 || a[0].ID != id("A") {
		t.Errorf("affected %+v", a)
	}
}
