package tui

import (
	"context"
	"log/slog"
	"os"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/belay-mq/belay/registry/fleet"
	"github.com/belay-mq/belay/tui/field"
	"github.com/belay-mq/belay/tui/keys"
	"github.com/belay-mq/belay/tui/style"
)

// tick is how often the screens look for a new snapshot.
const tick = 100 * time.Millisecond

// The screens, by place.
const (
	screenConsumers = iota
	screenFeed
	screenHistory
	screenInstances
	screenHealth
)

// Model is the dashboard without a terminal: a Bubble Tea model. It may be
// driven by tests directly; [Run] is for programs. It is used by one goroutine.
type Model struct {
	cfg Config
	ctx context.Context
	be  Backend
	log *slog.Logger

	v       view
	w, h    int
	screens []screen
	at      int
	detail  *detail // over the home screen; nil when closed
	dialogs []dialog

	typing *field.Field // of the filter that is being typed; nil when none is
	notice string       // one sentence in place of the hints
	until  time.Time    // when the notice goes
	bad    bool         // the notice is about something that failed
	mouse  bool
	asks   uint64 // numbers the questions of dialogs

	frame  string // the newest rendered view
	second int64  // of the newest one by the clock
	dirty  bool
	ready  bool // the window's size is known
	term   terminal
	env    func(string) string
	crash  *Crash // why it quits, when a command panicked
}

// terminal is what the model needs of the terminal beside drawing; nil parts in
// tests.
type terminal interface {
	// Copy puts text on the clipboard of the terminal's user (OSC 52).
	Copy(text string)
	// Suspend gives the terminal back, stops the process, and takes it again.
	Suspend() tea.Msg
	// Lend runs f with the terminal given back; screen is nil where it is no file.
	Lend(f func(screen *os.File) error) error
}

type tickMsg time.Time

// NewModel returns a dashboard that shows cfg.Backend. The context bounds the calls
// of the backend.
func NewModel(ctx context.Context, cfg Config) (*Model, error) {
	st, err := style.New(cfg.NoColor, cfg.Theme)
	if err != nil {
		return nil, err
	}
	km, err := keys.New(cfg.Keys)
	if err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Location == nil {
		cfg.Location = time.Local
	}
	m := &Model{cfg: cfg, ctx: ctx, be: cfg.Backend, log: cfg.Logger, env: func(string) string { return "" }}
	m.v = view{ascii: cfg.ASCII, feed: &feedLog{}, keys: km, loc: cfg.Location, snap: &fleet.Snapshot{}, st: st}
	m.screens = []screen{newConsumers(&m.v), newTimeline(&m.v), newVersions(&m.v), newInstances(&m.v), newHealth(&m.v)}
	m.look()
	return m, nil
}

// look takes the newest snapshot and feed.
func (m *Model) look() {
	m.v.now = time.Now().In(m.v.loc)
	second, version := m.v.now.Unix(), m.v.feed.version
	if s := m.be.Snapshot(); s != nil && s != m.v.snap {
		m.v.ending = sharedEnding(s.Apps)
		m.v.snap = s
		m.dirty = true
	}
	m.v.label = m.cfg.Label
	if m.v.label == "" {
		m.v.label = m.v.snap.Label
	}
	if m.v.label == "" {
		m.v.label = m.v.snap.Context
	}
	m.v.feed.read(m.be)
	m.home().hold = len(m.dialogs) > 0
	m.screens[m.at].refresh()
	if m.at != screenConsumers {
		m.home().refresh()
	}
	if m.detail != nil {
		m.detail.refresh()
	}
	if m.notice != "" && m.v.now.After(m.until) {
		m.notice = ""
	}
	// Without news only ages and waiting lines change.
	if second != m.second || m.v.feed.version != version || len(m.dialogs) > 0 {
		m.second, m.dirty = second, true
	}
}

func (m *Model) home() *consumers   { return m.screens[screenConsumers].(*consumers) }
func (m *Model) line() *timeline    { return m.screens[screenFeed].(*timeline) }
func (m *Model) history() *versions { return m.screens[screenHistory].(*versions) }

// Init starts the ticking.
func (m *Model) Init() tea.Cmd { return m.nextTick() }

func (m *Model) nextTick() tea.Cmd {
	return tea.Tick(tick, func(t time.Time) tea.Msg { return tickMsg(t) })
}

// Update routes a message.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	m.v.now = time.Now().In(m.v.loc)
	switch msg := msg.(type) {
	case tickMsg:
		m.look()
		var cmd tea.Cmd
		if d := m.top(); d != nil {
			cmd = m.tell(d, msg)
		}
		return m, tea.Batch(cmd, m.nextTick())
	case tea.WindowSizeMsg:
		m.w, m.h, m.ready = msg.Width, msg.Height, true
		m.v.wide = m.w
		m.resize()
	case tea.KeyMsg:
		return m, m.keyMsg(msg)
	case tea.MouseMsg:
		m.mouseMsg(msg)
	case noticeMsg:
		m.say(msg.text, msg.bad)
	case historyMsg:
		m.history().take(msg)
		if m.detail != nil {
			m.detail.take(msg)
		}
		m.dirty = true
	case undoMsg:
		m.undoPlanned(msg)
		return m, nil
	case crashMsg:
		m.crash = msg.crash
		return m, tea.Quit
	case resumedMsg:
		return m, tea.Batch(tea.ClearScreen, tea.WindowSize())
	default:
		if d := m.top(); d != nil {
			return m, m.tell(d, msg)
		}
		return m, nil
	}
	m.dirty = true
	return m, nil
}

// tell hands a message to a dialog.
func (m *Model) tell(d dialog, msg tea.Msg) tea.Cmd {
	closed, cmd := d.message(m, msg)
	if closed {
		m.close(d)
	}
	m.dirty = true
	return cmd
}

// resize gives every part its room.
func (m *Model) resize() {
	w, h := m.w, m.bodyHeight()
	for _, s := range m.screens {
		s.setSize(w, h)
	}
	if m.detail != nil {
		m.detail.setSize(w, h)
	}
}

// top is the dialog that sees keys first.
func (m *Model) top() dialog {
	if len(m.dialogs) == 0 {
		return nil
	}
	return m.dialogs[len(m.dialogs)-1]
}

func (m *Model) open(d dialog) {
	m.dialogs = append(m.dialogs, d)
	m.home().hold = true
	m.notice = ""
	m.dirty = true
}

func (m *Model) close(d dialog) {
	for i := range m.dialogs {
		if m.dialogs[i] == d {
			m.dialogs = append(m.dialogs[:i], m.dialogs[i+1:]...)
			break
		}
	}
	m.home().hold = len(m.dialogs) > 0
	m.dirty = true
}

// say shows one sentence for some seconds.
func (m *Model) say(text string, bad bool) {
	m.notice, m.bad = text, bad
	m.until = m.v.now.Add(noticeFor)
	m.dirty = true
}

// noticeFor is how long a notice stays.
const noticeFor = 5 * time.Second

// noticeMsg shows a notice from a command.
type noticeMsg struct {
	text string
	bad  bool
}

// resumedMsg says that the terminal is ours again.
type resumedMsg struct{}

// keyMsg normalises a key message: several runes are several keys, a paste is
// text for an input and nothing else.
func (m *Model) keyMsg(msg tea.KeyMsg) tea.Cmd {
	m.dirty = true
	if msg.Paste {
		return m.paste(msg)
	}
	if msg.Type == tea.KeyRunes && len(msg.Runes) > 1 {
		var cmds []tea.Cmd
		for _, r := range msg.Runes {
			one := tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune{r}, Alt: msg.Alt}
			if r == ' ' {
				one.Type = tea.KeySpace
			}
			cmds = append(cmds, m.key(one))
		}
		return tea.Batch(cmds...)
	}
	return m.key(msg)
}

// paste puts text into the field that has the focus; elsewhere it does nothing.
func (m *Model) paste(msg tea.KeyMsg) tea.Cmd {
	switch d := m.top(); {
	case d != nil:
		closed, cmd := d.key(m, msg)
		if closed {
			m.close(d)
		}
		return cmd
	case m.typing != nil:
		m.typing.Insert(msg.Runes...)
		m.filterTyped()
	default:
		m.say("pasted text is ignored: no field is open", false)
	}
	return nil
}

// key routes one key: dialogs first, then the filter, then the key map.
func (m *Model) key(k tea.KeyMsg) tea.Cmd {
	name := k.String()
	if name == "ctrl+c" {
		return tea.Quit
	}
	if d := m.top(); d != nil {
		closed, cmd := d.key(m, k)
		if closed {
			m.close(d)
		}
		return cmd
	}
	if m.typing != nil {
		m.typeFilter(k)
		return nil
	}
	b := m.v.keys.Of(name)
	if b == nil {
		m.say(unbound(m.v.keys, name), false)
		return nil
	}
	if m.tooSmall() && b.Action != keys.Back && b.Action != keys.Escape && b.Action != keys.Suspend {
		return nil
	}
	return m.do(b.Action)
}

func unbound(km *keys.Map, name string) string {
	return keys.Name(name) + " has no meaning here; " + km.Key(keys.Help) + " shows the keys"
}

// runes returns the runes of a key that types text, nil for others.
func runes(k tea.KeyMsg) []rune {
	if (k.Type == tea.KeyRunes || k.Type == tea.KeySpace) && !k.Alt {
		return k.Runes
	}
	return nil
}

// typeFilter takes a key while a filter is typed.
func (m *Model) typeFilter(k tea.KeyMsg) {
	switch name := k.String(); name {
	case "enter":
		m.typing = nil
	case "esc":
		m.typing = nil
		m.active().filtering().set("")
	case "up", "down", "pgup", "pgdown":
		m.do(m.v.keys.Of(name).Action)
	default:
		if rs := runes(k); rs != nil {
			m.typing.Insert(rs...)
		} else if name == "backspace" && m.typing.Text() == "" {
			m.typing = nil
		} else {
			m.typing.Key(name)
		}
		m.filterTyped()
	}
}

func (m *Model) filterTyped() {
	if m.typing != nil {
		m.active().filtering().set(m.typing.Text())
	}
}

// active is the screen that has the keys.
func (m *Model) active() screen {
	if m.at == screenConsumers && m.detail != nil {
		return m.detail
	}
	return m.screens[m.at]
}
