package consumers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/belay-mq/belay/consumers"
	"github.com/belay-mq/belay/consumers/broker"
	amqp "github.com/rabbitmq/amqp091-go"
)

// server is a broker under test: the embedded one or RabbitMQ. Each test has a
// vhost of its own.
type server struct {
	url      string
	vhost    string
	embedded *broker.Broker // nil: RabbitMQ
	mgmt     string         // the management API, with user and password; may be empty
	admin    *amqp.Connection
	ch       *amqp.Channel
}

var vhostSeq atomic.Uint64

// onServers runs a test on the embedded broker, and on RabbitMQ where
// BELAY_TEST_AMQP names one.
func onServers(t *testing.T, f func(t *testing.T, s *server)) {
	t.Run("embedded", func(t *testing.T) { f(t, embeddedServer(t, broker.Config{})) })
	t.Run("rabbitmq", func(t *testing.T) { f(t, realServer(t)) })
}

func embeddedServer(t testing.TB, cfg broker.Config) *server {
	t.Helper()
	b, err := broker.Listen(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := b.Close(ctx); err != nil {
			t.Errorf("closing the broker: %v", err)
		}
	})
	s := &server{url: b.URL(), vhost: "/", embedded: b}
	if cfg.ManagementAddr != "" {
		s.mgmt = strings.Replace(b.ManagementURL(), "://", "://guest:guest@", 1)
	}
	s.connect(t)
	return s
}

// realServer returns RabbitMQ, with a new vhost where the management API can
// make one.
func realServer(t testing.TB) *server {
	t.Helper()
	raw := env(t, "BELAY_TEST_AMQP")
	s := &server{url: raw, vhost: "/", mgmt: strings.TrimRight(env(t, "BELAY_TEST_AMQP_MANAGEMENT"), "/")}
	s.vhost = fmt.Sprintf("consumers-%d-%d", os.Getpid(), vhostSeq.Add(1))
	s.api(t, http.MethodPut, "/api/vhosts/"+s.vhost, "")
	t.Cleanup(func() { s.api(t, http.MethodDelete, "/api/vhosts/"+s.vhost, "") })
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + s.vhost
	s.url = u.String()
	s.connect(t)
	return s
}

// env returns an environment variable; without it the test is skipped, or fails
// where BELAY_TEST_REAL asks for the real servers.
func env(t testing.TB, name string) string {
	t.Helper()
	v := os.Getenv(name)
	if v == "" {
		if os.Getenv("BELAY_TEST_REAL") == "1" {
			t.Fatalf("%s not set, and BELAY_TEST_REAL=1 asks for it", name)
		}
		t.Skipf("%s not set", name)
	}
	return v
}

func (s *server) connect(t testing.TB) {
	t.Helper()
	var err error
	if s.admin, err = amqp.Dial(s.url); err != nil {
		t.Fatal(err)
	}
	if s.ch, err = s.admin.Channel(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.admin.Close() })
}

// api calls RabbitMQ's management API.
func (s *server) api(t testing.TB, method, path, body string) {
	t.Helper()
	_ = s.call(t, method, path, body)
}

// get reads a JSON answer of the management API.
func (s *server) get(t testing.TB, path string, to any) {
	t.Helper()
	if err := json.Unmarshal(s.call(t, http.MethodGet, path, ""), to); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func (s *server) call(t testing.TB, method, path, body string) []byte {
	t.Helper()
	defer http.DefaultClient.CloseIdleConnections()
	req, err := http.NewRequestWithContext(context.Background(), method, s.mgmt+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 300 {
		t.Fatalf("%s %s: %s %s %v", method, path, resp.Status, answer, err)
	}
	return answer
}

// ctl runs rabbitmqctl for the server under test.
func (s *server) ctl(t testing.TB, args ...string) string {
	t.Helper()
	prefix := strings.Fields(env(t, "BELAY_TEST_RABBITMQCTL"))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, prefix[0], append(prefix[1:], args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("rabbitmqctl %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// setting changes a setting of RabbitMQ's application for the test.
func (s *server) setting(t testing.TB, name, value string) {
	t.Helper()
	was := s.ctl(t, "eval", "application:get_env(rabbit,"+name+").")
	number, known := strings.CutPrefix(strings.TrimSuffix(was, "}"), "{ok,")
	if !known {
		t.Fatalf("setting %s is %s", name, was)
	}
	s.ctl(t, "eval", fmt.Sprintf("application:set_env(rabbit,%s,%s).", name, value))
	t.Cleanup(func() { s.ctl(t, "eval", fmt.Sprintf("application:set_env(rabbit,%s,%s).", name, number)) })
}

// setPassword makes a user who may do everything in the test's vhost.
func (s *server) setPassword(t testing.TB, name, password string) {
	t.Helper()
	if s.embedded != nil {
		err := s.embedded.SetUser(broker.User{Name: name, Password: broker.Password(password)})
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	name = url.PathEscape(name)
	s.api(t, http.MethodPut, "/api/users/"+name, fmt.Sprintf(`{"password":%q,"tags":""}`, password))
	s.api(t, http.MethodPut, "/api/permissions/"+s.vhost+"/"+name, `{"configure":".*","write":".*","read":".*"}`)
}

// permit sets what a user may read in the test's vhost; it may do all else.
func (s *server) permit(t testing.TB, name, read string) {
	t.Helper()
	if s.embedded != nil {
		check(t, s.embedded.SetUser(broker.User{Name: name, Password: broker.Password(name), Permissions: map[string]broker.Permissions{
			"/": {Configure: ".*", Write: ".*", Read: read},
		}}))
		return
	}
	s.api(t, http.MethodPut, "/api/permissions/"+s.vhost+"/"+name, fmt.Sprintf(`{"configure":".*","write":".*","read":%q}`, read))
}

func envSet(name string) bool { return os.Getenv(name) == "1" }

func (s *server) declare(t testing.TB, queue string, args amqp.Table) {
	t.Helper()
	if _, err := s.ch.QueueDeclare(queue, true, false, false, false, args); err != nil {
		t.Fatalf("declaring %s: %v", queue, err)
	}
}

// publish sends n messages, numbered from first, and waits for the confirms.
func (s *server) publish(t testing.TB, queue string, first, n int) {
	t.Helper()
	ch, err := s.admin.Channel()
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	var last *amqp.DeferredConfirmation
	for i := first; i < first+n; i++ {
		last, err = ch.PublishWithDeferredConfirm("", queue, false, false, amqp.Publishing{
			MessageId: fmt.Sprint(i), Body: fmt.Append(nil, i), DeliveryMode: amqp.Persistent})
		if err != nil {
			t.Fatal(err)
		}
	}
	if last != nil && !last.Wait() {
		t.Fatal("the broker did not confirm")
	}
}

// inspect declares passively: what is ready, and how many consume.
func (s *server) inspect(t testing.TB, queue string) amqp.Queue {
	t.Helper()
	q, err := s.ch.QueueDeclarePassive(queue, false, false, false, false, nil)
	if err != nil {
		t.Fatalf("inspecting %s: %v", queue, err)
	}
	return q
}

// unacked asks the management API what is delivered and not acked; RabbitMQ's
// number lags by seconds.
func (s *server) unacked(t testing.TB, queue string) int {
	t.Helper()
	var q struct {
		Unacked int `json:"messages_unacknowledged"`
	}
	s.get(t, "/api/queues/"+url.PathEscape(s.vhost)+"/"+queue, &q)
	return q.Unacked
}

// dial returns a Conn that is closed with the test.
func (s *server) dial(t testing.TB, change ...func(*consumers.ConnConfig)) *consumers.Conn {
	t.Helper()
	cfg := consumers.ConnConfig{URL: s.url, App: "test"}
	for _, f := range change {
		f(&cfg)
	}
	conn, err := consumers.Dial(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		if err := conn.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return conn
}

// container returns a container that is closed with the test.
func container(t testing.TB, conn *consumers.Conn, cfg consumers.Config, h consumers.Handler) *consumers.Container {
	t.Helper()
	if cfg.ListenerID == "" {
		cfg.ListenerID = "Listener"
	}
	c, err := consumers.New(conn, cfg, h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeNow(t, c) })
	return c
}

func closeNow(t testing.TB, c *consumers.Container) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	if err := c.Close(ctx); err != nil {
		t.Error(err)
	}
}

func start(t testing.TB, c *consumers.Container) {
	t.Helper()
	if err := c.Start(t.Context(), consumers.Cause{By: "test"}); err != nil {
		t.Fatal(err)
	}
}

func stop(t testing.TB, c *consumers.Container) consumers.StopReport {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	r, err := c.Stop(ctx, consumers.Cause{By: "test"})
	if err != nil {
		t.Fatalf("stop: %v (%+v)", err, r)
	}
	return r
}

// eventually waits until ok; what says what was waited for.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	eventuallyIn(t, 15*time.Second, what, ok)
}

func eventuallyIn(t testing.TB, d time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(d); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %s in vain: %s", d, what)
		}
	}
}

func awaitState(t testing.TB, c *consumers.Container, want consumers.State) {
	t.Helper()
	eventually(t, fmt.Sprintf("state %s", want), func() bool { return c.Status().State == want })
}

// tally counts messages by id.
type tally struct {
	mu   chan struct{}
	seen map[string]int
}

func newTally() *tally { return &tally{mu: make(chan struct{}, 1), seen: map[string]int{}} }

func (y *tally) add(id string) {
	y.mu <- struct{}{}
	y.seen[id]++
	<-y.mu
}

func (y *tally) total() (messages, deliveries int) {
	y.mu <- struct{}{}
	defer func() { <-y.mu }()
	for _, n := range y.seen {
		deliveries += n
	}
	return len(y.seen), deliveries
}
