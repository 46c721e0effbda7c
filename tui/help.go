package tui

import (
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/belay-mq/belay/registry/fleet"
	"github.com/belay-mq/belay/tui/cell"
	"github.com/belay-mq/belay/tui/keys"
)

// helpDialog lists the keys, from the key map, and what the states mean.
type helpDialog struct{ scroll int }

func (d *helpDialog) key(m *Model, k tea.KeyMsg) (bool, tea.Cmd) {
	b := m.v.keys.Of(k.String())
	switch {
	case b == nil:
	case b.Action == keys.Help, b.Action == keys.Back, b.Action == keys.Escape, b.Action == keys.Open:
		return true, nil
	case b.Action == keys.Down:
		d.scroll++
	case b.Action == keys.Up:
		d.scroll--
	case b.Action == keys.PageDown, b.Action == keys.HalfDown:
		d.scroll += 10
	case b.Action == keys.PageUp, b.Action == keys.HalfUp:
		d.scroll -= 10
	case b.Action == keys.Top:
		d.scroll = 0
	case b.Action == keys.Bottom:
		d.scroll = 1000
	}
	d.scroll = max(0, d.scroll)
	return false, nil
}

func (d *helpDialog) message(*Model, tea.Msg) (bool, tea.Cmd) { return false, nil }

// stateHelp says what the states mean.
var stateHelp = []struct {
	state fleet.State
	text  string
}{
	{fleet.Running, "wanted on, or no opinion; all run"},
	{fleet.Paused, "wanted off; all have stopped"},
	{fleet.Pausing, "a change is on its way, k of n done"},
	{fleet.Drift, "wanted and actual differ for over 10 s"},
	{fleet.Recovering, "lost the broker or is refused"},
	{fleet.MissingQueue, "an instance finds no queue"},
	{fleet.Failed, "an instance has given up"},
	{fleet.Stopped, "no opinion; all have stopped"},
	{fleet.Unmanaged, "runs without an entry in the file"},
	{fleet.Unknown, "nobody reports it"},
}

func (d *helpDialog) render(m *Model, w, h int) []string {
	st := m.v.st
	bw := min(w, 118)
	var left, right []string
	groups := map[string]*[]string{}
	section := func(out *[]string, name string) {
		if len(*out) > 0 {
			*out = append(*out, "")
		}
		*out = append(*out, st.Bold.Paint(name))
	}
	for _, b := range m.v.keys.All() {
		out, ok := groups[b.Group]
		if !ok {
			out = &left
			switch b.Group {
			case "feed", "take along", "screens", "program":
				out = &right
			}
			groups[b.Group] = out
			section(out, b.Group)
		}
		text := b.Help
		if b.Write && m.readOnly() {
			text = st.Dim.Paint(text + " (read-only)")
		}
		*out = append(*out, "  "+st.Key.Paint(cell.Left(b.Names(), 9))+" "+text)
	}
	section(&right, "states")
	for _, s := range stateHelp {
		glyph, word, how := st.State(s.state)
		right = append(right, "  "+how.Paint(cell.Left(glyph+" "+word, 16))+" "+s.text)
	}
	in := bw - 4
	var lines []string
	if in >= 106 {
		col := in / 2
		for i := range max(len(left), len(right)) {
			l, r := "", ""
			if i < len(left) {
				l = left[i]
			}
			if i < len(right) {
				r = right[i]
			}
			lines = append(lines, cell.Left(l, col)+cell.Cut(r, in-col))
		}
	} else {
		lines = append(append(left, ""), right...)
	}
	room := max(1, h-2)
	if len(lines) > room {
		room--
		d.scroll = min(d.scroll, len(lines)-room)
		lines = append(append([]string(nil), lines[d.scroll:d.scroll+room]...), st.Dim.Paint(strings.TrimSpace(m.v.keys.For(keys.Down).Names()+" scroll, esc closes")))
	}
	return box(st, "keys", lines, bw)
}

func (d *helpDialog) hint() string { return "j k pgup pgdn move   esc close" }
