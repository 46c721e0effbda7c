package nacos_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/belay-mq/belay/nacos"
	"github.com/belay-mq/belay/nacos/server"
)

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for _, b := range []server.Behaviour{server.Nacos2, server.Nacos3, server.RNacos} {
		t.Run(b.String(), func(t *testing.T) {
			srv := startServer(t, server.Config{Behaviour: b})
			store := openStore(t, srv, nil)
			key := newKey()
			states := store.Watch(t.Context(), key)
			if st := await(t, states, "absent", func(s nacos.State) bool { return s.Absent }); st.MD5 != "" || st.Text != "" {
				t.Errorf("absent state has content: %+v", st)
			}
			one := create(t, store, key, text(1))
			await(t, states, "the created text", has(text(1)))
			two := update(t, store, key, text(2), one.MD5)
			if got := await(t, states, "the second text", has(text(2))); got.MD5 != two.MD5 || got.Seq < two.Seq {
				t.Errorf("watched %+v, written %+v", got, two)
			}
			if _, err := store.Create(t.Context(), key, nacos.Content{Text: text(9)}); !errors.As(err, new(*nacos.ConflictError)) {
				t.Errorf("create of an existing config: %v", err)
			}
			var conflict *nacos.ConflictError
			if _, err := store.Update(t.Context(), key, nacos.Content{Text: text(9)}, one.MD5); !errors.As(err, &conflict) || conflict.Actual.Text != text(2) {
				t.Errorf("update on an old base: %v, %+v", err, conflict)
			}
			if got, err := store.Get(t.Context(), key); err != nil || got.Text != text(2) {
				t.Errorf("get: %+v, %v", got, err)
			}
			if err := store.Remove(t.Context(), key); err != nil {
				t.Fatal(err)
			}
			await(t, states, "absent again", func(s nacos.State) bool { return s.Absent })
			eventually(t, "push in use", func() bool { return store.Health().Transport == "push" })
		})
	}
}

func TestForeignChangesArrive(t *testing.T) {
	t.Parallel()
	srv := startServer(t, server.Config{})
	ours, theirs := openStore(t, srv, nil), openStore(t, srv, nil)
	key := newKey()
	st := create(t, theirs, key, text(0))
	ctx, cancel := context.WithCancel(t.Context())
	states := ours.Watch(ctx, key)
	await(t, states, "the first text", has(text(0)))
	for i := 1; i <= 20; i++ {
		st = update(t, theirs, key, text(i), st.MD5)
		await(t, states, "a change", has(text(i)))
	}
	cancel()
	for range states {
	}
	began := time.Now()
	if err := ours.Close(t.Context()); err != nil || time.Since(began) > time.Second {
		t.Errorf("close: %v after %v", err, time.Since(began))
	}
	if _, err := ours.Get(t.Context(), key); !errors.Is(err, nacos.ErrClosed) {
		t.Errorf("get after close: %v", err)
	}
}
