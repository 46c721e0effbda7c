package main

import (
	"math"
	"strconv"
	"time"

	"github.com/belay-mq/belay/consumers/observe"
	"github.com/belay-mq/belay/registry/fleet"
)

// The JSON shapes of 'list' and 'get' are stable.
type listRow struct {
	App           string         `json:"app"`
	ID            string         `json:"id"`
	State         string         `json:"state"`
	Desired       listDesired    `json:"desired"`
	Actual        listActual     `json:"actual"`
	Instances     listInstances  `json:"instances"`
	Queues        []listQueue    `json:"queues"`
	ErrRate       *float64       `json:"errRate"`
	RedeliveredPc *float64       `json:"redeliveredPct"`
	Since         *time.Time     `json:"since"`
	By            string         `json:"by"`
	Reason        string         `json:"reason"`
	ResumeAt      *time.Time     `json:"resumeAt"`
	Stale         *listStaleness `json:"stale"`
	Note          string         `json:"note"`
}

type listDesired struct {
	Enable  *bool      `json:"enable"`
	Min     *int       `json:"min"`
	Max     *int       `json:"max"`
	PauseAt *time.Time `json:"pauseAt"`
}

type listActual struct {
	Consumers int `json:"consumers"`
	InFlight  int `json:"inFlight"`
	Min       int `json:"min"`
	Max       int `json:"max"`
}

type listInstances struct {
	Total     int `json:"total"`
	Applied   int `json:"applied"`
	Reporting int `json:"reporting"`
}

type listQueue struct {
	Name      string   `json:"name"`
	Ready     *int     `json:"ready"`
	Unacked   *int     `json:"unacked"`
	Consumers *int     `json:"consumers"`
	InRate    *float64 `json:"inRate"`
	OutRate   *float64 `json:"outRate"`
	AgeMs     *int64   `json:"ageMs"`
	Source    string   `json:"source"`
}

// listStaleness is null while everything that the state rests on is fresh.
type listStaleness struct {
	Since  time.Time `json:"since"`
	Source string    `json:"source"`
}

func listRowOf(r *fleet.Row) listRow {
	out := listRow{
		App: r.ID.App, ID: r.ID.Listener, State: string(r.State),
		Desired:   listDesired{Enable: r.Desired.Enable, Min: r.Desired.Min, Max: r.Desired.Max, PauseAt: utc(r.Desired.PauseAt)},
		Actual:    listActual{Consumers: r.Actual.Consumers, InFlight: r.Actual.InFlight, Min: r.Actual.Min, Max: r.Actual.Max},
		Instances: listInstances{Total: r.Inst.Total, Applied: r.Inst.Applied, Reporting: r.Inst.Reporting},
		Queues:    []listQueue{}, ErrRate: rate(r.ErrRate), RedeliveredPc: rate(r.Redeliv),
		Since: utc(r.Since), By: r.By, Reason: r.Reason, ResumeAt: utc(r.Desired.ResumeAt), Note: r.Note,
	}
	if !r.Stale.IsZero() {
		out.Stale = &listStaleness{Since: r.Stale.UTC(), Source: r.StaleSrc}
	}
	for _, q := range r.Queues {
		lq := listQueue{
			Name: q.ID.Name, Ready: count(q.Ready), Unacked: count(q.Unacked), Consumers: count(q.Consumers),
			InRate: rate(q.InRate), OutRate: rate(q.OutRate), Source: string(q.Ready.Source),
		}
		if q.Ready.Known {
			age := time.Since(q.Ready.At).Milliseconds()
			lq.AgeMs = &age
		}
		if len(r.Queues) == 1 {
			// A listener on one queue: its own rates are the queue's.
			if lq.InRate == nil {
				lq.InRate = rate(r.InRate)
			}
			if lq.OutRate == nil {
				lq.OutRate = rate(r.OutRate)
			}
			if lq.Unacked == nil {
				lq.Unacked = count(r.Unacked)
			}
		}
		out.Queues = append(out.Queues, lq)
	}
	return out
}

func utc(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Round(0)
	return &t
}

func count(n observe.Number) *int {
	if !n.Known {
		return nil
	}
	v := int(math.Round(n.Value))
	return &v
}

// rate rounds to a tenth.
func rate(n observe.Number) *float64 {
	if !n.Known {
		return nil
	}
	v := math.Round(n.Value*10) / 10
	return &v
}

func whole(n observe.Number) string {
	if !n.Known {
		return "-"
	}
	return strconv.FormatInt(int64(math.Round(n.Value)), 10)
}
