package release

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite" // registers the driver "sqlite"
)

// ErrDSN is wrapped by every error about a DSN that cannot be used as written.
var ErrDSN = errors.New("release: bad DSN")

const (
	dialTimeout = 5 * time.Second
	// ioTimeout is longer than the scanner's deadline of a query, so that the
	// context speaks first and the driver only ends what no context covers.
	ioTimeout = 8 * time.Second
	// callTimeout bounds a caller's call where its context does not.
	callTimeout = 10 * time.Second
)

// DSN names a database:
//
//	sqlite:/var/lib/belay/releases.db
//	mysql://user:password@host:3306/ApolloConfigDB?tls=true
//	postgres://user:password@host:5432/apollo?sslmode=require&search_path=config
//
// MySQL and MariaDB take the parameters of github.com/go-sql-driver/mysql,
// PostgreSQL those of github.com/jackc/pgx/v5. A DSN prints with its password as ***.
type DSN string

// String is the DSN with *** for the password, and for every parameter: a
// parameter may be a secret too.
func (d DSN) String() string {
	scheme, rest, ok := strings.Cut(string(d), ":")
	if !ok {
		return "***"
	}
	if scheme == "sqlite" {
		path, _, _ := strings.Cut(rest, "?")
		return scheme + ":" + path
	}
	u, err := url.Parse(string(d))
	if err != nil {
		return scheme + "://***"
	}
	user := ""
	if u.User != nil {
		user = u.User.Username()
		if _, ok := u.User.Password(); ok {
			user += ":***"
		}
		user += "@"
	}
	query := ""
	if u.RawQuery != "" {
		query = "?***"
	}
	return u.Scheme + "://" + user + u.Host + u.Path + query
}

// address says where the table is, without secrets.
func (d DSN) address() string {
	u, err := url.Parse(string(d))
	if err != nil {
		return d.String()
	}
	return d.String() + u.Query().Get("search_path")
}

// GoString keeps %#v from printing the password.
func (d DSN) GoString() string { return "release.DSN(" + d.String() + ")" }

// LogValue keeps slog from printing the password.
func (d DSN) LogValue() slog.Value { return slog.StringValue(d.String()) }

// MarshalText keeps encoders from writing the password.
func (d DSN) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// opened is what one DSN opens.
type opened struct {
	engine engine
	name   string
	pool   *sql.DB
	locks  *sql.DB // MySQL only: READ COMMITTED sessions for the lock reads
}

func (d DSN) open() (opened, error) {
	scheme, rest, _ := strings.Cut(string(d), ":")
	switch scheme {
	case "sqlite":
		return openSQLite(rest)
	case "mysql", "mariadb":
		return openMySQL(string(d))
	case "postgres", "postgresql":
		return openPostgres(string(d))
	}
	return opened{}, fmt.Errorf("%w: it must begin with sqlite:, mysql:// or postgres://", ErrDSN)
}

func openSQLite(rest string) (opened, error) {
	path, query, _ := strings.Cut(rest, "?")
	path = strings.TrimPrefix(path, "//")
	if path == "" || strings.Contains(path, ":memory:") {
		return opened{}, fmt.Errorf("%w: sqlite: needs the path of a file, as in sqlite:/var/lib/belay/releases.db; "+
			"a database in memory cannot be shared by several connections", ErrDSN)
	}
	params, err := url.ParseQuery(query)
	if err != nil {
		return opened{}, fmt.Errorf("%w: the parameters after ? cannot be read", ErrDSN)
	}
	params.Add("_pragma", fmt.Sprintf("busy_timeout(%d)", dialTimeout.Milliseconds()))
	file := url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: params.Encode()}
	pool, err := sql.Open("sqlite", file.String())
	if err != nil {
		return opened{}, fmt.Errorf("%w: %w", ErrDSN, err)
	}
	base := filepath.Base(path)
	return opened{engine: newSQLite(), name: strings.TrimSuffix(base, filepath.Ext(base)), pool: pool}, nil
}

func openMySQL(dsn string) (opened, error) {
	u, err := url.Parse(dsn)
	if err != nil || u.Host == "" {
		return opened{}, fmt.Errorf("%w: want mysql://user:password@host:port/database (special characters of the password as %%XX)", ErrDSN)
	}
	name := strings.TrimPrefix(u.Path, "/")
	if name == "" || strings.Contains(name, "/") {
		return opened{}, fmt.Errorf("%w: the database's name is missing: mysql://user:password@host:port/database", ErrDSN)
	}
	// The driver's own parser reads the parameters, so that all of them work.
	c, err := mysql.ParseDSN("tcp(127.0.0.1)/?" + u.RawQuery)
	if err != nil {
		return opened{}, fmt.Errorf("%w: the driver does not accept the parameters after ?", ErrDSN)
	}
	c.User, c.DBName = u.User.Username(), name
	c.Passwd, _ = u.User.Password()
	port := u.Port()
	if port == "" {
		port = "3306"
	}
	c.Addr = net.JoinHostPort(u.Hostname(), port)
	c.ParseTime, c.Loc, c.InterpolateParams = true, time.UTC, true
	c.Timeout = orDuration(c.Timeout, dialTimeout)
	c.ReadTimeout = orDuration(c.ReadTimeout, ioTimeout)
	c.WriteTimeout = orDuration(c.WriteTimeout, ioTimeout)
	c.Logger = mysql.Logger(&mysql.NopLogger{})
	if c.Params == nil {
		c.Params = map[string]string{}
	}
	c.Params["time_zone"] = "'+00:00'"
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return opened{}, fmt.Errorf("%w: the driver does not accept it", ErrDSN)
	}
	pool := sql.OpenDB(connector)
	locks := sql.OpenDB(readCommitted{connector})
	locks.SetMaxOpenConns(1)
	// Shorter than the server's wait_timeout and than most proxies' patience.
	pool.SetConnMaxIdleTime(time.Minute)
	locks.SetConnMaxIdleTime(time.Minute)
	return opened{engine: newMySQL(), name: name, pool: pool, locks: locks}, nil
}

// readCommitted opens sessions that take no gap locks. It is not used for
// writing: a server with binlog_format=STATEMENT refuses writes at this level.
type readCommitted struct{ driver.Connector }

// Connect implements [driver.Connector].
func (r readCommitted) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := r.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	exec, ok := conn.(driver.ExecerContext)
	if !ok {
		conn.Close()
		return nil, errors.New("release: the MySQL driver cannot execute statements on a new connection")
	}
	if _, err := exec.ExecContext(ctx, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", nil); err != nil {
		conn.Close()
		return nil, fmt.Errorf("release: set READ COMMITTED: %w", err)
	}
	return conn, nil
}

func openPostgres(dsn string) (opened, error) {
	c, err := pgx.ParseConfig(dsn)
	if err != nil {
		// The driver's message may quote parts of the DSN.
		return opened{}, fmt.Errorf("%w: want postgres://user:password@host:port/database?sslmode=…; the driver does not accept it", ErrDSN)
	}
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = dialTimeout
	}
	c.RuntimeParams["timezone"] = "UTC"
	pool := stdlib.OpenDB(*c)
	pool.SetConnMaxIdleTime(time.Minute)
	return opened{engine: newPostgres(), name: c.Database, pool: pool}, nil
}

func orDuration(d, fallback time.Duration) time.Duration {
	if d == 0 {
		return fallback
	}
	return d
}
