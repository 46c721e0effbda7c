package consumers

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Handler handles one message. Returning nil acks it (unless AckMode is
// Manual); an error rejects it unless the error says otherwise ([Requeue],
// [Reject], [AckAnyway]) or Config.DefaultRequeue is set. A panic counts as an
// error. The context is cancelled when the message's channel is lost or the
// shutdown timeout passes. As many handlers run at once as there are consumers.
type Handler func(ctx context.Context, d *Delivery) error

// BatchHandler handles several messages that were received together, oldest
// first. Its outcome is the outcome of each of them; a message that was settled
// through its own methods keeps that settlement.
type BatchHandler func(ctx context.Context, batch []*Delivery) error

// Delivery is a received message. Its settlement methods (Ack, Requeue, Reject)
// are for AckMode Manual and may be called from any goroutine, in any order, at
// any time: a second settlement returns [ErrSettled], one after the message's
// session has ended returns [ErrStale]; neither is sent to the broker.
type Delivery struct {
	amqp.Delivery
	// Queue is the queue that the message was consumed from.
	Queue string

	consumer *consumer
}

// Ack acknowledges this message.
func (d *Delivery) Ack() error { return d.consumer.settle(d.DeliveryTag, acked) }

// Requeue gives this message back to its queue.
func (d *Delivery) Requeue() error { return d.consumer.settle(d.DeliveryTag, requeued) }

// Reject drops this message, or dead-letters it where its queue says so.
func (d *Delivery) Reject() error { return d.consumer.settle(d.DeliveryTag, rejected) }

// DeliveryCount returns how often the broker has delivered this message before,
// from the header x-delivery-count of quorum queues; 0 where there is none.
func (d *Delivery) DeliveryCount() int {
	if d.Headers == nil {
		return 0
	}
	switch n := d.Headers["x-delivery-count"].(type) {
	case int64:
		return int(n)
	case int32:
		return int(n)
	}
	return 0
}

// guard is the Acknowledger of deliveries: the client's own settlement methods,
// reached through the embedded amqp.Delivery, go through the tracker as well.
type guard struct{ c *consumer }

func (g guard) Ack(tag uint64, multiple bool) error {
	return g.c.settleMany(tag, multiple, acked)
}

func (g guard) Nack(tag uint64, multiple, requeue bool) error {
	if requeue {
		return g.c.settleMany(tag, multiple, requeued)
	}
	return g.c.settleMany(tag, multiple, rejected)
}

func (g guard) Reject(tag uint64, requeue bool) error { return g.Nack(tag, false, requeue) }

// settlement is what the broker is told about a message.
type settlement uint8

const (
	outstanding settlement = iota
	acked
	requeued
	rejected
	sent // the broker was told
)

// outcomeError carries what is to become of the message that a handler failed
// on.
type outcomeError struct {
	err  error
	what settlement
	verb string
}

func (e *outcomeError) Error() string {
	if e.err == nil {
		return e.verb
	}
	return fmt.Sprintf("%s: %v", e.verb, e.err)
}

func (e *outcomeError) Unwrap() error { return e.err }

// Requeue wraps err, which may be nil, so that the message goes back to its
// queue.
func Requeue(err error) error { return &outcomeError{err, requeued, "requeue"} }

// Reject wraps err, which may be nil, so that the message is dead-lettered, or
// dropped where its queue has no dead-letter exchange. It is not retried.
func Reject(err error) error { return &outcomeError{err, rejected, "reject"} }

// AckAnyway wraps err, which may be nil, so that the message is acked although
// its handler failed. It counts as failed and is not retried.
func AckAnyway(err error) error { return &outcomeError{err, acked, "ack anyway"} }

// outcome returns what becomes of a message, and whether its handler asked for
// that.
func outcome(err error, defaultRequeue bool) (what settlement, explicit bool) {
	if err == nil {
		return acked, false
	}
	var o *outcomeError
	if errors.As(err, &o) {
		return o.what, true
	}
	if defaultRequeue {
		return requeued, false
	}
	return rejected, false
}
