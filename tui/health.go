package tui

import (
	"fmt"
	"strings"

	"github.com/belay-mq/belay/registry/fleet"
	"github.com/belay-mq/belay/tui/cell"
	"github.com/belay-mq/belay/tui/keys"
)

// health is the screen of connections and parts.
type health struct {
	v      *view
	w, h   int
	scroll int
	lines  []string
}

func newHealth(v *view) *health { return &health{v: v} }

func (s *health) setSize(w, h int) {
	if w != s.w {
		s.lines = nil
	}
	s.w, s.h = w, h
}

func (s *health) refresh() { s.lines = nil }

func (s *health) build() []string {
	st := s.v.st
	var out []string
	para := func(paint func(string) string, text string) {
		for _, l := range cell.Wrap(cell.Clean(text), max(10, s.w-16)) {
			out = append(out, cell.Cut(cell.Blank(14)+paint(l), s.w))
		}
	}
	for _, h := range s.v.snap.Health {
		glyph, word, how := "●", "ok", st.OK
		switch h.State {
		case fleet.HealthStale:
			glyph, word, how = "◐", "stale", st.Warn
		case fleet.HealthDown:
			glyph, word, how = "✗", "down", st.Bad
		case fleet.HealthAbsent:
			glyph, word, how = "-", "not configured", st.Dim
		}
		var facts []string
		if !h.Since.IsZero() && h.State != fleet.HealthAbsent {
			facts = append(facts, "since "+s.v.moment(h.Since)+" ("+s.v.ago(h.Since)+")")
		}
		if !h.LastOK.IsZero() {
			facts = append(facts, "last answer "+s.v.ago(h.LastOK)+" ago")
		}
		if h.Latency > 0 {
			facts = append(facts, "in "+cell.Span(h.Latency))
		}
		out = append(out, cell.Cut(" "+st.Bold.Paint(cell.Left(cell.Clean(h.Name), 12))+" "+how.Paint(glyph+" "+word)+"  "+st.Dim.Paint(strings.Join(facts, ", ")), s.w))
		if h.Text != "" {
			para(st.Plain.Paint, h.Text)
		}
		if h.Err != "" {
			para(st.Bad.Paint, h.Err)
		}
		if h.Advice != "" {
			para(st.Bold.Paint, "→ "+h.Advice)
		}
		var cs []string
		for _, c := range h.Counters {
			cs = append(cs, cell.Clean(c.Name)+" "+cell.Count(float64(c.Value)))
		}
		if len(cs) > 0 {
			para(st.Dim.Paint, strings.Join(cs, " · "))
		}
		out = append(out, "")
	}
	for _, a := range s.v.snap.Apps {
		for _, p := range a.Problems {
			how := st.Warn
			if p.Loud {
				how = st.Bad
			}
			text := p.Text
			if p.Line > 0 && !strings.Contains(text, "line ") {
				text = fmt.Sprintf("line %d: %s", p.Line, text)
			}
			para(how.Paint, a.Name+": "+text)
		}
	}
	para(st.Dim.Paint, fmt.Sprintf("feed: %s lines kept here, %s lost before they could be read", cell.Count(float64(len(s.v.feed.lines))), cell.Count(float64(s.v.feed.lost))))
	return out
}

func (s *health) render() []string {
	if s.lines == nil {
		s.lines = s.build()
	}
	s.scroll = max(0, min(s.scroll, len(s.lines)-s.h))
	return s.lines[s.scroll:min(len(s.lines), s.scroll+s.h)]
}

func (s *health) status() (left, right string) {
	well, ill := 0, 0
	for _, h := range s.v.snap.Health {
		switch h.State {
		case fleet.HealthOK:
			well++
		case fleet.HealthDown, fleet.HealthStale:
			ill++
		}
	}
	right = fmt.Sprintf("%d well", well)
	if ill > 0 {
		right += fmt.Sprintf(", %d not", ill)
	}
	return "", s.v.st.Dim.Paint(right)
}

// scroller moves a text by lines as a table moves its cursor.
type scroller struct {
	at   *int
	n, h int
}

func (s scroller) Move(n int)         { *s.at = max(0, min(*s.at+n, s.n-s.h)) }
func (s scroller) Go(i int)           { *s.at = max(0, min(i, s.n-s.h)) }
func (s scroller) Len() int           { return s.n }
func (s scroller) Page(share float64) { s.Move(int(float64(s.h) * share)) }

func (s *health) do(a keys.Action) (bool, string) {
	return move(scroller{&s.scroll, len(s.lines), s.h}, a), ""
}

func (s *health) hints() []keys.Action {
	return []keys.Action{keys.Refresh, keys.ShowConsumer, keys.ShowFeed, keys.ShowInstance, keys.Palette, keys.Back, keys.Help}
}

func (s *health) filtering() *listFilter { return nil }
