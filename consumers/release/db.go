package release

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
)

// DB is a database that holds Apollo's ReleaseMessage table. All methods may be
// called by any number of goroutines.
type DB struct {
	dsn    DSN
	engine engine
	name   string
	pool   *sql.DB
	locks  *sql.DB
	q      queries
}

// Open opens the database that dsn names and checks that it answers. It does
// not create the table: see [DB.Init]. Times are read and shown in UTC whatever
// the server's zone. The caller closes the DB after everything that uses it.
//
// An error about the DSN itself wraps [ErrDSN]; no error carries the password.
func Open(ctx context.Context, dsn DSN) (*DB, error) {
	o, err := dsn.open()
	if err != nil {
		return nil, err
	}
	db := &DB{dsn: dsn, engine: o.engine, name: o.name, pool: o.pool, locks: o.locks, q: newQueries(o.engine.syntax())}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if err := db.pool.PingContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("release: open %s: %w", dsn, err), db.Close())
	}
	return db, nil
}

// Init creates Apollo's ReleaseMessage table, with its indexes, where it is
// missing. It changes nothing on a table that is there.
func (db *DB) Init(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for _, ddl := range db.engine.ddl() {
		if _, err := db.pool.ExecContext(ctx, ddl); err != nil {
			return fmt.Errorf("release: create the table ReleaseMessage in %s: %w", db.dsn, err)
		}
	}
	return nil
}

// NoTable tells whether an error says that the table ReleaseMessage is missing.
func NoTable(err error) bool {
	var m *mysql.MySQLError
	var p *pgconn.PgError
	var s *sqlite.Error
	switch {
	case errors.As(err, &m):
		return m.Number == 1146
	case errors.As(err, &p):
		return p.Code == "42P01"
	case errors.As(err, &s):
		return strings.Contains(s.Error(), "no such table: ReleaseMessage")
	}
	return false
}

// Name is the database's name: for SQLite the file's name without its
// extension. It is the first half of a release message's key in a feed.
func (db *DB) Name() string { return db.name }

// String is the DSN without its secrets.
func (db *DB) String() string { return db.dsn.String() }

// SQL is the pool under db, for transactions of the caller's own that hand
// their [sql.Tx] to [Sender.SendTx]. The pool is closed by [DB.Close].
func (db *DB) SQL() *sql.DB { return db.pool }

// Close closes all connections.
func (db *DB) Close() error {
	err := db.pool.Close()
	if db.locks != nil {
		err = errors.Join(err, db.locks.Close())
	}
	return err
}

// Recent reads the newest rows that were written at or after since, at most
// limit (1,000 where limit is not positive), in ascending order of their ids.
// All are marked as history: it is a view of the past and takes no part in the
// scanner's promises.
func (db *DB) Recent(ctx context.Context, since time.Time, limit int) ([]Row, error) {
	if limit <= 0 {
		limit = 1000
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	rows, err := db.read(ctx, nil, db.q.recent(limit), db.engine.stamp(since))
	if err != nil {
		return nil, fmt.Errorf("release: read recent rows of %s: %w", db.dsn, err)
	}
	slices.Reverse(rows)
	for i := range rows {
		rows[i].History = true
	}
	return rows, nil
}

// read appends the rows of a query of (id, message, changed) to dst.
func (db *DB) read(ctx context.Context, dst []Row, query string, args ...any) ([]Row, error) {
	rows, err := db.pool.QueryContext(ctx, query, args...)
	if err != nil {
		return dst, err
	}
	defer rows.Close()
	var id, changed any
	var message string
	for rows.Next() {
		if err := rows.Scan(&id, &message, &changed); err != nil {
			return dst, err
		}
		n, err := asID(id)
		if err != nil {
			return dst, err
		}
		at, err := asTime(changed)
		if err != nil {
			return dst, fmt.Errorf("row %d: %w", n, err)
		}
		dst = append(dst, Row{ID: n, Message: message, ChangedAt: at, Database: db.name})
	}
	return dst, rows.Err()
}

// survey is what one query says about the whole table.
type survey struct {
	now     time.Time
	newest  uint64
	ignored int64
}

func (db *DB) survey(ctx context.Context) (survey, error) {
	var now, newest any
	var s survey
	if err := db.pool.QueryRowContext(ctx, db.q.survey).Scan(&now, &newest, &s.ignored); err != nil {
		return survey{}, err
	}
	var err error
	if s.now, err = asTime(now); err != nil {
		return survey{}, err
	}
	if newest != nil {
		s.newest, err = asID(newest)
	}
	return s, err
}
