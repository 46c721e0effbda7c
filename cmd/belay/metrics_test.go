package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// 'belay run --metrics' serves what the containers count.
func TestMetrics(t *testing.T) {
	configPath := startDemo(t)
	listeners := filepath.Join(t.TempDir(), "listeners.yaml")
	text := "app: order-service\nlisteners:\n  - {id: AuditConsumer, queues: [audit], handler: discard}\n"
	if err := os.WriteFile(listeners, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	background(t, "--config", configPath, "run", "-f", listeners, "--metrics", addr)
	eventually(t, 20*time.Second, "the listener's consumers are in the metrics", func() (bool, string) {
		resp, err := http.Get("http://" + addr + "/metrics")
		if err != nil {
			return false, err.Error()
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return false, err.Error()
		}
		return strings.Contains(string(body), `listener="AuditConsumer"`), string(body)
	})
}

// An address that is taken is said before anything is hosted.
func TestMetricsAddressIsTaken(t *testing.T) {
	configPath := startDemo(t)
	listeners := filepath.Join(t.TempDir(), "listeners.yaml")
	if err := os.WriteFile(listeners, []byte("app: order-service\nlisteners:\n  - {id: AuditConsumer, queues: [audit], handler: discard}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	code, _, stderr := belay(t, "--config", configPath, "run", "-f", listeners, "--metrics", l.Addr().String())
	if code != exitUsage || !strings.Contains(stderr, "--metrics "+l.Addr().String()) {
		t.Errorf("exit %d, %s", code, stderr)
	}
}

type brokenHost struct{}

func (brokenHost) Run(context.Context) error { return errors.New("boom") }

// Listeners that cannot be hosted close the dashboard, which says why.
func TestBrokenHostClosesTheDashboard(t *testing.T) {
	err := runBeside(t.Context(), brokenHost{}, func(ctx context.Context) error {
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Second):
			t.Error("the dashboard stays open")
		}
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "not hosted any more: boom") {
		t.Errorf("err = %v", err)
	}
}
