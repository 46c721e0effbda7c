package app

import (
	"context"
	"fmt"

	"github.com/belay-mq/belay/cmd/belay/internal/config"
	"github.com/belay-mq/belay/nacos"
	"github.com/belay-mq/belay/registry"
	"github.com/belay-mq/belay/registry/control"
	"github.com/belay-mq/belay/registry/presence"
)

// newControl makes the write path of the backend.
func (b *Backend) newControl() *control.Control {
	return control.New(control.Config{
		AuditDir: b.opts.StateDir, Context: b.ctx.Label, DataID: dataID(b.ctx.Nacos), Fleet: b.fleet, Logger: b.log,
		Confirm:  control.Confirm{RequireReason: b.ctx.Writes.RequireReason, TypeContextName: b.ctx.Writes.TypeContextName},
		Operator: b.opts.Operator, ReadOnly: b.readOnly(), Store: b.store,
	})
}

func (b *Backend) readOnly() bool { return b.opts.ReadOnly || b.ctx.Writes.ReadOnly }

// NewTimed makes what carries out the planned windows of one application in a process
// that hosts it; nil where the process may not write, so that it does not count as one
// that could carry them out.
func NewTimed(c *config.Context, app string, store *nacos.Store, opts Options) registry.Timed {
	if opts.ReadOnly || c.Writes.ReadOnly {
		return nil
	}
	return control.New(control.Config{
		App: app, AuditDir: opts.StateDir, Context: c.Label, DataID: dataID(c.Nacos), Logger: opts.Logger,
		Operator: opts.Operator, Store: store,
	})
}

// writable returns the write path, or says why there is none.
func (b *Backend) writable() (*control.Control, error) {
	if b.control == nil {
		return nil, fmt.Errorf("toggles are in Nacos: %w", ErrAbsent)
	}
	return b.control, nil
}

// Plan holds intents against the files as they are now. It writes nothing.
func (b *Backend) Plan(ctx context.Context, intents ...control.Intent) (*control.Plan, error) {
	c, err := b.writable()
	if err != nil {
		return nil, err
	}
	return c.Plan(ctx, intents...)
}

// Apply writes a plan. Progress is in later snapshots, and in Outcomes.
func (b *Backend) Apply(ctx context.Context, p *control.Plan) (control.Ticket, error) {
	c, err := b.writable()
	if err != nil {
		return control.Ticket{}, err
	}
	return c.Apply(ctx, p)
}

// Outcomes tells how far a write has come on each listener. It never blocks.
func (b *Backend) Outcomes(t control.Ticket) []control.Outcome {
	if b.control == nil {
		return nil
	}
	return b.control.Outcomes(t)
}

// UndoPlan plans the undoing of this process's newest write.
func (b *Backend) UndoPlan(ctx context.Context) (*control.Plan, error) {
	c, err := b.writable()
	if err != nil {
		return nil, err
	}
	return c.UndoPlan(ctx)
}

// History returns the versions of an application's toggle file, newest first.
func (b *Backend) History(ctx context.Context, app string) ([]control.Version, error) {
	c, err := b.writable()
	if err != nil {
		return nil, err
	}
	return c.History(ctx, app)
}

// Refresh asks for everything to be read again soon. It never blocks.
func (b *Backend) Refresh() { b.fleet.Refresh() }

// runDashboard carries out planned changes and tells others of this process: a
// dashboard hosts no listeners, but it may write.
func (b *Backend) runDashboard(ctx context.Context) {
	canWrite := b.control != nil && !b.readOnly()
	if canWrite {
		b.goGuarded("timed changes", func() error { return b.control.Run(ctx) })
	}
	for _, v := range b.vhost {
		b.goGuarded("presence", func() error {
			return v.presence.Send(ctx, func() presence.Report {
				return presence.Report{Started: b.started, CanWrite: canWrite, Listeners: []presence.ListenerReport{}}
			})
		})
	}
}
