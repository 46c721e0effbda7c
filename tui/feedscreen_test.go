package tui

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/belay-mq/belay/registry/feed"
)

func TestFeedFollowsUnlessScrolled(t *testing.T) {
	drive(t, 120, 20, func(d *driver) {
		d.press("2")
		add := func(n int) {
			for i := range n {
				d.be.Add(feed.Line{At: time.Now(), Source: feed.Release, Key: fmt.Sprintf("key-%d", i), Version: fmt.Sprint(i), Status: feed.Delivered})
			}
			d.wait(tick)
		}
		add(100)
		d.sees("key-99", "follows", "waiting 320 ms")
		d.press("k", "k")
		d.sees("scrolled: G follows")
		add(50)
		if strings.Contains(d.screen(), "key-49 ") {
			t.Error("a scrolled feed moved")
		}
		d.press("G")
		d.sees("follows", "key-49 ")
		d.press("f")
		add(7)
		d.sees("frozen, 7 newer")
		d.press("f")
		d.sees("key-6 ")
	})
}

func TestFeedSourceAndFilter(t *testing.T) {
	drive(t, 120, 30, func(d *driver) {
		d.press("2", "S")
		d.sees("source release", "order+default+application")
		if strings.Contains(d.screen(), "host-c:812") {
			t.Error("other sources are shown")
		}
		d.press("esc", "/")
		d.typed("!release")
		d.press("enter")
		d.sees("filter !release", "host-c:812")
		if strings.Contains(d.screen(), "order+default") {
			t.Error("the inverse filter shows releases")
		}
		d.press("esc")
		d.sees("9 lines")
	})
}

func TestFeedSearch(t *testing.T) {
	drive(t, 120, 30, func(d *driver) {
		cursor := func() string {
			for _, l := range strings.Split(d.screen(), "\n") {
				if strings.HasPrefix(l, "▸") {
					return l
				}
			}
			return ""
		}
		d.press("2", "n")
		d.sees("there is no search")
		d.press("/")
		d.typed("toggle")
		d.press("enter", "G", "n")
		d.sees("search toggle", "9 lines")
		if !strings.Contains(cursor(), "PayoutConsumer") {
			t.Errorf("the match is not kept: %s", cursor())
		}
		d.press("N")
		if !strings.Contains(cursor(), "RefundConsumer") {
			t.Errorf("previous match: %s", cursor())
		}
		d.press("n")
		if !strings.Contains(cursor(), "PayoutConsumer") {
			t.Errorf("next match: %s", cursor())
		}
		d.press("n")
		d.sees("no further line matches")
	})
}

func TestFeedJumpAndSteps(t *testing.T) {
	drive(t, 120, 30, func(d *driver) {
		d.press(":")
		d.typed("jump 23:58:50")
		d.press("enter")
		if r, _ := d.m.line().t.Row(); r.Text != "running → drift" {
			t.Errorf("jumped to %+v", r)
		}
		d.press("enter")
		d.sees("steps of order-service/AuditConsumer", "running → drift")
		d.press("esc", ":")
		d.typed("jump noon")
		d.press("enter")
		d.sees("is no time of day")
	})
}

func TestPalette(t *testing.T) {
	drive(t, 120, 30, func(d *driver) {
		d.press(":")
		d.typed("sort er")
		d.press("enter")
		d.sees("sort: errors ▼")
		d.press(":")
		d.typed("nonsense")
		d.press("enter")
		d.sees(`there is no command "nonsense"`)
		d.press(":")
		d.typed("pau")
		d.press("tab", "enter")
		d.sees("Pause settle-service/RefundConsumer") // the cursor stayed on its row
		if len(d.m.dialogs) != 1 {
			t.Errorf("%d dialogs", len(d.m.dialogs))
		}
	})
}

// What a flood leaves behind is what was sent, and memory stays bounded.
func TestFloodIsCorrect(t *testing.T) {
	drive(t, 120, 30, func(d *driver) {
		d.press("2")
		sent := 0
		for range 100 {
			for range 1000 {
				d.be.Add(feed.Line{At: time.Now(), Source: feed.Release, Key: "k", Version: fmt.Sprint(sent), Status: feed.Delivered})
				sent++
			}
			d.wait(tick)
		}
		log := d.m.v.feed
		if n := len(log.lines); n < feedKeep || n > 2*feedKeep || log.lost != 0 {
			t.Errorf("%d lines kept, %d lost", n, log.lost)
		}
		for i, l := range log.lines {
			if want := fmt.Sprint(sent - len(log.lines) + i); l.Version != want {
				t.Fatalf("line %d is %s, want %s", i, l.Version, want)
			}
		}
		d.sees(fmt.Sprint(sent - 1))
	})
}

func TestDetail(t *testing.T) {
	drive(t, 120, 24, func(d *driver) {
		d.press("enter")
		d.wait(time.Second)
		d.sees("rising since 23:52:03", "after running → paused by oncall", "host-c:812:f3a2", "TTL drops the oldest")
		d.press("tab", "G")
		d.sees("▸─ queue", "now")
		d.press("tab")
		d.sees("▸─ changes of the file", "enable true → false")
		d.press("p")
		d.sees("Pause settle-service/RefundConsumer")
		d.press("esc")
		s := *d.be.Snapshot()
		s.Version++
		s.Rows = s.Rows[:3]
		d.be.Set(&s)
		d.wait(time.Second)
		d.sees("no longer known")
		d.press("p")
		d.sees("this listener is no longer known")
		d.press("q")
		d.sees("3 listeners")
	})
}
