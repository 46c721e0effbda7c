package release

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

type mysqlEngine struct{}

func newMySQL() engine { return mysqlEngine{} }

func (mysqlEngine) syntax() syntax {
	return syntax{
		table: "`ReleaseMessage`", id: "`Id`", message: "`Message`", changed: "`DataChange_LastTime`",
		shown: "`DataChange_LastTime`",
		now:   "NOW(6)", mark: questionMark, arg: func(id uint64) any { return id },
	}
}

func (mysqlEngine) ddl() []string {
	return []string{"CREATE TABLE IF NOT EXISTS `ReleaseMessage` (" +
		"`Id` int(11) unsigned NOT NULL AUTO_INCREMENT COMMENT 'primary key', " +
		"`Message` varchar(1024) NOT NULL DEFAULT '' COMMENT 'message', " +
		"`DataChange_LastTime` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP COMMENT 'last modified', " +
		"PRIMARY KEY (`Id`), KEY `DataChange_LastTime` (`DataChange_LastTime`), KEY `IX_Message` (`Message`(191))" +
		") ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COMMENT='release messages'"}
}

func (mysqlEngine) insert(ctx context.Context, q queries, x execer, message string) (uint64, error) {
	return q.insertLast(ctx, x, message)
}

func (mysqlEngine) ranges(q queries, gaps []*gap) (string, []any) { return q.ranges(gaps) }

func (mysqlEngine) touches() bool { return true }

func (mysqlEngine) stamp(t time.Time) any { return t.UTC() }

func (mysqlEngine) foldsCase(ctx context.Context, db *DB) (bool, error) {
	var collation string
	err := db.pool.QueryRowContext(ctx, "SELECT COLLATION_NAME FROM information_schema.COLUMNS "+
		"WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'ReleaseMessage' AND COLUMN_NAME = 'Message'").Scan(&collation)
	return strings.Contains(collation, "_ci"), err
}

func (mysqlEngine) incarnation(ctx context.Context, db *DB) (incarnation, error) {
	var created any
	if err := db.pool.QueryRowContext(ctx, "SELECT CREATE_TIME FROM information_schema.TABLES "+
		"WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'ReleaseMessage'").Scan(&created); err != nil {
		return incarnation{}, err
	}
	at, err := asTime(created)
	if err != nil {
		return incarnation{}, err
	}
	var name, value string
	if err := db.pool.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Uptime'").Scan(&name, &value); err != nil {
		return incarnation{}, err
	}
	uptime, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return incarnation{}, fmt.Errorf("read the server's uptime: %w", err)
	}
	var now time.Time
	if err := db.pool.QueryRowContext(ctx, "SELECT NOW(6)").Scan(&now); err != nil {
		return incarnation{}, err
	}
	// information_schema may be a day old on MySQL 8, this is not.
	var ddl string
	if err := db.pool.QueryRowContext(ctx, "SHOW CREATE TABLE `ReleaseMessage`").Scan(&name, &ddl); err != nil {
		return incarnation{}, err
	}
	var counter uint64
	if _, after, ok := strings.Cut(ddl, "AUTO_INCREMENT="); ok {
		digits := strings.TrimLeft(after, "0123456789")
		next, err := strconv.ParseUint(after[:len(after)-len(digits)], 10, 64)
		if err != nil {
			return incarnation{}, fmt.Errorf("read the table's counter: %w", err)
		}
		counter = next - 1
	}
	return incarnation{
		Table:   "created " + at.Format(time.DateTime),
		Started: now.Add(-time.Duration(uptime) * time.Second),
		counter: counter,
	}, nil
}

func (mysqlEngine) prover(ctx context.Context, db *DB) (prover, error) {
	v, err := mysqlVariables(ctx, db)
	if err != nil {
		return nil, err
	}
	if reason := v.noProof(); reason != "" {
		return ageOnly{reason}, nil
	}
	clause := " FOR SHARE NOWAIT"
	if v.mariaDB() {
		clause = " LOCK IN SHARE MODE NOWAIT"
	}
	p := &shareLock{db: db, clause: clause}
	if err := p.probe(ctx, []*gap{{lo: 0, hi: 0}}); err != nil && !isLocked(err) {
		if e := (*mysql.MySQLError)(nil); errors.As(err, &e) {
			return ageOnly{fmt.Sprintf("this user may not read with a share lock (%s)", e.Message)}, nil
		}
		return nil, err
	}
	return p, nil
}

// variables are the server's settings that decide whether its locks prove
// anything.
type variables map[string]string

func mysqlVariables(ctx context.Context, db *DB) (variables, error) {
	rows, err := db.pool.QueryContext(ctx, "SHOW GLOBAL VARIABLES WHERE Variable_name IN "+
		"('version', 'read_only', 'wsrep_on', 'group_replication_group_name', 'group_replication_single_primary_mode')")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	v := variables{}
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return nil, err
		}
		v[strings.ToLower(name)] = value
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	// Most users may not ask, and old servers know other words; they are then
	// taken for a primary.
	replica, err := db.pool.QueryContext(ctx, "SHOW REPLICA STATUS")
	if err != nil {
		if e := (*mysql.MySQLError)(nil); errors.As(err, &e) {
			return v, nil
		}
		return nil, err
	}
	defer replica.Close()
	if replica.Next() {
		v["replica"] = "ON"
	}
	return v, replica.Err()
}

func (v variables) mariaDB() bool { return strings.Contains(strings.ToLower(v["version"]), "mariadb") }

func (v variables) on(name string) bool {
	return strings.EqualFold(v[name], "ON") || v[name] == "1"
}

// noProof says why the locks of this server prove nothing, or "".
func (v variables) noProof() string {
	switch {
	case v.on("read_only"), v.on("replica"):
		return "a replica or read-only server does not show the primary's locks"
	case v.on("wsrep_on"):
		return "a Galera node does not show the other nodes' locks"
	case v["group_replication_group_name"] != "" && !v.on("group_replication_single_primary_mode"):
		return "a member of a group with several primaries does not show the others' locks"
	}
	least, product := [2]int{8, 0}, "MySQL"
	if v.mariaDB() {
		least, product = [2]int{10, 3}, "MariaDB"
	}
	var have [2]int
	if _, err := fmt.Sscanf(v["version"], "%d.%d", &have[0], &have[1]); err != nil ||
		have[0] < least[0] || have[0] == least[0] && have[1] < least[1] {
		return fmt.Sprintf("%s before %d.%d has no locking read that does not wait", product, least[0], least[1])
	}
	return ""
}

const (
	// probesPerTick bounds the lock reads of one tick.
	probesPerTick = 300
	// settleTicks covers the moment between an INSERT's taking its id and its
	// row's being there to be locked.
	settleTicks = 3
	// budgetLeft is what lock reads leave of the tick's deadline.
	budgetLeft = time.Second
)

// shareLock closes a gap when its ids can be read with a share lock at once: an
// insert that is not committed holds its row's lock.
type shareLock struct {
	db     *DB
	clause string
}

func (*shareLock) method() string { return "share-lock read" }

func (*shareLock) witness(context.Context) (*holders, error) { return nil, nil }

func (p *shareLock) judge(ctx context.Context, gaps []*gap) error {
	var due []*gap
	for _, g := range gaps {
		if g.ticks >= settleTicks {
			due = append(due, g)
		}
	}
	left := probesPerTick
	for len(due) > 0 && left > 0 && !short(ctx) {
		n := min(len(due), rangesPerQuery)
		if err := p.halve(ctx, due[:n], &left); err != nil {
			return err
		}
		due = due[n:]
	}
	return nil
}

// short says whether little is left of ctx: what is not probed by
// then waits for the next tick.
func short(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) < budgetLeft
}

// halve probes gaps together, and where one of them is locked, each half.
func (p *shareLock) halve(ctx context.Context, gaps []*gap, left *int) error {
	if len(gaps) == 0 || *left <= 0 || short(ctx) {
		return nil
	}
	*left--
	switch err := p.probe(ctx, gaps); {
	case err == nil:
		for _, g := range gaps {
			g.proof = ProofDead
		}
		return nil
	case !isLocked(err):
		return fmt.Errorf("probe %d gaps from id %d: %w", len(gaps), gaps[0].lo, err)
	case len(gaps) == 1:
		return nil
	}
	if err := p.halve(ctx, gaps[:len(gaps)/2], left); err != nil {
		return err
	}
	return p.halve(ctx, gaps[len(gaps)/2:], left)
}

// probe fails at once where a row of the ranges is locked. The index is forced
// because a scan of a small table would meet the locks of rows outside.
func (p *shareLock) probe(ctx context.Context, gaps []*gap) error {
	q := p.db.q
	rows, err := p.db.locks.QueryContext(ctx, "SELECT "+q.id+" FROM "+q.table+" FORCE INDEX (PRIMARY) WHERE "+
		q.within(len(gaps))+p.clause, q.bounds(gaps)...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
	}
	return rows.Err()
}

// isLocked says that a lock read met a lock: 1205 on MariaDB, 3572 on MySQL.
func isLocked(err error) bool {
	var e *mysql.MySQLError
	return errors.As(err, &e) && (e.Number == 1205 || e.Number == 3572)
}
