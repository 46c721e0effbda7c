package release

import (
	"fmt"
	"testing"
)

func TestRowsComeInOrder(t *testing.T) {
	onEach(t, allKinds, func(t *testing.T, b *bench) {
		s := b.scanner()
		b.step(s)
		b.insert("a+default+x", "b+default+x", "c+default+x")
		b.step(s)
		b.want("1 2 3")
		b.step(s)
		b.want("1 2 3")
		if r := b.seen()[1]; r.Message != "b+default+x" || r.Database != b.db.Name() || r.Epoch != 1 {
			t.Errorf("row 2 is %+v", r)
		}
	})
}

func TestPagesUntilShort(t *testing.T) {
	for _, n := range []int{500, 501, 1000, 1250} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			onEach(t, allKinds, func(t *testing.T, b *bench) {
				s := b.scanner()
				b.step(s)
				before := s.Status()
				b.bulk(n)
				b.step(s)
				rows := b.seen()
				if len(rows) != n {
					t.Fatalf("delivered %d rows of %d", len(rows), n)
				}
				for i, r := range rows {
					if r.ID != uint64(i+1) {
						t.Fatalf("row %d has id %d", i, r.ID)
					}
				}
				if got, most := s.Status().Pages-before.Pages, uint64(n/pageSize+1); got > most {
					t.Errorf("took %d pages, want at most %d", got, most)
				}
			})
		})
	}
}

func TestLateRow(t *testing.T) {
	onEach(t, realKinds, func(t *testing.T, b *bench) {
		s := b.scanner()
		b.step(s)
		b.insert("first")
		slow := b.begin()
		slow.insert("slow")
		b.insert("quick")
		for range 6 {
			b.step(s)
		}
		b.want("1 3")
		if g := s.Status().Gaps; len(g) != 1 || g[0].Lo != 2 || g[0].Hi != 2 {
			t.Fatalf("open gaps %v, want 2 to 2", g)
		}
		for _, e := range b.events {
			if e.History {
				t.Errorf("a gap that opened while the scanner ran is told as history: %+v", e)
			}
		}
		slow.commit()
		b.step(s)
		b.step(s)
		b.want("1 3 2l")
		if st := s.Status(); st.GapsOpen != 0 {
			t.Errorf("gaps are still open: %+v", st)
		}
	})
}

func TestRollbackClosesByProof(t *testing.T) {
	onEach(t, realKinds, func(t *testing.T, b *bench) {
		s := b.scanner()
		b.step(s)
		b.insert("first")
		tx := b.begin()
		tx.insert("never")
		b.insert("third")
		b.step(s)
		tx.rollback()
		for range settleTicks {
			b.step(s)
		}
		b.want("1 3")
		if st := s.Status(); st.GapsOpen != 0 || st.Dead != 1 {
			t.Errorf("gaps open %d, dead %d, want 0 and 1", st.GapsOpen, st.Dead)
		}
	})
}
