package broker_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// bodies drains a queue with basic.get.
func bodies(t testing.TB, ch *amqp.Channel, q string) []string {
	t.Helper()
	var out []string
	for {
		m, ok, err := ch.Get(q, true)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return out
		}
		out = append(out, string(m.Body))
	}
}

// deadLetters makes a queue with args whose dead letters go to another.
func (s *server) deadLetters(t testing.TB, ch *amqp.Channel, args amqp.Table) (queue, dead string) {
	t.Helper()
	dead = s.queue(t, ch, nil)
	args["x-dead-letter-exchange"] = ""
	args["x-dead-letter-routing-key"] = dead
	return s.queue(t, ch, args), dead
}

func wantDeath(t testing.TB, m amqp.Delivery, queue, reason string, count int64) {
	t.Helper()
	deaths, _ := m.Headers["x-death"].([]any)
	if len(deaths) == 0 {
		t.Fatalf("no x-death in %v", m.Headers)
	}
	d, _ := deaths[0].(amqp.Table)
	keys, _ := d["routing-keys"].([]any)
	if d["queue"] != queue || d["reason"] != reason || d["count"] != count || d["exchange"] != "" || len(keys) != 1 || keys[0] != queue {
		t.Fatalf("x-death %v", d)
	}
	if _, ok := d["time"].(time.Time); !ok {
		t.Fatalf("x-death without a time: %v", d)
	}
	if m.Headers["x-first-death-queue"] != queue || m.Headers["x-first-death-reason"] != reason || m.Headers["x-first-death-exchange"] != "" {
		t.Fatalf("first death %v", m.Headers)
	}
}

func TestQueueTTL(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		ch := s.channel(t)
		q, dead := s.deadLetters(t, ch, amqp.Table{"x-message-ttl": int32(100)})
		publish(t, ch, q, "a", "b")
		d := consume(t, ch, dead, nil)
		for _, want := range []string{"a", "b"} {
			m := receive(t, d)
			if string(m.Body) != want {
				t.Fatalf("got %q", m.Body)
			}
			wantDeath(t, m, q, "expired", 1)
		}
		wantReady(t, ch, q, 0, 0)
	})
}

func TestMessageTTL(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		ch := s.channel(t)
		q, dead := s.deadLetters(t, ch, amqp.Table{})
		if err := ch.PublishWithContext(t.Context(), "", q, false, false, amqp.Publishing{Body: []byte("x"), Expiration: "50", DeliveryMode: 2}); err != nil {
			t.Fatal(err)
		}
		m := receive(t, consume(t, ch, dead, nil))
		wantDeath(t, m, q, "expired", 1)
		death := m.Headers["x-death"].([]any)[0].(amqp.Table)
		if m.Expiration != "" || death["original-expiration"] != "50" {
			t.Fatalf("expiration %q, death %v", m.Expiration, death)
		}
	})
}

// A message with no time at all is for a consumer that waits for it.
func TestZeroTTL(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		ch := s.channel(t)
		q, dead := s.deadLetters(t, ch, amqp.Table{"x-message-ttl": int32(0)})
		publish(t, ch, q, "nobody")
		wantReady(t, ch, dead, 1, 0)
		d := consume(t, ch, q, nil)
		publish(t, ch, q, "somebody")
		if m := receive(t, d); string(m.Body) != "somebody" {
			t.Fatalf("got %q", m.Body)
		}
		wantReady(t, ch, dead, 1, 0)
	})
}

func TestMessageTTLOnlyAtTheHead(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		ch := s.channel(t)
		q := s.queue(t, ch, nil)
		publish(t, ch, q, "head")
		ch.PublishWithContext(t.Context(), "", q, false, false, amqp.Publishing{Body: []byte("x"), Expiration: "10"})
		time.Sleep(100 * time.Millisecond)
		wantReady(t, ch, q, 2, 0)
		if got := bodies(t, ch, q); !slices.Equal(got, []string{"head"}) {
			t.Fatalf("got %q", got)
		}
	})
}

func TestExpires(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		ch := s.channel(t)
		q := s.queue(t, ch, amqp.Table{"x-expires": int32(300)})
		d := consume(t, ch, q, nil)
		time.Sleep(500 * time.Millisecond)
		publish(t, ch, q, "x")
		receive(t, d) // a consumer keeps the queue
		if err := ch.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(900 * time.Millisecond)
		_, err := s.channel(t).QueueDeclarePassive(q, true, false, false, false, nil)
		wantReply(t, err, 404, "")
	})
}

func TestMaxLength(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		ch := s.channel(t)
		q, dead := s.deadLetters(t, ch, amqp.Table{"x-max-length": int32(2)})
		publish(t, ch, q, "1", "2", "3", "4")
		wantReady(t, ch, q, 2, 0)
		if got := bodies(t, ch, q); !slices.Equal(got, []string{"3", "4"}) {
			t.Fatalf("kept %q", got)
		}
		wantDeath(t, receive(t, consume(t, ch, dead, nil)), q, "maxlen", 1)

		q = s.queue(t, ch, amqp.Table{"x-max-length-bytes": int32(10)})
		publish(t, ch, q, "12345", "12345", "1")
		wantReady(t, ch, q, 2, 0)
	})
}

func TestRejectPublish(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		ch := s.channel(t)
		q, dead := s.deadLetters(t, ch, amqp.Table{"x-max-length": int32(2), "x-overflow": "reject-publish-dlx"})
		if err := ch.Confirm(false); err != nil {
			t.Fatal(err)
		}
		for i := range 4 {
			c, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), "", q, false, false, amqp.Publishing{Body: fmt.Append(nil, i)})
			if err != nil {
				t.Fatal(err)
			}
			if ok := c.Wait(); ok != (i < 2) {
				t.Fatalf("publishing %d confirmed: %v", i, ok)
			}
		}
		if got := bodies(t, ch, q); !slices.Equal(got, []string{"0", "1"}) {
			t.Fatalf("kept %q", got)
		}
		wantReady(t, ch, dead, 2, 0)
	})
}

func TestRejectDeadLetters(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		ch := s.channel(t)
		q, dead := s.deadLetters(t, ch, amqp.Table{})
		work, graves := consume(t, ch, q, nil), consume(t, ch, dead, nil)
		ch.PublishWithContext(t.Context(), "", q, false, false, amqp.Publishing{Body: []byte("x"), Headers: amqp.Table{"mine": "kept"}})
		receive(t, work).Reject(false)
		m := receive(t, graves)
		wantDeath(t, m, q, "rejected", 1)
		if m.Headers["mine"] != "kept" || m.RoutingKey != dead {
			t.Fatalf("key %q headers %v", m.RoutingKey, m.Headers)
		}
		// Sent back and rejected again, the same entry counts up.
		if err := ch.PublishWithContext(t.Context(), "", q, false, false, amqp.Publishing{Body: m.Body, Headers: m.Headers}); err != nil {
			t.Fatal(err)
		}
		receive(t, work).Nack(false, false)
		m = receive(t, graves)
		wantDeath(t, m, q, "rejected", 2)
	})
}

// A message that expires in a circle of queues is dropped, not sent round.
func TestDeadLetterCycle(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		ch := s.channel(t)
		q, dead := s.deadLetters(t, ch, amqp.Table{"x-message-ttl": int32(30)})
		if _, err := ch.QueueDelete(dead, false, false, false); err != nil {
			t.Fatal(err)
		}
		back := amqp.Table{"x-message-ttl": int32(30), "x-dead-letter-exchange": "", "x-dead-letter-routing-key": q}
		if _, err := ch.QueueDeclare(dead, true, false, false, false, back); err != nil {
			t.Fatal(err)
		}
		publish(t, ch, q, "x")
		time.Sleep(300 * time.Millisecond)
		wantReady(t, ch, q, 0, 0)
		wantReady(t, ch, dead, 0, 0)
	})
}

func TestPriorities(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		ch := s.channel(t)
		q := s.queue(t, ch, amqp.Table{"x-max-priority": int32(3)})
		for i, p := range []uint8{0, 2, 9, 2, 1} {
			ch.PublishWithContext(t.Context(), "", q, false, false, amqp.Publishing{Body: fmt.Append(nil, i), Priority: p})
		}
		wantReady(t, ch, q, 5, 0)
		if got := bodies(t, ch, q); !slices.Equal(got, []string{"2", "1", "3", "4", "0"}) {
			t.Fatalf("order %q", got)
		}
	})
}

func TestAutoDeleteAndExclusive(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		c1, c2 := s.connect(t), s.connect(t)
		ch := open(t, c1)
		auto, err := ch.QueueDeclare("", false, true, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ch.Consume(auto.Name, "c", false, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		if err := ch.Cancel("c", false); err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
		_, err = open(t, c2).QueueDeclarePassive(auto.Name, false, true, false, false, nil)
		wantReply(t, err, 404, "")

		mine, err := ch.QueueDeclare("", false, false, true, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = open(t, c2).QueueDeclarePassive(mine.Name, false, false, true, false, nil)
		wantReply(t, err, 405, "")
		_, err = open(t, c2).Consume(mine.Name, "", false, false, false, false, nil)
		wantReply(t, err, 405, "")
		c1.Close()
		time.Sleep(50 * time.Millisecond)
		_, err = open(t, c2).QueueDeclarePassive(mine.Name, false, false, true, false, nil)
		wantReply(t, err, 404, "")
	})
}

func TestGet(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		ch := s.channel(t)
		q := s.queue(t, ch, nil)
		if _, ok, err := ch.Get(q, false); ok || err != nil {
			t.Fatal(ok, err)
		}
		publish(t, ch, q, "1", "2", "3")
		wantReady(t, ch, q, 3, 0)
		m, ok, err := ch.Get(q, false)
		if !ok || err != nil || m.MessageCount != 2 || string(m.Body) != "1" {
			t.Fatal(ok, err, m.MessageCount)
		}
		m.Nack(false, true)
		m, _, _ = ch.Get(q, false)
		if !m.Redelivered || string(m.Body) != "1" {
			t.Fatalf("got %q redelivered %v", m.Body, m.Redelivered)
		}
		m.Ack(false)
		if n, err := ch.QueuePurge(q, false); n != 2 || err != nil {
			t.Fatal(n, err)
		}
		n, err := ch.QueueDelete(q, false, false, false)
		if n != 0 || err != nil {
			t.Fatal(n, err)
		}
	})
}
