package registry_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belay-mq/belay/consumers"
	"github.com/belay-mq/belay/nacos"
	"github.com/belay-mq/belay/registry"
	"github.com/belay-mq/belay/registry/presence"
	"github.com/belay-mq/belay/registry/toggle"
)

// entry writes one entry of a toggle file.
func entry(i int, id string, fields ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "rabbitmq.toggle.consumers[%d].listenerId=%s\n", i, id)
	for _, f := range fields {
		fmt.Fprintf(&b, "rabbitmq.toggle.consumers[%d].%s\n", i, f)
	}
	return b.String()
}

// bench is a running registry under a test's hand, inside a synctest bubble.
type bench struct {
	t     *testing.T
	store *store
	reg   *registry.Registry
	done  chan error
	stop  func()
}

func run(t *testing.T, cfg registry.Config, listeners ...*listener) *bench {
	t.Helper()
	b := &bench{t: t, store: newStore(), done: make(chan error, 1)}
	cfg.App, cfg.Store = "settle", b.store
	b.reg = registry.New(cfg)
	for _, l := range listeners {
		if err := b.reg.Register(l); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	b.stop = cancel
	go func() { b.done <- b.reg.Run(ctx) }()
	return b
}

func (b *bench) end() {
	b.t.Helper()
	b.stop()
	if err := <-b.done; err != nil {
		b.t.Errorf("Run ended with %v", err)
	}
}

func expect(t *testing.T, l *listener, want ...string) {
	t.Helper()
	synctest.Wait()
	if got := l.did(); !slices.Equal(got, want) {
		t.Errorf("%s: calls %q, want %q", l.id, got, want)
	}
}

func TestNothingStartsBeforeTheFirstRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		paused, free, manual := newListener("Paused"), newListener("Free"), newListener("Manual")
		manual.status.AutoStartup = false
		b := run(t, registry.Config{}, paused, free, manual)
		time.Sleep(9 * time.Second)
		expect(t, paused)
		expect(t, free)
		b.store.say(entry(0, "Paused", "enable=false", "updatedBy=li"))
		expect(t, paused, "stop by li") // idempotent on a stopped container; it is never started
		expect(t, free, "start by autostart")
		expect(t, manual)
		b.end()
	})
}

func TestAbsentMeansNoOpinion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newListener("A")
		b := run(t, registry.Config{}, a)
		b.store.say(entry(0, "A", "enable=false"))
		expect(t, a, "stop by toggle")
		for _, text := range []string{"", "# empty\n", entry(0, "A", "reason=x"), entry(0, "Other", "enable=true"), "bad=\\u12\n"} {
			b.store.say(text)
			expect(t, a)
		}
		if st := a.Status().State; st != consumers.Stopped {
			t.Errorf("state %s, want stopped: nothing asked to start it", st)
		}
		b.store.say(entry(0, "A", "enable=true"))
		expect(t, a, "start by toggle")
		b.store.say("")
		expect(t, a)
		b.end()
	})
}

func TestBadFileLeavesTheLastGoodOneInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newListener("A")
		b := run(t, registry.Config{}, a)
		b.store.say(entry(0, "A", "enable=false"))
		expect(t, a, "stop by toggle")
		good := b.reg.Snapshot().File.MD5
		b.store.say(entry(0, "A", "enable=true", `reason=\u00`))
		expect(t, a)
		f := b.reg.Snapshot().File
		if f.Err == nil || !strings.Contains(f.Err.Error(), "line 3") || f.MD5 != good {
			t.Errorf("file %+v: want the error with its line, and the good file's md5", f)
		}
		b.end()
	})
}

func TestPairsOfConcurrencyAreSetTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newListener("A")
		a.status.Min, a.status.Max = 1, 2
		b := run(t, registry.Config{}, a)
		b.store.say(entry(0, "A", "concurrentConsumers=4", "maxConcurrentConsumers=8"))
		synctest.Wait()
		if st := a.Status(); st.Min != 4 || st.Max != 8 {
			t.Errorf("concurrency %d-%d, want 4-8", st.Min, st.Max)
		}
		b.store.say(entry(0, "A", "concurrentConsumers=9"))
		synctest.Wait()
		if e := b.reg.Snapshot().Listeners[0]; e.Err == nil || e.Status.Min != 4 {
			t.Errorf("a min above the max in force: %+v, want an error and the old pair", e)
		}
		b.end()
	})
}

func TestOneBadEntryNeverStopsTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad, ok := newListener("Bad"), newListener("Good")
		bad.scaleErr = errors.New("no")
		b := run(t, registry.Config{}, bad, ok)
		b.store.say(entry(0, "Bad", "concurrentConsumers=2", "maxConcurrentConsumers=2") + entry(1, "Good", "enable=false"))
		expect(t, ok, "stop by toggle")
		if e := b.reg.Snapshot().Listeners[0]; e.ID != "Bad" || e.Err == nil {
			t.Errorf("entry %+v, want the error of Bad", e)
		}
		bad.mu.Lock()
		bad.scaleErr = nil
		bad.mu.Unlock()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if e := b.reg.Snapshot().Listeners[0]; e.Err != nil || e.Status.Max != 2 {
			t.Errorf("entry %+v, want it applied by a later try", e)
		}
		b.end()
	})
}

func TestASlowStopDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, fast := newListener("Slow"), newListener("Fast")
		slow.stopTakes = 5 * time.Second
		b := run(t, registry.Config{}, slow, fast)
		b.store.say(entry(0, "Slow", "enable=true") + entry(1, "Fast", "enable=true"))
		expect(t, slow, "start by toggle")
		expect(t, fast, "start by toggle")
		b.store.say(entry(0, "Slow", "enable=false") + entry(1, "Fast", "enable=false"))
		expect(t, fast, "stop by toggle")
		if st := slow.Status().State; st != consumers.Draining {
			t.Fatalf("slow is %s, want draining", st)
		}
		// A resume takes over from the stop that still drains.
		slow.did()
		b.store.say(entry(0, "Slow", "enable=true"))
		expect(t, slow, "start by toggle")
		b.end()
	})
}

// TestAPauseOvertakes: whoever pauses must not wait for a start or a scale that hangs.
func TestAPauseOvertakes(t *testing.T) {
	for name, lines := range map[string][]string{
		"a start": {"enable=true"},
		"a scale": {"enable=true", "concurrentConsumers=3", "maxConcurrentConsumers=4"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newListener("A")
				a.hangs = true
				b := run(t, registry.Config{}, a)
				b.store.say(entry(0, "A", lines...))
				time.Sleep(time.Second)
				a.did()
				began := time.Now()
				b.store.say(entry(0, "A", "enable=false"))
				expect(t, a, "stop by toggle")
				if took := time.Since(began); took > 0 {
					t.Errorf("the stop came after %v", took)
				}
				b.end()
			})
		})
	}
}

func TestPlannedWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newListener("A")
		b := run(t, registry.Config{}, a)
		at := time.Now().Add(10 * time.Minute).UTC().Format(time.RFC3339)
		until := time.Now().Add(20 * time.Minute).UTC().Format(time.RFC3339)
		b.store.say(entry(0, "A", "enable=true", "pauseAt="+at, "resumeAt="+until))
		expect(t, a, "start by toggle")
		time.Sleep(9*time.Minute + 59*time.Second)
		expect(t, a)
		time.Sleep(2 * time.Second)
		expect(t, a, "stop by toggle")
		time.Sleep(10 * time.Minute)
		expect(t, a, "start by toggle")
		b.end()
	})
}

func TestWithoutNacos(t *testing.T) {
	dir := t.TempDir()
	t.Run("a file is kept", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a := newListener("A")
			b := run(t, registry.Config{StateDir: dir}, a)
			b.store.say(entry(0, "A", "enable=false"))
			expect(t, a, "stop by toggle")
			b.end()
		})
		if kept, _ := filepath.Glob(filepath.Join(dir, "toggles", "settle", "*")); len(kept) != 1 {
			t.Fatalf("kept files: %v", kept)
		}
	})
	t.Run("it is in force at a start without Nacos", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a, other := newListener("A"), newListener("Other")
			b := run(t, registry.Config{StateDir: dir}, a, other)
			time.Sleep(10*time.Second + time.Millisecond)
			expect(t, a, "stop by toggle")
			expect(t, other, "start by autostart")
			if f := b.reg.Snapshot().File; !f.Kept || f.MD5 == "" || f.AppliedAt.IsZero() {
				t.Errorf("file %+v: want a kept one, with its md5 and since when it is in force", f)
			}
			b.store.say(entry(0, "A", "enable=true"))
			expect(t, a, "start by toggle")
			b.end()
		})
	})
	t.Run("and where the first read is bad", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a := newListener("A")
			b := run(t, registry.Config{StateDir: dir, WithoutToggles: registry.Hold}, a)
			b.store.say(`x=\u1`)
			expect(t, a, "start by toggle") // the file kept last says so
			b.end()
		})
	})
	t.Run("a deleted file is not kept", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a := newListener("A")
			b := run(t, registry.Config{StateDir: dir}, a)
			b.store.say(entry(0, "A", "enable=false"))
			expect(t, a, "stop by toggle")
			b.store.say("")
			expect(t, a)
			b.end()
		})
		synctest.Test(t, func(t *testing.T) {
			a := newListener("A")
			b := run(t, registry.Config{StateDir: dir}, a)
			time.Sleep(10*time.Second + time.Millisecond)
			expect(t, a, "start by autostart")
			if f := b.reg.Snapshot().File; !f.Kept || !f.Absent {
				t.Errorf("file %+v, want what is kept of a deleted one", f)
			}
			b.end()
		})
	})
	for policy, want := range map[registry.Policy][]string{registry.Start: {"start by autostart"}, registry.Hold: nil} {
		t.Run("no file is kept: "+string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newListener("A")
				b := run(t, registry.Config{WithoutToggles: policy}, a)
				time.Sleep(10*time.Second + time.Millisecond)
				expect(t, a, want...)
				b.store.say("")
				if policy == registry.Hold {
					expect(t, a, "start by autostart")
				} else {
					expect(t, a)
				}
				b.end()
			})
		})
	}
}

func TestRegister(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := run(t, registry.Config{})
		b.store.say(entry(0, "Late", "enable=false", "reason=vendor"))
		late := newListener("Late")
		if err := b.reg.Register(late); err != nil {
			t.Fatal(err)
		}
		expect(t, late, "stop by toggle")
		if err := b.reg.Register(newListener("Late")); !errors.Is(err, registry.ErrDuplicate) {
			t.Errorf("second of an id: %v, want ErrDuplicate", err)
		}
		for _, id := range []string{"", " \t", "a\nb", strings.Repeat("x", 201), "org.springframework.amqp.rabbit.RabbitListenerEndpointContainer#3"} {
			if err := b.reg.Register(newListener(id)); !errors.Is(err, registry.ErrBadID) {
				t.Errorf("id %q: %v, want ErrBadID", id, err)
			}
		}
		b.end()
	})
}

func TestShutdownStopsAllInParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []*listener
		for i := range 20 {
			l := newListener(fmt.Sprintf("L%d", i))
			l.stopTakes = 5 * time.Second
			all = append(all, l)
		}
		b := run(t, registry.Config{}, all...)
		b.store.say("")
		synctest.Wait()
		began := time.Now()
		b.end()
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("took %s, want 5s: the stops run in parallel", took)
		}
		for _, l := range all {
			if st := l.Status().State; st != consumers.Stopped {
				t.Errorf("%s is %s", l.id, st)
			}
		}
	})
}

// told is a Presence that keeps the source of reports.
type told struct{ source func() presence.Report }

func (p *told) Send(ctx context.Context, source func() presence.Report) error {
	p.source = source
	<-ctx.Done()
	return nil
}
func (p *told) Changed() {}

// A state that says only that Nacos is back is no wish: what was stopped by other means
// stays so until the file changes.
func TestTheSameStateAgainIsNoWish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newListener("A")
		b := run(t, registry.Config{}, a)
		text := entry(0, "A", "enable=true")
		b.store.say(text)
		expect(t, a, "start by toggle")
		a.set(consumers.Stopped, "")
		for _, stale := range []time.Time{time.Now(), {}} {
			b.store.states <- nacos.State{Seq: b.store.seq, Text: text, MD5: text, Stale: stale}
			expect(t, a)
		}
		if !b.reg.Snapshot().Listeners[0].Applied {
			t.Error("the wish that was carried out counts as pending")
		}
		b.store.say(text + "# changed\n")
		expect(t, a, "start by toggle")
		b.end()
	})
}

// A store that ends its watch does not keep listeners from their start.
func TestAWatchThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newListener("A")
		b := run(t, registry.Config{}, a)
		close(b.store.ended)
		time.Sleep(11 * time.Second)
		expect(t, a, "start by autostart")
		b.end()
		if err := b.reg.Run(t.Context()); err == nil {
			t.Error("Run was called twice without an error")
		}
	})
}

func TestReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &told{}
		a := newListener("A")
		b := run(t, registry.Config{Presence: p}, a)
		b.store.say(entry(0, "A", "enable=true"))
		synctest.Wait()
		r := p.source()
		if r.App != "settle" || r.File == nil || r.File.MD5 == "" || r.Started.IsZero() || len(r.Listeners) != 1 || r.Listeners[0].State != "running" || r.CanWrite {
			t.Errorf("report %+v", r)
		}
		b.end()
	})
}

func TestWantedAt(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	at := func(h int) *string {
		s := now.Add(time.Duration(h) * time.Hour).Format(time.RFC3339)
		return &s
	}
	on, off := true, false
	for name, c := range map[string]struct {
		t    toggle.Toggle
		want *bool
		next int // hours from now, 0 none
	}{
		"no opinion":             {toggle.Toggle{}, nil, 0},
		"plain":                  {toggle.Toggle{Enable: &off}, &off, 0},
		"window ahead":           {toggle.Toggle{Enable: &on, PauseAt: at(1), ResumeAt: at(2)}, &on, 1},
		"in the window":          {toggle.Toggle{Enable: &on, PauseAt: at(-1), ResumeAt: at(2)}, &off, 2},
		"after the window":       {toggle.Toggle{Enable: &on, PauseAt: at(-2), ResumeAt: at(-1)}, &on, 0},
		"paused until":           {toggle.Toggle{Enable: &off, ResumeAt: at(3)}, &off, 3},
		"paused until it passed": {toggle.Toggle{Enable: &off, ResumeAt: at(-3)}, &on, 0},
		"resumed, to pause":      {toggle.Toggle{PauseAt: at(1), ResumeAt: at(-1)}, &on, 1},
		"paused after a resume":  {toggle.Toggle{PauseAt: at(-1), ResumeAt: at(-2)}, &off, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := registry.WantedAt(c.t, now)
			var next time.Time
			if c.next != 0 {
				next = now.Add(time.Duration(c.next) * time.Hour)
			}
			if (got.Enable == nil) != (c.want == nil) || got.Enable != nil && *got.Enable != *c.want || !got.Next.Equal(next) {
				t.Errorf("enable %v, next %v; want %v, %v", got.Enable, got.Next, c.want, next)
			}
		})
	}
}
