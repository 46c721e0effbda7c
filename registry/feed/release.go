package feed

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	releases "github.com/belay-mq/belay/consumers/release"
	"github.com/belay-mq/belay/registry/change"
)

// HandleRow takes a row of the scanner in; a Feed is a [releases.Listener]. It waits only while the center is full,
// which holds the scanner up until the feed has room. Rows that were there before the scanner began are the past:
// each is one line at the time of its writing, where that is not before what LoadPast was asked for.
func (f *Feed) HandleRow(ctx context.Context, r releases.Row) error {
	if r.History && !r.Replay {
		f.mu.Lock()
		defer f.mu.Unlock()
		if r.ChangedAt.Before(f.since) {
			f.counts.Known++ // the table shows it to whoever looks that far back
			return nil
		}
		f.pastLocked(rowLine(r))
		return nil
	}
	f.mu.Lock()
	known := f.past.hold(r.Message, r.ID, r.Late)
	if known {
		f.counts.Known++
	} else {
		if f.holding > 0 { // the table may show it to the past that is being loaded
			f.past.row(r.Message, span{r.ID, r.ID})
		}
		f.steps.note(r.Message, Release, id(r.ID), time.Now())
	}
	f.mu.Unlock()
	if known {
		return nil
	}
	e := change.Event{
		Key: change.Key{DataCenter: r.Database, DataInfoID: r.Message},
		// Every row is a change of its own, so the item's id is the row's.
		Items: []change.Item{{ID: strconv.Itoa(r.Epoch) + ":" + id(r.ID), Version: int64(r.ID), Registered: r.ChangedAt.UnixMilli()}},
		Late:  r.Late,
	}
	if r.Replay {
		e.Source, e.Version = change.Backup, int64(max(r.ID, 1))
	}
	if _, err := f.center.Offer(ctx, e); err != nil {
		return fmt.Errorf("take row %d into the feed: %w", r.ID, err)
	}
	return nil
}

func id(n uint64) string { return strconv.FormatUint(n, 10) }

// rowLine is a row of the past.
func rowLine(r releases.Row) Line {
	_, ok := releases.ParseKey(r.Message)
	return Line{At: r.ChangedAt, Source: Release, Key: r.Message, Version: id(r.ID), Status: Delivered, Malformed: !ok}
}

// seeRelease makes a line of an outcome of a release message.
func (f *Feed) seeRelease(d change.Delivery) {
	l := f.base(&d, Release)
	l.Key = d.Key.DataInfoID
	_, ok := releases.ParseKey(l.Key)
	l.Malformed = !ok
	from, to := newRows(&d)
	if to == 0 {
		return // it was known
	}
	l.Version = strconv.FormatInt(to, 10)
	if from != to {
		l.FromVersion = strconv.FormatInt(from, 10)
	}
	n := 0
	if d.Outcome == change.Delivered {
		for i := range f.cfg.Listeners {
			if f.cfg.Listeners[i].Sources.Owes(d.Reasons) {
				n++
			}
		}
	}
	if n == 0 {
		f.add(l)
		return
	}
	f.await(awaited{d.Key, d.Seq}, l, n)
}

// newRows is the lowest and highest row id that came with a delivery.
func newRows(d *change.Delivery) (from, to int64) {
	prev := d.Prev.Items
	for i := range d.Now.Items {
		x := &d.Now.Items[i]
		for len(prev) > 0 && prev[0].ID < x.ID {
			prev = prev[1:]
		}
		if len(prev) > 0 && prev[0].ID == x.ID {
			continue
		}
		if from == 0 || x.Version < from {
			from = x.Version
		}
		to = max(to, x.Version)
	}
	return from, to
}

// awaited names a delivery whose listeners have not all answered.
type awaited struct {
	key change.Key
	seq uint64
}

// tally is a line that waits for its listeners' answers.
type tally struct {
	line  Line
	left  int
	timer *time.Timer
	text  string // of the first failure
}

// await keeps the line until its listeners have answered once, or grace has passed: lines never change afterwards.
func (f *Feed) await(k awaited, l Line, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		f.addLocked(l)
		return
	}
	f.awaiting[k] = &tally{line: l, left: n, timer: time.AfterFunc(grace, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.settleLocked(k)
	})}
}

// settleLocked adds a line that waited.
func (f *Feed) settleLocked(k awaited) {
	t := f.awaiting[k]
	if t == nil {
		return
	}
	t.timer.Stop()
	delete(f.awaiting, k)
	t.line.Text = t.text
	f.addLocked(t.line)
}

// report counts what a listener said. The listener's own goroutine calls it.
func (f *Feed) report(a change.Attempt) {
	k := awaited{a.Delivery.Key, a.Delivery.Seq}
	f.mu.Lock()
	defer f.mu.Unlock()
	if t := f.awaiting[k]; t != nil && a.Number <= 1 {
		switch a.Result {
		case change.Done:
			t.line.OK++
		case change.Superseded:
		default:
			t.line.Failed++
			if t.text == "" {
				t.text = fmt.Sprintf("%s: %v", a.Notifier, a.Err)
			}
		}
		if t.left--; t.left <= 0 {
			f.settleLocked(k)
		}
	}
	switch {
	case a.Result == change.Retrying && a.Number == 1:
		f.failureLocked(a, Failed, "will be tried again")
	case a.Result == change.DeadLetter && errors.Is(a.Err, change.ErrMailboxFull):
		f.failureLocked(a, DeadLetter, "it is too far behind")
	case a.Result == change.DeadLetter && f.ctx.Err() == nil:
		f.failureLocked(a, DeadLetter, fmt.Sprintf("given up after %d attempts", a.Number))
	}
}

func (f *Feed) failureLocked(a change.Attempt, s Status, what string) {
	_, to := newRows(&a.Delivery)
	f.addLocked(Line{
		Source: Release, Key: a.Delivery.Key.DataInfoID, Version: strconv.FormatInt(to, 10), Status: s, Failed: 1,
		Window: f.window, Text: fmt.Sprintf("%s: %v; %s", a.Notifier, a.Err, what),
	})
}

// onlyReleases keeps a listener from what is not a release message.
func onlyReleases(n change.Notifier) change.Notifier {
	notify := n.Notify
	if notify == nil {
		return n
	}
	n.Notify = func(ctx context.Context, d change.Delivery) error {
		if domainOf(d.Key) != release {
			return nil
		}
		return notify(ctx, d)
	}
	return n
}
