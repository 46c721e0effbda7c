package registry

import (
	"time"

	"github.com/belay-mq/belay/registry/toggle"
)

// Wanted is what a toggle asks for at one moment.
type Wanted struct {
	// Enable is nil where the file has no opinion.
	Enable *bool
	// Next is when Enable changes by itself (a planned pause or resume); zero when
	// it does not.
	Next time.Time
}

// WantedAt resolves a toggle's planned times: of pauseAt and resumeAt the later one
// that has passed decides, whatever enable says; without one enable does.
func WantedAt(t toggle.Toggle, now time.Time) Wanted {
	w := Wanted{Enable: t.Enable}
	pauseAt, _ := t.PauseTime()
	resumeAt, _ := t.ResumeTime()
	var decided time.Time
	for _, plan := range []struct {
		at     time.Time
		enable bool
	}{{pauseAt, false}, {resumeAt, true}} {
		switch {
		case plan.at.IsZero():
		case plan.at.After(now):
			if w.Next.IsZero() || plan.at.Before(w.Next) {
				w.Next = plan.at
			}
		case decided.IsZero() || plan.at.After(decided):
			decided = plan.at
			enable := plan.enable
			w.Enable = &enable
		}
	}
	return w
}
