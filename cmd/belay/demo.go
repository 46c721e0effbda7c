package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/belay-mq/belay/cmd/belay/internal/app"
	"github.com/belay-mq/belay/cmd/belay/internal/config"
)

const demoHelp = `One process with everything that belay works with: a Nacos server, an AMQP broker,
a table of Apollo release messages, two applications with nine listeners on five
simulated instances, and publishers. Needs nothing but this binary.

A second terminal can use it too, with the configuration that it writes:

  belay --config DIR/config.yaml list

In the dashboard ":outage broker" or ":outage nacos" takes that server down, and
again brings it back. From a second terminal:

  belay demo outage broker --for 20s`

func newDemoCmd(g *globals) *cobra.Command {
	var dir string
	var headless, outages bool
	var speed float64
	cmd := &cobra.Command{
		Use: "demo", Short: "Try belay: everything embedded, in one process", Long: demoHelp, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if speed <= 0 {
				return usageError("--speed must be above 0")
			}
			return g.demo(cmd.Context(), app.DemoConfig{Dir: demoDir(dir), Logger: g.log, Outages: outages, Speed: speed}, headless)
		},
	}
	cmd.PersistentFlags().StringVar(&dir, "dir", "", "`directory` of its data and its config.yaml (default: below the state directory)")
	cmd.Flags().BoolVar(&headless, "headless", false, "no dashboard; run until interrupted")
	cmd.Flags().BoolVar(&outages, "outages", false, "take a server down now and then")
	cmd.Flags().Float64Var(&speed, "speed", 1, "multiply the rates of all publishers")
	cmd.AddCommand(newOutageCmd(g, &dir))
	return cmd
}

func newOutageCmd(g *globals, dir *string) *cobra.Command {
	var lasts time.Duration
	cmd := &cobra.Command{
		Use: "outage broker|nacos", Short: "Take a server of the running demo down for a while",
		Args: cobra.ExactArgs(1), ValidArgs: []string{"broker", "nacos"},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := app.OrderOutage(cmd.Context(), demoDir(*dir), args[0], lasts); err != nil {
				return err
			}
			_, err := fmt.Fprintf(g.out, "%s is down for %s\n", args[0], lasts)
			return err
		},
	}
	cmd.Flags().DurationVar(&lasts, "for", 20*time.Second, "how long it stays down")
	return cmd
}

func demoDir(dir string) string {
	if dir != "" {
		return dir
	}
	return filepath.Join(config.StateDir(), "demo")
}

// demo runs the simulation, and the dashboard on it.
func (g *globals) demo(ctx context.Context, cfg app.DemoConfig, headless bool) error {
	if !headless && g.logFile == "" {
		if err := g.openLog(filepath.Join(cfg.Dir, "belay.log")); err != nil {
			return err
		}
		cfg.Logger = g.log
	}
	cfg.Timed = g.options()
	cfg.Timed.StateDir, cfg.Timed.Operator = cfg.Dir, "belay"
	d, err := app.StartDemo(ctx, cfg)
	if err != nil {
		return err
	}
	simulation, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- d.Run(simulation) }()

	if headless {
		fmt.Fprintf(g.out, "the demo runs; its configuration is %s\n\n  belay --config %s list\n\n", d.ConfigPath, d.ConfigPath)
		select {
		case err = <-done: // a part that ended by itself
		case <-ctx.Done():
			err = <-done
		}
		return errors.Join(err, d.Close(context.WithoutCancel(ctx)))
	}
	err = g.dashboard(ctx, d.Context, d.Embedded)
	stop()
	err = errors.Join(err, <-done, d.Close(context.WithoutCancel(ctx)))
	fmt.Fprintf(g.err, "the demo's data and log are in %s\n", cfg.Dir)
	return err
}
