package toggle

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestFormatOf(t *testing.T) {
	for id, want := range map[string]Format{
		"rabbitmq-toggle.properties": Properties, "rabbitmq-toggle.yml": YAML, "X.YAML": YAML, "rabbitmq-toggle": Properties, "yml": Properties,
	} {
		if got := FormatOf(id); got != want {
			t.Errorf("%s: got %s, want %s", id, got, want)
		}
	}
}

// TestWindows reads pauseAt and resumeAt in both formats.
func TestWindows(t *testing.T) {
	tests := []struct {
		pause, resume string
		warnings      []wantProblem
	}{
		{"2026-01-02T22:00:00Z", "2026-01-02T23:00:00Z", []wantProblem{}},
		{"2026-01-02T23:00:00Z", "2026-01-02T23:00:00Z", []wantProblem{{WindowEmpty, 6}}},
		{"2026-01-02T23:00:00+08:00", "2026-01-02T15:30:00Z", []wantProblem{}}, // by time, not by text
		{"2026-01-02T23:30:00Z", "2026-01-02T23:00:00Z", []wantProblem{{WindowEmpty, 6}}},
		{"22:00", "2026-01-02T23:00:00Z", []wantProblem{{BadTime, 5}}},
		{"2026-01-02T22:00:00Z", "", []wantProblem{}},
	}
	for _, tt := range tests {
		texts := map[Format]string{
			Properties: "# a\n# b\n# c\nrabbitmq.toggle.consumers[0].listenerId=A\nrabbitmq.toggle.consumers[0].pauseAt=" + tt.pause +
				"\nrabbitmq.toggle.consumers[0].resume-at=" + tt.resume + "\n",
			YAML: "rabbitmq:\n  toggle:\n    consumers:\n      - listenerId: A\n        pauseAt: '" + tt.pause + "'\n        resume-at: '" + tt.resume + "'\n",
		}
		for format, text := range texts {
			f := Parse(format, []byte(text))
			if diff := cmp.Diff(tt.warnings, asWanted(f).Warnings); diff != "" {
				t.Errorf("%s %s to %s: want -, got +:\n%s", format, tt.pause, tt.resume, diff)
			}
			pause, _ := time.Parse(time.RFC3339, tt.pause)
			got, ok := f.Entries[0].PauseTime()
			if !got.Equal(pause) || ok == pause.IsZero() {
				t.Errorf("%s: pauseAt %s reads as %v, %v", format, tt.pause, got, ok)
			}
		}
	}
}

func edited(t *testing.T, format Format, text string, force bool, intents ...Intent) string {
	t.Helper()
	got, err := Edit(format, []byte(text), force, intents...)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return string(got)
}

// TestEditWindows writes and removes pauseAt, which comes before resumeAt.
func TestEditWindows(t *testing.T) {
	window := Intent{Op: Set, ListenerID: "A", PauseAt: To("2026-01-02T22:00:00Z"), ResumeAt: To("2026-01-02T23:00:00Z"), Reason: To("vendor")}
	tests := []struct {
		format        Format
		before, after string
	}{
		{Properties, "rabbitmq.toggle.consumers[0].listener-id=A\n",
			"rabbitmq.toggle.consumers[0].listener-id=A\nrabbitmq.toggle.consumers[0].reason=vendor\n" +
				"rabbitmq.toggle.consumers[0].pause-at=2026-01-02T22:00:00Z\nrabbitmq.toggle.consumers[0].resume-at=2026-01-02T23:00:00Z\n"},
		{YAML, "rabbitmq.toggle:\n  consumers:\n  - {listenerId: A}\n",
			"rabbitmq.toggle:\n  consumers:\n  - {listenerId: A, reason: vendor, pauseAt: 2026-01-02T22:00:00Z, resumeAt: 2026-01-02T23:00:00Z}\n"},
	}
	for _, tt := range tests {
		got := edited(t, tt.format, tt.before, false, window)
		if diff := cmp.Diff(tt.after, got); diff != "" {
			t.Errorf("%s: want -, got +:\n%s", tt.format, diff)
		}
		got = edited(t, tt.format, got, false, Intent{Op: Resume, ListenerID: "A", Reason: Null[string]()})
		f := Parse(tt.format, []byte(got))
		if e := f.Entries[0]; e.PauseAt != nil || e.ResumeAt != nil || e.Enable == nil || !*e.Enable {
			t.Errorf("%s: after a resume:\n%s", tt.format, got)
		}
	}
}

// TestEditMore holds edits that the cases do not have.
func TestEditMore(t *testing.T) {
	add := Intent{Op: Add, ListenerID: "New", Enable: To(false)}
	off := Intent{Op: Set, ListenerID: "A", Enable: To(false)}
	clear := Intent{Op: Set, ListenerID: "A", Reason: Null[string]()}
	tests := []struct {
		name          string
		format        Format
		intent        Intent
		before, after string
	}{
		{"bracketed names", Properties, off, "rabbitmq.toggle.consumers[0][listenerid]=A\n",
			"rabbitmq.toggle.consumers[0][listenerid]=A\nrabbitmq.toggle.consumers[0].enable=false\n"},
		{"continued separator", Properties, off, "rabbitmq.toggle.consumers[0].listenerId=A\nrabbitmq.toggle.consumers[0].enable\\\n  = \\\n  true\n",
			"rabbitmq.toggle.consumers[0].listenerId=A\nrabbitmq.toggle.consumers[0].enable\\\n  = \\\n  false\n"},
		{"continued by nothing", Properties, off, "rabbitmq.toggle.consumers[0].listenerId=A\\\n",
			"rabbitmq.toggle.consumers[0].listenerId=A\nrabbitmq.toggle.consumers[0].enable=false\n"},
		{"placeholder", Properties, off, "rabbitmq.toggle.consumers[0].listenerId=A\nrabbitmq.toggle.consumers[0].enable=${x:true}\n",
			"rabbitmq.toggle.consumers[0].listenerId=A\nrabbitmq.toggle.consumers[0].enable=false\n"},
		{"only a mark", Properties, add, "\ufeff", "\ufeffrabbitmq.toggle.consumers[0].listenerId=New\nrabbitmq.toggle.consumers[0].enable=false\n"},
		{"null list", YAML, add, "rabbitmq:\n  toggle:\n    consumers: # none\n# end\n",
			"rabbitmq:\n  toggle:\n    consumers: # none\n      - listenerId: New\n        enable: false\n# end\n"},
		{"tilde list", YAML, add, "rabbitmq:\n  toggle:\n    consumers: ~ # none\n",
			"rabbitmq:\n  toggle:\n    consumers: # none\n      - listenerId: New\n        enable: false\n"},
		{"no list", YAML, add, "rabbitmq:\n  host: x\nspring: {a: 1}\n",
			"rabbitmq:\n  host: x\n  toggle:\n    consumers:\n      - listenerId: New\n        enable: false\nspring: {a: 1}\n"},
		{"other keys", YAML, add, "spring: {a: 1}\r\n# end",
			"spring: {a: 1}\r\n# end\r\nrabbitmq:\r\n  toggle:\r\n    consumers:\r\n      - listenerId: New\r\n        enable: false"},
		{"flow all the way", YAML, add, "{rabbitmq: {toggle: {}}}\n", "{rabbitmq: {toggle: {consumers: [{listenerId: New, enable: false}]}}}\n"},
		{"index mapping", YAML, add, "rabbitmq.toggle.consumers:\n  0: {listenerId: A}\n  1:\n    listener-id: B\n",
			"rabbitmq.toggle.consumers:\n  0: {listenerId: A}\n  1:\n    listener-id: B\n  2:\n    listener-id: New\n    enable: false\n"},
		{"flattened", YAML, add, "rabbitmq.toggle.consumers[0].listener-id: A\n",
			"rabbitmq.toggle.consumers[0].listener-id: A\nrabbitmq.toggle.consumers[1].listener-id: New\nrabbitmq.toggle.consumers[1].enable: false\n"},
		{"alias replaced", YAML, off, "a: &on true\nrabbitmq.toggle.consumers:\n- listenerId: A\n  enable: *on\n",
			"a: &on true\nrabbitmq.toggle.consumers:\n- listenerId: A\n  enable: false\n"},
		{"comments between", YAML, clear, "rabbitmq.toggle.consumers:\n- reason: x # why\n  # who\n  listenerId: A\n",
			"rabbitmq.toggle.consumers:\n-\n  # who\n  listenerId: A\n"},
		{"first in flow", YAML, clear, "rabbitmq.toggle.consumers: [{reason: x, listenerId: A,}]\n", "rabbitmq.toggle.consumers: [{listenerId: A,}]\n"},
		{"block at the end", YAML, off, "rabbitmq.toggle.consumers:\n- listenerId: A\n  reason: |\n    x", // the block gets a line end
			"rabbitmq.toggle.consumers:\n- listenerId: A\n  reason: |\n    x\n  enable: false"},
		{"long alias of a mapping", YAML, add, "x: &x {a: 1}\nrabbitmq.toggle.consumers:\n- {<<: *x, listenerId: A}\n",
			"x: &x {a: 1}\nrabbitmq.toggle.consumers:\n- {<<: *x, listenerId: A}\n- {listenerId: New, enable: false}\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := edited(t, tt.format, tt.before, false, tt.intent)
			if diff := cmp.Diff(tt.after, got); diff != "" {
				t.Fatalf("want -, got +:\n%s", diff)
			}
			if again := edited(t, tt.format, got, false, tt.intent); again != got {
				t.Errorf("the second time:\n%s", again)
			}
		})
	}
}

// TestRefusedMore holds refusals that the cases do not have.
func TestRefusedMore(t *testing.T) {
	off := Intent{Op: Set, ListenerID: "A", Enable: To(false)}
	const entry = "rabbitmq.toggle.consumers[0].listenerId=A\n"
	tests := []struct {
		name   string
		format Format
		text   string
		intent Intent
		code   Code
		line   int
		force  bool // whether force lets it through
	}{
		{"gap before", Properties, entry + "rabbitmq.toggle.consumers[2].listenerId=B\n", off, IndexGap, 2, true},
		{"bad value before", Properties, entry + "rabbitmq.toggle.consumers[0].concurrentConsumers=two\n", off, BadInteger, 2, true},
		{"no entry seen", Properties, "rabbitmq.toggle.consumers=\n" + entry, off, ConsumersValue, 1, true},
		{"fatal", Properties, entry + "x=\\u12\n", off, BadEscape, 2, false},
		{"documents", Properties, entry + "#---\nx=1\n", off, DocumentSeparator, 2, false},
		{"new fault", Properties, "x=1\nrabbitmq.toggle.consumers=\n", Intent{Op: Add, ListenerID: "A"}, ConsumersValue, 2, false},
		{"placeholder", Properties, "", Intent{Op: Add, ListenerID: "${a}"}, Placeholder, 0, false},
		{"unknown", Properties, entry, Intent{Op: Resume, ListenerID: "a"}, UnknownListener, 0, false},
		{"pair", Properties, entry, Intent{Op: Scale, ListenerID: "A", Min: To(4), Max: To(2)}, MaxBelowMin, 0, false},
		{"too many", Properties, entry, Intent{Op: Scale, ListenerID: "A", Max: To(1 << 40)}, OutOfRange, 0, false},
		{"no index left", Properties, "rabbitmq.toggle.consumers[2147483647].listenerId=A\n", Intent{Op: Add, ListenerID: "B"}, BadIndex, 0, false},
		{"shared value", YAML, "rabbitmq.toggle.consumers:\n- listenerId: A\n  enable: &e true\n- listenerId: B\n  enable: *e\n", off, SharedNode, 3, false},
		{"shared list", YAML, "x: &l\n- listenerId: A\nrabbitmq.toggle.consumers: *l\n", Intent{Op: Add, ListenerID: "B"}, SharedNode, 1, false},
		{"inherited list", YAML, "x: &l\n  consumers:\n  - listenerId: A\nrabbitmq.toggle:\n  <<: *l\n", off, SharedNode, 5, false},
		{"no mapping", YAML, "- a\n", Intent{Op: Add, ListenerID: "B"}, UnsafeEdit, 1, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Edit(tt.format, []byte(tt.text), false, tt.intent)
			var r *Refusal
			if !errors.As(err, &r) || r.Code != tt.code || r.Line != tt.line || r.Forceable != tt.force {
				t.Fatalf("got %v, want %s in line %d, forceable %v", err, tt.code, tt.line, tt.force)
			}
			got, err := Edit(tt.format, []byte(tt.text), true, tt.intent)
			if (err == nil) != tt.force {
				t.Errorf("with force: %v\n%s", err, got)
			}
		})
	}
	if _, err := Edit(Properties, nil, false, Intent{Op: "drop", ListenerID: "A"}); err == nil {
		t.Error("an unknown operation was carried out")
	}
}

// TestSeveralIntents carries out several intents in one edit, all or none.
func TestSeveralIntents(t *testing.T) {
	const text = "rabbitmq.toggle.consumers[0].listenerId=A\n"
	got := edited(t, Properties, text, false, Intent{Op: Add, ListenerID: "B", Enable: To(true)}, Intent{Op: Set, ListenerID: "A", Enable: To(false)})
	want := text + "rabbitmq.toggle.consumers[0].enable=false\nrabbitmq.toggle.consumers[1].listenerId=B\nrabbitmq.toggle.consumers[1].enable=true\n"
	if got != want {
		t.Errorf("got\n%s", got)
	}
	if _, err := Edit(Properties, []byte(text), false, Intent{Op: Set, ListenerID: "A", Enable: To(false)}, Intent{Op: Set, ListenerID: "C"}); err == nil {
		t.Error("an edit with an unknown listener was made")
	}
}

func TestInForce(t *testing.T) {
	f := Parse(Properties, []byte(`
rabbitmq.toggle.consumers[0].listenerId=A
rabbitmq.toggle.consumers[0].enable=true
rabbitmq.toggle.consumers[0].concurrentConsumers=2
rabbitmq.toggle.consumers[1].listenerId=B
rabbitmq.toggle.consumers[2].listenerId=A
rabbitmq.toggle.consumers[2].enable=false
rabbitmq.toggle.consumers[3].listenerId=
rabbitmq.toggle.consumers[3].enable=false
`))
	toggles := f.InForce()
	if len(toggles) != 2 || toggles[0].ListenerID != "A" || toggles[1].ListenerID != "B" {
		t.Fatalf("got %+v", toggles)
	}
	if a := toggles[0]; *a.Enable || *a.Min != 2 || a.Max != nil {
		t.Errorf("A is %+v", a)
	}
	if *f.Entries[0].Enable == false {
		t.Error("InForce changed an entry")
	}
	if _, ok := f.Lookup("C"); ok {
		t.Error("an unknown listener was found")
	}
	if list := (*File)(nil).InForce(); list != nil {
		t.Errorf("no file says %v", list)
	}
}

func TestDiff(t *testing.T) {
	parse := func(text string) *File { return Parse(Properties, []byte(text)) }
	before := parse("rabbitmq.toggle.consumers[0].listenerId=RefundConsumer\nrabbitmq.toggle.consumers[0].enable=true\nrabbitmq.toggle.consumers[1].listenerId=Old\n")
	after := parse("rabbitmq.toggle.consumers[0].listenerId=RefundConsumer\nrabbitmq.toggle.consumers[0].enable=off\nrabbitmq.toggle.consumers[0].reason=a\\nb\n" +
		"rabbitmq.toggle.consumers[1].listenerId=New\nrabbitmq.toggle.consumers[1].maxConcurrentConsumers=0x8\n")
	var got []string
	for _, c := range Diff(before, after) {
		got = append(got, c.String())
	}
	want := []string{"RefundConsumer: enable true → false", `RefundConsumer: reason absent → "a\nb"`, "New: new in the file", "New: max absent → 8", "Old: no longer in the file"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if d := Diff(nil, after); len(d) != 5 {
		t.Errorf("against no file: %v", d)
	}
}

func TestUnified(t *testing.T) {
	text := func(lines ...string) []byte { return []byte(strings.Join(lines, "\n") + "\n") }
	tests := []struct {
		name          string
		before, after []byte
		want          string
	}{
		{"equal", text("a"), text("a"), ""},
		{"in place", text("1", "2", "3", "4", "5"), text("1", "2", "x", "4", "5"), "@@ -2,3 +2,3 @@\n 2\n-3\n+x\n 4\n"},
		{"two hunks", text("1", "2", "3", "4", "5", "6", "7"), text("x", "2", "3", "4", "5", "6", "y"), "@@ -1,2 +1,2 @@\n-1\n+x\n 2\n@@ -6,2 +6,2 @@\n 6\n-7\n+y\n"},
		{"near", text("1", "2", "3", "4"), text("x", "2", "3", "y"), "@@ -1,4 +1,4 @@\n-1\n+x\n 2\n 3\n-4\n+y\n"},
		{"from nothing", nil, text("a"), "@@ -0,0 +1,1 @@\n+a\n"},
		{"line end", []byte("a\r\nb"), []byte("a\nb"), "@@ -1,2 +1,2 @@\n-a\\r\n+a\n b\n\\ no line end\n"},
	}
	for _, tt := range tests {
		if got := Unified(tt.before, tt.after, 1); got != tt.want {
			t.Errorf("%s: got\n%s", tt.name, got)
		}
	}
}

// TestIntentJSON checks that absent, null and set survive.
func TestIntentJSON(t *testing.T) {
	const text = `{"op":"set","listenerId":"A","enable":false,"reason":null,"resumeAt":"2026-01-02T03:04:05Z"}`
	var in Intent
	if err := json.Unmarshal([]byte(text), &in); err != nil {
		t.Fatal(err)
	}
	if in.Min.Present || !in.Reason.Present || in.Reason.Value != nil || *in.Enable.Value {
		t.Errorf("got %+v", in)
	}
	if out, err := json.Marshal(in); err != nil || string(out) != text {
		t.Errorf("got %s, %v", out, err)
	}
}

// TestClasses checks the sentences that screens show.
func TestClasses(t *testing.T) {
	f := Parse(Properties, []byte("rabbitmq.toggle.consumers[0].listenerId=A\nrabbitmq.toggle.consumers[0].maxConcurrentConsumers=0\nrabbitmq.toggle.consumers[0].enable=maybe\n"))
	worst := f.Worst()
	if worst == nil || worst.Code != BadBoolean || worst.Class() != Refuses {
		t.Fatalf("the worst is %v", worst)
	}
	if got := worst.Class().Sentence("settle-service"); !strings.HasPrefix(got, "settle-service will not start with this file") {
		t.Errorf("got %q", got)
	}
	for c := Harmless; c <= Poisons; c++ {
		if c.String() == "" || c != Harmless && c.Sentence("x") == "" || c.Loud() != (c >= BreaksOff) {
			t.Errorf("class %d: %s, %q", int(c), c, c.Sentence("x"))
		}
	}
}

// TestSyntaxErrors reads YAML that SnakeYAML refuses, too.
func TestSyntaxErrors(t *testing.T) {
	tests := map[string]int{
		"a: b: c\n":               1,
		"a: \"x\" y\n":            1,
		"a:\n  b: 1\n c: 2\n":     3,
		"a: [1, 2\nb: 3\n":        2,
		"a: *x\n":                 1,
		"a: &x [*x]\n":            1,
		"- a\nb: 1\n":             2,
		"a: 'x\n":                 2,
		"a: \"\\q\"\n":            1,
		"a: |x\n  y\n":            1,
		"%YAML 2.0\n---\na: 1\n":  1,
		"a: !foo!bar x\n":         1,
		"a: !x y\n":               1,
		"a: !!int x\n":            1,
		"a: {<<: 3}\n":            1,
		"a: 1\n\x01b: 2\n":        2,
		"a: 1\n...\nb: 2\n":       3,
		"a:\ttrue\n":              1,
		"a: 'x'\t# c\n":           1,
		"{a: 1}}\n":               1,
		"a: 1\nb\nc: 2\n":         2,
		strings.Repeat("[", 60):   1,
		"a: ---\n--- b\n--- c: d": 3,
	}
	for text, line := range tests {
		f := Parse(YAML, []byte(text))
		if f.Fatal == nil || f.Fatal.Code != YAMLSyntax {
			t.Errorf("%q was read: %v", text, f)
			continue
		}
		if d := f.Fatal.Line - line; d < -1 || d > 1 {
			t.Errorf("%q: line %d, want %d: %s", text, f.Fatal.Line, line, f.Fatal.Text)
		}
	}
}

// TestCheck holds whole texts against the one that they replace.
func TestCheck(t *testing.T) {
	good := "rabbitmq.toggle.consumers[0].listenerId=A\n"
	bad := "# x\n" + good + "rabbitmq.toggle.consumers[0].enable=maybe\n"
	tests := []struct {
		name          string
		before, after string
		code          Code
		line          int
		force         bool
	}{
		{"fine", "", good, "", 0, true},
		{"heals", bad, good, "", 0, true},
		{"heals a fatal one", "x=\\u1\n", good, "", 0, true},
		{"new fault", good, bad, BadBoolean, 3, false},
		{"old fault", strings.TrimPrefix(bad, "# x\n"), bad, BadBoolean, 3, true},
		{"fatal", good, good + "x=\\u1\n", BadEscape, 2, false},
		{"documents as before", good + "#---\nx=1\n", good + "#---\nx=2\n", DocumentSeparator, 2, false},
	}
	for _, tt := range tests {
		err := Check(Properties, []byte(tt.before), []byte(tt.after), false)
		var r *Refusal
		if errors.As(err, &r) != (tt.code != "") || r != nil && (r.Code != tt.code || r.Line != tt.line || r.Forceable != tt.force) {
			t.Errorf("%s: got %v", tt.name, err)
		}
		if err := Check(Properties, []byte(tt.before), []byte(tt.after), true); (err == nil) != tt.force {
			t.Errorf("%s, with force: got %v", tt.name, err)
		}
	}
}
