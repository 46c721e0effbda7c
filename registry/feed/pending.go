package feed

import (
	"slices"
	"strconv"
	"strings"
	"time"

	releases "github.com/belay-mq/belay/consumers/release"
	"github.com/belay-mq/belay/registry/change"
)

// Pending returns what waits in the change center now, the next to be delivered first, and the gaps that the scanner
// waits for. Their Seq is 0. It does not block.
func (f *Feed) Pending() []Line {
	var out []Line
	f.mu.Lock()
	for _, g := range f.gaps {
		g.Text = time.Since(g.At).Round(time.Second).String() + ", " + g.Text
		out = append(out, g)
	}
	f.mu.Unlock()
	seeds := change.SourcesOf(change.Backup)
	for _, st := range f.center.Waiting(mostPending) {
		d := domainOf(st.Key)
		if st.Sources&^seeds == 0 && d != release || d == handed || st.Sources == 0 {
			continue
		}
		out = append(out, f.waiting(d, &st))
	}
	return out
}

func (f *Feed) waiting(d domain, st *change.KeyStats) Line {
	l := Line{
		At: st.Since, Source: d.source(), Key: st.Key.DataInfoID, Status: Waiting, Merged: st.MergedNow,
		Remaining: st.Remaining, Window: f.window,
	}
	switch d {
	case release:
		_, ok := releases.ParseKey(l.Key)
		l.Malformed = !ok
		l.Version = strconv.FormatInt(st.PendingTo, 10)
		if st.PendingFrom != st.PendingTo {
			l.FromVersion = strconv.FormatInt(st.PendingFrom, 10)
		}
	case toggles, consumer:
		id := idOf(st.Key)
		l.Key, l.App, l.Listener = id.String(), id.App, id.Listener
		datum, _ := f.center.Datum(st.Key)
		if d == consumer {
			l.Text = moved(datum.Items, overlay(datum.Items, st.PendingItems))
		} else if after, ok := wishIn(st.PendingItems); ok {
			before, _ := wishIn(datum.Items)
			l.By, l.Version = cut(strings.TrimPrefix(st.PendingItems[0].Conn, byPrefix))
			l.Text = told(before, after)
		} else {
			l.Text = "no longer in the file"
		}
	case instance:
		l.Key = short(l.Key)
	case health:
		l.Source = Broker
		if l.Key == alarm {
			l.Key = "rabbit"
		}
	}
	return l
}

// overlay lays pending items over cached ones.
func overlay(cached, pending []change.Item) []change.Item {
	out := slices.Clone(cached)
	for _, x := range pending {
		i := slices.IndexFunc(out, func(y change.Item) bool { return y.ID == x.ID })
		switch {
		case i < 0 && !x.Unpub:
			out = append(out, x)
		case i >= 0 && x.Unpub:
			out = slices.Delete(out, i, i+1)
		case i >= 0:
			out[i] = x
		}
	}
	return out
}
