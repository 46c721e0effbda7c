package change

import (
	"runtime/debug"
	"time"
)

// work is one worker of a shard. One worker at a time waits for the clock; the others wait for it to pass that
// office on, so that the next batch can be taken while this one is handed over.
func (s *shard) work(id uint8) {
	defer s.c.workers.Done()
	batch := make([]Delivery, 0, batchSize)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if s.aborted {
			s.stir()
			return
		}
		now := s.now()
		batch = s.take(id, now, batch[:0])
		if len(batch) > 0 {
			s.turn.Signal()
			s.mu.Unlock()
			s.c.hand(batch)
			s.mu.Lock()
			s.finish(batch)
			clear(batch)
			continue
		}
		if s.closed && s.npend == 0 && s.temps.len()+len(s.parked) == 0 {
			s.stir()
			return
		}
		if s.led {
			s.turn.Wait()
			continue
		}
		s.lead(timer, now)
	}
}

// stir makes every worker look again.
func (s *shard) stir() {
	s.turn.Broadcast()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// lead waits until the next key is due, or something else happens.
func (s *shard) lead(timer *time.Timer, now int64) {
	s.led = true
	s.sleeping = never
	if r := s.firstDue(); r != nil {
		s.sleeping = max(r.pend.due, s.nextLook)
	}
	d := time.Duration(s.sleeping - now)
	s.mu.Unlock()
	timer.Reset(d)
	select {
	case <-timer.C:
	case <-s.wake:
	}
	s.mu.Lock()
	s.led = false
	s.sleeping = 0 // nobody needs to be woken while a worker looks
}

// take removes what is due, settles it and appends it to out.
func (s *shard) take(id uint8, now int64, out []Delivery) []Delivery {
	if now < s.nextLook && !s.closed && s.temps.len() == 0 && s.queues[0].empty() {
		return out
	}
	for len(out) < batchSize && s.temps.len() > 0 {
		t := s.temps.pop()
		if t.rec.turn != 0 && t.rec.turn != id {
			s.parked = append(s.parked, t)
			continue
		}
		out = append(out, s.settleTemp(&t, now))
		t.rec.turn = id
	}
	for len(out) < batchSize {
		r := s.firstDue()
		if r == nil || r.pend.due > now && !s.closed {
			break
		}
		r.pend.q.remove(r)
		if r.turn == 0 || r.turn == id {
			out = append(out, s.settle(r, now))
			r.turn = id
		} // else finish puts it back when the key's turn ends
	}
	if len(out) > 0 {
		s.madeRoom()
		if len(out) < batchSize {
			s.nextLook = now + tick
		}
	}
	return out
}

// settle applies a pending list to the cached items and says what came of it.
func (s *shard) settle(r *record, now int64) Delivery {
	p := &r.pend
	events := p.events - p.stale - p.dropped
	d := Delivery{
		Key: r.key, Late: p.late, Reasons: p.reasons, Stale: int(p.stale), Dropped: int(p.dropped), Seq: p.seq,
		Prev: Datum{r.version, r.items}, Delay: time.Duration(now - p.first), Overdue: time.Duration(max(0, now-p.due)),
		rec: r, shard: s,
	}
	res := r.settle(now, now+int64(s.c.cfg.Tombstone), s.maxItems)
	r.items, r.tombs = res.items, res.tombs
	d.Outcome = r.outcome(res.changed)
	switch d.Outcome {
	case Delivered, Replayed, Cleaned:
		if p.local && r.floor > r.high { // a temporary event went ahead with a later version
			r.makeVersion(s.clock())
		}
		r.version = r.high
		r.floor = max(r.floor, r.high)
		r.delivered++
		r.deliveredAt = now
		s.count.Delivered++
		if d.Outcome == Cleaned { // what came after the clean left nothing to tell of
			d.Reasons = 1 << Clean
		}
	case Suppressed:
		if events > 0 {
			r.suppressed++
			s.count.Suppressed++
		}
	}
	if events > 0 {
		d.Merged = int(events - 1)
		s.count.Merged += uint64(events - 1)
	}
	s.count.Stale += uint64(p.stale)
	s.count.Suppressed += uint64(p.dropped)
	s.count.Pending -= uint64(p.events)
	d.Now = Datum{r.version, r.items}
	s.release(r)
	return d
}

func (r *record) outcome(changed bool) Outcome {
	p := &r.pend
	counted := p.events - p.stale - p.dropped
	switch {
	case counted == 0 && p.stale > 0:
		return Stale
	case p.existed && !r.exists:
		return Cleaned
	case !changed:
		return Suppressed
	case p.reasons&^(1<<Backup|1<<Clean) == 0:
		return Replayed
	}
	return Delivered
}

// release empties the list.
func (s *shard) release(r *record) {
	r.pend = pending{}
	r.waiting = false
	s.npend--
}

// settleTemp makes the view that a temporary event gives.
func (s *shard) settleTemp(t *temp, now int64) Delivery {
	r := t.rec
	var view []Item
	for i := range t.items {
		view = putItem(view, &t.items[i])
	}
	r.temps--
	r.delivered++
	s.count.Delivered++
	s.count.Pending--
	return Delivery{
		Key: r.key, Outcome: DeliveredTemp, Late: t.late, Reasons: 1 << PubTemp, Seq: t.seq,
		Prev: Datum{r.version, r.items}, Now: Datum{t.version, mergeItems(r.items, view)},
		Delay: time.Duration(now - t.first), rec: r, shard: s,
	}
}

// finish ends the turn of the keys of a batch.
func (s *shard) finish(batch []Delivery) {
	for i := range batch {
		r := batch[i].rec
		r.turn = 0
		if r.waiting && r.pend.q == nil {
			s.queues[0].push(r)
		}
	}
	if len(s.parked) > 0 {
		again := s.parked
		s.parked = nil
		for s.temps.len() > 0 {
			again = append(again, s.temps.pop())
		}
		for _, t := range again {
			s.temps.push(t)
		}
	}
}

// hand gives a batch to the observer and to the notifiers' mailboxes.
func (c *Center) hand(batch []Delivery) {
	at := c.wall()
	for i := range batch {
		batch[i].At = at
	}
	if c.cfg.Observe != nil {
		for i := range batch {
			c.observe(&batch[i])
		}
	}
	for _, n := range c.notifiers {
		n.post(batch)
	}
}

// observe calls the observer; its panic must not take the shard down.
func (c *Center) observe(d *Delivery) {
	defer func() {
		if v := recover(); v != nil {
			c.cfg.Logger.Error("change: observer panicked", "key", d.Key.String(), "panic", v, "stack", string(debug.Stack()))
		}
	}()
	c.cfg.Observe(*d)
}
