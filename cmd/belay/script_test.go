package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"belay": main})
}

// The command line without any server: help, configuration, toggle files on disk.
func TestScriptsWithoutServers(t *testing.T) {
	corpus, err := filepath.Abs("../../registry/toggle/testdata")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script/alone", Cmds: scriptCommands, RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			isolateScript(e)
			e.Setenv("CORPUS", corpus)
			return nil
		},
	})
}

// The command line on one demo that all scripts share; each has listeners of its own.
func TestScriptsOnADemo(t *testing.T) {
	configPath := startDemo(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script/demo", Cmds: scriptCommands, RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			isolateScript(e)
			e.Setenv("BELAY_CONFIG", configPath)
			return nil
		},
	})
}

func isolateScript(e *testscript.Env) {
	for name, value := range map[string]string{
		"XDG_CONFIG_HOME": filepath.Join(e.WorkDir, "config"), "XDG_STATE_HOME": filepath.Join(e.WorkDir, "state"),
		"BELAY_OPERATOR": "scripter", "NO_COLOR": "1", "EDITOR": "", "VISUAL": "",
	} {
		e.Setenv(name, value)
	}
}

// scriptCommands are what the scripts have beside testscript's own:
//
//	status N COMMAND …   run it and want this exit status
//	keys PATH NAMES      every object at PATH of the JSON on stdout has exactly these keys
//	                     in this order; PATH is . or names with dots, lists are walked
//	checkcorpus          'belay file check' of every file of the corpus gives its JSON
var scriptCommands = map[string]func(*testscript.TestScript, bool, []string){
	"status": func(ts *testscript.TestScript, neg bool, args []string) {
		want, err := strconv.Atoi(args[0])
		if neg || err != nil {
			ts.Fatalf("usage: status N COMMAND …")
		}
		err = ts.Exec(args[1], args[2:]...)
		got := 0
		if exit, ok := err.(*exec.ExitError); ok {
			got = exit.ExitCode()
		} else {
			ts.Check(err)
		}
		if got != want {
			ts.Fatalf("exit status %d, want %d", got, want)
		}
	},
	"keys": func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) != 2 {
			ts.Fatalf("usage: keys PATH NAMES")
		}
		n := 0
		d := json.NewDecoder(strings.NewReader(ts.ReadFile("stdout")))
		for d.More() {
			var v json.RawMessage
			ts.Check(d.Decode(&v))
			n += checkKeys(ts, v, strings.FieldsFunc(args[0], func(r rune) bool { return r == '.' }), args[1])
		}
		if n == 0 {
			ts.Fatalf("there is nothing at %s", args[0])
		}
	},
	"checkcorpus": checkCorpus,
}

// checkKeys looks at every object at path and returns how many there are.
func checkKeys(ts *testscript.TestScript, v json.RawMessage, path []string, want string) (n int) {
	v = bytes.TrimSpace(v)
	if v[0] == '[' {
		var list []json.RawMessage
		ts.Check(json.Unmarshal(v, &list))
		for _, e := range list {
			n += checkKeys(ts, e, path, want)
		}
		return n
	}
	if len(path) > 0 {
		var m map[string]json.RawMessage
		ts.Check(json.Unmarshal(v, &m))
		if m[path[0]] == nil {
			ts.Fatalf("no %s in %s", path[0], v)
		}
		return checkKeys(ts, m[path[0]], path[1:], want)
	}
	if got := objectKeys(ts, v); got != want {
		ts.Fatalf("keys %s, want %s", got, want)
	}
	return 1
}

// objectKeys are the keys of an object in their order.
func objectKeys(ts *testscript.TestScript, v json.RawMessage) string {
	d := json.NewDecoder(bytes.NewReader(v))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		ts.Fatalf("%s is no object", v)
	}
	var keys []string
	for d.More() {
		k, err := d.Token()
		ts.Check(err)
		keys = append(keys, k.(string))
		var skip json.RawMessage
		ts.Check(d.Decode(&skip))
	}
	return strings.Join(keys, ",")
}

func checkCorpus(ts *testscript.TestScript, _ bool, _ []string) {
	var files []string
	for _, pattern := range []string{"parse/*.properties", "yaml-parse/*.yml"} {
		found, err := filepath.Glob(filepath.Join(ts.Getenv("CORPUS"), pattern))
		ts.Check(err)
		files = append(files, found...)
	}
	if len(files) < 50 {
		ts.Fatalf("only %d files in the corpus", len(files))
	}
	// In this process: a start of the program for each would take most of the time.
	for _, path := range files {
		data, err := os.ReadFile(strings.TrimSuffix(path, filepath.Ext(path)) + ".expected.json")
		ts.Check(err)
		var want, got checkedFile
		ts.Check(json.Unmarshal(data, &want))
		var out, errs bytes.Buffer
		code := run(context.Background(), []string{"file", "check", path, "-o", "json"}, streams{in: strings.NewReader(""), out: &out, err: &errs})
		ts.Check(json.Unmarshal(out.Bytes(), &got))
		if (code == exitFailed) != (want.Fatal != nil) {
			ts.Fatalf("%s: exit %d, fatal %v", path, code, want.Fatal)
		}
		a, b := withoutTexts(want), withoutTexts(got)
		if a != b {
			ts.Fatalf("%s:\n%s\nwant\n%s", path, b, a)
		}
	}
}

// withoutTexts leaves out what is worded freely.
func withoutTexts(f checkedFile) string {
	for i := range f.Warnings {
		f.Warnings[i].Text = ""
	}
	if f.Fatal != nil {
		f.Fatal.Text = ""
	}
	b, err := json.Marshal(f)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
