package control

import (
	"fmt"
	"time"

	"github.com/belay-mq/belay/registry/toggle"
)

// order turns an intent on one listener into the change of the file that it asks
// for. The toggle is what is in force now.
func (in Intent) order(now time.Time, by string) (toggle.Intent, error) {
	t := toggle.Intent{Op: toggle.Add, ListenerID: in.ID.Listener, UpdatedAt: toggle.To(stamp(now))}
	if by != "" {
		t.UpdatedBy = toggle.To(by)
	}
	if in.Min != nil {
		t.Min = toggle.To(*in.Min)
	}
	if in.Max != nil {
		t.Max = toggle.To(*in.Max)
	}
	switch in.Op {
	case Undo:
		if in.undo == nil {
			return t, fmt.Errorf("undo %s: %w", in.ID, ErrNothingToUndo)
		}
		t = *in.undo
		t.UpdatedAt = toggle.To(stamp(now))
		if by != "" {
			t.UpdatedBy = toggle.To(by)
		}
	case Pause:
		err := in.pause(&t, now)
		return t, err
	case Resume:
		if in.At.After(now) {
			t.ResumeAt = toggle.To(stamp(in.At))
			break
		}
		t.Enable, t.PauseAt, t.ResumeAt, t.Reason = toggle.To(true), toggle.Null[string](), toggle.Null[string](), toggle.Null[string]()
	case Scale:
		if in.Min == nil && in.Max == nil {
			return t, fmt.Errorf("scale %s: neither min nor max is given", in.ID)
		}
	default:
		return t, fmt.Errorf("%s %s: this is no change of one listener", in.Op, in.ID)
	}
	return t, nil
}

// pause fills in a pause, at once or as a planned window.
func (in Intent) pause(t *toggle.Intent, now time.Time) error {
	t.Reason = toggle.Null[string]()
	if in.Reason != "" {
		t.Reason = toggle.To(in.Reason)
	}
	t.ResumeAt = toggle.Null[string]()
	if !in.Until.IsZero() {
		if !in.Until.After(now) || !in.At.IsZero() && !in.Until.After(in.At) {
			return fmt.Errorf("pause %s: it would end at %s, before it begins", in.ID, stamp(in.Until))
		}
		t.ResumeAt = toggle.To(stamp(in.Until))
	}
	if in.At.After(now) {
		t.PauseAt = toggle.To(stamp(in.At))
		return nil
	}
	t.PauseAt, t.Enable = toggle.Null[string](), toggle.To(false)
	return nil
}

// stamp writes a time as belay writes it into files: UTC, to the second.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// timed says whether an intent leaves something for later.
func (in Intent) timed(now time.Time) bool {
	return in.Op == Pause && !in.Until.IsZero() || (in.Op == Pause || in.Op == Resume) && in.At.After(now)
}

// settled says whether the toggle in force already is what an order asks for. Who
// wrote it, when and why do not count.
func settled(order toggle.Intent, t toggle.Toggle, entry bool) bool {
	if !entry {
		return false
	}
	return asked(order.Enable, t.Enable) && asked(order.Min, t.Min) && asked(order.Max, t.Max) &&
		sameTime(order.PauseAt, t.PauseAt) && sameTime(order.ResumeAt, t.ResumeAt)
}

// asked says whether a field reads as an order wants it.
func asked[T comparable](o toggle.Opt[T], have *T) bool {
	if !o.Present {
		return true
	}
	return equal(o.Value, have)
}

func equal[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return *a == *b
}

func sameTime(o toggle.Opt[string], have *string) bool {
	if !o.Present || o.Value == nil || have == nil {
		return asked(o, have)
	}
	a, err1 := time.Parse(time.RFC3339, *o.Value)
	b, err2 := time.Parse(time.RFC3339, *have)
	return err1 == nil && err2 == nil && a.Equal(b)
}

// contradicts says whether somebody else has changed, between two files, what an
// order is about, and not to what the order asks for.
func contradicts(order toggle.Intent, before, after *toggle.File) bool {
	was, had := before.Lookup(order.ListenerID)
	is, has := after.Lookup(order.ListenerID)
	if settled(order, is, has) {
		return false
	}
	if had && !has {
		return true
	}
	about := func(present, same bool) bool { return present && !same }
	return about(order.Enable.Present, equal(was.Enable, is.Enable)) ||
		about(order.Min.Present, equal(was.Min, is.Min)) || about(order.Max.Present, equal(was.Max, is.Max)) ||
		about(order.PauseAt.Present, equal(was.PauseAt, is.PauseAt)) || about(order.ResumeAt.Present, equal(was.ResumeAt, is.ResumeAt))
}
