package release

import (
	"context"
	"fmt"
	"time"
)

// tick reads pages until one is short, then looks after the open gaps.
func (s *Scanner) tick(ctx context.Context) error {
	fresh := s.status.Attempts > 0 || !s.started
	if err := s.prepare(ctx); err != nil {
		return err
	}
	for _, g := range s.gaps.gaps {
		g.ticks++
	}
	if err := s.readPages(ctx); err != nil {
		return err
	}
	if err := s.mindGaps(ctx); err != nil {
		return err
	}
	if !fresh {
		return nil
	}
	// The table was found as it was left, so this server's life is the one to
	// compare with from now on.
	return s.renew(ctx)
}

// prepare does what comes before the pages of some ticks.
func (s *Scanner) prepare(ctx context.Context) error {
	if !s.started {
		if err := s.start(ctx); err != nil {
			return err
		}
		s.started = true
	} else if s.status.Attempts > 0 {
		// Another server may answer now.
		if err := s.meet(ctx); err != nil {
			return err
		}
	}
	if s.status.Phase == PhaseHolding {
		s.status.Phase = PhaseReading
	}
	if s.status.Ticks%surveyTicks == 0 {
		return s.survey(ctx)
	}
	return nil
}

// readPages reads and hands over until a page is short, or there is no room for gaps.
func (s *Scanner) readPages(ctx context.Context) error {
	defer s.dropAhead()
	verifies, began := 0, time.Now()
	for !s.full(ctx) {
		page, err := s.page(ctx)
		if err != nil {
			return err
		}
		if s.suspicious(page) {
			s.dropAhead()
			if verifies++; verifies > maxVerifies {
				// It changes faster than it can be read; the next tick goes on.
				return nil
			}
			if err := s.verify(ctx); err != nil {
				return err
			}
			continue
		}
		if news := len(page) > 0 && page[len(page)-1].ID > s.cursor; news && s.surveyed.Before(began) {
			if err := s.survey(ctx); err != nil {
				return err
			}
			began = s.surveyed // once in a tick
		}
		more := len(page) >= pageSize
		if more {
			s.readAhead(ctx, page[len(page)-1].ID)
		}
		if err := s.take(ctx, page); err != nil {
			return err
		}
		s.recovered()
		s.status.ReadAt = time.Now()
		if !more {
			s.old = nil
			return nil
		}
		s.status.Phase = PhaseReading
		s.publish()
	}
	return nil
}

func (s *Scanner) renew(ctx context.Context) error {
	return s.query(ctx, "ask for the table's life", func(ctx context.Context) (err error) {
		s.life, err = s.db.engine.incarnation(ctx, s.db)
		return err
	})
}

// start finds the position to begin at.
func (s *Scanner) start(ctx context.Context) error {
	// The survey comes first: it says plainly when there is no table.
	if err := s.survey(ctx); err != nil {
		return err
	}
	if err := s.meet(ctx); err != nil {
		return err
	}
	s.startMax = s.status.Newest
	if s.replay = s.loadCheckpoint(); !s.replay {
		s.cursor = 0
		if back := uint64(s.cfg.LookBack); s.cfg.LookBack != allLookBack && s.startMax > back {
			s.cursor = s.startMax - back
			// The row to hold the table by; it was there before.
			rows, err := s.rows(ctx, "start", s.db.q.below(1), s.db.q.arg(s.cursor))
			if err != nil {
				return err
			}
			for _, r := range rows {
				s.anchor = fingerprintOf(r)
			}
		}
	}
	if s.cfg.Latest == nil {
		return nil
	}
	return s.loadLatest(ctx)
}

// meet asks the server what it can do.
func (s *Scanner) meet(ctx context.Context) error {
	before := ""
	if s.prover != nil {
		before = s.prover.method()
	}
	err := s.query(ctx, "start", func(ctx context.Context) (err error) {
		if s.prover, err = s.db.engine.prover(ctx, s.db); err != nil {
			return err
		}
		if s.fold, err = s.db.engine.foldsCase(ctx, s.db); err != nil {
			return err
		}
		if !s.started {
			s.life, err = s.db.engine.incarnation(ctx, s.db)
		}
		return err
	})
	if err != nil {
		return err
	}
	if a, ok := s.prover.(ageOnly); ok && a.method() != before {
		s.event(Event{Kind: EventAlarm, Text: fmt.Sprintf("gaps cannot be proven dead here and are given up after %s: %s", s.cfg.UnprovenAfter, a.reason)})
	}
	return nil
}

// suspicious says whether the table is not as it was left at and below the
// cursor: the anchor is gone or changed, or a row has come where none may come.
func (s *Scanner) suspicious(page []Row) bool {
	if s.anchor.ID > 0 && (len(page) == 0 || fingerprintOf(page[0]) != s.anchor) {
		return true
	}
	for _, r := range page {
		if r.ID > s.cursor {
			break
		}
		if f := fingerprintOf(r); f != s.anchor && !s.memory.knows(f) && !s.gaps.contains(r.ID) {
			return true
		}
	}
	return false
}

// take delivers the rows of a page and opens gaps for the ids that are missing.
func (s *Scanner) take(ctx context.Context, page []Row) error {
	var h *holders
	if s.missing(page) {
		err := s.query(ctx, "note who may fill a gap", func(ctx context.Context) (err error) {
			h, err = s.prover.witness(ctx)
			return err
		})
		if err != nil {
			return err
		}
	}
	s.look()
	for _, r := range page {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		switch {
		case r.ID <= s.cursor:
			if s.gaps.contains(r.ID) {
				s.deliverLate(ctx, r)
			}
			s.anchor = fingerprintOf(r)
			continue
		case r.ID > s.cursor+1:
			s.openGap(r, h)
		}
		f := fingerprintOf(r)
		if s.old == nil || !s.old.knows(f) {
			r.History = r.ID <= s.startMax && !s.replay
			r.Replay = r.ID <= s.startMax && s.replay || s.old != nil && s.old.forgot(f)
			s.deliver(ctx, r)
		}
		s.memory.add(f)
		s.cursor, s.anchor = r.ID, f
	}
	return nil
}

// missing says whether ids are missing between the page's new rows.
func (s *Scanner) missing(page []Row) bool {
	last := s.cursor
	for i := range page {
		if page[i].ID > last+1 {
			return true
		}
		last = max(last, page[i].ID)
	}
	return false
}

// openGap notes the ids that are missing below r. What has stood above them for
// a while shows that they were taken that long ago.
func (s *Scanner) openGap(r Row, h *holders) {
	g := &gap{lo: s.cursor + 1, hi: r.ID - 1, firstSeen: time.Now(), holders: h, proof: ProofOpen}
	if s.clock.Sub(r.ChangedAt) > settled {
		g.ticks = settleTicks
	}
	s.gaps.append(g)
	s.event(Event{Kind: EventGapOpened, From: g.lo, To: g.hi, Proof: ProofOpen, Text: "missing " + span(g.lo, g.hi)})
}

// settled is the age of a row below which no INSERT can be between its id and
// its row.
const settled = time.Minute

func span(lo, hi uint64) string {
	if lo == hi {
		return fmt.Sprintf("id %d", lo)
	}
	return fmt.Sprintf("ids %d to %d", lo, hi)
}

// deliverLate delivers a row of an open gap.
func (s *Scanner) deliverLate(ctx context.Context, r Row) {
	r.Late = true
	s.deliver(ctx, r)
	f := fingerprintOf(r)
	s.memory.add(f)
	if r.ID > s.anchor.ID {
		s.anchor = f
	}
	if g, last := s.gaps.take(r.ID); last {
		s.closed(g, ProofLate)
	}
}

func (s *Scanner) closed(g *gap, p Proof) {
	switch p {
	case ProofDead:
		s.status.Dead++
	case ProofUnproven:
		s.status.Unproven++
	case ProofOverflow:
		s.status.Overflown++
	}
	s.event(Event{Kind: EventGapClosed, From: g.lo, To: g.hi, Proof: p,
		Text: fmt.Sprintf("%s: %s after %s", span(g.lo, g.hi), p, time.Since(g.firstSeen).Round(time.Millisecond))})
}

// full says whether there is no room for the gaps that another page may open,
// after it tried to make some.
func (s *Scanner) full(ctx context.Context) bool {
	if len(s.gaps.gaps)+pageSize <= s.cfg.MaxGaps {
		return false
	}
	if err := s.mindGaps(ctx); err != nil {
		return true // the tick ends with the same query, and reports it
	}
	over := len(s.gaps.gaps) + pageSize - s.cfg.MaxGaps
	if over <= 0 {
		return false
	}
	given := map[*gap]bool{}
	for _, g := range s.gaps.oldest()[:min(over, len(s.gaps.gaps))] {
		if time.Since(g.firstSeen) >= s.cfg.AlarmAfter {
			given[g] = true
		}
	}
	if len(given) == 0 {
		s.status.Phase = PhaseHolding
		return true
	}
	dropped := s.gaps.drop(func(g *gap) bool { return given[g] })
	for _, g := range dropped {
		s.closed(g, ProofOverflow)
	}
	s.event(Event{Kind: EventAlarm, From: dropped[0].lo, To: dropped[len(dropped)-1].hi,
		Text: fmt.Sprintf("%d open gaps were given up because more than %d are open; rows that are committed in them later will be missed", len(dropped), s.cfg.MaxGaps)})
	return len(s.gaps.gaps)+pageSize > s.cfg.MaxGaps
}

// mindGaps reads the open gaps again and closes those that are over. The
// judgement comes before the reads, so that a row which came in between is seen.
func (s *Scanner) mindGaps(ctx context.Context) error {
	if len(s.gaps.gaps) == 0 {
		return nil
	}
	byAge := s.gaps.oldest()
	err := s.query(ctx, "judge the gaps", func(ctx context.Context) error { return s.prover.judge(ctx, byAge) })
	if err != nil {
		return err
	}
	_, proofless := s.prover.(ageOnly)
	for _, g := range byAge {
		if proofless && g.proof == ProofOpen && time.Since(g.firstSeen) >= s.cfg.UnprovenAfter {
			g.proof = ProofUnproven
		}
	}
	if err := s.readGaps(ctx); err != nil {
		return err
	}
	for _, g := range s.gaps.drop(func(g *gap) bool { return g.proof != ProofOpen }) {
		s.closed(g, g.proof)
	}
	if proofless {
		return nil // that they stay open is no news
	}
	for _, g := range s.gaps.gaps {
		if age := time.Since(g.firstSeen); !g.alarmed && age >= s.cfg.AlarmAfter {
			g.alarmed = true
			s.event(Event{Kind: EventAlarm, From: g.lo, To: g.hi, Proof: ProofOpen,
				Text: fmt.Sprintf("%s still open after %s: a transaction holds on to them", span(g.lo, g.hi), age.Round(time.Second))})
		}
	}
	return nil
}

// readGaps delivers what has come into the open gaps.
func (s *Scanner) readGaps(ctx context.Context) error {
	if _, ok := s.prover.(oneWriter); ok {
		return nil
	}
	open := append([]*gap(nil), s.gaps.gaps...)
	for len(open) > 0 {
		n := min(len(open), rangesPerQuery)
		query, args := s.db.engine.ranges(s.db.q, open[:n])
		rows, err := s.rows(ctx, "read gaps", query, args...)
		if err != nil {
			return err
		}
		open = open[n:]
		s.look()
		for _, r := range rows {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			s.deliverLate(ctx, r)
		}
	}
	return nil
}
