package consumers

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// consumer is one of a container's consumers in one session: one channel, one
// subscription per queue, one worker that runs the handler. It never outlives
// its channel; after a loss the container opens another one.
//
// The connection's reader puts what was received into the inbox (see tap), the
// worker takes it from there, and run watches the channel and carries out the
// stop.
type consumer struct {
	c     *Container
	ch    *channel
	acks  *tracker
	box   *inbox
	since time.Time

	ctx    context.Context // the handlers'
	cancel context.CancelCauseFunc

	closes  chan *amqp.Error
	cancels chan string
	worked  chan struct{} // closed when the worker has ended
	halt    chan struct{} // closed: run no further handler
	halting atomic.Bool   // the same, for the worker's every message
	halted  sync.Once
	retired chan struct{} // closed: cancel and drain
	once    sync.Once
	ended   chan struct{} // closed when run has ended

	// Guarded by c.mu.
	tags    map[string]string // consumer tags by queue
	allTags []string          // every tag there ever was
	sealed  bool              // no further tag may be added

	staged []*Delivery // used by the tap, on the connection's reader

	busy       atomic.Bool
	cancelling atomic.Bool
	requeued   atomic.Int64 // messages that handlers gave back
	inHand     atomic.Int32 // messages whose settlement waits for a running handler
	lastActive atomic.Int64 // unix ns of the newest wake-up of the worker

	report StopReport // written by run before ended is closed
}

// tagSeq makes consumer tags unique in this process: the tap knows a
// connection's consumers by their tags, also where two containers share a name.
var tagSeq atomic.Uint64

// openConsumer opens a channel; subscribe adds the queues.
func (c *Container) openConsumer(ctx context.Context) (*consumer, error) {
	ch, err := c.conn.consume.channel(ctx)
	if err != nil {
		return nil, err
	}
	prefetch := int(c.prefetch.Load())
	if err := ch.request(ctx, "setting the prefetch", func() error { return ch.Qos(prefetch, 0, false) }); err != nil {
		ch.abandon()
		return nil, err
	}
	s := &consumer{
		c: c, ch: ch, box: newInbox(), since: time.Now(),
		closes:  ch.NotifyClose(make(chan *amqp.Error, 1)),
		cancels: ch.NotifyCancel(make(chan string, 64)),
		worked:  make(chan struct{}), halt: make(chan struct{}), retired: make(chan struct{}), ended: make(chan struct{}),
		tags: map[string]string{},
	}
	s.acks = newTracker(ch.Channel, min(c.cfg.AckBatch, max(1, prefetch/2)), c.cfg.AckDelay)
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.lastActive.Store(time.Now().UnixNano())
	if c.batch != nil {
		c.wg.Go(s.workBatches)
	} else {
		c.wg.Go(s.work)
	}
	c.wg.Go(s.run)
	return s, nil
}

// subscribe starts the consumption of one queue.
func (s *consumer) subscribe(ctx context.Context, queue string) error {
	tag := fmt.Sprintf("%s%s-%d", s.c.cfg.TagPrefix, s.c.cfg.ListenerID, tagSeq.Add(1))
	args := amqp.Table{}
	for k, v := range s.c.cfg.Args {
		args[k] = v
	}
	return s.ch.request(ctx, "consuming from "+queue, func() error {
		s.c.mu.Lock()
		late := s.sealed || s.isRetired()
		if !late {
			s.allTags = append(s.allTags, tag)
		}
		s.c.mu.Unlock()
		if late {
			return context.Canceled
		}
		// Deliveries may follow the reply at once, so the tap comes first. The
		// client's own stream stays empty.
		s.ch.wire.sock.tap.subscribe(tag, queue, s)
		if _, err := s.ch.Consume(queue, tag, false, s.c.cfg.Exclusive, false, false, args); err != nil {
			return err
		}
		s.c.mu.Lock()
		s.tags[queue] = tag
		s.c.mu.Unlock()
		return nil
	})
}

// unsubscribe ends the consumption of one queue; what was received from it is
// handled.
func (s *consumer) unsubscribe(ctx context.Context, queue string) error {
	s.c.mu.Lock()
	tag, ok := s.tags[queue]
	delete(s.tags, queue)
	s.c.mu.Unlock()
	if !ok {
		return nil
	}
	return s.ch.request(ctx, "cancelling the consumer of "+queue, func() error { return s.ch.Cancel(tag, false) })
}

// receive takes what the tap has found; it is called by the connection's reader.
// What comes after the end of the subscriptions is left to the closing nack.
func (s *consumer) receive(batch []*Delivery) {
	c := s.c
	for _, d := range batch {
		if d.Redelivered {
			c.redelivered.Add(1)
			c.counts.note(d.DeliveryCount())
		}
	}
	c.inFlight.Add(int64(len(batch)))
	if !s.box.put(batch) {
		c.inFlight.Add(-int64(len(batch)))
	}
}

// seal ends the reception: nothing more will be taken from the tap.
func (s *consumer) seal() {
	s.c.mu.Lock()
	tags := s.allTags
	s.allTags, s.sealed = nil, true
	s.c.mu.Unlock()
	for _, tag := range tags {
		s.ch.wire.sock.tap.unsubscribe(tag)
	}
	s.box.close()
}

// work runs the handler on what the inbox holds.
func (s *consumer) work() {
	defer close(s.worked)
	var batch []*Delivery
	row := 0 // messages that went back one after the other
	for {
		var ok bool
		if batch, ok = s.box.take(batch, &s.halting); !ok {
			return
		}
		s.begin()
		for i, d := range batch {
			if s.halting.Load() {
				s.rest()
				return
			}
			s.inHand.Store(1)
			before := s.requeued.Load()
			s.handle(d)
			s.inHand.Store(0)
			batch[i] = nil
			row = s.backOff(row, s.requeued.Load() > before)
		}
		s.rest()
	}
}

// backOff waits where messages go back to their queue one after the other: they come
// again at once, and would otherwise go round as fast as broker and network can.
// It returns how many went back in a row. A stop ends the wait.
func (s *consumer) backOff(row int, back bool) int {
	if !back {
		return 0
	}
	if row++; row == 1 {
		return row
	}
	t := time.NewTimer(s.c.cfg.RequeueBackoff.Delay(row - 1))
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.retired:
	case <-s.halt:
	case <-s.ctx.Done():
	}
	return row
}

func (s *consumer) begin() {
	s.lastActive.Store(time.Now().UnixNano())
	s.busy.Store(true)
}

func (s *consumer) rest() {
	s.busy.Store(false)
	s.lastActive.Store(time.Now().UnixNano())
}

func (s *consumer) handle(d *Delivery) {
	c := s.c
	if c.cfg.AckMode == AckNone && s.settle(d.DeliveryTag, acked) != nil {
		return // the broker has it back
	}
	var err error
	if c.cfg.Retry.Attempts == 1 {
		err = s.call(d)
	} else {
		err = s.attempts(func() error { return s.call(d) })
	}
	s.conclude(d, err)
}

// conclude counts the outcome of a message and settles it.
func (s *consumer) conclude(d *Delivery, err error) {
	c := s.c
	if err == nil {
		c.handled.Add(1)
	} else {
		c.failure(d, err)
	}
	if c.cfg.AckMode == AckNone || c.cfg.AckMode == AckManual && err == nil {
		return
	}
	what, explicit := outcome(err, c.cfg.DefaultRequeue)
	if err != nil && !explicit && c.cfg.Retry.republishes() {
		if err := c.republish(s.ctx, d, err); err != nil {
			c.cfg.Logger.Error("a failed message could not be republished, it goes back to its queue",
				"listener", c.cfg.ListenerID, "queue", d.Queue, "message", d.MessageId, "error", err)
			what = requeued
		} else {
			what = acked
		}
	}
	_ = s.settle(d.DeliveryTag, what)
}

// attempts calls the handler until it succeeds, says what is to become of the
// message, or the attempts are used up.
func (s *consumer) attempts(call func() error) error {
	r := s.c.cfg.Retry
	for n := 1; ; n++ {
		err := call()
		if err == nil || n >= r.Attempts {
			return err
		}
		if _, explicit := outcome(err, false); explicit {
			return err
		}
		if !r.pauseBefore(s.ctx, n, s.halt) {
			return Requeue(err)
		}
	}
}

// call runs the handler on one message.
func (s *consumer) call(d *Delivery) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = s.panicked(d.Queue, v)
		}
	}()
	return s.c.handler(s.ctx, d)
}

func (s *consumer) panicked(queue string, v any) error {
	p := &PanicError{Value: v, Stack: debug.Stack()}
	s.c.cfg.Logger.Error("handler panicked", "listener", s.c.cfg.ListenerID, "queue", queue, "panic", v, "stack", string(p.Stack))
	return p
}

// settle records one settlement and counts it.
func (s *consumer) settle(tag uint64, what settlement) error {
	err := s.acks.settle(tag, what)
	switch {
	case err == nil:
		s.c.inFlight.Add(-1)
		if what == requeued {
			s.c.requeued.Add(1)
			s.requeued.Add(1)
		}
	case errors.Is(err, ErrStale):
		s.c.staleAcks.Add(1)
	}
	return err
}

// settleMany is settle for one tag or, as the client's API has it, for all
// outstanding ones up to it.
func (s *consumer) settleMany(tag uint64, multiple bool, what settlement) error {
	if !multiple {
		return s.settle(tag, what)
	}
	for _, t := range s.acks.outstandingUpTo(tag) {
		if err := s.settle(t, what); err != nil && !errors.Is(err, ErrSettled) {
			return err
		}
	}
	return nil
}

// subscribed reports whether queue is consumed; c.mu is held.
func (s *consumer) subscribed(queue string) bool {
	_, ok := s.tags[queue]
	return ok
}

// isRetired reports whether the stop has begun.
func (s *consumer) isRetired() bool {
	select {
	case <-s.retired:
		return true
	default:
		return false
	}
}

func (s *consumer) stopHandlers() {
	s.halted.Do(func() {
		s.halting.Store(true)
		close(s.halt)
		s.box.signal()
	})
}
