package release

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// benchRows is how many rows a catch-up reads: BELAY_BENCH_ROWS, or a million.
func benchRows() int {
	if n, err := strconv.Atoi(os.Getenv("BELAY_BENCH_ROWS")); err == nil {
		return n
	}
	return 1_000_000
}

// fill writes n rows; every step-th id is used.
func (b *bench) fill(n, step int) {
	b.Helper()
	const batch = 5000
	tx := b.begin()
	for i := 0; i < n; i += batch {
		values := make([]string, 0, batch)
		for j := i; j < min(i+batch, n); j++ {
			values = append(values, fmt.Sprintf("(%d, 'app%d+default+application')", (j+1)*step, j%997))
		}
		if _, err := tx.tx.Exec(b.q(`INSERT INTO "ReleaseMessage" ("Id", "Message") VALUES ` + strings.Join(values, ", "))); err != nil {
			b.Fatal(err)
		}
	}
	tx.commit()
}

// BenchmarkCatchUp reads a long backlog with the scanner and with a bare loop of
// the same pages. It reports rows per second of both, and their ratio. The two
// take turns every few pages, so that both have their share of a machine's noise.
func BenchmarkCatchUp(b *testing.B) {
	for _, m := range makers {
		b.Run(m.kind, func(b *testing.B) {
			t := newBench(b, m.kind, m.make(b))
			n := benchRows()
			t.fill(n, 1)
			var scanner, bare time.Duration
			for b.Loop() {
				loop := &bareLoop{t: t}
				count, began := 0, time.Now()
				s := t.scanner(func(c *ScannerConfig) {
					c.LookBack = -1
					c.Listeners = []Listener{ListenerFunc(func(context.Context, Row) error {
						if count++; count%turn == 0 {
							scanner += time.Since(began)
							bare += loop.read(turn)
							began = time.Now()
						}
						return nil
					})}
				})
				t.step(s)
				scanner += time.Since(began)
				bare += loop.read(n)
				if count != n || loop.count != n {
					t.Fatalf("the scanner read %d rows, the loop %d, of %d", count, loop.count, n)
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/scanner.Seconds(), "rows/s")
			b.ReportMetric(float64(n)*float64(b.N)/bare.Seconds(), "bare-rows/s")
			b.ReportMetric(bare.Seconds()/scanner.Seconds(), "ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// turn is how many rows one reads before the other's turn. The scanner's pages
// ahead are read in the other's turn: 2 % of it.
const turn = 150 * pageSize

// bareLoop reads pages and does nothing else.
type bareLoop struct {
	t     *bench
	last  int64
	count int
	end   bool
}

// read reads about n rows, if so many are left, and gives how long it took.
func (l *bareLoop) read(n int) time.Duration {
	t := l.t
	query := t.q(fmt.Sprintf(`SELECT "Id", "Message", "DataChange_LastTime" FROM "ReleaseMessage" WHERE "Id" > %s ORDER BY "Id" LIMIT %d`, t.db.q.mark(1), pageSize))
	began := time.Now()
	for got := 0; got < n && !l.end; {
		rows, err := t.db.SQL().Query(query, l.last)
		if err != nil {
			t.Fatal(err)
		}
		page := 0
		for rows.Next() {
			var message string
			var at time.Time
			if err := rows.Scan(&l.last, &message, &at); err != nil {
				t.Fatal(err)
			}
			page++
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		_ = rows.Close() //nolint:sqlclosecheck // a deferred one would come after the last page
		got += page
		l.count += page
		l.end = page < pageSize
	}
	return time.Since(began)
}

// BenchmarkEmptyTick is a tick with nothing to read, and how often it asks.
func BenchmarkEmptyTick(b *testing.B) {
	for _, m := range makers {
		b.Run(m.kind, func(b *testing.B) {
			t := newBench(b, m.kind, m.make(b))
			t.fill(1000, 1)
			s := t.scanner()
			t.step(s)
			before := s.Status().Queries
			for b.Loop() {
				t.step(s)
			}
			b.ReportMetric(float64(s.Status().Queries-before)/float64(b.N), "queries/op")
		})
	}
}

// BenchmarkTenThousandGaps is a tick that has 10,000 open gaps to look after.
func BenchmarkTenThousandGaps(b *testing.B) {
	for _, m := range makers[1:] {
		b.Run(m.kind, func(b *testing.B) {
			t := newBench(b, m.kind, m.make(b))
			s := t.scanner(func(c *ScannerConfig) { c.MaxGaps = 20_000 })
			t.step(s)
			// Somebody holds on to the first id, and on PostgreSQL to the table.
			hold := t.begin()
			hold.insert("held")
			t.fill(10_000, 2)
			t.step(s)
			for b.Loop() {
				// On MySQL the proof would end them.
				for _, g := range s.gaps.gaps {
					g.ticks = -1
				}
				t.step(s)
			}
			b.ReportMetric(float64(s.Status().GapsOpen), "gaps")
		})
	}
}

// BenchmarkLatestAdd is a row of a key that nobody waits for.
func BenchmarkLatestAdd(b *testing.B) {
	l := NewLatest()
	defer l.Close()
	messages := make([]string, 10_000)
	for i := range messages {
		messages[i] = fmt.Sprintf("app%d+default+application", i)
	}
	i := uint64(0)
	for b.Loop() {
		i++
		l.add(Row{ID: i, Epoch: 1, Message: messages[i%10_000]})
	}
}
