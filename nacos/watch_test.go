package nacos_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/belay-mq/belay/nacos"
	"github.com/belay-mq/belay/nacos/server"
)

// TestChangesComingTogether changes many configs back to back: a client per
// config must deliver all of them.
func TestChangesComingTogether(t *testing.T) {
	t.Parallel()
	for _, tick := range []time.Duration{-1, 0} {
		t.Run(fmt.Sprint("tick ", tick), func(t *testing.T) {
			srv := startServer(t, server.Config{DumpTick: tick})
			// The poll is far away: what arrives is pushed.
			ours := openStore(t, srv, func(c *nacos.Config) { c.PollInterval = time.Minute })
			theirs := openStore(t, srv, nil)
			const keys, rounds = 10, 20
			var key [keys]nacos.Key
			var base [keys]string
			var states [keys]<-chan nacos.State
			for i := range keys {
				key[i] = newKey()
				base[i] = create(t, theirs, key[i], text(0)).MD5
				states[i] = ours.Watch(t.Context(), key[i])
				await(t, states[i], "the first text", has(text(0)))
			}
			eventually(t, "push in use", func() bool { return ours.Health().Transport == "push" })
			eventually(t, "every config has its SDK client", func() bool { return ours.Health().SDKClients == nacos.SDKLimit(keys) })
			var worst time.Duration
			for round := 1; round <= rounds; round++ {
				for i := range keys {
					base[i] = update(t, theirs, key[i], text(round), base[i]).MD5
				}
				last := time.Now()
				for i := range keys {
					await(t, states[i], "a change", has(text(round)))
				}
				worst = max(worst, time.Since(last))
				time.Sleep(300 * time.Millisecond) // the SDK reads a config five times a second at most
			}
			t.Logf("worst time from the last of %d changes to the last event: %v", keys, worst)
		})
	}
}

func TestManyKeys(t *testing.T) {
	t.Parallel()
	srv := startServer(t, server.Config{})
	ours := openStore(t, srv, func(c *nacos.Config) { c.PollInterval = time.Second })
	theirs := openStore(t, srv, nil)
	const keys = 300
	var key [keys]nacos.Key
	var states [keys]<-chan nacos.State
	var base [keys]string
	for i := range keys {
		key[i] = newKey()
		base[i] = create(t, theirs, key[i], text(0)).MD5
		states[i] = ours.Watch(t.Context(), key[i])
	}
	for i := range keys {
		await(t, states[i], "the first text", has(text(0)))
	}
	for i := range keys {
		update(t, theirs, key[i], text(1), base[i])
	}
	for i := range keys {
		await(t, states[i], "the change", has(text(1)))
	}
}

func TestLostPushes(t *testing.T) {
	t.Parallel()
	srv := startServer(t, server.Config{})
	ours, theirs := openStore(t, srv, nil), openStore(t, srv, nil)
	key := newKey()
	st := create(t, theirs, key, text(0))
	states := ours.Watch(t.Context(), key)
	await(t, states, "the first text", has(text(0)))
	pushed := ours.Health().Pushes
	srv.Faults().LosePushes(server.Always)
	for i := 1; i <= 5; i++ {
		st = update(t, theirs, key, text(i), st.MD5)
		began := time.Now()
		await(t, states, "a change without a push", has(text(i)))
		t.Logf("seen after %v", time.Since(began))
	}
	if h := ours.Health(); h.Pushes > pushed+1 || h.Polls == 0 {
		t.Errorf("health: %+v", h)
	}
}

// TestTransports runs the same watch over each of them.
func TestTransports(t *testing.T) {
	t.Parallel()
	for _, want := range []string{"push", "long-poll"} {
		t.Run(want, func(t *testing.T) {
			srv := startServer(t, server.Config{})
			ours := openStore(t, srv, func(c *nacos.Config) { c.PollInterval = time.Minute; c.DisablePush = want == "long-poll" })
			theirs := openStore(t, srv, nil)
			key := newKey()
			st := create(t, theirs, key, text(0))
			states := ours.Watch(t.Context(), key)
			await(t, states, "the first text", has(text(0)))
			eventually(t, want, func() bool { return ours.Health().Transport == want })
			for i := 1; i <= 5; i++ {
				st = update(t, theirs, key, text(i), st.MD5)
				await(t, states, "a change", has(text(i)))
			}
			// A config that is watched later joins.
			late := newKey()
			other := create(t, theirs, late, text(0))
			lates := ours.Watch(t.Context(), late)
			await(t, lates, "the first text", has(text(0)))
			update(t, theirs, late, text(1), other.MD5)
			await(t, lates, "a change", has(text(1)))
		})
	}
}

// TestLongPollWhereGRPCFails: the port of pushes refuses.
func TestLongPollWhereGRPCFails(t *testing.T) {
	t.Parallel()
	srv := startServer(t, server.Config{})
	ours := openStore(t, srv, func(c *nacos.Config) { c.PollInterval = time.Minute; c.GRPCPort = 1 })
	theirs := openStore(t, srv, nil)
	key := newKey()
	st := create(t, theirs, key, text(0))
	states := ours.Watch(t.Context(), key)
	await(t, states, "the first text", has(text(0)))
	eventually(t, "long poll", func() bool { return ours.Health().Transport == "long-poll" })
	for i := 1; i <= 5; i++ {
		st = update(t, theirs, key, text(i), st.MD5)
		await(t, states, "a change", has(text(i)))
	}
}

func TestManyWatchersShare(t *testing.T) {
	t.Parallel()
	srv := startServer(t, server.Config{})
	ours, theirs := openStore(t, srv, nil), openStore(t, srv, nil)
	key := newKey()
	st := create(t, theirs, key, text(0))
	ctx, cancel := context.WithCancel(t.Context())
	var all []<-chan nacos.State
	for range 50 {
		all = append(all, ours.Watch(ctx, key))
	}
	for _, w := range all {
		await(t, w, "the first text", has(text(0)))
	}
	slow := ours.Watch(t.Context(), key) // takes nothing until the end
	for i := 1; i <= 10; i++ {
		st = update(t, theirs, key, text(i), st.MD5)
		for _, w := range all {
			await(t, w, "a change", has(text(i)))
		}
	}
	if st := <-slow; st.Text != text(10) {
		t.Errorf("a slow watcher got %q first, not the newest", st.Text)
	}
	cancel()
	for _, w := range all {
		for range w {
		}
	}
	update(t, theirs, key, text(11), st.MD5)
	await(t, slow, "a change after the others left", has(text(11)))
	again := ours.Watch(t.Context(), key)
	await(t, again, "the current text for a new watcher", has(text(11)))
}

// TestRapidChanges: what is delivered may skip values, never the last, and
// never goes back.
func TestRapidChanges(t *testing.T) {
	srv := startServer(t, server.Config{DumpTick: -1})
	ours, theirs := openStore(t, srv, nil), openStore(t, srv, nil)
	key := newKey()
	st := create(t, theirs, key, text(0))
	states := ours.Watch(t.Context(), key)
	const changes = 1000
	done := make(chan error, 1)
	go func() {
		defer close(done)
		for i := 1; i <= changes; i++ {
			var err error
			if st, err = theirs.Update(context.Background(), key, nacos.Content{Text: text(i)}, st.MD5); err != nil {
				done <- err
				return
			}
		}
	}()
	seen, newest := 0, -1
	awaitFor(t, 6*patience, states, "the last of the changes", func(s nacos.State) bool {
		var n int
		if _, err := fmt.Sscanf(s.Text[strings.LastIndexByte(s.Text, '=')+1:], "%d", &n); err != nil {
			t.Fatalf("state %+v: %v", s, err)
		}
		if n < newest {
			t.Fatalf("state went from %d to %d", newest, n)
		}
		newest = n
		seen++
		return n == changes
	})
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	t.Logf("%d changes, %d states", changes, seen)
}

// TestTwoStoresOneDirectory: two stores of one user beside each other leave no
// file and do not disturb each other.
func TestTwoStoresOneDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	srv := startServer(t, server.Config{})
	a, b := openStore(t, srv, nil), openStore(t, srv, nil)
	key := newKey()
	as, bs := a.Watch(t.Context(), key), b.Watch(t.Context(), key)
	st := create(t, a, key, text(1))
	await(t, as, "own creation", has(text(1)))
	await(t, bs, "the other's creation", has(text(1)))
	st = update(t, b, key, text(2), st.MD5)
	await(t, as, "the other's change", has(text(2)))
	update(t, a, key, text(3), st.MD5)
	await(t, bs, "the other's change", has(text(3)))
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("files left: %v, %v", left, err)
	}
}
