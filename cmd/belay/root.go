package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belay-mq/belay/cmd/belay/internal/app"
	"github.com/belay-mq/belay/cmd/belay/internal/config"
	"github.com/belay-mq/belay/consumers/release"
	"github.com/belay-mq/belay/registry/fleet"
)

// Exit statuses; see 'belay help'.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitConflict    = 3
	exitUnconfirmed = 4
	exitUnreachable = 5
	exitInterrupted = 130
)

// exitError carries an exit status. An empty text prints nothing.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func usageError(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// streams are the process's, or a test's.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// globals are the flags that every command has, and what follows from them.
type globals struct {
	streams
	config   string
	context  string
	app      string
	readOnly bool
	logFile  string
	logLevel string
	timeout  time.Duration
	noColor  bool
	ascii    bool

	log     *slog.Logger
	level   slog.Level        // of logLevel
	keys    map[string]string // of the dashboard, rebound
	began   bool              // the command itself was reached
	closers []func() error
}

// run executes the command line and returns the exit status.
func run(ctx context.Context, args []string, s streams) int {
	g := &globals{streams: s, log: slog.New(slog.DiscardHandler)}
	root := newRoot(g)
	root.SetArgs(args)
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	err := root.ExecuteContext(ctx)
	for _, c := range g.closers {
		_ = c()
	}
	return g.exit(ctx, err)
}

// exit says what went wrong, and with which status the process ends.
func (g *globals) exit(ctx context.Context, err error) int {
	if err == nil {
		return exitOK
	}
	code := statusOf(err)
	if !g.began && code == exitFailed {
		code = exitUsage
	}
	if ctx.Err() != nil {
		code = exitInterrupted
		if errors.Is(err, context.Canceled) || err.Error() == "" {
			fmt.Fprintln(g.err, "belay: interrupted")
			return code
		}
	}
	if text := err.Error(); text != "" {
		if release.NoTable(err) {
			text += "; 'belay release init' creates it"
		}
		fmt.Fprintln(g.err, "belay: "+text)
	}
	return code
}

func statusOf(err error) int {
	var e *exitError
	var c *config.Error
	var u *app.UnreachableError
	switch {
	case errors.As(err, &e):
		return e.code
	case errors.As(err, &u):
		return exitUnreachable
	case errors.As(err, &c), errors.Is(err, config.ErrNoConfig), errors.Is(err, app.ErrEmbedded), errors.Is(err, app.ErrAbsent):
		return exitUsage
	}
	return exitFailed
}

const rootHelp = `Belay shows the RabbitMQ consumers of your services, pauses, resumes and scales
them through their toggle file in Nacos, and shows what changed: toggles,
consumers, and Apollo release messages with their merge and delay status.

Without a command it opens the dashboard on the current context. Try it without
any server:

  belay demo

Exit status: 0 done and confirmed, 1 failed, 2 usage or configuration, 3 conflict,
4 written but not confirmed in time, 5 a server could not be reached, 130 interrupted.`

func newRoot(g *globals) *cobra.Command {
	root := &cobra.Command{
		Use:           "belay",
		Short:         "See, pause, resume and scale RabbitMQ consumers through Nacos",
		Long:          rootHelp,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return g.openDashboard(cmd.Context()) },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return g.prepare(cmd)
		},
	}
	f := root.PersistentFlags()
	f.StringVar(&g.config, "config", "", "configuration `file` (default $BELAY_CONFIG, else the user's configuration directory)")
	f.StringVar(&g.context, "context", "", "`name` of the context to use instead of the current one")
	f.StringVar(&g.app, "app", "", "only this `application`")
	f.BoolVar(&g.readOnly, "read-only", false, "refuse every write")
	f.StringVar(&g.logFile, "log-file", "", "write a log to this `file`")
	f.StringVar(&g.logLevel, "log-level", "info", "debug, info, warn or error")
	f.DurationVar(&g.timeout, "timeout", 10*time.Second, "how long to wait for a server")
	f.BoolVar(&g.noColor, "no-color", false, "no colours")
	f.BoolVar(&g.ascii, "ascii", false, "only ASCII signs")
	_ = root.RegisterFlagCompletionFunc("context", g.completeContexts)
	_ = root.RegisterFlagCompletionFunc("app", g.completeApps)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError("%w; see 'belay help %s'", err, strings.TrimPrefix(cmd.CommandPath(), "belay "))
	})
	root.SetHelpCommandGroupID("other")
	root.SetCompletionCommandGroupID("other")
	root.AddGroup(
		&cobra.Group{ID: "see", Title: "See:"}, &cobra.Group{ID: "change", Title: "Change:"},
		&cobra.Group{ID: "file", Title: "Toggle files:"}, &cobra.Group{ID: "host", Title: "Host listeners:"},
		&cobra.Group{ID: "other", Title: "Configuration and help:"},
	)
	add := func(group string, cmds ...*cobra.Command) {
		for _, c := range cmds {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add("see", newListCmd(g), newGetCmd(g), newReportCmd(g), newFeedCmd(g), newInstancesCmd(g), newDoctorCmd(g))
	add("change", newPauseCmd(g), newResumeCmd(g), newScaleCmd(g), newEditCmd(g), newRollbackCmd(g), newReleaseCmd(g))
	add("file", newFileCmd(g), newHistoryCmd(g), newDiffCmd(g))
	add("host", newDemoCmd(g), newRunCmd(g))
	add("other", newInitCmd(g), newContextsCmd(g), newUseCmd(g), newConfigCmd(g), newVersionCmd(g))
	root.InitDefaultCompletionCmd()
	explainCalls(root)
	explainTopics(root)
	g.noteStart(root)
	return root
}

// noteStart makes every command say that it began, so that what the command line itself
// finds wrong before (arguments, flags that exclude each other) counts as usage.
func (g *globals) noteStart(cmd *cobra.Command) {
	for _, c := range append(cmd.Commands(), cmd) {
		if c != cmd {
			g.noteStart(c)
			continue
		}
		if run := c.RunE; run != nil {
			c.RunE = func(cmd *cobra.Command, args []string) error {
				g.began = true
				return run(cmd, args)
			}
		}
	}
}

// prepare takes flags that were not given from the environment and opens the log.
func (g *globals) prepare(cmd *cobra.Command) error {
	for flag, env := range map[string]string{
		"context": "BELAY_CONTEXT", "app": "BELAY_APP", "read-only": "BELAY_READ_ONLY", "log-file": "BELAY_LOG_FILE",
		"log-level": "BELAY_LOG_LEVEL", "timeout": "BELAY_TIMEOUT", "no-color": "BELAY_NO_COLOR", "ascii": "BELAY_ASCII",
	} {
		v, ok := os.LookupEnv(env)
		if !ok || v == "" || cmd.Flags().Changed(flag) {
			continue
		}
		if err := cmd.Flags().Set(flag, v); err != nil {
			return usageError("%s=%s: %w", env, v, err)
		}
	}
	if g.timeout <= 0 {
		return usageError("--timeout %s: must be above 0", g.timeout)
	}
	if os.Getenv("NO_COLOR") != "" {
		g.noColor = true
	}
	if err := g.level.UnmarshalText([]byte(g.logLevel)); err != nil {
		return usageError("--log-level %s: use debug, info, warn or error", g.logLevel)
	}
	if g.logFile == "" {
		return nil
	}
	return g.openLog(g.logFile)
}

func (g *globals) openLog(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	g.closers = append(g.closers, f.Close)
	g.log = slog.New(slog.NewTextHandler(f, &slog.HandlerOptions{Level: g.level}))
	return nil
}

// loadContext reads the configuration and picks the context.
func (g *globals) loadContext() (*config.File, *config.Context, error) {
	f, err := config.Load(config.Path(g.config))
	if err != nil {
		if errors.Is(err, config.ErrNoConfig) {
			return nil, nil, usageError("%w\n\nTry 'belay demo', which needs no server, or 'belay init', which writes a configuration to fill in", err)
		}
		return nil, nil, err
	}
	for _, w := range f.Warnings {
		fmt.Fprintln(g.err, "belay: warning: "+w)
	}
	c, err := f.Context(g.context)
	if err != nil {
		return nil, nil, &exitError{exitUsage, err}
	}
	return f, c, nil
}

func (g *globals) options() app.Options {
	return app.Options{App: g.app, Logger: g.log, Operator: operator(), ReadOnly: g.readOnly, StateDir: config.StateDir()}
}

// operator is the name under which writes are recorded.
func operator() string {
	if n := os.Getenv("BELAY_OPERATOR"); n != "" {
		return n
	}
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return "belay"
}

// settled opens the context and waits for a first whole picture.
func (g *globals) settled(ctx context.Context) (*app.Backend, func(), error) {
	_, c, err := g.loadContext()
	if err != nil {
		return nil, nil, err
	}
	return g.settledAs(ctx, c, g.options())
}

// settledAs is settled with options of its own.
func (g *globals) settledAs(ctx context.Context, c *config.Context, opts app.Options) (*app.Backend, func(), error) {
	if c.Nacos == nil && c.RabbitMQ == nil {
		return nil, nil, usageError("context %s names neither nacos nor rabbitmq: it has no listeners", c.Name)
	}
	b, err := app.Open(ctx, c, opts)
	if err != nil {
		return nil, nil, err
	}
	end := func() {
		if err := b.Close(context.WithoutCancel(ctx)); err != nil {
			g.log.Debug("close", "error", err)
		}
	}
	wait, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	if err := b.Settle(wait); err != nil {
		end()
		return nil, nil, err
	}
	if opts.App != "" && !known(b.Snapshot(), opts.App) {
		end()
		return nil, nil, usageError("there is no application %q: it has no toggle file in context %s, and no instance of it reports", opts.App, c.Name)
	}
	return b, end, nil
}

// known tells whether an application has a toggle file, a listener or an instance.
func known(s *fleet.Snapshot, name string) bool {
	if a := s.App(name); a != nil && !a.File.Absent {
		return true
	}
	return slices.ContainsFunc(s.Rows, func(r *fleet.Row) bool { return r.ID.App == name }) ||
		slices.ContainsFunc(s.Instances, func(i *fleet.Instance) bool { return i.App == name })
}
