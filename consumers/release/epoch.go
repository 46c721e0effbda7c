package release

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"time"
)

// rememberedRows is how many of the newest rows are remembered.
const rememberedRows = 200

// incarnation names the table's present life as far as the server tells. It
// differs after a truncation, a restore, or a restart of the server; it may also
// differ after less, and so it only decides what the rows leave open.
type incarnation struct {
	Table   string    `json:"table"`
	Started time.Time `json:"started"`
	// counter is the last id that was handed out, 0 where the server does not say.
	counter uint64
}

// same allows for an uptime that counts whole seconds.
func (i incarnation) same(other incarnation) bool {
	return i.Table == other.Table && i.Started.Sub(other.Started).Abs() <= 3*time.Second
}

// fingerprint tells a row from another one that has its id.
type fingerprint struct {
	ID      uint64 `json:"id"`
	Message uint64 `json:"message"` // FNV-1a of its bytes
	At      int64  `json:"at"`      // Unix microseconds
}

func fingerprintOf(r Row) fingerprint {
	return fingerprint{ID: r.ID, Message: fnv1a(r.Message), At: r.ChangedAt.UnixMicro()}
}

// fnv1a is hash/fnv's New64a without its allocation: it is on the path of every row.
func fnv1a(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// memory is the fingerprints of the rows with the highest ids that were seen,
// ascending. It is complete from its lowest id on: no row above that was seen
// and forgotten.
type memory struct{ rows []fingerprint }

// add remembers a row, and forgets the lowest where there are too many.
func (m *memory) add(f fingerprint) {
	n := len(m.rows)
	if n == 0 || m.rows[n-1].ID < f.ID {
		m.rows = append(m.rows, f)
	} else if i, ok := m.find(f.ID); ok {
		m.rows[i] = f
	} else if i > 0 || n < rememberedRows {
		m.rows = append(m.rows, fingerprint{})
		copy(m.rows[i+1:], m.rows[i:])
		m.rows[i] = f
	}
	// Forgetting many at once keeps adding cheap.
	if len(m.rows) >= 4*rememberedRows {
		m.rows = append(m.rows[:0], m.rows[len(m.rows)-rememberedRows:]...)
	}
}

func (m *memory) find(id uint64) (int, bool) {
	i := sort.Search(len(m.rows), func(i int) bool { return m.rows[i].ID >= id })
	return i, i < len(m.rows) && m.rows[i].ID == id
}

// newest is the part of the memory that is kept over a restart.
func (m *memory) newest() []fingerprint {
	return m.rows[max(0, len(m.rows)-rememberedRows):]
}

// knows says whether the row is remembered just as it is.
func (m *memory) knows(f fingerprint) bool {
	i, ok := m.find(f.ID)
	return ok && m.rows[i] == f
}

// bounds are the lowest id and the oldest stamp that are remembered.
func (m *memory) bounds() (lowest uint64, oldest int64) {
	for i, f := range m.rows {
		if i == 0 {
			lowest, oldest = f.ID, f.At
		}
		oldest = min(oldest, f.At)
	}
	return lowest, oldest
}

// cut forgets all rows above id.
func (m *memory) cut(id uint64) {
	i, ok := m.find(id)
	if ok {
		i++
	}
	m.rows = m.rows[:i]
}

// verdict is what the newest rows at or below the cursor say about the table.
type verdict struct {
	// epoch: the table has begun a new life; rows above from are to be read again.
	epoch bool
	from  uint64
	// changed are remembered rows that were changed in place.
	changed []Row
	// late are rows that came into a gap that had been given up.
	late []Row
	// anchor is the newest row that is there; its id is 0 where none is.
	anchor fingerprint
}

// stand is where a scanner stands when it judges.
type stand struct {
	anchor, cursor uint64
	life           incarnation
	// touches: an update changes a row's stamp. Elsewhere a new stamp is a new row.
	touches bool
	// ask gives the table's present incarnation. It is only asked where the
	// rows leave the matter open.
	ask func() (incarnation, error)
}

// judge compares the newest rows at or below the cursor, read in any order, with
// the memory. Rows in open gaps must not be among them.
//
// Ids that come back with other content are the sign of a new life. A row that
// is gone is none: cleaners delete. One row alone that changed while its
// neighbours and the table's incarnation did not was changed in place, if it was
// there at the last look: it is the anchor, or stands below rows that did not change.
func (m *memory) judge(rows []Row, at stand) (verdict, error) {
	var v verdict
	lowest, oldest := m.bounds()
	var same, changed, strange, below []Row
	var highestSame uint64
	for _, r := range rows {
		f := fingerprintOf(r)
		switch {
		case m.knows(f):
			same, highestSame = append(same, r), max(highestSame, r.ID)
		case len(m.rows) == 0 || r.ID < lowest:
			below = append(below, r)
		default:
			if _, ok := m.find(r.ID); ok {
				changed = append(changed, r)
			} else {
				strange = append(strange, r)
			}
		}
	}
	reused := len(changed) > 0
	for _, r := range strange {
		reused = reused || r.ID > highestSame
	}
	switch {
	case len(changed) == 1 && len(same) > 0 && !anyAbove(strange, highestSame) &&
		(changed[0].ID == at.anchor || changed[0].ID < highestSame):
		now, err := at.ask()
		if err != nil {
			return verdict{}, err
		}
		i, _ := m.find(changed[0].ID)
		stamped := m.rows[i].At != changed[0].ChangedAt.UnixMicro()
		reused = !now.same(at.life) || stamped && !at.touches && changed[0].ID > highestSame
	case !reused && len(same) == 0 && len(below) > 0 && len(m.rows) > 0:
		// All remembered rows are gone and older ids are there: a delete by
		// hand, or a new life of fewer rows than the last one.
		now, err := at.ask()
		if err != nil {
			return verdict{}, err
		}
		reused = now.counter < at.cursor
		if now.counter == 0 {
			reused = slices.ContainsFunc(below, func(r Row) bool { return r.ChangedAt.UnixMicro() > oldest })
		}
	}
	if reused {
		v.epoch = true
		v.from = commonPrefix(same, changed, strange)
		return v, nil
	}
	v.changed, v.late = changed, strange
	for _, r := range rows {
		if r.ID > v.anchor.ID {
			v.anchor = fingerprintOf(r)
		}
	}
	return v, nil
}

// commonPrefix is the highest id up to which a restored table is as remembered,
// or 0.
func commonPrefix(same []Row, others ...[]Row) uint64 {
	first := ^uint64(0)
	for _, rows := range others {
		for _, r := range rows {
			first = min(first, r.ID)
		}
	}
	var prefix uint64
	for _, r := range same {
		if r.ID < first {
			prefix = max(prefix, r.ID)
		}
	}
	return prefix
}

func anyAbove(rows []Row, id uint64) bool {
	for _, r := range rows {
		if r.ID > id {
			return true
		}
	}
	return false
}

// verify reads the newest rows at or below the cursor and judges by them.
func (s *Scanner) verify(ctx context.Context) error {
	rows, err := s.rows(ctx, "check the newest rows", s.db.q.below(rememberedRows), s.db.q.arg(s.cursor))
	if err != nil {
		return err
	}
	rows = slices.DeleteFunc(rows, func(r Row) bool { return s.gaps.contains(r.ID) })
	v, err := s.memory.judge(rows, stand{anchor: s.anchor.ID, cursor: s.cursor, life: s.life, touches: s.db.engine.touches(), ask: func() (incarnation, error) {
		err := s.renew(ctx)
		return s.life, err
	}})
	if err != nil {
		return err
	}
	if v.epoch {
		return s.beginEpoch(ctx, v.from)
	}
	s.anchor = v.anchor
	for _, r := range v.changed {
		s.memory.add(fingerprintOf(r))
		s.event(Event{Kind: EventChanged, From: r.ID, To: r.ID, Text: fmt.Sprintf("row %d was changed in place to %.200q", r.ID, r.Message)})
	}
	slices.Reverse(v.late)
	s.look()
	for _, r := range v.late {
		s.deliverLate(ctx, r)
	}
	return nil
}

// past is what is remembered of the last epoch.
type past struct {
	memory
	lowest uint64
	oldest int64
}

func newPast(m memory) *past {
	p := &past{memory: memory{rows: slices.Clone(m.rows)}}
	p.lowest, p.oldest = p.bounds()
	return p
}

// forgot says whether the row, by its id and stamp, may have been there before
// what is remembered. A stamp of whole seconds may be shared by chance.
func (p *past) forgot(f fingerprint) bool {
	shared := f.At == p.oldest && f.At%time.Second.Microseconds() != 0
	return f.ID < p.lowest && (f.At < p.oldest || shared)
}

// beginEpoch goes back to where the table is no longer as remembered.
func (s *Scanner) beginEpoch(ctx context.Context, from uint64) error {
	if err := s.renew(ctx); err != nil {
		return err
	}
	s.old = newPast(s.memory)
	s.memory.cut(from)
	s.epoch++
	lost := s.cursor
	s.cursor, s.anchor, s.gaps, s.startMax = from, fingerprint{}, gapSet{}, 0
	if i, ok := s.memory.find(from); ok {
		s.anchor = s.memory.rows[i]
	}
	s.event(Event{Kind: EventEpoch, From: from, To: lost,
		Text: fmt.Sprintf("the table was truncated or restored: epoch %d, reading again from id %d (was at %d)", s.epoch, from+1, lost)})
	return nil
}
