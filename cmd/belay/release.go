package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/belay-mq/belay/cmd/belay/internal/app"
	"github.com/belay-mq/belay/consumers/release"
)

const releaseHelp = `Release messages are rows of Apollo's ReleaseMessage table, each with the key
appId+cluster+namespace. The database is the context's releases.dsn.`

func newReleaseCmd(g *globals) *cobra.Command {
	cmd := &cobra.Command{Use: "release", Short: "Send, follow and clean Apollo release messages", Long: releaseHelp}
	cmd.AddCommand(newReleaseInitCmd(g), newReleaseSendCmd(g), newReleaseTailCmd(g), newReleaseCleanCmd(g))
	return cmd
}

// releaseDB opens the context's database.
func (g *globals) releaseDB(ctx context.Context) (*release.DB, error) {
	_, c, err := g.loadContext()
	if err != nil {
		return nil, err
	}
	switch {
	case c.Releases == nil:
		return nil, fmt.Errorf("context %s: releases: %w", c.Name, app.ErrAbsent)
	case c.Releases.Embedded:
		return nil, fmt.Errorf("context %s: %w", c.Name, app.ErrEmbedded)
	}
	ctx, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	db, err := release.Open(ctx, release.DSN(c.Releases.DSN.Reveal()))
	if err != nil {
		return nil, &app.UnreachableError{Server: "the release database", Err: err}
	}
	return db, nil
}

// mayWrite refuses writes to the release table in a read-only context.
func (g *globals) mayWrite() error {
	_, c, err := g.loadContext()
	if err != nil {
		return err
	}
	if g.readOnly || c.Writes.ReadOnly {
		return usageError("context %s is read-only: nothing is written", c.Name)
	}
	return nil
}

func newReleaseInitCmd(g *globals) *cobra.Command {
	return &cobra.Command{
		Use: "init", Short: "Create the ReleaseMessage table where it is missing", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := g.mayWrite(); err != nil {
				return err
			}
			db, err := g.releaseDB(cmd.Context())
			if err != nil {
				return err
			}
			defer db.Close()
			ctx, cancel := context.WithTimeout(cmd.Context(), g.timeout)
			defer cancel()
			if err := db.Init(ctx); err != nil {
				return err
			}
			_, err = fmt.Fprintf(g.out, "the table ReleaseMessage is there in %s\n", db)
			return err
		},
	}
}

func newReleaseSendCmd(g *globals) *cobra.Command {
	var count int
	var parent string
	cmd := &cobra.Command{
		Use: "send APP CLUSTER NAMESPACE", Short: "Write a release message", Args: cobra.ExactArgs(3),
		Long: releaseHelp + "\n\nWith --count several rows of the key are written in one transaction. Older rows of the\nkey stay until 'belay release clean' or a service of Apollo deletes them.",
	}
	cmd.Flags().IntVar(&count, "count", 1, "`number` of rows, in one transaction")
	cmd.Flags().StringVar(&parent, "parent-cluster", "", "the `cluster` of the parent namespace, for a gray release on a branch")
	o := addOutput(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.check(); err != nil {
			return err
		}
		if count < 1 || count > 10000 {
			return usageError("--count must be 1 to 10000")
		}
		if err := g.mayWrite(); err != nil {
			return err
		}
		key, err := release.NewKey(args[0], release.MessageCluster(args[1], parent), args[2])
		if err != nil {
			return usageError("%w", err)
		}
		db, err := g.releaseDB(cmd.Context())
		if err != nil {
			return err
		}
		defer db.Close()
		ctx, cancel := context.WithTimeout(cmd.Context(), g.timeout)
		defer cancel()
		first, last, err := sendReleases(ctx, db, key.Message(), count)
		if err != nil {
			return err
		}
		shape := struct {
			Key   string `json:"key"`
			First uint64 `json:"first"`
			Last  uint64 `json:"last"`
		}{key.Message(), first, last}
		if done, err := o.structured(g.out, shape); done {
			return err
		}
		_, err = fmt.Fprintf(g.out, "%s sent with id %d\n", printable(key.Message()), last)
		return err
	}
	return cmd
}

// sendReleases writes n rows in one transaction. Older rows of the key stay: a scanner
// that comes later would not see how many were merged.
func sendReleases(ctx context.Context, db *release.DB, message string, n int) (first, last uint64, err error) {
	tx, err := db.SQL().BeginTx(ctx, nil)
	if err != nil {
		return 0, 0, fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // after a commit this does nothing
	sender := release.NewSender(db, nil)
	for i := range n {
		s, err := sender.SendTx(ctx, tx, release.Topic, message)
		if err != nil {
			return 0, 0, err
		}
		if i == 0 {
			first = s.ID
		}
		last = s.ID
	}
	if err := tx.Commit(); err != nil {
		return 0, 0, fmt.Errorf("commit: %w", err)
	}
	return first, last, nil
}

func newReleaseTailCmd(g *globals) *cobra.Command {
	f := feedFlags{source: "release"}
	cmd := &cobra.Command{
		Use: "tail", Short: "Follow release messages with their merge and delay status", Args: cobra.NoArgs,
		Long: releaseHelp + "\n\nThe same as 'belay feed --source release'.",
	}
	cmd.Flags().StringVar(&f.since, "since", "", "begin this long ago, or at this `time`")
	cmd.Flags().DurationVar(&f.lasts, "for", 0, "end after this long")
	cmd.Flags().BoolVar(&f.all, "all", false, "also what still waits to be merged")
	o := addOutput(cmd, "table", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := o.check(); err != nil {
			return err
		}
		return g.feed(cmd.Context(), o, f)
	}
	return cmd
}

func newReleaseCleanCmd(g *globals) *cobra.Command {
	var w writeFlags
	cmd := &cobra.Command{
		Use: "clean [APP CLUSTER NAMESPACE]", Short: "Delete rows that a newer row of the same key has replaced", Args: cobra.MatchAll(cobra.MaximumNArgs(3), cleanArgs),
		Long: releaseHelp + `

Deletes older rows of the named key, or of every key, 100 at a time. The newest row of a
key is never deleted. Asks first, unless --yes.`,
	}
	cmd.Flags().BoolVar(&w.yes, "yes", false, "do not ask; needed where there is no terminal")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := g.mayWrite(); err != nil {
			return err
		}
		db, err := g.releaseDB(cmd.Context())
		if err != nil {
			return err
		}
		defer db.Close()
		return g.clean(cmd.Context(), db, args, w.yes)
	}
	return cmd
}

func cleanArgs(_ *cobra.Command, args []string) error {
	if len(args) != 0 && len(args) != 3 {
		return usageError("give APP CLUSTER NAMESPACE, or nothing for every key")
	}
	return nil
}

func (g *globals) clean(ctx context.Context, db *release.DB, args []string, yes bool) error {
	newest, err := newestRows(ctx, db, g.timeout)
	if err != nil {
		return err
	}
	if len(args) == 3 {
		key, err := release.NewKey(args[0], args[1], args[2])
		if err != nil {
			return usageError("%w", err)
		}
		id, ok := newest[key.Message()]
		if !ok {
			return usageError("there is no row of %s", key.Message())
		}
		newest = map[string]uint64{key.Message(): id}
	}
	if !yes {
		if err := g.ask(fmt.Sprintf("Delete the older rows of %d keys in %s? [y/N] ", len(newest), db), "y"); err != nil {
			return err
		}
	}
	cleaner := release.NewCleaner(db, release.CleanerConfig{Logger: g.log})
	deleted, last := 0, time.Now()
	for message, id := range newest {
		n, err := cleaner.Clean(ctx, release.Sent{ID: id, Message: message})
		deleted += n
		if err != nil {
			return fmt.Errorf("clean %.200q, after %d rows were deleted: %w", message, deleted, err)
		}
		if time.Since(last) > time.Second {
			last = time.Now()
			fmt.Fprintf(g.err, "%d rows deleted so far\n", deleted)
		}
	}
	_, err = fmt.Fprintf(g.out, "%d rows deleted, %d keys keep their newest\n", deleted, len(newest))
	return err
}

// newestRows finds the newest id of every key, by one pass of a scanner over the table.
func newestRows(ctx context.Context, db *release.DB, idle time.Duration) (map[string]uint64, error) {
	newest := make(map[string]uint64)
	scan, stop := context.WithCancel(ctx)
	defer stop()
	var scanner *release.Scanner
	note := release.ListenerFunc(func(_ context.Context, r release.Row) error {
		newest[r.Message] = max(newest[r.Message], r.ID)
		return nil
	})
	scanner, err := release.NewScanner(db, release.ScannerConfig{LookBack: -1, Listeners: []release.Listener{note}})
	if err != nil {
		return nil, err
	}
	done := make(chan error, 1)
	go func() { done <- scanner.Run(scan) }()
	step := time.NewTicker(feedStep)
	defer step.Stop()
	began := time.Now()
	for {
		select {
		case <-ctx.Done():
			stop()
			<-done
			return nil, ctx.Err()
		case <-step.C:
		}
		s := scanner.Status()
		if s.LastError != nil && time.Since(began) > idle {
			stop()
			<-done
			return nil, &app.UnreachableError{Server: "the release database", Err: s.LastError}
		}
		if s.Phase == release.PhaseWaiting {
			stop()
			// Only after Run has returned is the map the caller's.
			return newest, <-done
		}
	}
}
