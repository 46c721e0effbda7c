package toggle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// javaFile is what Java and Spring make of a file.
type javaFile struct {
	Pairs  *[][2]any `json:"pairs"`
	Spring struct {
		Refuses   string `json:"refuses"`
		Consumers *[]struct {
			ListenerID *string `json:"listenerId"`
			Enable     *bool   `json:"enable"`
			Min        *int    `json:"concurrentConsumers"`
			Max        *int    `json:"maxConcurrentConsumers"`
		} `json:"consumers"`
	} `json:"spring"`
}

// printJava prints a value of java.json as text.
func printJava(t *testing.T, v any) string {
	t.Helper()
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case bool:
		return fmt.Sprint(v)
	case json.Number:
		return v.String()
	}
	t.Fatalf("value %v of an unknown type", v)
	return ""
}

// TestPairsAsJava compares the keys and values of every case, repeats included
// and in their order, with those that java.util.Properties and Spring's YAML
// loader report.
func TestPairsAsJava(t *testing.T) {
	for _, f := range formats {
		for _, path := range inputs(t, f.parse, "*"+f.ext) {
			name := strings.TrimSuffix(filepath.Base(path), f.ext)
			t.Run(f.parse+"/"+name, func(t *testing.T) {
				var java javaFile
				d := json.NewDecoder(bytes.NewReader(readFile(t, f.parse, name+".java.json")))
				d.UseNumber()
				if err := d.Decode(&java); err != nil {
					t.Fatal(err)
				}
				m := read(f.format, readFile(t, f.parse, name+f.ext))
				if java.Pairs == nil {
					if m.fatal == nil {
						t.Fatal("Java throws here, but the file was read")
					}
					return
				}
				if m.fatal != nil {
					t.Fatalf("Java reads this: %v", m.fatal)
				}
				var want, got [][2]string
				for _, p := range *java.Pairs {
					if key := printJava(t, p[0]); key != "" {
						want = append(want, [2]string{key, normal(printJava(t, p[1]))})
					}
				}
				place := make(map[string]int)
				for _, p := range m.pairs {
					if p.item {
						continue
					}
					pair := [2]string{p.name, normal(p.value.text)}
					if at, again := place[p.name]; again && f.format == YAML {
						got[at] = pair // documents are merged key by key
						continue
					}
					place[p.name] = len(got)
					got = append(got, pair)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("Java -, got +:\n%s", diff)
				}
			})
		}
	}
}

// normal prints numbers alike, which JSON may write in another way than Java.
func normal(text string) string {
	var f float64
	if _, err := fmt.Sscan(text, &f); err == nil && !math.IsInf(f, 0) && strings.ContainsAny(text, ".eE") {
		return fmt.Sprint(f)
	}
	return text
}

// TestClassAsSpring checks the class of every case against what Spring Boot did
// with it.
func TestClassAsSpring(t *testing.T) {
	for _, f := range formats {
		for _, path := range inputs(t, f.parse, "*"+f.ext) {
			name := strings.TrimSuffix(filepath.Base(path), f.ext)
			t.Run(f.parse+"/"+name, func(t *testing.T) {
				var java javaFile
				readJSON(t, &java, f.parse, name+".java.json")
				file := Parse(f.format, readFile(t, f.parse, name+f.ext))
				worst := Harmless
				if p := file.Worst(); p != nil {
					worst = p.Class()
				}
				if worst == Poisons {
					return // applied once: what Spring binds says nothing
				}
				switch refuses := worst == Refuses || worst == Drops; {
				case java.Spring.Refuses == "syntax" && worst != Drops:
					t.Errorf("Spring cannot read this, got class %s", worst)
				case (java.Spring.Refuses != "") != refuses:
					t.Errorf("Spring refuses %q, got class %s", java.Spring.Refuses, worst)
				case worst == SeesNothing && len(*java.Spring.Consumers) != 0:
					t.Errorf("Spring sees entries, got class %s", worst)
				}
				if java.Spring.Consumers == nil || worst >= SeesNothing || worst == Resolves {
					return
				}
				compareBound(t, file, java)
			})
		}
	}
}

// compareBound compares the entries with the objects that Spring binds. A listenerId
// that is absent there is null here, too.
func compareBound(t *testing.T, file *File, java javaFile) {
	t.Helper()
	bound := *java.Spring.Consumers
	if len(bound) != len(file.Entries) {
		t.Fatalf("Spring binds %d entries, got %d", len(bound), len(file.Entries))
	}
	for i, e := range file.Entries {
		b := bound[i]
		if (b.ListenerID != nil) != e.Named || e.Named && *b.ListenerID != e.ListenerID {
			t.Errorf("entry %d: listenerId %q", i, e.ListenerID)
		}
		want := Toggle{Enable: b.Enable, Min: b.Min, Max: b.Max}
		got := Toggle{Enable: e.Enable, Min: e.Min, Max: e.Max}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("entry %d: Spring -, got +:\n%s", i, diff)
		}
	}
}
