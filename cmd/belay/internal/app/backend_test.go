package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/belay-mq/belay/cmd/belay/internal/config"
	"github.com/belay-mq/belay/registry/fleet"
)

// A Nacos without any toggle file is one that answers, not one that cannot be reached.
func TestSettleWithoutToggleFiles(t *testing.T) {
	servers, err := StartEmbedded(t.Context(), &config.Context{Name: "empty", Label: "EMPTY", Nacos: &config.Nacos{Embedded: true}}, t.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer servers.Close(context.WithoutCancel(t.Context()))
	b, err := Open(t.Context(), servers.Context, Options{StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close(context.WithoutCancel(t.Context()))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := b.Settle(ctx); err != nil {
		t.Fatalf("Settle: %v", err)
	}
	if s := b.Snapshot(); !s.Searched || len(s.Apps) != 0 {
		t.Errorf("applications known %t, %d of them; want known, none", s.Searched, len(s.Apps))
	}
}

// Who interrupts the wait did not find out that a server cannot be reached.
func TestSettleInterrupted(t *testing.T) {
	c := &config.Context{
		Name: "down", Label: "DOWN", Nacos: &config.Nacos{Servers: []string{"127.0.0.1:1"}},
		RabbitMQ: &config.RabbitMQ{URL: "amqp://127.0.0.1:1/"},
	}
	b, err := Open(t.Context(), c, Options{StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close(context.WithoutCancel(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var unreachable *UnreachableError
	if err := b.Settle(ctx); !errors.Is(err, context.Canceled) || errors.As(err, &unreachable) {
		t.Errorf("Settle: %v, want the context's error", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := b.Settle(ctx); !errors.As(err, &unreachable) {
		t.Errorf("Settle: %v, want an UnreachableError", err)
	}
}

func TestHealthTellsOfPartsThatEnded(t *testing.T) {
	b := &Backend{ctx: &config.Context{}, log: slog.New(slog.DiscardHandler)}
	b.goGuarded("canceled", func() error { return fmt.Errorf("read: %w", context.Canceled) })
	b.goGuarded("well", func() error { return nil })
	b.goGuarded("scanner", func() error { panic("out of range") })
	b.wg.Wait()
	all := b.health()
	last := all[len(all)-1]
	if last.Name != "scanner" || last.State != fleet.HealthDown || last.Err != "scanner panicked: out of range" || last.Since.IsZero() || last.Advice == "" {
		t.Errorf("the part that panicked is shown as %+v", last)
	}
	for _, h := range all[:len(all)-1] {
		if h.State == fleet.HealthDown {
			t.Errorf("%s is shown as down", h.Name)
		}
	}
}
