package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/belay-mq/belay/registry/fleet"
)

// instanceInfo is one process in the output of 'belay instances'; the shape is stable.
type instanceInfo struct {
	App       string     `json:"app"`
	Instance  string     `json:"instance"`
	Host      string     `json:"host"`
	Started   *time.Time `json:"started"`
	AgeMs     int64      `json:"ageMs"`
	Lost      bool       `json:"lost"`
	CanWrite  bool       `json:"canWrite"`
	Listeners int        `json:"listeners"`
	MD5       string     `json:"md5"`
	AppliedAt *time.Time `json:"appliedAt"`
	// Source is "presence", or "nacos" for a client that listens in Nacos, which may be one of the former.
	Source string `json:"source"`
}

const instancesHelp = `Every process that reports over presence, with the version of the toggle file that it
has applied; then the clients that listen in Nacos, by address (services without presence,
and the instances above once more), with the md5 that they hold, which proves that they
fetched it, not that they applied it.

JSON: [{"app","instance","host","started","ageMs","lost","canWrite","listeners","md5",
"appliedAt","source"}], source "presence" or "nacos".`

func newInstancesCmd(g *globals) *cobra.Command {
	cmd := &cobra.Command{Use: "instances", Short: "List the processes that host listeners", Long: instancesHelp, Args: cobra.NoArgs}
	o := addOutput(cmd, "table", "json", "yaml", "name")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := o.check(); err != nil {
			return err
		}
		b, end, err := g.settled(cmd.Context())
		if err != nil {
			return err
		}
		defer end()
		for _, a := range b.Snapshot().Apps {
			if a.WatchErr != "" {
				fmt.Fprintf(g.err, "belay: warning: who listens to %s in Nacos is not known, what is listed is old: %s\n", printable(a.Name), printable(a.WatchErr))
			}
		}
		list := instancesOf(b.Snapshot())
		if o.format == "name" {
			for _, i := range list {
				fmt.Fprintln(g.out, printable(i.Instance))
			}
			return nil
		}
		if done, err := o.structured(g.out, list); done {
			return err
		}
		var rows [][]string
		for _, i := range list {
			state, listeners, age := "reporting", fmt.Sprint(i.Listeners), fleet.Short(time.Duration(i.AgeMs)*time.Millisecond)
			switch {
			case i.Source == "nacos":
				state, listeners, age = "listens in Nacos", "-", "-" // Nacos does not tell
			case i.Lost:
				state = "lost"
			}
			rows = append(rows, []string{i.App, i.Instance, i.Host, state, listeners, fmt.Sprintf("%.8s", i.MD5), age})
		}
		return printTable(g.out, []string{"APP", "INSTANCE", "HOST", "STATE", "LISTENERS", "FILE", "AGE"}, map[string]bool{"LISTENERS": true, "AGE": true}, rows)
	}
	return cmd
}

func instancesOf(s *fleet.Snapshot) []instanceInfo {
	list := []instanceInfo{}
	for _, i := range s.Instances {
		list = append(list, instanceInfo{
			App: i.App, Instance: i.ID, Host: i.Host, Started: utc(i.Started), AgeMs: time.Since(i.At).Milliseconds(), Lost: i.Lost,
			CanWrite: i.CanWrite, Listeners: i.Listeners, MD5: i.FileMD5, AppliedAt: utc(i.AppliedAt), Source: "presence",
		})
	}
	for _, a := range s.Apps {
		for _, w := range a.Watchers {
			list = append(list, instanceInfo{App: a.Name, Instance: w.Address, Host: w.Address, MD5: w.MD5, Source: "nacos"})
		}
	}
	return list
}
