package presence_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/belay-mq/belay/consumers"
	"github.com/belay-mq/belay/consumers/broker"
	"github.com/belay-mq/belay/registry/presence"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// brokers are the servers that each test runs on: the embedded one, and a real one
// where the environment names it.
func brokers(t *testing.T, f func(t *testing.T, url string, b *broker.Broker)) {
	t.Run("embedded", func(t *testing.T) {
		b, err := broker.Listen(t.Context(), broker.Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close(context.Background()) })
		f(t, b.URL(), b)
	})
	t.Run("rabbitmq", func(t *testing.T) {
		url := os.Getenv("BELAY_TEST_AMQP")
		if url == "" {
			if os.Getenv("BELAY_TEST_REAL") == "1" {
				t.Fatal("BELAY_TEST_AMQP is not set, but BELAY_TEST_REAL=1 asks for a real broker")
			}
			t.Skip("BELAY_TEST_AMQP is not set")
		}
		f(t, url, nil)
	})
}

func dial(t *testing.T, url, app, instance string) *consumers.Conn {
	t.Helper()
	conn, err := consumers.Dial(t.Context(), consumers.ConnConfig{URL: url, App: app, Instance: instance})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := conn.Close(ctx); err != nil {
			t.Errorf("close %s: %v", instance, err)
		}
	})
	return conn
}

// unique names instances apart from those of other tests on one broker.
func unique(t *testing.T, name string) string {
	return fmt.Sprintf("%s:%d:%s", name, os.Getpid(), strings.ReplaceAll(t.Name(), "/", "-"))
}

func start(t *testing.T, f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("ended with %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// await waits until the collector's picture satisfies ok.
func await(t *testing.T, p *presence.Presence, what string, ok func([]presence.Seen) bool) {
	t.Helper()
	changed := make(chan struct{}, 1)
	p.OnChange(func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	deadline := time.After(20 * time.Second)
	for !ok(p.Instances()) {
		select {
		case <-changed:
		case <-time.After(100 * time.Millisecond):
		case <-deadline:
			t.Fatalf("%s: not seen; instances %+v, health %+v", what, p.Instances(), p.Health())
		}
	}
}

func find(seen []presence.Seen, instance string) *presence.Seen {
	for i := range seen {
		if seen[i].Report.Instance == instance {
			return &seen[i]
		}
	}
	return nil
}

func TestReportsReachAnotherProcess(t *testing.T) {
	brokers(t, func(t *testing.T, url string, _ *broker.Broker) {
		name := unique(t, "host.a")
		sender := presence.New(presence.Config{Conn: dial(t, url, "settle.service", name), Interval: time.Hour})
		state := make(chan string, 1)
		state <- "running"
		current := "stopped"
		stop := start(t, func(ctx context.Context) error {
			return sender.Send(ctx, func() presence.Report {
				select {
				case current = <-state:
				default:
				}
				return presence.Report{Listeners: []presence.ListenerReport{{ID: "L", State: current}}}
			})
		})
		watcher := presence.Over(dial(t, url, "", unique(t, "dashboard")))
		start(t, watcher.Collect)
		// The sender reports every hour here: what arrives was asked for. It is asked
		// again, since it may not have been listening the first time.
		await(t, watcher, "the answer to a question", func(s []presence.Seen) bool {
			if err := watcher.Ask(t.Context()); err != nil {
				t.Fatal(err)
			}
			i := find(s, name)
			return i != nil && i.Report.App == "settle.service" && i.Report.Listeners[0].State == "running"
		})
		state <- "stopped"
		sender.Changed()
		await(t, watcher, "a change", func(s []presence.Seen) bool {
			i := find(s, name)
			return i != nil && i.Report.Listeners[0].State == "stopped"
		})
		stop()
		await(t, watcher, "the goodbye", func(s []presence.Seen) bool { return find(s, name) == nil })
		if !watcher.Gone(name) {
			t.Error("the goodbye is not remembered")
		}
	})
}

func TestASilentInstanceIsLost(t *testing.T) {
	b, err := broker.Listen(t.Context(), broker.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close(context.Background()) })
	watcher := presence.New(presence.Config{Conn: dial(t, b.URL(), "", "dashboard"), Interval: 100 * time.Millisecond})
	start(t, watcher.Collect)
	conn := dial(t, b.URL(), "app", "victim")
	await(t, watcher, "the collector", func([]presence.Seen) bool { return watcher.Health().Collecting })
	ch, err := conn.PublishChannel(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	publish(t, ch, presence.Report{V: 1, Seq: 1, Instance: "victim", App: "app"})
	await(t, watcher, "the report", func(s []presence.Seen) bool { return find(s, "victim") != nil })
	await(t, watcher, "the loss", func(s []presence.Seen) bool { i := find(s, "victim"); return i != nil && i.Lost })
	publish(t, ch, presence.Report{V: 1, Seq: 2, Instance: "victim", App: "app"})
	await(t, watcher, "the return", func(s []presence.Seen) bool { i := find(s, "victim"); return i != nil && !i.Lost })
	publish(t, ch, presence.Report{V: 1, Seq: 1, Instance: "victim", App: "old"})
	publish(t, ch, presence.Report{V: 1, Seq: 3, Instance: "victim", App: "app", Bye: true})
	await(t, watcher, "the goodbye", func(s []presence.Seen) bool { return find(s, "victim") == nil })
}

// A process with a fixed id counts its reports from 1 again when it is restarted, after a
// goodbye or after it was killed.
func TestARestartUnderTheSameID(t *testing.T) {
	b, err := broker.Listen(t.Context(), broker.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close(context.Background()) })
	watcher := presence.New(presence.Config{Conn: dial(t, b.URL(), "", "dashboard")})
	start(t, watcher.Collect)
	await(t, watcher, "the collector", func([]presence.Seen) bool { return watcher.Health().Collecting })
	ch, err := dial(t, b.URL(), "app", "fixed").PublishChannel(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now().UTC().Truncate(time.Second)
	is := func(started time.Time) func([]presence.Seen) bool {
		return func(s []presence.Seen) bool {
			i := find(s, "fixed")
			return i != nil && i.Report.Started.Equal(started)
		}
	}
	publish(t, ch, presence.Report{V: 1, Seq: 9, Instance: "fixed", App: "app", Started: began})
	await(t, watcher, "the first start", is(began))
	second, third := began.Add(time.Minute), began.Add(2*time.Minute)
	publish(t, ch, presence.Report{V: 1, Seq: 1, Instance: "fixed", App: "app", Started: second})
	await(t, watcher, "the start after it was killed", is(second))
	publish(t, ch, presence.Report{V: 1, Seq: 2, Instance: "fixed", App: "app", Started: second, Bye: true})
	await(t, watcher, "the goodbye", func(s []presence.Seen) bool { return find(s, "fixed") == nil })
	publish(t, ch, presence.Report{V: 1, Seq: 99, Instance: "fixed", App: "app", Started: began}) // late: no revival
	publish(t, ch, presence.Report{V: 1, Seq: 1, Instance: "fixed", App: "app", Started: third})
	await(t, watcher, "the start after the goodbye", is(third))
}

func TestAnOutageIsNobodysLoss(t *testing.T) {
	b, err := broker.Listen(t.Context(), broker.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close(context.Background()) })
	watcher := presence.New(presence.Config{Conn: dial(t, b.URL(), "", "dashboard"), Interval: 100 * time.Millisecond})
	start(t, watcher.Collect)
	sender := presence.New(presence.Config{Conn: dial(t, b.URL(), "app", "there"), Interval: 100 * time.Millisecond})
	start(t, func(ctx context.Context) error {
		return sender.Send(ctx, func() presence.Report { return presence.Report{} })
	})
	await(t, watcher, "the report", func(s []presence.Seen) bool { return find(s, "there") != nil })
	if err := b.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, watcher, "the outage", func([]presence.Seen) bool { return !watcher.Health().Collecting })
	await(t, watcher, "1 s of outage", func(s []presence.Seen) bool {
		i := find(s, "there")
		if i == nil || i.Lost {
			t.Fatalf("during our own outage the instance counts as lost: %+v", i)
		}
		return time.Since(i.Received) > time.Second
	})
	if err := b.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, watcher, "new reports", func(s []presence.Seen) bool {
		i := find(s, "there")
		return i != nil && time.Since(i.Received) < 500*time.Millisecond
	})
}

func TestFeedLinesOfOtherProcesses(t *testing.T) {
	brokers(t, func(t *testing.T, url string, _ *broker.Broker) {
		since := time.Now().Add(-time.Minute).Truncate(time.Second)
		asked := make(chan time.Time, 10)
		keeper := presence.New(presence.Config{
			Conn: dial(t, url, "", unique(t, "keeper")),
			Feed: func(at time.Time) [][]byte {
				asked <- at
				return [][]byte{[]byte(`{"key":"` + t.Name() + `"}`), []byte(`{"n":2}`)}
			},
		})
		start(t, func(ctx context.Context) error {
			return keeper.Send(ctx, func() presence.Report { return presence.Report{} })
		})
		other := presence.Over(dial(t, url, "", unique(t, "opener")))
		start(t, other.Collect)
		await(t, other, "the keeper", func(s []presence.Seen) bool { return find(s, keeper.Instance()) != nil })
		lines, err := other.AskFeed(t.Context(), since, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		ours := 0
		for _, l := range lines {
			if strings.Contains(string(l), t.Name()) {
				ours++
			}
		}
		if ours != 1 {
			t.Errorf("lines %q, want one of this test", lines)
		}
		if at := <-asked; !at.Equal(since) {
			t.Errorf("asked since %s, want %s", at, since)
		}
	})
}

func TestDecode(t *testing.T) {
	ok := `{"v":1,"app":"a","instance":"i","seq":1,"at":"2026-01-02T03:04:05Z","listeners":[{"id":"L","queues":["q"],"state":"running","reason":"x` + "\\u001b[31m" + `"}]}`
	r, err := presence.Decode([]byte(ok))
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Listeners[0].Reason; got != "x [31m" {
		t.Errorf("reason %q: control characters must go", got)
	}
	for name, body := range map[string]string{
		"no JSON":         "x",
		"other version":   `{"v":2,"instance":"i","seq":1}`,
		"no instance":     `{"v":1,"seq":1}`,
		"control in name": `{"v":1,"seq":1,"instance":"a\u001bb"}`,
		"no seq":          `{"v":1,"instance":"i"}`,
		"unknown state":   `{"v":1,"instance":"i","seq":1,"listeners":[{"id":"L","state":"happy"}]}`,
		"negative":        `{"v":1,"instance":"i","seq":1,"listeners":[{"id":"L","state":"running","consumers":-1}]}`,
		"twice":           `{"v":1,"instance":"i","seq":1,"listeners":[{"id":"L","state":"running"},{"id":"L","state":"running"}]}`,
		"blank id":        `{"v":1,"instance":"i","seq":1,"listeners":[{"id":" ","state":"running"}]}`,
		"too long":        `{"v":1,"instance":"` + strings.Repeat("i", 2<<20) + `","seq":1}`,
		"no queue name":   `{"v":1,"instance":"i","seq":1,"listeners":[{"id":"L","state":"running","queues":[""]}]}`,
	} {
		if _, err := presence.Decode([]byte(body)); !errors.Is(err, presence.ErrMalformed) {
			t.Errorf("%s: %v, want ErrMalformed", name, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"v":1,"app":"a","instance":"i","seq":1,"listeners":[{"id":"L","queues":["q"],"state":"running","lastError":"x"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := presence.Decode(body)
		if err == nil && (r.Instance == "" || r.Seq == 0) {
			t.Errorf("believed %q", body)
		}
	})
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain":          "plain",
		"a\x1b[31mb\r\n": "a [31mb  ",
		"a\u202eb":       "a b",
		"\xff":           "\uFFFD",
		"配置配置配置":         "配置…",
	} {
		if got := presence.Clean(in, 10); got != want {
			t.Errorf("Clean(%q) = %q, want %q", in, got, want)
		}
	}
}
