package release

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"
)

// engine is what differs between the databases.
type engine interface {
	syntax() syntax
	ddl() []string
	// insert writes one message and gives its id.
	insert(ctx context.Context, q queries, x execer, message string) (uint64, error)
	// ranges reads all rows of many gaps: a query and its arguments.
	ranges(q queries, gaps []*gap) (string, []any)
	// stamp is the argument that compares with DataChange_LastTime.
	stamp(time.Time) any
	// touches says whether an update of a row changes its DataChange_LastTime.
	touches() bool
	// foldsCase says whether two messages that differ only in case are equal to
	// the database.
	foldsCase(ctx context.Context, db *DB) (bool, error)
	incarnation(ctx context.Context, db *DB) (incarnation, error)
	// prover is the way to tell that ids which are missing will stay so.
	prover(ctx context.Context, db *DB) (prover, error)
}

// execer is a [sql.DB] or [sql.Tx].
type execer interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
	QueryRowContext(context.Context, string, ...any) *sql.Row
}

// syntax is how a database writes names and values.
type syntax struct {
	table, id, message, changed string
	shown                       string // expression of changed for a result
	now                         string
	mark                        func(int) string // placeholder of the n-th argument, from 1
	// arg is an id as the driver takes it.
	arg func(uint64) any
}

// questionMark is the placeholder of MySQL and SQLite.
func questionMark(int) string { return "?" }

func signed(id uint64) any { return int64(min(id, 1<<63-1)) }

// queries are the statements that are the same on all databases but for syntax.
type queries struct {
	syntax
	columns string
	insert  string
	survey  string
}

func newQueries(s syntax) queries {
	return queries{
		syntax:  s,
		columns: s.id + ", " + s.message + ", " + s.shown,
		insert:  fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", s.table, s.message, s.mark(1)),
		survey: fmt.Sprintf("SELECT %s, (SELECT MAX(%s) FROM %s WHERE %s > 0), (SELECT COUNT(*) FROM %s WHERE %s <= 0)",
			s.now, s.id, s.table, s.id, s.table, s.id),
	}
}

// insertLast writes a message where the driver tells the id that came of it.
func (q queries) insertLast(ctx context.Context, x execer, message string) (uint64, error) {
	res, err := x.ExecContext(ctx, q.insert, message)
	if err != nil {
		return 0, err
	}
	id, err := res.LastInsertId()
	return uint64(id), err
}

// page reads n rows from an id on.
func (q queries) page(n int) string {
	return fmt.Sprintf("SELECT %s FROM %s WHERE %s >= %s ORDER BY %s LIMIT %d", q.columns, q.table, q.id, q.mark(1), q.id, n)
}

// below reads the newest n rows up to an id, newest first.
func (q queries) below(n int) string {
	return fmt.Sprintf("SELECT %s FROM %s WHERE %s > 0 AND %s <= %s ORDER BY %s DESC LIMIT %d", q.columns, q.table, q.id, q.id, q.mark(1), q.id, n)
}

// recent reads the newest n rows from a time on, newest first.
func (q queries) recent(n int) string {
	return fmt.Sprintf("SELECT %s FROM %s WHERE %s > 0 AND %s >= %s ORDER BY %s DESC LIMIT %d", q.columns, q.table, q.id, q.changed, q.mark(1), q.id, n)
}

// twins reads n rows that the database takes for the same message, from below
// one id, above another.
func (q queries) twins(n int) string {
	return fmt.Sprintf("SELECT %s FROM %s WHERE %s = %s AND %s > %s AND %s <= %s ORDER BY %s LIMIT %d",
		q.columns, q.table, q.message, q.mark(1), q.id, q.mark(2), q.id, q.mark(3), q.id, n)
}

// within is the condition of n ranges, and takes 2n arguments.
func (q queries) within(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteString(" OR ")
		}
		b.WriteString(q.id + " BETWEEN " + q.mark(2*i+1) + " AND " + q.mark(2*i+2))
	}
	return b.String()
}

// ranges reads all rows of gaps.
func (q queries) ranges(gaps []*gap) (string, []any) {
	return fmt.Sprintf("SELECT %s FROM %s WHERE %s ORDER BY %s", q.columns, q.table, q.within(len(gaps)), q.id), q.bounds(gaps)
}

// remove deletes n rows by id.
func (q queries) remove(n int) string {
	marks := make([]string, n)
	for i := range marks {
		marks[i] = q.mark(i + 1)
	}
	return fmt.Sprintf("DELETE FROM %s WHERE %s IN (%s)", q.table, q.id, strings.Join(marks, ", "))
}

func (q queries) bounds(gaps []*gap) []any {
	args := make([]any, 0, 2*len(gaps))
	for _, g := range gaps {
		args = append(args, q.arg(g.lo), q.arg(g.hi))
	}
	return args
}
