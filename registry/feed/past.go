package feed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	releases "github.com/belay-mq/belay/consumers/release"
	"github.com/belay-mq/belay/nacos"
	"github.com/belay-mq/belay/registry/change"
	"github.com/belay-mq/belay/registry/fleet"
	"github.com/belay-mq/belay/registry/toggle"
)

// History tells how toggle files changed; *nacos.Store is one.
type History interface {
	History(ctx context.Context, key nacos.Key, limit int) ([]nacos.Change, error)
}

// Peer asks other processes for their lines; *presence.Presence is one.
type Peer interface {
	AskFeed(ctx context.Context, since time.Time, wait time.Duration) ([][]byte, error)
}

// Peers are the peers on all virtual hosts.
type Peers []Peer

// Releases reads rows of the release table that are not older than since; *release.DB is one.
type Releases interface {
	Recent(ctx context.Context, since time.Time, limit int) ([]releases.Row, error)
}

// Past names where a feed's past comes from. Each part may be left out.
type Past struct {
	// Apps and History give toggle changes: those of the named configs.
	Apps    []nacos.Key
	History History
	// Peers are asked for the lines of other processes, one per virtual host.
	Peers Peers
	// Releases gives release rows.
	Releases Releases
	// Since is how far back the past goes. Default: one hour.
	Since time.Time
	// Timeout bounds the whole. Default 5 s.
	Timeout time.Duration
	// Wait is how long peers have to answer. Default 500 ms.
	Wait time.Duration
}

const (
	pastRows    = 1000 // release rows
	pastChanges = 50   // of one application's file
)

// LoadPast fills the feed with what happened before it began, in the order of time, without what it has already.
// Lines that come meanwhile follow after it. Parts that cannot be read are left out and joined in the error; the
// rest is loaded all the same. It is meant to be called once, right after New.
func (f *Feed) LoadPast(ctx context.Context, p Past) error {
	if p.Since.IsZero() {
		p.Since = f.start.Add(-time.Hour)
	}
	if p.Timeout <= 0 {
		p.Timeout = 5 * time.Second
	}
	if p.Wait <= 0 {
		p.Wait = 500 * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	f.mu.Lock()
	f.holding++
	f.since = p.Since
	f.mu.Unlock()
	l := &loading{feed: f, since: p.Since}
	var wg sync.WaitGroup
	for _, part := range l.parts(p) {
		wg.Go(func() {
			defer func() {
				if v := recover(); v != nil {
					l.failed(fmt.Errorf("load the past: panic: %v", v))
				}
			}()
			if err := part(ctx); err != nil {
				l.failed(err)
			}
		})
	}
	wg.Wait()
	l.done()
	return errors.Join(l.errs...)
}

// loading gathers the past.
type loading struct {
	feed  *Feed
	since time.Time

	mu   sync.Mutex
	errs []error
	peer []Line // handed over by others: they know more of a line than the table does
	own  []Line // from the table and the history
}

func (l *loading) failed(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errs = append(l.errs, err)
}

func (l *loading) parts(p Past) []func(context.Context) error {
	var parts []func(context.Context) error
	if p.Releases != nil {
		parts = append(parts, func(ctx context.Context) error {
			rows, err := p.Releases.Recent(ctx, p.Since, pastRows)
			if err != nil {
				return fmt.Errorf("past release messages: %w", err)
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			for _, r := range rows {
				l.own = append(l.own, rowLine(r))
			}
			return nil
		})
	}
	if p.History != nil {
		for _, key := range p.Apps {
			parts = append(parts, func(ctx context.Context) error {
				changes, err := p.History.History(ctx, key, pastChanges)
				if err != nil {
					return fmt.Errorf("past changes of %s: %w", key, err)
				}
				lines := historyLines(key, changes)
				l.mu.Lock()
				defer l.mu.Unlock()
				l.own = append(l.own, lines...)
				return nil
			})
		}
	}
	for _, peer := range p.Peers {
		parts = append(parts, func(ctx context.Context) error {
			answers, err := peer.AskFeed(ctx, p.Since, p.Wait)
			if handErr := l.hand(ctx, answers); handErr != nil {
				err = errors.Join(err, handErr)
			}
			if err != nil {
				return fmt.Errorf("past lines of other processes: %w", err)
			}
			return nil
		})
	}
	return parts
}

// hand gives the lines of other processes to the center, each under a key of its own: it merges the copies of one
// line and tells when they are through.
func (l *loading) hand(ctx context.Context, answers [][]byte) error {
	f := l.feed
	through := &handing{done: make(chan struct{})}
	keys := map[string]Line{}
	for _, b := range answers {
		line, err := Decode(b)
		if err != nil {
			f.mu.Lock()
			f.counts.Refused++
			f.mu.Unlock()
			continue
		}
		if line.Status == Waiting || line.At.Before(l.since) || !line.At.Before(f.start) {
			continue // later ones this feed sees by itself
		}
		keys[string(Encode(line))] = line
	}
	if len(keys) == 0 {
		return nil
	}
	through.left = len(keys)
	name := fmt.Sprintf("%p", through)
	f.handings.Store(name, through)
	defer f.handings.Delete(name)
	for encoded, line := range keys {
		_, err := f.center.Offer(ctx, change.Event{
			Key: handed.key(name + " " + encoded), Kind: change.Cover, Source: change.Sync, Version: max(1, line.At.UnixMicro()),
			Items: []change.Item{{ID: "line", Content: encoded}},
		})
		if err != nil {
			return err
		}
	}
	select {
	case <-through.done:
	case <-ctx.Done():
	}
	l.mu.Lock()
	l.peer = append(l.peer, through.take()...)
	l.mu.Unlock()
	for encoded := range keys {
		_, _ = f.center.TryOffer(change.Event{Key: handed.key(name + " " + encoded), Source: change.Clean})
	}
	return nil
}

// handing counts the lines of one process that are through the center.
type handing struct {
	mu    sync.Mutex
	lines []Line
	left  int
	done  chan struct{}
}

func (h *handing) take() []Line {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lines
}

// seeHanded takes a line that came through the center.
func (f *Feed) seeHanded(d change.Delivery) {
	if d.Outcome != change.Delivered || len(d.Now.Items) == 0 {
		return
	}
	name, _, _ := strings.Cut(d.Key.DataInfoID, " ")
	v, ok := f.handings.Load(name)
	if !ok {
		return
	}
	h := v.(*handing)
	line, err := Decode([]byte(d.Now.Items[0].Content))
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		h.lines = append(h.lines, line)
	}
	if h.left--; h.left == 0 {
		close(h.done)
	}
}

// done puts the past into the feed, and behind it what came meanwhile.
func (l *loading) done() {
	f := l.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	var past []Line
	for i, list := range [][]Line{l.peer, l.own} { // a peer's line covers the rows that it merged
		slices.SortStableFunc(list, func(a, b Line) int {
			return cmp.Or(cmp.Compare(b.Merged, a.Merged), a.At.Compare(b.At))
		})
		for _, line := range list {
			told := i == 1 && line.Source == Toggle && f.past.changed(line)
			if !told && f.past.take(line) {
				past = append(past, line)
			} else {
				f.counts.Known++
			}
		}
	}
	held := f.held
	live := held[:0:0]
	for _, line := range held {
		if line.At.Before(f.start) {
			past = append(past, line) // rows of the scanner's own look back
		} else {
			live = append(live, line)
		}
	}
	slices.SortStableFunc(past, func(a, b Line) int { return a.At.Compare(b.At) })
	past = past[max(0, len(past)-f.cfg.Capacity/2):]
	f.held = nil
	f.holding--
	for _, line := range past {
		f.addLocked(line)
	}
	for _, line := range live {
		f.addLocked(line)
	}
}

// pastLocked adds a line of the past where it is not known.
func (f *Feed) pastLocked(l Line) {
	if f.past.take(l) {
		f.addLocked(l)
	} else {
		f.counts.Known++
	}
}

// historyLines makes lines of the changes of a file, newest first, whoever made them.
// What follows a text that cannot be read is held against the one before it, which
// stayed in force.
func historyLines(key nacos.Key, changes []nacos.Change) []Line {
	format := toggle.FormatOf(key.DataID)
	var out []Line
	good := &toggle.File{}
	for _, c := range slices.Backward(changes) {
		if !c.Known || c.Op != "delete" && c.Text == c.Previous {
			continue
		}
		before := toggle.Parse(format, []byte(c.Previous))
		after := toggle.Parse(format, []byte(c.Text))
		if before.Fatal == nil {
			good = before
		}
		if after.Fatal != nil {
			l := unreadable(key.Group, c.MD5, after)
			l.At = c.At
			out = append(out, l)
			continue
		}
		for _, id := range listenersIn(good, after) {
			if l, ok := historyLine(key.Group, id, good, after); ok {
				if l.At, l.Version = c.At, versionOf(c.MD5); l.By == "" {
					l.By = c.By
				}
				if l.By != "" {
					l.Text += " by " + l.By
				}
				out = append(out, l)
			}
		}
	}
	return out
}

// unreadable is the line of a file of which nothing comes into force.
func unreadable(app, md5 string, file *toggle.File) Line {
	return Line{Source: Toggle, Key: app, App: app, Version: versionOf(md5), Status: Failed, Text: "the file " + file.Unreadable()}
}

func listenersIn(files ...*toggle.File) []string {
	var ids []string
	for _, file := range files {
		for _, t := range file.InForce() {
			if !slices.Contains(ids, t.ListenerID) {
				ids = append(ids, t.ListenerID)
			}
		}
	}
	return ids
}

func historyLine(app, listener string, before, after *toggle.File) (Line, bool) {
	was, had := before.Lookup(listener)
	is, has := after.Lookup(listener)
	id := fleet.ID{App: app, Listener: listener}
	l := Line{Source: Toggle, Key: id.String(), App: app, Listener: listener, Status: Delivered}
	switch {
	case had && has && wishOf(was).content() == wishOf(is).content():
		return l, false
	case !has:
		l.Status, l.Text = Cleaned, "no longer in the file"
	case !had:
		l.Text = "new in the file: " + wishOf(is).word()
	default:
		l.Text = told(wishOf(was), wishOf(is))
	}
	if text(was.UpdatedBy) != text(is.UpdatedBy) || text(was.UpdatedAt) != text(is.UpdatedAt) {
		l.By = text(is.UpdatedBy)
	}
	return l, true
}

// Since returns the lines from a time on, oldest first, as NDJSON, at most the newest 1,000: what this process hands
// over to one that opens a dashboard. It fits presence's Config.Feed and does not block.
func (f *Feed) Since(since time.Time) [][]byte {
	const most = 1000
	var lines []Line
	f.mu.Lock()
	f.ring.each(func(l *Line) {
		if !l.At.Before(since) {
			lines = append(lines, *l)
		}
	})
	f.mu.Unlock()
	lines = lines[max(0, len(lines)-most):]
	out := make([][]byte, len(lines))
	for i := range lines {
		out[i] = Encode(lines[i])
	}
	return out
}
