package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/belay-mq/belay/cmd/belay/internal/app"
	"github.com/belay-mq/belay/registry/fleet"
)

// checkup is one part in the output of 'belay doctor'; the shape is stable.
type checkup struct {
	Name      string     `json:"name"`
	State     string     `json:"state"` // ok, stale, down, absent
	Text      string     `json:"text"`
	Error     string     `json:"error"`
	Advice    string     `json:"advice"`
	LastOK    *time.Time `json:"lastOk"`
	LatencyMs *int64     `json:"latencyMs"`
}

const doctorHelp = `Checks every connection of the context, shows versions, latency and what is wrong in
words, with advice. The same as the dashboard's Health screen.

JSON: [{"name","state","text","error","advice","lastOk","latencyMs"}], state ok, stale,
down or absent. Exit status 5 where a part is down.`

func newDoctorCmd(g *globals) *cobra.Command {
	cmd := &cobra.Command{Use: "doctor", Short: "Check every connection and permission, with advice", Long: doctorHelp, Args: cobra.NoArgs}
	o := addOutput(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := o.check(); err != nil {
			return err
		}
		_, c, err := g.loadContext()
		if err != nil {
			return err
		}
		opts := g.options()
		// Only a backend with a feed opens the release database.
		opts.Feed, opts.FeedSince = c.Releases != nil, time.Now()
		b, err := app.Open(cmd.Context(), c, opts)
		if err != nil {
			return err
		}
		defer b.Close(context.WithoutCancel(cmd.Context()))
		wait, cancel := context.WithTimeout(cmd.Context(), g.timeout)
		defer cancel()
		return g.showDoctor(o, examine(wait, b))
	}
	return cmd
}

// examine waits for a first whole picture; that it is not whole shows in the parts.
func examine(ctx context.Context, b *app.Backend) []fleet.Health {
	_ = b.Settle(ctx)
	step := time.NewTicker(followStep)
	defer step.Stop()
	for {
		parts := slices.Clone(b.Snapshot().Health)
		i := slices.IndexFunc(parts, func(h fleet.Health) bool {
			return h.Name == "apollo" && h.State == fleet.HealthOK && h.LastOK.IsZero()
		})
		if i < 0 {
			return parts
		}
		select {
		case <-ctx.Done():
			parts[i].State, parts[i].Err = fleet.HealthDown, "it was still starting when the time was over; give --timeout more"
			return parts
		case <-step.C:
		}
	}
}

func (g *globals) showDoctor(o *output, parts []fleet.Health) error {
	list := []checkup{}
	var rows [][]string
	down := false
	for _, h := range parts {
		c := checkup{Name: h.Name, State: string(h.State), Text: h.Text, Error: h.Err, Advice: h.Advice, LastOK: utc(h.LastOK)}
		latency := "-"
		if h.Latency > 0 {
			n := h.Latency.Milliseconds()
			c.LatencyMs = &n
			latency = h.Latency.Round(100 * time.Microsecond).String()
		}
		list = append(list, c)
		down = down || h.State == fleet.HealthDown
		text := h.Text
		if h.Err != "" {
			text += ": " + h.Err
		}
		rows = append(rows, []string{h.Name, string(h.State), latency, text})
		if h.Advice != "" && h.State != fleet.HealthOK {
			rows = append(rows, []string{"", "", "", "→ " + h.Advice})
		}
	}
	done, err := o.structured(g.out, list)
	if !done {
		err = printTable(g.out, []string{"PART", "STATE", "LATENCY", "WHAT"}, map[string]bool{"LATENCY": true}, rows)
	}
	if err != nil {
		return err
	}
	if down {
		return &exitError{exitUnreachable, fmt.Errorf("a part of the context is down")}
	}
	return nil
}
