package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belay-mq/belay/cmd/belay/internal/config"
)

// completeTimeout bounds what the shell waits for at a tab.
const completeTimeout = 2 * time.Second

// completeIDs completes APP/ID from the running context.
func (g *globals) completeIDs(cmd *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
	defer cancel()
	g.timeout = completeTimeout
	b, end, err := g.settled(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer end()
	var out []string
	for _, r := range b.Snapshot().Rows {
		for _, name := range []string{r.ID.String(), r.ID.Listener} {
			if strings.HasPrefix(name, toComplete) {
				out = append(out, name)
				break
			}
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// completeContexts completes the names of contexts.
func (g *globals) completeContexts(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	f, err := config.Load(config.Path(g.config))
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return f.Names(), cobra.ShellCompDirectiveNoFileComp
}

// completeApps completes the applications that the context names.
func (g *globals) completeApps(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	f, err := config.Load(config.Path(g.config))
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	c, err := f.Context(g.context)
	if err != nil || c.Nacos == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for _, a := range c.Nacos.Applications {
		out = append(out, a.Name)
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
