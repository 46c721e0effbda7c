package tui

import (
	"strconv"

	tea "github.com/charmbracelet/bubbletea"
)

// key takes a key. The key that opened the dialog never confirms it: only enter
// on the button does, and the button is not where the focus begins.
func (d *writeDialog) key(m *Model, k tea.KeyMsg) (closed bool, cmd tea.Cmd) {
	if k.Paste {
		if f := d.fields[d.at]; f != nil && !d.applying {
			f.Insert(k.Runes...)
			d.edited = m.v.now
		}
		return false, nil
	}
	name := k.String()
	if name == "esc" {
		if d.applying {
			m.say("the write is under way; its outcome shows in the row", false)
		}
		return true, nil
	}
	if d.applying {
		return false, nil
	}
	switch name {
	case "tab", "down":
		return false, d.next(m, 1)
	case "shift+tab", "up":
		return false, d.next(m, -1)
	case "pgdown":
		d.scroll += 5
		return false, nil
	case "pgup":
		d.scroll = max(0, d.scroll-5)
		return false, nil
	case "enter":
		if d.at != stopButtons {
			return false, d.next(m, 1)
		}
		if !d.yes || d.closeOnly() {
			return true, nil
		}
		return false, d.confirm(m)
	}
	d.failed = ""
	switch d.at {
	case stopButtons:
		d.buttonKey(m, k, name)
	case stopOne, stopForce:
		if name == " " || name == "left" || name == "right" {
			if d.at == stopOne {
				d.one = !d.one
			} else {
				d.force = !d.force
			}
			return false, d.replan(m)
		}
	default:
		f := d.fields[d.at]
		if rs := runes(k); rs != nil {
			f.Insert(rs...)
		} else if !f.Key(name) {
			return false, nil
		}
		d.edited = m.v.now
	}
	return false, nil
}

// buttonKey chooses a button, or types the number or name that is asked for.
func (d *writeDialog) buttonKey(m *Model, k tea.KeyMsg, name string) {
	switch name {
	case "left", "h":
		if name == "left" || d.expect(m) == "" {
			d.yes = false
			return
		}
	case "right", "l":
		if name == "right" || d.expect(m) == "" {
			d.yes = true
			return
		}
	case "backspace":
		if r := []rune(d.typed); len(r) > 0 {
			d.typed = string(r[:len(r)-1])
		}
		d.yes = false
		return
	}
	if rs := runes(k); rs != nil && d.expect(m) != "" && len(d.typed) < 100 {
		d.typed += string(rs)
		d.yes = d.typed == d.expect(m)
	}
}

// expect is what must be typed to confirm: the context's name where it asks for
// that, the number of listeners where there are several, else nothing.
func (d *writeDialog) expect(m *Model) string {
	switch {
	case d.closeOnly():
		return ""
	case d.plan != nil && d.plan.Confirm.TypeContextName:
		if d.plan.Context != "" {
			return d.plan.Context
		}
		return m.v.label
	case len(d.ids) > 1:
		return strconv.Itoa(len(d.ids))
	}
	return ""
}

// closeOnly reports whether there is nothing to confirm: every file already says so.
func (d *writeDialog) closeOnly() bool {
	if d.plan == nil || len(d.plan.Files) == 0 {
		return d.plan != nil
	}
	for _, f := range d.plan.Files {
		if !f.Unchanged {
			return false
		}
	}
	return true
}

// next goes on to another stop; leaving a field plans anew.
func (d *writeDialog) next(m *Model, step int) tea.Cmd {
	stops := d.stops()
	i := 0
	for j, s := range stops {
		if s == d.at {
			i = j
		}
	}
	if d.at == stopButtons && step > 0 && !d.yes && !d.closeOnly() {
		d.yes = true // tab goes from Cancel to the other button first
		return nil
	}
	if d.at == stopButtons && step < 0 && d.yes {
		d.yes = false
		return nil
	}
	d.at = stops[(i+step+len(stops))%len(stops)]
	if d.at == stopButtons {
		d.yes = false
	}
	return d.replan(m)
}

func (d *writeDialog) hint() string {
	if d.applying {
		return "esc closes this; the write goes on"
	}
	return "tab enter go on   shift-tab back   pgup pgdn read   esc cancel"
}
