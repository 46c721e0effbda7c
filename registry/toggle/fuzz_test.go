package toggle

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// seedTexts adds the inputs of all cases, with the number of their format.
func seedTexts(f *testing.F, add func(format int, text []byte)) {
	for i, half := range formats {
		for _, pattern := range []string{half.parse + "/*" + half.ext, half.edit + "/*/before" + half.ext} {
			paths, err := filepath.Glob(filepath.Join("testdata", pattern))
			if err != nil || len(paths) == 0 {
				f.Fatalf("no cases for %s: %v", pattern, err)
			}
			for _, path := range paths {
				text, err := os.ReadFile(path)
				if err != nil {
					f.Fatal(err)
				}
				if len(text) < 4096 {
					add(i, text)
				}
			}
		}
	}
}

// FuzzParse checks that reading never panics and that what it returns is in
// order.
func FuzzParse(f *testing.F) {
	seedTexts(f, func(format int, text []byte) { f.Add(format == 1, text) })
	f.Fuzz(func(t *testing.T, yaml bool, text []byte) {
		format := Properties
		if yaml {
			format = YAML
		}
		file := Parse(format, text)
		lines := len(splitLines(text)) + 1
		if file.Fatal != nil {
			if len(file.Entries)+len(file.Warnings) > 0 {
				t.Error("a fatal file has entries or warnings")
			}
			if file.Fatal.Line < 1 || file.Fatal.Line > lines {
				t.Errorf("line %d of %d", file.Fatal.Line, lines)
			}
		}
		last := 0
		for _, p := range file.Warnings {
			if p.Line < max(1, last) || p.Line > lines {
				t.Errorf("%s after line %d of %d", p, last, lines)
			}
			last = p.Line
			if p.Text == "" || !utf8.ValidString(p.Text) {
				t.Errorf("%s has the text %q", p.Code, p.Text)
			}
		}
		index := -1
		for _, e := range file.Entries {
			if e.Index <= index {
				t.Errorf("entry %d after %d", e.Index, index)
			}
			index = e.Index
		}
		for _, toggle := range file.InForce() {
			if one, ok := file.Lookup(toggle.ListenerID); !ok || cmp.Diff(one, toggle) != "" {
				t.Errorf("Lookup and InForce differ for %q", toggle.ListenerID)
			}
		}
		if diff := Diff(file, file); len(diff) > 0 {
			t.Errorf("a file differs from itself: %v", diff)
		}
	})
}

// fuzzIntent makes an intent of a few bits and a text.
func fuzzIntent(bits uint32, listener, text string) Intent {
	in := Intent{Op: [...]Op{Set, Scale, Resume, Add}[bits&3], ListenerID: listener}
	bit := func(n int) bool { return bits>>n&1 == 1 }
	if bit(2) {
		in.Enable = To(bit(3))
	}
	if bit(4) {
		in.Min = To(int(bits>>5&7) + 1)
	} else if bit(8) {
		in.Min = Null[int]()
	}
	if bit(9) {
		in.Max = To(int(bits>>10&7) + 4)
	} else if bit(13) {
		in.Max = Null[int]()
	}
	set := func(n int, text string) (o Opt[string]) {
		if bit(n) {
			o = To(text)
		} else if bit(n + 1) {
			o = Null[string]()
		}
		return o
	}
	in.Reason = set(14, text)
	in.UpdatedBy = set(16, "oncall")
	in.Queue = set(18, text)
	in.ResumeAt = set(20, "2026-01-02T05:00:00Z")
	in.PauseAt = set(22, "2026-01-02T04:00:00+08:00")
	in.UpdatedAt = set(24, "2026-01-02T03:04:05.5Z")
	return in
}

// applied carries an intent out on what a file says, not on its text.
func applied(t *testing.T, file *File, in Intent) []Entry {
	entries := slices.Clone(file.Entries)
	at := -1
	for i, e := range entries {
		if e.Named && e.ListenerID == in.ListenerID {
			at = i
		}
	}
	if at < 0 {
		index := 0
		if len(entries) > 0 {
			index = entries[len(entries)-1].Index + 1
		}
		at = len(entries)
		entries = append(entries, Entry{Index: index, Named: true, Toggle: Toggle{ListenerID: in.ListenerID}})
	}
	changes, err := in.changes()
	if err != nil {
		t.Fatalf("an intent that was carried out is bad: %v", err)
	}
	e := &entries[at]
	for _, c := range changes {
		b, n, text := c.want.bool, int(c.want.int), c.want.text
		switch c.field {
		case fieldEnable:
			e.Enable = opt(&b, c.null)
		case fieldMin:
			e.Min = opt(&n, c.null)
		case fieldMax:
			e.Max = opt(&n, c.null)
		case fieldReason:
			e.Reason = opt(&text, c.null)
		case fieldUpdatedBy:
			e.UpdatedBy = opt(&text, c.null)
		case fieldUpdatedAt:
			e.UpdatedAt = opt(&text, c.null)
		case fieldPauseAt:
			e.PauseAt = opt(&text, c.null)
		case fieldResumeAt:
			e.ResumeAt = opt(&text, c.null)
		case fieldQueue:
			e.Queue = opt(&text, c.null)
		}
	}
	return entries
}

func opt[T any](v *T, null bool) *T {
	if null {
		return nil
	}
	return v
}

// plain makes entries comparable: without lines, and without line ends at the
// end of a text.
func plain(entries []Entry) []Entry {
	out := slices.Clone(entries)
	trim := func(s *string) *string {
		if s == nil {
			return nil
		}
		text := strings.TrimRight(*s, "\n")
		return &text
	}
	for i := range out {
		out[i].Line = 0
		out[i].Reason, out[i].UpdatedBy, out[i].Queue = trim(out[i].Reason), trim(out[i].UpdatedBy), trim(out[i].Queue)
	}
	return out
}

// FuzzEdit checks that an edit's result reads as the intent wants it and as the
// input did in everything else, that the same intent changes nothing the second
// time, and that lines stay that need not change.
func FuzzEdit(f *testing.F) {
	seeds := []uint32{0x4, 0x2, 0x3, 0xc, 0x214, 0x3f5454, 0x3f5457, 0x2aa8a100, 0x155554}
	seedTexts(f, func(format int, text []byte) {
		for _, bits := range seeds {
			f.Add(format == 1, text, bits, "SettleConsumer", " late: #1\n")
			f.Add(format == 1, text, bits, "RefundConsumer", "= yes")
		}
	})
	f.Fuzz(checkEdit)
}

// checkEdit makes one edit and checks its result.
func checkEdit(t *testing.T, yaml bool, text []byte, bits uint32, listener, reason string) {
	t.Helper()
	format := Properties
	if yaml {
		format = YAML
	}
	if !utf8.ValidString(listener) || !utf8.ValidString(reason) {
		t.Skip("JSON and screens hand over valid texts only")
	}
	in := fuzzIntent(bits, listener, reason)
	before := bytes.Clone(text)
	got, err := Edit(format, text, bits>>31 == 1, in)
	if !bytes.Equal(text, before) {
		t.Fatal("the input was changed")
	}
	if err != nil {
		var refusal *Refusal
		if !errors.As(err, &refusal) {
			t.Fatalf("not a refusal: %v", err)
		}
		return
	}
	again, err := Edit(format, got, bits>>31 == 1, in)
	if err != nil || !bytes.Equal(again, got) {
		t.Fatalf("the same intent again: %v\n%q\n%q\n%q", err, before, got, again)
	}
	if a, b := comments(before), comments(got); !yaml && !slices.Equal(a, b) {
		t.Fatalf("comments %q became %q\n%q\n%q", a, b, before, got)
	}
	file := Parse(format, before)
	after := Parse(format, got)
	if diff := cmp.Diff(plain(applied(t, file, in)), plain(after.Entries)); diff != "" {
		t.Fatalf("want -, got +:\n%s\n%q\n%q", diff, before, got)
	}
	if cmp.Diff(plain(file.Entries), plain(after.Entries)) == "" && len(valuelessKeys(format, before)) == 0 && !bytes.Equal(before, got) {
		t.Fatalf("nothing changes, but\n%q became\n%q", before, got)
	}
}

// valuelessKeys lists known keys that read as absent, or not as what counts:
// null removes them although nothing else changes.
func valuelessKeys(format Format, text []byte) []string {
	var keys []string
	m := read(format, text)
	for _, e := range m.entries {
		for f := fieldEnable; f < fieldCount; f++ {
			if e.fields[f].count > 0 && e.print(f) == nil {
				keys = append(keys, f.String())
			}
		}
	}
	return keys
}

// comments lists the comments and blank lines of a properties file.
func comments(text []byte) []string {
	var list []string
	for _, l := range read(Properties, text).doc.(*properties).lines {
		if !l.pair {
			list = append(list, strings.TrimRight(string(text[l.start:l.content]), "\\"))
		}
	}
	return list
}
