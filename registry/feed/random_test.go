package feed

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Whatever rows come, each is told of exactly once, and the last line of a key has its highest id.
func TestEveryRowOnce(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			w := newWorld(t, Config{Capacity: 100_000})
			sent, top := map[string]int{}, map[string]uint64{}
			var held []uint64
			for id := uint64(1); id < 3000; id++ {
				if rng.IntN(20) == 0 {
					held = append(held, id) // committed later
					continue
				}
				k := fmt.Sprintf("app-%d+default+application", id%37)
				w.rows(row(id, k))
				sent[k]++
				top[k] = id
				if rng.IntN(10) == 0 {
					w.rest(time.Duration(rng.IntN(400)) * time.Millisecond)
				}
				if len(held) > 0 && rng.IntN(15) == 0 {
					late := row(held[0], fmt.Sprintf("app-%d+default+application", held[0]%37))
					late.Late = true
					w.rows(late)
					sent[late.Message]++
					top[late.Message] = max(top[late.Message], held[0])
					held = held[1:]
				}
			}
			w.rest(time.Second)
			got, highest := map[string]int{}, map[string]uint64{}
			lines, dropped := w.Lines(0, 100_000)
			for i, l := range lines {
				if l.Seq != uint64(i+1) || l.Status != Delivered || l.Delay < 500*time.Millisecond || l.Delay > 520*time.Millisecond {
					t.Fatalf("line %d: %+v", i, l)
				}
				got[l.Key] += l.Merged + 1
				v, err := strconv.ParseUint(l.Version, 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				highest[l.Key] = max(highest[l.Key], v)
			}
			for k, n := range sent {
				if got[k] != n || highest[k] != top[k] {
					t.Errorf("%s: lines tell of %d rows up to %d, sent were %d up to %d", k, got[k], highest[k], n, top[k])
				}
			}
			if dropped != 0 {
				t.Errorf("%d lines dropped", dropped)
			}
		})
	}
}

// However files and states change, the last line of a listener that was delivered tells how it stands now.
func TestLastLineTellsTheTruth(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 2))
			w := newWorld(t, Config{})
			listeners := []string{"A", "B", "C"}
			states := []string{"running", "draining", "stopped", "recovering"}
			insts := []string{"a:1:x", "b:2:x"}
			enabled := map[string]bool{"A": true, "B": true, "C": true}
			file := func() string {
				var s string
				for i, l := range listeners {
					s += entry(i, l, enabled[l])
				}
				return s
			}
			state := map[string]string{}
			w.file("app", file())
			for _, l := range listeners {
				for _, inst := range insts {
					state[l+inst] = "running"
					w.host("app", l, inst, "running")
				}
			}
			w.show()
			w.rest(time.Second)
			was := map[string]bool{"A": true, "B": true, "C": true}
			told := map[string]string{}
			for range 200 {
				l, inst := listeners[rng.IntN(3)], insts[rng.IntN(2)]
				switch rng.IntN(4) {
				case 0:
					enabled[l] = !enabled[l]
					w.file("app", file())
				case 1:
					state[l+inst] = states[rng.IntN(4)]
					w.host("app", l, inst, state[l+inst])
				}
				w.show()
				w.rest(time.Duration(rng.IntN(300)) * time.Millisecond)
			}
			w.rest(time.Second)
			lines, _ := w.Lines(0, 10_000)
			for _, line := range lines {
				switch {
				case line.Source == Toggle && line.Status == Delivered:
					from, to := "running → paused", false
					if !was[line.Listener] {
						from, to = "paused → running", true
					}
					if line.Text != from {
						t.Fatalf("%+v: want %q", line, from)
					}
					was[line.Listener] = to
				case line.Source == Consumer && line.Status == Delivered:
					for _, part := range strings.Split(line.Text, ", ") {
						move, where, _ := strings.Cut(part, " on ")
						_, to, _ := strings.Cut(move, " → ")
						for _, inst := range insts {
							if where == short(inst) || strings.HasSuffix(where, "instances") {
								told[line.Listener+inst] = to
							}
						}
					}
				}
			}
			for _, l := range listeners {
				if was[l] != enabled[l] {
					t.Errorf("%s: the lines end with enabled %v, the file says %v", l, was[l], enabled[l])
				}
				for _, inst := range insts {
					if got := told[l+inst]; got != "" && got != state[l+inst] {
						t.Errorf("%s on %s: the lines end with %s, it is %s", l, inst, got, state[l+inst])
					}
				}
			}
		})
	}
}
