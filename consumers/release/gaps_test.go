package release

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// A set of gaps behaves as the plain set of its ids.
func TestGapSet(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for round := range 200 {
		var s gapSet
		ids := map[uint64]bool{}
		next := uint64(1)
		for range 60 {
			switch random.IntN(3) {
			case 0:
				lo := next + uint64(random.IntN(4))
				hi := lo + uint64(random.IntN(6))
				s.append(&gap{lo: lo, hi: hi, firstSeen: testStamp.Add(time.Duration(lo))})
				for id := lo; id <= hi; id++ {
					ids[id] = true
				}
				next = hi + 2
			case 1:
				id := uint64(random.IntN(int(next) + 5))
				before := len(s.gaps)
				g, last := s.take(id)
				if (g != nil) != ids[id] {
					t.Fatalf("round %d: took %d: %v", round, id, g)
				}
				if last != (g != nil && len(s.gaps) < before) {
					t.Fatalf("round %d: last is %t, gaps %d to %d", round, last, before, len(s.gaps))
				}
				delete(ids, id)
			case 2:
				odd := uint64(random.IntN(7))
				for _, g := range s.drop(func(g *gap) bool { return g.lo%7 == odd }) {
					for id := g.lo; id <= g.hi; id++ {
						if !ids[id] {
							t.Fatalf("dropped %d, which was not there", id)
						}
						delete(ids, id)
					}
				}
			}
			count := 0
			for i, g := range s.gaps {
				if g.hi < g.lo || i > 0 && g.lo <= s.gaps[i-1].hi {
					t.Fatalf("round %d: gaps overlap: %s", round, spans(s.gaps))
				}
				count += int(g.hi - g.lo + 1)
			}
			if count != len(ids) {
				t.Fatalf("round %d: %d ids in %s, want %d", round, count, spans(s.gaps), len(ids))
			}
			for id := range next + 3 {
				if s.contains(id) != ids[id] {
					t.Fatalf("round %d: contains %d: %t", round, id, !ids[id])
				}
			}
		}
	}
}

func spans(gaps []*gap) (text string) {
	for _, g := range gaps {
		text += fmt.Sprintf(" %d-%d", g.lo, g.hi)
	}
	return text
}

// A prepared transaction goes on under another name.
func TestHolders(t *testing.T) {
	set := func(ids ...string) map[string]bool {
		m := map[string]bool{}
		for _, id := range ids {
			m[id] = true
		}
		return m
	}
	for _, c := range []struct {
		name                 string
		held, previous, list map[string]bool
		want                 int
	}{
		{"all gone", set("3/1", "4/2"), set("3/1", "4/2"), set(), 0},
		{"others came", set("3/1"), set("3/1"), set("5/9"), 0},
		{"one stays", set("3/1", "4/2"), set("3/1", "4/2"), set("4/2", "7/7"), 1},
		{"one was prepared", set("3/1"), set("3/1"), set("-1/700"), 1},
		{"an older prepared one is not ours", set("3/1"), set("3/1", "-1/600"), set("-1/600"), 0},
		{"the prepared one committed", set("-1/700"), set("-1/700"), set("-1/800"), 0},
	} {
		h := &holders{ids: c.held}
		h.keep(c.list, c.previous)
		if len(h.ids) != c.want {
			t.Errorf("%s: holders %v, want %d", c.name, h.ids, c.want)
		}
	}
}
