package consumers_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/belay-mq/belay/consumers"
	amqp "github.com/rabbitmq/amqp091-go"
)

func TestCloseIsNoLoss(t *testing.T) {
	onServers(t, func(t *testing.T, s *server) {
		var (
			mu  sync.Mutex
			log strings.Builder
		)
		for range 20 {
			conn, err := consumers.Dial(t.Context(), consumers.ConnConfig{URL: s.url, Logger: slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, nil))})
			check(t, err)
			for _, open := range []func(context.Context) (*amqp.Channel, error){conn.ConsumeChannel, conn.PublishChannel} {
				_, err := open(t.Context())
				check(t, err)
			}
			check(t, conn.Close(t.Context()))
			if h := conn.Health(); h.Connected || h.LastError != "" {
				t.Errorf("closed, and health is %+v", h)
			}
		}
		if strings.Contains(log.String(), "WARN") {
			t.Errorf("logged:\n%s", log.String())
		}
	})
}

func TestPanicInACallback(t *testing.T) {
	onServers(t, func(t *testing.T, s *server) {
		s.declare(t, "q", nil)
		var (
			mu   sync.Mutex
			log  strings.Builder
			told atomic.Int64
		)
		logger := slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, nil))
		conn := s.dial(t, func(cfg *consumers.ConnConfig) { cfg.Logger = logger })
		conn.OnChange(func() { panic("of the connection's") })
		c := container(t, conn, consumers.Config{Queues: []string{"q"}, Logger: logger}, ok)
		c.OnChange(func() { panic("of the container's") })
		c.OnChange(func() { told.Add(1) })
		start(t, c)
		stop(t, c)
		eventually(t, "the other callback called", func() bool { return told.Load() >= 2 })
		for _, said := range []string{"of the connection's", "of the container's"} {
			eventually(t, "the log says the panic "+said, func() bool {
				mu.Lock()
				defer mu.Unlock()
				return strings.Contains(log.String(), said)
			})
		}
	})
}
