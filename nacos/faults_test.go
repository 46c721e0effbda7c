package nacos_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belay-mq/belay/nacos"
	"github.com/belay-mq/belay/nacos/server"
)

// behaviours are those with a database, a copy that lags, and permissions.
var behaviours = []server.Behaviour{server.Nacos2, server.Nacos3}

func eachBehaviour(t *testing.T, cfg server.Config, test func(t *testing.T, srv *server.Server)) {
	t.Parallel()
	for _, b := range behaviours {
		t.Run(b.String(), func(t *testing.T) {
			t.Parallel()
			cfg := cfg
			cfg.Behaviour = b
			test(t, startServer(t, cfg))
		})
	}
}

func users() *server.Auth {
	return &server.Auth{Users: []server.User{
		{Name: "nacos", Password: "root", Admin: true},
		{Name: "belay", Password: "secret", Grants: []server.Grant{{Namespace: "*", Write: true}}},
		{Name: "reader", Password: "secret", Grants: []server.Grant{{Namespace: "*"}}},
		{Name: "nobody", Password: "secret"},
	}}
}

func as(name, password string) func(*nacos.Config) {
	return func(c *nacos.Config) { c.Username, c.Password, c.Operator = name, nacos.Secret(password), "" }
}

func TestPermissions(t *testing.T) {
	eachBehaviour(t, server.Config{Auth: users()}, func(t *testing.T, srv *server.Server) {
		writer, reader := openStore(t, srv, as("belay", "secret")), openStore(t, srv, as("reader", "secret"))
		key := newKey()
		st := create(t, writer, key, text(1))
		if got, err := reader.Get(t.Context(), key); err != nil || got.Text != text(1) {
			t.Errorf("reader: %+v, %v", got, err)
		}
		states := reader.Watch(t.Context(), key)
		await(t, states, "the text", has(text(1)))
		_, err := reader.Update(t.Context(), key, nacos.Content{Text: text(2)}, st.MD5)
		if !errors.Is(err, nacos.ErrForbidden) || !strings.Contains(err.Error(), "nothing was written") || !strings.Contains(err.Error(), key.String()) {
			t.Errorf("reader's update: %v", err)
		}
		if err := reader.Remove(t.Context(), key); !errors.Is(err, nacos.ErrForbidden) {
			t.Errorf("reader's removal: %v", err)
		}
		update(t, writer, key, text(3), st.MD5)
		await(t, states, "the writer's change", has(text(3)))
		if list, err := reader.History(t.Context(), key, 5); err != nil || len(list) != 2 || list[0].By != "belay" {
			t.Errorf("reader's history: %+v, %v", list, err)
		}
		eventually(t, "the reader is listed, and may ask for it", func() bool {
			list, err := reader.Watchers(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			return len(list) == 1
		})
		if list, err := reader.Namespaces(t.Context()); err != nil || len(list) == 0 {
			t.Errorf("reader's namespaces: %+v, %v", list, err)
		}
		if list, err := reader.Search(t.Context(), toggleFile); err != nil || len(list) == 0 {
			t.Errorf("reader's search: %+v, %v", list, err)
		}
		for name, change := range map[string]func(*nacos.Config){
			"wrong password": as("belay", "wrong"), "unknown user": as("who", "x"), "no right": as("nobody", "secret"), "no login": as("", ""),
		} {
			s := openStore(t, srv, change)
			_, err := s.Get(t.Context(), key)
			if !errors.Is(err, nacos.ErrForbidden) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: %v", name, err)
			}
			if _, err := s.Create(t.Context(), newKey(), nacos.Content{Text: "x"}); !errors.Is(err, nacos.ErrForbidden) || errors.Is(err, nacos.ErrUnknownOutcome) {
				t.Errorf("%s creates: %v", name, err)
			}
		}
	})
}

func TestRotatedTokenKey(t *testing.T) {
	eachBehaviour(t, server.Config{Auth: users()}, func(t *testing.T, srv *server.Server) {
		s := openStore(t, srv, as("belay", "secret"))
		key := newKey()
		st := create(t, s, key, text(0))
		states := s.Watch(t.Context(), key)
		await(t, states, "the text", has(text(0)))
		eventually(t, "push in use", func() bool { return s.Health().Transport == "push" })
		began := time.Now()
		srv.Faults().RotateTokenKey()
		for {
			_, err := s.Update(t.Context(), key, nacos.Content{Text: text(1)}, st.MD5)
			if err == nil {
				break
			}
			if !errors.Is(err, nacos.ErrForbidden) || time.Since(began) > 30*time.Second {
				t.Fatalf("%v after %v", err, time.Since(began))
			}
			time.Sleep(50 * time.Millisecond)
		}
		await(t, states, "the change", has(text(1)))
		t.Logf("recovered after %v", time.Since(began))
	})
}

// TestDeniedForAWhile: a refusal for no reason of ours heals without help.
func TestDeniedForAWhile(t *testing.T) {
	eachBehaviour(t, server.Config{}, func(t *testing.T, srv *server.Server) {
		s := openStore(t, srv, nil)
		key := newKey()
		create(t, s, key, text(1))
		states := s.Watch(t.Context(), key)
		await(t, states, "the text", has(text(1)))
		srv.Faults().Deny(server.OpAny, server.Always)
		if _, err := s.Get(t.Context(), key); !errors.Is(err, nacos.ErrForbidden) {
			t.Errorf("get: %v", err)
		}
		eventually(t, "health says it", func() bool { return strings.Contains(s.Health().LastErr, "authorization failed") })
		st := await(t, states, "stale", func(s nacos.State) bool { return !s.Stale.IsZero() })
		if !errors.Is(st.LastErr, nacos.ErrForbidden) {
			t.Errorf("stale because of %v", st.LastErr)
		}
		srv.Faults().Reset()
		await(t, states, "fresh again", func(s nacos.State) bool { return s.Stale.IsZero() })
		eventually(t, "health is well", func() bool { return s.Health().LastErr == "" })
	})
}

func TestCutReplies(t *testing.T) {
	eachBehaviour(t, server.Config{}, func(t *testing.T, srv *server.Server) {
		s := openStore(t, srv, nil)
		key := newKey()
		srv.Faults().CutReplies(server.OpPublish, 1)
		st := create(t, s, key, text(0))
		for i := 1; i <= 3; i++ {
			srv.Faults().CutReplies(server.OpPublish, 1)
			st = update(t, s, key, text(i), st.MD5)
		}
		list, err := s.History(t.Context(), key, 10)
		if err != nil || len(list) != 4 {
			t.Errorf("each write was applied once: %d changes, %v", len(list), err)
		}
		srv.Faults().CutReplies(server.OpRemove, 1)
		if err := s.Remove(t.Context(), key); err != nil {
			t.Error(err)
		}
		srv.Faults().CutReplies(server.OpDetail, 2)
		srv.Faults().CutReplies(server.OpRead, 2)
		states := s.Watch(t.Context(), key)
		await(t, states, "absent", func(s nacos.State) bool { return s.Absent })
	})
}

func TestSlowReplyOfPublish(t *testing.T) {
	eachBehaviour(t, server.Config{}, func(t *testing.T, srv *server.Server) {
		s := openStore(t, srv, func(c *nacos.Config) { c.CallTimeout = 400 * time.Millisecond })
		key := newKey()
		st := create(t, s, key, text(0))
		srv.Faults().SlowReplies(server.OpPublish, 1, 2*time.Second)
		if got := update(t, s, key, text(1), st.MD5); got.Text != text(1) {
			t.Errorf("%+v", got)
		}
		if list, err := s.History(t.Context(), key, 10); err != nil || len(list) != 2 {
			t.Errorf("the write was applied once: %+v, %v", list, err)
		}
	})
}

// TestSlowListen: a change during a listen request that hangs is not lost.
func TestSlowListen(t *testing.T) {
	eachBehaviour(t, server.Config{}, func(t *testing.T, srv *server.Server) {
		ours, theirs := openStore(t, srv, nil), openStore(t, srv, nil)
		keys := []nacos.Key{newKey(), newKey(), newKey()}
		var states []<-chan nacos.State
		var base []string
		for _, k := range keys {
			base = append(base, create(t, theirs, k, text(0)).MD5)
		}
		srv.Faults().SlowReplies(server.OpListen, server.Always, 500*time.Millisecond)
		for _, k := range keys {
			states = append(states, ours.Watch(t.Context(), k))
			await(t, states[len(states)-1], "the text", has(text(0)))
		}
		for i, k := range keys {
			update(t, theirs, k, text(1), base[i])
		}
		for i := range keys {
			await(t, states[i], "the change", has(text(1)))
		}
	})
}

func TestRateLimit(t *testing.T) {
	eachBehaviour(t, server.Config{}, func(t *testing.T, srv *server.Server) {
		s := openStore(t, srv, nil)
		key := newKey()
		st := create(t, s, key, text(0))
		states := s.Watch(t.Context(), key)
		await(t, states, "the text", has(text(0)))
		// Fast reads are not limited, and each is current.
		for i := range 200 {
			if i%20 == 0 {
				st = update(t, s, key, text(i+1), st.MD5)
			}
			if got, err := s.Get(t.Context(), key); err != nil || got.MD5 != st.MD5 {
				t.Fatalf("read %d: %+v, %v", i, got, err)
			}
		}
		// The server's own limit is an error, and heals.
		srv.Faults().LimitRate(server.OpAny, 3)
		if _, err := s.Get(t.Context(), key); !errors.Is(err, nacos.ErrUnavailable) {
			t.Errorf("limited: %v", err)
		}
		update(t, s, key, text(999), st.MD5)
		await(t, states, "the change", has(text(999)))
	})
}

// TestCollidingDump: reads are old for a second or two after each publish.
func TestCollidingDump(t *testing.T) {
	eachBehaviour(t, server.Config{}, func(t *testing.T, srv *server.Server) {
		for _, detail := range []bool{true, false} {
			srv.Faults().Reset()
			if !detail {
				srv.Faults().Deny(server.OpDetail, server.Always)
			}
			s := openStore(t, srv, nil)
			key := newKey()
			states := s.Watch(t.Context(), key)
			await(t, states, "absent", func(s nacos.State) bool { return s.Absent })
			st := create(t, s, key, text(0))
			newest := -1
			for i := 1; i <= 3; i++ {
				srv.Faults().CollideDumps(1)
				st = update(t, s, key, text(i), st.MD5)
				if got, err := s.Get(t.Context(), key); err != nil || got.Text != text(i) {
					t.Errorf("detail %v: after update %d: %+v, %v", detail, i, got, err)
				}
				for seen := false; !seen; {
					got := await(t, states, "any state", func(nacos.State) bool { return true })
					for n := range 4 {
						if got.Text == text(n) {
							if n < newest {
								t.Errorf("detail %v: the watch went back from %d to %d", detail, newest, n)
							}
							newest = n
						}
					}
					seen = got.Text == text(i)
				}
			}
		}
	})
}

// TestOneIllegalName: its watch closes, the others live.
func TestOneIllegalName(t *testing.T) {
	eachBehaviour(t, server.Config{}, func(t *testing.T, srv *server.Server) {
		ours, theirs := openStore(t, srv, nil), openStore(t, srv, nil)
		key := newKey()
		good := ours.Watch(t.Context(), key)
		bad := ours.Watch(t.Context(), nacos.Key{DataID: "rabbitmq toggle", Group: "a@b"})
		if _, open := <-bad; open {
			t.Error("the illegal name sent a state")
		}
		create(t, theirs, key, text(1))
		await(t, good, "the text", has(text(1)))
	})
}

func TestOverwrittenOnAServerThatIgnoresCAS(t *testing.T) {
	eachBehaviour(t, server.Config{}, func(t *testing.T, srv *server.Server) {
		srv.Faults().IgnoreCAS(true)
		a, b := openStore(t, srv, nil), openStore(t, srv, nil)
		key := newKey()
		st := create(t, a, key, text(0))
		lost, conflicts := 0, 0
		for i := 1; i <= 200 && lost == 0; i++ {
			var wg sync.WaitGroup
			var errs [2]error
			var got [2]nacos.State
			for n, s := range []*nacos.Store{a, b} {
				wg.Go(func() {
					got[n], errs[n] = s.Update(t.Context(), key, nacos.Content{Text: text(1000*(n+1) + i)}, st.MD5)
				})
			}
			wg.Wait()
			both := 0
			for n, err := range errs {
				var over *nacos.OverwroteError
				var conflict *nacos.ConflictError
				switch {
				case err == nil:
					both++
				case errors.As(err, &over):
					lost++
					if other := text(1000*(2-n) + i); over.Lost != other {
						t.Errorf("round %d: lost %q, not %q", i, over.Lost, other)
					}
				case errors.As(err, &conflict):
					conflicts++
				default:
					t.Fatal(err)
				}
			}
			if both == 2 {
				t.Fatalf("round %d: both writes succeeded on one base, and nobody said that one was lost", i)
			}
			var err error
			if st, err = a.Get(t.Context(), key); err != nil {
				t.Fatal(err)
			}
			_ = got
		}
		t.Logf("%d lost and said, %d conflicts", lost, conflicts)
	})
}

// TestSilence: nothing is written to the standard outputs or beside the
// program, and the log holds neither contents nor passwords nor tokens.
func TestSilence(t *testing.T) {
	t.Chdir(t.TempDir())
	srv := startServer(t, server.Config{Auth: users()})
	var mu sync.Mutex
	var log bytes.Buffer
	outputs := capture(t)
	s := openStore(t, srv, func(c *nacos.Config) {
		as("belay", "secret")(c)
		c.CallTimeout = 300 * time.Millisecond
		c.Logger = slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	nacos.PlainUnderRace(s)
	key := newKey()
	st := create(t, s, key, "the-body=1")
	states := s.Watch(t.Context(), key)
	await(t, states, "the text", has("the-body=1"))
	srv.Faults().RotateTokenKey()
	if err := srv.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the update", func() bool {
		_, err := s.Update(t.Context(), key, nacos.Content{Text: "the-body=2"}, st.MD5)
		if err != nil && (strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "the-body")) {
			t.Errorf("error tells too much: %v", err)
		}
		return err == nil
	})
	await(t, states, "the change", has("the-body=2"))
	if text := outputs(); text != "" {
		t.Errorf("written to the standard outputs: %q", text)
	}
	mu.Lock()
	defer mu.Unlock()
	if text := log.String(); text == "" || strings.Contains(text, "secret") || strings.Contains(text, "the-body") || strings.Contains(text, "accessToken") || strings.Contains(text, "eyJ") {
		t.Errorf("log: %s", text)
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("files left: %v, %v", left, err)
	}
}

type lockedWriter struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (l lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// capture diverts the standard outputs into a file until the returned function
// is called.
func capture(t *testing.T) func() string {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	stdout, stderr := os.Stdout, os.Stderr
	os.Stdout, os.Stderr = f, f
	restore := func() { os.Stdout, os.Stderr = stdout, stderr }
	t.Cleanup(restore)
	return func() string {
		restore()
		text, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
		return string(text)
	}
}
