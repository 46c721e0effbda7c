package release

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func keeping(dir string) func(*ScannerConfig) {
	return func(c *ScannerConfig) { c.CheckpointDir = dir }
}

func TestCheckpointGoesOn(t *testing.T) {
	onEach(t, allKinds, func(t *testing.T, b *bench) {
		dir := t.TempDir()
		first := b.scanner(keeping(dir))
		stop := b.start(first)
		b.wait("the start", func() bool { return first.Status().Ticks > 0 })
		b.insert("a+b+c", "d+e+f")
		b.wait("two rows", func() bool { return len(b.seen()) == 2 })
		stop()
		b.insert("g+h+i")
		second := b.scanner(keeping(dir))
		b.start(second)
		b.wait("the third row", func() bool { return len(b.seen()) == 3 })
		b.insert("j+k+l")
		b.wait("the fourth row", func() bool { return len(b.seen()) == 4 })
		// The third may have been handed over by a process that died: nobody knows.
		b.want("1 2 3r 4")
	})
}

// The process ends between a hand-over and its checkpoint.
func TestCrashBeforeTheCheckpoint(t *testing.T) {
	onEach(t, allKinds, func(t *testing.T, b *bench) {
		dir := t.TempDir()
		first := b.scanner(keeping(dir))
		b.step(first)
		b.insert("a+b+c")
		b.step(first)
		first.saveCheckpoint()
		b.insert("d+e+f")
		b.step(first)
		second := b.scanner(keeping(dir))
		b.step(second)
		b.want("1 2 2r")
		if st := second.Status(); st.Replayed != 1 || st.Position.ID != 2 {
			t.Errorf("replayed %d, position %v", st.Replayed, st.Position)
		}
	})
}

// An insert that was open when one process ended is found by the next.
func TestCheckpointKeepsGaps(t *testing.T) {
	onEach(t, realKinds, func(t *testing.T, b *bench) {
		dir := t.TempDir()
		first := b.scanner(keeping(dir))
		b.step(first)
		slow := b.begin()
		slow.insert("slow")
		b.insert("quick")
		b.step(first)
		first.saveCheckpoint()
		second := b.scanner(keeping(dir))
		b.steps(second, settleTicks+2)
		b.want("2")
		if st := second.Status(); st.GapsOpen != 1 {
			t.Fatalf("%d gaps are open, want 1", st.GapsOpen)
		}
		slow.commit()
		b.steps(second, 2)
		b.want("2 1l")
		if st := second.Status(); st.GapsOpen != 0 {
			t.Errorf("%d gaps are open, want 0", st.GapsOpen)
		}
	})
}

func TestTruncateWhileNobodyLooks(t *testing.T) {
	onEach(t, allKinds, func(t *testing.T, b *bench) {
		dir := t.TempDir()
		first := b.scanner(keeping(dir))
		b.step(first)
		b.bulk(10)
		b.step(first)
		first.saveCheckpoint()
		b.truncate()
		b.insert("new+a+b", "new+a+c")
		second := b.scanner(keeping(dir))
		b.steps(second, 2)
		second.saveCheckpoint()
		if got := show(b.seen()[10:]); got != "2/1 2/2" {
			t.Errorf("delivered %q, want 2/1 2/2", got)
		}
		third := b.scanner(keeping(dir))
		b.steps(third, 2)
		if st := third.Status(); st.Epoch != 2 || st.Rows != 0 {
			t.Errorf("the third is in epoch %d with %d rows, want 2 and 0", st.Epoch, st.Rows)
		}
	})
}

func TestBadCheckpoint(t *testing.T) {
	for name, spoil := range map[string]func(string) string{
		"cut off":          func(s string) string { return s[:len(s)/2] },
		"empty":            func(string) string { return "" },
		"another version":  func(s string) string { return strings.Replace(s, `"version":1`, `"version":9`, 1) },
		"another database": func(s string) string { return strings.Replace(s, `"database":"sqlite:`, `"database":"sqlite:/x`, 1) },
		"no epoch":         func(s string) string { return strings.Replace(s, `"epoch":1`, `"epoch":0`, 1) },
		"a row above":      func(s string) string { return strings.Replace(s, `"cursor":2`, `"cursor":1`, 1) },
		"a gap above":      func(s string) string { return strings.Replace(s, `"gaps":null`, `"gaps":[{"lo":1,"hi":7}]`, 1) },
		"rows out of order": func(s string) string {
			return strings.Replace(s, `"rows":[{"id":1,`, `"rows":[{"id":2,"message":1,"at":1},{"id":1,`, 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "sqlite", makers[0].make(t))
			dir := t.TempDir()
			first := b.scanner(keeping(dir))
			b.step(first)
			b.insert("a+b+c", "d+e+f")
			b.step(first)
			first.saveCheckpoint()
			file := first.checkpointFile()
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			spoiled := spoil(string(data))
			if spoiled == string(data) {
				t.Fatalf("nothing was spoiled in %s", data)
			}
			if err := os.WriteFile(file, []byte(spoiled), 0o600); err != nil {
				t.Fatal(err)
			}
			b.step(b.scanner(keeping(dir)))
			b.want("1 2 1h 2h")
			if e := b.seenEvents(EventAlarm); len(e) != 1 || !strings.Contains(e[0].Text, "checkpoint cannot be used") {
				t.Errorf("alarms %v", e)
			}
		})
	}
}

func TestCheckpointCannotBeWritten(t *testing.T) {
	b := newBench(t, "sqlite", makers[0].make(t))
	file := filepath.Join(t.TempDir(), "a file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := b.scanner(keeping(filepath.Join(file, "dir")))
	b.step(s)
	b.insert("a+b+c")
	for range 3 {
		b.step(s)
		s.saveCheckpoint()
	}
	b.want("1")
	if e := b.seenEvents(EventAlarm); len(e) != 2 || !strings.Contains(e[1].Text, "the position cannot be kept") {
		t.Errorf("alarms %v, want one of the read and one of the first write", e)
	}
}

func TestCheckpointsHaveTheirOwnFiles(t *testing.T) {
	seen := map[string]DSN{}
	for _, dsn := range []DSN{"postgres://u:p@h/db", "postgres://u:p@h/db?search_path=a", "postgres://u:p@h/db?search_path=b", "mysql://u:p@h/db", "postgres://u:p@h2/db"} {
		s := &Scanner{db: &DB{dsn: dsn}}
		if other, ok := seen[s.checkpointFile()]; ok {
			t.Errorf("%s and %s share a file", dsn, other)
		}
		seen[s.checkpointFile()] = dsn
	}
	one, two := &Scanner{db: &DB{dsn: "mysql://u:p@h/db?tls=true"}}, &Scanner{db: &DB{dsn: "mysql://u:changed@h/db?tls=true"}}
	if one.checkpointFile() != two.checkpointFile() {
		t.Error("a new password begins a new checkpoint")
	}
}
