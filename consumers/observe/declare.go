package observe

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// declarer declares queues passively on a channel of its own, since a missing
// queue closes the channel.
type declarer struct {
	r     *round
	ch    *amqp.Channel
	stuck <-chan declared // a call that missed its deadline; it ends with the connection
}

type declared struct {
	queue amqp.Queue
	err   error
}

// declaring carries out declares until ctx ends.
func (r *round) declaring(ctx context.Context) {
	d := &declarer{r: r}
	defer d.close()
	for {
		var j job
		select {
		case <-ctx.Done():
			return
		case j = <-r.toDeclare:
		}
		call, cancel := context.WithTimeout(ctx, r.o.cfg.Timeout)
		start := time.Now()
		q, err := d.declare(call, j.id.Name)
		took := time.Since(start)
		cancel()
		if ctx.Err() != nil {
			return
		}
		r.report(ctx, func(now time.Time) { r.declaredQueue(j.id, q, err, took, now) })
	}
}

// errNoReply is a broker that took the question and did not answer in time.
var errNoReply = errors.New("the broker does not answer")

func (d *declarer) declare(ctx context.Context, name string) (amqp.Queue, error) {
	if d.stuck != nil {
		select {
		case <-d.stuck:
			d.stuck = nil
		case <-ctx.Done():
			return amqp.Queue{}, errNoReply
		}
	}
	if d.ch == nil || d.ch.IsClosed() {
		ch, err := d.r.o.cfg.Conn.ConsumeChannel(ctx)
		if err != nil {
			return amqp.Queue{}, err
		}
		d.ch = ch
	}
	// The client's call takes no context.
	ch, done := d.ch, make(chan declared, 1)
	d.r.spawn(func() {
		q, err := ch.QueueDeclarePassive(name, false, false, false, false, nil)
		done <- declared{q, err}
	})
	select {
	case got := <-done:
		if got.err != nil {
			d.ch = nil // closed by the broker
		}
		return got.queue, got.err
	case <-ctx.Done():
		d.stuck, d.ch = done, nil
		return amqp.Queue{}, errNoReply
	}
}

// close gives the channel back; it may block, so Run waits for it elsewhere.
func (d *declarer) close() {
	if ch := d.ch; ch != nil {
		d.r.spawn(func() { _ = ch.Close() }) // an error means that it is closed
	}
}

// declaredQueue applies what a passive declare said.
func (r *round) declaredQueue(id QueueID, q amqp.Queue, err error, took time.Duration, now time.Time) {
	side := &r.health.Declare
	var refused *amqp.Error
	told := errors.As(err, &refused) && refused.Server && (refused.Code == amqp.NotFound || refused.Code == amqp.ResourceLocked || refused.Code == amqp.AccessRefused)
	if err == nil || told {
		r.turn("passive declare", side, now, took, "", "")
	} else {
		r.turn("passive declare", side, now, took, fmt.Sprintf("passive declare: %v", err), "check that the broker is up and reachable, and the user and virtual host in its address")
	}
	t := r.queues[id]
	if t == nil {
		return
	}
	t.declaring = false
	r.touch(t)
	switch {
	case err == nil:
		t.read(now, r.interval())
		t.declared(q.Messages, q.Consumers, now)
		t.sample(now, t.ready.Value, r.historyStep())
	case told && refused.Code == amqp.NotFound:
		t.read(now, r.interval())
		t.gone(now)
	case told && refused.Code == amqp.ResourceLocked:
		t.locked = true
		t.err = "the queue is exclusive to another connection, passive declare is refused"
	case told:
		t.err = refused.Reason
	default:
		t.err = fmt.Sprintf("passive declare: %v", err)
	}
}
