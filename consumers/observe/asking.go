package observe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// apiState is how the management API fares, for the owner.
type apiState struct {
	usable  bool // it was probed and tells of queues
	probing bool
	due     time.Time // of the next probe
	wait    time.Duration
	major   int
	bare    bool   // statistics are disabled: it tells arguments at most
	limited string // why it tells less than it might
}

const (
	probeEvery = time.Minute      // while it works
	probeFirst = time.Second      // after a failure, doubled up to probeMost
	probeMost  = 30 * time.Second // between attempts
)

// asking carries out questions to the management API until ctx ends.
func (r *round) asking(ctx context.Context) {
	for {
		var j job
		select {
		case <-ctx.Done():
			return
		case j = <-r.toAsk:
		}
		call, cancel := context.WithTimeout(ctx, r.o.cfg.Timeout)
		apply := r.ask(call, j)
		cancel()
		r.report(ctx, apply)
	}
}

// ask makes one call and returns what to do with its answer.
func (r *round) ask(ctx context.Context, j job) func(time.Time) {
	start := time.Now()
	switch {
	case j.probe:
		p, err := r.o.api.probe(ctx)
		took := time.Since(start)
		return func(now time.Time) { r.probed(p, err, took, now) }
	case j.name != "":
		who, err := r.o.api.connection(ctx, j.name)
		return func(time.Time) { r.named(j.name, who, err) }
	}
	f, err := r.o.api.queue(ctx, j.id, j.history, j.major)
	took := time.Since(start)
	return func(now time.Time) { r.answered(j, f, err, took, now) }
}

// probed takes what the API said of itself.
func (r *round) probed(p probe, err error, took time.Duration, now time.Time) {
	s := &r.api
	s.probing = false
	if err != nil {
		r.apiFailed(err, now)
		return
	}
	if !s.usable {
		for _, t := range r.queues {
			t.askDue = now
			t.needsHistory = t.needsHistory || now.Sub(t.askedOK) > time.Minute
		}
	}
	s.usable, s.bare, s.due, s.major, s.limited = true, p.statsDisabled, now.Add(probeEvery), majorOf(p.version), ""
	r.health.Management.Version = p.version
	if p.statsDisabled {
		// Old servers still tell a queue's arguments; newer ones answer 400.
		off := &statusError{http.StatusBadRequest, "statistics are disabled on this node"}
		r.turn("management API", &r.health.Management, now, took, off.Error(), r.o.api.advise(off))
		return
	}
	s.wait = 0
	if !p.seesAll() {
		s.limited = fmt.Sprintf("user %q has no tag monitoring, so whose consumers are whose is not known; rabbitmqctl set_user_tags %s monitoring", r.o.api.user, r.o.api.user)
	}
	r.turn("management API", &r.health.Management, now, took, "", s.limited)
}

// apiFailed notes an error of the API as a whole. Queues are not asked for
// again before a probe has succeeded.
func (r *round) apiFailed(err error, now time.Time) {
	s := &r.api
	s.usable = false
	s.wait = min(max(2*s.wait, probeFirst), probeMost)
	s.due = now.Add(s.wait)
	r.turn("management API", &r.health.Management, now, 0, err.Error(), r.o.api.advise(err))
	for _, j := range r.questions {
		if t := r.queues[j.id]; t != nil {
			t.asking = false
		}
		delete(r.asked, j.name)
	}
	r.questions = nil
	var told *statusError
	if errors.As(err, &told) {
		// It answers, but not this: what it said before is no longer true.
		for _, t := range r.queues {
			t.dropFacts()
			r.touch(t)
		}
	}
}

// answered takes what the API said of one queue.
func (r *round) answered(j job, f *facts, err error, took time.Duration, now time.Time) {
	t := r.queues[j.id]
	if t == nil {
		return
	}
	t.asking = false
	r.touch(t)
	var told *statusError
	switch {
	case err == nil:
		if !r.api.bare && r.api.usable {
			r.turn("management API", &r.health.Management, now, took, "", r.api.limited)
		}
		if t.missing {
			return
		}
		if f.ready.Known {
			t.read(now, r.askInterval())
		}
		t.answered(f, j.history > 0, now)
		if outdated(t.ready, f.ready, r.interval()) && f.ready.Known {
			t.sample(now, f.ready.Value, r.historyStep())
		}
		r.lookUp(f)
	case errors.As(err, &told) && told.status == http.StatusNotFound:
		t.dropFacts()
	case r.api.usable: // else the first failure said it already
		r.apiFailed(err, now)
	}
}

// dropFacts forgets what the management API said.
func (t *tracked) dropFacts() { t.facts, t.counted = nil, nil }

// answered takes facts.
func (t *tracked) answered(f *facts, history bool, now time.Time) {
	t.facts, t.askedOK = f, now
	if f.hasCounts {
		t.counted = keepCounts(t.counted, f.counts)
	}
	if history && f.ready.Known {
		t.history.fill(f.hour)
		t.needsHistory = false
	}
	f.hour = nil
}

// maxNames bounds the cache of connections, and how many are asked for at
// once.
const (
	maxNames   = 10_000
	maxLookups = 16
)

// lookUp asks who the connections of a queue's consumers are, once for each.
func (r *round) lookUp(f *facts) {
	if len(r.names) > maxNames {
		clear(r.names)
	}
	for _, c := range f.list {
		if _, known := r.names[c.Connection]; known || c.Connection == "" || c.ListenerID == "" || r.asked[c.Connection] || len(r.asked) >= maxLookups {
			continue
		}
		r.asked[c.Connection] = true
		r.questions = append(r.questions, job{name: c.Connection})
	}
}

func (r *round) named(name string, who connection, err error) {
	delete(r.asked, name)
	var told *statusError
	if err == nil || errors.As(err, &told) {
		r.names[name] = who // also where it is not told: asking again would not help
		for _, t := range r.queues {
			t.dirty = true
		}
		r.touch(nil)
	}
}
