package broker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/belay-mq/belay/consumers/broker"
)

// server is a broker under test: the embedded one or a real RabbitMQ.
type server struct {
	url  string
	dial func(url string, cfg amqp.Config) (*amqp.Connection, error)
}

// onEach runs a test on the embedded broker, over TCP and through memory, and
// on RabbitMQ where the environment names one.
func onEach(t *testing.T, f func(t *testing.T, s *server)) {
	t.Run("embedded", func(t *testing.T) {
		b := listen(t, broker.Config{})
		f(t, &server{url: b.URL(), dial: amqp.DialConfig})
	})
	t.Run("pipe", func(t *testing.T) {
		b, err := broker.New(broker.Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { shut(t, b) })
		f(t, &server{url: b.URL(), dial: func(url string, cfg amqp.Config) (*amqp.Connection, error) {
			cfg.Dial = b.Dial
			return amqp.DialConfig(url, cfg)
		}})
	})
	t.Run("rabbitmq", func(t *testing.T) {
		f(t, &server{url: realURL(t), dial: amqp.DialConfig})
	})
}

func realURL(t testing.TB) string {
	url := os.Getenv("BELAY_TEST_AMQP")
	if url == "" {
		if os.Getenv("BELAY_TEST_REAL") == "1" {
			t.Fatal("BELAY_TEST_REAL=1 but BELAY_TEST_AMQP is not set")
		}
		t.Skip("BELAY_TEST_AMQP not set")
	}
	return url
}

func listen(t testing.TB, cfg broker.Config) *broker.Broker {
	t.Helper()
	b, err := broker.Listen(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(t, b) })
	return b
}

func shut(t testing.TB, b *broker.Broker) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := b.Close(ctx); err != nil {
		t.Error(err)
	}
}

func (s *server) connect(t testing.TB) *amqp.Connection {
	t.Helper()
	c, err := s.dial(s.url, amqp.Config{Heartbeat: 10 * time.Second, Locale: "en_US"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func (s *server) channel(t testing.TB) *amqp.Channel {
	t.Helper()
	return open(t, s.connect(t))
}

func open(t testing.TB, c *amqp.Connection) *amqp.Channel {
	t.Helper()
	ch, err := c.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

// queue declares a queue of the test's own name and deletes it at the end.
func (s *server) queue(t testing.TB, ch *amqp.Channel, args amqp.Table) string {
	t.Helper()
	name := fmt.Sprintf("test.%s.%d", strings.ReplaceAll(t.Name(), "/", "."), time.Now().UnixNano())
	if _, err := ch.QueueDeclare(name, true, false, false, false, args); err != nil {
		t.Fatal(err)
	}
	s.atEnd(t, func(ch *amqp.Channel) { ch.QueueDelete(name, false, false, false) })
	return name
}

// atEnd calls f on a fresh channel when the test is over, unless the broker is
// gone by then.
func (s *server) atEnd(t testing.TB, f func(*amqp.Channel)) {
	t.Cleanup(func() {
		c, err := s.dial(s.url, amqp.Config{})
		if err != nil {
			return
		}
		defer c.Close()
		if ch, err := c.Channel(); err == nil {
			f(ch)
		}
	})
}

func publish(t testing.TB, ch *amqp.Channel, queue string, bodies ...string) {
	t.Helper()
	for _, body := range bodies {
		err := ch.PublishWithContext(t.Context(), "", queue, false, false, amqp.Publishing{Body: []byte(body), DeliveryMode: 2})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func consume(t testing.TB, ch *amqp.Channel, queue string, args amqp.Table) <-chan amqp.Delivery {
	t.Helper()
	d, err := ch.Consume(queue, "", false, false, false, false, args)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

const patience = 10 * time.Second

func receive(t testing.TB, d <-chan amqp.Delivery) amqp.Delivery {
	t.Helper()
	select {
	case m, ok := <-d:
		if !ok {
			t.Fatal("delivery stream closed")
		}
		return m
	case <-time.After(patience):
		t.Fatal("no delivery")
	}
	return amqp.Delivery{}
}

func none(t testing.TB, d <-chan amqp.Delivery) {
	t.Helper()
	select {
	case m, ok := <-d:
		if ok {
			t.Fatalf("unexpected delivery %q", m.Body)
		}
		t.Fatal("delivery stream closed")
	case <-time.After(100 * time.Millisecond):
	}
}

func wantReady(t testing.TB, ch *amqp.Channel, queue string, ready, consumers int) {
	t.Helper()
	var q amqp.Queue
	for range 100 {
		var err error
		if q, err = ch.QueueDeclarePassive(queue, true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		if q.Messages == ready && q.Consumers == consumers {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("queue has %d ready and %d consumers, want %d and %d", q.Messages, q.Consumers, ready, consumers)
}

func wantReply(t testing.TB, err error, code int, text string) {
	t.Helper()
	var reply *amqp.Error
	if !errors.As(err, &reply) {
		t.Fatalf("error %v, want reply %d", err, code)
	}
	if reply.Code != code || text != "" && reply.Reason != text {
		t.Fatalf("reply %d %q\nwant  %d %q", reply.Code, reply.Reason, code, text)
	}
}

func TestPublishConsume(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		ch := s.channel(t)
		q := s.queue(t, ch, nil)
		if err := ch.Confirm(false); err != nil {
			t.Fatal(err)
		}
		big := strings.Repeat("x", 300_000)
		for _, body := range []string{"a", "", big} {
			c, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), "", q, false, false, amqp.Publishing{
				Body: []byte(body), ContentType: "text/plain", MessageId: "m1", Headers: amqp.Table{"n": int32(5), "t": amqp.Table{"x": "y"}},
			})
			if err != nil {
				t.Fatal(err)
			}
			if ok, err := c.WaitContext(t.Context()); err != nil || !ok {
				t.Fatal("not confirmed", err)
			}
		}
		wantReady(t, ch, q, 3, 0)
		d := consume(t, ch, q, nil)
		for _, body := range []string{"a", "", big} {
			m := receive(t, d)
			if string(m.Body) != body || m.Redelivered || m.ContentType != "text/plain" || m.MessageId != "m1" || m.Headers["n"] != int32(5) {
				t.Fatalf("got %d bytes %v", len(m.Body), m.Headers)
			}
			if err := m.Ack(false); err != nil {
				t.Fatal(err)
			}
		}
		wantReady(t, ch, q, 0, 1)
	})
}

func TestPrefetchAckNackReject(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		ch := s.channel(t)
		q := s.queue(t, ch, nil)
		publish(t, ch, q, "1", "2", "3", "4", "5")
		if err := ch.Qos(2, 0, false); err != nil {
			t.Fatal(err)
		}
		d := consume(t, ch, q, nil)
		m1, m2 := receive(t, d), receive(t, d)
		none(t, d)
		m1.Ack(false)
		m3 := receive(t, d)
		none(t, d)
		m3.Nack(true, true) // 2 and 3 come again, in their order
		for _, want := range []string{"2", "3"} {
			m := receive(t, d)
			if string(m.Body) != want || !m.Redelivered {
				t.Fatalf("got %q redelivered %v, want %q again", m.Body, m.Redelivered, want)
			}
			m2 = m
		}
		m2.Ack(true)
		m4, m5 := receive(t, d), receive(t, d)
		if string(m4.Body) != "4" || string(m5.Body) != "5" {
			t.Fatalf("got %q %q", m4.Body, m5.Body)
		}
		m4.Reject(false)
		m5.Reject(true)
		if m := receive(t, d); string(m.Body) != "5" {
			t.Fatalf("got %q", m.Body)
		}
		ch2 := s.channel(t)
		wantReady(t, ch2, q, 0, 1)
		ch.Close()
		wantReady(t, ch2, q, 1, 0)
	})
}

func TestReplies(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		ch := s.channel(t)
		_, err := ch.QueueDeclarePassive("test.nothing", true, false, false, false, nil)
		wantReply(t, err, 404, "NOT_FOUND - no queue 'test.nothing' in vhost '/'")

		ch = s.channel(t)
		q := s.queue(t, ch, nil)
		_, err = ch.QueueDeclare(q, false, false, false, false, nil)
		wantReply(t, err, 406, "PRECONDITION_FAILED - inequivalent arg 'durable' for queue '"+q+"' in vhost '/': received 'false' but current is 'true'")
	})
}

// replyText puts the queue's name into a text and cuts it as replies are cut.
func replyText(text, queue string) string {
	text = strings.ReplaceAll(text, "%q", queue)
	if len(text) > 255 {
		text = text[:252] + "..."
	}
	return text
}
