package tui

import (
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/belay-mq/belay/registry/fleet"
	"github.com/belay-mq/belay/tui/cell"
	"github.com/belay-mq/belay/tui/keys"
	"github.com/belay-mq/belay/tui/style"
)

// The smallest window in which the screens are drawn.
const (
	minWidth  = 50
	minHeight = 12
)

func (m *Model) tooSmall() bool { return m.w < minWidth || m.h < minHeight }

// bodyHeight is the room between the header (with a banner where there is one)
// and the line of hints.
func (m *Model) bodyHeight() int {
	n := m.h - 3
	if m.banner() != "" {
		n--
	}
	return max(0, n)
}

// View returns the newest frame; it draws only when something may have changed.
func (m *Model) View() string {
	if !m.ready {
		return ""
	}
	if m.dirty {
		m.dirty = false
		m.frame = m.draw()
	}
	return m.frame
}

func (m *Model) draw() string {
	if m.w <= 0 || m.h <= 0 {
		return ""
	}
	if m.tooSmall() {
		return m.small()
	}
	m.resize()
	lines := make([]string, 0, m.h)
	lines = append(lines, m.header())
	if b := m.banner(); b != "" {
		lines = append(lines, b)
	}
	lines = append(lines, m.statusLine())
	body := m.active().render()
	if n := m.bodyHeight(); len(body) > n {
		body = body[:n]
	}
	lines = append(lines, body...)
	for len(lines) < m.h-1 {
		lines = append(lines, "")
	}
	lines = append(lines, m.footer())
	if d := m.top(); d != nil {
		m.overlay(lines, d)
	}
	frame := strings.Join(lines, "\n")
	if m.cfg.ASCII {
		frame = cell.ASCII(frame)
	}
	return frame
}

// overlay lays the top dialog over the screen, in the middle.
func (m *Model) overlay(lines []string, d dialog) {
	for i := range lines {
		lines[i] = m.v.st.Dim.Paint(ansi.Strip(lines[i]))
	}
	lines[len(lines)-1] = m.dialogFooter(d)
	box := d.render(m, m.w, m.h-1)
	if len(box) > m.h-1 {
		box = box[:m.h-1]
	}
	w := 0
	for _, b := range box {
		w = max(w, cell.Width(b))
	}
	for i := range box {
		box[i] = cell.Left(box[i], w)
	}
	y := max(0, (m.h-1-len(box))/3)
	if len(box) > (m.h-1)*2/3 {
		y = max(0, (m.h-1-len(box))/2)
	}
	cell.Over(lines, box, max(0, (m.w-w)/2), y, m.w)
}

// dialogFooter is the line of hints while a dialog is open.
func (m *Model) dialogFooter(d dialog) string {
	if m.notice != "" {
		return m.footer()
	}
	return m.v.st.Dim.Paint(cell.Cut(" "+d.hint(), m.w))
}

// small says that the window is too small, in what room there is.
func (m *Model) small() string {
	text := fmt.Sprintf("window too small: %d×%d, belay needs %d×%d", m.w, m.h, minWidth, minHeight)
	lines := cell.Wrap(text, m.w)
	if len(lines) > m.h {
		lines = lines[:m.h]
	}
	for i := range lines {
		lines[i] = cell.Cut(lines[i], m.w)
	}
	frame := strings.Join(lines, "\n")
	if m.cfg.ASCII {
		frame = cell.ASCII(frame)
	}
	return frame
}

// header is the line on top: who we are, where, and how fresh the sources are.
func (m *Model) header() string {
	st := m.v.st
	left := " " + st.Bold.Paint("belay") + "  "
	if m.v.label != "" {
		left += st.Label.Paint(" "+cell.Clean(m.v.label)+" ") + "  "
	}
	if m.readOnly() {
		left += st.Warn.Paint("read-only") + "  "
	}
	switch apps := m.v.snap.Apps; len(apps) {
	case 0:
	case 1:
		left += cell.Clean(apps[0].Name)
	default:
		left += fmt.Sprintf("%d applications", len(apps))
	}
	var parts []string
	for _, h := range m.v.snap.Health {
		if s := m.pulse(h); s != "" {
			parts = append(parts, s)
		}
	}
	if n := len(m.v.snap.Instances); n > 0 {
		live := 0
		for _, i := range m.v.snap.Instances {
			if !i.Lost && i.App != "" {
				live++
			}
		}
		parts = append(parts, fmt.Sprintf("instances %s", cell.Count(float64(live))))
	}
	room := m.w - cell.Width(left) - 2
	for len(parts) > 0 && cell.Width(strings.Join(parts, "   ")) > room {
		parts = parts[:len(parts)-1]
	}
	return cell.Cut(cell.Spread(left, strings.Join(parts, "   ")+" ", m.w), m.w)
}

// pulse is one source in the header: its name, whether it is well, and its age.
// Parts that are not sources show only when they are not well.
func (m *Model) pulse(h fleet.Health) string {
	st := m.v.st
	name := cell.Clean(h.Name)
	state := h.State
	if state == fleet.HealthOK && m.v.late() {
		state = fleet.HealthStale
	}
	switch state {
	case fleet.HealthAbsent:
		return ""
	case fleet.HealthOK:
		switch h.Name {
		case "nacos", "rabbit", "management", "apollo":
		default:
			return ""
		}
		if h.LastOK.IsZero() {
			return name + " " + st.OK.Paint("●")
		}
		return name + " " + st.OK.Paint("●") + " " + st.Dim.Paint(cell.Age(m.v.age(h.LastOK)))
	case fleet.HealthStale:
		return name + " " + st.Warn.Paint("◐ "+cell.Age(m.v.age(h.LastOK))+" old")
	}
	s := "✗ down"
	if !h.Since.IsZero() {
		s += " " + cell.Age(m.v.age(h.Since))
	}
	return name + " " + st.Bad.Paint(s)
}

// banner says in one line what is wrong with the sources, "" when nothing is.
func (m *Model) banner() string {
	s := m.v.snap
	text, how := "", m.v.st.Warn
	for _, h := range s.Health {
		if h.State != fleet.HealthDown && h.State != fleet.HealthStale || text != "" && h.State != fleet.HealthDown {
			continue
		}
		word := "is down"
		if h.State == fleet.HealthStale {
			word = "is stale"
		}
		t := h.Name + " " + word
		if !h.Since.IsZero() {
			t += " since " + m.v.moment(h.Since)
		}
		if h.Err != "" {
			t += ": " + h.Err
		}
		more := text != ""
		if more {
			text += "; " + h.Name + " too"
			continue
		}
		if h.State == fleet.HealthDown {
			how = m.v.st.Bad
		}
		text = t
	}
	switch {
	case m.v.late():
		text, how = "nothing was read since "+m.v.moment(s.At)+", "+cell.Age(m.v.now.Sub(s.At))+" ago: all values are old", m.v.st.Bad
	case text == "" && s.Blocked:
		text = "RabbitMQ holds back publishers (memory or disk alarm): reports of instances may be late"
	case text == "":
		if text = faultyFile(s); text != "" {
			how = m.v.st.Bad
		}
	}
	if text == "" {
		return ""
	}
	return how.Paint(cell.Left(" ! "+cell.Clean(text), m.w))
}

// faultyFile tells of the first toggle file that services do not take as it is
// written, "" where there is none.
func faultyFile(s *fleet.Snapshot) string {
	for _, a := range s.Apps {
		for _, p := range a.Problems {
			switch {
			case p.Loud && strings.HasPrefix(p.Text, a.Name+" "): // it names its application itself
				return "faulty toggle file: " + p.Text
			case p.Loud:
				return "toggle file of " + a.Name + ": " + p.Text
			}
		}
	}
	return ""
}

// statusLine is the line below the header.
func (m *Model) statusLine() string {
	left, right := m.active().status()
	name := [...]string{"Consumers", "Feed", "History", "Instances", "Health"}[m.at]
	if m.at == screenConsumers && m.detail == nil {
		name = ""
	}
	if name != "" {
		name = m.v.st.Bold.Paint(name)
		if left != "" {
			name += "  "
		}
	}
	if m.typing != nil {
		w := max(10, m.w-cell.Width(right)-4)
		return cell.Cut(" "+m.v.st.Key.Paint("/")+m.typing.Render(w, true, "text, !text or ~fuzzy", m.v.st)+" "+right, m.w)
	}
	room := m.w - cell.Width(right) - 3
	if room < 12 { // the left side says more
		return cell.Cut(" "+name+left, m.w)
	}
	return cell.Spread(cell.Cut(" "+name+left, room), right+" ", m.w)
}

// footer is the line of hints, or a notice.
func (m *Model) footer() string {
	if m.notice != "" {
		how := m.v.st.Info
		if m.bad {
			how = m.v.st.Bad
		}
		return how.Paint(cell.Cut(" "+cell.Clean(m.notice), m.w))
	}
	if m.typing != nil {
		return m.v.st.Dim.Paint(cell.Cut(" enter keeps the filter  esc clears it", m.w))
	}
	return m.hintLine(m.active().hints(), m.w)
}

// hintLine is as many hints as fit; the last one, help, always does.
func (m *Model) hintLine(actions []keys.Action, w int) string {
	var parts []string
	total := 1
	for i, a := range actions {
		b := m.v.keys.For(a)
		if b == nil || b.Write && m.readOnly() {
			continue
		}
		key := keys.Name(b.Keys[0])
		n := cell.Width(key) + 1 + cell.Width(b.Hint) + 2
		reserve := 8
		if i == len(actions)-1 {
			reserve = 0
		}
		if total+n+reserve > w && i < len(actions)-1 {
			continue
		}
		total += n
		parts = append(parts, m.v.st.Key.Paint(key)+" "+m.v.st.Dim.Paint(b.Hint))
	}
	return cell.Cut(" "+strings.Join(parts, "  "), w)
}

// box frames lines with a title in the upper border. Lines are cut to the
// inner width.
func box(st *style.Set, title string, inner []string, w int) []string {
	in := w - 4
	title = cell.Cut(title, max(0, w-7))
	out := make([]string, 0, len(inner)+2)
	top := st.Frame.Paint("╭─ ") + st.Bold.Paint(title) + " " + st.Frame.Paint(strings.Repeat("─", max(0, w-5-cell.Width(title)))+"╮")
	out = append(out, top)
	for _, l := range inner {
		out = append(out, st.Frame.Paint("│")+" "+cell.Left(l, in)+" "+st.Frame.Paint("│"))
	}
	return append(out, st.Frame.Paint("╰"+strings.Repeat("─", max(0, w-2))+"╯"))
}

// ago is the age of a moment in words, "-" where there is none.
func (v *view) ago(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return cell.Age(v.age(t))
}

// moment is a time of day, with the date where it is not the last such time.
func (v *view) moment(t time.Time) string {
	t = t.In(v.loc)
	if v.now.Sub(t) < 20*time.Hour {
		return t.Format("15:04:05")
	}
	return t.Format("2 Jan 15:04:05")
}
