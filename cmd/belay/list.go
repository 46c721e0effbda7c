package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"path"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belay-mq/belay/registry/fleet"
)

const listHelp = `One row per application and listener, as the dashboard shows them. The instances
are asked and have half a second to answer; "reporting" tells how many did.

An ID is APP/ID or a bare listenerId; both may have * and ? in them.`

func newListCmd(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list [ID...]", Aliases: []string{"ls"}, Short: "List listeners with wanted, actual and broker state", Long: listHelp,
		ValidArgsFunction: g.completeIDs,
	}
	o := addOutput(cmd, "table", "json", "yaml", "csv", "name")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return g.list(cmd, o, args, false)
	}
	return cmd
}

func newGetCmd(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use: "get ID...", Short: "Show the named listeners; fails where there are none", Long: listHelp,
		Args: cobra.MinimumNArgs(1), ValidArgsFunction: g.completeIDs,
	}
	o := addOutput(cmd, "table", "json", "yaml", "csv", "name")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return g.list(cmd, o, args, true)
	}
	return cmd
}

func (g *globals) list(cmd *cobra.Command, o *output, ids []string, must bool) error {
	if err := o.check(); err != nil {
		return err
	}
	b, end, err := g.settled(cmd.Context())
	if err != nil {
		return err
	}
	defer end()
	rows := b.Snapshot().Rows
	if len(ids) > 0 {
		rows, err = pick(rows, ids, must)
		if err != nil {
			return err
		}
	}
	return writeRows(g.out, o, rows)
}

func writeRows(w io.Writer, o *output, rows []*fleet.Row) error {
	list := make([]listRow, 0, len(rows))
	for _, r := range rows {
		list = append(list, listRowOf(r))
	}
	if done, err := o.structured(w, list); done {
		return err
	}
	switch o.format {
	case "name":
		for _, r := range rows {
			if _, err := fmt.Fprintln(w, r.ID); err != nil {
				return err
			}
		}
		return nil
	case "csv":
		return writeCSV(w, list)
	}
	return printTable(w, listHeader, listRight, tableRows(rows))
}

var (
	listHeader = []string{"APP", "LISTENER", "STATE", "CONS", "READY", "UNACK", "OUT/s", "ERR/s", "INST", "SINCE", "NOTE"}
	listRight  = map[string]bool{"READY": true, "UNACK": true, "OUT/s": true, "ERR/s": true, "CONS": true, "INST": true, "SINCE": true}
)

func tableRows(rows []*fleet.Row) [][]string {
	var out [][]string
	for _, r := range rows {
		state := strings.ReplaceAll(string(r.State), "-", " ")
		switch r.State {
		case fleet.Pausing, fleet.Resuming, fleet.Scaling, fleet.Starting:
			state += fmt.Sprintf(" %d/%d", r.Done, r.Total)
		case fleet.Paused:
			if !r.Desired.ResumeAt.IsZero() {
				state += " → " + r.Desired.ResumeAt.Local().Format("15:04")
			}
		}
		if !r.Stale.IsZero() {
			state += " (stale)"
		}
		cons := "-"
		if r.Actual.Known {
			cons = fmt.Sprintf("%d/%d", r.Actual.Consumers, r.Actual.Min)
			if r.Actual.Max != r.Actual.Min {
				cons += fmt.Sprintf("-%d", r.Actual.Max)
			}
		}
		age := "-"
		if !r.Since.IsZero() {
			age = fleet.Short(time.Since(r.Since))
		}
		out = append(out, []string{
			r.ID.App, r.ID.Listener, state, cons, whole(r.Ready), whole(r.Unacked), whole(r.OutRate), whole(r.ErrRate),
			fmt.Sprintf("%d/%d", r.Inst.Applied, r.Inst.Total), age, r.Note,
		})
	}
	return out
}

// pick chooses rows by APP/ID or bare ids, with globs. A bare id without a glob that is
// found in two applications is an error that lists both.
func pick(rows []*fleet.Row, ids []string, must bool) ([]*fleet.Row, error) {
	chosen := make(map[fleet.ID]*fleet.Row)
	for _, id := range ids {
		found, err := pickOne(rows, id)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 && (must || !isPattern(id)) {
			return nil, usageError("there is no listener %q; 'belay list' shows them", id)
		}
		for _, r := range found {
			chosen[r.ID] = r
		}
	}
	out := make([]*fleet.Row, 0, len(chosen))
	for _, r := range chosen {
		out = append(out, r)
	}
	sort.Slice(out, func(i, j int) bool {
		return out[i].ID.App < out[j].ID.App || out[i].ID.App == out[j].ID.App && out[i].ID.Listener < out[j].ID.Listener
	})
	return out, nil
}

func isPattern(id string) bool { return strings.ContainsAny(id, "*?[") }

func pickOne(rows []*fleet.Row, id string) ([]*fleet.Row, error) {
	application, listener, qualified := strings.Cut(id, "/")
	if !qualified {
		application, listener = "*", id
	}
	if _, err := path.Match(listener, ""); err != nil {
		return nil, usageError("%q is no pattern: %w", id, err)
	}
	var found []*fleet.Row
	for _, r := range rows {
		a, err := path.Match(application, r.ID.App)
		if err != nil {
			return nil, usageError("%q is no pattern: %w", id, err)
		}
		l, _ := path.Match(listener, r.ID.Listener)
		// An id with a special character in it is still found by itself.
		if (a || application == r.ID.App) && (l || listener == r.ID.Listener) {
			found = append(found, r)
		}
	}
	if !qualified && len(found) > 1 && !isPattern(id) {
		names := make([]string, 0, len(found))
		for _, r := range found {
			names = append(names, r.ID.String())
		}
		return nil, usageError("%q is in several applications: %s; say which", id, strings.Join(names, ", "))
	}
	return found, nil
}

func writeCSV(w io.Writer, rows []listRow) error {
	c := csv.NewWriter(w)
	_ = c.Write([]string{"app", "id", "state", "enable", "min", "max", "consumers", "inFlight", "total", "applied", "reporting", "ready", "unacked", "since", "by", "reason", "note"})
	for _, r := range rows {
		var ready, unacked string
		if len(r.Queues) == 1 {
			ready, unacked = orEmpty(r.Queues[0].Ready), orEmpty(r.Queues[0].Unacked)
		}
		enable := ""
		if r.Desired.Enable != nil {
			enable = strconv.FormatBool(*r.Desired.Enable)
		}
		since := ""
		if r.Since != nil {
			since = r.Since.Format(time.RFC3339)
		}
		_ = c.Write([]string{
			r.App, r.ID, r.State, enable, orEmpty(r.Desired.Min), orEmpty(r.Desired.Max),
			strconv.Itoa(r.Actual.Consumers), strconv.Itoa(r.Actual.InFlight),
			strconv.Itoa(r.Instances.Total), strconv.Itoa(r.Instances.Applied), strconv.Itoa(r.Instances.Reporting),
			ready, unacked, since, r.By, r.Reason, r.Note,
		})
	}
	c.Flush()
	return c.Error()
}

func orEmpty(n *int) string {
	if n == nil {
		return ""
	}
	return strconv.Itoa(*n)
}
