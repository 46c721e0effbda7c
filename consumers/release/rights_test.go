package release

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"
)

// as opens the test's database as a user with given rights, which is made for
// the test.
func (b *bench) as(rights ...string) *bench {
	b.Helper()
	u, err := url.Parse(string(b.db.dsn))
	if err != nil {
		b.Fatal(err)
	}
	name := fmt.Sprintf("reader_%d_%d", os.Getpid(), testDatabases.Add(1))
	if b.kind == "mysql" {
		b.exec("CREATE USER '" + name + "'@'%' IDENTIFIED BY 'secret'")
		b.Cleanup(func() { b.db.SQL().Exec("DROP USER '" + name + "'@'%'") })
		name = "'" + name + "'@'%'"
	} else {
		b.exec("CREATE ROLE " + name + " LOGIN PASSWORD 'secret'")
		b.Cleanup(func() {
			b.db.SQL().Exec("DROP OWNED BY " + name)
			b.db.SQL().Exec("DROP ROLE " + name)
		})
	}
	for _, r := range rights {
		b.exec("GRANT " + r + " TO " + name)
	}
	u.User = url.UserPassword(strings.Trim(strings.SplitN(name, "@", 2)[0], "'"), "secret")
	db, err := Open(context.Background(), DSN(u.String()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	return &bench{TB: b.TB, kind: b.kind, db: db, moved: make(chan struct{}, 1)}
}

// The right to SELECT is enough for everything, proof included.
func TestSelectIsEnough(t *testing.T) {
	// A server of the test's own: the right to make users is not for every test.
	onEachServer(t, func(t *testing.T, _ *server, owner *bench) {
		table := map[string]string{"mysql": "`ReleaseMessage`", "postgres": `"ReleaseMessage"`}[owner.kind]
		reader := owner.as("SELECT ON " + table)
		s := reader.scanner()
		reader.step(s)
		owner.insert("first")
		slow, never := owner.begin(), owner.begin()
		slow.insert("slow")
		never.insert("never")
		owner.insert("fourth")
		reader.step(s)
		never.rollback()
		reader.steps(s, settleTicks+1)
		slow.commit()
		reader.steps(s, settleTicks+1)
		reader.want("1 4 2l")
		if st := s.Status(); st.GapsOpen != 0 || st.Dead != 1 {
			t.Errorf("%d gaps open, %d dead by %s; want 0 and 1", st.GapsOpen, st.Dead, st.Method)
		}
		owner.truncate()
		owner.insert("new+a+b")
		reader.steps(s, 2)
		reader.want("1 4 2l 2/1")
		reader.noEvents(s, EventAlarm, EventError)
		if err := reader.db.Init(t.Context()); err == nil && owner.kind == "mysql" {
			t.Error("a reader made a table")
		}
	})
}

func TestNoTable(t *testing.T) {
	onEach(t, allKinds, func(t *testing.T, b *bench) {
		b.exec(b.q(`DROP TABLE "ReleaseMessage"`))
		s := b.scanner()
		b.start(s)
		b.wait("an error", func() bool { return s.Status().LastError != nil })
		text := strings.ToLower(s.Status().LastError.Error())
		if !strings.Contains(text, "releasemessage") || !strings.Contains(text, b.db.Name()) {
			t.Errorf("the error does not name the table and the database: %s", text)
		}
		if _, err := NewSender(b.db, nil).Send(t.Context(), Topic, "a+b+c"); !NoTable(err) || !NoTable(s.Status().LastError) {
			t.Errorf("not told as a missing table: %v; %v", err, s.Status().LastError)
		}
		if _, err := b.db.SQL().ExecContext(t.Context(), "SELECT 1 FROM"); err == nil || NoTable(err) {
			t.Errorf("told as a missing table: %v", err)
		}
		if err := b.db.Init(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.wait("the recovery", func() bool { return s.Status().LastError == nil && s.Status().Ticks > 0 })
		b.insert("a+b+c")
		b.wait("a row", func() bool { return len(b.seen()) == 1 })
	})
}

// Where the database proves nothing, a gap is given up by its age, and says so.
func TestUnprovenByAge(t *testing.T) {
	onEach(t, "postgres", func(t *testing.T, b *bench) {
		b.exec(`ALTER SEQUENCE "ReleaseMessage_Id_seq" CACHE 10`)
		s := b.scanner(func(c *ScannerConfig) { c.UnprovenAfter = 300 * time.Millisecond })
		b.step(s)
		if e := b.seenEvents(EventAlarm); len(e) != 1 || !strings.Contains(e[0].Text, "10 ids at a time") {
			t.Errorf("alarms %v, want one about the cache", e)
		}
		one, two := b.conn(), b.conn()
		if _, err := one.ExecContext(t.Context(), b.db.q.insert, "a+b+c"); err != nil {
			t.Fatal(err)
		}
		if _, err := two.ExecContext(t.Context(), b.db.q.insert, "d+e+f"); err != nil {
			t.Fatal(err)
		}
		b.steps(s, 5)
		b.want("1 11")
		if _, err := one.ExecContext(t.Context(), b.db.q.insert, "g+h+i"); err != nil {
			t.Fatal(err)
		}
		b.steps(s, 2)
		b.want("1 11 2l")
		time.Sleep(350 * time.Millisecond)
		b.steps(s, 2)
		if st := s.Status(); st.GapsOpen != 0 || st.Unproven != 1 || !strings.HasPrefix(st.Method, "age: ") {
			t.Errorf("%d gaps open, %d unproven by %q", st.GapsOpen, st.Unproven, st.Method)
		}
		if e := b.seenEvents(EventGapClosed); len(e) != 1 || e[0].Proof != ProofUnproven {
			t.Errorf("events %v", e)
		}
	})
}

// A prepared transaction holds its rows until its commit.
func TestTwoPhaseCommit(t *testing.T) {
	srv := startServer(t, "postgres", "-c", "max_prepared_transactions=4")
	b := newBench(t, "postgres", srv.dsn("apollo"))
	s := b.scanner()
	b.step(s)
	c := b.conn("BEGIN", `INSERT INTO "ReleaseMessage" ("Message") VALUES ('slow')`)
	b.insert("quick")
	b.step(s)
	if _, err := c.ExecContext(t.Context(), "PREPARE TRANSACTION 'slow'"); err != nil {
		t.Fatal(err)
	}
	b.steps(s, 4)
	b.want("2")
	if st := s.Status(); st.GapsOpen != 1 {
		t.Fatalf("%d gaps are open, want 1", st.GapsOpen)
	}
	b.exec("COMMIT PREPARED 'slow'")
	b.steps(s, 2)
	b.want("2 1l")
	if st := s.Status(); st.GapsOpen != 0 {
		t.Errorf("%d gaps are open, want 0", st.GapsOpen)
	}
}

// A replica is read, but proves nothing.
func TestReadOnlyServer(t *testing.T) {
	srv := startServer(t, "mysql")
	b := newBench(t, "mysql", srv.dsn("apollo"))
	b.exec("SET GLOBAL read_only = 1")
	s := b.scanner()
	b.step(s)
	if st := s.Status(); !strings.HasPrefix(st.Method, "age: ") {
		t.Errorf("gaps are proven by %q", st.Method)
	}
}

// One look at a status that somebody holds does not see later steps.
func TestStatusIsACopy(t *testing.T) {
	b := newBench(t, "sqlite", makers[0].make(t))
	s := b.scanner()
	before := s.Status()
	b.step(s)
	b.insert("a+b+c")
	b.step(s)
	after := s.Status()
	if before.Rows != 0 || before.Phase != PhaseIdle || after.Rows != 1 || after.Phase != PhaseWaiting || after.Position != (Position{1, 1}) {
		t.Errorf("before %+v, after %+v", before, after)
	}
	if after.Behind() != 0 || after.Database != "apollo" || after.Method != "one writer" {
		t.Errorf("after %+v", after)
	}
}

func TestRunTwice(t *testing.T) {
	b := newBench(t, "sqlite", makers[0].make(t))
	s := b.scanner()
	stop := b.start(s)
	b.wait("the start", func() bool { return s.Status().Ticks > 0 })
	if err := s.Run(t.Context()); err != ErrRunning {
		t.Errorf("a second Run: %v", err)
	}
	stop()
	if st := s.Status(); st.Phase != PhaseIdle {
		t.Errorf("phase %s after the end", st.Phase)
	}
	b.insert("a+b+c")
	b.start(s)
	b.wait("the row", func() bool { return len(b.seen()) == 1 })
	b.want("1")
}

func TestBadConfig(t *testing.T) {
	if _, err := NewScanner(&DB{}, ScannerConfig{Interval: 99 * time.Millisecond}); err == nil || !strings.Contains(err.Error(), "below 100ms") {
		t.Errorf("a short interval: %v", err)
	}
}

func TestBackOff(t *testing.T) {
	for n := 1; n < 100; n++ {
		d := backOff(n)
		most := time.Duration(min(1<<min(n-1, 6), 30)) * time.Second * 6 / 5
		if d < minBackOff || d > maxBackOff || d > most {
			t.Errorf("after %d failures %s", n, d)
		}
	}
}

// An empty tick asks at most twice.
func TestEmptyTick(t *testing.T) {
	onEach(t, allKinds, func(t *testing.T, b *bench) {
		b.bulk(700)
		s := b.scanner()
		b.step(s)
		most := uint64(0)
		for range 3 * surveyTicks {
			before := s.Status().Queries
			b.step(s)
			most = max(most, s.Status().Queries-before)
		}
		if most > 2 {
			t.Errorf("an empty tick took %d queries", most)
		}
	})
}
