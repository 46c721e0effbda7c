package consumers

import (
	"context"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// retire begins the stop of a consumer; run carries it out.
func (s *consumer) retire() { s.once.Do(func() { close(s.retired) }) }

// run watches the channel until it is lost or the consumer is retired.
func (s *consumer) run() {
	defer close(s.ended)
	defer s.c.remove(s)
	for {
		select {
		case e := <-s.closes:
			s.lost(e)
			return
		case tag, ok := <-s.cancels:
			if ok {
				s.c.cancelledByBroker(s, tag)
			} else {
				s.cancels = nil
			}
		case <-s.retired:
			s.stop()
			return
		}
	}
}

// lost ends a consumer whose channel is gone. What it holds comes back through
// the broker; a handler that still runs finds its settlement refused.
func (s *consumer) lost(e *amqp.Error) {
	s.giveUp()
	s.c.sessionLost(s, e)
}

// giveUp ends the session without a word to the broker and returns how many
// messages were not settled.
func (s *consumer) giveUp() int {
	s.acks.abort()
	s.cancel(ErrSessionLost)
	s.stopHandlers()
	s.seal()
	left := s.unsettled()
	s.c.inFlight.Add(-int64(left))
	return left
}

// unsettled is final once the inbox and the tracker are closed.
func (s *consumer) unsettled() int {
	return s.box.received() - int(s.acks.count())
}

// stop cancels, drains, gives back and closes.
func (s *consumer) stop() {
	begin, before := time.Now(), s.acks.count()
	r := &s.report
	defer func() { r.Took = time.Since(begin) }()
	deadline := time.NewTimer(s.c.cfg.ShutdownTimeout)
	defer deadline.Stop()
	if s.c.cfg.StopMode == StopForce {
		s.stopHandlers()
	}
	r.Phase = "cancel"
	s.cancelling.Store(true)
	lost := s.cancelAll() != nil
	s.cancelling.Store(false)
	if !lost {
		s.seal() // everything that the broker had sent is through
		r.Phase = "drain"
		lost = !s.drain(deadline.C)
	}
	s.stopHandlers()
	r.Phase = "return"
	if !lost && s.acks.finish() != nil {
		lost = true
	}
	var left int
	if lost {
		left = s.giveUp()
	} else {
		left = s.unsettled()
		s.c.inFlight.Add(-int64(left))
		s.cancel(ErrShutdownTimeout)
	}
	if s.busy.Load() {
		r.Running = 1
		r.Abandoned = min(left, int(s.inHand.Load()))
	}
	r.Handled = int(s.acks.count() - before)
	r.Requeued = left - r.Abandoned
	s.c.requeued.Add(uint64(left))
	if !lost {
		r.Phase = "close"
		s.ch.close(context.Background())
	}
	r.Phase = "done"
}

// cancelAll cancels every subscription. A connection on which that fails is of
// no use, and must not go on delivering: it is dropped.
func (s *consumer) cancelAll() error {
	// A subscription may still be under way.
	if err := s.ch.request(context.Background(), "", func() error { return nil }); err != nil {
		return err
	}
	s.c.mu.Lock()
	queues := make([]string, 0, len(s.tags))
	for q := range s.tags {
		queues = append(queues, q)
	}
	s.c.mu.Unlock()
	for _, q := range queues {
		if err := s.unsubscribe(context.Background(), q); err != nil {
			if !s.ch.IsClosed() {
				s.c.cfg.Logger.Warn("a consumer could not be cancelled; its connection is dropped",
					"listener", s.c.cfg.ListenerID, "queue", q, "error", err)
				s.ch.wire.drop()
			}
			return err
		}
	}
	return nil
}

// drain waits until everything received is settled, in StopForce for the
// message in hand, or for the deadline. It returns false when the channel was
// lost meanwhile.
func (s *consumer) drain(deadline <-chan time.Time) bool {
	worked := s.worked
	settled := s.acks.whenSettled(uint64(s.box.received()))
	if s.c.cfg.StopMode == StopForce {
		settled = worked
	}
	for worked != nil || settled != nil {
		select {
		case <-worked:
			worked = nil
		case <-settled:
			settled = nil
		case <-s.closes:
			return false
		case <-deadline:
			return true
		}
	}
	return true
}
