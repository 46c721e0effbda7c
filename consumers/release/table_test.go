package release

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// A row may become visible at any time after rows with higher ids.
func TestLateRowAfterAnyDelay(t *testing.T) {
	delays := []time.Duration{500 * time.Millisecond}
	if os.Getenv("BELAY_TEST_SOAK") == "1" {
		delays = append(delays, 5*time.Second, 15*time.Second, 90*time.Second)
	}
	for _, delay := range delays {
		t.Run(delay.String(), func(t *testing.T) {
			onEach(t, realKinds, func(t *testing.T, b *bench) {
				s := b.scanner()
				b.step(s)
				b.start(s)
				b.insert("first")
				slow := b.begin()
				slow.insert("slow")
				b.insert("quick")
				b.wait("rows 1 and 3", func() bool { return len(b.seen()) == 2 })
				time.Sleep(delay)
				b.want("1 3")
				slow.commit()
				b.wait("the late row", func() bool { return len(b.seen()) == 3 })
				b.wait("the gap's end", func() bool { return s.Status().GapsOpen == 0 })
				b.want("1 3 2l")
			})
		})
	}
}

func TestTransactionOpenForEver(t *testing.T) {
	onEach(t, realKinds, func(t *testing.T, b *bench) {
		s := b.scanner(func(c *ScannerConfig) { c.AlarmAfter = 200 * time.Millisecond })
		b.step(s)
		stuck := b.begin()
		stuck.insert("stuck")
		b.insert("second")
		b.steps(s, 5)
		b.noEvents(s, EventAlarm)
		time.Sleep(250 * time.Millisecond)
		b.steps(s, 3)
		alarms := b.seenEvents(EventAlarm)
		if len(alarms) != 1 || alarms[0].From != 1 || !strings.Contains(alarms[0].Text, "id 1 still open") {
			t.Errorf("alarms %v, want one about id 1", alarms)
		}
		b.insert("third")
		b.step(s)
		b.want("2 3")
		if st := s.Status(); st.GapsOpen != 1 || st.Gaps[0].Lo != 1 {
			t.Errorf("gaps %+v, want id 1", st.Gaps)
		}
	})
}

func TestInsertOpenAtStart(t *testing.T) {
	onEach(t, realKinds, func(t *testing.T, b *bench) {
		b.insert("first")
		slow := b.begin()
		slow.insert("slow")
		b.insert("third")
		s := b.scanner()
		b.steps(s, settleTicks+1)
		b.want("1h 3h")
		for _, e := range b.events {
			if e.Kind == EventGapOpened && !e.History {
				t.Errorf("the gap was there before the scanner began, but is told as news: %+v", e)
			}
		}
		slow.commit()
		b.steps(s, 2)
		b.want("1h 3h 2l")
	})
}

func TestWideJumpIsOneGap(t *testing.T) {
	onEach(t, allKinds, func(t *testing.T, b *bench) {
		s := b.scanner()
		b.step(s)
		b.insertAs(1, "a+b+c")
		b.step(s)
		b.insertAs(5_000_001, "a+b+c")
		b.insertAs(4_000_000_000, "a+b+c")
		began := time.Now()
		b.step(s)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the tick took %s", took)
		}
		b.want("1 5000001 4000000000")
		if opened := b.seenEvents(EventGapOpened); len(opened) != 2 {
			t.Errorf("opened %v, want two gaps", opened)
		}
		b.steps(s, settleTicks)
		if st := s.Status(); st.GapsOpen != 0 || st.Dead != 2 {
			t.Errorf("gaps open %d, dead %d, want 0 and 2", st.GapsOpen, st.Dead)
		}
	})
}

func TestTwoWritersWithIncrementTwo(t *testing.T) {
	onEach(t, realKinds, func(t *testing.T, b *bench) {
		s := b.scanner()
		b.step(s)
		setup := func(offset int) []string {
			if b.kind == "mysql" {
				return []string{"SET SESSION auto_increment_increment = 2", fmt.Sprintf("SET SESSION auto_increment_offset = %d", offset)}
			}
			return nil
		}
		if b.kind == "postgres" {
			b.exec(`ALTER SEQUENCE "ReleaseMessage_Id_seq" INCREMENT BY 2`)
		}
		first, second := b.conn(setup(1)...), b.conn(setup(2)...)
		for i := range 20 {
			c := first
			if i%3 == 0 {
				c = second
			}
			if _, err := c.ExecContext(t.Context(), b.db.q.insert, "a+b+c"); err != nil {
				t.Fatal(err)
			}
			if i%4 == 0 {
				b.step(s)
			}
		}
		b.steps(s, settleTicks+2)
		ids := map[uint64]int{}
		for _, r := range b.seen() {
			ids[r.ID]++
		}
		for id, n := range ids {
			if n > 1 {
				t.Errorf("row %d came %d times", id, n)
			}
		}
		if len(ids) != 20 {
			t.Errorf("%d rows came of 20", len(ids))
		}
		if st := s.Status(); st.GapsOpen != 0 {
			t.Errorf("%d gaps are open", st.GapsOpen)
		}
	})
}

func TestCleanerBeforeTheScan(t *testing.T) {
	onEach(t, allKinds, func(t *testing.T, b *bench) {
		s := b.scanner()
		b.step(s)
		ids := b.insert("a+b+c", "x+y+z", "a+b+c", "a+b+c")
		n, err := NewCleaner(b.db, CleanerConfig{}).Clean(t.Context(), Sent{ID: ids[3], Message: "a+b+c"})
		if err != nil || n != 2 {
			t.Fatalf("cleaned %d rows, %v; want 2", n, err)
		}
		b.steps(s, settleTicks+1)
		b.want("2 4")
		b.noEvents(s, EventAlarm, EventEpoch)
	})
}

func TestTruncate(t *testing.T) {
	onEach(t, allKinds, func(t *testing.T, b *bench) {
		s := b.scanner()
		b.bulk(20)
		b.step(s)
		b.truncate()
		b.step(s)
		b.insert("new+default+x")
		b.step(s)
		b.step(s)
		rows := b.seen()
		if got := show(rows[20:]); got != "2/1" {
			t.Fatalf("delivered %q after the truncation, want 2/1; %v", got, b.events)
		}
		if e := b.seenEvents(EventEpoch); len(e) != 1 || s.Status().Epoch != 2 {
			t.Errorf("events %v, epoch %d, want one and 2", e, s.Status().Epoch)
		}
	})
}

// All that was remembered is gone, and what is there is older than it by its
// id, but younger by its stamp.
func TestTruncateAfterManyRows(t *testing.T) {
	onEach(t, allKinds, func(t *testing.T, b *bench) {
		s := b.scanner(func(c *ScannerConfig) { c.LookBack = -1 })
		b.bulk(1200)
		b.step(s)
		b.truncate()
		b.insert("new+default+x", "new+default+y")
		b.steps(s, 2)
		if got := show(b.seen()[1200:]); got != "2/1 2/2" {
			t.Errorf("delivered %q after the truncation, want 2/1 2/2; %v", got, b.seenEvents(EventEpoch))
		}
	})
}

func TestTruncateAndRefillBetweenTicks(t *testing.T) {
	for _, n := range []int{30, 900} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			onEach(t, allKinds, func(t *testing.T, b *bench) {
				s := b.scanner()
				b.bulk(25)
				b.step(s)
				b.truncate()
				tx := b.begin()
				for i := range n {
					tx.insert(fmt.Sprintf("new%d+default+x", i))
				}
				tx.commit()
				b.steps(s, 2)
				rows := b.seen()[25:]
				if len(rows) != n || rows[0].Epoch != 2 || rows[0].ID != 1 || rows[n-1].ID != uint64(n) {
					t.Errorf("delivered %q of %d", show(rows), n)
				}
				if e := b.seenEvents(EventEpoch); len(e) != 1 {
					t.Errorf("epoch events %v, want one", e)
				}
			})
		})
	}
}

// A backup brings the first rows back as they were; only what differs is news.
func TestRestoreFromBackup(t *testing.T) {
	onEach(t, allKinds, func(t *testing.T, b *bench) {
		s := b.scanner()
		b.bulk(30)
		b.step(s)
		b.exec(b.q(`DELETE FROM "ReleaseMessage" WHERE "Id" > 20`))
		b.step(s)
		b.noEvents(s, EventEpoch)
		for id := range int64(5) {
			b.insertAs(21+id, fmt.Sprintf("other%d+default+x", id))
		}
		b.steps(s, 2)
		if got := show(b.seen()[30:]); got != "2/21 2/22 2/23 2/24 2/25" {
			t.Errorf("delivered %q after the restore", got)
		}
	})
}

func TestNewestRowsDeleted(t *testing.T) {
	for _, above := range []int{9, 5, 0} {
		t.Run(fmt.Sprintf("above %d", above), func(t *testing.T) {
			onEach(t, allKinds, func(t *testing.T, b *bench) {
				s := b.scanner()
				b.step(s)
				b.bulk(10)
				b.step(s)
				b.exec(b.q(fmt.Sprintf(`DELETE FROM "ReleaseMessage" WHERE "Id" > %d`, above)))
				b.steps(s, 2)
				b.insert("next+default+x")
				b.steps(s, 2)
				b.want("1 2 3 4 5 6 7 8 9 10 11")
				b.noEvents(s, EventEpoch, EventAlarm)
			})
		})
	}
}

// Very many of the newest rows are deleted by hand: what is left was seen long ago.
func TestAllRememberedRowsDeleted(t *testing.T) {
	onEach(t, allKinds, func(t *testing.T, b *bench) {
		s := b.scanner(func(c *ScannerConfig) { c.LookBack = -1 })
		b.insert("old+a+b")
		b.bulk(1500)
		b.steps(s, 2)
		b.exec(b.q(`DELETE FROM "ReleaseMessage" WHERE "Id" > 1`))
		b.steps(s, 3)
		b.insert("next+default+x")
		b.steps(s, 2)
		rows := b.seen()
		if got := show(rows[1501:]); got != "1502" {
			t.Errorf("delivered %q, want 1502; %v", got, b.seenEvents(EventEpoch))
		}
		b.noEvents(s, EventEpoch)
	})
}

func TestChangedInPlace(t *testing.T) {
	for _, id := range []int{10, 7} {
		t.Run(fmt.Sprintf("row %d", id), func(t *testing.T) {
			onEach(t, allKinds, func(t *testing.T, b *bench) {
				s := b.scanner()
				b.step(s)
				b.bulk(10)
				b.step(s)
				b.exec(b.q(fmt.Sprintf(`UPDATE "ReleaseMessage" SET "Message" = 'changed+a+b' WHERE "Id" = %d`, id)))
				b.steps(s, 2)
				b.exec(b.q(`DELETE FROM "ReleaseMessage" WHERE "Id" = 10`))
				b.steps(s, 2)
				b.insert("next+default+x")
				b.steps(s, 2)
				b.want("1 2 3 4 5 6 7 8 9 10 11")
				b.noEvents(s, EventEpoch)
				if e := b.seenEvents(EventChanged); len(e) != 1 || e[0].From != uint64(id) {
					t.Errorf("events %v, want one about row %d", e, id)
				}
			})
		})
	}
}

func TestListenersDoNotHarmEachOther(t *testing.T) {
	onEach(t, allKinds, func(t *testing.T, b *bench) {
		s := b.scanner(func(c *ScannerConfig) {
			c.Listeners = []Listener{
				ListenerFunc(func(context.Context, Row) error { panic("boom") }),
				ListenerFunc(func(context.Context, Row) error { return fmt.Errorf("no") }),
				b,
			}
			c.OnEvent = func(e Event) { b.onEvent(e); panic("so does this") }
		})
		b.step(s)
		b.insert("a+b+c", "d+e+f")
		b.steps(s, 2)
		b.want("1 2")
		if st := s.Status(); st.ListenerErrors != 4 {
			t.Errorf("%d listener errors, want 4", st.ListenerErrors)
		}
		if e := b.seenEvents(EventListener); len(e) != 4 || e[0].From != 1 || !strings.Contains(e[0].Text, "listener 1 failed at row 1: panic: boom") {
			t.Errorf("events %v", e)
		}
	})
}

// Stamps that the database's clock set an hour ahead or back move nothing but
// the lag.
func TestClocksAreWrong(t *testing.T) {
	onEach(t, allKinds, func(t *testing.T, b *bench) {
		s := b.scanner()
		b.step(s)
		for i, offset := range []time.Duration{time.Hour, -time.Hour} {
			at := time.Now().UTC().Add(offset).Format("2006-01-02 15:04:05")
			b.exec(b.q(fmt.Sprintf(`INSERT INTO "ReleaseMessage" ("Message", "DataChange_LastTime") VALUES ('a+b+c%d', '%s')`, i, at)))
		}
		b.steps(s, 2)
		b.want("1 2")
		rows := b.seen()
		if r := rows[0]; !r.Skewed || r.Lag > -50*time.Minute {
			t.Errorf("a row of the future has lag %s, skewed %t", r.Lag, r.Skewed)
		}
		if r := rows[1]; r.Skewed || r.Lag < 50*time.Minute || s.Status().Skewed {
			t.Errorf("a row of the past has lag %s, skewed %t", r.Lag, r.Skewed)
		}
	})
}

func TestSessionZone(t *testing.T) {
	onEach(t, realKinds, func(t *testing.T, b *bench) {
		s := b.scanner()
		b.step(s)
		zone := map[string]string{"mysql": "SET time_zone = '+08:00'", "postgres": "SET TIME ZONE 'Asia/Shanghai'"}[b.kind]
		c := b.conn(zone)
		if _, err := c.ExecContext(t.Context(), b.db.q.insert, "a+b+c"); err != nil {
			t.Fatal(err)
		}
		b.step(s)
		r := b.seen()[0]
		if age := time.Since(r.ChangedAt); age < -time.Minute || age > time.Minute || r.ChangedAt.Location() != time.UTC {
			t.Errorf("the row's stamp is %s, now is %s", r.ChangedAt, time.Now())
		}
		if r.Lag < -time.Second || r.Lag > time.Minute {
			t.Errorf("lag %s", r.Lag)
		}
	})
}

func TestOddMessages(t *testing.T) {
	messages := []string{"a+b+c+d", "a++b+c", "+a+b+c", strings.Repeat("x", 1020) + "+y+z", "köln+default+🚀", "app+default+ns ", "plain", "", "app+default+ns"}
	wellFormed := []bool{false, false, false, true, true, true, false, false, true}
	onEach(t, allKinds, func(t *testing.T, b *bench) {
		s := b.scanner()
		b.step(s)
		b.insert(messages...)
		b.step(s)
		var got []string
		for i, r := range b.seen() {
			got = append(got, r.Message)
			if _, ok := ParseKey(r.Message); ok != wellFormed[i] {
				t.Errorf("%.40q is well-formed: %t", r.Message, ok)
			}
		}
		if !slices.Equal(got, messages) {
			t.Errorf("delivered %.100q", got)
		}
		if st := s.Status(); st.Malformed != 5 {
			t.Errorf("%d malformed, want 5", st.Malformed)
		}
	})
}

func TestCaseVariants(t *testing.T) {
	onEach(t, allKinds, func(t *testing.T, b *bench) {
		latest := NewLatest()
		defer latest.Close()
		s := b.scanner(func(c *ScannerConfig) { c.Latest = latest })
		b.step(s)
		ids := b.insert("app+d+NS", "APP+d+ns", "app+d+NS", "APP+d+ns")
		b.step(s)
		c := NewCleaner(b.db, CleanerConfig{})
		for i, m := range []string{"app+d+NS", "APP+d+ns"} {
			if n, err := c.Clean(t.Context(), Sent{ID: ids[i+2], Message: m}); err != nil || n != 1 {
				t.Errorf("cleaned %d rows of %s, %v; want 1", n, m, err)
			}
		}
		rows, err := b.db.Recent(t.Context(), time.Unix(1, 0), 0)
		if err != nil || show(rows) != "3h 4h" {
			t.Errorf("the table holds %q, %v; want both newest", show(rows), err)
		}
		b.want("1 2 3 4")
		if latest.Len() != 2 {
			t.Errorf("%d keys, want 2", latest.Len())
		}
		if warned := len(b.seenEvents(EventVariant)) > 0; warned != (b.kind == "mysql") {
			t.Errorf("warned: %t", warned)
		}
	})
}

func TestIDsAtTheEdges(t *testing.T) {
	onEach(t, allKinds, func(t *testing.T, b *bench) {
		s := b.scanner()
		b.step(s)
		want := "7 4294967295"
		if b.kind != "mysql" {
			b.insertAs(-5, "a+b+c")
			b.insertAs(0, "a+b+c")
		}
		b.insertAs(7, "a+b+c")
		b.insertAs(4294967295, "a+b+c")
		if b.kind != "mysql" {
			b.insertAs(1<<63-1, "a+b+c")
			want += " 9223372036854775807"
		}
		b.steps(s, surveyTicks+1)
		b.want(want)
		ignored := int64(2)
		if b.kind == "mysql" {
			ignored = 0
		}
		if st := s.Status(); st.Ignored != ignored {
			t.Errorf("%d ignored, want %d", st.Ignored, ignored)
		}
	})
}

func TestWideUnsignedIDs(t *testing.T) {
	onEach(t, "mysql", func(t *testing.T, b *bench) {
		b.exec("ALTER TABLE `ReleaseMessage` MODIFY `Id` bigint unsigned NOT NULL AUTO_INCREMENT")
		s := b.scanner()
		b.step(s)
		b.insertAs(1<<62, "a+b+c")
		b.exec("INSERT INTO `ReleaseMessage` (`Id`, `Message`) VALUES (18446744073709551614, 'a+b+c')")
		b.steps(s, settleTicks+2)
		b.want("4611686018427387904 18446744073709551614")
		if st := s.Status(); st.GapsOpen != 0 {
			t.Errorf("%d gaps are open", st.GapsOpen)
		}
	})
}

func TestLateRowDoesNotMoveTheKeyBack(t *testing.T) {
	onEach(t, realKinds, func(t *testing.T, b *bench) {
		latest := NewLatest()
		defer latest.Close()
		s := b.scanner(func(c *ScannerConfig) { c.Latest = latest })
		b.step(s)
		slow := b.begin()
		slow.insert("a+b+c")
		b.insert("a+b+c")
		b.step(s)
		slow.commit()
		b.steps(s, 2)
		b.want("2 1l")
		if r, ok := latest.Get("a+b+c"); !ok || r.ID != 2 {
			t.Errorf("the newest row is %d, want 2", r.ID)
		}
		if st := s.Status(); st.Late != 1 {
			t.Errorf("%d late, want 1", st.Late)
		}
	})
}

func TestTwoRowsOfOneKey(t *testing.T) {
	onEach(t, allKinds, func(t *testing.T, b *bench) {
		s := b.scanner()
		b.step(s)
		message := Key{AppID: "app", Cluster: MessageCluster("20260101-branch", "default"), Namespace: "application"}.Message()
		b.insert(message)
		b.insert(message)
		b.step(s)
		b.want("1 2")
		if r := b.seen()[1]; r.Message != "app+default+application" {
			t.Errorf("message %q, want the parent's cluster", r.Message)
		}
	})
}

// One long transaction writes many keys while others go on.
func TestLongTransactionOfManyKeys(t *testing.T) {
	onEach(t, realKinds, func(t *testing.T, b *bench) {
		s := b.scanner()
		b.step(s)
		long := b.begin()
		for i := range 100 {
			long.insert(fmt.Sprintf("app+c+ns%d", i))
			if i%10 == 5 {
				b.insert(fmt.Sprintf("other+c+ns%d", i))
			}
			long.insert(fmt.Sprintf("app+branch+ns%d", i))
			if i%25 == 0 {
				b.step(s)
			}
		}
		b.insert("last+c+x")
		b.steps(s, settleTicks+1)
		if n := len(b.seen()); n != 11 {
			t.Fatalf("%d rows before the commit, want 11", n)
		}
		long.commit()
		b.steps(s, 2)
		keys := map[string]int{}
		for _, r := range b.seen() {
			keys[r.Message]++
		}
		for k, n := range keys {
			if n != 1 {
				t.Errorf("%s came %d times", k, n)
			}
		}
		if st := s.Status(); len(keys) != 211 || st.Late != 200 || st.GapsOpen != 0 {
			t.Errorf("%d keys, %d late, %d gaps open; want 211, 200, 0", len(keys), st.Late, st.GapsOpen)
		}
	})
}

// Ten thousand transactions roll back.
func TestTenThousandGaps(t *testing.T) {
	onEach(t, allKinds, func(t *testing.T, b *bench) {
		s := b.scanner(func(c *ScannerConfig) { c.MaxGaps = 20_000 })
		b.step(s)
		tx := b.begin()
		const n = 10_000
		for i := 0; i < n; i += 100 {
			values := make([]string, 100)
			for j := range values {
				values[j] = fmt.Sprintf("(%d, 'a+b+c')", 2*(i+j)+2)
			}
			if _, err := tx.tx.Exec(b.q(`INSERT INTO "ReleaseMessage" ("Id", "Message") VALUES ` + strings.Join(values, ", "))); err != nil {
				t.Fatal(err)
			}
		}
		tx.commit()
		b.step(s)
		if len(b.seen()) != n {
			t.Fatalf("delivered %d rows", len(b.seen()))
		}
		var most time.Duration
		for i := 0; s.Status().GapsOpen > 0; i++ {
			if i > 10 {
				t.Fatalf("%d gaps are open after %d ticks", s.Status().GapsOpen, i)
			}
			before, began := s.Status().Queries, time.Now()
			b.step(s)
			most = max(most, time.Since(began))
			if q := s.Status().Queries - before; q > n/rangesPerQuery+5 {
				t.Errorf("a tick took %d queries", q)
			}
		}
		if st := s.Status(); st.Dead != n {
			t.Errorf("%d gaps dead, want %d", st.Dead, n)
		}
		t.Logf("the slowest tick with up to %d gaps took %s", n, most)
	})
}

// A gap that many share with an open transaction: the probe halves its way to it.
func TestOneOpenGapAmongMany(t *testing.T) {
	onEach(t, realKinds, func(t *testing.T, b *bench) {
		s := b.scanner()
		b.step(s)
		open := b.begin()
		b.insert("first")
		for i := range 250 {
			if i == 77 {
				open.insert("open")
			} else {
				tx := b.begin()
				tx.insert("rolled back")
				tx.rollback()
			}
			b.insert("a+b+c")
		}
		b.steps(s, settleTicks+2)
		if b.kind == "mysql" {
			if st := s.Status(); st.GapsOpen != 1 || st.Dead != 249 {
				t.Errorf("%d open, %d dead; want 1 and 249", st.GapsOpen, st.Dead)
			}
		}
		open.commit()
		b.steps(s, 2)
		if st := s.Status(); st.GapsOpen != 0 || st.Dead != 249 || st.Late != 1 {
			t.Errorf("%d open, %d dead, %d late; want 0, 249, 1", st.GapsOpen, st.Dead, st.Late)
		}
	})
}

// Where too many gaps stay open, the scanner holds, and then gives the oldest
// up with an alarm.
func TestTooManyGaps(t *testing.T) {
	onEach(t, "postgres", func(t *testing.T, b *bench) {
		s := b.scanner(func(c *ScannerConfig) { c.MaxGaps, c.AlarmAfter = 1000, 200*time.Millisecond })
		b.step(s)
		holder := b.begin()
		holder.insert("holds the lock")
		const n = 1600
		values := make([]string, n)
		for i := range values {
			values[i] = fmt.Sprintf("(%d, 'a+b+c')", 2*i+2)
		}
		b.exec(`INSERT INTO "ReleaseMessage" ("Id", "Message") VALUES ` + strings.Join(values, ", "))
		b.steps(s, 2)
		st := s.Status()
		if st.Phase != PhaseHolding || st.GapsOpen > 1000 || st.Rows == n {
			t.Fatalf("phase %s, %d gaps, %d rows; want to hold", st.Phase, st.GapsOpen, st.Rows)
		}
		time.Sleep(250 * time.Millisecond)
		b.steps(s, 10)
		time.Sleep(250 * time.Millisecond)
		b.steps(s, 10)
		if st = s.Status(); st.Rows != n || st.Overflown == 0 || st.GapsOpen > 1000 || st.Phase != PhaseWaiting {
			t.Errorf("phase %s, %d rows, %d gaps given up, %d open", st.Phase, st.Rows, st.Overflown, st.GapsOpen)
		}
		if e := b.seenEvents(EventAlarm); len(e) == 0 {
			t.Error("no alarm")
		}
	})
}
