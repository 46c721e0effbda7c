package tui

import (
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/belay-mq/belay/registry/feed"
	"github.com/belay-mq/belay/registry/fleet"
	"github.com/belay-mq/belay/tui/internal/fake"
)

func bigModel(b testing.TB, n int) (*Model, *fake.Backend) {
	be := fake.New(fake.Many(n, time.Now(), 1))
	m, err := NewModel(b.Context(), Config{Backend: be})
	if err != nil {
		b.Fatal(err)
	}
	m.Update(tea.WindowSizeMsg{Width: 200, Height: 60})
	return m, be
}

// BenchmarkView draws a frame of 10,000 rows; the bar is 1 ms.
func BenchmarkView(b *testing.B) {
	m, _ := bigModel(b, 10_000)
	for b.Loop() {
		m.dirty = true
		m.View()
	}
}

// BenchmarkCachedView is a frame in which nothing changed.
func BenchmarkCachedView(b *testing.B) {
	m, _ := bigModel(b, 10_000)
	for b.Loop() {
		m.View()
	}
}

// BenchmarkSnapshot takes a new snapshot of 10,000 rows, as ten times a second.
func BenchmarkSnapshot(b *testing.B) {
	m, be := bigModel(b, 10_000)
	snaps := []*fleet.Snapshot{fake.Many(10_000, time.Now(), 2), fake.Many(10_000, time.Now(), 3)}
	i := 0
	for b.Loop() {
		i++
		be.Set(snaps[i%2])
		m.look()
	}
}

// BenchmarkSort sorts 10,000 rows, as every two seconds.
func BenchmarkSort(b *testing.B) {
	m, _ := bigModel(b, 10_000)
	c := m.home()
	for b.Loop() {
		c.sort(m.v.snap.Rows)
	}
}

// BenchmarkFirstFrame is from nothing to the first frame of 100,000 rows; the bar
// is 300 ms.
func BenchmarkFirstFrame(b *testing.B) {
	be := fake.New(fake.Many(100_000, time.Now(), 1))
	for b.Loop() {
		m, err := NewModel(b.Context(), Config{Backend: be})
		if err != nil {
			b.Fatal(err)
		}
		m.Update(tea.WindowSizeMsg{Width: 200, Height: 60})
		m.View()
	}
}

// BenchmarkFeed takes and draws 1,000 new lines, as ten times a second under
// 10,000 events a second.
func BenchmarkFeed(b *testing.B) {
	m, be := bigModel(b, 100)
	m.Update(keyOf("2"))
	lines := make([]feed.Line, 1000)
	for i := range lines {
		lines[i] = feed.Line{At: time.Now(), Source: feed.Release, Key: "order+default+application", Version: "4711", Status: feed.Delivered}
	}
	for b.Loop() {
		b.StopTimer()
		be.Drop(2000)
		be.Add(lines...)
		b.StartTimer()
		m.look()
		m.View()
	}
}

// The bars, with room for a busy machine; the benchmarks give the figures.
func TestSpeed(t *testing.T) {
	begin := time.Now()
	m, _ := bigModel(t, 100_000)
	m.View()
	first := time.Since(begin)
	best := time.Hour
	for range 20 {
		begin := time.Now()
		m.dirty = true
		m.View()
		best = min(best, time.Since(begin))
	}
	t.Logf("first frame of 100,000 rows with making the fleet %v, a frame %v", first, best)
	if best > 5*time.Millisecond {
		t.Errorf("a frame takes %v", best)
	}
	if first > 5*time.Second {
		t.Errorf("the first frame takes %v", first)
	}
}
