package toggle

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// formats are the two halves of testdata.
var formats = []struct {
	format      Format
	parse, edit string
	ext         string
}{
	{Properties, "parse", "edit", ".properties"},
	{YAML, "yaml-parse", "yaml-edit", ".yml"},
}

type wantEntry struct {
	Index      int     `json:"index"`
	ListenerID *string `json:"listenerId"`
	Enable     *bool   `json:"enable"`
	Min        *int    `json:"min"`
	Max        *int    `json:"max"`
	Reason     *string `json:"reason"`
	UpdatedBy  *string `json:"updatedBy"`
	UpdatedAt  *string `json:"updatedAt"`
	PauseAt    *string `json:"pauseAt"`
	ResumeAt   *string `json:"resumeAt"`
	Queue      *string `json:"queue"`
}

type wantProblem struct {
	Code Code `json:"code"`
	Line int  `json:"line"`
}

type wantFile struct {
	Entries  []wantEntry   `json:"entries"`
	Warnings []wantProblem `json:"warnings"`
	Fatal    *wantProblem  `json:"fatal"`
}

func asWanted(f *File) wantFile {
	w := wantFile{Entries: []wantEntry{}, Warnings: []wantProblem{}}
	for _, e := range f.Entries {
		out := wantEntry{e.Index, nil, e.Enable, e.Min, e.Max, e.Reason, e.UpdatedBy, e.UpdatedAt, e.PauseAt, e.ResumeAt, e.Queue}
		if e.Named {
			out.ListenerID = &e.ListenerID
		}
		w.Entries = append(w.Entries, out)
	}
	for _, p := range f.Warnings {
		w.Warnings = append(w.Warnings, wantProblem{p.Code, p.Line})
	}
	if f.Fatal != nil {
		w.Fatal = &wantProblem{f.Fatal.Code, f.Fatal.Line}
	}
	return w
}

func readFile(t testing.TB, parts ...string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(append([]string{"testdata"}, parts...)...))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func readJSON(t testing.TB, into any, parts ...string) {
	t.Helper()
	if err := json.Unmarshal(readFile(t, parts...), into); err != nil {
		t.Fatal(err)
	}
}

// inputs lists the cases of one folder.
func inputs(t testing.TB, folder, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join("testdata", folder, pattern))
	if err != nil || len(found) == 0 {
		t.Fatalf("no cases in %s: %v", folder, err)
	}
	return found
}

func TestParseCases(t *testing.T) {
	for _, f := range formats {
		for _, path := range inputs(t, f.parse, "*"+f.ext) {
			name := strings.TrimSuffix(filepath.Base(path), f.ext)
			t.Run(f.parse+"/"+name, func(t *testing.T) {
				var want wantFile
				readJSON(t, &want, f.parse, name+".expected.json")
				got := asWanted(Parse(f.format, readFile(t, f.parse, name+f.ext)))
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("want -, got +:\n%s", diff)
				}
			})
		}
	}
}

func TestEditCases(t *testing.T) {
	for _, f := range formats {
		for _, path := range inputs(t, f.edit, "*") {
			name := filepath.Base(path)
			t.Run(f.edit+"/"+name, func(t *testing.T) {
				before := readFile(t, f.edit, name, "before"+f.ext)
				var intent Intent
				readJSON(t, &intent, f.edit, name, "intent.json")
				got, err := Edit(f.format, before, false, intent)
				if _, stat := os.Stat(filepath.Join(path, "refused.json")); stat == nil {
					checkRefused(t, err, f.edit, name)
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if after := readFile(t, f.edit, name, "after"+f.ext); !bytes.Equal(got, after) {
					t.Fatalf("want -, got +:\n%s", cmp.Diff(string(after), string(got)))
				}
				again, err := Edit(f.format, got, false, intent)
				if err != nil || !bytes.Equal(again, got) {
					t.Errorf("the same intent again: %v, want +, got -:\n%s", err, cmp.Diff(string(again), string(got)))
				}
			})
		}
	}
}

func checkRefused(t *testing.T, err error, folder, name string) {
	t.Helper()
	var want struct {
		Code Code `json:"code"`
		Line *int `json:"line"`
	}
	readJSON(t, &want, folder, name, "refused.json")
	line := 0
	if want.Line != nil {
		line = *want.Line
	}
	var refusal *Refusal
	if !errors.As(err, &refusal) {
		t.Fatalf("got %v, want a refusal", err)
	}
	if refusal.Code != want.Code || refusal.Line != line {
		t.Errorf("got %s in line %d (%v), want %s in line %d", refusal.Code, refusal.Line, err, want.Code, line)
	}
}
