package server_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belay-mq/belay/nacos/server"
)

func TestDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := server.Config{Dir: dir, DumpTick: -1, HistoryLimit: 3}
	s, tg := embedded(t, cfg)
	k, gone := newKey(), newKey().with("tenant", "ns-1")
	for i := range 5 {
		tg.publish(t, k.with("content", fmt.Sprint("a=", i), "type", "properties", "desc", "D", "config_tags", "t1", "src_user", "ann"))
	}
	tg.publish(t, gone.with("content", "x"))
	tg.expect(t, 200, "true", "DELETE", v1Configs, gone)
	tg.expect(t, 200, "true", "POST", "/nacos/v1/console/namespaces", form{"customNamespaceId": "ns-1", "namespaceName": "One"})
	tg.expect(t, 200, "false", "POST", "/nacos/v1/console/namespaces", form{"customNamespaceId": "ns-1", "namespaceName": "One"})
	detail, rows := tg.detail(t, k), historyRows(t, tg, k)
	if len(rows) != 3 {
		t.Errorf("%d versions are kept, want 3", len(rows))
	}
	if _, err := server.Start(t.Context(), cfg); err == nil {
		t.Error("two servers on one directory")
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}

	s, tg = embedded(t, cfg)
	if got := tg.detail(t, k); fmt.Sprint(got) != fmt.Sprint(detail) {
		t.Errorf("after the restart %v, was %v", got, detail)
	}
	if got := historyRows(t, tg, k); fmt.Sprint(got) != fmt.Sprint(rows) {
		t.Errorf("after the restart %v, was %v", got, rows)
	}
	if got := historyOps(t, tg, gone); got != "DI" {
		t.Errorf("rows of the removed config: %s", got)
	}
	tg.expect(t, 404, "…", "GET", v1Configs, gone)
	tg.expect(t, 200, `…"namespace":"ns-1","namespaceShowName":"One"…`, "GET", "/nacos/v1/console/namespaces", nil)
	tg.publish(t, k.with("content", "a=5")) // numbers go on where they were
	if got := historyRows(t, tg, k); fmt.Sprint(got[0]["id"]) == fmt.Sprint(rows[0]["id"]) || fmt.Sprint(got[1]) != fmt.Sprint(rows[0]) {
		t.Errorf("%v, before %v", got, rows)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A crash between the version and its change, or in the middle of a file, must not leave a version that never was.
func TestDirectoryAfterCrash(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := server.Config{Dir: dir, DumpTick: -1}
	s, tg := embedded(t, cfg)
	k := newKey()
	tg.publish(t, k.with("content", "one"))
	before := find(t, dir, "config.json")
	old, err := os.ReadFile(before)
	if err != nil {
		t.Fatal(err)
	}
	tg.publish(t, k.with("content", "two"))
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(before, old, 0o600); err != nil { // the second change was not made
		t.Fatal(err)
	}
	if err := os.WriteFile(before+".partial", []byte(`{"half`), 0o600); err != nil {
		t.Fatal(err)
	}
	s, tg = embedded(t, cfg)
	tg.expect(t, 200, "one", "GET", v1Configs, k)
	if got := historyOps(t, tg, k); got != "I" {
		t.Errorf("rows %s, newest first", got)
	}
	tg.publish(t, k.with("content", "three"))
	if got := historyOps(t, tg, k); got != "UI" {
		t.Errorf("rows %s, newest first", got)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(before, []byte(`{"damaged`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Start(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), before) {
		t.Errorf("a damaged file must be named: %v", err)
	}
}

// A directory that cannot be written to refuses the change instead of forgetting it later.
func TestDirectoryFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, tg := embedded(t, server.Config{Dir: dir, DumpTick: -1})
	k := newKey()
	tg.publish(t, k.with("content", "one"))
	folder := filepath.Dir(find(t, dir, "config.json"))
	if err := os.Mkdir(filepath.Join(folder, "config.json.partial"), 0o700); err != nil { // root may write anywhere but here
		t.Fatal(err)
	}
	tg.expect(t, 500, "caused: store config…", "POST", v1Configs, k.with("content", "two"))
	tg.expect(t, 200, "one", "GET", v1Configs, k)
	if got := historyOps(t, tg, k); got != "I" {
		t.Errorf("rows %s, newest first", got)
	}
	if err := os.Remove(filepath.Join(folder, "config.json.partial")); err != nil {
		t.Fatal(err)
	}
	tg.publish(t, k.with("content", "two"))
	if got := historyOps(t, tg, k); got != "UI" {
		t.Errorf("rows %s, newest first", got)
	}
}

func find(t testing.TB, dir, name string) string {
	t.Helper()
	found := ""
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == name {
			found = path
		}
		return err
	})
	if err != nil || found == "" {
		t.Fatal(found, err)
	}
	return found
}
