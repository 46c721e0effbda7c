package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// explainCalls makes every command below cmd answer a wrong call with how it is called,
// and groups of commands refuse a word that is none of theirs.
func explainCalls(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		explainCalls(c)
	}
	if !cmd.Runnable() {
		cmd.Args = cobra.NoArgs
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	check := cmd.Args
	if check == nil {
		return
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		switch {
		case err == nil:
			return nil
		case cmd.HasAvailableSubCommands():
			return noCommand(cmd, args[0])
		}
		return usageError("%s; usage: %s", countArgs(err, len(args)), strings.TrimSuffix(cmd.UseLine(), " [flags]"))
	}
}

// countArgs says what is wrong with the number of arguments. Checks of our own say
// themselves what is wrong.
func countArgs(err error, n int) string {
	text := err.Error()
	switch {
	case !strings.Contains(text, "arg(s)") && !strings.HasPrefix(text, "unknown command"):
		return text
	case n == 0:
		return "an argument is missing"
	case n == 1:
		return "1 argument was given"
	}
	return fmt.Sprintf("%d arguments were given", n)
}

// noCommand says that a group has no such command, and which one may be meant.
func noCommand(group *cobra.Command, word string) error {
	group.SuggestionsMinimumDistance = 2
	meant := ""
	if list := group.SuggestionsFor(word); len(list) > 0 {
		meant = "did you mean " + strings.Join(list, " or ") + "? "
	}
	topic := strings.TrimPrefix(group.CommandPath(), "belay")
	return usageError("unknown command %q for %q; %s'belay help%s' lists them", word, group.CommandPath(), meant, topic)
}

// explainTopics makes 'belay help' refuse what it has nothing about.
func explainTopics(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, err := root.Find([]string{"help"})
	if err != nil || help == root {
		return
	}
	help.Args = func(_ *cobra.Command, args []string) error {
		if c, rest, _ := root.Find(args); len(rest) > 0 {
			return noCommand(c, rest[0])
		}
		return nil
	}
}
