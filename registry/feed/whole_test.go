package feed_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/belay-mq/belay/consumers"
	"github.com/belay-mq/belay/consumers/broker"
	"github.com/belay-mq/belay/consumers/release"
	"github.com/belay-mq/belay/registry/feed"
	"github.com/belay-mq/belay/registry/presence"
)

// await waits until the feed has n lines of a source.
func await(t *testing.T, f *feed.Feed, s feed.Source, n int) []feed.Line {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		all, _ := f.Lines(0, 10_000)
		var lines []feed.Line
		for _, l := range all {
			if l.Source == s {
				lines = append(lines, l)
			}
		}
		if len(lines) >= n {
			return lines
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d lines of %s, want %d: %+v", len(lines), s, n, all)
		}
		select {
		case <-t.Context().Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// A scanner on a real table feeds one process; a second one that opens has the first one's past, each line once.
func TestTwoProcesses(t *testing.T) {
	ctx := t.Context()
	db, err := release.Open(ctx, release.DSN("sqlite:"+filepath.Join(t.TempDir(), "apollo.db")))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Init(ctx); err != nil {
		t.Fatal(err)
	}
	b, err := broker.Listen(ctx, broker.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close(context.Background())

	first := open(t, db, b.URL(), "first")
	sender := release.NewSender(db, nil)
	tx, err := db.SQL().BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		if _, err := sender.SendTx(ctx, tx, release.Topic, "order+default+application"); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if _, err := sender.Send(ctx, release.Topic, "pay+default+db"); err != nil {
		t.Fatal(err)
	}
	byKey := map[string]feed.Line{}
	for _, l := range await(t, first.feed, feed.Release, 2) {
		byKey[l.Key] = l
	}
	if l := byKey["order+default+application"]; l.Merged != 49 || l.FromVersion != "1" || l.Version != "50" || l.Status != feed.Delivered {
		t.Errorf("fifty messages in one transaction: %+v", l)
	}
	if l := byKey["pay+default+db"]; l.Merged != 0 || l.Version != "51" {
		t.Errorf("one message: %+v", l)
	}

	// The second opens later, and asks the first and the table.
	second := open(t, db, b.URL(), "second")
	lines := await(t, second.feed, feed.Release, 2)
	if len(lines) != 2 || lines[0].Merged != 49 && lines[1].Merged != 49 {
		t.Errorf("the second process's past: %+v", lines)
	}
	if _, err := sender.Send(ctx, release.Topic, "pay+default+db"); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*process{first, second} {
		if lines := await(t, p.feed, feed.Release, 3); len(lines) != 3 || lines[2].Version != "52" {
			t.Errorf("after another message: %+v", lines)
		}
	}
}

type process struct{ feed *feed.Feed }

// open starts what a process with a feed has.
func open(t *testing.T, db *release.DB, url, name string) *process {
	t.Helper()
	f, err := feed.New(feed.Config{})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := consumers.Dial(t.Context(), consumers.ConnConfig{URL: url, App: "belay", Instance: fmt.Sprintf("%s:1:x", name)})
	if err != nil {
		t.Fatal(err)
	}
	p := presence.New(presence.Config{Conn: conn, Feed: f.Since})
	scanner, err := release.NewScanner(db, release.ScannerConfig{
		Interval: 100 * time.Millisecond, Listeners: []release.Listener{f}, OnEvent: f.HandleEvent,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 3)
	source := func() presence.Report { return presence.Report{} }
	go func() { ended <- p.Send(ctx, source) }()
	if err := f.LoadPast(ctx, feed.Past{Releases: db, Peers: feed.Peers{p}, Since: time.Now().Add(-time.Hour)}); err != nil {
		t.Errorf("the past of %s: %v", name, err)
	}
	go func() { ended <- scanner.Run(ctx) }()
	go func() { ended <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		for range 3 {
			if err := <-ended; err != nil {
				t.Errorf("%s ended with %v", name, err)
			}
		}
		closing, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := f.Close(closing); err != nil {
			t.Error(err)
		}
		if err := conn.Close(closing); err != nil {
			t.Error(err)
		}
	})
	return &process{feed: f}
}
