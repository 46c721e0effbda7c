// Package fake is a backend of values for the dashboard's tests: what it shows is
// set by the test, and it counts what would be written.
package fake

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/belay-mq/belay/registry/control"
	"github.com/belay-mq/belay/registry/feed"
	"github.com/belay-mq/belay/registry/fleet"
	"github.com/belay-mq/belay/registry/toggle"
)

// Backend is a tui.Backend of values. It is safe for concurrent use.
type Backend struct {
	mu       sync.Mutex
	snap     *fleet.Snapshot
	lines    []feed.Line
	first    uint64 // Seq of the line before lines[0]
	pending  []feed.Line
	versions []control.Version
	histErr  error

	// Hole blocks every call that has a context until that ends.
	Hole bool
	// OnPlan may change a plan before it is handed out.
	OnPlan func(*control.Plan)
	// OnApply may answer instead.
	OnApply func(*control.Plan) (control.Ticket, error)
	// Confirm is put into plans.
	Confirm control.Confirm

	applied   []*control.Plan
	refreshed int
	tickets   uint64
}

// New returns a backend that shows a snapshot.
func New(s *fleet.Snapshot) *Backend { return &Backend{snap: s} }

// Set shows another snapshot.
func (b *Backend) Set(s *fleet.Snapshot) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.snap = s
}

// Add appends lines to the feed and numbers them.
func (b *Backend) Add(lines ...feed.Line) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range lines {
		l.Seq = b.first + uint64(len(b.lines)) + 1
		b.lines = append(b.lines, l)
	}
}

// Drop keeps only the newest n lines.
func (b *Backend) Drop(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if over := len(b.lines) - n; over > 0 {
		b.lines = append([]feed.Line(nil), b.lines[over:]...)
		b.first += uint64(over)
	}
}

// Wait sets the pending lines.
func (b *Backend) Wait(lines ...feed.Line) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pending = lines
}

// Versions sets the history, or why there is none.
func (b *Backend) Versions(err error, vs ...control.Version) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.versions, b.histErr = vs, err
}

// Writes returns the plans that were applied.
func (b *Backend) Writes() []*control.Plan {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]*control.Plan(nil), b.applied...)
}

// Snapshot implements tui.Backend.
func (b *Backend) Snapshot() *fleet.Snapshot {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.snap
}

// Feed implements tui.Backend.
func (b *Backend) Feed(after uint64, most int) ([]feed.Line, uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	lost := uint64(0)
	if after < b.first {
		lost, after = b.first-after, b.first
	}
	after -= b.first
	if after >= uint64(len(b.lines)) {
		return nil, lost
	}
	ls := b.lines[after:]
	return ls[:min(len(ls), most):min(len(ls), most)], lost
}

// Pending implements tui.Backend.
func (b *Backend) Pending() []feed.Line {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pending
}

// Steps implements tui.Backend.
func (b *Backend) Steps(key string) []feed.Line {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []feed.Line
	for _, l := range b.lines {
		if l.Key == key {
			out = append(out, l)
		}
	}
	return out
}

func (b *Backend) hold(ctx context.Context) error {
	if !b.Hole {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

// Plan implements tui.Backend.
func (b *Backend) Plan(ctx context.Context, is ...control.Intent) (*control.Plan, error) {
	if err := b.hold(ctx); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.snap.ReadOnly {
		return nil, errors.New("this context is read-only")
	}
	p := &control.Plan{Context: b.snap.Label, Writers: 3, Confirm: b.Confirm}
	byApp := map[string]int{}
	for _, in := range is {
		i, ok := byApp[in.ID.App]
		if !ok {
			i = len(p.Files)
			byApp[in.ID.App] = i
			p.Files = append(p.Files, control.FilePlan{App: in.ID.App})
		}
		f := &p.Files[i]
		f.Intents = append(f.Intents, in)
		if !in.At.IsZero() || !in.Until.IsZero() {
			p.Timed = true
		}
		if in.Op == control.Edit {
			a, z := toggle.Parse(toggle.Properties, []byte(File)), toggle.Parse(toggle.Properties, []byte(*in.Text))
			f.Changes, f.Diff = toggle.Diff(a, z), toggle.Unified([]byte(File), []byte(*in.Text), 1)
			f.Base = b.snap.App(in.ID.App).File
		}
		r := b.snap.Row(in.ID)
		if r == nil {
			continue
		}
		a := control.Affected{ID: in.ID, Instances: len(r.Hosts)}
		for _, h := range r.Hosts {
			a.Hosts = append(a.Hosts, h.Host)
		}
		f.Affected = append(f.Affected, a)
		for _, q := range r.Queues {
			p.Hazards = append(p.Hazards, q.Hazards...)
		}
		n := len(f.Affected) - 1
		f.Diff += diff(n, in)
	}
	if b.OnPlan != nil {
		b.OnPlan(p)
	}
	return p, nil
}

// diff is a likeness of what an intent changes in a file.
func diff(n int, in control.Intent) string {
	key := func(field, value string) string {
		return fmt.Sprintf("rabbitmq.toggle.consumers[%d].%s=%s\n", n, field, value)
	}
	s := fmt.Sprintf("@@ -%d,4 +%d,6 @@\n ", 4*n+1, 4*n+1) + key("listenerId", in.ID.Listener)
	switch in.Op {
	case control.Pause:
		s += "-" + key("enable", "true") + "+" + key("enable", "false")
	case control.Resume:
		s += "-" + key("enable", "false") + "+" + key("enable", "true")
	case control.Scale:
		s += "+" + key("concurrentConsumers", fmt.Sprint(*in.Min)) + "+" + key("maxConcurrentConsumers", fmt.Sprint(*in.Max))
	}
	if in.Reason != "" {
		s += "+" + key("reason", in.Reason)
	}
	if !in.At.IsZero() {
		s += "+" + key("pauseAt", in.At.UTC().Format(time.RFC3339))
	}
	if !in.Until.IsZero() {
		s += "+" + key("resumeAt", in.Until.UTC().Format(time.RFC3339))
	}
	return s + "+" + key("updatedBy", "oncall")
}

// Apply implements tui.Backend.
func (b *Backend) Apply(ctx context.Context, p *control.Plan) (control.Ticket, error) {
	if err := b.hold(ctx); err != nil {
		return control.Ticket{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.OnApply != nil {
		t, err := b.OnApply(p)
		if err == nil {
			b.applied = append(b.applied, p)
		}
		return t, err
	}
	b.applied = append(b.applied, p)
	b.tickets++
	t := control.Ticket{ID: b.tickets}
	next := *b.snap
	next.Version++
	next.Rows = append([]*fleet.Row(nil), b.snap.Rows...)
	for _, f := range p.Files {
		t.Files = append(t.Files, control.Written{App: f.App, MD5: "9f3c04d1", Phase: fleet.Written})
		for _, in := range f.Intents {
			for i, r := range next.Rows {
				if r.ID == in.ID {
					next.Rows[i] = changed(r, in)
				}
			}
		}
	}
	b.snap = &next
	return t, nil
}

// changed is a row after an intent was carried out.
func changed(r *fleet.Row, in control.Intent) *fleet.Row {
	x := *r
	now := time.Now()
	x.Effect = &fleet.Effect{Op: string(in.Op), By: "oncall", At: now, Phase: fleet.Done, Seen: len(r.Hosts), Applied: len(r.Hosts), Total: len(r.Hosts),
		WrittenAfter: 60 * time.Millisecond, SeenAfter: 400 * time.Millisecond, AppliedAfter: 700 * time.Millisecond, BrokerAfter: 800 * time.Millisecond}
	x.Since = now
	x.Desired.UpdatedBy, x.Desired.Reason, x.Desired.ResumeAt = "oncall", in.Reason, in.Until
	switch in.Op {
	case control.Pause:
		x.State, x.Note = fleet.Paused, "oncall: "+in.Reason
		x.Actual.Consumers = 0
	case control.Resume:
		x.State, x.Note = fleet.Running, ""
		x.Actual.Consumers = x.Actual.Min
	}
	return &x
}

// UndoPlan implements tui.Backend.
func (b *Backend) UndoPlan(ctx context.Context) (*control.Plan, error) {
	if err := b.hold(ctx); err != nil {
		return nil, err
	}
	b.mu.Lock()
	last := len(b.applied) - 1
	if last < 0 {
		b.mu.Unlock()
		return nil, control.ErrNothingToUndo
	}
	var is []control.Intent
	for _, f := range b.applied[last].Files {
		for _, in := range f.Intents {
			in.Op = control.Resume
			is = append(is, in)
		}
	}
	b.mu.Unlock()
	return b.Plan(ctx, is...)
}

// History implements tui.Backend.
func (b *Backend) History(ctx context.Context, _ string) ([]control.Version, error) {
	if err := b.hold(ctx); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.versions, b.histErr
}

// Refresh implements tui.Backend.
func (b *Backend) Refresh() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refreshed++
}
