package tui

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/belay-mq/belay/nacos"
	"github.com/belay-mq/belay/registry/control"
	"github.com/belay-mq/belay/registry/fleet"
	"github.com/belay-mq/belay/registry/toggle"
	"github.com/belay-mq/belay/tui/cell"
	"github.com/belay-mq/belay/tui/editor"
	"github.com/belay-mq/belay/tui/style"
)

// editDialog edits an application's toggle file: faults by line while one types,
// what the change means for the listeners, and then the same confirmation as any write.
type editDialog struct {
	app    *fleet.App
	format toggle.Format
	base   string // the text it began with
	md5    string
	area   *editor.Area

	parsed *toggle.File
	before *toggle.File
	text   string // that parsed was made of
	marks  map[int]toggle.Problem
	sure   bool // esc was pressed once with changes
	ask    uint64
	failed string
}

// editedMsg is the text that $EDITOR left.
type editedMsg struct {
	text string
	err  error
}

// openEditor opens the toggle file of the application that the user is looking at.
func (m *Model) openEditor() tea.Cmd {
	name := ""
	switch {
	case m.at == screenHistory && m.history().app != "":
		name = m.history().app
	case m.row() != nil:
		name = m.row().ID.App
	case len(m.v.snap.Apps) == 1:
		name = m.v.snap.Apps[0].Name
	}
	a := m.v.snap.App(name)
	switch {
	case a == nil:
		m.say("choose a listener of the application first", false)
		return nil
	case a.File.Read.IsZero() && a.File.MD5 == "" && !a.File.Absent:
		m.say("the toggle file of "+name+" has not been read yet", false)
		return nil
	case !editor.Editable(a.File.Text):
		m.say("the toggle file of "+name+" is not UTF-8; pausing and resuming still work, editing it needs Nacos's console", false)
		return nil
	}
	d := &editDialog{app: a, format: toggle.FormatOf(a.Key.DataID), base: a.File.Text, md5: a.File.MD5, area: editor.New(a.File.Text)}
	d.before = toggle.Parse(d.format, []byte(d.base))
	d.parse()
	m.open(d)
	return nil
}

// parse reads the text anew after a change.
func (d *editDialog) parse() {
	text := d.area.Text()
	if d.parsed != nil && text == d.text {
		return
	}
	d.text = text
	d.parsed = toggle.Parse(d.format, []byte(text))
	d.marks = map[int]toggle.Problem{}
	problems := d.parsed.Warnings
	if d.parsed.Fatal != nil {
		problems = []toggle.Problem{*d.parsed.Fatal}
	}
	for _, p := range problems {
		if old, ok := d.marks[p.Line]; !ok || p.Class() > old.Class() {
			d.marks[p.Line] = p
		}
	}
}

func (d *editDialog) key(m *Model, k tea.KeyMsg) (bool, tea.Cmd) {
	if k.Paste {
		d.area.Insert(k.Runes...)
		d.parse()
		return false, nil
	}
	name := k.String()
	if name != "esc" {
		d.sure = false
	}
	if d.ask != 0 && name != "esc" {
		return false, nil
	}
	switch name {
	case "esc":
		if d.text == d.base || d.sure {
			return true, nil
		}
		d.sure = true
		d.failed = "esc again throws your changes away"
		return false, nil
	case "ctrl+s":
		return false, d.review(m)
	case "ctrl+o":
		return false, d.external(m)
	case "ctrl+n":
		d.nextProblem()
		return false, nil
	}
	d.failed = ""
	if rs := runes(k); rs != nil {
		d.area.Insert(rs...)
	} else {
		d.area.Key(name)
	}
	d.parse()
	return false, nil
}

// nextProblem goes to the next line with a fault.
func (d *editDialog) nextProblem() {
	best, first := 0, 0
	for line := range d.marks {
		if line > d.area.Line() && (best == 0 || line < best) {
			best = line
		}
		if first == 0 || line < first {
			first = line
		}
	}
	if best == 0 {
		best = first
	}
	if best > 0 {
		d.area.Go(best)
	}
}

// review plans the edit; the answer opens the confirmation.
func (d *editDialog) review(m *Model) tea.Cmd {
	if d.text == d.base {
		d.failed = "nothing has changed"
		return nil
	}
	if f := d.parsed.Fatal; f != nil {
		d.failed = fmt.Sprintf("line %d: %s; mend it first, services could not read this", f.Line, f.Text)
		d.area.Go(f.Line)
		return nil
	}
	if strings.TrimSpace(d.text) == "" {
		d.failed = "Nacos keeps no empty file; to have no opinion, leave a comment in it"
		return nil
	}
	d.failed = ""
	d.ask = m.ask()
	return m.planCmd(d.ask, d.intents())
}

func (d *editDialog) intents() []control.Intent {
	text := d.text
	return []control.Intent{{Op: control.Edit, ID: fleet.ID{App: d.app.Name}, Text: &text}}
}

func (d *editDialog) message(m *Model, msg tea.Msg) (bool, tea.Cmd) {
	switch msg := msg.(type) {
	case planMsg:
		if msg.ask != d.ask {
			return false, nil
		}
		d.ask = 0
		if msg.err != nil {
			d.failed = msg.err.Error()
			return false, nil
		}
		d.planned(m, msg.plan)
		return false, nil
	case editedMsg:
		if msg.err != nil {
			d.failed = msg.err.Error()
		} else if !editor.Editable(msg.text) {
			d.failed = "the editor left a text that is not UTF-8; it is not taken"
		} else {
			d.area.Set(msg.text)
			d.parse()
		}
		return false, tea.Batch(tea.ClearScreen, tea.WindowSize())
	}
	return false, nil
}

// planned opens the confirmation; where somebody changed the file since the
// editor was opened, both changes are put together first.
func (d *editDialog) planned(m *Model, p *control.Plan) {
	if len(p.Files) == 1 {
		if now := p.Files[0].Base; now.MD5 != "" && now.MD5 != d.md5 {
			d.rebase(now)
			return
		}
	}
	c := newConfirm(m, control.Edit, "Publish the toggle file of "+d.app.Name, "Publish", p, d.intents())
	c.done = func(m *Model) { m.close(d) }
	c.clash = func(_ *Model, now nacos.State) { d.rebase(now) }
	m.open(c)
}

// rebase puts the changes of somebody else, who wrote the file meanwhile, and
// ours together by lines.
func (d *editDialog) rebase(now nacos.State) {
	merged, ok := editor.Merge(d.base, d.text, now.Text)
	if !ok || !editor.Editable(merged) {
		d.failed = "somebody changed the same lines meanwhile; esc twice, then open the file again"
		return
	}
	d.area.Set(merged)
	d.base, d.md5 = now.Text, now.MD5
	d.before = toggle.Parse(d.format, []byte(d.base))
	d.parse()
	d.failed = "somebody changed the file meanwhile: their change is in the text now; read it, then ctrl-s again"
}

// external opens the text in $VISUAL or $EDITOR.
func (d *editDialog) external(m *Model) tea.Cmd {
	prog := or(m.env("VISUAL"), m.env("EDITOR"))
	if prog == "" || m.term == nil {
		d.failed = "neither $VISUAL nor $EDITOR is set"
		return nil
	}
	ctx, t, text, suffix := m.ctx, m.term, d.text, ".properties"
	if d.format == toggle.YAML {
		suffix = ".yml"
	}
	return func() tea.Msg {
		out, err := editOutside(ctx, t, prog, text, suffix)
		return editedMsg{out, err}
	}
}

// editOutside lends the terminal to an editor and returns what it left.
func editOutside(ctx context.Context, t terminal, prog, text, suffix string) (string, error) {
	f, err := os.CreateTemp("", "belay-toggle-*"+suffix)
	if err != nil {
		return "", fmt.Errorf("making a file for the editor: %w", err)
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("writing the file for the editor: %w", err)
	}
	err = t.Lend(func(screen *os.File) error {
		args := append(strings.Fields(prog), f.Name())
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, screen, screen
		return cmd.Run()
	})
	if err != nil {
		return "", fmt.Errorf("%s: %w; the text is as before", prog, err)
	}
	b, err := os.ReadFile(f.Name())
	if err != nil {
		return "", fmt.Errorf("reading what the editor left: %w", err)
	}
	return string(b), nil
}

func (d *editDialog) hint() string {
	return "ctrl-s review and publish   ctrl-o $EDITOR   ctrl-n next fault   esc close"
}

func (d *editDialog) render(m *Model, w, h int) []string {
	st := m.v.st
	in := w - 4
	foot := d.foot(m, in)
	rows := max(3, h-2-len(foot))
	lines := d.area.Render(in, rows, st, func(line int) (string, style.Style) {
		p, ok := d.marks[line]
		switch {
		case !ok:
			return "", st.Plain
		case p.Class().Loud():
			return "✗", st.Bad
		}
		return "!", st.Warn
	})
	heading := "Edit " + d.app.Key.String()
	if m.v.label != "" {
		heading += " in " + m.v.label
	}
	if d.text != d.base {
		heading += " · changed"
	}
	return box(st, cell.Clean(heading), append(lines, foot...), w)
}

// foot says what is wrong, and what the change means for the listeners.
func (d *editDialog) foot(m *Model, w int) []string {
	st := m.v.st
	out := []string{st.Dim.Paint(strings.Repeat("─", w))}
	here, ok := d.marks[d.area.Line()]
	switch {
	case d.failed != "":
		out = append(out, st.Bad.Paint(cell.Cut(cell.Clean(d.failed), w)))
	case d.ask != 0:
		out = append(out, st.Dim.Paint("reading the file …"))
	case ok:
		out = append(out, problemLines(st, here, d.app.Name, w)...)
	case d.parsed.Fatal != nil:
		out = append(out, problemLines(st, *d.parsed.Fatal, d.app.Name, w)...)
	case d.parsed.Worst() != nil:
		out = append(out, problemLines(st, *d.parsed.Worst(), d.app.Name, w)...)
	default:
		out = append(out, st.OK.Paint("no fault"))
	}
	if d.parsed.Fatal != nil {
		return append(out, st.Dim.Paint("nothing of this text can be read, so nothing of it would apply"))
	}
	changes := toggle.Diff(d.before, d.parsed)
	const most = 4
	for i, c := range changes {
		if i == most-1 && len(changes) > most {
			out = append(out, st.Dim.Paint(fmt.Sprintf("and %d more changes", len(changes)-i)))
			break
		}
		out = append(out, cell.Cut(cell.Clean(c.String()), w))
	}
	if len(changes) == 0 {
		text := "no listener changes"
		if d.text == d.base {
			text = "nothing changed"
		}
		out = append(out, st.Dim.Paint(text))
	}
	return out
}

// problemLines say what is wrong in a line, and what services do with it.
func problemLines(st *style.Set, p toggle.Problem, app string, w int) []string {
	how := st.Warn
	if p.Class().Loud() {
		how = st.Bad
	}
	text := fmt.Sprintf("line %d: %s", p.Line, p.Text)
	if s := p.Class().Sentence(app); s != "" {
		text += " (" + s + ")"
	}
	lines := cell.Wrap(cell.Clean(text), w)
	for i := range lines {
		lines[i] = how.Paint(lines[i])
	}
	return lines
}
