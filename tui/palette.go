package tui

import (
	"fmt"
	"sort"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/belay-mq/belay/registry/feed"
	"github.com/belay-mq/belay/tui/cell"
	"github.com/belay-mq/belay/tui/field"
	"github.com/belay-mq/belay/tui/keys"
)

// command is one line of the palette.
type command struct {
	name string // with its argument, "sort ready"
	help string
	run  func(m *Model) tea.Cmd
}

// paletteDialog takes a command with completion.
type paletteDialog struct {
	in   field.Field
	at   int
	all  []command
	hits []command
}

func newPalette(m *Model) *paletteDialog {
	d := &paletteDialog{all: m.commands()}
	d.complete()
	return d
}

// commands are everything that the palette offers: each action, and those that
// take an argument.
func (m *Model) commands() []command {
	var cs []command
	for _, b := range m.v.keys.All() {
		if b.Write && m.readOnly() || b.Action == keys.Palette {
			continue
		}
		cs = append(cs, command{string(b.Action), b.Help + "  " + b.Names(), func(m *Model) tea.Cmd { return m.do(b.Action) }})
	}
	for i, o := range orders {
		cs = append(cs, command{"sort " + o.name, "sort the consumers", func(m *Model) tea.Cmd {
			h := m.home()
			h.by, h.desc = i, o.desc
			h.resorted()
			return m.show(keys.ShowConsumer)
		}})
	}
	for _, s := range sources {
		name := string(s)
		if s == "" {
			name = "all"
		}
		cs = append(cs, command{"source " + name, "show this source in the feed", func(m *Model) tea.Cmd {
			m.line().setSource(s)
			return m.show(keys.ShowFeed)
		}})
	}
	cs = append(cs, command{"jump ", "go to a time in the feed: jump 21:14", nil})
	if o, ok := m.be.(Outages); ok {
		for _, name := range o.Names() {
			cs = append(cs, command{"outage " + name, "switch this part off, or on again", func(m *Model) tea.Cmd { return m.outageCmd(o, name) }})
		}
	}
	sort.SliceStable(cs, func(i, j int) bool { return cs[i].name < cs[j].name })
	return cs
}

// complete finds the commands that what was typed begins, then those that contain it.
func (d *paletteDialog) complete() {
	text := strings.ToLower(strings.TrimSpace(d.in.Text()))
	d.hits = d.hits[:0]
	for _, c := range d.all {
		if strings.HasPrefix(c.name, text) {
			d.hits = append(d.hits, c)
		}
	}
	for _, c := range d.all {
		if !strings.HasPrefix(c.name, text) && strings.Contains(c.name, text) {
			d.hits = append(d.hits, c)
		}
	}
	d.at = max(0, min(d.at, len(d.hits)-1))
}

func (d *paletteDialog) key(m *Model, k tea.KeyMsg) (bool, tea.Cmd) {
	if k.Paste {
		d.in.Insert(k.Runes...)
		d.complete()
		return false, nil
	}
	switch name := k.String(); name {
	case "esc":
		return true, nil
	case "down", "ctrl+n":
		d.at = min(d.at+1, len(d.hits)-1)
	case "up", "ctrl+p":
		d.at = max(0, d.at-1)
	case "tab":
		if d.at < len(d.hits) {
			d.in.Set(d.hits[d.at].name)
			d.complete()
		}
	case "enter":
		return d.run(m)
	default:
		if rs := runes(k); rs != nil {
			d.in.Insert(rs...)
		} else if name == "backspace" && d.in.Text() == "" {
			return true, nil
		} else if !d.in.Key(name) {
			return false, nil
		}
		d.at = 0
		d.complete()
	}
	return false, nil
}

// run carries out the chosen command. It closes the palette first, so that what
// the command opens lies on top.
func (d *paletteDialog) run(m *Model) (bool, tea.Cmd) {
	text := strings.TrimSpace(d.in.Text())
	if arg, ok := strings.CutPrefix(text, "jump"); ok {
		m.close(d)
		if err := m.jump(strings.TrimSpace(arg)); err != nil {
			m.say(err.Error(), false)
		}
		return false, nil
	}
	if len(d.hits) == 0 || text == "" && d.at == 0 {
		if text == "" {
			return true, nil
		}
		m.close(d)
		m.say(fmt.Sprintf("there is no command %q; tab completes", text), false)
		return false, nil
	}
	c := d.hits[d.at]
	if c.run == nil {
		d.in.Set(c.name)
		d.complete()
		return false, nil
	}
	m.close(d)
	return false, c.run(m)
}

func (d *paletteDialog) message(*Model, tea.Msg) (bool, tea.Cmd) { return false, nil }

func (d *paletteDialog) render(m *Model, w, h int) []string {
	st := m.v.st
	bw := min(w, 76)
	in := bw - 4
	lines := []string{st.Key.Paint(":") + d.in.Render(in-1, true, "a command; tab completes, enter runs it", st), ""}
	n := max(1, min(10, h-5))
	top := max(0, d.at-n+1)
	for i := top; i < len(d.hits) && i < top+n; i++ {
		c := d.hits[i]
		line := cell.Left(c.name, 20) + " " + c.help
		if i == d.at {
			line = st.Selected.Paint(cell.Left("▸ "+line, in))
		} else {
			line = "  " + cell.Left(c.name, 20) + " " + st.Dim.Paint(c.help)
		}
		lines = append(lines, cell.Cut(line, in))
	}
	for len(lines) < n+2 {
		lines = append(lines, "")
	}
	return box(st, "command", lines, bw)
}

// jump goes to the first line of the feed at or after a time of day.
func (m *Model) jump(text string) error {
	var c time.Time
	var err error
	for _, layout := range []string{"15:04:05", "15:04"} {
		if c, err = time.Parse(layout, text); err == nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("%q is no time of day; type jump 21:14 or jump 21:14:05", cell.Clean(text))
	}
	t := time.Date(m.v.now.Year(), m.v.now.Month(), m.v.now.Day(), c.Hour(), c.Minute(), c.Second(), 0, m.v.loc)
	if t.After(m.v.now) {
		t = t.AddDate(0, 0, -1)
	}
	m.show(keys.ShowFeed)
	s := m.line()
	n := s.t.Len()
	i := sort.Search(n, func(i int) bool { return !s.t.Nth(i).At.Before(t) || s.t.Nth(i).Status == feed.Waiting })
	if i >= n {
		return fmt.Errorf("the feed has nothing at or after %s", t.Format("15:04:05"))
	}
	s.follow = false
	s.t.Go(i)
	if i == 0 && n > 0 && s.t.Nth(0).At.After(t.Add(time.Minute)) {
		return fmt.Errorf("the feed begins at %s", s.t.Nth(0).At.In(m.v.loc).Format("15:04:05"))
	}
	return nil
}

func (d *paletteDialog) hint() string { return "tab complete   ↑ ↓ choose   enter run   esc close" }
