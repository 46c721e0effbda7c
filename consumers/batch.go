package consumers

import "time"

// workBatches is work for a [BatchHandler].
func (s *consumer) workBatches() {
	defer close(s.worked)
	var held []*Delivery
	row := 0 // batches that went back, in part at least, one after the other
	for {
		more, ok := s.box.take(nil, &s.halting)
		if !ok {
			return
		}
		s.begin()
		for held = s.fill(more); len(held) > 0; {
			if s.halting.Load() {
				s.rest()
				return
			}
			n := min(len(held), s.c.cfg.BatchSize)
			s.inHand.Store(int32(n))
			before := s.requeued.Load()
			s.handleBatch(held[:n:n])
			s.inHand.Store(0)
			row = s.backOff(row, s.requeued.Load() > before)
			if held = held[n:]; len(held) > 0 {
				held = s.fill(held)
			}
		}
		s.rest()
	}
}

// fill waits until a batch is full, the batch timeout has passed, or nothing
// more will come.
func (s *consumer) fill(held []*Delivery) []*Delivery {
	if len(held) >= s.c.cfg.BatchSize {
		return held
	}
	timeout := time.NewTimer(s.c.cfg.BatchTimeout)
	defer timeout.Stop()
	for len(held) < s.c.cfg.BatchSize {
		more, ok := s.box.tryTake(nil)
		if !ok {
			return held
		}
		if held = append(held, more...); len(more) > 0 {
			continue
		}
		select {
		case <-s.box.wake:
		case <-timeout.C:
			return held
		case <-s.halt:
			return held
		}
	}
	return held
}

func (s *consumer) handleBatch(batch []*Delivery) {
	ready := batch[:0:len(batch)]
	for _, d := range batch {
		if s.c.cfg.AckMode == AckNone && s.settle(d.DeliveryTag, acked) != nil {
			continue // the broker has it back
		}
		ready = append(ready, d)
	}
	if len(ready) == 0 {
		return
	}
	err := s.attempts(func() error { return s.callBatch(ready) })
	for _, d := range ready {
		s.conclude(d, err)
	}
}

func (s *consumer) callBatch(batch []*Delivery) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = s.panicked(batch[0].Queue, v)
		}
	}()
	return s.c.batch(s.ctx, batch)
}
