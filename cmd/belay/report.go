package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belay-mq/belay/cmd/belay/internal/app"
	"github.com/belay-mq/belay/registry/feed"
	"github.com/belay-mq/belay/registry/fleet"
	"github.com/belay-mq/belay/tui/report"
)

const (
	// graphWait is how long the past of a queue is waited for at most: it comes from the
	// management API, after the first numbers.
	graphWait = 2 * time.Second
	// reportPast is how far back the note tells what happened.
	reportPast = time.Hour
)

const reportHelp = `Writes the incident note of a listener as text, to paste into a ticket: who paused or
changed it, why and when, how deep its queue was before and after, what each instance
confirms, and what happened to it. Every number has its source and its age.

It is the note that Y copies in the dashboard. The depth before the change is known where
the context has the management API.

  belay report settle-service/RefundConsumer`

func newReportCmd(g *globals) *cobra.Command {
	var since string
	cmd := &cobra.Command{
		Use: "report APP/ID", Short: "Write the incident note of a listener", Long: reportHelp,
		Args: cobra.ExactArgs(1), ValidArgsFunction: g.completeIDs,
	}
	cmd.Flags().StringVar(&since, "since", "", "tell what happened from this long ago, or this `time`, on (default 1h)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		from := time.Now().Add(-reportPast)
		if since != "" {
			var err error
			if from, err = sinceTime(since, time.Now()); err != nil {
				return usageError("--since: %w", err)
			}
		}
		return g.incidentNote(cmd.Context(), args[0], from)
	}
	return cmd
}

func (g *globals) incidentNote(ctx context.Context, id string, since time.Time) error {
	_, c, err := g.loadContext()
	if err != nil {
		return err
	}
	opts := g.options()
	opts.Feed, opts.FeedSince = true, since
	b, end, err := g.settledAs(ctx, c, opts)
	if err != nil {
		return err
	}
	defer end()
	rows, err := pick(b.Snapshot().Rows, []string{id}, true)
	if err != nil {
		return err
	}
	if len(rows) > 1 {
		names := make([]string, 0, len(rows))
		for _, r := range rows {
			names = append(names, r.ID.String())
		}
		return usageError("a note is about one listener; %q is %s", id, strings.Join(names, ", "))
	}
	if c.RabbitMQ != nil && c.RabbitMQ.Management != "" {
		awaitGraph(ctx, b, rows[0].ID)
	}
	lines, err := pastLines(ctx, b, g.timeout, since)
	if err != nil {
		return err
	}
	note := report.Text(report.Input{Feed: lines, ID: rows[0].ID, Label: c.Label, Now: time.Now(), Snapshot: b.Snapshot()})
	_, err = fmt.Fprint(g.out, printable(note))
	return err
}

// awaitGraph waits a moment for samples of the queues from before now.
func awaitGraph(ctx context.Context, b *app.Backend, id fleet.ID) {
	ctx, cancel := context.WithTimeout(ctx, graphWait)
	defer cancel()
	began := time.Now()
	step := time.NewTicker(followStep)
	defer step.Stop()
	for {
		there := true
		if r := b.Snapshot().Row(id); r != nil {
			for _, q := range r.Queues {
				there = there && (q.Missing || len(q.History) > 0 && q.History[0].At.Before(began.Add(-graphWait)))
			}
		}
		if there {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-step.C:
		}
	}
}

// pastLines are the lines of the feed once its past is loaded, oldest first.
func pastLines(ctx context.Context, b *app.Backend, within time.Duration, since time.Time) ([]*feed.Line, error) {
	wait, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	select {
	case <-b.PastLoaded():
	case <-wait.Done(): // the note then says less, which is better than none
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	var out []*feed.Line
	var after uint64
	for {
		lines, _ := b.Feed(after, feedBatch)
		for _, l := range lines {
			after = l.Seq
			if !l.At.Before(since) {
				out = append(out, &l)
			}
		}
		if len(lines) < feedBatch {
			return out, nil
		}
	}
}
