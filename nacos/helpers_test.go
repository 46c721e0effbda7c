package nacos_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/belay-mq/belay/nacos"
	"github.com/belay-mq/belay/nacos/server"
	"go.uber.org/goleak"
)

// patience is how long tests wait for what must come; the machine may be busy.
const patience = 20 * time.Second

const toggleFile = "rabbitmq-toggle.properties"

func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() != "" {
		os.Exit(m.Run()) // the SDK, which benchmarks compare with, leaves goroutines behind
	}
	// A client that is made puts a file logger in place, for the few microseconds until it
	// is replaced. What another client reports just then starts this goroutine for good.
	known := []goleak.Option{goleak.IgnoreAnyFunction("gopkg.in/natefinch/lumberjack%2ev2.(*Logger).millRun")}
	if !nacos.RaceEnabled {
		// An SDK client whose reconnect breaks half-way forgets to close the connection. The
		// race detector's build has no SDK client that reconnects, and looks for these.
		known = append(known, goleak.IgnoreAnyFunction("google.golang.org/grpc/internal/grpcsync.(*CallbackSerializer).run"),
			goleak.IgnoreAnyFunction("google.golang.org/grpc.(*addrConn).connect"), goleak.IgnoreAnyFunction("google.golang.org/grpc.(*addrConn).resetTransport"))
	}
	goleak.VerifyTestMain(patientMain{m}, known...)
}

// patientMain lets SDK clients that were closed in an outage end first.
type patientMain struct{ *testing.M }

func (m patientMain) Run() int {
	code := m.M.Run()
	nacos.AwaitSDK()
	return code
}

func startServer(t testing.TB, cfg server.Config) *server.Server {
	t.Helper()
	s, err := server.Start(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Faults().Reset()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Errorf("close the server: %v", err)
		}
	})
	return s
}

// openStore opens a store on the server and closes it with the test.
func openStore(t testing.TB, s *server.Server, change func(*nacos.Config)) *nacos.Store {
	t.Helper()
	cfg := nacos.Config{Servers: []string{s.Addr()}, Console: s.ConsoleAddr(), PollInterval: 300 * time.Millisecond, Operator: "oncall1"}
	if change != nil {
		change(&cfg)
	}
	store, err := nacos.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	nacos.Eager(store)
	t.Cleanup(func() {
		if err := store.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return store
}

var groups atomic.Int64

// newKey returns a key that no other test uses.
func newKey() nacos.Key {
	return nacos.Key{DataID: toggleFile, Group: "app-" + strconv.FormatInt(groups.Add(1), 10) + "-" + strconv.FormatInt(time.Now().UnixNano()%1e9, 36)}
}

// text returns a content that differs for every n.
func text(n int) string {
	return fmt.Sprintf("rabbitmq.toggle.consumers[0].listenerId=Settle\nrabbitmq.toggle.consumers[0].concurrentConsumers=%d\n", n)
}

func create(t testing.TB, s *nacos.Store, key nacos.Key, text string) nacos.State {
	t.Helper()
	st, err := s.Create(t.Context(), key, nacos.Content{Text: text})
	if err != nil {
		t.Fatalf("create %s: %v", key, err)
	}
	return st
}

func update(t testing.TB, s *nacos.Store, key nacos.Key, text, base string) nacos.State {
	t.Helper()
	st, err := s.Update(t.Context(), key, nacos.Content{Text: text}, base)
	if err != nil {
		t.Fatalf("update %s: %v", key, err)
	}
	return st
}

// await takes states until one satisfies ok.
func await(t testing.TB, states <-chan nacos.State, what string, ok func(nacos.State) bool) nacos.State {
	t.Helper()
	return awaitFor(t, patience, states, what, ok)
}

// awaitFor is await for what takes long on a busy machine.
func awaitFor(t testing.TB, patience time.Duration, states <-chan nacos.State, what string, ok func(nacos.State) bool) nacos.State {
	t.Helper()
	deadline := time.After(patience)
	var last nacos.State
	for {
		select {
		case st, open := <-states:
			if !open {
				t.Fatalf("waiting for %s: the channel closed; last state %+v", what, last)
			}
			if last = st; ok(st) {
				return st
			}
		case <-deadline:
			t.Fatalf("waiting for %s: not seen in %v; last state %+v", what, patience, last)
		}
	}
}

func has(text string) func(nacos.State) bool {
	return func(s nacos.State) bool { return !s.Absent && s.Text == text }
}

// eventually repeats ok until it holds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not in %v", what, patience)
		}
	}
}
