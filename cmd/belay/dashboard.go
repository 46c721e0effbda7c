package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/belay-mq/belay/cmd/belay/internal/app"
	"github.com/belay-mq/belay/cmd/belay/internal/config"
	"github.com/belay-mq/belay/nacos"
	"github.com/belay-mq/belay/registry"
	"github.com/belay-mq/belay/tui"
)

// openDashboard is 'belay' without a command: the dashboard on the current context.
func (g *globals) openDashboard(ctx context.Context) error {
	file, c, err := g.loadContext()
	if err != nil {
		return err
	}
	g.keys = file.Keys
	if g.logFile == "" {
		g.logFile = filepath.Join(config.StateDir(), "belay.log")
		if err := g.openLog(g.logFile); err != nil {
			return err
		}
	}
	var servers *app.Embedded
	if app.HasEmbedded(c) {
		if servers, err = g.startEmbedded(ctx, c, "", g.log); err != nil {
			return err
		}
		defer servers.Close(context.WithoutCancel(ctx))
		c = servers.Context
	}
	return g.dashboard(ctx, c, servers)
}

// dashboard shows a context until the user quits. servers are those that run in this
// process, nil where there are none.
func (g *globals) dashboard(ctx context.Context, c *config.Context, servers *app.Embedded) error {
	opts := g.options()
	opts.Dashboard = true
	b, err := app.Open(ctx, c, opts)
	if err != nil {
		return err
	}
	cfg := tui.Config{
		ASCII: g.ascii, Backend: b, Keys: g.keys, Label: c.Label, LogPath: g.logFile, Logger: g.log,
		NoColor: g.noColor, ReadOnly: g.readOnly || c.Writes.ReadOnly,
	}
	if servers != nil {
		cfg.Backend = struct {
			*app.Backend
			tui.Outages
		}{b, servers}
	}
	err = tui.Run(ctx, cfg)
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	var sig *tui.SignalError
	if errors.As(err, &sig) {
		err = &exitError{exitInterrupted, err}
	}
	if cerr := b.Close(context.WithoutCancel(ctx)); cerr != nil {
		g.log.Warn("close", "error", fmt.Errorf("close the backend: %w", cerr))
	}
	return err
}

// timed makes what carries out planned windows in a process that hosts an application.
func (g *globals) timed(c *config.Context, name string) func(*nacos.Store) registry.Timed {
	return func(s *nacos.Store) registry.Timed { return app.NewTimed(c, name, s, g.options()) }
}
