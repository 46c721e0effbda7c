package feed

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	releases "github.com/belay-mq/belay/consumers/release"
	"github.com/belay-mq/belay/registry/change"
)

// Progress is what a scanner shows of itself.
type Progress = releases.Status

// HandleEvent takes an event of the scanner in; it fits [releases.ScannerConfig].OnEvent. It waits only while the
// center is full.
func (f *Feed) HandleEvent(e releases.Event) {
	if e.History {
		return // a row that still comes to light in such a gap is a late one, and shown as that
	}
	key, status := eventKey(e)
	what := string(e.Kind) // events of different kinds do not replace each other
	if status == GapOpen || status == GapClosed {
		what = "gap"
	}
	f.mu.Lock()
	f.steps.note(key, Scanner, "", time.Now())
	if status == Epoch { // ids begin anew: those of the past name other rows
		clear(f.past.rows)
	}
	f.mu.Unlock()
	_, err := f.center.Offer(f.ctx, change.Event{
		Key: scanner.key(key),
		Items: []change.Item{{ // its content is never what it was, so an event is never suppressed
			ID: what, Conn: string(status), Content: fmt.Sprintf("%d %s %s", e.At.UnixNano(), e.Kind, e.Proof) + "\x00" + e.Text,
		}},
	})
	if err != nil {
		f.log.Debug("an event of the scanner was not taken", "event", e.Kind, "error", err)
	}
}

// eventKey names what an event is about, and its status.
func eventKey(e releases.Event) (string, Status) {
	ids := fmt.Sprintf("%d", e.From)
	if e.To > e.From {
		ids = fmt.Sprintf("%d–%d", e.From, e.To)
	}
	switch e.Kind {
	case releases.EventGapOpened:
		return "gap " + ids, GapOpen
	case releases.EventGapClosed:
		return "gap " + ids, GapClosed
	case releases.EventEpoch:
		return e.Database, Epoch
	case releases.EventError, releases.EventListener:
		return e.Database, Failed
	case releases.EventAlarm:
		if e.From > 0 {
			return "gap " + ids, Failed
		}
		return e.Database, Failed
	case releases.EventChanged:
		return "row " + ids, Delivered
	}
	return e.Database, Delivered
}

func (f *Feed) seeScanner(d change.Delivery) {
	if d.Outcome == change.DeliveredTemp {
		f.seeProgress(d)
		return
	}
	for _, x := range d.Now.Items {
		if slices.ContainsFunc(d.Prev.Items, func(p change.Item) bool { return p.ID == x.ID && p.Content == x.Content }) {
			continue
		}
		l := f.base(&d, Scanner)
		l.Key, l.Status = d.Key.DataInfoID, Status(x.Conn)
		var what string
		what, l.Text = cut(x.Content)
		if l.Status == GapClosed && d.Merged > 0 && len(d.Prev.Items) == 0 && strings.HasSuffix(what, " "+string(releases.ProofDead)) {
			l.Status, l.Merged = Suppressed, 0 // ids that nobody used, open for less than the window
		}
		f.add(l)
	}
}

// progress takes what the scanner shows of itself as a temporary event: it is shown, never kept.
func (f *Feed) progress(ctx context.Context, p Progress) {
	e := change.Event{Key: scanner.key("progress"), Source: change.PubTemp}
	for _, g := range p.Gaps {
		key, _ := eventKey(releases.Event{Kind: releases.EventGapOpened, From: g.Lo, To: g.Hi})
		e.Items = append(e.Items, change.Item{ID: key, Registered: g.Since.UnixMilli(), Content: p.Method})
	}
	if len(e.Items) == 0 {
		e.Items = []change.Item{{ID: "", Unpub: true}}
	}
	if _, err := f.center.Offer(ctx, e); err != nil {
		f.log.Debug("the scanner's progress was not taken", "error", err)
	}
}

// seeProgress keeps which gaps are open for Pending.
func (f *Feed) seeProgress(d change.Delivery) {
	var gaps []Line
	for _, x := range d.Now.Items {
		why := "writer not finished"
		if strings.HasPrefix(x.Content, "age") {
			why = "the database offers no proof"
		}
		gaps = append(gaps, Line{At: time.UnixMilli(x.Registered), Source: Scanner, Key: x.ID, Status: GapOpen, Text: why})
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gaps = gaps
}
