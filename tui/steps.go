package tui

import (
	tea "github.com/charmbracelet/bubbletea"

	"github.com/belay-mq/belay/registry/feed"
	"github.com/belay-mq/belay/tui/cell"
	"github.com/belay-mq/belay/tui/keys"
)

// stepsDialog shows every step that a key of the feed went through.
type stepsDialog struct {
	key0   string
	lines  []feed.Line
	scroll int
}

func newSteps(m *Model, key string) *stepsDialog {
	d := &stepsDialog{key0: key}
	d.read(m)
	return d
}

func (d *stepsDialog) read(m *Model) {
	d.lines = m.be.Steps(d.key0)
	for i := range d.lines {
		d.lines[i] = clean(d.lines[i])
	}
}

func (d *stepsDialog) key(m *Model, k tea.KeyMsg) (bool, tea.Cmd) {
	b := m.v.keys.Of(k.String())
	if b == nil {
		return false, nil
	}
	switch b.Action {
	case keys.Back, keys.Escape, keys.Open:
		return true, nil
	case keys.Down:
		d.scroll--
	case keys.Up:
		d.scroll++
	case keys.PageDown, keys.HalfDown:
		d.scroll -= 10
	case keys.PageUp, keys.HalfUp:
		d.scroll += 10
	}
	d.scroll = max(0, d.scroll)
	return false, nil
}

func (d *stepsDialog) message(m *Model, msg tea.Msg) (bool, tea.Cmd) {
	if _, ok := msg.(tickMsg); ok {
		d.read(m)
	}
	return false, nil
}

func (d *stepsDialog) render(m *Model, w, h int) []string {
	st := m.v.st
	bw := min(w, 100)
	in := bw - 4
	var lines []string
	for i := range d.lines {
		l := &d.lines[i]
		head := st.Dim.Paint(l.At.In(m.v.loc).Format("15:04:05.000")) + "  " + cell.Left(versionText(l), 12) + "  "
		text := statusText(l)
		if t := tookText(l); t != "" {
			text += "  " + t
		}
		lines = append(lines, cell.Cut(head+statusStyle(st, l).Paint(text), in))
	}
	if len(lines) == 0 {
		lines = []string{st.Dim.Paint("no step of this key is kept any more")}
	}
	room := max(1, h-3)
	if len(lines) > room {
		d.scroll = min(d.scroll, len(lines)-room)
		end := len(lines) - d.scroll
		lines = lines[end-room : end]
	} else {
		d.scroll = 0
	}
	lines = append(lines, st.Dim.Paint("newest at the bottom; esc closes"))
	return box(st, "steps of "+d.key0, lines, bw)
}

func (d *stepsDialog) hint() string { return "j k pgup pgdn move   esc close" }
