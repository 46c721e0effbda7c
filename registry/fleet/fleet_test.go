package fleet_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belay-mq/belay/consumers/observe"
	"github.com/belay-mq/belay/registry/fleet"
	"github.com/belay-mq/belay/registry/presence"
)

var (
	running  = presence.ListenerReport{State: "running", Consumers: 1}
	stopped  = presence.ListenerReport{State: "stopped"}
	starting = presence.ListenerReport{State: "starting"}
	draining = presence.ListenerReport{State: "draining", Draining: 1, InFlight: 40}
)

func bubble(t *testing.T, f func(*testing.T, *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		synctest.Wait()
		f(t, w)
	})
}

// The list of states: of the lines that match, the first wins.
func TestStates(t *testing.T) {
	for name, c := range map[string]struct {
		file    []string // nil: no entry
		reports map[string]presence.ListenerReport
		broker  int // -1: not observed
		later   time.Duration
		state   fleet.State
		note    string
	}{
		"unknown":                        {[]string{"enable=true"}, nil, -1, 0, fleet.Unknown, "no instance reports it"},
		"unknown, broker shows none":     {[]string{"enable=false", "queue=q"}, nil, 0, 0, fleet.Unknown, "wanted paused, broker shows 0"},
		"failed beats all":               {[]string{"enable=true"}, map[string]presence.ListenerReport{"a": {State: "failed", LastError: text("no queue")}, "b": {State: "recovering"}}, 1, 0, fleet.Failed, "1 of 2 failed: no queue"},
		"missing queue":                  {[]string{"enable=true"}, map[string]presence.ListenerReport{"a": {State: "missing-queue", Attempts: 3}, "b": {State: "recovering"}}, 1, 0, fleet.MissingQueue, "attempt 3"},
		"recovering":                     {[]string{"enable=true"}, map[string]presence.ListenerReport{"a": {State: "recovering", Attempts: 2}, "b": running, "c": running}, 2, 0, fleet.Recovering, "1 of 3 recovering, attempt 2"},
		"refused is recovering":          {[]string{"enable=true"}, map[string]presence.ListenerReport{"a": {State: "refused", LastError: text("ACCESS_REFUSED")}}, 0, 0, fleet.Recovering, "refused: ACCESS_REFUSED"},
		"pausing":                        {[]string{"enable=false"}, map[string]presence.ListenerReport{"a": draining, "b": stopped}, 1, 0, fleet.Pausing, "a still draining 40"},
		"resuming":                       {[]string{"enable=true"}, map[string]presence.ListenerReport{"a": stopped}, 0, 0, fleet.Resuming, "a not there yet"},
		"scaling":                        {[]string{"enable=true", "concurrentConsumers=2", "maxConcurrentConsumers=4"}, map[string]presence.ListenerReport{"a": running}, 1, 0, fleet.Scaling, "a not there yet"},
		"starting":                       {nil, map[string]presence.ListenerReport{"a": starting}, 0, 0, fleet.Starting, ""},
		"drift":                          {[]string{"enable=false"}, map[string]presence.ListenerReport{"a": running, "b": stopped}, 1, 11 * time.Second, fleet.Drift, "running although paused: a"},
		"drift the other way":            {[]string{"enable=true"}, map[string]presence.ListenerReport{"a": stopped}, 0, 11 * time.Second, fleet.Drift, "stopped although wanted running: a"},
		"the broker shows more":          {[]string{"enable=false"}, map[string]presence.ListenerReport{"a": stopped}, 2, 11 * time.Second, fleet.Drift, "wanted paused, broker shows 2, 2 of nobody who reports"},
		"the broker shows none":          {[]string{"enable=true"}, map[string]presence.ListenerReport{"a": running}, 0, 11 * time.Second, fleet.Drift, "wanted running, broker shows 0"},
		"it shows more, no opinion":      {nil, map[string]presence.ListenerReport{"a": stopped}, 2, 11 * time.Second, fleet.Drift, "reported stopped, broker shows 2"},
		"it shows none, no opinion":      {nil, map[string]presence.ListenerReport{"a": running}, 0, 11 * time.Second, fleet.Drift, "reported running, broker shows 0"},
		"the broker is late":             {[]string{"enable=true"}, map[string]presence.ListenerReport{"a": running}, 0, 0, fleet.Running, ""},
		"paused":                         {[]string{"enable=false", "reason=vendor", "updatedBy=li"}, map[string]presence.ListenerReport{"a": stopped, "b": stopped}, 0, 0, fleet.Paused, "li: vendor"},
		"stopped":                        {[]string{"reason=x"}, map[string]presence.ListenerReport{"a": stopped}, 0, 0, fleet.Stopped, ""},
		"stopped by other means":         {nil, map[string]presence.ListenerReport{"a": {State: "stopped", By: "main"}, "b": running}, 1, 0, fleet.Stopped, "1 of 2 stopped"},
		"unmanaged":                      {nil, map[string]presence.ListenerReport{"a": running}, 1, 0, fleet.Unmanaged, ""},
		"running":                        {[]string{"enable=true"}, map[string]presence.ListenerReport{"a": running, "b": running}, 2, 0, fleet.Running, ""},
		"running without opinion":        {[]string{"reason=x"}, map[string]presence.ListenerReport{"a": running}, 1, 0, fleet.Running, ""},
		"not ours, runs although paused": {[]string{"enable=false", "queue=q", "updatedAt=2026-01-02T03:04:05Z"}, nil, 1, 11 * time.Second, fleet.Drift, "running although paused since 2 Jan"},
		"not ours, runs":                 {[]string{"enable=true", "queue=q"}, nil, 1, 0, fleet.Running, ""},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				if c.file == nil {
					w.text("# nothing\n")
				} else {
					w.file(c.file...)
				}
				if c.broker >= 0 {
					w.queue(c.broker)
				}
				for name, r := range c.reports {
					w.report(name, r)
				}
				w.row()
				time.Sleep(c.later)
				w.expect(c.state, c.note)
			})
		})
	}
}

func TestAPauseIsFollowed(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.file("enable=true")
		w.queue(2)
		w.report("a", running)
		w.report("b", running)
		w.expect(fleet.Running, "")
		w.file("enable=false")
		if r := w.expect(fleet.Pausing, "a not there yet"); r.Done != 0 || r.Total != 2 {
			t.Errorf("pausing %d/%d, want 0/2", r.Done, r.Total)
		}
		w.report("a", stopped)
		w.queue(1)
		if r := w.expect(fleet.Pausing, "b not there yet"); r.Done != 1 || r.Total != 2 {
			t.Errorf("pausing %d/%d, want 1/2", r.Done, r.Total)
		}
		w.report("b", stopped)
		w.queue(0)
		r := w.expect(fleet.Paused, "")
		if r.Inst.Applied != 2 || r.Broker.Value != 0 {
			t.Errorf("row %+v", r.Inst)
		}
	})
}

func TestLostInstances(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.file("enable=true")
		w.report("a", running)
		w.report("b", running)
		w.lose("b")
		r := w.expect(fleet.Running, "1 of 2 instances lost")
		if r.Inst.Total != 2 || r.Inst.Applied != 1 || r.Inst.Reporting != 1 {
			t.Errorf("instances %+v", r.Inst)
		}
		w.lose("a")
		w.expect(fleet.Unknown, "all 2 instances are lost")
	})
}

func TestABadFileLeavesTheLastGoodOneInForce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.file("enable=false")
		w.report("a", stopped)
		w.expect(fleet.Paused, "")
		w.text("rabbitmq.toggle.consumers[0].listenerId=L\\u0\n")
		w.expect(fleet.Paused, "")
		a := w.fleet.Snapshot().App("settle")
		if len(a.Problems) != 1 || !a.Problems[0].Loud || a.InForce != "md5-1" || a.File.MD5 != "md5-2" {
			t.Errorf("app %+v", a)
		}
	})
}

func TestNumbersOfSeveralListenersOnAQueue(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.text("rabbitmq.toggle.consumers[0].listenerId=L\nrabbitmq.toggle.consumers[0].enable=false\n")
		w.report("a", stopped)
		w.mu.Lock()
		s := w.seen["a"]
		s.Report.Listeners = append(s.Report.Listeners, presence.ListenerReport{ID: "Other", Queues: []string{"q"}, State: "running", Consumers: 3, Min: 3, Max: 3})
		w.seen["a"] = s
		w.mu.Unlock()
		w.queue(3)
		time.Sleep(11 * time.Second)
		r := w.expect(fleet.Paused, "")
		if !r.Broker.Known || r.Broker.Value != 0 {
			t.Errorf("broker shows %v of ours, want 0: the three are another listener's", r.Broker)
		}
		w.queue(4)
		w.row()
		time.Sleep(11 * time.Second)
		w.expect(fleet.Drift, "broker shows 1")
	})
}

// With Nacos down at the start nobody knows whether the file has an entry.
func TestAFileThatWasNeverRead(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.report("a", running)
		if r := w.expect(fleet.Running, "not read yet"); !r.Stale.IsZero() {
			t.Errorf("stale since %v at the start", r.Stale)
		}
		time.Sleep(10 * time.Second)
		w.report("a", running)
		if r := w.expect(fleet.Running, "not read yet"); r.Stale.IsZero() || r.StaleSrc != "nacos" {
			t.Errorf("stale %v by %q, want by nacos", r.Stale, r.StaleSrc)
		}
		w.text("")
		if r := w.expect(fleet.Unmanaged, ""); !r.Stale.IsZero() {
			t.Errorf("stale since %v after the file was read", r.Stale)
		}
	})
}

// A state that shows only once the file was read has not begun then.
func TestSinceAtTheFirstLook(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		began := time.Now().Add(-2 * time.Hour)
		old := running
		old.Since = began
		w.report("a", old)
		w.expect(fleet.Running, "not read yet")
		w.text("")
		if r := w.expect(fleet.Unmanaged, ""); !r.Since.Equal(began) {
			t.Errorf("unmanaged since %v, want %v", r.Since, began)
		}
		w.file("enable=true")
		if r := w.expect(fleet.Running, ""); time.Since(r.Since) > time.Second {
			t.Errorf("running since %v, want now: the state changed", r.Since)
		}
	})
}

// The file may be read before anybody reports.
func TestSinceOfTheFirstReport(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		began := time.Now().Add(-2 * time.Hour)
		w.file("enable=true")
		seen := w.expect(fleet.Unknown, "").Since
		time.Sleep(time.Minute)
		if r := w.expect(fleet.Unknown, ""); !r.Since.Equal(seen) {
			t.Errorf("unknown since %v, then since %v", seen, r.Since)
		}
		old := running
		old.Since = began
		w.report("a", old)
		if r := w.expect(fleet.Running, ""); !r.Since.Equal(began) {
			t.Errorf("running since %v, want %v", r.Since, began)
		}
	})
}

func TestStale(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.file("enable=true")
		w.report("a", running)
		if r := w.expect(fleet.Running, ""); !r.Stale.IsZero() {
			t.Errorf("stale since %v", r.Stale)
		}
		w.mu.Lock()
		w.health.Collecting, w.health.Since = false, time.Now()
		w.mu.Unlock()
		time.Sleep(7 * time.Second)
		if r := w.row(); r.Stale.IsZero() || r.StaleSrc != "presence" {
			t.Errorf("stale %v by %q, want by presence", r.Stale, r.StaleSrc)
		}
	})
}

func TestRates(t *testing.T) {
	for name, c := range map[string]struct {
		failed, requeued uint64
		grows            float64 // the queue, in two seconds
		err, in          float64
	}{
		"failures are dropped":         {20, 0, 20, 10, 30},
		"the queue drains":             {20, 0, -20, 10, 10},
		"failures go back":             {20, 20, 20, 10, 20},
		"half of the failures go back": {20, 10, 20, 10, 25},
		"handlers give back by manual": {0, 20, 20, 10, 20},
	} {
		t.Run(name, func(t *testing.T) { testRates(t, c.failed, c.requeued, c.grows, c.err, c.in) })
	}
}

// testRates lets one instance handle 20 messages each two seconds, while the queue
// grows or drains, and handlers fail or give back some more.
func testRates(t *testing.T, failed, requeued uint64, grows, errs, in float64) {
	bubble(t, func(t *testing.T, w *world) {
		w.file("enable=true")
		r := running
		for range 5 {
			w.report("a", r)
			w.mu.Lock()
			id := observe.QueueID{VHost: "/", Name: "q"}
			ready := 1000.0
			if q := w.queues[id]; q != nil {
				ready = q.Ready.Value
			}
			w.queues[id] = &observe.Queue{ID: id, Ready: observe.Number{Value: ready + grows, At: time.Now(), Source: observe.Declare, Known: true}}
			w.mu.Unlock()
			w.row()
			time.Sleep(2*time.Second - 150*time.Millisecond)
			r.Handled += 20
			r.Redelivered += 38
			r.Failed += failed
			r.Requeued += requeued
		}
		row := w.row()
		if failed > 0 {
			row = w.expect(fleet.Running, "looping: redelivered 95 %")
		}
		for name, c := range map[string]struct {
			got  observe.Number
			want float64
		}{"out": {row.OutRate, 10}, "err": {row.ErrRate, errs}, "in": {row.InRate, in}} {
			if !c.got.Known || c.got.Value < c.want*0.99 || c.got.Value > c.want*1.01 {
				t.Errorf("%s = %v, want %v", name, c.got, c.want)
			}
		}
	})
}

// The management API says 0 of a queue that it has sampled once.
func TestRatesBeforeTheManagementAPIHasSome(t *testing.T) {
	for name, c := range map[string]struct {
		handled  uint64  // in two seconds
		grows    float64 // the queue, in two seconds
		out, in  float64
		inSource observe.Source
	}{
		"as fast as it comes": {20, 0, 10, 10, observe.Derived},
		"it piles up":         {0, 20, 0, 10, observe.Derived},
		"it drains":           {20, -20, 10, 0, observe.Management},
		"it drains, unevenly": {20, -17, 10, 0, observe.Management},
		"nothing moves":       {0, 0, 0, 0, observe.Management},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.file("enable=true")
				r, ready := running, 1000.0
				for range 5 {
					w.report("a", r)
					w.mu.Lock()
					zero := observe.Number{At: time.Now(), Source: observe.Management, Known: true}
					w.queues[observe.QueueID{VHost: "/", Name: "q"}] = &observe.Queue{
						ID: observe.QueueID{VHost: "/", Name: "q"}, InRate: zero, OutRate: zero,
						Ready: observe.Number{Value: ready, At: time.Now(), Source: observe.Declare, Known: true},
					}
					w.mu.Unlock()
					w.row()
					time.Sleep(2*time.Second - 150*time.Millisecond)
					r.Handled += c.handled
					ready += c.grows
				}
				row := w.row()
				if math.Abs(row.OutRate.Value-c.out) > 0.1 || math.Abs(row.InRate.Value-c.in) > 0.1 || row.InRate.Source != c.inSource {
					t.Errorf("out %+v, in %+v", row.OutRate, row.InRate)
				}
			})
		})
	}
}

func TestEffects(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		id := fleet.ID{App: "settle", Listener: "L"}
		w.file("enable=true")
		w.report("a", running)
		w.fleet.SetEffect(id, fleet.Effect{Ticket: 2, Op: "pause", At: time.Now(), Phase: fleet.Unconfirmed, Behind: []string{"a"}})
		w.fleet.SetEffect(id, fleet.Effect{Ticket: 1, Op: "resume", At: time.Now(), Phase: fleet.Done})
		r := w.expect(fleet.Running, "not confirmed: a behind")
		if r.Effect == nil || r.Effect.Ticket != 2 {
			t.Errorf("effect %+v, want that of the later write", r.Effect)
		}
		time.Sleep(6 * time.Minute)
		if r := w.row(); r.Effect != nil {
			t.Errorf("effect %+v is still shown", r.Effect)
		}
	})
}

func TestQueuesAreAskedFor(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.file("queue=q2")
		w.row()
		if len(w.wanted) != 1 || w.wanted[0].Name != "q2" {
			t.Errorf("wanted %v, want the queue that the file names", w.wanted)
		}
		w.report("a", running)
		w.row()
		if len(w.wanted) != 1 || w.wanted[0].Name != "q" {
			t.Errorf("wanted %v, want the queue that is reported", w.wanted)
		}
	})
}

// A listener of an application that is not configured is shown, so its file is read too.
func TestReportedApplicationsAreFollowed(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.mu.Lock()
		w.seen["b"] = presence.Seen{Received: time.Now(), Report: presence.Report{
			App: "other", Instance: "b", Listeners: []presence.ListenerReport{{ID: "X", State: "running", Consumers: 1, Min: 1, Max: 1}},
		}}
		w.mu.Unlock()
		w.onChange()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if a := w.fleet.Snapshot().App("other"); a == nil || a.Key.Group != "other" {
			t.Errorf("apps %+v, want the one that reports too", w.fleet.Snapshot().Apps)
		}
	})
}
