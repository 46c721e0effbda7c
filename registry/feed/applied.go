package feed

import (
	"fmt"
	"time"

	"github.com/belay-mq/belay/registry/fleet"
)

// applying is a toggle change that some instance has not applied yet.
type applying struct {
	line  Line
	since time.Time
}

// applyMost is how long a change's application is waited for.
const applyMost = 10 * time.Minute

// addToggle adds a line of a toggle change: as applied, where every instance already has it, else as delivered, and
// a second one follows when they have.
func (f *Feed) addToggle(l Line, id fleet.ID) {
	if l.Status != Delivered {
		f.add(l)
		return
	}
	since := l.At.Add(-l.Delay)
	n, all := f.appliedBy(f.snap.Load(), id)
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.applying, id)
	if all {
		l.Status, l.OK = Applied, n
	} else {
		f.applying[id] = &applying{line: l, since: since}
	}
	f.addLocked(l)
}

// appliedBy counts the instances on which a listener is as the newest file wants it.
func (f *Feed) appliedBy(s *fleet.Snapshot, id fleet.ID) (n int, all bool) {
	if s == nil {
		return 0, false
	}
	row, app := s.Row(id), s.App(id.App)
	if row == nil || app == nil || len(row.Hosts) == 0 {
		return 0, false
	}
	want := app.InForce
	if want == "" {
		want = app.File.MD5
	}
	for i := range row.Hosts {
		h := &row.Hosts[i]
		if !h.Lost && (!h.Applied || h.FileMD5 != want) {
			return n, false
		}
		if h.Applied {
			n++
		}
	}
	return n, n > 0 && n == row.Inst.Total
}

// lookForApplied adds the lines of changes that all instances have applied by now.
func (f *Feed) lookForApplied(s *fleet.Snapshot) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, a := range f.applying {
		if n, all := f.appliedBy(s, id); all {
			l := a.line
			took := time.Since(a.since)
			l.At, l.Status, l.OK, l.Merged, l.Delay = time.Now(), Applied, n, 0, took
			l.Text = fmt.Sprintf("%d/%d applied", n, n)
			f.addLocked(l)
			delete(f.applying, id)
		} else if time.Since(a.since) > applyMost {
			delete(f.applying, id)
		}
	}
}
