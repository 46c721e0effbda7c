package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/belay-mq/belay/consumers/release"
)

// realServer reads where a real server is; without one the test is skipped.
func realServer(t *testing.T, variable string) string {
	t.Helper()
	v := os.Getenv(variable)
	if v == "" {
		if os.Getenv("BELAY_TEST_REAL") == "1" {
			t.Fatalf("%s is not set, though BELAY_TEST_REAL=1", variable)
		}
		t.Skipf("%s not set", variable)
	}
	return v
}

// site is a context on real servers, each with a place of its own: a virtual host, a
// database, an application.
type site struct {
	t          *testing.T
	app, queue string
	amqp, dsn  string
	management string
	configPath string // of the first process; then the one that it wrote
	amqpConn   *amqp.Connection
	ch         *amqp.Channel
}

func newSite(t *testing.T, databaseVariable string) *site {
	t.Helper()
	broker, management := realServer(t, "BELAY_TEST_AMQP"), realServer(t, "BELAY_TEST_AMQP_MANAGEMENT")
	server := realServer(t, databaseVariable)
	isolate(t)
	name := fmt.Sprintf("belaycmd%d%d", os.Getpid(), time.Now().UnixNano()%1e6)
	s := &site{t: t, app: name, queue: name + ".refund", management: management}
	s.amqp = s.ownVHost(broker, name)
	s.dsn = ownDatabase(t, server, name)
	s.configPath = filepath.Join(t.TempDir(), "config.yaml")
	nacosPart := "embedded"
	if addr := os.Getenv("BELAY_TEST_NACOS"); addr != "" {
		nacosPart = fmt.Sprintf("{servers: [%q], applications: [%s]}", addr, name)
	}
	text := fmt.Sprintf("contexts:\n  real:\n    nacos: %s\n    rabbitmq: {url: %q, management: %q}\n    releases: {dsn: %q, window: 1s}\n", nacosPart, s.amqp, s.management, s.dsn)
	if err := os.WriteFile(s.configPath, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if s.amqpConn, err = amqp.Dial(s.amqp); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.amqpConn.Close() })
	if s.ch, err = s.amqpConn.Channel(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ch.QueueDeclare(s.queue, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	return s
}

// ownVHost makes a virtual host for one run and returns the broker's URL with it.
func (s *site) ownVHost(broker, name string) string {
	s.t.Helper()
	u, err := url.Parse(broker)
	if err != nil {
		s.t.Fatal(err)
	}
	user, password := u.User.Username(), ""
	if p, ok := u.User.Password(); ok {
		password = p
	}
	call := func(method, path, body string) {
		s.t.Helper()
		req, err := http.NewRequestWithContext(context.Background(), method, strings.TrimSuffix(s.management, "/")+path, strings.NewReader(body))
		if err != nil {
			s.t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		if req.URL.User == nil {
			req.SetBasicAuth(user, password)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			s.t.Fatal(err)
		}
		defer resp.Body.Close()
		if text, _ := io.ReadAll(resp.Body); resp.StatusCode >= 300 {
			s.t.Errorf("%s %s: %s %s", method, path, resp.Status, text)
		}
	}
	call(http.MethodPut, "/api/vhosts/"+name, "{}")
	s.t.Cleanup(func() { call(http.MethodDelete, "/api/vhosts/"+name, "") })
	call(http.MethodPut, "/api/permissions/"+name+"/"+user, `{"configure":".*","write":".*","read":".*"}`)
	u.Path = "/" + name
	return u.String()
}

// ownDatabase makes a database for one run and drops it afterwards.
func ownDatabase(t *testing.T, server, name string) string {
	t.Helper()
	admin, err := release.Open(t.Context(), release.DSN(server))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.SQL().ExecContext(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	force := ""
	if strings.HasPrefix(server, "postgres") {
		force = " WITH (FORCE)"
	}
	t.Cleanup(func() {
		_, err := admin.SQL().ExecContext(context.Background(), "DROP DATABASE "+name+force)
		if err := errors.Join(err, admin.Close()); err != nil {
			t.Error(err)
		}
	})
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

// queueNow asks the broker itself, by a passive declare of a plain client.
func (s *site) queueNow() amqp.Queue {
	s.t.Helper()
	q, err := s.ch.QueueDeclarePassive(s.queue, true, false, false, false, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return q
}

// belay runs a command on the site.
func (s *site) belay(args ...string) (code int, stdout, stderr string) {
	s.t.Helper()
	return belay(s.t, append([]string{"--config", s.configPath}, args...)...)
}

func (s *site) row() (listRow, string) {
	s.t.Helper()
	code, text, errs := s.belay("get", s.app+"/RefundConsumer", "-o", "json")
	if code != exitOK {
		return listRow{}, fmt.Sprintf("exit %d: %s", code, errs)
	}
	return decode[[]listRow](s.t, text)[0], text
}

// write runs a command that writes, and wants it confirmed by three instances.
func (s *site) write(args ...string) {
	s.t.Helper()
	code, text, errs := s.belay(append(args, "--yes", "-o", "json")...)
	if code != exitOK {
		s.t.Fatalf("belay %v: exit %d: %s%s", args, code, text, errs)
	}
	r := decode[[]result](s.t, text)
	if len(r) != 1 || r[0].Result != "done" || r[0].Instances != (resultInstances{3, 3}) || r[0].BrokerMs == nil {
		s.t.Fatalf("belay %v: %s\n%s", args, text, errs)
	}
}

// Three processes on real servers, from the first start to the last message: what belay
// says is what a plain client of the broker and the database itself show.
func TestWholePathOnRealServers(t *testing.T) {
	for kind, variable := range map[string]string{"mariadb": "BELAY_TEST_MYSQL", "postgres": "BELAY_TEST_POSTGRES"} {
		t.Run(kind, func(t *testing.T) {
			s := newSite(t, variable)
			s.startThree()
			s.pauseAndResume()
			s.releases()
		})
	}
}

// startThree starts the first process, which brings the embedded Nacos, and two more that
// use the configuration that it wrote.
func (s *site) startThree() {
	listeners := filepath.Join(s.t.TempDir(), "listeners.yaml")
	text := fmt.Sprintf("app: %s\nlisteners:\n  - {id: RefundConsumer, queues: [%s], concurrency: 1..2, handler: discard}\n", s.app, s.queue)
	if err := os.WriteFile(listeners, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	dir := s.t.TempDir()
	out, _ := background(s.t, "--config", s.configPath, "run", "-f", listeners, "--dir", dir, "--instance", "first:1:a")
	if os.Getenv("BELAY_TEST_NACOS") == "" {
		written := filepath.Join(dir, "config.yaml")
		eventually(s.t, 20*time.Second, "the first process says where its configuration is", func() (bool, string) {
			return strings.Contains(out.String(), written), out.String()
		})
		if code, _, errs := s.belay("list"); code != exitUsage {
			s.t.Errorf("list on a context with an embedded part: exit %d, want %d: %s", code, exitUsage, errs)
		}
		s.configPath = written
	}
	for _, name := range []string{"second:1:a", "third:1:a"} {
		background(s.t, "--config", s.configPath, "run", "-f", listeners, "--instance", name)
	}
	eventually(s.t, 30*time.Second, "three instances run it", func() (bool, string) {
		row, text := s.row()
		return row.Instances == (listInstances{3, 3, 3}) && row.Actual.Consumers >= 3 && s.queueNow().Consumers >= 3, text
	})
}

func (s *site) pauseAndResume() {
	s.write("pause", "RefundConsumer", "--reason", "a test")
	if q := s.queueNow(); q.Consumers != 0 {
		s.t.Errorf("the broker shows %d consumers after a confirmed pause", q.Consumers)
	}
	for range 100 {
		if err := s.ch.PublishWithContext(s.t.Context(), "", s.queue, false, false, amqp.Publishing{Body: []byte("x")}); err != nil {
			s.t.Fatal(err)
		}
	}
	eventually(s.t, 10*time.Second, "100 messages are ready", func() (bool, string) {
		q := s.queueNow()
		return q.Messages == 100 && q.Consumers == 0, fmt.Sprint(q)
	})
	row, text := s.row()
	if row.State != "paused" || row.By != "tester" || row.Reason != "a test" {
		s.t.Errorf("get: %s", text)
	}
	code, note, errs := s.belay("report", s.app+"/RefundConsumer")
	for _, want := range []string{"state: paused", "who: tester", "why: a test", "instances: 3 of 3 as wanted", "first:1:a: stopped", "100 now", "paused by tester"} {
		if code != exitOK || !strings.Contains(note, want) {
			s.t.Errorf("report: exit %d, no %q in\n%s%s", code, want, note, errs)
		}
	}
	s.write("resume", "RefundConsumer")
	eventually(s.t, 20*time.Second, "the 100 are handled", func() (bool, string) {
		q := s.queueNow()
		return q.Messages == 0 && q.Consumers >= 3, fmt.Sprint(q)
	})
}

// feedRecord is a line of 'belay feed -o json'.
type feedRecord struct {
	At                                time.Time
	Source, Key, Version, FromVersion string
	Status                            string
	Merged                            int
	Late                              bool
}

// records reads the JSON lines in what a command printed.
func records(t *testing.T, text string) []feedRecord {
	t.Helper()
	var out []feedRecord
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "{") && strings.HasSuffix(line, "\n") {
			out = append(out, decode[feedRecord](t, line))
		}
	}
	return out
}

func (s *site) releases() {
	if code, _, errs := s.belay("release", "init"); code != exitOK {
		s.t.Fatalf("release init: exit %d: %s", code, errs)
	}
	feed, stop := background(s.t, "--config", s.configPath, "feed", "--source", "release", "-o", "json")
	eventually(s.t, 20*time.Second, "the feed has begun", func() (bool, string) {
		return strings.Contains(feed.String(), "--since shows"), feed.String()
	})
	s.send("begin", 1) // once it is there, the scanner has its position
	s.await(feed, "begin", func(r feedRecord) bool { return r.Status == "delivered" })

	last := s.send("burst", 50)
	s.await(feed, "burst", func(r feedRecord) bool {
		return r.Status == "delivered" && r.Merged == 49 && r.Version == fmt.Sprint(last) && r.FromVersion == fmt.Sprint(last-49) && !r.Late
	})

	// An id that was taken before another one, and committed after it.
	db, err := release.Open(s.t.Context(), release.DSN(s.dsn))
	if err != nil {
		s.t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.SQL().BeginTx(s.t.Context(), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	defer tx.Rollback() // after the commit this does nothing
	held, err := release.NewSender(db, nil).SendTx(s.t.Context(), tx, release.Topic, s.app+"+default+held")
	if err != nil {
		s.t.Fatal(err)
	}
	if after := s.send("overtakes", 1); after <= held.ID {
		s.t.Fatalf("id %d does not come after %d", after, held.ID)
	}
	s.await(feed, "overtakes", func(r feedRecord) bool { return r.Status == "delivered" && !r.Late })
	if err := tx.Commit(); err != nil {
		s.t.Fatal(err)
	}
	s.await(feed, "held", func(r feedRecord) bool {
		return r.Status == "delivered" && r.Late && r.Version == fmt.Sprint(held.ID)
	})
	stop()
	for _, key := range []string{"begin", "burst", "overtakes", "held"} {
		if n := s.linesOf(feed, key); len(n) != 1 {
			s.t.Errorf("%d lines of %s, want one: %+v", len(n), key, n)
		}
	}
}

// send sends n rows of a key in one transaction and returns the highest id.
func (s *site) send(namespace string, n int) uint64 {
	s.t.Helper()
	code, text, errs := s.belay("release", "send", s.app, "default", namespace, "--count", fmt.Sprint(n), "-o", "json")
	if code != exitOK {
		s.t.Fatalf("release send: exit %d: %s", code, errs)
	}
	var sent struct{ First, Last uint64 }
	if err := json.Unmarshal([]byte(text), &sent); err != nil || sent.Last < sent.First {
		s.t.Fatalf("release send: %v: %s", err, text)
	}
	return sent.Last
}

func (s *site) linesOf(feed *lockedBuffer, namespace string) []feedRecord {
	s.t.Helper()
	return slices.DeleteFunc(records(s.t, feed.String()), func(r feedRecord) bool { return r.Key != s.app+"+default+"+namespace })
}

func (s *site) await(feed *lockedBuffer, namespace string, ok func(feedRecord) bool) {
	s.t.Helper()
	eventually(s.t, 15*time.Second, "the line of "+namespace, func() (bool, string) {
		return slices.ContainsFunc(s.linesOf(feed, namespace), ok), feed.String()
	})
}
