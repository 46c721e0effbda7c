package observe_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.uber.org/goleak"

	"github.com/belay-mq/belay/consumers"
	"github.com/belay-mq/belay/consumers/broker"
	"github.com/belay-mq/belay/consumers/observe"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

const patience = 20 * time.Second

// world is a broker under test with a client of the test's own.
type world struct {
	broker     *broker.Broker // nil for RabbitMQ
	url        string
	management string
	conn       *amqp.Connection
	ch         *amqp.Channel
}

// onEach runs a test on the embedded broker and on RabbitMQ where the
// environment names one.
func onEach(t *testing.T, f func(t *testing.T, w *world)) {
	t.Run("embedded", func(t *testing.T) { f(t, embedded(t)) })
	t.Run("rabbitmq", func(t *testing.T) {
		url, management := os.Getenv("BELAY_TEST_AMQP"), os.Getenv("BELAY_TEST_AMQP_MANAGEMENT")
		if url == "" || management == "" {
			if os.Getenv("BELAY_TEST_REAL") == "1" {
				t.Fatal("BELAY_TEST_REAL=1 but BELAY_TEST_AMQP or BELAY_TEST_AMQP_MANAGEMENT is not set")
			}
			t.Skip("BELAY_TEST_AMQP or BELAY_TEST_AMQP_MANAGEMENT not set")
		}
		w := &world{url: url, management: management}
		w.dial(t)
		f(t, w)
	})
}

func embedded(t *testing.T, users ...broker.User) *world {
	t.Helper()
	b, err := broker.Listen(t.Context(), broker.Config{ManagementAddr: "127.0.0.1:0", StatsInterval: 50 * time.Millisecond, Users: users})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	w := &world{broker: b, url: b.URL(), management: strings.Replace(b.ManagementURL(), "http://", "http://guest:guest@", 1)}
	w.dial(t)
	return w
}

func (w *world) dial(t *testing.T) {
	t.Helper()
	var err error
	if w.conn, err = amqp.DialConfig(w.url, amqp.Config{Properties: amqp.Table{
		"connection_name": "settle-service", "belay-app": "settle-service", "belay-instance": "host-a:1:ab",
	}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.conn.Close() })
	w.ch = w.open(t)
}

func (w *world) open(t *testing.T) *amqp.Channel {
	t.Helper()
	ch, err := w.conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

func (w *world) queue(t *testing.T, args amqp.Table) observe.QueueID {
	t.Helper()
	name := fmt.Sprintf("observe %%/ä.%d", time.Now().UnixNano())
	if _, err := w.ch.QueueDeclare(name, true, false, false, false, args); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if c, err := amqp.Dial(w.url); err == nil {
			defer c.Close()
			if ch, err := c.Channel(); err == nil {
				ch.QueueDelete(name, false, false, false)
			}
		}
	})
	return observe.QueueID{VHost: "/", Name: name}
}

func (w *world) publish(t *testing.T, id observe.QueueID, n int) {
	t.Helper()
	for range n {
		if err := w.ch.PublishWithContext(t.Context(), "", id.Name, false, false, amqp.Publishing{Body: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
}

// observing runs an observer until the test ends.
func (w *world) observing(t *testing.T, change func(*observe.Config), ids ...observe.QueueID) *observe.Observer {
	t.Helper()
	conn, err := consumers.Dial(t.Context(), consumers.ConnConfig{URL: w.url, Recovery: consumers.Backoff{Min: 20 * time.Millisecond, Max: 200 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	cfg := observe.Config{
		Conn: conn, Interval: 50 * time.Millisecond, Management: observe.Secret(w.management),
		ManagementInterval: 100 * time.Millisecond, Timeout: 2 * time.Second,
	}
	if change != nil {
		change(&cfg)
	}
	o, err := observe.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- o.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := conn.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	o.Want(ids)
	return o
}

// eventually waits until cond holds for the queue.
func eventually(t *testing.T, o *observe.Observer, id observe.QueueID, what string, cond func(*observe.Queue) bool) *observe.Queue {
	t.Helper()
	deadline := time.Now().Add(patience)
	var q *observe.Queue
	for time.Now().Before(deadline) {
		if q = o.Queues()[id]; q != nil && cond(q) {
			return q
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%s: never; the queue is %+v\nhealth %+v", what, q, o.Health())
	return nil
}

func TestNumbers(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		id := w.queue(t, nil)
		w.publish(t, id, 5)
		work := w.open(t)
		work.Qos(2, 0, false)
		if _, err := work.Consume(id.Name, "tag", false, false, false, false, amqp.Table{"x-listener-id": "SettleConsumer"}); err != nil {
			t.Fatal(err)
		}
		o := w.observing(t, nil, id)
		q := eventually(t, o, id, "declare", func(q *observe.Queue) bool { return q.Ready.Value == 3 && q.Consumers.Value == 1 })
		if q.Ready.Source != observe.Declare || q.Consumers.Source != observe.Declare || time.Since(q.Ready.At) > time.Second || q.Missing || q.Err != "" || !q.Stale.IsZero() {
			t.Errorf("by declare %+v", q)
		}
		q = eventually(t, o, id, "management", func(q *observe.Queue) bool {
			return q.Unacked.Known && q.Unacked.Value == 2 && len(q.ConsumerList) == 1 && q.ConsumerList[0].Instance != ""
		})
		if q.Unacked.Source != observe.Management || !q.InRate.Known || !q.OutRate.Known || !q.SettingsKnown || q.ListAt.IsZero() {
			t.Errorf("by management %+v", q)
		}
		want := observe.Consumer{Tag: "tag", ListenerID: "SettleConsumer", Connection: "settle-service", Instance: "host-a:1:ab", App: "settle-service", Prefetch: 2, Active: true}
		if q.ConsumerList[0] != want {
			t.Errorf("consumer %+v", q.ConsumerList[0])
		}
		if len(q.History) < 60 || len(q.Hazards) != 0 {
			t.Errorf("%d samples, hazards %v", len(q.History), q.Hazards)
		}
		for i := 1; i < len(q.History); i++ {
			if !q.History[i].At.After(q.History[i-1].At) {
				t.Fatal("samples out of order")
			}
		}
		h := o.Health()
		if !h.Declare.OK || !h.Management.OK || h.Management.Err != "" || !strings.HasPrefix(h.Management.Version, "3.") || h.Declare.Latency <= 0 || h.Declare.LastOK.IsZero() {
			t.Errorf("health %+v", h)
		}
	})
}

func TestMissingQueue(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		id, there := w.queue(t, nil), w.queue(t, nil)
		o := w.observing(t, nil, id, there)
		eventually(t, o, id, "there", func(q *observe.Queue) bool { return q.Ready.Known && !q.Missing })
		if _, err := w.ch.QueueDelete(id.Name, false, false, false); err != nil {
			t.Fatal(err)
		}
		q := eventually(t, o, id, "missing", func(q *observe.Queue) bool { return q.Missing })
		if q.Ready.Known || q.Err != "" || !q.Stale.IsZero() || q.ConsumerList != nil {
			t.Errorf("missing queue %+v", q)
		}
		if !o.Health().Declare.OK {
			t.Errorf("a missing queue is no fault of the broker: %+v", o.Health())
		}
		before := o.Queues()[there].Ready.At
		eventually(t, o, there, "the other is read on", func(q *observe.Queue) bool { return q.Ready.At.After(before) })
		if _, err := w.ch.QueueDeclare(id.Name, true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		eventually(t, o, id, "back", func(q *observe.Queue) bool { return !q.Missing && q.Ready.Known })
	})
}

func TestHazardsFromArgumentsAndPolicy(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		id := w.queue(t, amqp.Table{"x-message-ttl": int32(3_600_000), "x-max-length": int32(10), "x-expires": int32(1_800_000)})
		w.publish(t, id, 3)
		o := w.observing(t, nil, id)
		q := eventually(t, o, id, "hazards", func(q *observe.Queue) bool { return len(q.Hazards) == 3 })
		codes := fmt.Sprint(q.Hazards[0].Code, q.Hazards[1].Code, q.Hazards[2].Code)
		if codes != observe.CodeExpires+observe.CodeTTL+observe.CodeMaxLength {
			t.Errorf("hazards %+v", q.Hazards)
		}
		quorum := w.queue(t, amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": int32(7), "x-single-active-consumer": true})
		o.Want([]observe.QueueID{quorum})
		q = eventually(t, o, quorum, "hazards", func(q *observe.Queue) bool { return len(q.Hazards) == 2 })
		if q.DeliveryLimit != 7 || q.Hazards[0].Code != observe.CodeDeliveryLimit || q.Hazards[1].Code != observe.CodeSingleActive {
			t.Errorf("%+v", q)
		}
		if _, still := o.Queues()[id]; still {
			t.Error("a queue that is no longer wanted is still shown")
		}
	})
}

func TestExclusiveQueue(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		mine, err := w.ch.QueueDeclare("", false, false, true, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		id := observe.QueueID{VHost: "/", Name: mine.Name}
		w.publish(t, id, 4)
		o := w.observing(t, nil, id)
		q := eventually(t, o, id, "numbers in spite of the lock", func(q *observe.Queue) bool { return q.Ready.Value == 4 && len(q.Hazards) == 1 })
		if q.Ready.Source != observe.Management || q.Hazards[0].Code != observe.CodeExclusive || !strings.Contains(q.Err, "exclusive to another connection") {
			t.Errorf("%+v", q)
		}
	})
}

// Disagreement is said only when both counts have been steady.
func TestDisagreement(t *testing.T) {
	w := embedded(t)
	id := w.queue(t, amqp.Table{"x-queue-type": "quorum", "x-single-active-consumer": true})
	for range 3 {
		if _, err := w.ch.Consume(id.Name, "", false, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
	}
	o := w.observing(t, func(c *observe.Config) { c.Lag = 300 * time.Millisecond }, id)
	q := eventually(t, o, id, "disagreement", func(q *observe.Queue) bool { return q.Disagree })
	if q.Consumers.Value != 1 || q.Consumers.Source != observe.Declare || q.ManagementConsumers.Value != 3 || q.ManagementConsumers.Source != observe.Management {
		t.Errorf("%+v", q)
	}
	// A change that the management API has not seen yet is none.
	plain := w.queue(t, nil)
	o2 := w.observing(t, func(c *observe.Config) { c.Lag = time.Hour }, plain)
	eventually(t, o2, plain, "list", func(q *observe.Queue) bool { return q.ConsumerList != nil })
	w.ch.Consume(plain.Name, "", false, false, false, false, nil)
	if q := eventually(t, o2, plain, "consumer", func(q *observe.Queue) bool { return q.Consumers.Value == 1 }); q.Disagree {
		t.Errorf("%+v", q)
	}
}

func TestWithoutManagement(t *testing.T) {
	w := embedded(t)
	id := w.queue(t, amqp.Table{"x-max-length": int32(10)})
	w.publish(t, id, 2)
	o := w.observing(t, func(c *observe.Config) { c.Management = "" }, id)
	q := eventually(t, o, id, "declare", func(q *observe.Queue) bool { return q.Ready.Value == 2 })
	if q.ConsumerList != nil || q.SettingsKnown || q.InRate.Known || q.Unacked.Known || q.Disagree {
		t.Errorf("%+v", q)
	}
	if h := o.Health(); h.Management.Configured || !h.Declare.Configured {
		t.Errorf("health %+v", h)
	}
}

// When the management API refuses, numbers go on by passive declare and
// health says why.
func TestManagementRefuses(t *testing.T) {
	all := map[string]broker.Permissions{"/": {Configure: ".*", Read: ".*", Write: ".*"}}
	w := embedded(t,
		broker.User{Name: "guest", Password: "guest"},
		broker.User{Name: "app", Password: "p", Tags: []string{}, Permissions: all},
		broker.User{Name: "man", Password: "p", Tags: []string{"management"}, Permissions: all},
	)
	id := w.queue(t, amqp.Table{"x-max-length": int32(10)})
	w.publish(t, id, 2)
	as := func(login string) func(*observe.Config) {
		return func(c *observe.Config) {
			c.Management = observe.Secret(strings.Replace(w.broker.ManagementURL(), "http://", "http://"+login+"@", 1))
		}
	}
	health := func(o *observe.Observer, cond func(observe.Side) bool) observe.Side {
		t.Helper()
		deadline := time.Now().Add(patience)
		for !cond(o.Health().Management) {
			if time.Now().After(deadline) {
				t.Fatalf("health %+v", o.Health())
			}
			time.Sleep(10 * time.Millisecond)
		}
		return o.Health().Management
	}
	failed := func(s observe.Side) bool { return s.Err != "" }

	for _, login := range []string{"guest:wrong", "app:p"} {
		o := w.observing(t, as(login), id)
		eventually(t, o, id, "declare", func(q *observe.Queue) bool { return q.Ready.Value == 2 && q.ConsumerList == nil })
		s := health(o, failed)
		if !strings.HasPrefix(s.Err, "401 ") || !strings.Contains(s.Advice, "monitoring") || strings.Contains(s.Err+s.Advice, "wrong") {
			t.Errorf("%s: %+v", login, s)
		}
	}
	o := w.observing(t, as("man:p"), id)
	eventually(t, o, id, "management", func(q *observe.Queue) bool { return q.Unacked.Known })
	if s := health(o, func(s observe.Side) bool { return s.OK }); !strings.Contains(s.Advice, "no tag monitoring") {
		t.Errorf("%+v", s)
	}

	o = w.observing(t, nil, id)
	eventually(t, o, id, "management", func(q *observe.Queue) bool { return q.ConsumerList != nil })
	w.broker.SetStats(broker.StatsRefused)
	eventually(t, o, id, "degraded", func(q *observe.Queue) bool { return q.ConsumerList == nil && q.Ready.Source == observe.Declare })
	if s := health(o, failed); !strings.HasPrefix(s.Err, "400 ") || !strings.Contains(s.Advice, "passive declare") {
		t.Errorf("%+v", s)
	}
	w.broker.SetStats(broker.StatsOn)
	o.Refresh()
	eventually(t, o, id, "recovered", func(q *observe.Queue) bool { return q.ConsumerList != nil })
	health(o, func(s observe.Side) bool { return s.OK })

	// Old servers with statistics disabled still tell arguments.
	w.broker.SetStats(broker.StatsBare)
	o = w.observing(t, nil, id)
	q := eventually(t, o, id, "hazards", func(q *observe.Queue) bool { return len(q.Hazards) == 1 })
	if q.ConsumerList != nil || q.SettingsKnown || q.Ready.Source != observe.Declare {
		t.Errorf("%+v", q)
	}
	health(o, failed)
}

func TestBrokerGoesAway(t *testing.T) {
	w := embedded(t)
	id := w.queue(t, nil)
	o := w.observing(t, nil, id)
	eventually(t, o, id, "read", func(q *observe.Queue) bool { return q.Ready.Known && q.ConsumerList != nil })
	if err := w.broker.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	q := eventually(t, o, id, "stale", func(q *observe.Queue) bool { return !q.Stale.IsZero() && q.Err != "" })
	if !q.Ready.Known || q.Stale.Before(q.Ready.At.Add(-time.Second)) {
		t.Errorf("stale %+v", q)
	}
	deadline := time.Now().Add(patience)
	for h := o.Health(); h.Declare.OK || h.Management.OK || h.Declare.Advice == "" || h.Management.Advice == ""; h = o.Health() {
		if time.Now().After(deadline) {
			t.Fatalf("health %+v", h)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := w.broker.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, o, id, "read again", func(q *observe.Queue) bool {
		return q.Stale.IsZero() && q.Err == "" && q.ConsumerList != nil && o.Health().Management.OK && o.Health().Declare.OK
	})
}

// A broker that is silent blocks nobody who reads, and Run ends all the same.
func TestFrozenBroker(t *testing.T) {
	w := embedded(t)
	id := w.queue(t, nil)
	o := w.observing(t, func(c *observe.Config) { c.Timeout = 200 * time.Millisecond }, id)
	eventually(t, o, id, "read", func(q *observe.Queue) bool { return q.Ready.Known })
	w.broker.Freeze()
	eventually(t, o, id, "stale", func(q *observe.Queue) bool {
		return !q.Stale.IsZero() && strings.Contains(q.Err, "does not answer")
	})
	start := time.Now()
	o.Queues()
	o.Refresh()
	o.Want([]observe.QueueID{id})
	if took := time.Since(start); took > 100*time.Millisecond {
		t.Errorf("readers were blocked for %v", took)
	}
	w.broker.Thaw()
	eventually(t, o, id, "read again", func(q *observe.Queue) bool { return q.Stale.IsZero() && q.Err == "" })
}

func TestLoopingConsumer(t *testing.T) {
	if os.Getenv("BELAY_TEST_SOAK") != "1" {
		t.Skip("takes 15 s; the decision itself is tested without waiting; BELAY_TEST_SOAK not set")
	}
	onEach(t, func(t *testing.T, w *world) {
		id := w.queue(t, nil)
		work := w.open(t)
		work.Qos(1, 0, false)
		d, err := work.Consume(id.Name, "", false, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for m := range d {
				time.Sleep(10 * time.Millisecond)
				m.Nack(false, true)
			}
		}()
		w.publish(t, id, 3)
		o := w.observing(t, func(c *observe.Config) { c.ManagementInterval = time.Second }, id)
		q := eventually(t, o, id, "looping", func(q *observe.Queue) bool { return q.Looping })
		if q.Redelivered.Value < 90 || !strings.HasPrefix(q.Forecast, "looping: redelivered ") {
			t.Errorf("%+v", q)
		}
	})
}

func TestNew(t *testing.T) {
	if _, err := observe.New(observe.Config{}); err == nil {
		t.Error("made without a connection")
	}
	conn, err := consumers.Dial(t.Context(), consumers.ConnConfig{URL: "amqp://guest:guest@127.0.0.1:1/"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, bad := range []string{"127.0.0.1:15672", "ftp://u:hunter2@h/", "http://%zz:hunter2@h"} {
		_, err := observe.New(observe.Config{Conn: conn, Management: observe.Secret(bad)})
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	secret := observe.Secret("http://u:hunter2@h")
	if text := fmt.Sprintf("%v %+v %#v %s %q", secret, observe.Config{Management: secret}, secret, secret, secret); strings.Contains(text, "hunter2") {
		t.Errorf("printed %s", text)
	}
	if _, err := url.Parse(string(secret)); err != nil {
		t.Error(err)
	}
}
