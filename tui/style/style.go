// Package style holds how the dashboard looks: one struct of styles, made once.
//
// Colours are the sixteen of the terminal's own palette, so they fit a light
// and a dark background and the user's theme; nothing is said by colour alone.
package style

import (
	"fmt"
	"strings"

	"github.com/belay-mq/belay/registry/fleet"
)

// Style paints text. The zero value leaves it as it is.
type Style struct{ on string }

const off = "\x1b[m"

// Paint returns s between the style's escape sequence and a reset.
func (s Style) Paint(text string) string {
	if s.on == "" || text == "" {
		return text
	}
	return s.on + text + off
}

// Set is every style of the screens.
type Set struct {
	Plain    Style
	Bold     Style
	Dim      Style // old values, hints, rules
	Label    Style // the context's name in the header
	Head     Style // column heads
	Selected Style // the row under the cursor, a selected button
	Marked   Style
	Field    Style // the room of an input
	Frame    Style // the border of a dialog
	Key      Style // keys in hints
	OK       Style
	Info     Style
	Busy     Style // something is on its way
	Warn     Style
	Bad      Style
	Paused   Style
	Add      Style // added lines of a diff
	Del      Style // removed lines of a diff
}

// colours by the names that a theme may use.
var colours = map[string]int{
	"black": 0, "red": 1, "green": 2, "yellow": 3, "blue": 4, "magenta": 5, "cyan": 6, "white": 7,
	"bright-black": 8, "bright-red": 9, "bright-green": 10, "bright-yellow": 11,
	"bright-blue": 12, "bright-magenta": 13, "bright-cyan": 14, "bright-white": 15,
}

// Theme changes the colours of parts of the screens, by the names "ok", "info",
// "busy", "warn", "bad", "paused" and "label". A value is one of the sixteen colours
// ("cyan", "bright-black", …) or "default". Parts left out keep their colour.
type Theme map[string]string

// New makes the styles. Without colour only bold, dim and reverse are used.
func New(noColor bool, theme Theme) (*Set, error) {
	part := map[string]string{
		"ok": "green", "info": "cyan", "busy": "cyan", "warn": "yellow", "bad": "red", "paused": "blue", "label": "default",
	}
	for name, colour := range theme {
		if _, ok := part[name]; !ok {
			return nil, fmt.Errorf("theme: there is no part %q; parts are ok, info, busy, warn, bad, paused, label", name)
		}
		if _, ok := colours[colour]; !ok && colour != "default" {
			return nil, fmt.Errorf("theme: %s: there is no colour %q; use one of the sixteen (red, bright-black, …) or default", name, colour)
		}
		part[name] = colour
	}
	mk := func(name string, attrs ...string) Style {
		if n, ok := colours[part[name]]; ok && !noColor {
			if n < 8 {
				attrs = append(attrs, fmt.Sprint(30+n))
			} else {
				attrs = append(attrs, fmt.Sprint(90+n-8))
			}
		}
		if len(attrs) == 0 {
			return Style{}
		}
		return Style{"\x1b[" + strings.Join(attrs, ";") + "m"}
	}
	return &Set{
		Bold:     mk("", "1"),
		Dim:      mk("", "2"),
		Label:    mk("label", "1", "7"),
		Head:     mk("", "1"),
		Selected: mk("", "7"),
		Marked:   mk("", "1"),
		Field:    mk("", "4"),
		Frame:    mk("info"),
		Key:      mk("", "1"),
		OK:       mk("ok"),
		Info:     mk("info"),
		Busy:     mk("busy", "1"),
		Warn:     mk("warn"),
		Bad:      mk("bad", "1"),
		Paused:   mk("paused", "1"),
		Add:      mk("ok"),
		Del:      mk("bad"),
	}, nil
}

// State returns the glyph, the word and the style of a state.
func (s *Set) State(st fleet.State) (glyph, word string, _ Style) {
	switch st {
	case fleet.Unknown:
		return "?", "unknown", s.Warn
	case fleet.Failed:
		return "✗", "failed", s.Bad
	case fleet.MissingQueue:
		return "✗", "missing queue", s.Bad
	case fleet.Recovering:
		return "↻", "recovering", s.Bad
	case fleet.Pausing, fleet.Resuming, fleet.Scaling, fleet.Starting:
		return "◐", string(st), s.Busy
	case fleet.Drift:
		return "!", "drift", s.Bad
	case fleet.Paused:
		return "‖", "paused", s.Paused
	case fleet.Stopped:
		return "■", "stopped", s.Dim
	case fleet.Unmanaged:
		return "○", "unmanaged", s.Plain
	case fleet.Running:
		return "●", "running", s.OK
	}
	return "?", string(st), s.Warn
}

// Rank orders states for sorting, the worst first.
func Rank(st fleet.State) int {
	for i, x := range []fleet.State{fleet.Failed, fleet.MissingQueue, fleet.Drift, fleet.Recovering, fleet.Unknown, fleet.Pausing, fleet.Resuming,
		fleet.Scaling, fleet.Starting, fleet.Paused, fleet.Stopped, fleet.Unmanaged, fleet.Running} {
		if x == st {
			return i
		}
	}
	return 99
}
