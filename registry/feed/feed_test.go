package feed

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	releases "github.com/belay-mq/belay/consumers/release"
	"github.com/belay-mq/belay/registry/change"
	"github.com/belay-mq/belay/registry/fleet"
)

func row(id uint64, message string) releases.Row {
	return releases.Row{Database: "ApolloConfigDB", Epoch: 1, ID: id, Message: message, ChangedAt: time.Now()}
}

func (w *world) rows(list ...releases.Row) {
	w.t.Helper()
	for _, r := range list {
		if err := w.HandleRow(w.t.Context(), r); err != nil {
			w.t.Fatal(err)
		}
	}
}

func TestReleaseRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		var rows []releases.Row
		for id := uint64(4662); id <= 4711; id++ { // one transaction
			rows = append(rows, row(id, "order+default+application"))
		}
		w.rows(rows...)
		w.rows(row(4712, "pay+default+db"), row(4713, "a+b+c+d"))
		if p := w.Pending(); len(p) != 3 || brief(p[1]) != "release order+default+application 4662→4711 waiting ×50" ||
			p[0].Remaining != 500*time.Millisecond || p[0].Window != 500*time.Millisecond || p[0].Seq != 0 {
			t.Errorf("pending: %+v", p)
		}
		w.rest(200 * time.Millisecond)
		if p := w.Pending(); p[0].Remaining != 300*time.Millisecond {
			t.Errorf("remaining %v, want 300ms", p[0].Remaining)
		}
		w.rest(400 * time.Millisecond)
		got := map[string]bool{}
		for _, l := range w.news() {
			got[l] = true
		}
		for _, want := range []string{
			"release order+default+application 4662→4711 delivered ×50",
			"release pay+default+db 4712 delivered",
			"release a+b+c+d 4713 delivered malformed",
		} {
			if !got[want] {
				t.Errorf("no line %q in %v", want, got)
			}
		}
		late := row(4702, "pay+default+db")
		late.Late = true
		w.rows(late)
		w.rest(time.Second)
		w.expect("release pay+default+db 4702 delivered late")
		replay := row(4714, "pay+default+db")
		replay.Replay = true
		w.rows(replay)
		w.rest(time.Second)
		w.expect("release pay+default+db 4714 replay")
		if p := w.Pending(); len(p) != 0 {
			t.Errorf("pending: %+v", p)
		}
	})
}

// The same row never makes two lines.
func TestSameRowTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		w.rows(row(1, "a+b+c"))
		w.rest(time.Second)
		w.rows(row(1, "a+b+c"))
		w.rest(time.Second)
		w.expect("release a+b+c 1 delivered")
	})
}

// A table that begins anew has other rows under known ids.
func TestEpochForgetsThePast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		past := row(1, "a+b+c")
		past.History = true
		w.rows(past)
		w.expect("release a+b+c 1 delivered")
		w.HandleEvent(releases.Event{At: time.Now(), Database: "ApolloConfigDB", Kind: releases.EventEpoch, Epoch: 2})
		again := row(1, "a+b+c")
		again.Epoch = 2
		w.rows(again)
		w.rest(time.Second)
		if got := fmt.Sprint(w.news()); got != "[scanner ApolloConfigDB epoch release a+b+c 1 delivered]" &&
			got != "[release a+b+c 1 delivered scanner ApolloConfigDB epoch]" {
			t.Errorf("lines %s", got)
		}
	})
}

func TestScannerEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		event := func(k releases.EventKind, from, to uint64, text string) {
			w.HandleEvent(releases.Event{At: time.Now(), Database: "ApolloConfigDB", Kind: k, From: from, To: to, Text: text})
		}
		event(releases.EventGapOpened, 4703, 4708, "missing ids 4703 to 4708")
		w.rest(time.Second)
		w.expect("scanner gap 4703–4708 gap-open: missing ids 4703 to 4708")
		event(releases.EventGapClosed, 4703, 4708, "ids 4703 to 4708: dead after 1s")
		event(releases.EventGapOpened, 4710, 4710, "missing id 4710")
		event(releases.EventGapClosed, 4710, 4710, "id 4710: late after 3ms")
		for _, e := range []releases.Event{{Kind: releases.EventGapOpened, Proof: releases.ProofOpen}, {Kind: releases.EventGapClosed, Proof: releases.ProofDead}} {
			e.From, e.To, e.At, e.Text = 4720, 4721, time.Now(), string(e.Kind)
			w.HandleEvent(e)
		}
		event(releases.EventEpoch, 0, 0, "the table begins anew")
		event(releases.EventError, 0, 0, "connection refused")
		w.rest(time.Second)
		got := map[string]bool{}
		for _, l := range w.news() {
			got[l] = true
		}
		for _, want := range []string{
			"scanner gap 4703–4708 gap-closed: ids 4703 to 4708: dead after 1s",
			"scanner gap 4710 gap-closed ×2: id 4710: late after 3ms",
			"scanner gap 4720–4721 suppressed: gap-closed",
			"scanner ApolloConfigDB epoch ×2: the table begins anew",
			"scanner ApolloConfigDB failed ×2: connection refused",
		} {
			if !got[want] {
				t.Errorf("no line %q in %v", want, got)
			}
		}
	})
}

// Open gaps are shown with their age as long as the scanner shows them, and make no lines.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		since := time.Now()
		var p atomic.Pointer[Progress]
		p.Store(&Progress{Gaps: []releases.Gap{{Lo: 3, Hi: 5, Since: since}}})
		w := newWorld(t, Config{Scanner: func() Progress { return *p.Load() }})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.Run(ctx) }()
		w.rest(12 * time.Second)
		if got := w.Pending(); len(got) != 1 || brief(got[0]) != "scanner gap 3–5 gap-open: 12s, writer not finished" {
			t.Errorf("pending: %+v", got)
		}
		p.Store(&Progress{})
		w.rest(2 * time.Second)
		if got := w.Pending(); len(got) != 0 {
			t.Errorf("pending: %+v", got)
		}
		w.expect()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestListenersOfReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fine := func(context.Context, change.Delivery) error { return nil }
		w := newWorld(t, Config{Listeners: []change.Notifier{
			{Name: "cache", Sources: change.Subscribers, Notify: fine},
			{Name: "hook", Sources: change.Subscribers, Notify: func(context.Context, change.Delivery) error { return errors.New("no route") }},
			{Name: "slow", Sources: change.Subscribers, Notify: func(context.Context, change.Delivery) error { time.Sleep(time.Minute); return nil }},
			{Name: "other", Sources: change.SnapshotReplicas, Notify: fine},
		}})
		start := time.Now()
		w.rows(row(1, "a+b+c"))
		w.rest(600 * time.Millisecond)
		w.expect("release a+b+c 1 failed ok 0/1: hook: no route; will be tried again")
		w.rest(300 * time.Millisecond)
		lines, _ := w.Lines(w.seen, 10)
		if len(lines) != 1 || !lines[0].At.Equal(start.Add(500*time.Millisecond)) {
			t.Errorf("lines %+v, want one at the time of its delivery", lines)
		}
		w.expect("release a+b+c 1 delivered ok 1/2: hook: no route")
		w.rest(4 * time.Second)
		w.expect("release a+b+c 1 dead-letter ok 0/1: hook: no route; given up after 4 attempts")
		w.rest(2 * time.Minute)
		w.expect()
	})
	// Other changes are none of their business.
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{Listeners: []change.Notifier{{Name: "n", Sources: change.Subscribers,
			Notify: func(_ context.Context, d change.Delivery) error { t.Errorf("told of %q", d.Key); return nil }}}})
		w.file("app", entry(0, "A", true))
		w.show()
		w.rest(time.Second)
		w.file("app", entry(0, "A", false))
		w.show()
		w.rest(time.Second)
		w.expect("toggle app/A " + versionOf(md5Of(entry(0, "A", false))) + " delivered: running → paused")
	})
}

func TestToggles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		on, off := entry(0, "A", true), entry(0, "A", false, "updatedBy=oncall", "reason=vendor")
		w.file("app", on)
		w.show()
		w.rest(time.Second)
		w.expect() // it was there before
		w.file("app", off)
		w.show()
		w.rest(100 * time.Millisecond)
		if p := w.Pending(); len(p) != 1 || brief(p[0]) != "toggle app/A "+versionOf(md5Of(off))+" waiting: running → paused" {
			t.Errorf("pending: %+v", p)
		}
		w.rest(time.Second)
		w.expect("toggle app/A " + versionOf(md5Of(off)) + " delivered: running → paused by oncall: vendor")
		w.file("app", on)
		w.show()
		w.rest(100 * time.Millisecond)
		w.file("app", off)
		w.show()
		w.rest(time.Second)
		w.expect("toggle app/A " + versionOf(md5Of(off)) + " suppressed ×2: changed and changed back by oncall")
		silent := entry(0, "A", true, "updatedBy=oncall", "reason=vendor") // somebody edits by hand
		w.file("app", silent)
		w.show()
		w.rest(time.Second)
		w.expect("toggle app/A " + versionOf(md5Of(silent)) + " delivered: paused → running")
		w.file("app", off)
		w.show()
		w.rest(time.Second)
		w.news()
		both := off + entry(1, "B", true, "concurrentConsumers=2", "maxConcurrentConsumers=4")
		w.file("app", both)
		w.show()
		w.rest(time.Second)
		w.expect("toggle app/B " + versionOf(md5Of(both)) + " delivered: new in the file: running")
		scaled := off + entry(1, "B", true, "concurrentConsumers=4", "maxConcurrentConsumers=8", "pauseAt=2026-11-30T22:00:00Z")
		w.file("app", scaled)
		w.show()
		w.rest(time.Second)
		w.expect("toggle app/B " + versionOf(md5Of(scaled)) + " delivered: consumers 2-4 → 4-8, pauses 2026-11-30 22:00Z")
		w.file("app", off)
		w.show()
		w.rest(time.Second)
		w.expect("toggle app/B " + versionOf(md5Of(off)) + " cleaned: no longer in the file")
		w.file("app", "x=\\uXYZ")
		w.show()
		w.rest(time.Second)
		if got := w.news(); len(got) != 1 {
			t.Errorf("lines %q, want one that the file cannot be read", got)
		}
		w.file("app", off)
		w.show()
		w.rest(time.Second)
		w.expect() // what is in force never changed
	})
}

// A change that is applied everywhere at once is one line; one that takes longer has a second.
func TestApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		w.file("app", entry(0, "A", true))
		apply := func(ok bool, insts ...string) {
			for _, inst := range insts {
				h := w.host("app", "A", inst, "running")
				h.Applied, h.FileMD5 = ok, w.snap.Apps[0].File.MD5
			}
		}
		apply(true, "h:1:x", "h:2:x")
		w.show()
		w.rest(time.Second)
		w.expect()
		pausing := entry(0, "A", false)
		w.file("app", pausing)
		apply(true, "h:1:x", "h:2:x")
		w.show()
		w.rest(time.Second)
		w.expect("toggle app/A " + versionOf(md5Of(pausing)) + " applied ok 2/2: running → paused")
		resuming := entry(0, "A", true, "reason=x")
		w.file("app", resuming)
		apply(true, "h:1:x")
		w.show()
		w.rest(2 * time.Second)
		w.expect("toggle app/A " + versionOf(md5Of(resuming)) + " delivered: paused → running: x")
		apply(true, "h:2:x")
		w.show()
		lines, _ := w.Lines(w.seen, 10)
		if len(lines) != 1 || lines[0].Delay != 2*time.Second {
			t.Errorf("lines %+v, want one after 2 s", lines)
		}
		w.expect("toggle app/A " + versionOf(md5Of(resuming)) + " applied ok 2/2: 2/2 applied")
	})
}

func TestConsumers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		for _, inst := range []string{"a:1:x", "b:2:x", "c:3:x"} {
			w.host("app", "A", inst, "running")
		}
		w.show()
		w.rest(time.Second)
		w.expect()
		w.host("app", "A", "a:1:x", "recovering")
		w.show()
		w.rest(100 * time.Millisecond)
		if p := w.Pending(); len(p) != 1 || brief(p[0]) != "consumer app/A waiting: running → recovering on a:1" {
			t.Errorf("pending: %+v", p)
		}
		w.host("app", "A", "b:2:x", "draining")
		w.host("app", "A", "c:3:x", "draining")
		w.show()
		w.rest(time.Second)
		w.expect("consumer app/A delivered ×3: running → draining on 2 instances, running → recovering on a:1")
		w.host("app", "A", "a:1:x", "running")
		w.show()
		w.host("app", "A", "a:1:x", "recovering")
		w.show()
		w.rest(time.Second)
		w.expect("consumer app/A suppressed ×2: changed and changed back")
		w.snap.Rows[0].State, w.snap.Rows[0].Note = fleet.Drift, "wanted running, broker shows 0"
		w.show()
		w.rest(time.Second)
		w.expect("consumer app/A delivered: drift: wanted running, broker shows 0")
		w.snap.Rows[0].State = fleet.Running
		w.show()
		w.rest(time.Second)
		w.expect("consumer app/A delivered: no more drift")
	})
}

func TestInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		w.host("app", "A", "host-c:811:f3a9", "running")
		w.host("app", "A", "host-d:812:f3a9", "running")
		w.show()
		w.rest(time.Second)
		w.expect()
		// Lost and back within the window: one suppressed line, nothing of the listener.
		w.lose("host-c:811:f3a9", true)
		w.show()
		w.rest(310 * time.Millisecond)
		w.lose("host-c:811:f3a9", false)
		w.show()
		w.rest(time.Second)
		w.expect("instance host-c:811 suppressed ×2: gone and back after 310 ms")
		// Lost for longer.
		w.lose("host-c:811:f3a9", true)
		w.show()
		w.rest(2 * time.Second)
		w.expect("instance host-c:811 delivered: lost: three reports were missed")
		w.lose("host-c:811:f3a9", false)
		w.show()
		w.rest(2 * time.Second)
		w.expect("instance host-c:811 delivered: is back")
		// A goodbye, and no return.
		w.leave("host-d:812:f3a9")
		w.show()
		w.rest(2 * time.Second)
		w.expect("instance host-d:812 delivered: said goodbye")
		w.rest(2 * time.Minute)
		w.show()
		w.rest(time.Second)
		w.expect()
		if len(w.look.instances) != 1 || len(w.gone) != 0 {
			t.Errorf("remembers %v and %v of who left", w.look.instances, w.gone)
		}
		// A new one, and one that was there all the time.
		w.host("app", "A", "host-e:1:x", "running")
		w.snap.Instances[len(w.snap.Instances)-1].Started = time.Now()
		w.show()
		w.rest(time.Second)
		w.expect("instance host-e:1 delivered: started")
		w.host("app", "A", "host-f:1:x", "running")
		w.show()
		w.rest(time.Second)
		w.expect("instance host-f:1 delivered: appeared, running since 2000-01-01 00:00Z")
		// After an outage of ours all are found again.
		w.snap.Health = []fleet.Health{{Name: "rabbit", State: fleet.HealthDown}}
		w.show()
		w.snap.Health[0].State = fleet.HealthOK
		w.show()
		w.host("app", "A", "host-g:1:x", "running")
		w.show()
		w.rest(time.Second)
		w.expect()
	})
}

func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		w.snap.Health = []fleet.Health{{Name: "rabbit", State: fleet.HealthOK}, {Name: "apollo", State: fleet.HealthOK}}
		w.show()
		w.rest(time.Second)
		w.snap.Health[0].State, w.snap.Health[0].Err = fleet.HealthDown, "connection refused"
		w.show()
		w.rest(time.Second)
		w.expect("broker rabbit delivered: ok → down: connection refused")
		w.snap.Blocked = true
		w.show()
		w.rest(time.Second)
		w.expect("broker rabbit delivered: an alarm holds publishers back")
		w.snap.Blocked = false
		w.show()
		w.rest(time.Second)
		w.expect("broker rabbit delivered: the alarm is over")
	})
}

func TestRingDropsTheOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{Capacity: 10})
		for i := range 25 {
			w.add(Line{Source: Release, Key: fmt.Sprint(i), Status: Delivered})
		}
		lines, dropped := w.Lines(0, 4)
		if dropped != 15 || len(lines) != 4 || lines[0].Seq != 16 || lines[0].Key != "15" || lines[3].Seq != 19 {
			t.Errorf("dropped %d, lines %+v", dropped, lines)
		}
		if lines, dropped = w.Lines(19, 100); dropped != 0 || len(lines) != 6 || lines[5].Seq != 25 {
			t.Errorf("dropped %d, lines %+v", dropped, lines)
		}
		if lines, dropped = w.Lines(25, 100); dropped != 0 || lines != nil {
			t.Errorf("dropped %d, lines %+v after the last", dropped, lines)
		}
		if c, _ := w.Counters(); c.Lines != 25 || c.Dropped != 15 {
			t.Errorf("%+v", c)
		}
	})
}

func TestSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		w.rows(row(1, "a+b+c"))
		w.rest(100 * time.Millisecond)
		w.rows(row(2, "a+b+c"), row(3, "x+y+z"))
		w.rest(time.Second)
		w.rows(row(4, "a+b+c"))
		w.rest(120 * time.Millisecond)
		var got []string
		for _, l := range w.Steps("a+b+c") {
			got = append(got, fmt.Sprint(brief(l), " ", l.Remaining))
		}
		want := fmt.Sprint([]string{
			"release a+b+c 1 waiting 500ms", "release a+b+c 2 waiting 500ms", "release a+b+c 1→2 delivered ×2 0s",
			"release a+b+c 4 waiting 500ms", "release a+b+c 4 waiting 380ms",
		})
		if fmt.Sprint(got) != want {
			t.Errorf("steps %v\nwant  %v", got, want)
		}
		if steps := w.Steps("nothing"); len(steps) != 0 {
			t.Errorf("steps of an unknown key: %v", steps)
		}
	})
}

func TestGapsOfThePastAreNoNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		for _, kind := range []releases.EventKind{releases.EventGapOpened, releases.EventGapClosed} {
			w.HandleEvent(releases.Event{At: time.Now(), Database: "ApolloConfigDB", Kind: kind, From: 1, To: 44, History: true, Text: "ids 1 to 44"})
		}
		w.rest(time.Second)
		if lines := w.news(); len(lines) != 0 {
			t.Errorf("lines %v, want none", lines)
		}
	})
}
