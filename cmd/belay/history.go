package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belay-mq/belay/cmd/belay/internal/app"
	"github.com/belay-mq/belay/registry/control"
	"github.com/belay-mq/belay/registry/toggle"
)

// fileVersion is one version in the output of 'belay history'; the shape is stable.
type fileVersion struct {
	Version string       `json:"version"`
	At      *time.Time   `json:"at"`
	By      string       `json:"by"`
	From    string       `json:"from"`
	Changes []fileChange `json:"changes"`
	MD5     string       `json:"md5"`
	Error   string       `json:"error,omitempty"`
}

type fileChange struct {
	ID     string `json:"id"`
	Field  string `json:"field"`
	Before string `json:"before"`
	After  string `json:"after"`
}

const historyHelp = `The versions of an application's toggle file, newest first: who wrote it, when, from
which address, and what it changed. An ID shows only the versions that changed that
listener.

JSON: [{"version","at","by","from","changes":[{"id","field","before","after"}],"md5"}],
and "error" where a version is not known or nothing of it can be read: it changed nothing.`

func newHistoryCmd(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use: "history [APP | APP/ID]", Short: "Show who changed a toggle file, and what", Long: historyHelp,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: g.completeApps,
	}
	o := addOutput(cmd, "table", "json", "yaml", "name")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.check(); err != nil {
			return err
		}
		b, listener, versions, end, err := g.versions(cmd.Context(), args)
		if err != nil {
			return err
		}
		defer end()
		if listener != "" {
			heard := slices.ContainsFunc(versions, func(v control.Version) bool { return changed(v, listener) })
			if _, err := pick(b.Snapshot().Rows, args, true); err != nil && !heard {
				return err
			}
		}
		list := []fileVersion{}
		var rows [][]string
		for _, v := range versions {
			if listener != "" && !changed(v, listener) {
				continue
			}
			list = append(list, versionOf(v))
			rows = append(rows, []string{v.ID, v.At.Local().Format("2006-01-02 15:04:05"), v.By, v.From, changesText(v)})
			if o.format == "name" {
				fmt.Fprintln(g.out, v.ID)
			}
		}
		if o.format == "name" {
			return nil
		}
		if done, err := o.structured(g.out, list); done {
			return err
		}
		return printTable(g.out, []string{"VERSION", "AT", "BY", "FROM", "CHANGES"}, nil, rows)
	}
	return cmd
}

func changed(v control.Version, listener string) bool {
	for _, c := range v.Changes {
		if c.ListenerID == listener {
			return true
		}
	}
	return false
}

func versionOf(v control.Version) fileVersion {
	out := fileVersion{Version: v.ID, At: utc(v.At), By: v.By, From: v.From, MD5: v.MD5, Changes: []fileChange{}}
	switch {
	case v.Unreadable != "":
		out.Error = v.Unreadable
	case !v.Known:
		out.Error = "the content could not be read"
	}
	for _, c := range v.Changes {
		out.Changes = append(out.Changes, fileChange{c.ListenerID, c.Field, c.Before, c.After})
	}
	return out
}

// changesText leaves out who and when: both have columns of their own.
func changesText(v control.Version) string {
	var texts []string
	for _, c := range v.Changes {
		if c.Field != "updatedBy" && c.Field != "updatedAt" {
			texts = append(texts, c.String())
		}
	}
	switch {
	case !v.Known:
		return "its content could not be read"
	case v.Unreadable != "":
		return v.Unreadable + "; nothing of it applies"
	case len(v.Changes) == 0:
		return "no listener changed"
	case texts == nil:
		return "only who and when"
	}
	return strings.Join(texts, "; ")
}

// versions reads the history of the one application that is meant.
func (g *globals) versions(ctx context.Context, args []string) (b *app.Backend, listener string, versions []control.Version, end func(), err error) {
	b, end, err = g.settled(ctx)
	if err != nil {
		return nil, "", nil, nil, err
	}
	name := ""
	if len(args) > 0 {
		name, listener, _ = strings.Cut(args[0], "/")
	}
	if name, err = g.oneApp(b, name); err == nil {
		call, cancel := context.WithTimeout(ctx, g.timeout)
		defer cancel()
		versions, err = b.History(call, name)
	}
	if err != nil {
		end()
		return nil, "", nil, nil, err
	}
	return b, listener, versions, end, nil
}

// oneApp is the application that is meant: the named one, else the only one.
func (g *globals) oneApp(b *app.Backend, name string) (string, error) {
	if name == "" {
		name = g.app
	}
	var names []string
	for _, a := range b.Snapshot().Apps {
		if a.Name == name {
			return name, nil
		}
		names = append(names, a.Name)
	}
	switch {
	case name != "":
		return "", usageError("there is no application %q; there are %s", name, strings.Join(names, ", "))
	case len(names) == 1:
		return names[0], nil
	}
	return "", usageError("name the application: %s", strings.Join(names, ", "))
}

func newDiffCmd(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use: "diff APP [VERSION [VERSION]]", Short: "Compare two versions of a toggle file", Args: cobra.RangeArgs(1, 3),
		Long: `Compares two versions of an application's toggle file, older first. Without versions
the newest one with the one before it; with one version that one with the newest.
'belay history' lists them.

JSON: {"from","to","changes":[{"id","field","before","after"}],"diff"}.`,
		ValidArgsFunction: g.completeApps,
	}
	o := addOutput(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.check(); err != nil {
			return err
		}
		b, _, versions, end, err := g.versions(cmd.Context(), args[:1])
		if err != nil {
			return err
		}
		defer end()
		from, to, err := twoVersions(versions, args[1:])
		if err != nil {
			return err
		}
		name, _, _ := strings.Cut(args[0], "/")
		format := toggle.FormatOf(b.Snapshot().App(name).Key.DataID)
		return g.showDiff(o, format, from, to)
	}
	return cmd
}

// twoVersions picks what is compared from a history that is newest first.
func twoVersions(versions []control.Version, ids []string) (from, to control.Version, err error) {
	find := func(id string) (control.Version, error) {
		for _, v := range versions {
			if v.ID == id {
				return v, nil
			}
		}
		return control.Version{}, usageError("there is no version %q; 'belay history' lists them", id)
	}
	switch {
	case len(versions) == 0:
		return from, to, usageError("the file has no history")
	case len(ids) == 0:
		to = versions[0]
		if len(versions) > 1 {
			from = versions[1]
		}
		return from, to, nil
	}
	if from, err = find(ids[0]); err != nil {
		return from, to, err
	}
	to = versions[0]
	if len(ids) > 1 {
		to, err = find(ids[1])
	}
	return from, to, err
}

func (g *globals) showDiff(o *output, format toggle.Format, from, to control.Version) error {
	for _, v := range []control.Version{from, to} {
		switch {
		case v.ID != "" && !v.Known:
			return fmt.Errorf("compare versions: the content of %s could not be read", v.ID)
		case v.Unreadable != "":
			fmt.Fprintln(g.err, printable("belay: warning: version "+v.ID+" "+v.Unreadable+"; only its lines are compared"))
		}
	}
	var changes []toggle.Change
	if from.Unreadable == "" && to.Unreadable == "" {
		changes = toggle.Diff(toggle.Parse(format, []byte(from.Text)), toggle.Parse(format, []byte(to.Text)))
	}
	text := toggle.Unified([]byte(from.Text), []byte(to.Text), 3)
	shape := struct {
		From    string       `json:"from"`
		To      string       `json:"to"`
		Changes []fileChange `json:"changes"`
		Diff    string       `json:"diff"`
	}{from.ID, to.ID, versionOf(control.Version{Changes: changes}).Changes, text}
	if done, err := o.structured(g.out, shape); done {
		return err
	}
	for _, c := range changes {
		fmt.Fprintln(g.out, printable("# "+c.String()))
	}
	_, err := fmt.Fprintln(g.out, printable(strings.TrimSuffix(text, "\n")))
	return err
}
