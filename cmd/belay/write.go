package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belay-mq/belay/cmd/belay/internal/app"
	"github.com/belay-mq/belay/registry/control"
	"github.com/belay-mq/belay/registry/fleet"
	"github.com/belay-mq/belay/tui/when"
)

// writeFlags are those of every command that writes.
type writeFlags struct {
	at, until, reason string
	lasts             time.Duration
	wait              time.Duration
	dryRun, yes       bool
	force             bool

	editedMD5 *string // of the text that an editor was given; nil: no editor was used
}

func (w *writeFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&w.reason, "reason", "", "`why`; some contexts require one")
	f.DurationVar(&w.wait, "wait", 10*time.Second, "how long to follow the write until instances and broker agree; 0: do not")
	f.BoolVar(&w.dryRun, "dry-run", false, "print the diff and write nothing")
	f.BoolVar(&w.yes, "yes", false, "do not ask; needed where there is no terminal")
	f.BoolVar(&w.force, "force", false, "write although the file has a fault that was there before")
}

const writeHelp = `

Writes to the toggle file in Nacos by compare-and-publish, then follows the write until
every instance has applied it and the broker agrees. An ID is APP/ID or a bare
listenerId; both may have * and ? in them. Several listeners of one application are one
publish.

Exit status: 0 done and confirmed, 1 failed, 3 conflict, 4 written but not confirmed in
time (standard error names who is behind), 5 a server could not be reached.`

func newPauseCmd(g *globals) *cobra.Command {
	var w writeFlags
	cmd := &cobra.Command{
		Use: "pause ID...", Short: "Pause listeners on every instance", Args: cobra.MinimumNArgs(1), ValidArgsFunction: g.completeIDs,
		Long: "Pauses listeners on every instance." + writeHelp + `

  belay pause settle-service/RefundConsumer --reason "vendor maintenance" --for 30m
  belay pause 'settle-service/*' --at 22:00 --until 23:00 --reason "vendor maintenance"`,
	}
	w.add(cmd)
	cmd.Flags().StringVar(&w.at, "at", "", "pause at this `time` instead of now: 22:00, 15m, 2006-01-02 22:00")
	cmd.Flags().StringVar(&w.until, "until", "", "resume by itself at this `time`")
	cmd.Flags().DurationVar(&w.lasts, "for", 0, "resume by itself after this long")
	cmd.MarkFlagsMutuallyExclusive("for", "until")
	o := addOutput(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("for") && w.lasts <= 0 { // 0s must not become "until resumed"
			return usageError("--for %s: must be above 0", w.lasts)
		}
		at, until, err := w.times(time.Now())
		if err != nil {
			return err
		}
		return g.write(cmd.Context(), o, w, args, func(id fleet.ID) control.Intent {
			return control.Intent{Op: control.Pause, ID: id, At: at, Until: until}
		})
	}
	return cmd
}

// times resolves --at, --until and --for. The end counts from the planned begin.
func (w *writeFlags) times(now time.Time) (at, until time.Time, err error) {
	if at, err = when.Parse(w.at, now); err != nil {
		return at, until, usageError("--at: %w", err)
	}
	begin := now
	if !at.IsZero() {
		begin = at
	}
	if until, err = when.Parse(w.until, begin); err != nil {
		return at, until, usageError("--until: %w", err)
	}
	if w.lasts > 0 {
		until = begin.Add(w.lasts).Truncate(time.Second)
	}
	return at, until, nil
}

func newResumeCmd(g *globals) *cobra.Command {
	var w writeFlags
	var with string
	cmd := &cobra.Command{
		Use: "resume ID...", Short: "Resume listeners on every instance", Args: cobra.MinimumNArgs(1), ValidArgsFunction: g.completeIDs,
		Long: "Resumes listeners on every instance." + writeHelp,
	}
	w.add(cmd)
	cmd.Flags().StringVar(&with, "with", "", "with this `concurrency`, as 1 or 1..2, to try a fix")
	o := addOutput(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var pair app.Range
		if with != "" {
			var err error
			if pair, err = app.ParseRange(with); err != nil {
				return usageError("--with: %w", err)
			}
		}
		return g.write(cmd.Context(), o, w, args, func(id fleet.ID) control.Intent {
			in := control.Intent{Op: control.Resume, ID: id}
			if with != "" {
				in.Min, in.Max = &pair.Min, &pair.Max
			}
			return in
		})
	}
	return cmd
}

func newScaleCmd(g *globals) *cobra.Command {
	var w writeFlags
	cmd := &cobra.Command{
		Use: "scale ID... MIN[..MAX]", Short: "Set the concurrency of listeners", Args: cobra.MinimumNArgs(2), ValidArgsFunction: g.completeIDs,
		Long: "Sets the concurrency of listeners, per instance." + writeHelp + "\n\n  belay scale settle-service/SettleConsumer 4..16",
	}
	w.add(cmd)
	o := addOutput(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		pair, err := app.ParseRange(args[len(args)-1])
		if err != nil {
			return usageError("%w", err)
		}
		return g.write(cmd.Context(), o, w, args[:len(args)-1], func(id fleet.ID) control.Intent {
			return control.Intent{Op: control.Scale, ID: id, Min: &pair.Min, Max: &pair.Max}
		})
	}
	return cmd
}

// write plans, asks, applies and follows.
func (g *globals) write(ctx context.Context, o *output, w writeFlags, ids []string, intent func(fleet.ID) control.Intent) error {
	if err := o.check(); err != nil {
		return err
	}
	b, end, err := g.settled(ctx)
	if err != nil {
		return err
	}
	defer end()
	rows, err := pick(b.Snapshot().Rows, ids, true)
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return usageError("no listener matches %s", strings.Join(ids, ", "))
	}
	intents := make([]control.Intent, 0, len(rows))
	for _, r := range rows {
		in := intent(r.ID)
		in.Reason, in.Force = w.reason, w.force
		intents = append(intents, in)
	}
	return g.carryOut(ctx, b, o, w, intents)
}

// carryOut is the way of every write: plan, show, confirm, apply, follow.
func (g *globals) carryOut(ctx context.Context, b *app.Backend, o *output, w writeFlags, intents []control.Intent) error {
	call, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	plan, err := b.Plan(call, intents...)
	if err != nil {
		return planError(err)
	}
	if w.editedMD5 != nil && *w.editedMD5 != plan.Files[0].Base.MD5 {
		return errEditedMeanwhile
	}
	if w.dryRun {
		return printDiff(g.out, plan)
	}
	if !unchanged(plan) {
		g.explain(plan)
		if err := refusedPlan(plan); err != nil {
			return err
		}
		if err := g.confirm(plan, w); err != nil {
			return err
		}
	}
	write, cancelWrite := context.WithTimeout(ctx, g.timeout)
	defer cancelWrite()
	ticket, err := b.Apply(write, plan)
	if err != nil {
		return planError(err)
	}
	results := g.follow(ctx, b, plan, ticket, w.wait)
	return g.report(o, results)
}

// planError gives refusals of a plan the status of a usage error.
func planError(err error) error {
	switch {
	case errors.Is(err, control.ErrReadOnly), errors.Is(err, control.ErrReasonRequired), errors.Is(err, control.ErrNoVersion):
		return &exitError{exitUsage, err}
	case errors.Is(err, context.DeadlineExceeded):
		return &app.UnreachableError{Server: "nacos", Err: err}
	}
	return err
}

func unchanged(p *control.Plan) bool {
	for _, f := range p.Files {
		if !f.Unchanged {
			return false
		}
	}
	return true
}

// refusedPlan says why the plan must not be written, nil when it may.
func refusedPlan(p *control.Plan) error {
	for _, f := range p.Files {
		if f.Refusal == nil {
			continue
		}
		hint := ""
		switch {
		case f.Forceable:
			hint = "; the fault was there before: --force writes all the same"
		case f.NeedsEdit():
			hint = "; mend the file first: belay edit " + f.App
		}
		return fmt.Errorf("%s: %w%s", f.App, f.Refusal, hint)
	}
	return nil
}

func printDiff(w io.Writer, p *control.Plan) error {
	for _, f := range p.Files {
		if f.Refusal != nil {
			return refusedPlan(p)
		}
		if f.Unchanged {
			if _, err := fmt.Fprintf(w, "# %s: nothing to change\n", f.Base.Key); err != nil {
				return err
			}
			continue
		}
		if _, err := fmt.Fprintf(w, "--- %s\n+++ %s\n%s\n", f.Base.Key, f.Base.Key, printable(strings.TrimSuffix(f.Diff, "\n"))); err != nil {
			return err
		}
	}
	return nil
}

// explain writes hazards, warnings and what will change to standard error.
func (g *globals) explain(p *control.Plan) {
	for _, h := range p.Hazards {
		fmt.Fprintln(g.err, printable("hazard: "+h.Text))
	}
	for _, w := range p.Warnings { // those of the files are among them
		text := w.Text
		if w.App != "" && !strings.HasPrefix(text, w.App+" ") {
			text = w.App + ": " + text
		}
		fmt.Fprintln(g.err, printable("warning: "+text))
	}
	for _, f := range p.Files {
		for _, c := range f.Changes {
			fmt.Fprintln(g.err, printable(f.App+"/"+c.String()))
		}
	}
}

// result is what became of one listener; the JSON shape is stable.
type result struct {
	App       string          `json:"app"`
	ID        string          `json:"id"`
	Result    string          `json:"result"`
	WrittenMs *int64          `json:"writtenMs"`
	AppliedMs *int64          `json:"appliedMs"`
	BrokerMs  *int64          `json:"brokerMs"`
	Instances resultInstances `json:"instances"`
	MD5       string          `json:"md5"`
	Error     string          `json:"error,omitempty"`

	behind []string
}

type resultInstances struct {
	Total   int `json:"total"`
	Applied int `json:"applied"`
}

// The worst result is the exit status.
var resultStatus = map[string]int{
	"done": exitOK, "unchanged": exitOK, "written": exitOK, "unconfirmed": exitUnconfirmed,
	"superseded": exitFailed, "conflict": exitConflict, "failed": exitFailed,
}

func (g *globals) report(o *output, results []result) error {
	worst := exitOK
	rank := map[int]int{exitOK: 0, exitUnconfirmed: 1, exitConflict: 2, exitFailed: 3}
	var rows [][]string
	for _, r := range results {
		if status := resultStatus[r.Result]; rank[status] > rank[worst] {
			worst = status
		}
		if r.Result == "unconfirmed" {
			behind := "no instance has answered yet"
			if len(r.behind) > 0 {
				behind = strings.Join(r.behind, ", ")
			}
			fmt.Fprintln(g.err, printable(fmt.Sprintf("%s/%s: behind: %s", r.App, r.ID, behind)))
		}
		rows = append(rows, []string{
			r.App, r.ID, r.Result, fmt.Sprintf("%d/%d", r.Instances.Applied, r.Instances.Total),
			ms(r.WrittenMs), ms(r.AppliedMs), ms(r.BrokerMs), r.Error,
		})
	}
	if done, err := o.structured(g.out, results); err != nil {
		return err
	} else if !done {
		header := []string{"APP", "LISTENER", "RESULT", "APPLIED", "WRITTEN", "ALL APPLIED", "BROKER", "ERROR"}
		right := map[string]bool{"APPLIED": true, "WRITTEN": true, "ALL APPLIED": true, "BROKER": true}
		if err := printTable(g.out, header, right, rows); err != nil {
			return err
		}
	}
	if worst != exitOK {
		return &exitError{code: worst}
	}
	return nil
}

func ms(n *int64) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprintf("%d ms", *n)
}

func sortResults(rs []result) {
	sort.Slice(rs, func(i, j int) bool { return rs[i].App < rs[j].App || rs[i].App == rs[j].App && rs[i].ID < rs[j].ID })
}
