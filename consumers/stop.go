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

// stop ends a consumer as Config.StopMode has it, and reports.
func (s *consumer) stop() {
	begin, before, requeued := time.Now(), s.acks.count(), s.requeued.Load()
	r := &s.report
	defer func() { r.Took = time.Since(begin) }()
	deadline, cancel := context.WithTimeout(context.Background(), s.c.cfg.ShutdownTimeout)
	defer cancel()
	var held bool // the channel is still ours
	if s.c.cfg.StopMode == StopForce {
		held = s.force(deadline)
	} else {
		held = s.drain(deadline)
	}
	var left int
	if held {
		left = s.unsettled()
		s.c.inFlight.Add(-int64(left))
	} else {
		left = s.giveUp()
	}
	if s.busy.Load() {
		r.Running = 1
		r.Abandoned = min(left, int(s.inHand.Load()))
	}
	back := int(s.requeued.Load() - requeued) // by their handlers
	r.Handled = int(s.acks.count()-before) - back
	r.Requeued = left - r.Abandoned + back
	s.c.requeued.Add(uint64(left))
	if held {
		r.Phase = "close"
		s.ch.close(context.Background())
	}
	r.Phase = "done"
}

// drain cancels, handles what was received, and gives back the rest with one
// nack. It returns false when the channel was lost meanwhile.
func (s *consumer) drain(deadline context.Context) bool {
	s.report.Phase = "cancel"
	s.cancelling.Store(true)
	err := s.cancelAll()
	s.cancelling.Store(false)
	if err != nil {
		return false
	}
	s.seal() // everything that the broker had sent is in the inbox
	s.report.Phase = "drain"
	settled := s.acks.whenSettled(uint64(s.box.received()))
	if !s.wait(s.worked, deadline) || !s.wait(settled, deadline) {
		return false
	}
	s.stopHandlers()
	s.grace()
	s.report.Phase = "return"
	return s.acks.finish(true) == nil
}

// force finishes the message in hand and leaves the rest to the closing of the
// channel, which ends the consumer and gives back in one step. A cancel first
// would make the next consumer of a single-active-consumer queue active while
// the messages are still here: it would begin with those after them.
func (s *consumer) force(deadline context.Context) bool {
	s.report.Phase = "drain"
	s.stopHandlers()
	if !s.wait(s.worked, deadline) {
		return false
	}
	s.grace()
	s.report.Phase = "return"
	s.seal()
	return s.acks.finish(false) == nil
}

// wait waits for done or the deadline; false when the channel was lost.
func (s *consumer) wait(done <-chan struct{}, deadline context.Context) bool {
	select {
	case <-done:
	case <-deadline.Done():
	case <-s.closes:
		return false
	}
	return true
}

// graceAfter is how long a handler has to return after its context was
// cancelled, for its outcome to count.
const graceAfter = 100 * time.Millisecond

// grace cancels the handlers' context and waits a moment for the one in hand.
func (s *consumer) grace() {
	s.cancel(ErrShutdownTimeout)
	t := time.NewTimer(graceAfter)
	defer t.Stop()
	select {
	case <-s.worked:
	case <-t.C:
	}
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
