package release

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestSend(t *testing.T) {
	onEach(t, allKinds, func(t *testing.T, b *bench) {
		cleaner := NewCleaner(b.db, CleanerConfig{})
		s := NewSender(b.db, cleaner)
		sent, err := s.Send(t.Context(), Topic, "a+b+c")
		if err != nil || sent != (Sent{ID: 1, Message: "a+b+c"}) {
			t.Fatalf("sent %v, %v", sent, err)
		}
		if _, err := s.Send(t.Context(), "apollo-other", "a+b+c"); !errors.Is(err, ErrTopic) {
			t.Errorf("another topic: %v", err)
		}
		if st := cleaner.Status(); st.Pending != 1 {
			t.Errorf("%d offered, want 1", st.Pending)
		}
		tx, err := b.db.SQL().BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.SendTx(t.Context(), tx, Topic, "x+y+z"); err != nil {
			t.Fatal(err)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		if st := cleaner.Status(); st.Pending != 1 {
			t.Errorf("a message was offered before its commit")
		}
		rows, err := b.db.Recent(t.Context(), time.Now().Add(-time.Hour), 10)
		if err != nil || show(rows) != "1h" {
			t.Errorf("the table holds %q, %v", show(rows), err)
		}
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Send(canceled, Topic, "a+b+c"); !errors.Is(err, context.Canceled) {
			t.Errorf("after a cancel: %v", err)
		}
	})
}

func TestRecent(t *testing.T) {
	onEach(t, allKinds, func(t *testing.T, b *bench) {
		for i := range 6 {
			at := time.Now().UTC().Add(time.Duration(i-6) * time.Hour).Format("2006-01-02 15:04:05")
			b.exec(b.q(fmt.Sprintf(`INSERT INTO "ReleaseMessage" ("Message", "DataChange_LastTime") VALUES ('a+b+c%d', '%s')`, i, at)))
		}
		for _, c := range []struct {
			since time.Duration
			limit int
			want  string
		}{{24 * time.Hour, 0, "1h 2h 3h 4h 5h 6h"}, {24 * time.Hour, 2, "5h 6h"}, {210 * time.Minute, 0, "4h 5h 6h"}, {time.Minute, 9, ""}} {
			rows, err := b.db.Recent(t.Context(), time.Now().Add(-c.since), c.limit)
			if err != nil || show(rows) != c.want {
				t.Errorf("since %s, limit %d: %q, %v; want %q", c.since, c.limit, show(rows), err, c.want)
			}
		}
	})
}

func TestClean(t *testing.T) {
	onEach(t, allKinds, func(t *testing.T, b *bench) {
		c := NewCleaner(b.db, CleanerConfig{})
		messages := make([]string, 350)
		for i := range messages {
			messages[i] = "a+b+c"
			if i%10 == 0 {
				messages[i] = "x+y+z"
			}
		}
		ids := b.insert(messages...)
		last := Sent{ID: ids[349], Message: "a+b+c"}
		if n, err := c.Clean(t.Context(), last); err != nil || n != 314 {
			t.Errorf("deleted %d, %v; want 314", n, err)
		}
		if n, err := c.Clean(t.Context(), last); err != nil || n != 0 {
			t.Errorf("a second time deleted %d, %v; want 0", n, err)
		}
		rows, err := b.db.Recent(t.Context(), time.Unix(1, 0), 0)
		if err != nil || len(rows) != 36 || rows[35].ID != ids[349] {
			t.Errorf("%d rows are left, %v; want 36", len(rows), err)
		}
	})
}

// An id whose transaction was rolled back, or is still open, takes nothing
// with it that is the newest.
func TestCleanWithoutTheNewRow(t *testing.T) {
	onEach(t, allKinds, func(t *testing.T, b *bench) {
		c := NewCleaner(b.db, CleanerConfig{})
		b.insert("a+b+c", "a+b+c")
		if n, err := c.Clean(t.Context(), Sent{ID: 99, Message: "a+b+c"}); err != nil || n != 1 {
			t.Errorf("deleted %d, %v; want 1", n, err)
		}
		rows, err := b.db.Recent(t.Context(), time.Unix(1, 0), 0)
		if err != nil || show(rows) != "2h" {
			t.Errorf("the table holds %q, %v; want the newest", show(rows), err)
		}
	})
}

// A page full of case variants does not stop the cleaner.
func TestCleanPastVariants(t *testing.T) {
	onEach(t, allKinds, func(t *testing.T, b *bench) {
		c := NewCleaner(b.db, CleanerConfig{})
		var messages []string
		for range 150 {
			messages = append(messages, "A+b+c")
		}
		ids := b.insert(append(messages, "a+b+c", "a+b+c")...)
		if n, err := c.Clean(t.Context(), Sent{ID: ids[151], Message: "a+b+c"}); err != nil || n != 1 {
			t.Errorf("deleted %d, %v; want 1", n, err)
		}
	})
}

func TestCleanersSideBySide(t *testing.T) {
	onEach(t, allKinds, func(t *testing.T, b *bench) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var running sync.WaitGroup
		var cleaners []*Cleaner
		for range 3 {
			c := NewCleaner(b.db, CleanerConfig{Pause: 10 * time.Millisecond})
			cleaners = append(cleaners, c)
			running.Go(func() {
				if err := c.Run(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		for i := range 120 {
			for j, id := range b.insert(fmt.Sprintf("app%d+b+c", i%4), "same+b+c") {
				m := []string{fmt.Sprintf("app%d+b+c", i%4), "same+b+c"}[j]
				for _, c := range cleaners {
					c.Offer(Sent{ID: id, Message: m})
				}
			}
		}
		newest := func() string {
			rows, err := b.db.Recent(t.Context(), time.Unix(1, 0), 0)
			if err != nil {
				t.Fatal(err)
			}
			return show(rows)
		}
		b.wait("five rows", func() bool { return newest() == "233h 235h 237h 239h 240h" })
		cancel()
		running.Wait()
		var deleted uint64
		for _, c := range cleaners {
			deleted += c.Status().Deleted
		}
		if deleted != 235 {
			t.Errorf("deleted %d rows, want 235", deleted)
		}
	})
}

func TestCleanerTriesAgain(t *testing.T) {
	b := newBench(t, "sqlite", makers[0].make(t))
	ids := b.insert("a+b+c", "a+b+c")
	b.exec(`ALTER TABLE "ReleaseMessage" RENAME TO "Hidden"`)
	c := NewCleaner(b.db, CleanerConfig{Pause: 10 * time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()
	c.Offer(Sent{ID: ids[1], Message: "a+b+c"})
	b.wait("the failure", func() bool { return c.Status().LastError != nil && c.Status().Pending == 1 })
	b.exec(`ALTER TABLE "Hidden" RENAME TO "ReleaseMessage"`)
	b.wait("the second try", func() bool { return c.Status().Deleted == 1 && c.Status().LastError == nil })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestNewKey(t *testing.T) {
	for _, c := range []struct{ app, cluster, namespace, err string }{
		{"app", "default", "application", ""},
		{"", "default", "application", "the app id is empty"},
		{"app", "", "application", "the cluster is empty"},
		{"app", "default", "", "the namespace is empty"},
		{"a+b", "default", "application", `the app id "a+b" holds a +`},
		{"app", "default", "a+", "holds a +"},
		{"app", "default", strings.Repeat("ü", 1012), ""},
		{"app", "default", strings.Repeat("ü", 1013), "1025 characters"},
	} {
		k, err := NewKey(c.app, c.cluster, c.namespace)
		switch {
		case c.err == "":
			if got, ok := ParseKey(k.Message()); err != nil || !ok || got != k {
				t.Errorf("%.40q: %v, read back as %v", c, err, got)
			}
		case !errors.Is(err, ErrKey) || !strings.Contains(err.Error(), c.err):
			t.Errorf("%.40q: %v, want %s", c, err, c.err)
		}
	}
	if got := MessageCluster("c1", ""); got != "c1" {
		t.Errorf("no branch: %s", got)
	}
	if got := MessageCluster("20260101-a", "default"); got != "default" {
		t.Errorf("a branch: %s", got)
	}
}

func FuzzParseKey(f *testing.F) {
	for _, s := range []string{"a+b+c", "a++c", "+", "a+b+c+d", "", "a+b", "ü+🚀+ "} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, message string) {
		k, ok := ParseKey(message)
		if ok != (strings.Count(message, "+") == 2 && k.AppID != "" && k.Cluster != "" && k.Namespace != "") {
			t.Fatalf("%q: %v, %t", message, k, ok)
		}
		if ok && k.Message() != message {
			t.Fatalf("%q is read as %q", message, k.Message())
		}
	})
}
