package release

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
)

func TestSecretsDoNotPrint(t *testing.T) {
	for _, dsn := range []DSN{
		"mysql://user:s3cret@127.0.0.1:1/db",
		"mysql://user:s3cret%2F@127.0.0.1:1/db?x=s3cret",
		"postgres://user:s3cret@127.0.0.1:1/db?sslpassword=s3cret",
		"postgres://user:s3cret@127.0.0.1:notaport/db",
		"mysql://user:s3cret@[::1/db",
		"mysql://user:s3cret@127.0.0.1:1/",
		"mysql://user:s3cret@127.0.0.1:1/db?parseTime=s3cret",
		"oracle://user:s3cret@127.0.0.1:1/db",
		"user:s3cret@tcp(127.0.0.1:1)/db",
		"s3cret",
		"sqlite:/nowhere/at/all.db?key=s3cret",
	} {
		text, _ := json.Marshal(dsn)
		var log strings.Builder
		slog.New(slog.NewTextHandler(&log, nil)).Info("open", "dsn", dsn)
		_, err := Open(t.Context(), dsn)
		if err == nil {
			t.Errorf("%s opens", dsn)
		}
		for _, printed := range []string{dsn.String(), fmt.Sprintf("%v %+v %#v %s %q", dsn, dsn, dsn, dsn, dsn), string(text), log.String(), fmt.Sprint(err)} {
			if strings.Contains(printed, "s3cret") {
				t.Errorf("the secret is printed: %s", printed)
			}
		}
	}
}

func TestDSN(t *testing.T) {
	for _, c := range []struct {
		dsn  DSN
		name string
		err  string
	}{
		{dsn: DSN("sqlite:" + filepath.Join(t.TempDir(), "with space & %41.db")), name: "with space & %41"},
		{dsn: DSN("sqlite://" + filepath.Join(t.TempDir(), "apollo.sqlite")), name: "apollo"},
		{dsn: "sqlite:", err: "needs the path"},
		{dsn: "sqlite::memory:", err: "needs the path"},
		{dsn: "mysql:///db", err: "want mysql://user:password@host"},
		{dsn: "mysql://u:p@h", err: "name is missing"},
		{dsn: "mysql://u:p@h/a/b", err: "name is missing"},
		{dsn: "mysql://u:p@h/a?timeout=soon", err: "parameters"},
		{dsn: "postgres://u:p@h/db?sslmode=perhaps", err: "does not accept"},
		{dsn: "", err: "must begin with"},
	} {
		db, err := Open(t.Context(), c.dsn)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) || !errors.Is(err, ErrDSN) {
				t.Errorf("%s: %v, want %s", c.dsn, err, c.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.dsn, err)
			continue
		}
		if err := db.Init(t.Context()); err != nil {
			t.Error(err)
		}
		if db.Name() != c.name {
			t.Errorf("%s: name %q, want %q", c.dsn, db.Name(), c.name)
		}
		db.Close()
	}
}

func TestInitTwice(t *testing.T) {
	onEach(t, allKinds, func(t *testing.T, b *bench) {
		b.insert("a+b+c")
		if err := b.db.Init(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.step(b.scanner())
		b.want("1h")
	})
}

func TestServersThatProveNothing(t *testing.T) {
	for _, c := range []struct {
		v    variables
		want string
	}{
		{variables{"version": "8.0.36"}, ""},
		{variables{"version": "8.4.0", "read_only": "OFF", "group_replication_group_name": ""}, ""},
		{variables{"version": "10.11.6-MariaDB-1", "wsrep_on": "OFF"}, ""},
		{variables{"version": "5.5.5-10.2.1-MariaDB"}, "before 10.3"},
		{variables{"version": "10.2.44-MariaDB"}, "before 10.3"},
		{variables{"version": "5.7.44-log"}, "before 8.0"},
		{variables{"version": "8.0.36", "read_only": "ON"}, "read-only"},
		{variables{"version": "8.0.36", "replica": "ON"}, "replica"},
		{variables{"version": "10.11.6-MariaDB", "wsrep_on": "ON"}, "Galera"},
		{variables{"version": "8.0.36", "group_replication_group_name": "g", "group_replication_single_primary_mode": "OFF"}, "several primaries"},
		{variables{"version": "8.0.36", "group_replication_group_name": "g", "group_replication_single_primary_mode": "ON"}, ""},
		{variables{}, "before"},
	} {
		got := c.v.noProof()
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%v: %q, want %q", c.v, got, c.want)
		}
	}
}

// No text makes the parser panic or a password print.
func FuzzDSN(f *testing.F) {
	for _, s := range []string{"mysql://", "postgres://", "sqlite:", "mysql", "", "mariadb://[::1"} {
		f.Add(s, "user", "h:3306/db?tls=true")
	}
	f.Fuzz(func(t *testing.T, scheme, user, rest string) {
		const secret = "5up3rs3cr3t"
		for _, dsn := range []DSN{DSN(scheme + user + ":" + secret + "@" + rest), DSN(scheme + user + rest + secret)} {
			o, err := dsn.open()
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Fatalf("the error prints the secret: %v", err)
			}
			if err == nil {
				(&DB{pool: o.pool, locks: o.locks}).Close()
			}
		}
		u := url.URL{Scheme: "mysql", User: url.UserPassword(user, secret), Host: "h", Path: "/db"}
		if s := DSN(u.String()).String(); strings.Contains(s, secret) {
			t.Fatalf("the DSN prints its secret: %s", s)
		}
	})
}
