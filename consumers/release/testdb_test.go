package release

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// The driver keeps asking a server that fell silent to cancel, for a bounded time.
		goleak.IgnoreAnyFunction("github.com/jackc/pgx/v5/pgconn.(*PgConn).asyncClose.func1"))
}

var testDatabases atomic.Int64

// realDSN reads an address of a real server from the environment.
func realDSN(tb testing.TB, variable string) string {
	tb.Helper()
	dsn := os.Getenv(variable)
	if dsn == "" {
		if os.Getenv("BELAY_TEST_REAL") == "1" {
			tb.Fatalf("%s is not set, though BELAY_TEST_REAL=1", variable)
		}
		tb.Skipf("%s not set", variable)
	}
	return dsn
}

// makers make an empty database of each kind, with the table, for one test.
var makers = []struct {
	kind string
	make func(testing.TB) DSN
}{
	{"sqlite", func(tb testing.TB) DSN { return DSN("sqlite:" + filepath.Join(tb.TempDir(), "apollo.db")) }},
	{"mysql", func(tb testing.TB) DSN { return ownDatabase(tb, realDSN(tb, "BELAY_TEST_MYSQL"), "`", "") }},
	{"postgres", func(tb testing.TB) DSN {
		return ownDatabase(tb, realDSN(tb, "BELAY_TEST_POSTGRES"), `"`, " WITH (FORCE)")
	}},
}

// ownDatabase makes a database on a real server and drops it after the test.
func ownDatabase(tb testing.TB, server, quote, force string) DSN {
	tb.Helper()
	ctx := context.Background()
	admin, err := Open(ctx, DSN(server))
	if err != nil {
		tb.Fatal(err)
	}
	name := fmt.Sprintf("release_%d_%d", os.Getpid(), testDatabases.Add(1))
	if _, err := admin.SQL().ExecContext(ctx, "CREATE DATABASE "+quote+name+quote); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		defer admin.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if _, err := admin.SQL().ExecContext(ctx, "DROP DATABASE "+quote+name+quote+force); err != nil {
			tb.Error(err)
		}
	})
	u, err := url.Parse(server)
	if err != nil {
		tb.Fatal(err)
	}
	u.Path = "/" + name
	return DSN(u.String())
}

// onEach runs a test on each database.
func onEach(t *testing.T, kinds string, test func(*testing.T, *bench)) {
	for _, m := range makers {
		if !strings.Contains(kinds, m.kind) {
			continue
		}
		t.Run(m.kind, func(t *testing.T) { test(t, newBench(t, m.kind, m.make(t))) })
	}
}

const (
	allKinds  = "sqlite mysql postgres"
	realKinds = "mysql postgres"
)

// bench is one test's database, with what its scanners delivered.
type bench struct {
	testing.TB
	kind string
	db   *DB

	mu     sync.Mutex
	rows   []Row
	events []Event
	moved  chan struct{}
}

func newBench(tb testing.TB, kind string, dsn DSN) *bench {
	tb.Helper()
	db, err := Open(context.Background(), dsn)
	if err != nil {
		tb.Fatal(err)
	}
	if err := db.Init(context.Background()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { db.Close() })
	return &bench{TB: tb, kind: kind, db: db, moved: make(chan struct{}, 1)}
}

func (b *bench) poke() {
	select {
	case b.moved <- struct{}{}:
	default:
	}
}

func (b *bench) HandleRow(_ context.Context, r Row) error {
	b.mu.Lock()
	b.rows = append(b.rows, r)
	b.mu.Unlock()
	b.poke()
	return nil
}

func (b *bench) onEvent(e Event) {
	b.mu.Lock()
	b.events = append(b.events, e)
	b.mu.Unlock()
	b.poke()
}

// scanner makes a quick scanner that tells b.
func (b *bench) scanner(change ...func(*ScannerConfig)) *Scanner {
	b.Helper()
	cfg := ScannerConfig{Interval: minInterval, Listeners: []Listener{b}, OnEvent: b.onEvent}
	for _, c := range change {
		c(&cfg)
	}
	s, err := NewScanner(b.db, cfg)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// start runs a scanner until the returned function or the end of the test.
func (b *bench) start(s *Scanner) (stop func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			b.Errorf("Run: %v", err)
		}
	})
	b.Cleanup(stop)
	return stop
}

// step runs one tick in the test's own goroutine.
func (b *bench) step(s *Scanner) {
	b.Helper()
	if err := s.tick(context.Background()); err != nil {
		b.Fatalf("tick: %v", err)
	}
	s.succeeded()
	s.publish()
}

func (b *bench) exec(query string, args ...any) sql.Result {
	b.Helper()
	res, err := b.db.SQL().Exec(query, args...)
	if err != nil {
		b.Fatalf("%s: %v", query, err)
	}
	return res
}

// q writes a statement with "…" around names as this database wants it.
func (b *bench) q(query string) string {
	if b.kind == "mysql" {
		return strings.ReplaceAll(query, `"`, "`")
	}
	return query
}

// insertAs writes a row with an id of the test's choice.
func (b *bench) insertAs(id int64, message string) {
	b.Helper()
	b.exec(b.q(fmt.Sprintf(`INSERT INTO "ReleaseMessage" ("Id", "Message") VALUES (%d, %s)`, id, b.db.q.mark(1))), message)
}

// insert writes rows in one transaction.
func (b *bench) insert(messages ...string) []uint64 {
	b.Helper()
	tx := b.begin()
	ids := tx.insert(messages...)
	tx.commit()
	return ids
}

// bulk writes n rows in one transaction.
func (b *bench) bulk(n int) {
	b.Helper()
	messages := make([]string, n)
	for i := range messages {
		messages[i] = fmt.Sprintf("app%d+default+application", i%97)
	}
	b.insert(messages...)
}

type openTx struct {
	b  *bench
	tx *sql.Tx
}

func (b *bench) begin() *openTx {
	b.Helper()
	tx, err := b.db.SQL().Begin()
	if err != nil {
		b.Fatal(err)
	}
	o := &openTx{b: b, tx: tx}
	b.Cleanup(func() { tx.Rollback() })
	return o
}

func (o *openTx) insert(messages ...string) []uint64 {
	o.b.Helper()
	var ids []uint64
	for _, m := range messages {
		sent, err := NewSender(o.b.db, nil).SendTx(context.Background(), o.tx, Topic, m)
		if err != nil {
			o.b.Fatal(err)
		}
		ids = append(ids, sent.ID)
	}
	return ids
}

func (o *openTx) commit() {
	o.b.Helper()
	if err := o.tx.Commit(); err != nil {
		o.b.Fatal(err)
	}
}

func (o *openTx) rollback() {
	o.b.Helper()
	if err := o.tx.Rollback(); err != nil && !errors.Is(err, sql.ErrTxDone) {
		o.b.Fatal(err)
	}
}

func (b *bench) seen() []Row {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]Row(nil), b.rows...)
}

func (b *bench) seenEvents(kind EventKind) []Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	var found []Event
	for _, e := range b.events {
		if e.Kind == kind {
			found = append(found, e)
		}
	}
	return found
}

// wait waits until ok, which is asked after each row and event.
func (b *bench) wait(what string, ok func() bool) {
	b.Helper()
	limit := time.After(30 * time.Second)
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for !ok() {
		select {
		case <-b.moved:
		case <-look.C:
		case <-limit:
			b.Fatalf("timed out waiting for %s; rows %s, events %v", what, show(b.seen()), b.events)
		}
	}
}

// show writes rows as "1 2h 3l": h is history, l late, r replay.
func show(rows []Row) string {
	var out []string
	for _, r := range rows {
		s := fmt.Sprint(r.ID)
		if r.Epoch > 1 {
			s = fmt.Sprintf("%d/%s", r.Epoch, s)
		}
		if r.History {
			s += "h"
		}
		if r.Late {
			s += "l"
		}
		if r.Replay {
			s += "r"
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

func (b *bench) want(want string) {
	b.Helper()
	if got := show(b.seen()); got != want {
		b.Fatalf("delivered %q, want %q; events %v", got, want, b.events)
	}
}

// truncate empties the table and starts its ids anew.
func (b *bench) truncate() {
	b.Helper()
	switch b.kind {
	case "sqlite":
		b.exec(`DELETE FROM "ReleaseMessage"`)
		b.exec(`DELETE FROM sqlite_sequence WHERE name = 'ReleaseMessage'`)
	case "mysql":
		b.exec("TRUNCATE TABLE `ReleaseMessage`")
	case "postgres":
		b.exec(`TRUNCATE TABLE "ReleaseMessage" RESTART IDENTITY`)
	}
}

// conn is a session of its own.
func (b *bench) conn(setup ...string) *sql.Conn {
	b.Helper()
	c, err := b.db.SQL().Conn(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		// The session's settings must not come back out of the pool.
		c.Raw(func(any) error { return driver.ErrBadConn })
		c.Close()
	})
	for _, s := range setup {
		if _, err := c.ExecContext(context.Background(), s); err != nil {
			b.Fatalf("%s: %v", s, err)
		}
	}
	return c
}

// steps runs n ticks.
func (b *bench) steps(s *Scanner, n int) {
	b.Helper()
	for range n {
		b.step(s)
	}
}

func (b *bench) noEvents(s *Scanner, kinds ...EventKind) {
	b.Helper()
	for _, k := range kinds {
		if e := b.seenEvents(k); len(e) > 0 {
			b.Errorf("unexpected events %v", e)
		}
	}
}
