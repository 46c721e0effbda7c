package tui

import (
	"fmt"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/belay-mq/belay/registry/control"
	"github.com/belay-mq/belay/registry/fleet"
	"github.com/belay-mq/belay/tui/field"
	"github.com/belay-mq/belay/tui/keys"
)

// do carries out an action, or says why it does nothing.
func (m *Model) do(a keys.Action) tea.Cmd {
	m.dirty = true
	if b := m.v.keys.For(a); b != nil && b.Write {
		if m.readOnly() {
			m.say("read-only: this context allows no writing", false)
			return nil
		}
		if m.v.snap.Version == 0 {
			m.say("nothing has been read yet: wait for the first snapshot", false)
			return nil
		}
	}
	done, why := m.active().do(a)
	if done {
		return nil
	}
	if why != "" {
		m.say(why, false)
		return nil
	}
	switch a {
	case keys.ShowConsumer, keys.ShowFeed, keys.ShowHistory, keys.ShowInstance, keys.ShowHealth:
		return m.show(a)
	case keys.Help:
		m.open(&helpDialog{})
	case keys.Palette:
		m.open(newPalette(m))
	case keys.Filter:
		f := m.active().filtering()
		if f == nil {
			m.say("there is nothing to filter on this screen", false)
			return nil
		}
		t := field.New(f.text)
		m.typing = &t
	case keys.Pause, keys.Resume, keys.Scale:
		return m.openWrite(map[keys.Action]control.Op{keys.Pause: control.Pause, keys.Resume: control.Resume, keys.Scale: control.Scale}[a])
	case keys.Undo:
		m.say("looking what there is to undo …", false)
		return m.undoCmd()
	case keys.Edit:
		return m.openEditor()
	case keys.Open:
		return m.openRow()
	case keys.Refresh:
		m.say("reading everything again", false)
		return m.refreshCmd()
	case keys.Mouse:
		m.mouse = !m.mouse
		if m.mouse {
			m.say("mouse on: click chooses, wheel moves; hold shift to select text", false)
			return tea.EnableMouseCellMotion
		}
		m.say("mouse off", false)
		return tea.DisableMouse
	case keys.Suspend:
		if m.term != nil {
			return m.term.Suspend
		}
		m.say("cannot suspend: this is not a terminal", false)
	case keys.Copy:
		return m.copyRow()
	case keys.Note:
		return m.copyNote()
	case keys.Escape:
		m.back(false)
	case keys.Back:
		return m.back(true)
	case keys.Quit:
		return tea.Quit
	default:
		m.say(m.why(a), false)
	}
	return nil
}

// why says why an action does nothing on this screen.
func (m *Model) why(a keys.Action) string {
	b := m.v.keys.For(a)
	switch a {
	case keys.Mark, keys.Range, keys.MarkAll, keys.Sort, keys.SortBack:
		return fmt.Sprintf("%s (%s) works on the consumers, %s", b.Help, b.Names(), m.v.keys.Key(keys.ShowConsumer))
	case keys.Freeze, keys.NextHit, keys.PrevHit, keys.Source:
		return fmt.Sprintf("%s (%s) works on the feed, %s", b.Help, b.Names(), m.v.keys.Key(keys.ShowFeed))
	case keys.NextPane:
		return "this screen has one pane"
	}
	return fmt.Sprintf("%s does nothing here", b.Names())
}

// show changes to a screen.
func (m *Model) show(a keys.Action) tea.Cmd {
	var app string
	var id fleet.ID
	if r := m.row(); r != nil {
		app, id = r.ID.App, r.ID
	}
	to := map[keys.Action]int{keys.ShowConsumer: screenConsumers, keys.ShowFeed: screenFeed, keys.ShowHistory: screenHistory,
		keys.ShowInstance: screenInstances, keys.ShowHealth: screenHealth}[a]
	m.typing = nil
	m.at = to
	if to == screenConsumers {
		m.detail = nil
	}
	m.resize()
	m.screens[to].refresh()
	if to == screenHistory {
		if app == "" && len(m.v.snap.Apps) > 0 {
			app = m.v.snap.Apps[0].Name
		}
		if app == "" {
			m.history().none()
			return nil
		}
		m.history().begin(app, id.Listener)
		return m.historyCmd(app)
	}
	return nil
}

// row is the listener that the user is looking at, nil where there is none.
func (m *Model) row() *fleet.Row {
	if m.detail != nil {
		return m.detail.row
	}
	if r, ok := m.home().t.Row(); ok {
		return r
	}
	return nil
}

// back goes one step back; on the home screen quit ends the program.
func (m *Model) back(quit bool) tea.Cmd {
	switch {
	case m.at != screenConsumers:
		m.at = screenConsumers
		m.active().refresh()
	case m.detail != nil:
		m.detail = nil
	case quit:
		return tea.Quit
	default:
		m.say("this is the home screen; "+m.v.keys.Key(keys.Back)+" quits", false)
	}
	return nil
}

// openRow opens what lies behind the row under the cursor.
func (m *Model) openRow() tea.Cmd {
	switch m.at {
	case screenConsumers:
		if m.detail != nil {
			return nil
		}
		r, ok := m.home().t.Row()
		if !ok {
			m.say("there is no row", false)
			return nil
		}
		m.detail = newDetail(&m.v, r)
		m.resize()
		m.detail.refresh()
		return m.detailCmd(r.ID)
	case screenFeed:
		l, ok := m.line().t.Row()
		if !ok {
			m.say("there is no line", false)
			return nil
		}
		m.open(newSteps(m, l.Key))
	case screenHistory:
		return m.openVersion()
	default:
		m.say(m.why(keys.Open), false)
	}
	return nil
}

// writeTargets returns what a writing key acts on, or why nothing.
func (m *Model) writeTargets() ([]*fleet.Row, string) {
	if m.at != screenConsumers {
		return nil, "choose a listener on the consumers first, " + m.v.keys.Key(keys.ShowConsumer)
	}
	if m.detail != nil {
		if m.detail.gone {
			return nil, "this listener is no longer known"
		}
		return []*fleet.Row{m.detail.row}, ""
	}
	return m.home().targets()
}

// openWrite opens the dialog of pause, resume or scale.
func (m *Model) openWrite(op control.Op) tea.Cmd {
	rows, why := m.writeTargets()
	if why != "" {
		m.say(why, false)
		return nil
	}
	d := newWrite(op, rows)
	m.open(d)
	return d.replan(m)
}

// copyRow puts the row under the cursor on the clipboard.
func (m *Model) copyRow() tea.Cmd {
	var text string
	switch m.at {
	case screenFeed:
		if l, ok := m.line().t.Row(); ok {
			text = strings.Join([]string{l.At.In(m.v.loc).Format("2006-01-02 15:04:05.000"), string(l.Source), l.Key, versionText(l), statusText(l), tookText(l)}, "  ")
		}
	case screenConsumers:
		if r := m.row(); r != nil {
			text = rowText(&m.v, r)
		}
	default:
		m.say(m.why(keys.Copy), false)
		return nil
	}
	if text == "" {
		m.say("there is nothing to copy", false)
		return nil
	}
	return m.copy(text, "the row")
}

// copy puts text on the clipboard.
func (m *Model) copy(text, what string) tea.Cmd {
	t := m.term
	if t == nil {
		m.say("cannot copy: this is not a terminal", false)
		return nil
	}
	m.say("copied "+what+" (where the terminal allows OSC 52)", false)
	return func() tea.Msg {
		t.Copy(text)
		return nil
	}
}

// rowText is one listener in one line of text.
func rowText(v *view, r *fleet.Row) string {
	parts := []string{r.ID.String(), stateText(v, r)}
	for i, c := range consumerColumns(v) {
		switch i {
		case colApp, colListener, colState, colNote:
			continue
		}
		parts = append(parts, strings.ToLower(c.Title)+" "+c.Text(r))
	}
	if n := noteText(r); n != "" {
		parts = append(parts, n)
	}
	return strings.Join(parts, "  ")
}

// mouseMsg moves the cursor by wheel and click.
func (m *Model) mouseMsg(msg tea.MouseMsg) {
	if len(m.dialogs) > 0 || msg.Action != tea.MouseActionPress {
		return
	}
	switch msg.Button {
	case tea.MouseButtonWheelUp:
		m.active().do(keys.Up)
	case tea.MouseButtonWheelDown:
		m.active().do(keys.Down)
	case tea.MouseButtonLeft:
		top := 2
		if m.banner() != "" {
			top++
		}
		y := msg.Y - top
		switch {
		case m.at == screenConsumers && m.detail == nil:
			m.home().t.Click(y)
		case m.at == screenFeed:
			m.line().t.Click(y)
			m.line().follow = m.line().t.Bottom()
		}
	}
}
