package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belay-mq/belay/cmd/belay/internal/app"
	"github.com/belay-mq/belay/registry/feed"
	"github.com/belay-mq/belay/tui/when"
)

const (
	feedStep  = 100 * time.Millisecond
	feedBatch = 500
)

const feedHelp = `Prints what changes, a line each, until interrupted: release messages with their merge
and delay status, toggles, consumers, instances. Only final states are printed, with
--all also events that still wait in the merge window.

A new process has no past of its own. --since fills it: from the release table, from
Nacos's history, and from other belay processes that keep a feed and answer. What starts
only now is said on standard error.

-o json prints NDJSON, an object a line: {"at","source","key","version","fromVersion",
"status","merged","delayMs","remainingMs","late","listeners":{"ok","failed"},"text"}.`

var feedSources = []feed.Source{feed.Release, feed.Toggle, feed.Consumer, feed.Instance, feed.Broker, feed.Scanner}

type feedFlags struct {
	since, source string
	lasts         time.Duration
	all           bool

	from time.Time // what is older is not printed
}

func newFeedCmd(g *globals) *cobra.Command {
	var f feedFlags
	cmd := &cobra.Command{Use: "feed", Short: "Follow what changes: releases, toggles, consumers, instances", Long: feedHelp, Args: cobra.NoArgs}
	cmd.Flags().StringVar(&f.since, "since", "", "begin this long ago, or at this `time`: 1h, 14:30, 2006-01-02 14:30")
	cmd.Flags().StringVar(&f.source, "source", "", "only this `source`: release, toggle, consumer, instance, broker or scanner")
	cmd.Flags().DurationVar(&f.lasts, "for", 0, "end this long after the past was read")
	cmd.Flags().BoolVar(&f.all, "all", false, "also what still waits to be merged")
	o := addOutput(cmd, "table", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := o.check(); err != nil {
			return err
		}
		if f.source != "" && !slices.Contains(feedSources, feed.Source(f.source)) {
			return usageError("--source %s: use one of release, toggle, consumer, instance, broker, scanner", f.source)
		}
		return g.feed(cmd.Context(), o, f)
	}
	return cmd
}

func (g *globals) feed(ctx context.Context, o *output, f feedFlags) error {
	since, err := sinceTime(f.since, time.Now())
	if err != nil {
		return usageError("--since: %w", err)
	}
	_, c, err := g.loadContext()
	if err != nil {
		return err
	}
	opts := g.options()
	opts.Feed, opts.FeedSince = true, since
	f.from = since
	b, err := app.Open(ctx, c, opts)
	if err != nil {
		return err
	}
	defer b.Close(context.WithoutCancel(ctx))
	select {
	case <-b.PastLoaded():
	case <-ctx.Done():
		return nil
	}
	if f.lasts > 0 { // from here: reading the past takes its own time
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.lasts)
		defer cancel()
	}
	if f.since == "" {
		fmt.Fprintf(g.err, "toggles, consumers, instances and releases from %s on; --since shows what was before\n", time.Now().Format("15:04:05"))
	} else {
		fmt.Fprintf(g.err, "releases and toggles since %s; consumers and instances as far as other belay processes know, else from now on\n", since.Format("2006-01-02 15:04:05"))
	}
	return g.follows(ctx, b, o, f)
}

// sinceTime reads how far back: a length of time, a time of day that has passed, or a
// date and time.
func sinceTime(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return now, nil
	}
	if d, err := when.Parse(s, now); err == nil && !strings.Contains(s, ":") {
		return now.Add(-d.Sub(now)), nil
	}
	for _, layout := range []string{"15:04", "15:04:05"} {
		if c, err := time.ParseInLocation(layout, s, now.Location()); err == nil {
			t := time.Date(now.Year(), now.Month(), now.Day(), c.Hour(), c.Minute(), c.Second(), 0, now.Location())
			if t.After(now) {
				t = t.AddDate(0, 0, -1)
			}
			return t, nil
		}
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04", "2006-01-02T15:04", "2006-01-02 15:04:05"} {
		if t, err := time.ParseInLocation(layout, s, now.Location()); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time; write 15m, 1h, 14:30 or 2006-01-02 14:30", s)
}

// follows prints lines as they come until ctx ends, then those that are there.
func (g *globals) follows(ctx context.Context, b *app.Backend, o *output, f feedFlags) error {
	step := time.NewTicker(feedStep)
	defer step.Stop()
	var after uint64
	waiting := make(map[string]bool)
	for {
		lines, dropped := b.Feed(after, feedBatch)
		if dropped > 0 {
			fmt.Fprintf(g.err, "%d lines were lost: they came faster than they were printed\n", dropped)
		}
		for _, l := range lines {
			after = l.Seq
			if err := g.printLine(o, f, l); err != nil {
				return err
			}
		}
		if len(lines) == feedBatch {
			continue
		}
		if f.all {
			if err := g.printWaiting(b, o, f, waiting); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-step.C:
		}
	}
}

// printWaiting prints what waits now, each state of a key once.
func (g *globals) printWaiting(b *app.Backend, o *output, f feedFlags, seen map[string]bool) error {
	now := make(map[string]bool)
	for _, l := range b.Pending() {
		id := fmt.Sprint(l.Source, l.Key, l.Version, l.Status, l.Merged)
		now[id] = true
		if seen[id] {
			continue
		}
		seen[id] = true
		if err := g.printLine(o, f, l); err != nil {
			return err
		}
	}
	for id := range seen {
		if !now[id] {
			delete(seen, id)
		}
	}
	return nil
}

func (g *globals) printLine(o *output, f feedFlags, l feed.Line) error {
	if l.At.Before(f.from) || f.source != "" && string(l.Source) != f.source {
		return nil
	}
	if o.format == "json" {
		_, err := fmt.Fprintf(g.out, "%s\n", feed.Encode(l))
		return err
	}
	return writeFeedText(g.out, l)
}

func writeFeedText(w io.Writer, l feed.Line) error {
	version := l.Version
	if l.FromVersion != "" && l.FromVersion != l.Version {
		version = l.FromVersion + "→" + l.Version
	}
	status := strings.ReplaceAll(string(l.Status), "-", " ")
	if l.Merged > 0 {
		status = fmt.Sprintf("%s ×%d", status, l.Merged+1)
	}
	if l.Late {
		status += " late"
	}
	if l.Delay > 0 {
		status += fmt.Sprintf(" +%d ms", l.Delay.Milliseconds())
	}
	if l.Status == feed.Waiting {
		status += fmt.Sprintf(" %d ms", l.Remaining.Milliseconds())
	}
	if l.OK+l.Failed > 0 {
		status += fmt.Sprintf(", listeners ok %d, failed %d", l.OK, l.Failed)
	}
	line := fmt.Sprintf("%s  %-8s  %-40s  %-14s  %s", l.At.Local().Format("15:04:05.000"), l.Source, l.Key, version, status)
	if l.Text != "" {
		line += "  " + l.Text
	}
	_, err := fmt.Fprintln(w, printable(strings.TrimRight(line, " ")))
	return err
}
