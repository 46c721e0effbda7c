package release

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

type postgresEngine struct{}

func newPostgres() engine { return postgresEngine{} }

func (postgresEngine) syntax() syntax {
	return syntax{
		table: `"ReleaseMessage"`, id: `"Id"`, message: `"Message"`, changed: `"DataChange_LastTime"`,
		shown: `"DataChange_LastTime"`,
		now:   `clock_timestamp()`,
		mark:  func(n int) string { return "$" + strconv.Itoa(n) }, arg: signed,
	}
}

func (postgresEngine) ddl() []string {
	return []string{
		`CREATE TABLE IF NOT EXISTS "ReleaseMessage" (
			"Id" BIGSERIAL PRIMARY KEY,
			"Message" VARCHAR(1024) NOT NULL DEFAULT '',
			"DataChange_LastTime" TIMESTAMPTZ NOT NULL DEFAULT CURRENT_TIMESTAMP)`,
		`CREATE INDEX IF NOT EXISTS "ReleaseMessage_DataChange_LastTime" ON "ReleaseMessage" ("DataChange_LastTime")`,
		`CREATE INDEX IF NOT EXISTS "ReleaseMessage_Message" ON "ReleaseMessage" ("Message")`,
	}
}

func (postgresEngine) insert(ctx context.Context, q queries, x execer, message string) (uint64, error) {
	var id int64
	err := x.QueryRowContext(ctx, q.insert+" RETURNING "+q.id, message).Scan(&id)
	return uint64(max(id, 0)), err
}

// ranges joins the gaps with the table: PostgreSQL takes 20 ms to plan a hundred
// ranges that are joined by OR, and less than one for these.
func (postgresEngine) ranges(q queries, gaps []*gap) (string, []any) {
	lo, hi := make([]int64, len(gaps)), make([]int64, len(gaps))
	for i, g := range gaps {
		lo[i], hi[i] = int64(g.lo), int64(g.hi)
	}
	return fmt.Sprintf(`SELECT %s FROM unnest($1::bigint[], $2::bigint[]) AS gap(lo, hi)
		CROSS JOIN LATERAL (SELECT * FROM %s WHERE %s BETWEEN gap.lo AND gap.hi OFFSET 0) AS found ORDER BY %s`,
		q.columns, q.table, q.id, q.id), []any{lo, hi}
}

func (postgresEngine) touches() bool { return false }

func (postgresEngine) stamp(t time.Time) any { return t.UTC() }

// foldsCase: a collation that folds case must be non-deterministic, and is then
// set on the column on purpose.
func (postgresEngine) foldsCase(ctx context.Context, db *DB) (bool, error) {
	var exact bool
	err := db.pool.QueryRowContext(ctx, `SELECT COALESCE((SELECT c.collisdeterministic FROM pg_attribute a JOIN pg_collation c ON c.oid = a.attcollation
		WHERE a.attrelid = '"ReleaseMessage"'::regclass AND a.attname = 'Message'), true)`).Scan(&exact)
	return !exact, err
}

func (postgresEngine) incarnation(ctx context.Context, db *DB) (incarnation, error) {
	var file, oid sql.NullInt64
	var started time.Time
	err := db.pool.QueryRowContext(ctx, `SELECT '"ReleaseMessage"'::regclass::oid::bigint, pg_relation_filenode('"ReleaseMessage"'::regclass)::bigint,
		pg_postmaster_start_time()`).Scan(&oid, &file, &started)
	if err != nil {
		return incarnation{}, err
	}
	i := incarnation{Table: fmt.Sprintf("table %d, file %d", oid.Int64, file.Int64), Started: started.UTC()}
	// A user who may only read the table may not ask its sequence.
	var counter sql.NullInt64
	err = db.pool.QueryRowContext(ctx, `SELECT pg_sequence_last_value(pg_get_serial_sequence('"ReleaseMessage"', 'Id')::regclass)`).Scan(&counter)
	if e := (*pgconn.PgError)(nil); err != nil && !errors.As(err, &e) {
		return incarnation{}, err
	}
	i.counter = uint64(max(counter.Int64, 0))
	return i, nil
}

func (postgresEngine) prover(ctx context.Context, db *DB) (prover, error) {
	var replica bool
	if err := db.pool.QueryRowContext(ctx, `SELECT pg_is_in_recovery()`).Scan(&replica); err != nil {
		return nil, err
	}
	if replica {
		return ageOnly{"a standby does not show the primary's locks"}, nil
	}
	var cache sql.NullInt64
	err := db.pool.QueryRowContext(ctx, `SELECT seqcache FROM pg_sequence
		WHERE seqrelid = pg_get_serial_sequence('"ReleaseMessage"', 'Id')::regclass`).Scan(&cache)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	if cache.Int64 > 1 {
		return ageOnly{fmt.Sprintf("the sequence of Id hands out %d ids at a time, so an id may be used long after it was taken", cache.Int64)}, nil
	}
	return &lockList{db: db}, nil
}

// lockList closes a gap when no transaction is left of those that held the
// table's insert lock when the gap was seen. An INSERT takes that lock before
// it takes its id, and gives it back after its rows became visible.
type lockList struct {
	db       *DB
	previous map[string]bool
}

func (*lockList) method() string { return "lock list" }

func (p *lockList) list(ctx context.Context) (map[string]bool, error) {
	rows, err := p.db.pool.QueryContext(ctx, `SELECT DISTINCT virtualtransaction FROM pg_locks
		WHERE locktype = 'relation' AND relation = '"ReleaseMessage"'::regclass AND mode = 'RowExclusiveLock'
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
	if err != nil {
		return nil, fmt.Errorf("read the lock list: %w", err)
	}
	defer rows.Close()
	list := map[string]bool{}
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		list[id] = true
	}
	return list, rows.Err()
}

func (p *lockList) witness(ctx context.Context) (*holders, error) {
	list, err := p.list(ctx)
	if err != nil {
		return nil, err
	}
	p.previous = list
	return &holders{ids: maps.Clone(list)}, nil
}

func (p *lockList) judge(ctx context.Context, gaps []*gap) error {
	list, err := p.list(ctx)
	if err != nil {
		return err
	}
	// Gaps of a checkpoint, and of a time without proof, wait for all that hold
	// the lock now.
	everybody := &holders{ids: maps.Clone(list)}
	done := map[*holders]bool{everybody: true}
	for _, g := range gaps {
		if g.holders == nil {
			g.holders = everybody
		}
		if h := g.holders; !done[h] {
			done[h] = true
			h.keep(list, p.previous)
		}
		if len(g.holders.ids) == 0 {
			g.proof = ProofDead
		}
	}
	p.previous = list
	return nil
}

// holders are the transactions that may still fill a gap; gaps of one page
// share them.
type holders struct{ ids map[string]bool }

// keep drops the transactions that have ended. A transaction that was prepared
// for a two-phase commit goes on under another name (-1/xid): where one of ours
// is gone, the prepared ones that are new may be it.
func (h *holders) keep(list, previous map[string]bool) {
	gone := false
	for id := range h.ids {
		if !list[id] {
			delete(h.ids, id)
			gone = gone || !isPrepared(id)
		}
	}
	if !gone {
		return
	}
	for id := range list {
		if isPrepared(id) && !previous[id] {
			h.ids[id] = true
		}
	}
}

func isPrepared(id string) bool { return strings.HasPrefix(id, "-1/") }
