package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

var readmeCommand = regexp.MustCompile("(?:^    |`|cmd/)belay ([^`\n#|]*)")

// Every command that the README shows is one, with flags that it has.
func TestReadmeShowsCommandsThatExist(t *testing.T) {
	data, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	root := newRoot(&globals{})
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	n := 0
	for line := range strings.Lines(string(data)) {
		for _, m := range readmeCommand.FindAllStringSubmatch(line, -1) {
			n++
			checkReadme(t, root, strings.Fields(m[1]))
		}
	}
	if n < 4 {
		t.Fatalf("the README shows only %d commands", n)
	}
}

func checkReadme(t *testing.T, root *cobra.Command, words []string) {
	t.Helper()
	cmd, _, err := root.Find(words)
	if err != nil {
		t.Errorf("belay %s: %v", strings.Join(words, " "), err)
		return
	}
	if cmd == root && !strings.HasPrefix(words[0], "-") {
		t.Errorf("belay %s: there is no such command", strings.Join(words, " "))
	}
	for _, w := range words {
		name, long := strings.CutPrefix(strings.TrimRight(w, "],"), "--")
		name, _, _ = strings.Cut(name, "=")
		if long && cmd.Flags().Lookup(name) == nil && cmd.InheritedFlags().Lookup(name) == nil {
			t.Errorf("belay %s: there is no flag --%s", strings.Join(words, " "), name)
		}
	}
}

// Every command says what it does, belongs to a group, and writes its texts alike.
func TestEveryCommandIsDescribed(t *testing.T) {
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: the short text %q is missing or ends with a full stop", cmd.CommandPath(), cmd.Short)
		}
		if cmd.HasParent() && !cmd.Parent().HasParent() && cmd.GroupID == "" {
			t.Errorf("%s belongs to no group of the help", cmd.CommandPath())
		}
		for _, c := range cmd.Commands() {
			walk(c)
		}
	}
	walk(newRoot(&globals{}))
}
