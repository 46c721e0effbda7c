package presence

import (
	"context"
	"fmt"
	"sort"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	// maxInstances bounds the memory that reports can take.
	maxInstances = 10000
	// forgetAfter is how long a lost instance is still listed, and how long the
	// goodbye of one is remembered, so that a late report does not revive it.
	forgetAfter = 15 * time.Minute
	// keepBye is how long the end of an instance is remembered.
	keepBye = time.Minute
)

// Seen is an instance as its reports show it.
type Seen struct {
	Report   Report
	Received time.Time // with a monotonic reading; ages are measured from here
	Lost     bool      // three reports missed
}

type entry struct {
	report   *Report
	received time.Time
	bye      bool
}

// OnChange registers f to be called after a report was received. It is called on
// the collector's goroutine without locks held and must not block.
func (p *Presence) OnChange(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onChange = append(p.onChange, f)
}

// Collect receives the reports of all instances until ctx ends. It asks everybody
// to report when it begins and after each reconnect.
func (p *Presence) Collect(ctx context.Context) error {
	p.again(ctx, "collect", p.collect)
	p.setHealth(false, ctx.Err())
	return nil
}

func (p *Presence) collect(ctx context.Context) (err error) {
	defer func() { p.setHealth(false, err) }()
	ch, err := p.conn.ConsumeChannel(ctx)
	if err != nil {
		return fmt.Errorf("open a channel to collect reports: %w", err)
	}
	defer closeSoon(ch)
	var deliveries <-chan amqp.Delivery
	err = bounded(ctx, func() error {
		if err := declareExchanges(ch); err != nil {
			return err
		}
		q, err := ch.QueueDeclare("", false, true, true, false, amqp.Table{
			"x-max-length":  int32(maxInstances),
			"x-message-ttl": int32(10000),
		})
		if err != nil {
			return fmt.Errorf("declare a queue for reports: %w", err)
		}
		if err := ch.QueueBind(q.Name, "#", Exchange, false, nil); err != nil {
			return fmt.Errorf("bind the queue for reports: %w", err)
		}
		deliveries, err = ch.Consume(q.Name, "", true, true, false, false, nil)
		if err != nil {
			return fmt.Errorf("consume reports: %w", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	p.setHealth(true, nil)
	if err := p.Ask(ctx); err != nil {
		p.log.Debug("could not ask for reports", "error", err)
	}
	sweep := time.NewTicker(p.interval)
	defer sweep.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case d, ok := <-deliveries:
			if !ok {
				return fmt.Errorf("collect reports: %w", errClosed)
			}
			p.receive(d.Body)
		case <-sweep.C:
			p.sweep()
		}
	}
}

// receive takes one report in. It is also the entry of the fuzz target.
func (p *Presence) receive(body []byte) {
	r, err := Decode(body)
	if err != nil {
		p.rejected.Add(1)
		p.log.Debug("a report was dropped", "error", err)
		return
	}
	p.mu.Lock()
	p.health.LastReport = time.Now()
	taken := p.take(r)
	calls := p.onChange
	p.mu.Unlock()
	if taken {
		for _, f := range calls {
			f()
		}
	}
}

// take stores r unless something newer is known.
func (p *Presence) take(r *Report) bool {
	e := p.seen[r.Instance]
	if e != nil && !e.supersededBy(r) {
		return false
	}
	if e == nil {
		if len(p.seen) >= maxInstances {
			p.rejected.Add(1)
			return false
		}
		e = &entry{}
		p.seen[r.Instance] = e
	}
	e.report, e.received, e.bye = r, time.Now(), r.Bye
	return true
}

// supersededBy holds where r is newer than what is known. Seq orders the reports of one
// start. A process that is given a fixed id begins at 1 again when it is restarted; its
// later start then makes it the newer one, also after a goodbye.
func (e *entry) supersededBy(r *Report) bool {
	if !r.Started.Equal(e.report.Started) {
		return r.Started.After(e.report.Started)
	}
	return r.Seq > e.report.Seq && !e.bye
}

// sweep forgets instances that ended or were lost long ago.
func (p *Presence) sweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, e := range p.seen {
		age := time.Since(e.received)
		if age > forgetAfter || e.bye && age > keepBye {
			delete(p.seen, id)
		}
	}
}

// Instances returns the instances that are there or lost, by id; those that said
// bye are not among them. The reports are shared and must not be changed.
func (p *Presence) Instances() []Seen {
	blocked := p.conn.Blocked()
	p.mu.Lock()
	collecting := p.health.Collecting
	since := p.health.Since
	out := make([]Seen, 0, len(p.seen))
	for _, e := range p.seen {
		if e.bye {
			continue
		}
		// While we hear nothing ourselves (an outage, or the first moments after
		// one), silence says nothing about others.
		deaf := blocked || !collecting || time.Since(since) < missed*p.interval
		lost := !deaf && time.Since(e.received) > missed*p.interval
		out = append(out, Seen{Report: *e.report, Received: e.received, Lost: lost})
	}
	p.mu.Unlock()
	sort.Slice(out, func(i, j int) bool { return out[i].Report.Instance < out[j].Report.Instance })
	return out
}

// Gone reports whether an instance said bye within the last minute.
func (p *Presence) Gone(instance string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.seen[instance]
	return e != nil && e.bye
}
