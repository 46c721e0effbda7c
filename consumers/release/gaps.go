package release

import (
	"context"
	"slices"
	"sort"
	"time"
)

// Proof is how a gap ended, or how it stands.
type Proof string

// The proofs of a gap.
const (
	// ProofOpen: an insert may still fill it.
	ProofOpen Proof = "open"
	// ProofDead: its ids were rolled back, skipped or deleted; no insert that
	// took them is left.
	ProofDead Proof = "dead"
	// ProofLate: all its rows came.
	ProofLate Proof = "late"
	// ProofUnproven: it was given up because of its age, where the database
	// offers no proof.
	ProofUnproven Proof = "unproven"
	// ProofOverflow: it was given up to make room. Rows in it are lost to this
	// scanner; an alarm says so.
	ProofOverflow Proof = "overflow"
)

// rangesPerQuery bounds how many ranges one query names.
const rangesPerQuery = 100

// prover tells which gaps no insert can fill any more. It is used by the
// scanner's goroutine alone.
type prover interface {
	method() string
	// witness is read right after the page that showed a gap.
	witness(context.Context) (*holders, error)
	// judge sets the proof of gaps, the oldest first. Rows of a gap that is
	// judged dead are visible to every read that begins after judge returned.
	judge(context.Context, []*gap) error
}

// ageOnly proves nothing; gaps end by their age.
type ageOnly struct{ reason string }

func (a ageOnly) method() string { return "age: " + a.reason }

func (ageOnly) witness(context.Context) (*holders, error) { return nil, nil }

func (ageOnly) judge(context.Context, []*gap) error { return nil }

// gap is a run of ids, lo to hi, none of which was seen though a higher one was.
type gap struct {
	lo, hi    uint64
	firstSeen time.Time
	ticks     int // full ticks since
	holders   *holders
	proof     Proof
	alarmed   bool
}

// gapSet holds gaps in ascending order, disjoint.
type gapSet struct{ gaps []*gap }

// append adds a gap above all others.
func (s *gapSet) append(g *gap) { s.gaps = append(s.gaps, g) }

func (s *gapSet) find(id uint64) (int, bool) {
	i := sort.Search(len(s.gaps), func(i int) bool { return s.gaps[i].hi >= id })
	return i, i < len(s.gaps) && s.gaps[i].lo <= id
}

func (s *gapSet) contains(id uint64) bool {
	_, ok := s.find(id)
	return ok
}

// take splits the gap around id, which was found. last says that nothing is
// left of the gap. It gives nil where no gap holds id.
func (s *gapSet) take(id uint64) (g *gap, last bool) {
	i, ok := s.find(id)
	if !ok {
		return nil, false
	}
	g = s.gaps[i]
	var parts []*gap
	if g.lo < id {
		left := *g
		left.hi = id - 1
		parts = append(parts, &left)
	}
	if id < g.hi {
		right := *g
		right.lo = id + 1
		parts = append(parts, &right)
	}
	s.gaps = slices.Replace(s.gaps, i, i+1, parts...)
	return g, len(parts) == 0
}

// drop removes the gaps that end says are over, and gives them.
func (s *gapSet) drop(end func(*gap) bool) []*gap {
	var dropped []*gap
	s.gaps = slices.DeleteFunc(s.gaps, func(g *gap) bool {
		if end(g) {
			dropped = append(dropped, g)
			return true
		}
		return false
	})
	return dropped
}

// oldest gives the gaps by the time they were seen.
func (s *gapSet) oldest() []*gap {
	byAge := slices.Clone(s.gaps)
	slices.SortStableFunc(byAge, func(a, b *gap) int { return a.firstSeen.Compare(b.firstSeen) })
	return byAge
}
