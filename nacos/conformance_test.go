package nacos_test

import (
	"context"
	"errors"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belay-mq/belay/nacos"
	"github.com/belay-mq/belay/nacos/server"
	"github.com/google/go-cmp/cmp"
)

// traits is what a server offers beyond the contract that all share.
type traits struct {
	history  bool // history, details, metadata, who listens, search with permissions
	compares bool // compares the expected md5
}

// TestConformance runs the contract of the store on every kind of server: the
// embedded one in each of its behaviours, and the one that BELAY_TEST_NACOS
// names, as http://[user:password@]host:port.
func TestConformance(t *testing.T) {
	t.Parallel()
	for _, b := range []server.Behaviour{server.Nacos2, server.Nacos3, server.RNacos} {
		t.Run(b.String(), func(t *testing.T) {
			t.Parallel()
			srv := startServer(t, server.Config{Behaviour: b})
			conform(t, traitsOf(b), func(t *testing.T, change func(*nacos.Config)) *nacos.Store { return openStore(t, srv, change) })
		})
	}
	t.Run("real", func(t *testing.T) {
		addr := os.Getenv("BELAY_TEST_NACOS")
		if addr == "" {
			t.Skip("BELAY_TEST_NACOS not set")
		}
		u, err := url.Parse(addr)
		if err != nil {
			t.Fatal(err)
		}
		open := func(t *testing.T, change func(*nacos.Config)) *nacos.Store {
			cfg := nacos.Config{Servers: []string{u.Host}, Operator: "oncall1", Username: u.User.Username()}
			password, _ := u.User.Password()
			cfg.Password = nacos.Secret(password)
			if change != nil {
				change(&cfg)
			}
			store, err := nacos.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := store.Close(context.Background()); err != nil {
					t.Error(err)
				}
			})
			return store
		}
		b := server.RNacos
		probe := open(t, nil)
		if _, err := probe.Get(t.Context(), newKey()); err != nil {
			t.Fatal(err)
		}
		switch v := probe.Health().Server; {
		case strings.HasPrefix(v, "3."):
			b = server.Nacos3
		case v != "":
			b = server.Nacos2
		}
		conform(t, traitsOf(b), open)
	})
}

func traitsOf(b server.Behaviour) traits {
	if b == server.RNacos {
		return traits{}
	}
	return traits{history: true, compares: true}
}

type opener func(t *testing.T, change func(*nacos.Config)) *nacos.Store

func conform(t *testing.T, tr traits, open opener) {
	// temporary returns a key that is removed from the server at the end.
	temporary := func(t *testing.T, s *nacos.Store) nacos.Key {
		key := newKey()
		t.Cleanup(func() { _ = s.Remove(context.Background(), key) })
		return key
	}
	t.Run("absent", func(t *testing.T) {
		t.Parallel()
		s := open(t, nil)
		st, err := s.Get(t.Context(), newKey())
		if err != nil || !st.Absent || st.Text != "" || st.MD5 != "" || st.Seq == 0 {
			t.Errorf("%+v, %v", st, err)
		}
		if err := s.Remove(t.Context(), newKey()); err != nil {
			t.Errorf("remove what is not there: %v", err)
		}
	})
	t.Run("bytes survive", func(t *testing.T) {
		t.Parallel()
		s := open(t, nil)
		for _, body := range []string{"a=1", "a=1\r\n# Größe 配置 \U0001f600\n\tb = c%20+&=;d\n", " a=1 \n\n", strings.Repeat("x=0123456789\n", 20_000)} {
			key := temporary(t, s)
			st := create(t, s, key, body)
			got, err := s.Get(t.Context(), key)
			if err != nil || got.Text != body || got.MD5 != st.MD5 {
				t.Errorf("%.20q: came back as %.20q, %v", body, got.Text, err)
			}
		}
	})
	t.Run("read your write", func(t *testing.T) {
		t.Parallel()
		s := open(t, nil)
		key := temporary(t, s)
		st := create(t, s, key, text(0))
		for i := 1; i <= 20; i++ {
			st = update(t, s, key, text(i), st.MD5)
			if got, err := s.Get(t.Context(), key); err != nil || got.Text != text(i) || got.Seq < st.Seq {
				t.Fatalf("after update %d: %+v, %v", i, got, err)
			}
		}
	})
	t.Run("conflicts", func(t *testing.T) {
		t.Parallel()
		a, b := open(t, nil), open(t, nil)
		key := temporary(t, a)
		var conflict *nacos.ConflictError
		if _, err := a.Update(t.Context(), key, nacos.Content{Text: text(1)}, strings.Repeat("0", 32)); !errors.As(err, &conflict) || !conflict.Actual.Absent {
			t.Errorf("update of what is not there: %v", err)
		}
		one := create(t, a, key, text(1))
		if _, err := b.Create(t.Context(), key, nacos.Content{Text: text(2)}); !errors.As(err, &conflict) || conflict.Actual.Text != text(1) || conflict.BaseMD5 != "" {
			t.Errorf("second creation: %v", err)
		}
		two := update(t, b, key, text(2), one.MD5)
		if _, err := a.Update(t.Context(), key, nacos.Content{Text: text(3)}, one.MD5); !errors.As(err, &conflict) || conflict.Actual.MD5 != two.MD5 || conflict.BaseMD5 != one.MD5 {
			t.Errorf("update on an old base: %v", err)
		}
		if got, err := a.Get(t.Context(), key); err != nil || got.Text != text(2) {
			t.Errorf("after the conflict: %+v, %v", got, err)
		}
		if a.Health().Conflicts != 2 || b.Health().Conflicts != 1 {
			t.Errorf("conflicts counted: %d and %d", a.Health().Conflicts, b.Health().Conflicts)
		}
	})
	t.Run("four writers", func(t *testing.T) {
		t.Parallel()
		if !tr.compares {
			t.Skip("this server applies a publish with any expected md5")
		}
		const writers, each = 4, 10
		s := open(t, nil)
		key := temporary(t, s)
		create(t, s, key, "n=0\n")
		errs := make(chan error, writers)
		for range writers {
			w := open(t, nil)
			go func() { errs <- increment(w, key, each) }()
		}
		for range writers {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if got, err := s.Get(t.Context(), key); err != nil || strings.Count(got.Text, "+") != writers*each {
			t.Errorf("%d of %d increments are there, %v", strings.Count(got.Text, "+"), writers*each, err)
		}
	})
	t.Run("watch", func(t *testing.T) {
		t.Parallel()
		ours, theirs := open(t, nil), open(t, nil)
		key := temporary(t, theirs)
		states := ours.Watch(t.Context(), key)
		first := await(t, states, "absent", func(s nacos.State) bool { return s.Absent })
		st := create(t, theirs, key, text(0))
		seen := await(t, states, "the creation", has(text(0)))
		if seen.Seq <= first.Seq {
			t.Errorf("Seq went from %d to %d", first.Seq, seen.Seq)
		}
		for i := 1; i <= 5; i++ {
			st = update(t, theirs, key, text(i), st.MD5)
			await(t, states, "a change", has(text(i)))
		}
		if err := theirs.Remove(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		await(t, states, "the removal", func(s nacos.State) bool { return s.Absent })
		create(t, theirs, key, text(5))
		await(t, states, "the same text created anew", has(text(5)))
		if err := theirs.Remove(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		create(t, theirs, key, text(6))
		await(t, states, "removed and created back to back", has(text(6)))
		eventually(t, "push in use", func() bool { return ours.Health().Transport == "push" })
	})
	for _, namespace := range []string{"", "public", "ns-prod"} {
		t.Run("namespace "+namespace, func(t *testing.T) {
			t.Parallel()
			in := func(c *nacos.Config) { c.Namespace = namespace }
			ours, theirs := open(t, in), open(t, in)
			key := temporary(t, theirs)
			st := create(t, theirs, key, text(1))
			states := ours.Watch(t.Context(), key)
			await(t, states, "the text", has(text(1)))
			update(t, theirs, key, text(2), st.MD5)
			await(t, states, "the change", has(text(2)))
			other := open(t, func(c *nacos.Config) {
				if c.Namespace = ""; namespace != "ns-prod" {
					c.Namespace = "ns-other"
				}
			})
			if got, err := other.Get(t.Context(), key); err != nil || !got.Absent {
				t.Errorf("seen in another namespace: %+v, %v", got, err)
			}
		})
	}
	t.Run("metadata and history", func(t *testing.T) {
		t.Parallel()
		s := open(t, nil)
		key := temporary(t, s)
		if !tr.history {
			if _, err := s.History(t.Context(), key, 3); !errors.Is(err, nacos.ErrRemovedAPI) {
				t.Errorf("history: %v", err)
			}
			if _, err := s.Detail(t.Context(), key); !errors.Is(err, nacos.ErrRemovedAPI) {
				t.Errorf("detail: %v", err)
			}
			if lost, err := s.Losses(t.Context(), key); err != nil || len(lost) > 0 {
				t.Errorf("losses: %v, %v", lost, err)
			}
			return
		}
		if _, err := s.Detail(t.Context(), key); !errors.Is(err, nacos.ErrAbsent) {
			t.Errorf("detail of what is not there: %v", err)
		}
		one := create(t, s, key, text(1))
		two, err := s.Update(t.Context(), key, nacos.Content{Text: text(2), Operator: "anna"}, one.MD5)
		if err != nil {
			t.Fatal(err)
		}
		update(t, s, key, text(3), two.MD5)
		d, err := s.Detail(t.Context(), key)
		if err != nil || d.Text != text(3) || d.Type != "properties" || d.Modified.IsZero() {
			t.Errorf("detail %+v, %v", d, err)
		}
		list, err := s.History(t.Context(), key, 10)
		if err != nil {
			t.Fatal(err)
		}
		type row struct{ Op, By, Text, Previous string }
		var got []row
		for _, c := range list {
			got = append(got, row{c.Op, c.By, c.Text, c.Previous})
			if !c.Known || c.ID == "" || time.Since(c.At).Abs() > time.Hour {
				t.Errorf("change %+v", c)
			}
		}
		want := []row{{"update", "oncall1", text(3), text(2)}, {"update", "anna", text(2), text(1)}, {"insert", "oncall1", text(1), ""}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("history (-want +got):\n%s", diff)
		}
		if p, err := s.Previous(t.Context(), key); err != nil || p.Text != text(3) || p.Previous != text(2) {
			t.Errorf("newest change %+v, %v", p, err)
		}
		if list, err := s.History(t.Context(), newKey(), 10); err != nil || len(list) > 0 {
			t.Errorf("history of nothing: %v, %v", list, err)
		}
	})
	t.Run("who listens", func(t *testing.T) {
		t.Parallel()
		s := open(t, nil)
		key := temporary(t, s)
		st := create(t, s, key, text(1))
		if !tr.history {
			if _, err := s.Watchers(t.Context(), key); !errors.Is(err, nacos.ErrRemovedAPI) {
				t.Errorf("watchers: %v", err)
			}
			return
		}
		ctx, cancel := context.WithCancel(t.Context())
		states := s.Watch(ctx, key)
		await(t, states, "the text", has(text(1)))
		shows := func(sum string) func() bool {
			return func() bool {
				list, err := s.Watchers(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				return sum == "" && len(list) == 0 || len(list) == 1 && list[0].MD5 == sum && list[0].Address != ""
			}
		}
		eventually(t, "listed with the md5 fetched", shows(st.MD5))
		st = update(t, s, key, text(2), st.MD5)
		eventually(t, "listed with the new md5", shows(st.MD5))
		cancel()
		eventually(t, "listed no more", shows(""))
	})
	t.Run("search and namespaces", func(t *testing.T) {
		t.Parallel()
		s := open(t, nil)
		a, b := temporary(t, s), temporary(t, s)
		b.DataID = "rabbitmq-toggle.yml"
		create(t, s, a, text(1))
		create(t, s, b, "rabbitmq: {}\n")
		t.Cleanup(func() { _ = s.Remove(context.Background(), b) })
		eventually(t, "found", func() bool {
			found, err := s.Search(t.Context(), toggleFile, "rabbitmq-toggle.yml")
			if err != nil {
				t.Fatal(err)
			}
			return slices.Contains(found, a) && slices.Contains(found, b)
		})
		if found, err := s.Search(t.Context(), "rabbitmq-toggle"); err != nil || len(found) > 0 {
			t.Errorf("a part of a data id finds %v, %v", found, err)
		}
		list, err := s.Namespaces(t.Context())
		if err != nil || len(list) == 0 || list[0].ID != "" {
			t.Errorf("namespaces %+v, %v", list, err)
		}
	})
	t.Run("too large", func(t *testing.T) {
		t.Parallel()
		s := open(t, nil)
		key := temporary(t, s)
		if _, err := s.Create(t.Context(), key, nacos.Content{Text: strings.Repeat("x", 2<<20)}); !errors.Is(err, nacos.ErrTooLarge) {
			t.Errorf("2 MB: %v", err)
		}
		if got, err := s.Get(t.Context(), key); err != nil || !got.Absent {
			t.Errorf("then %+v, %v", got, err)
		}
	})
}

// increment adds n plus signs by compare-and-publish.
func increment(s *nacos.Store, key nacos.Key, n int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	st, err := s.Get(ctx, key)
	for range n {
		for {
			if err != nil {
				return err
			}
			var next nacos.State
			next, err = s.Update(ctx, key, nacos.Content{Text: st.Text + "+\n"}, st.MD5)
			var conflict *nacos.ConflictError
			if errors.As(err, &conflict) {
				st, err = conflict.Actual, nil
				continue
			}
			if err == nil {
				st = next
				break
			}
		}
	}
	return nil
}
