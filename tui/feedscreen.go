package tui

import (
	"fmt"
	"strings"
	"time"

	"github.com/belay-mq/belay/registry/feed"
	"github.com/belay-mq/belay/tui/cell"
	"github.com/belay-mq/belay/tui/filter"
	"github.com/belay-mq/belay/tui/keys"
	"github.com/belay-mq/belay/tui/style"
	"github.com/belay-mq/belay/tui/table"
)

// lineKey is the identity of a feed line: its number, or its key while it waits.
type lineKey struct {
	seq uint64
	key string
}

// timeline is the screen of the feed: newest at the bottom, it follows unless
// scrolled.
type timeline struct {
	v       *view
	t       *table.Table[*feed.Line, lineKey]
	f       listFilter
	match   filter.Filter
	search  filter.Filter
	source  feed.Source // "" shows all
	follow  bool
	frozen  bool
	newer   int // lines that came while frozen
	shown   []*feed.Line
	upTo    uint64 // Seq up to which shown is filled
	version uint64
	again   bool
}

func newTimeline(v *view) *timeline {
	s := &timeline{v: v, follow: true}
	s.t = table.New(v.st, func(l *feed.Line) lineKey {
		if l.Seq != 0 {
			return lineKey{seq: l.Seq}
		}
		return lineKey{key: string(l.Source) + l.Key}
	}, feedColumns(v)...)
	s.f.changed = func() {
		s.match = filter.Parse(s.f.text)
		if !s.match.Empty() {
			s.search = s.match
		}
		s.refill()
	}
	return s
}

func feedColumns(v *view) []table.Column[*feed.Line] {
	type line = *feed.Line
	dim := func(l line) style.Style {
		if l.Status == feed.Suppressed {
			return v.st.Dim
		}
		return v.st.Plain
	}
	return []table.Column[line]{
		{Title: "TIME", Min: 8, Max: 12, Grow: true, Keep: true, Text: func(l line) string { return v.clock(l.At) }, Style: func(line) style.Style { return v.st.Dim }},
		{Title: "SOURCE", Max: 8, Priority: 60, Text: func(l line) string { return string(l.Source) }, Style: dim},
		{Title: "KEY", Min: 14, Want: 30, Max: 44, Flex: true, Priority: 35, Keep: true, Text: func(l line) string { return l.Key }, Style: dim},
		{Title: "VERSION", Min: 9, Max: 17, Grow: true, Priority: 40, Text: versionText, Style: dim},
		{Title: "STATUS", Min: 22, Want: 34, Flex: true, Priority: 38, Keep: true, Text: statusText, Style: func(l line) style.Style { return statusStyle(v.st, l) }},
		{Title: "LISTENERS", Max: 14, Priority: 30, Text: tookText, Style: func(l line) style.Style {
			if l.Failed > 0 {
				return v.st.Bad
			}
			return v.st.Dim
		}},
	}
}

// clock is a time of the feed: to the millisecond where there is room.
func (v *view) clock(t time.Time) string {
	if v.wide < 100 {
		return t.In(v.loc).Format("15:04:05")
	}
	return t.In(v.loc).Format("15:04:05.000")
}

func versionText(l *feed.Line) string {
	s := l.Version
	if l.FromVersion != "" && l.FromVersion != l.Version {
		s = l.FromVersion + "→" + l.Version
	}
	if l.Late {
		s += " late"
	}
	return s
}

// statusText says what became of the event: its merge and delay status.
func statusText(l *feed.Line) string {
	var s string
	times := ""
	if l.Merged > 0 {
		times = fmt.Sprintf("merged ×%d, ", l.Merged+1)
	}
	switch l.Status {
	case feed.Waiting:
		s = times + "waiting " + cell.Right(cell.Span(l.Remaining), 6) + " " + bar(l)
	case feed.Delivered, feed.Applied:
		said := string(l.Status)
		if l.Text != "" && l.Source != feed.Release {
			said = l.Text
		}
		s = times + said
		if l.Delay > 0 {
			s += " +" + cell.Span(l.Delay)
		}
		if l.Text != "" && l.Source == feed.Release {
			s += ", " + l.Text
		}
	default:
		s = times + strings.ReplaceAll(string(l.Status), "-", " ")
		if l.Text != "" {
			s += ": " + l.Text
		}
	}
	if l.Malformed {
		s += " (malformed key)"
	}
	return s
}

// bar shows how much of the window a waiting line has waited.
func bar(l *feed.Line) string {
	const w = 8
	if l.Window <= 0 {
		return ""
	}
	n := int(float64(w)*(1-l.Remaining.Seconds()/l.Window.Seconds()) + 0.5)
	n = max(0, min(w, n))
	return strings.Repeat("▓", n) + strings.Repeat("░", w-n)
}

func statusStyle(st *style.Set, l *feed.Line) style.Style {
	switch l.Status {
	case feed.Waiting:
		return st.Busy
	case feed.Suppressed, feed.Stale, feed.Cleaned:
		return st.Dim
	case feed.Failed, feed.DeadLetter:
		return st.Bad
	case feed.GapOpen, feed.Epoch:
		return st.Warn
	}
	return st.Plain
}

func tookText(l *feed.Line) string {
	switch {
	case l.Failed > 0:
		return fmt.Sprintf("ok %d, %d failed", l.OK, l.Failed)
	case l.OK > 0:
		return fmt.Sprintf("ok %d", l.OK)
	}
	return ""
}

// feedStrip is the newest lines of the feed in a few rows.
func feedStrip(v *view, w, n int) []string {
	lines := make([]string, 0, n)
	all := v.feed.lines
	keyed := min(44, max(14, w/3))
	for _, l := range all[max(0, len(all)-n):] {
		key := l.Key
		if l.Source == feed.Release && l.Version != "" {
			key = cell.Cut(key, max(8, keyed-14)) + "  " + versionText(l)
		}
		head := " " + l.At.In(v.loc).Format("15:04:05") + "  " + cell.Left(string(l.Source), 8) + "  " + cell.Left(key, keyed) + "  "
		text := statusText(l)
		if t := tookText(l); t != "" {
			text += "  " + t
		}
		lines = append(lines, v.st.Dim.Paint(cell.Cut(head, w))+statusStyle(v.st, l).Paint(cell.Cut(text, w-cell.Width(head))))
	}
	for len(lines) < n {
		lines = append([]string{""}, lines...)
	}
	return lines
}

func (s *timeline) setSize(w, h int) { s.t.SetSize(w, h) }

func (s *timeline) passes(l *feed.Line) bool {
	if s.source != "" && l.Source != s.source {
		return false
	}
	return s.match.Empty() || s.match.Match(string(l.Source), l.Key, l.Version, string(l.Status), l.Text, l.By)
}

// refill filters everything anew.
func (s *timeline) refill() {
	s.shown, s.upTo, s.again = nil, 0, true
	s.refresh()
}

func (s *timeline) refresh() {
	log := s.v.feed
	if log.version == s.version && !s.again {
		return
	}
	s.version = log.version
	if s.frozen && !s.again {
		s.newer = 0
		for i := len(log.lines) - 1; i >= 0 && log.lines[i].Seq > s.upTo; i-- {
			s.newer++
		}
		return
	}
	first := len(log.lines)
	for first > 0 && log.lines[first-1].Seq > s.upTo {
		first--
	}
	for _, l := range log.lines[first:] {
		if s.passes(l) {
			s.shown = append(s.shown, l)
		}
		s.upTo = l.Seq
	}
	if len(s.shown) > 2*feedKeep {
		s.shown = append([]*feed.Line(nil), s.shown[len(s.shown)-feedKeep:]...)
	}
	rows := s.shown[:len(s.shown):len(s.shown)]
	for _, l := range log.pending {
		if s.passes(l) {
			rows = append(rows, l)
		}
	}
	s.t.SetRows(rows)
	if s.follow && !s.frozen {
		s.t.Go(len(rows) - 1)
	}
	s.again = false
}

func (s *timeline) render() []string {
	if s.t.Len() > 0 {
		return s.t.Render()
	}
	text := "Nothing has changed yet."
	if len(s.v.feed.lines) > 0 {
		text = "No line matches. esc shows all."
	}
	return []string{"", s.v.st.Dim.Paint("   " + text)}
}

func (s *timeline) status() (left, right string) {
	var l []string
	if s.source != "" {
		l = append(l, s.v.st.Bold.Paint("source ")+string(s.source))
	}
	if s.f.text != "" {
		l = append(l, s.v.st.Bold.Paint("filter ")+cell.Clean(s.f.text))
	} else if !s.search.Empty() {
		l = append(l, s.v.st.Bold.Paint("search ")+cell.Clean(s.search.String()))
	}
	state := "follows"
	switch {
	case s.frozen:
		state = fmt.Sprintf("frozen, %s newer", cell.Count(float64(s.newer)))
		l = append(l, s.v.st.Warn.Paint(state+": "+s.v.keys.Key(keys.Freeze)+" lets it run"))
	case !s.follow:
		state = "scrolled: " + s.v.keys.Key(keys.Bottom) + " follows"
	}
	right = fmt.Sprintf("%s lines · %s", cell.Count(float64(s.t.Len())), state)
	if s.v.feed.lost > 0 {
		right = fmt.Sprintf("%s lost · %s", cell.Count(float64(s.v.feed.lost)), right)
	}
	return strings.Join(l, "  "), s.v.st.Dim.Paint(right)
}

var sources = []feed.Source{"", feed.Release, feed.Toggle, feed.Consumer, feed.Instance, feed.Broker, feed.Scanner}

func (s *timeline) do(a keys.Action) (bool, string) {
	if move(s.t, a) {
		s.follow = s.t.Bottom()
		return true, ""
	}
	switch a {
	case keys.Freeze:
		s.frozen = !s.frozen
		s.newer = 0
		s.again = true
		s.refresh()
	case keys.Source:
		for i, x := range sources {
			if x == s.source {
				s.setSource(sources[(i+1)%len(sources)])
				break
			}
		}
	case keys.NextHit, keys.PrevHit:
		return s.hit(a == keys.NextHit)
	case keys.Escape:
		if s.source == "" && s.f.text == "" {
			return false, ""
		}
		s.source = ""
		if s.f.text != "" {
			s.f.set("")
		} else {
			s.refill()
		}
	default:
		return false, ""
	}
	return true, ""
}

func (s *timeline) setSource(src feed.Source) {
	s.source = src
	s.refill()
}

// hit goes to the next or previous line that matches the newest search; a filter
// is lifted first, so that the match is seen among its neighbours.
func (s *timeline) hit(forward bool) (bool, string) {
	if s.search.Empty() {
		return false, "there is no search: type one with " + s.v.keys.Key(keys.Filter)
	}
	if s.f.text != "" {
		s.follow = false
		s.f.set("")
		return true, ""
	}
	step, n := 1, s.t.Len()
	if !forward {
		step = -1
	}
	for i := s.t.At() + step; i >= 0 && i < n; i += step {
		l := s.t.Nth(i)
		if s.search.Match(string(l.Source), l.Key, l.Version, string(l.Status), l.Text, l.By) {
			s.t.Go(i)
			s.follow = false
			return true, ""
		}
	}
	return false, "no further line matches " + s.search.String()
}

func (s *timeline) hints() []keys.Action {
	return []keys.Action{keys.Open, keys.Freeze, keys.Filter, keys.Source, keys.Palette, keys.ShowConsumer, keys.Back, keys.Help}
}

func (s *timeline) filtering() *listFilter { return &s.f }
