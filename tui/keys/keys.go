// Package keys is the dashboard's key map: the one source of what the keys do,
// of the help screen, the line of hints and the table in the README.
package keys

import (
	"fmt"
	"sort"
	"strings"
)

// Action is something that a key does. Its text is the name used to rebind it.
type Action string

// The actions.
const (
	Down         Action = "down"
	Up           Action = "up"
	Top          Action = "top"
	Bottom       Action = "bottom"
	HalfDown     Action = "half-page-down"
	HalfUp       Action = "half-page-up"
	PageDown     Action = "page-down"
	PageUp       Action = "page-up"
	Filter       Action = "filter"
	Palette      Action = "command"
	Help         Action = "help"
	Mark         Action = "mark"
	Range        Action = "mark-range"
	MarkAll      Action = "mark-all"
	Pause        Action = "pause"
	Resume       Action = "resume"
	Scale        Action = "scale"
	Edit         Action = "edit"
	Undo         Action = "undo"
	Sort         Action = "sort"
	SortBack     Action = "sort-reverse"
	Open         Action = "open"
	NextPane     Action = "next-pane"
	Freeze       Action = "freeze"
	NextHit      Action = "next-match"
	PrevHit      Action = "previous-match"
	Source       Action = "source"
	Copy         Action = "copy"
	Note         Action = "incident-note"
	Refresh      Action = "refresh"
	Mouse        Action = "mouse"
	Back         Action = "back"
	Escape       Action = "escape"
	Quit         Action = "quit"
	Suspend      Action = "suspend"
	ShowConsumer Action = "consumers"
	ShowFeed     Action = "feed"
	ShowHistory  Action = "history"
	ShowInstance Action = "instances"
	ShowHealth   Action = "health"
)

// Binding is one action with its keys.
type Binding struct {
	Action Action
	Keys   []string // as Bubble Tea names them: "ctrl+d", "pgup", " "
	Group  string   // of the help screen
	Help   string   // what it does, a few words
	Hint   string   // the word in the line of hints
	Write  bool     // it leads to a write: not offered in a read-only context
	Fixed  bool     // cannot be rebound
}

// bindings is the built-in key map, in the order of the help screen.
var bindings = []Binding{
	{Action: Down, Keys: []string{"j", "down"}, Group: "move", Help: "one row down"},
	{Action: Up, Keys: []string{"k", "up"}, Group: "move", Help: "one row up"},
	{Action: Top, Keys: []string{"g", "home"}, Group: "move", Help: "first row"},
	{Action: Bottom, Keys: []string{"G", "end"}, Group: "move", Help: "last row; the feed follows again"},
	{Action: HalfDown, Keys: []string{"ctrl+d"}, Group: "move", Help: "half a page down"},
	{Action: HalfUp, Keys: []string{"ctrl+u"}, Group: "move", Help: "half a page up"},
	{Action: PageDown, Keys: []string{"pgdown"}, Group: "move", Help: "a page down"},
	{Action: PageUp, Keys: []string{"pgup"}, Group: "move", Help: "a page up"},
	{Action: Open, Keys: []string{"enter"}, Group: "move", Help: "detail of the row; the steps of a feed line", Hint: "detail"},
	{Action: NextPane, Keys: []string{"tab"}, Group: "move", Help: "next pane", Hint: "next pane"},
	{Action: Escape, Keys: []string{"esc"}, Group: "move", Help: "clear filter, marks or range; else back", Fixed: true},
	{Action: Back, Keys: []string{"q"}, Group: "move", Help: "back; quits on the home screen", Hint: "back"},

	{Action: Pause, Keys: []string{"p"}, Group: "act", Help: "pause the marked listeners, else the row's", Hint: "pause", Write: true},
	{Action: Resume, Keys: []string{"r"}, Group: "act", Help: "resume, also with one consumer to try a fix", Hint: "resume", Write: true},
	{Action: Scale, Keys: []string{"s"}, Group: "act", Help: "set the number of consumers", Hint: "scale", Write: true},
	{Action: Edit, Keys: []string{"e"}, Group: "act", Help: "edit the toggle file", Hint: "edit", Write: true},
	{Action: Undo, Keys: []string{"u"}, Group: "act", Help: "undo my last toggle", Hint: "undo", Write: true},

	{Action: Mark, Keys: []string{" "}, Group: "choose", Help: "mark the row and go down", Hint: "mark"},
	{Action: Range, Keys: []string{"V"}, Group: "choose", Help: "begin or end a range of marks"},
	{Action: MarkAll, Keys: []string{"*"}, Group: "choose", Help: "mark all visible rows, or none"},
	{Action: Filter, Keys: []string{"/"}, Group: "choose", Help: "filter: text, !text inverse, ~text fuzzy", Hint: "filter"},
	{Action: Sort, Keys: []string{"o"}, Group: "choose", Help: "sort by the next column", Hint: "sort"},
	{Action: SortBack, Keys: []string{"O"}, Group: "choose", Help: "reverse the order"},

	{Action: Freeze, Keys: []string{"f"}, Group: "feed", Help: "freeze the feed, or let it run", Hint: "freeze"},
	{Action: Source, Keys: []string{"S"}, Group: "feed", Help: "show the next source only", Hint: "source"},
	{Action: NextHit, Keys: []string{"n"}, Group: "feed", Help: "next line that matches the search"},
	{Action: PrevHit, Keys: []string{"N"}, Group: "feed", Help: "previous line that matches"},

	{Action: Copy, Keys: []string{"y"}, Group: "take along", Help: "copy the row as text (OSC 52)", Hint: "copy"},
	{Action: Note, Keys: []string{"Y"}, Group: "take along", Help: "copy an incident note", Hint: "note"},

	{Action: ShowConsumer, Keys: []string{"1"}, Group: "screens", Help: "Consumers", Hint: "consumers"},
	{Action: ShowFeed, Keys: []string{"2"}, Group: "screens", Help: "Feed", Hint: "feed"},
	{Action: ShowHistory, Keys: []string{"3"}, Group: "screens", Help: "History of the row's toggle file", Hint: "history"},
	{Action: ShowInstance, Keys: []string{"4"}, Group: "screens", Help: "Instances", Hint: "instances"},
	{Action: ShowHealth, Keys: []string{"5"}, Group: "screens", Help: "Health", Hint: "health"},

	{Action: Palette, Keys: []string{":"}, Group: "program", Help: "command, with completion", Hint: "command"},
	{Action: Help, Keys: []string{"?"}, Group: "program", Help: "this help", Hint: "help"},
	{Action: Refresh, Keys: []string{"ctrl+r"}, Group: "program", Help: "read everything again now", Hint: "refresh"},
	{Action: Mouse, Keys: []string{"m"}, Group: "program", Help: "mouse on or off"},
	{Action: Suspend, Keys: []string{"ctrl+z"}, Group: "program", Help: "suspend"},
	{Action: Quit, Keys: []string{"ctrl+c"}, Group: "program", Help: "quit", Fixed: true},
}

// Map says what each key does. It is immutable.
type Map struct {
	list  []Binding
	byKey map[string]*Binding
	byAct map[Action]*Binding
}

// New returns the built-in map with overrides: action names to keys, several
// separated by spaces ("p ctrl-p"). It refuses an unknown action, a key with two meanings, and
// to rebind the keys that always lead out.
func New(overrides map[string]string) (*Map, error) {
	m := &Map{list: append([]Binding(nil), bindings...), byKey: map[string]*Binding{}, byAct: map[Action]*Binding{}}
	for i := range m.list {
		m.byAct[m.list[i].Action] = &m.list[i]
	}
	names := make([]string, 0, len(overrides))
	for name := range overrides {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		b := m.byAct[Action(name)]
		if b == nil {
			return nil, fmt.Errorf("keys: there is no action %q; the help screen (?) and the README list them", name)
		}
		if b.Fixed {
			return nil, fmt.Errorf("keys: %q cannot be rebound; it is always %s", name, Name(b.Keys[0]))
		}
		var ks []string
		for _, k := range strings.Fields(overrides[name]) {
			parsed, err := parse(k)
			if err != nil {
				return nil, fmt.Errorf("keys: %s: %w", name, err)
			}
			ks = append(ks, parsed)
		}
		if len(ks) == 0 {
			return nil, fmt.Errorf("keys: %s: no key given", name)
		}
		b.Keys = ks
	}
	for i := range m.list {
		b := &m.list[i]
		for _, k := range b.Keys {
			if other := m.byKey[k]; other != nil {
				return nil, fmt.Errorf("keys: %s means both %q and %q; give one of them another key", Name(k), other.Action, b.Action)
			}
			m.byKey[k] = b
		}
	}
	return m, nil
}

// parse reads a key as people write it: "ctrl-d", "space", "p".
func parse(s string) (string, error) {
	switch s {
	case "space":
		return " ", nil
	case "pgdn":
		return "pgdown", nil
	}
	if r := []rune(s); len(r) == 1 {
		return s, nil
	}
	k := strings.ReplaceAll(strings.ToLower(s), "-", "+")
	switch k {
	case "up", "down", "left", "right", "home", "end", "pgup", "pgdown", "tab", "shift+tab", "enter", "esc", "backspace", "delete", "insert":
		return k, nil
	}
	if c, ok := strings.CutPrefix(k, "ctrl+"); ok && len(c) == 1 && c[0] >= 'a' && c[0] <= 'z' {
		if c == "i" || c == "m" || c == "h" {
			return "", fmt.Errorf("a terminal cannot tell ctrl-%s from another key", c)
		}
		return k, nil
	}
	if c, ok := strings.CutPrefix(k, "f"); ok && len(c) <= 2 && strings.Trim(c, "0123456789") == "" && c != "" {
		return k, nil
	}
	return "", fmt.Errorf("%q is no key; write a sign, ctrl-x, f5, space, enter, tab, up, pgdn …", s)
}

// Of returns what a key does, nil when it does nothing.
func (m *Map) Of(key string) *Binding { return m.byKey[key] }

// For returns the binding of an action.
func (m *Map) For(a Action) *Binding { return m.byAct[a] }

// Key returns the first key of an action as it is shown.
func (m *Map) Key(a Action) string {
	if b := m.byAct[a]; b != nil {
		return Name(b.Keys[0])
	}
	return ""
}

// All returns every binding, in the order of the help screen.
func (m *Map) All() []Binding { return m.list }

// Name returns a key as it is shown: "ctrl-d", "space", "pgdn", "↑".
func Name(key string) string {
	switch key {
	case " ":
		return "space"
	case "up":
		return "↑"
	case "down":
		return "↓"
	case "pgdown":
		return "pgdn"
	}
	if strings.HasPrefix(key, "ctrl+") || strings.HasPrefix(key, "shift+") || strings.HasPrefix(key, "alt+") {
		return strings.Replace(key, "+", "-", 1)
	}
	return key
}

// Names returns a binding's keys as they are shown: "j ↓".
func (b *Binding) Names() string {
	ns := make([]string, len(b.Keys))
	for i, k := range b.Keys {
		ns[i] = Name(k)
	}
	return strings.Join(ns, " ")
}

// Markdown returns the table of keys for the README, a row for each group.
func Markdown() string {
	var b strings.Builder
	b.WriteString("| | keys |\n|---|---|\n")
	for i := 0; i < len(bindings); {
		group := bindings[i].Group
		var parts []string
		for ; i < len(bindings) && bindings[i].Group == group; i++ {
			x := &bindings[i]
			ns := make([]string, len(x.Keys))
			for j, k := range x.Keys {
				ns[j] = "`" + Name(k) + "`"
			}
			parts = append(parts, strings.Join(ns, " ")+" "+x.Help)
		}
		fmt.Fprintf(&b, "| %s | %s |\n", group, strings.Join(parts, " · "))
	}
	return b.String()
}
