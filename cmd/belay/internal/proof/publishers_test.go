package proof

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/belay-mq/belay/consumers/release"
)

func TestPublishers(t *testing.T) {
	duration := 10 * time.Second
	switch {
	case os.Getenv("BELAY_TEST_SOAK") == "1":
		duration = time.Minute
	case testing.Short():
		duration = 2 * time.Second
	}
	for _, kind := range []string{"sqlite", "mysql", "postgres"} {
		for _, clean := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/clean=%t", kind, clean), func(t *testing.T) {
				cfg := PublishersConfig{Clean: clean, Duration: duration, Seed: uint64(time.Now().UnixNano()), DSN: ownDatabase(t, kind)}
				if kind == "sqlite" && duration == 10*time.Second {
					cfg.Duration = 2 * time.Second
				}
				report, err := Publishers(t.Context(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("seed %d\n%s", cfg.Seed, report)
				if err := report.Err(); err != nil {
					t.Error(err)
				}
				if report.Committed == 0 || report.RolledBack == 0 || report.Held == 0 || clean && report.Cleaned == 0 ||
					!clean && kind != "sqlite" && report.Naive == 0 {
					t.Errorf("the run did not exercise everything: %s", report)
				}
			})
		}
	}
}

// ownDatabase makes a database for one run and drops it afterwards.
func ownDatabase(t *testing.T, kind string) release.DSN {
	if kind == "sqlite" {
		return release.DSN("sqlite:" + filepath.Join(t.TempDir(), "publishers.db"))
	}
	variable, force := "BELAY_TEST_MYSQL", ""
	if kind == "postgres" {
		variable, force = "BELAY_TEST_POSTGRES", " WITH (FORCE)"
	}
	server := os.Getenv(variable)
	if server == "" {
		if os.Getenv("BELAY_TEST_REAL") == "1" {
			t.Fatalf("%s is not set, though BELAY_TEST_REAL=1", variable)
		}
		t.Skipf("%s not set", variable)
	}
	admin, err := release.Open(t.Context(), release.DSN(server))
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("proof_%d_%d", os.Getpid(), time.Now().UnixNano()%1e6)
	if _, err := admin.SQL().ExecContext(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		defer admin.Close()
		if _, err := admin.SQL().ExecContext(context.Background(), "DROP DATABASE "+name+force); err != nil {
			t.Error(err)
		}
	})
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return release.DSN(u.String())
}
