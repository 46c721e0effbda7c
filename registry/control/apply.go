package control

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/belay-mq/belay/nacos"
	"github.com/belay-mq/belay/registry/fleet"
	"github.com/belay-mq/belay/registry/toggle"
)

const (
	// retryFor bounds the attempts after conflicts.
	retryFor = 5 * time.Second
	// retryPause is the least pause between two attempts; reads of Nacos lag
	// behind its writes by up to 150 ms.
	retryPause = 150 * time.Millisecond
	// rereadFor bounds how long a failed publish is looked for.
	rereadFor = 3 * time.Second
)

// Apply writes a plan by compare-and-publish, one publish for each application,
// and then follows its effect in the fleet's snapshots. The outcome of each
// application stands in the ticket; the error is for a plan that is not written at
// all ([ErrReadOnly], [ErrReasonRequired], [ErrClosed]).
//
// When somebody else has changed a file since the plan was made, the same intents
// are applied to the new text, for at most 5 s, unless that change contradicts
// them: then the outcome is a *nacos.ConflictError with their text. A text that
// replaces the whole file (Edit, Rollback) is never merged. After any error of a
// publish the file is read again before the write is called failed.
func (c *Control) Apply(ctx context.Context, p *Plan) (Ticket, error) {
	if err := c.allowed(p); err != nil {
		return Ticket{}, err
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return Ticket{}, ErrClosed
	}
	c.tickets++
	t := Ticket{ID: c.tickets, Files: make([]Written, len(p.Files))}
	c.mu.Unlock()
	records := make([]*fileRecord, len(p.Files))
	var wg sync.WaitGroup
	for i := range p.Files {
		f := &p.Files[i]
		wg.Go(func() {
			err := guarded("write "+f.App, func() error {
				t.Files[i], records[i] = c.applyFile(ctx, t.ID, f)
				return nil
			})
			if err != nil {
				t.Files[i] = Written{App: f.App, Phase: fleet.WriteFailed, Err: err}
			}
		})
	}
	wg.Wait()
	c.remember(records)
	return t, nil
}

// allowed says whether a plan may be written in this context.
func (c *Control) allowed(p *Plan) error {
	if c.cfg.ReadOnly {
		return ErrReadOnly
	}
	if p == nil || len(p.Files) == 0 {
		return errors.New("apply: the plan is empty")
	}
	if !c.cfg.Confirm.RequireReason {
		return nil
	}
	for _, f := range p.Files {
		for _, in := range f.Intents {
			if in.Reason == "" && (in.Op == Pause || in.Op == Resume || in.Op == Scale) && !f.Unchanged {
				return fmt.Errorf("%s %s: %w", in.Op, in.ID, ErrReasonRequired)
			}
		}
	}
	return nil
}

// applyFile writes one file and begins to follow its effect.
func (c *Control) applyFile(ctx context.Context, ticket uint64, f *FilePlan) (Written, *fileRecord) {
	w := Written{App: f.App, Phase: fleet.Done, UnchangedBy: f.UnchangedBy}
	if f.Unchanged {
		return w, nil
	}
	if f.Refusal != nil && !(f.Forceable && f.forced()) {
		return Written{App: f.App, Phase: fleet.WriteFailed, Err: f.Refusal}, nil
	}
	began := time.Now()
	record := c.record(f)
	follow := c.begin(ticket, f, began)
	pub := &publication{control: c, file: f, base: f.Base, text: f.After, orders: f.orders}
	var err error
	if f.TwoStep {
		err = pub.twoSteps(ctx)
	} else {
		err = pub.run(ctx)
	}
	w = pub.outcome(err)
	follow.written(w, pub)
	c.auditWrite(f, w, pub, began)
	if pub.written.MD5 == "" {
		return w, nil
	}
	record.wrote = pub.written // of a scale that failed half-way, too: it can be undone
	return w, record
}

// forced says whether all intents of a file want the write in spite of a fault that
// was there before.
func (f *FilePlan) forced() bool {
	for _, in := range f.Intents {
		if !in.Force {
			return false
		}
	}
	return true
}

// publication is the write of one file in progress.
type publication struct {
	control *Control
	file    *FilePlan
	base    nacos.State     // what the text was made from
	origin  nacos.State     // the base of the first of two steps
	text    string          // to be written
	orders  []toggle.Intent // what is applied again to a changed text
	written nacos.State     // what was written last
	merged  bool
	lost    string // a foreign change that was overwritten
	settled string // who made the file so meanwhile
}

// outcome says how the write ended.
func (p *publication) outcome(err error) Written {
	w := Written{App: p.file.App, Merged: p.merged, Lost: p.lost}
	var conflict *nacos.ConflictError
	switch {
	case errors.As(err, &conflict):
		w.Phase, w.Err = fleet.Conflict, err
	case err != nil:
		w.Phase, w.Err = fleet.WriteFailed, err
	case p.written.MD5 == "":
		w.Phase, w.UnchangedBy = fleet.Done, p.settled
	default:
		w.Phase, w.MD5 = fleet.Written, p.written.MD5
	}
	return w
}

// run publishes, and again on the text of somebody else.
func (p *publication) run(ctx context.Context) error {
	deadline := time.Now().Add(retryFor)
	for {
		state, err := p.publish(ctx)
		if err == nil {
			p.written = state
			return nil
		}
		var conflict *nacos.ConflictError
		if !errors.As(err, &conflict) {
			return err
		}
		if len(p.orders) == 0 || time.Now().After(deadline) {
			return err
		}
		pause := retryPause + time.Duration(rand.Int64N(int64(retryPause)))
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
		done, rebaseErr := p.rebase(ctx, conflict)
		if done || rebaseErr != nil {
			return rebaseErr
		}
	}
}

// rebase applies the orders to the text that is there now. It reports done when
// that text fulfils them already.
func (p *publication) rebase(ctx context.Context, conflict *nacos.ConflictError) (done bool, err error) {
	now, err := p.control.cfg.Store.Get(ctx, p.base.Key)
	if err != nil || now.MD5 == p.base.MD5 && now.Absent == p.base.Absent { // a read that lags behind
		now = conflict.Actual
	}
	now.Key = p.base.Key
	before, after := parse(p.base), parse(now)
	open := p.orders[:0:0]
	for _, order := range p.orders {
		have, entry := after.Lookup(order.ListenerID)
		if settled(order, have, entry) {
			if have.UpdatedBy != nil {
				p.settled = *have.UpdatedBy
			}
			continue
		}
		if contradicts(order, before, after) {
			return false, &nacos.ConflictError{Key: p.base.Key, BaseMD5: p.base.MD5, Actual: now}
		}
		open = append(open, order)
	}
	if len(open) == 0 {
		return true, nil
	}
	text, err := toggle.Edit(toggle.FormatOf(now.Key.DataID), []byte(now.Text), p.file.forced(), open...)
	if err != nil {
		return false, err
	}
	p.base, p.text, p.orders, p.merged = now, string(text), open, true
	return false, nil
}

// publish writes the text once. After an error other than a conflict it looks
// whether the text is there all the same.
func (p *publication) publish(ctx context.Context) (nacos.State, error) {
	store, key := p.control.cfg.Store, p.base.Key
	content := nacos.Content{Text: p.text, Operator: p.file.Intents[0].By}
	var state nacos.State
	var err error
	if p.base.Absent {
		state, err = store.Create(ctx, key, content)
	} else {
		state, err = store.Update(ctx, key, content, p.base.MD5)
	}
	var overwrote *nacos.OverwroteError
	var conflict *nacos.ConflictError
	switch {
	case errors.As(err, &overwrote):
		p.lost = overwrote.Lost
		state = overwrote.Written
	case errors.As(err, &conflict):
		return state, err
	case err != nil:
		found, ok := p.look(ctx, err)
		if !ok {
			return state, fmt.Errorf("write the toggle file of %s: %w", p.file.App, err)
		}
		state = found
	}
	state.Key, state.Text, state.MD5, state.Absent = key, p.text, sum(p.text), false
	return state, nil
}

// refused says whether an error tells for certain that nothing was written.
func refused(err error) bool {
	var loss *nacos.LossError
	return errors.As(err, &loss) || errors.Is(err, nacos.ErrForbidden) || errors.Is(err, nacos.ErrBlank) ||
		errors.Is(err, nacos.ErrTooLarge) || errors.Is(err, nacos.ErrBadName) || errors.Is(err, nacos.ErrClosed)
}

// look reads the file after an error, which may have come after the write was
// applied: for some seconds, because reads lag behind writes.
func (p *publication) look(ctx context.Context, publish error) (nacos.State, bool) {
	if refused(publish) {
		return nacos.State{}, false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rereadFor)
	defer cancel()
	for {
		state, err := p.control.cfg.Store.Get(ctx, p.base.Key)
		if err == nil && !state.Absent && state.MD5 == sum(p.text) {
			return state, true
		}
		if err == nil && (state.MD5 != p.base.MD5 || state.Absent != p.base.Absent) {
			return state, false // something else is there by now
		}
		select {
		case <-ctx.Done():
			return nacos.State{}, false
		case <-time.After(retryPause):
		}
	}
}

func sum(text string) string {
	digest := md5.Sum([]byte(text))
	return hex.EncodeToString(digest[:])
}

// twoSteps writes the maximum of those listeners that need it first, waits until
// services have applied it, and writes all the rest.
func (p *publication) twoSteps(ctx context.Context) error {
	all := p.orders
	first := make([]toggle.Intent, len(all))
	for i, order := range all {
		if p.file.steps[order.ListenerID] {
			order.Min = toggle.Opt[int]{}
		}
		first[i] = order
	}
	format := toggle.FormatOf(p.base.Key.DataID)
	text, err := toggle.Edit(format, []byte(p.base.Text), p.file.forced(), first...)
	if err != nil {
		return err
	}
	p.text, p.orders = string(text), first
	if err := p.run(ctx); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return fmt.Errorf("scale in two steps: only the maximum was written: %w", context.Cause(ctx))
	case <-time.After(p.control.cfg.StepWait):
	}
	p.origin = p.base
	if p.written.MD5 != "" {
		p.base = p.written
	} else if p.base, err = p.control.cfg.Store.Get(ctx, p.base.Key); err != nil {
		return fmt.Errorf("scale in two steps: read the file before the minimum is written: %w", err)
	}
	p.base.Key = p.file.Base.Key
	if text, err = toggle.Edit(format, []byte(p.base.Text), p.file.forced(), all...); err != nil {
		return err
	}
	if p.text, p.orders = string(text), all; p.text == p.base.Text {
		return nil
	}
	if err := p.run(ctx); err != nil {
		return fmt.Errorf("scale in two steps: the maximum was written, the minimum not: %w", err)
	}
	return nil
}
