package config

import (
	"strings"
	"testing"
)

func TestWithCurrent(t *testing.T) {
	const rest = "contexts:\n  a: {nacos: {servers: [x]}}\n  b: {nacos: {servers: [x]}} # two\n"
	for name, tt := range map[string]struct{ before, after string }{
		"plain":          {"current-context: a\n" + rest, "current-context: b\n" + rest},
		"with a comment": {"# mine\ncurrent-context: a   # for now\n" + rest, "# mine\ncurrent-context: b   # for now\n" + rest},
		"quoted":         {`current-context: "a" # x` + "\n" + rest, "current-context: b # x\n" + rest},
		"single quotes":  {"current-context: 'a'\n" + rest, "current-context: b\n" + rest},
		"quoted key":     {`"current-context": a` + "\n" + rest, `"current-context": b` + "\n" + rest},
		"empty":          {"current-context:\n" + rest, "current-context: b\n" + rest},
		"empty, comment": {"current-context: # none yet\n" + rest, "current-context: b # none yet\n" + rest},
		"null":           {"current-context: null\n" + rest, "current-context: b\n" + rest},
		"tilde":          {"current-context: ~\n" + rest, "current-context: b\n" + rest},
		"absent":         {rest, "current-context: b\n" + rest},
		"absent, start":  {"# mine\n---\n" + rest, "# mine\n---\ncurrent-context: b\n" + rest},
		"last":           {rest + "current-context: a", rest + "current-context: b"},
		"CRLF":           {"current-context: a\r\ncontexts:\r\n  b: {}\r\n", "current-context: b\r\ncontexts:\r\n  b: {}\r\n"},
		"CRLF, absent":   {"contexts:\r\n  b: {}\r\n", "current-context: b\r\ncontexts:\r\n  b: {}\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := WithCurrent("c.yaml", []byte(tt.before), "b")
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != tt.after {
				t.Errorf("got %q, want %q", got, tt.after)
			}
		})
	}
}

func TestWithCurrentByHand(t *testing.T) {
	for name, text := range map[string]string{
		"flow":              "{current-context: a, contexts: {a: {}, b: {}}}\n",
		"on the next line":  "current-context:\n  a\ncontexts: {a: {}, b: {}}\n",
		"an anchor":         "current-context: &c a\ncontexts: {a: {label: *c}, b: {}}\n",
		"more on its line":  "current-context: >-\n  a\ncontexts: {a: {}, b: {}}\n",
		"flow, and no such": "{contexts: {a: {}, b: {}}}\n",
	} {
		t.Run(name, func(t *testing.T) {
			got, err := WithCurrent("c.yaml", []byte(text), "b")
			if err == nil || !strings.Contains(err.Error(), "c.yaml:1: current-context: ") || !strings.HasSuffix(err.Error(), "by hand, on a line of its own: current-context: b") {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}
