package release

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"
)

// Whatever happens to the table between two ticks, after a tick every row that
// is there has been delivered, and none twice but for marked replays.
func TestTableChaos(t *testing.T) {
	seeds := uint64(6)
	if os.Getenv("BELAY_TEST_SOAK") == "1" {
		seeds = 150
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			b := newBench(t, "sqlite", makers[0].make(t))
			random := rand.New(rand.NewPCG(seed, 7))
			s := b.scanner()
			b.step(s)
			made := 0
			insert := func(n int) {
				tx := b.begin()
				for range n {
					made++
					tx.insert(fmt.Sprintf("app%d+default+x", made))
				}
				tx.commit()
			}
			var history []string
			for range 60 {
				for range 1 + random.IntN(2) {
					op := random.IntN(10)
					history = append(history, fmt.Sprint(op))
					switch {
					case op < 4:
						insert(random.IntN(40))
					case op == 4:
						insert(500 + random.IntN(700))
					case op == 5: // a cleaner, or a person
						b.exec(fmt.Sprintf(`DELETE FROM "ReleaseMessage" WHERE "Id" %% 5 = %d`, random.IntN(5)))
					case op == 6: // the newest rows
						b.exec(fmt.Sprintf(`DELETE FROM "ReleaseMessage" WHERE "Id" > (SELECT MAX("Id") - %d FROM "ReleaseMessage")`, random.IntN(300)))
					case op == 7:
						b.truncate()
						insert(random.IntN(60))
					case op == 8: // back to an earlier state, and on from there
						b.exec(fmt.Sprintf(`DELETE FROM "ReleaseMessage" WHERE "Id" > (SELECT MAX("Id") - %d FROM "ReleaseMessage")`, random.IntN(100)))
						b.exec(`UPDATE sqlite_sequence SET seq = COALESCE((SELECT MAX("Id") FROM "ReleaseMessage"), 0)`)
						insert(random.IntN(150))
					}
				}
				b.step(s)
				rows, err := b.db.Recent(t.Context(), time.Unix(1, 0), 1_000_000)
				if err != nil {
					t.Fatal(err)
				}
				delivered := map[string]int{}
				for _, r := range b.seen() {
					if delivered[r.Message]++; delivered[r.Message] > 1 && !r.Replay {
						t.Fatalf("%s came twice; ops %v", r.Message, history)
					}
				}
				for _, r := range rows {
					if delivered[r.Message] == 0 {
						t.Fatalf("row %d (%s) of %d (%d to %d) was missed; position %v, anchor %d, memory %d to %d, ops %v, events %v", r.ID, r.Message, len(rows), rows[0].ID, rows[len(rows)-1].ID, s.Status().Position, s.anchor.ID, s.memory.newest()[0].ID, s.cursor, history, b.events[max(0, len(b.events)-6):])
					}
				}
			}
			if s.Status().Epoch < 2 {
				t.Error("no epoch began")
			}
		})
	}
}
