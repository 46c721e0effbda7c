package broker_test

import (
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/belay-mq/belay/consumers/broker"
)

// A prefetch holds for consumers to come, not for those that are there.
func TestPrefetchOfLaterConsumers(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		ch := s.channel(t)
		q := s.queue(t, ch, nil)
		work := s.channel(t)
		work.Qos(1, 0, false)
		d := consume(t, work, q, nil)
		work.Qos(3, 0, false)
		publish(t, ch, q, "1", "2", "3", "4", "5")
		receive(t, d)
		none(t, d)
		d2 := consume(t, work, q, nil)
		for range 3 {
			receive(t, d2)
		}
		none(t, d2)
		wantReady(t, ch, q, 1, 2)
	})
}

// When the active consumer is cancelled while it holds deliveries, the next in
// line becomes active. A classic queue then still waits for something to
// happen, so that what comes back first keeps its place.
func TestSingleActiveHandOver(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		for _, c := range []struct {
			args amqp.Table
			want []string
		}{
			{amqp.Table{"x-single-active-consumer": true}, []string{"1", "2", "3"}},
			{amqp.Table{"x-single-active-consumer": true, "x-queue-type": "quorum"}, []string{"3", "1", "2"}},
		} {
			ch := s.channel(t)
			q := s.queue(t, ch, c.args)
			first := s.channel(t)
			first.Qos(2, 0, false)
			d1, err := first.Consume(q, "first", false, false, false, false, nil)
			if err != nil {
				t.Fatal(err)
			}
			d2 := consume(t, s.channel(t), q, nil)
			publish(t, ch, q, "1", "2", "3")
			receive(t, d1)
			held := receive(t, d1)
			if err := first.Cancel("first", false); err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
			held.Nack(true, true)
			var got []string
			for range c.want {
				got = append(got, string(receive(t, d2).Body))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%v: got %q, want %q", c.args, got, c.want)
			}
		}
	})
}

// basic.get beside a single active consumer.
func TestGetBesideSingleActive(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		ch := s.channel(t)
		q := s.queue(t, ch, amqp.Table{"x-single-active-consumer": true})
		publish(t, ch, q, "1")
		wantReady(t, ch, q, 1, 0)
		if _, ok, err := ch.Get(q, true); !ok || err != nil {
			t.Fatal(ok, err)
		}
		q = s.queue(t, ch, amqp.Table{"x-single-active-consumer": true, "x-queue-type": "quorum"})
		_, _, err := ch.Get(q, true)
		wantReply(t, err, 405, "RESOURCE_LOCKED - cannot obtain access to locked queue '"+q+"' in vhost '/'. basic.get operations are not supported by quorum queues with single active consumer")
	})
}

// When the exclusive consumer goes, another may have the queue.
func TestExclusiveConsumerTakeOver(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		ch := s.channel(t)
		q := s.queue(t, ch, nil)
		holder := s.channel(t)
		if _, err := holder.Consume(q, "", false, true, false, false, nil); err != nil {
			t.Fatal(err)
		}
		_, err := s.channel(t).Consume(q, "", false, true, false, false, nil)
		wantReply(t, err, 403, "ACCESS_REFUSED - queue '"+q+"' in vhost '/' in exclusive use")
		holder.Close()
		if _, err := s.channel(t).Consume(q, "", false, true, false, false, nil); err != nil {
			t.Fatal(err)
		}
	})
}

// A lost connection gives back what its channels held, in order, and takes
// its exclusive queues with it.
func TestConnectionLost(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		ch := s.channel(t)
		q := s.queue(t, ch, nil)
		publish(t, ch, q, "1", "2", "3", "4")
		conn := s.connect(t)
		a, b := open(t, conn), open(t, conn)
		a.Qos(2, 0, false)
		b.Qos(1, 0, false)
		da := consume(t, a, q, nil)
		receive(t, da)
		receive(t, da)
		receive(t, consume(t, b, q, nil))
		conn.Close()
		wantReady(t, ch, q, 4, 0)
		if got := bodies(t, ch, q); !slices.Equal(got, []string{"1", "2", "3", "4"}) {
			t.Fatalf("order %q", got)
		}
	})
}

// The limits of a quorum queue drop from the head as those of a classic one.
func TestQuorumMaxLength(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		ch := s.channel(t)
		q, dead := s.deadLetters(t, ch, amqp.Table{"x-queue-type": "quorum", "x-max-length": int32(2)})
		publish(t, ch, q, "1", "2", "3", "4")
		wantReady(t, ch, q, 2, 0)
		wantReady(t, ch, dead, 2, 0)
		wantDeath(t, receive(t, consume(t, ch, dead, nil)), q, "maxlen", 1)
	})
}

func TestQuorumMessageTTL(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		ch := s.channel(t)
		q, dead := s.deadLetters(t, ch, amqp.Table{"x-queue-type": "quorum", "x-message-ttl": int32(100)})
		publish(t, ch, q, "x")
		wantDeath(t, receive(t, consume(t, ch, dead, nil)), q, "expired", 1)
	})
}

// One nack or ack for several queues of a channel reaches each of them.
func TestMultipleOverQueues(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		ch := s.channel(t)
		q1, q2 := s.queue(t, ch, nil), s.queue(t, ch, nil)
		publish(t, ch, q1, "1", "2")
		publish(t, ch, q2, "1", "2")
		work := s.channel(t)
		d1, d2 := consume(t, work, q1, nil), consume(t, work, q2, nil)
		tag := uint64(0)
		for _, d := range []<-chan amqp.Delivery{d1, d1, d2, d2} {
			tag = max(tag, receive(t, d).DeliveryTag)
		}
		if err := work.Nack(tag, true, false); err != nil {
			t.Fatal(err)
		}
		other := s.channel(t)
		work.Close()
		wantReady(t, other, q1, 0, 0)
		wantReady(t, other, q2, 0, 0)
	})
}

// Acknowledgements after the consumer was cancelled, its queue deleted, or
// both, harm nobody.
func TestAckAfterDelete(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		ch := s.channel(t)
		q := s.queue(t, ch, nil)
		publish(t, ch, q, "1", "2")
		d := consume(t, ch, q, nil)
		m1, m2 := receive(t, d), receive(t, d)
		other := s.channel(t)
		if n, err := other.QueueDelete(q, false, false, false); err != nil || n != 0 {
			t.Fatal(n, err)
		}
		time.Sleep(50 * time.Millisecond)
		m1.Ack(false)
		m2.Nack(false, true)
		if _, err := ch.QueueDeclarePassive(s.queue(t, other, nil), true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
	})
}

// A second declaration with all the same settings answers with the numbers.
func TestRedeclare(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		ch := s.channel(t)
		args := amqp.Table{"x-max-length": int64(9), "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "k"}
		q := s.queue(t, ch, args)
		publish(t, ch, q, "1")
		consume(t, ch, q, nil)
		time.Sleep(50 * time.Millisecond)
		got, err := ch.QueueDeclare(q, true, false, false, false, args)
		if err != nil || got.Messages != 0 || got.Consumers != 1 || got.Name != q {
			t.Fatalf("%+v %v", got, err)
		}
		named, err := ch.QueueDeclare("", false, false, true, false, nil)
		if err != nil || len(named.Name) != len("amq.gen-")+22 {
			t.Fatalf("%+v %v", named, err)
		}
		if n, err := ch.QueuePurge("", false); err != nil || n != 0 { // the last one declared
			t.Fatal(n, err)
		}
		_, err = ch.QueueDeclarePassive("", false, false, true, false, nil)
		wantReply(t, err, 404, "NOT_FOUND - no queue '' in vhost '/'")
	})
}

func TestTransactionsAreRefused(t *testing.T) {
	_, s := embedded(t, broker.Config{})
	ch := s.channel(t)
	wantReply(t, ch.Tx(), 540, "NOT_IMPLEMENTED - tx.select is not implemented by the embedded broker")
}
