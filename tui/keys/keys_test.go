package keys

import (
	"fmt"
	"strings"
	"testing"
)

func TestEveryBindingIsComplete(t *testing.T) {
	m, err := New(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range m.All() {
		if b.Help == "" || b.Group == "" || len(b.Keys) == 0 {
			t.Errorf("%s lacks something: %+v", b.Action, b)
		}
		for _, k := range b.Keys {
			if m.Of(k).Action != b.Action {
				t.Errorf("%s does not mean %s", k, b.Action)
			}
		}
	}
	// The keys that users of such programs expect.
	for key, a := range map[string]Action{"j": Down, "k": Up, "g": Top, "G": Bottom, "ctrl+d": HalfDown, "ctrl+u": HalfUp, "pgdown": PageDown, "pgup": PageUp,
		"/": Filter, "esc": Escape, ":": Palette, "?": Help, " ": Mark, "V": Range, "*": MarkAll, "p": Pause, "r": Resume, "s": Scale, "e": Edit, "u": Undo,
		"o": Sort, "O": SortBack, "enter": Open, "tab": NextPane, "f": Freeze, "n": NextHit, "N": PrevHit, "y": Copy, "Y": Note, "ctrl+r": Refresh, "m": Mouse,
		"q": Back, "ctrl+c": Quit, "ctrl+z": Suspend, "1": ShowConsumer, "2": ShowFeed, "3": ShowHistory, "4": ShowInstance, "5": ShowHealth} {
		if b := m.Of(key); b == nil || b.Action != a {
			t.Errorf("%s does not mean %s", key, a)
		}
	}
}

func TestOverridesAreChecked(t *testing.T) {
	for _, c := range []struct{ action, keys, want string }{
		{"pause", "r", "means both"},
		{"fly", "x", "no action"},
		{"quit", "x", "cannot be rebound"},
		{"escape", "x", "cannot be rebound"},
		{"pause", "  ", "no key given"},
		{"pause", "ctrl-i", "cannot tell"},
		{"pause", "hyper-x", "is no key"},
	} {
		if _, err := New(map[string]string{c.action: c.keys}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s=%s: %v", c.action, c.keys, err)
		}
	}
	m, err := New(map[string]string{"pause": "r", "resume": "p", "page-down": "pgdn ctrl-f", "down": "j down F5"})
	if err != nil {
		t.Fatal(err)
	}
	if m.Of("r").Action != Pause || m.Of("p").Action != Resume || m.Of("ctrl+f").Action != PageDown || m.Of("f5").Action != Down {
		t.Error("not rebound")
	}
}

func ExampleNew() {
	m, err := New(map[string]string{"pause": "ctrl-p", "mark": "space x"})
	fmt.Println(m.Key(Pause), m.For(Mark).Names(), m.Of("p") == nil, err)
	_, err = New(map[string]string{"pause": "r"})
	fmt.Println(err)
	// Output:
	// ctrl-p space x true <nil>
	// keys: r means both "pause" and "resume"; give one of them another key
}

func TestMarkdown(t *testing.T) {
	s := Markdown()
	for _, b := range bindings {
		if !strings.Contains(s, b.Help) {
			t.Errorf("the table lacks %q", b.Help)
		}
	}
}
