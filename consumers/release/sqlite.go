package release

import (
	"context"
	"fmt"
	"time"
)

type sqliteEngine struct{}

func newSQLite() engine { return sqliteEngine{} }

func (sqliteEngine) syntax() syntax {
	return syntax{
		table: `"ReleaseMessage"`, id: `"Id"`, message: `"Message"`, changed: `"DataChange_LastTime"`,
		// As text: the driver would try one layout after the other.
		shown: `"DataChange_LastTime" || ''`,
		now:   `strftime('%Y-%m-%d %H:%M:%f', 'now')`,
		mark:  questionMark, arg: signed,
	}
}

// ddl: without AUTOINCREMENT the id of a deleted newest row would be used again.
// The write-ahead log lets the scanner read while somebody writes.
func (sqliteEngine) ddl() []string {
	return []string{
		`PRAGMA journal_mode = WAL`,
		`CREATE TABLE IF NOT EXISTS "ReleaseMessage" (
			"Id" INTEGER PRIMARY KEY AUTOINCREMENT,
			"Message" VARCHAR(1024) NOT NULL DEFAULT '',
			"DataChange_LastTime" TIMESTAMP NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')))`,
		`CREATE INDEX IF NOT EXISTS "ReleaseMessage_DataChange_LastTime" ON "ReleaseMessage" ("DataChange_LastTime")`,
		`CREATE INDEX IF NOT EXISTS "ReleaseMessage_Message" ON "ReleaseMessage" ("Message")`,
	}
}

func (sqliteEngine) insert(ctx context.Context, q queries, x execer, message string) (uint64, error) {
	return q.insertLast(ctx, x, message)
}

func (sqliteEngine) ranges(q queries, gaps []*gap) (string, []any) { return q.ranges(gaps) }

func (sqliteEngine) touches() bool { return false }

func (sqliteEngine) stamp(t time.Time) any { return t.UTC().Format("2006-01-02 15:04:05.000") }

func (sqliteEngine) foldsCase(context.Context, *DB) (bool, error) { return false, nil }

func (sqliteEngine) incarnation(ctx context.Context, db *DB) (incarnation, error) {
	var version, page, counter int64
	if err := db.pool.QueryRowContext(ctx, `PRAGMA schema_version`).Scan(&version); err != nil {
		return incarnation{}, err
	}
	if err := db.pool.QueryRowContext(ctx, `SELECT rootpage FROM sqlite_master WHERE type = 'table' AND name = 'ReleaseMessage'`).Scan(&page); err != nil {
		return incarnation{}, err
	}
	// Without AUTOINCREMENT there is no such table, or no such row in it.
	err := db.pool.QueryRowContext(ctx, `SELECT seq FROM sqlite_sequence WHERE name = 'ReleaseMessage'`).Scan(&counter)
	if ctx.Err() != nil {
		return incarnation{}, err
	}
	return incarnation{Table: fmt.Sprintf("schema %d, page %d", version, page), counter: uint64(max(counter, 0))}, nil
}

// prover: SQLite has one writer at a time, so ids become visible in their order.
func (sqliteEngine) prover(context.Context, *DB) (prover, error) { return oneWriter{}, nil }

// oneWriter closes every gap at once.
type oneWriter struct{}

func (oneWriter) method() string { return "one writer" }

func (oneWriter) witness(context.Context) (*holders, error) { return nil, nil }

func (oneWriter) judge(_ context.Context, gaps []*gap) error {
	for _, g := range gaps {
		g.proof = ProofDead
	}
	return nil
}
