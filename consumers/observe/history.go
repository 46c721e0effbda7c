package observe

import "time"

const historySpan = time.Hour

// historyStep is the time between two samples: many queues are kept coarser,
// so that all of them together stay small.
func (r *round) historyStep() time.Duration {
	switch n := len(r.queues); {
	case n <= 200:
		return 5 * time.Second
	case n <= 2000:
		return 30 * time.Second
	}
	return 2 * time.Minute
}

// history is the graph of a queue: the hour that the management API gave at
// first sight, and from then on what was read. Slices handed out are never
// changed afterwards.
type history struct{ all []Sample }

// add appends a sample when a step has passed since the last. It may grow into
// the array behind a slice that was handed out, but only past its end.
func (h *history) add(s Sample, step time.Duration) {
	if n := len(h.all); n > 0 && s.At.Sub(h.all[n-1].At) < step {
		return
	}
	first := 0
	for first < len(h.all) && s.At.Sub(h.all[first].At) > historySpan {
		first++
	}
	h.all = append(h.all[first:], s)
}

// fill puts the management API's samples in the place of what is older than
// the newest of them.
func (h *history) fill(hour []Sample) {
	if len(hour) == 0 {
		return
	}
	newest := hour[len(hour)-1].At
	out := append([]Sample(nil), hour...)
	for _, s := range h.all {
		if s.At.After(newest) {
			out = append(out, s)
		}
	}
	h.all = out
}

func (h *history) samples() []Sample { return h.all[:len(h.all):len(h.all)] }

// point is one reading of a queue's length.
type point struct {
	at    time.Time
	ready float64
}

// trend keeps the newest readings of a queue's length, to say how fast it
// grows or drains.
type trend struct{ points []point }

const (
	trendSpan = 30 * time.Second
	trendMin  = 5 * time.Second // no slope from less
)

func (t *trend) add(p point) {
	first := 0
	for first < len(t.points) && p.at.Sub(t.points[first].at) > trendSpan {
		first++
	}
	t.points = append(t.points[first:], p)
}

// slope is the growth in messages a second by least squares. It is not known
// where readings are few, old, or scatter so much that they show none.
func (t *trend) slope(now time.Time) Number {
	n := len(t.points)
	if n < 4 || t.points[n-1].at.Sub(t.points[0].at) < trendMin || now.Sub(t.points[n-1].at) > trendSpan/2 {
		return Number{}
	}
	begin := t.points[0].at
	var sx, sy float64
	for _, p := range t.points {
		sx += p.at.Sub(begin).Seconds()
		sy += p.ready
	}
	mx, my := sx/float64(n), sy/float64(n)
	var sxx, sxy, syy float64
	for _, p := range t.points {
		dx, dy := p.at.Sub(begin).Seconds()-mx, p.ready-my
		sxx += dx * dx
		sxy += dx * dy
		syy += dy * dy
	}
	if sxx == 0 {
		return Number{}
	}
	out := Number{Value: sxy / sxx, At: t.points[n-1].at, Source: Derived, Known: true}
	if syy > 0 && sxy*sxy/(sxx*syy) < 0.5 {
		out.Value = 0 // it goes up and down
	}
	return out
}
