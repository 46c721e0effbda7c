package fleet

import (
	"math"
	"time"

	"github.com/belay-mq/belay/consumers/observe"
)

// window is how far back rates look; reports come every 2 s.
const window = 7 * time.Second

// rates derives the speeds of one listener from the counters of its instances and,
// where the management API does not tell, from the length of its queues.
type rates struct {
	hosts map[string]*series
	ready series
}

// series holds the newest readings of some counters, oldest first.
type series struct {
	points []point
}

type point struct {
	at                                        time.Time
	handled, failed, requeued, redelivered, n float64
}

// add takes a reading of something that may rise and fall.
func (s *series) add(p point) {
	if k := len(s.points); k > 0 && !p.at.After(s.points[k-1].at) {
		return
	}
	s.points = append(s.points, p)
	for len(s.points) > 2 && p.at.Sub(s.points[0].at) > window {
		s.points = s.points[1:]
	}
}

// count takes a reading of counters: where one fell they began anew.
func (s *series) count(p point) {
	if k := len(s.points); k > 0 {
		last := s.points[k-1]
		if p.at.After(last.at) && (p.handled < last.handled || p.failed < last.failed || p.requeued < last.requeued || p.redelivered < last.redelivered || p.n < last.n) {
			s.points = s.points[:0]
		}
	}
	s.add(p)
}

// span returns the oldest and newest reading, and false while there is no time between.
func (s *series) span() (first, last point, ok bool) {
	if len(s.points) < 2 {
		return point{}, point{}, false
	}
	first, last = s.points[0], s.points[len(s.points)-1]
	return first, last, last.at.Sub(first.at) >= 500*time.Millisecond
}

func (r *rates) add(hosts []hostView, queues []*observe.Queue, now time.Time) {
	if r.hosts == nil {
		r.hosts = make(map[string]*series)
	}
	for _, h := range hosts {
		name := h.seen.Report.Instance
		if h.seen.Lost {
			delete(r.hosts, name)
			continue
		}
		s := r.hosts[name]
		if s == nil {
			s = &series{}
			r.hosts[name] = s
		}
		l := h.report
		s.count(point{at: h.seen.Received, handled: float64(l.Handled), failed: float64(l.Failed), requeued: float64(l.Requeued), redelivered: float64(l.Redelivered), n: float64(l.Handled + l.Failed)})
	}
	for name, s := range r.hosts {
		if k := len(s.points); k == 0 || now.Sub(s.points[k-1].at) > 2*window {
			delete(r.hosts, name)
		}
	}
	var total observe.Number
	for _, q := range queues {
		total = sum(total, q.Ready)
	}
	if total.Known {
		r.ready.add(point{at: total.At, n: total.Value})
	}
}

// fill sets the rates of a row, each with its source and age. The management API says 0
// until it has sampled a queue twice, for up to ten seconds: then what the instances and
// the length of the queues show counts.
func (r *rates) fill(row *Row) {
	for _, q := range row.Queues {
		row.InRate = sum(row.InRate, q.InRate)
		row.OutRate = sum(row.OutRate, q.OutRate)
	}
	var out, bad, dropped, redelivered, n float64
	var at time.Time
	known := false
	for _, s := range r.hosts {
		first, last, ok := s.span()
		if !ok {
			continue
		}
		known = true
		dt := last.at.Sub(first.at).Seconds()
		out += (last.handled - first.handled) / dt
		failed, requeued := last.failed-first.failed, last.requeued-first.requeued
		// A message that failed and went back is in both counters. What went
		// back came from the queue and is in it again: nothing arrived.
		bad += max(failed, requeued) / dt
		dropped += max(failed-requeued, 0) / dt
		redelivered += last.redelivered - first.redelivered
		n += last.n - first.n
		if at.IsZero() || last.at.Before(at) {
			at = last.at
		}
	}
	if !known {
		return
	}
	derived := func(v float64) observe.Number {
		return observe.Number{Value: v, At: at, Source: observe.Presence, Known: true}
	}
	if !row.OutRate.Known || row.OutRate.Value == 0 && out > 0 {
		row.OutRate = derived(out)
	}
	row.ErrRate = derived(bad)
	if n > 0 {
		row.Redeliv = derived(min(100*redelivered/n, 100))
	}
	row.Looping = n >= 5 && redelivered/n > 0.5 && bad > 0
	if first, last, ok := r.ready.span(); ok {
		grows := (last.n - first.n) / last.at.Sub(first.at).Seconds()
		in := max(grows+row.OutRate.Value+dropped, 0)
		if !row.InRate.Known || row.InRate.Value == 0 && in >= 1 && in > clearly*(row.OutRate.Value+math.Abs(grows)) {
			row.InRate = observe.Number{Value: in, At: last.at, Source: observe.Derived, Known: true}
		}
	}
}

// clearly is how much of the traffic the difference of two numbers that were not read
// at the same moment must be, to be more than that.
const clearly = 0.25
