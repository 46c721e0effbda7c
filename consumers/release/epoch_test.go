package release

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

var testStamp = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func testRow(id uint64, message string, seconds int) Row {
	return Row{ID: id, Message: message, ChangedAt: testStamp.Add(time.Duration(seconds) * time.Second)}
}

func remembered(rows ...Row) *memory {
	m := &memory{}
	for _, r := range rows {
		m.add(fingerprintOf(r))
	}
	return m
}

func TestJudge(t *testing.T) {
	rows := []Row{testRow(10, "a", 0), testRow(11, "b", 1), testRow(12, "c", 2), testRow(15, "d", 3)}
	life := incarnation{Table: "t", Started: testStamp}
	restarted := incarnation{Table: "t", Started: testStamp.Add(time.Hour)}
	truncated := incarnation{Table: "t2", Started: testStamp}
	same := func(n int) []Row { return slices.Clone(rows[:n]) }
	with := func(list []Row, more ...Row) []Row { return append(slices.Clone(list), more...) }
	for _, c := range []struct {
		name   string
		rows   []Row
		anchor uint64
		now    incarnation
		epoch  bool
		from   uint64
		holds  uint64 // the new anchor
		change string
		late   string
		still  bool // an update leaves the stamp alone here
	}{
		{name: "all as remembered", rows: rows, anchor: 15, now: life, holds: 15},
		{name: "the newest was deleted", rows: same(3), anchor: 15, now: life, holds: 12},
		{name: "all but one were deleted", rows: same(1), anchor: 15, now: life, holds: 10},
		{name: "the table is empty", rows: nil, anchor: 15, now: life, holds: 0},
		{name: "the anchor changed in place", rows: with(same(3), testRow(15, "D", 9)), anchor: 15, now: life, holds: 15, change: "15"},
		{name: "the anchor is another row by its stamp", rows: with(same(3), testRow(15, "D", 9)), anchor: 15, now: life, still: true, epoch: true, from: 12},
		{name: "the anchor changed in place, with its stamp as it was", rows: with(same(3), testRow(15, "D", 3)), anchor: 15, now: life, still: true, holds: 15, change: "15"},
		{name: "the anchor changed and the server had restarted", rows: with(same(3), testRow(15, "D", 9)), anchor: 15, now: restarted, epoch: true, from: 12},
		{name: "the anchor changed and the table had been truncated", rows: with(same(3), testRow(15, "D", 9)), anchor: 15, now: truncated, epoch: true, from: 12},
		{name: "an id came back after it was gone", rows: with(same(3), testRow(15, "D", 9)), anchor: 12, now: life, epoch: true, from: 12},
		{name: "only the stamp of the anchor differs, nothing else is left", rows: []Row{testRow(15, "d", 4)}, anchor: 15, now: life, epoch: true},
		{name: "a row below changed in place", rows: []Row{rows[0], testRow(11, "B", 9), rows[2]}, anchor: 15, now: life, holds: 12, change: "11"},
		{name: "two rows changed", rows: []Row{rows[0], testRow(11, "B", 9), testRow(12, "C", 9)}, anchor: 12, now: life, epoch: true, from: 10},
		{name: "two rows changed below one that did not", rows: []Row{testRow(10, "A", 9), testRow(11, "B", 9), rows[2]}, anchor: 12, now: life, epoch: true},
		{name: "an unknown id above all that is left", rows: with(same(2), testRow(13, "x", 9)), anchor: 15, now: life, epoch: true, from: 11},
		{name: "an unknown id below a row that stayed", rows: with(rows, testRow(13, "x", 9)), anchor: 15, now: life, holds: 15, late: "13l"},
		{name: "older rows only, the counter goes on", rows: []Row{testRow(3, "x", -9)}, anchor: 15, now: incarnation{counter: 15}, holds: 3},
		{name: "older rows only, the counter began anew", rows: []Row{testRow(3, "x", -9)}, anchor: 15, now: incarnation{counter: 3}, epoch: true},
		{name: "older rows only, old by their stamps", rows: []Row{testRow(3, "x", -9)}, anchor: 15, now: life, holds: 3},
		{name: "older rows only, young by their stamps", rows: []Row{testRow(3, "x", 9)}, anchor: 15, now: life, epoch: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := remembered(rows...)
			rand.Shuffle(len(c.rows), func(i, j int) { c.rows[i], c.rows[j] = c.rows[j], c.rows[i] })
			v, err := m.judge(c.rows, stand{anchor: c.anchor, cursor: 15, life: life, touches: !c.still, ask: func() (incarnation, error) { return c.now, nil }})
			if err != nil {
				t.Fatal(err)
			}
			for i := range v.late {
				v.late[i].Late = true
			}
			if v.epoch != c.epoch || v.from != c.from || v.anchor.ID != c.holds || show(v.changed) != c.change || show(v.late) != c.late {
				t.Errorf("got %+v", v)
			}
		})
	}
	t.Run("the server does not answer", func(t *testing.T) {
		broken := fmt.Errorf("broken")
		ask := func() (incarnation, error) { return incarnation{}, broken }
		if _, err := remembered(rows...).judge(with(same(3), testRow(15, "D", 9)), stand{anchor: 15, cursor: 15, life: life, ask: ask}); err != broken {
			t.Errorf("error %v", err)
		}
	})
}

// Whatever order rows come in, the memory holds the highest ids and knows each.
func TestMemory(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var m memory
	for i := range 5000 {
		id := uint64(10*i + 10)
		if random.IntN(10) == 0 {
			id -= uint64(10 * random.IntN(min(i+1, 300)))
			id++
		}
		m.add(fingerprintOf(testRow(id, "m", i)))
		if !slices.IsSortedFunc(m.rows, func(a, b fingerprint) int { return int(int64(a.ID) - int64(b.ID)) }) {
			t.Fatal("out of order")
		}
		if len(m.rows) > 4*rememberedRows {
			t.Fatalf("%d rows are remembered", len(m.rows))
		}
	}
	newest := m.newest()
	if len(newest) != rememberedRows || newest[len(newest)-1].ID != 50000 {
		t.Fatalf("%d rows, the last is %d", len(newest), newest[len(newest)-1].ID)
	}
	for _, f := range newest {
		if !m.knows(f) || m.knows(fingerprint{ID: f.ID, Message: f.Message + 1, At: f.At}) {
			t.Fatalf("row %d is not known as it is", f.ID)
		}
	}
	m.cut(newest[50].ID)
	if last := m.rows[len(m.rows)-1].ID; last != newest[50].ID {
		t.Errorf("after the cut the last is %d, want %d", last, newest[50].ID)
	}
}
