package feed

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	releases "github.com/belay-mq/belay/consumers/release"
	"github.com/belay-mq/belay/registry/fleet"
	"github.com/belay-mq/belay/registry/presence"
)

// crowd is a snapshot of 20 listeners on each of n instances.
func crowd(n int, version uint64) *fleet.Snapshot {
	s := &fleet.Snapshot{Version: version, At: time.Now()}
	for i := range n {
		s.Instances = append(s.Instances, &fleet.Instance{ID: fmt.Sprintf("host-%d:1:x", i), App: "app"})
	}
	for l := range 20 {
		r := &fleet.Row{ID: fleet.ID{App: "app", Listener: fmt.Sprintf("L%02d", l)}, State: fleet.Running}
		for _, i := range s.Instances {
			r.Hosts = append(r.Hosts, fleet.Host{Instance: i.ID, Report: presence.ListenerReport{State: "running"}})
		}
		s.Rows = append(s.Rows, r)
	}
	return s
}

// BenchmarkCompare compares snapshots of 1,000 instances with 20 listeners each in which every row was made anew but
// nothing changed. Run does so at most five times a second.
func BenchmarkCompare(b *testing.B) {
	f, err := New(Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close(context.Background())
	snaps := []*fleet.Snapshot{crowd(1000, 1), crowd(1000, 2)}
	for _, s := range snaps {
		if err := f.Compare(b.Context(), s); err != nil {
			b.Fatal(err)
		}
	}
	i := 0
	for b.Loop() {
		if err := f.Compare(b.Context(), snaps[i&1]); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

// BenchmarkRows takes release rows of 1,000 keys in, as fast as it can.
func BenchmarkRows(b *testing.B) {
	f, err := New(Config{})
	if err != nil {
		b.Fatal(err)
	}
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = fmt.Sprintf("app-%d+default+application", i)
	}
	var id uint64
	for b.Loop() {
		id++
		r := releases.Row{Database: "db", Epoch: 1, ID: id, Message: keys[id*7919%1000]}
		if err := f.HandleRow(b.Context(), r); err != nil {
			b.Fatal(err)
		}
	}
	if err := f.Close(context.Background()); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkMemory reports what a full feed holds: 10,000 lines, 10,000 listeners in the center.
func BenchmarkMemory(b *testing.B) {
	for b.Loop() {
		before := heap()
		f, err := New(Config{})
		if err != nil {
			b.Fatal(err)
		}
		s := crowd(500, 1)
		for _, v := range []uint64{1, 2} {
			s.Version = v
			if err := f.Compare(b.Context(), s); err != nil {
				b.Fatal(err)
			}
		}
		for id := range uint64(30_000) {
			r := releases.Row{Database: "db", Epoch: 1, ID: id + 1, Message: fmt.Sprintf("app-%d+default+application", id%12_000)}
			if err := f.HandleRow(b.Context(), r); err != nil {
				b.Fatal(err)
			}
		}
		time.Sleep(700 * time.Millisecond) // let the window pass
		runtime.KeepAlive(s)
		b.ReportMetric(float64(heap()-before)/1e6, "MB")
		f.Close(context.Background())
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
