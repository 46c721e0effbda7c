package nacos_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/belay-mq/belay/nacos"
	"github.com/belay-mq/belay/nacos/server"
)

// silentPort accepts connections and never answers.
func silentPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(io.Discard, c); _ = c.Close() }()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String()
}

func TestSilentPort(t *testing.T) {
	store, err := nacos.New(nacos.Config{Servers: []string{silentPort(t)}, CallTimeout: 200 * time.Millisecond, PollInterval: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	states := store.Watch(t.Context(), newKey())
	began := time.Now()
	if _, err := store.Get(t.Context(), newKey()); !errors.Is(err, nacos.ErrUnavailable) {
		t.Errorf("get: %v", err)
	}
	if _, err := store.Create(t.Context(), newKey(), nacos.Content{Text: "x"}); !errors.Is(err, nacos.ErrUnavailable) || errors.Is(err, nacos.ErrUnknownOutcome) {
		t.Errorf("create, of which nothing can have been written: %v", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the calls took %v", took)
	}
	if h := store.Health(); h.Connected || h.LastErr == "" {
		t.Errorf("health: %+v", h)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began = time.Now()
	if _, err := store.Get(ctx, newKey()); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > time.Second {
		t.Errorf("get with a deadline: %v after %v", err, time.Since(began))
	}
	select {
	case st, open := <-states:
		t.Errorf("watch sent %+v (%v) though nothing is known", st, open)
	default:
	}
	began = time.Now()
	if err := store.Close(t.Context()); err != nil || time.Since(began) > time.Second {
		t.Errorf("close: %v after %v", err, time.Since(began))
	}
	if _, open := <-states; open {
		t.Error("the watch did not close")
	}
}

func TestFrozenServer(t *testing.T) {
	t.Parallel()
	srv := startServer(t, server.Config{})
	store := openStore(t, srv, func(c *nacos.Config) { c.CallTimeout = 300 * time.Millisecond; c.WriteTimeout = time.Second })
	nacos.PlainUnderRace(store)
	key := newKey()
	st := create(t, store, key, text(1))
	states := store.Watch(t.Context(), key)
	await(t, states, "the text", has(text(1)))
	srv.Faults().Freeze()
	stale := await(t, states, "stale", func(s nacos.State) bool { return !s.Stale.IsZero() })
	if stale.Text != text(1) || stale.LastErr == nil || stale.Stale.After(time.Now()) {
		t.Errorf("stale state: %+v", stale)
	}
	if _, err := store.Update(t.Context(), key, nacos.Content{Text: text(2)}, st.MD5); !errors.Is(err, nacos.ErrUnavailable) {
		t.Errorf("update while frozen: %v", err)
	}
	srv.Faults().Thaw()
	await(t, states, "fresh again", func(s nacos.State) bool { return s.Stale.IsZero() && s.Text == text(1) })
	update(t, store, key, text(3), st.MD5)
	await(t, states, "a change after the outage", has(text(3)))
	srv.Faults().Freeze()
	began := time.Now()
	if err := store.Close(t.Context()); err != nil || time.Since(began) > time.Second {
		t.Errorf("close while frozen: %v after %v", err, time.Since(began))
	}
}

func TestServerRestart(t *testing.T) {
	t.Parallel()
	srv := startServer(t, server.Config{})
	store := openStore(t, srv, nil)
	nacos.PlainUnderRace(store)
	key := newKey()
	st := create(t, store, key, text(1))
	states := store.Watch(t.Context(), key)
	await(t, states, "the text", has(text(1)))
	for i := 2; i < 5; i++ {
		srv.Faults().HideAfterRestart(500 * time.Millisecond)
		if err := srv.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		st = update(t, store, key, text(i), st.MD5)
		for s := range states {
			if s.Absent {
				t.Fatalf("a config that is there was reported absent after a restart")
			}
			if s.Text == text(i) {
				break
			}
		}
	}
	eventually(t, "pushes again", func() bool { return store.Health().Transport == "push" })
}

// TestNothingIsLeft opens and closes stores against what fails in every way,
// and looks for goroutines (TestMain does), descriptors and files.
func TestNothingIsLeft(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	srv := startServer(t, server.Config{})
	silent := silentPort(t)
	before := descriptors(t)
	for i := range 100 {
		addr := []string{"127.0.0.1:1", silent, srv.Addr()}[i%3]
		store, err := nacos.New(nacos.Config{Servers: []string{addr}, CallTimeout: 100 * time.Millisecond, PollInterval: 20 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		states := store.Watch(ctx, newKey())
		_, _ = store.Get(ctx, newKey())
		cancel()
		if err := store.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range states {
		}
	}
	eventually(t, "descriptors given back", func() bool { return descriptors(t) <= before+4 })
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("files left in the working directory: %v, %v", left, err)
	}
}

func descriptors(t *testing.T) int {
	if runtime.GOOS != "linux" {
		return 0
	}
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}
