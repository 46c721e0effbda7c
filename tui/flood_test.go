//go:build unix

package tui

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belay-mq/belay/registry/feed"
	"github.com/belay-mq/belay/tui/internal/fake"
)

// flood feeds 10,000 events a second and a new snapshot of 10,000 rows ten times
// a second.
func flood(be *fake.Backend) {
	a, b := fake.Many(10_000, time.Now(), 2), fake.Many(10_000, time.Now(), 3)
	v := uint64(10)
	n := 0
	for {
		time.Sleep(100 * time.Millisecond)
		v++
		s := *a
		if v%2 == 0 {
			s = *b
		}
		s.Version, s.At = v, time.Now()
		be.Set(&s)
		lines := make([]feed.Line, 1000)
		for i := range lines {
			lines[i] = feed.Line{At: time.Now(), Source: feed.Release, Key: "order+default+application", Version: fmt.Sprint(n), Status: feed.Delivered}
			n++
		}
		be.Add(lines...)
		be.Drop(20_000)
	}
}

// Under a flood the program stays calm and keys are answered. The bars are
// 10 % of a core and 50 ms; a busy machine gets more room, the figures are logged.
func TestFlood(t *testing.T) {
	lasts := 3 * time.Second
	if os.Getenv("BELAY_TEST_SOAK") == "1" {
		lasts = 10 * time.Second
	}
	p := startPTY(t, "flood", 160, 50)
	p.until("Listener")
	var took []time.Duration
	begin := time.Now()
	for i := 0; time.Since(begin) < lasts; i++ {
		// The cursor moves to a row; its pointer is the proof.
		before := pointer(p.screen())
		key := "j"
		if i%20 >= 10 {
			key = "k"
		}
		if i%20 == 10 || i%20 == 0 {
			time.Sleep(20 * time.Millisecond)
		}
		at := time.Now()
		p.write(key)
		for pointer(p.screen()) == before && time.Since(at) < 2*time.Second {
			time.Sleep(time.Millisecond)
		}
		took = append(took, time.Since(at))
		time.Sleep(60 * time.Millisecond)
	}
	p.write("2")
	p.until("follows")
	p.write("qq")
	p.exit()
	slices.Sort(took)
	p95 := took[len(took)*95/100]
	cpu := p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
	share := float64(cpu) / float64(time.Since(begin))
	t.Logf("key to frame p50 %v, p95 %v; processor %.1f %% of a core, the flood's own making included", took[len(took)/2], p95, 100*share)
	if raceEnabled {
		return
	}
	if p95 > 500*time.Millisecond {
		t.Errorf("key to frame p95 %v", p95)
	}
	if share > 0.6 {
		t.Errorf("%.0f %% of a core", 100*share)
	}
}

// pointer is the row that the cursor is on.
func pointer(screen string) string {
	for l := range strings.SplitSeq(screen, "\n") {
		if strings.HasPrefix(l, "▸") {
			return strings.Join(strings.Fields(l)[:3], " ")
		}
	}
	return ""
}
