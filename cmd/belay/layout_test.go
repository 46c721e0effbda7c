package main

import (
	"go/build"
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/belay-mq/belay/"

// layers are the packages from left to right; a package may import only what stands
// further right. Packages of one layer do not import each other.
var layers = [][]string{
	{"cmd"},
	{"tui"},
	{"registry/control"},
	{"registry/feed"},
	{"registry/fleet"},
	{"registry"},
	{"registry/toggle", "registry/change", "registry/presence"},
	{"consumers/observe", "consumers/release", "nacos"},
	{"consumers"},
}

// embedded are the servers, which only these packages (and tests) may start.
var (
	embedded     = []string{"consumers/broker", "nacos/server"}
	mayEmbed     = []string{"cmd/belay/internal/app", "cmd/belay/internal/proof"}
	screenOnly   = []string{"github.com/charmbracelet/bubbletea", "github.com/charmbracelet/lipgloss", "github.com/charmbracelet/bubbles"}
	independents = map[string][]string{ // packages that must not import the others in their list
		"nacos":             {"consumers"},
		"consumers/release": {"consumers"},
	}
	pure    = []string{"registry/toggle", "registry/change"}
	noInput = []string{"net", "net/http", "os", "database/sql", "syscall"}
)

// layerOf returns the layer of a package; the longest name that fits decides. Packages
// inside another (tui/table) belong to its layer.
func layerOf(pkg string) (layer int, owner string) {
	layer = -1
	for i, names := range layers {
		for _, n := range names {
			if (pkg == n || strings.HasPrefix(pkg, n+"/")) && len(n) > len(owner) {
				layer, owner = i, n
			}
		}
	}
	return layer, owner
}

func TestImportsFollowTheArrows(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}}{{"\t"}}{{join .Imports " "}}`, module+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) < 10 {
		t.Fatalf("go list found only %d packages", len(lines))
	}
	for _, line := range lines {
		path, imports, _ := strings.Cut(line, "\t")
		pkg := strings.TrimPrefix(path, module)
		for _, imp := range strings.Fields(imports) {
			if reason := forbidden(pkg, imp); reason != "" {
				t.Errorf("%s imports %s: %s", pkg, imp, reason)
			}
		}
	}
}

// forbidden says why pkg must not import imp, "" when it may.
func forbidden(pkg, imp string) string {
	for _, s := range screenOnly {
		if (imp == s || strings.HasPrefix(imp, s+"/")) && !under(pkg, []string{"tui"}) {
			return "only tui draws screens"
		}
	}
	if under(pkg, pure) && contains(noInput, imp) {
		return "the package is pure: no input or output"
	}
	to, ours := strings.CutPrefix(imp, module)
	if !ours {
		return ""
	}
	if under(to, embedded) {
		if under(pkg, mayEmbed) || under(pkg, embedded) {
			return ""
		}
		return "only the wiring and tests may know that a server is embedded"
	}
	if under(pkg, embedded) {
		return "embedded servers stand alone"
	}
	from, owner := layerOf(pkg)
	target, targetOwner := layerOf(to)
	switch {
	case from < 0 || target < 0:
		return "a package outside the layout"
	case owner == targetOwner:
		return ""
	case target <= from:
		return "the arrows point the other way"
	case contains(independents[owner], targetOwner):
		return "it stands on its own"
	}
	return ""
}

func under(pkg string, names []string) bool {
	for _, n := range names {
		if pkg == n || strings.HasPrefix(pkg, n+"/") {
			return true
		}
	}
	return false
}

func contains(list []string, s string) bool {
	for _, v := range list {
		if v == s {
			return true
		}
	}
	return false
}

// The rule itself is tested, so that the test above can fail.
func TestForbiddenImports(t *testing.T) {
	for _, c := range []struct {
		pkg, imp string
		bad      bool
	}{
		{"registry", module + "consumers", false},
		{"consumers", module + "registry", true},
		{"nacos", module + "registry/toggle", true},
		{"nacos", module + "consumers", true},
		{"consumers/release", module + "consumers", true},
		{"consumers/observe", module + "consumers", false},
		{"registry/toggle", module + "registry/change", true},
		{"registry/toggle", "net/http", true},
		{"registry/fleet", module + "registry/feed", true},
		{"tui/table", module + "registry/fleet", false},
		{"tui/table", module + "tui/cell", false},
		{"cmd/belay", module + "tui", false},
		{"cmd/belay", "github.com/charmbracelet/lipgloss", true},
		{"registry", module + "nacos/server", true},
		{"cmd/belay/internal/app", module + "nacos/server", false},
		{"nacos/server", module + "nacos", true},
	} {
		if got := forbidden(c.pkg, c.imp); (got != "") != c.bad {
			t.Errorf("%s imports %s: %q, want forbidden=%t", c.pkg, c.imp, got, c.bad)
		}
	}
}

func TestEveryPackageHasADoc(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.Dir}}{{"\t"}}{{.ImportPath}}`, module+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		dir, path, _ := strings.Cut(strings.TrimSpace(line), "\t")
		p, err := build.ImportDir(dir, 0)
		if err != nil {
			if _, none := err.(*build.NoGoError); none {
				continue // only tests
			}
			t.Errorf("%s: %v", path, err)
			continue
		}
		if len(p.Doc) < 20 {
			t.Errorf("%s has no package comment", path)
		}
	}
}
