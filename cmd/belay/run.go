package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"

	"github.com/belay-mq/belay/cmd/belay/internal/app"
	"github.com/belay-mq/belay/cmd/belay/internal/config"
	"github.com/belay-mq/belay/consumers"
)

const runHelp = `Hosts the listeners that a YAML file declares, under the toggle file of their
application: they start, stop and scale as it says, and report to every dashboard.

  app: settle-service
  listeners:
    - id: SettleConsumer
      queues: [settle]
      concurrency: 2..8
      handler: log                  # a line in the log for each message
    - id: RefundConsumer
      queues: [refund]
      handler: discard              # ack and forget
    - id: PayoutConsumer
      queues: [payout]
      requeue-on-error: true
      handler: {exec: {command: [./payout, --stdin], timeout: 20s}}
    - id: LedgerConsumer
      queues: [ledger]
      handler: {http: {url: "http://127.0.0.1:8080/ledger"}}

A listener may also have prefetch, manual-startup, exclusive, force-stop, attempts and
shutdown-timeout.

A command acks a message with exit status 0, an address with 2xx. Anything else, and a command
that takes too long, rejects it, or with requeue-on-error gives it back to its queue. It always
goes back where nobody has judged it: a command that cannot be started or is killed, an address
that does not answer or answers 3xx, 401, 403, 404, 405, 407, 408, 429, 502, 503 or 504. A consumer
whose messages go back one after the other waits between them, up to ten seconds.

Queues with a single active consumer want force-stop: RabbitMQ 3.10 can crash one whose consumer
is cancelled while messages wait. Ends on SIGINT or SIGTERM after a clean stop.`

type runFlags struct {
	file, metrics, dir, instance string
	tui                          bool
}

func newRunCmd(g *globals) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use: "run -f LISTENERS", Short: "Host listeners under toggle control", Long: runHelp, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return g.runListeners(cmd.Context(), f) },
	}
	cmd.Flags().StringVarP(&f.file, "file", "f", "", "`file` that declares the listeners")
	cmd.Flags().StringVar(&f.metrics, "metrics", "", "serve Prometheus metrics on this `address`, as 127.0.0.1:9419")
	cmd.Flags().StringVar(&f.dir, "dir", "", "`directory` of embedded servers (default: below the state directory)")
	cmd.Flags().StringVar(&f.instance, "instance", "", "`name` of this instance (default host:pid:random)")
	cmd.Flags().BoolVar(&f.tui, "tui", false, "open the dashboard as well")
	_ = cmd.MarkFlagRequired("file")
	return cmd
}

func (g *globals) runListeners(ctx context.Context, f runFlags) error {
	declared, err := app.LoadListeners(f.file)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	_, c, err := g.loadContext()
	if err != nil {
		return err
	}
	if c.Nacos == nil || c.RabbitMQ == nil {
		return usageError("context %s needs nacos and rabbitmq to host listeners", c.Name)
	}
	log := g.log
	if g.logFile == "" && !f.tui {
		log = slog.New(slog.NewTextHandler(g.err, nil))
	}
	var servers *app.Embedded
	if app.HasEmbedded(c) {
		if servers, err = g.startEmbedded(ctx, c, f.dir, log); err != nil {
			return err
		}
		defer servers.Close(context.WithoutCancel(ctx))
		c = servers.Context
	}
	var metrics net.Listener
	if f.metrics != "" {
		var lc net.ListenConfig
		if metrics, err = lc.Listen(ctx, "tcp", f.metrics); err != nil {
			return usageError("--metrics %s: %w", f.metrics, err)
		}
		defer metrics.Close() // where the host cannot be made
	}
	host, err := app.NewHost(ctx, declared.Host(c, app.HostConfig{
		Instance: f.instance, Logger: log, StateDir: config.StateDir(), Timed: g.timed(c, declared.App),
	}))
	if err != nil {
		return &exitError{exitUsage, err}
	}
	if metrics != nil {
		stop, err := serveMetrics(ctx, metrics, host.Containers(), log)
		if err != nil {
			return err
		}
		defer stop()
	}
	if !f.tui {
		return host.Run(ctx)
	}
	return runBeside(ctx, host, func(ctx context.Context) error { return g.dashboard(ctx, c, servers) })
}

// runBeside hosts the listeners while the dashboard is open. Listeners that cannot be
// hosted any more close it: it would show a picture of something that does not run.
func runBeside(ctx context.Context, host interface{ Run(context.Context) error }, dashboard func(context.Context) error) error {
	hosting, stop := context.WithCancel(ctx)
	defer stop()
	open, closeIt := context.WithCancel(ctx)
	defer closeIt()
	done := make(chan error, 1)
	go func() {
		err := host.Run(hosting)
		if err != nil {
			defer closeIt() // after the reason is there
		}
		done <- err
	}()
	err := dashboard(open)
	select {
	case failed := <-done:
		if failed != nil {
			return fmt.Errorf("the listeners are not hosted any more: %w", failed)
		}
		return err
	default:
	}
	stop()
	return errors.Join(err, <-done)
}

// startEmbedded starts the embedded servers of a context and says where their
// configuration is.
func (g *globals) startEmbedded(ctx context.Context, c *config.Context, dir string, log *slog.Logger) (*app.Embedded, error) {
	if dir == "" {
		dir = filepath.Join(config.StateDir(), "embedded", c.Name)
	}
	servers, err := app.StartEmbedded(ctx, c, dir, log)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(g.err, "embedded servers run; other processes use: belay --config %s\n", servers.ConfigPath)
	return servers, nil
}

const metricsTimeout = 5 * time.Second

// serveMetrics serves the containers' metrics until stop is called.
func serveMetrics(ctx context.Context, l net.Listener, containers []*consumers.Container, log *slog.Logger) (stop func(), err error) {
	reg := prometheus.NewRegistry()
	if err := reg.Register(consumers.NewCollector(func() []*consumers.Container { return containers })); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	s := &http.Server{Handler: mux, ReadHeaderTimeout: metricsTimeout}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics", "error", err)
		}
	}()
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), metricsTimeout)
		defer cancel()
		_ = s.Shutdown(ctx)
		<-ended
	}, nil
}
