package broker_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

var quorum = amqp.Table{"x-queue-type": "quorum"}

// A closed channel counts against the limit as a nack does: with limit 2 the
// third one takes the message away.
func TestDeliveryLimitOnClose(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		conn := s.connect(t)
		ch := open(t, conn)
		q, dead := s.deadLetters(t, ch, amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": int32(2)})
		publish(t, ch, q, "x")
		for i := range 3 {
			work := open(t, conn)
			m := receive(t, consume(t, work, q, nil))
			count, has := m.Headers["x-delivery-count"]
			if i == 0 && (has || m.Redelivered) || i > 0 && (count != int64(i) || !m.Redelivered) {
				t.Fatalf("delivery %d: count %v redelivered %v", i, count, m.Redelivered)
			}
			work.Close()
		}
		m := receive(t, consume(t, ch, dead, nil))
		wantDeath(t, m, q, "delivery_limit", 1)
		wantReady(t, ch, q, 0, 0)
	})
}

// Nack and reject on one channel until the message is dead lettered: the
// number of deliveries is limit + 1.
func TestDeliveryLimitOnOneChannel(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		for _, way := range []string{"nack", "reject"} {
			t.Run(way, func(t *testing.T) {
				ch := s.channel(t)
				q, dead := s.deadLetters(t, ch, amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": int32(3)})
				work, graves := consume(t, ch, q, nil), consume(t, ch, dead, nil)
				publish(t, ch, q, "x")
				for i := range 4 {
					m := receive(t, work)
					if got, _ := m.Headers["x-delivery-count"].(int64); got != int64(i) {
						t.Fatalf("delivery %d says %v", i, m.Headers["x-delivery-count"])
					}
					if way == "nack" {
						m.Nack(false, true)
					} else {
						m.Reject(true)
					}
				}
				m := receive(t, graves)
				wantDeath(t, m, q, "delivery_limit", 1)
				if m.Headers["x-delivery-count"] != nil {
					t.Fatalf("the dead letter still has %v", m.Headers)
				}
				none(t, work)
			})
		}
	})
}

func TestNoDeliveryLimitByDefault(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		ch := s.channel(t)
		q := s.queue(t, ch, quorum)
		publish(t, ch, q, "x")
		work := consume(t, ch, q, nil)
		for range 40 {
			receive(t, work).Nack(false, true)
		}
		if m := receive(t, work); m.Headers["x-delivery-count"] != int64(40) {
			t.Fatalf("count %v", m.Headers["x-delivery-count"])
		}
	})
}

// Giving many back keeps their order.
func TestRequeueOrder(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		for _, args := range []amqp.Table{nil, quorum} {
			t.Run(fmt.Sprint(args["x-queue-type"]), func(t *testing.T) {
				ch := s.channel(t)
				q := s.queue(t, ch, args)
				publish(t, ch, q, "1", "2", "3", "4", "5", "6")
				work := s.channel(t)
				work.Qos(4, 0, false)
				d := consume(t, work, q, nil)
				for range 4 {
					receive(t, d)
				}
				wantReady(t, ch, q, 2, 1)
				work.Close()
				wantReady(t, ch, q, 6, 0)
				if got := bodies(t, ch, q); !slices.Equal(got, []string{"1", "2", "3", "4", "5", "6"}) {
					t.Fatalf("order %q", got)
				}
			})
		}
	})
}

func TestSingleActiveConsumer(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		for _, args := range []amqp.Table{{"x-single-active-consumer": true}, {"x-single-active-consumer": true, "x-queue-type": "quorum"}} {
			t.Run(fmt.Sprint(args["x-queue-type"]), func(t *testing.T) {
				ch := s.channel(t)
				q := s.queue(t, ch, args)
				a, b := s.channel(t), s.channel(t)
				da := consume(t, a, q, nil)
				wantReady(t, ch, q, 0, 1)
				db := consume(t, b, q, nil)
				counted := 2
				if args["x-queue-type"] == "quorum" {
					counted = 1 // those that wait are not counted
				}
				wantReady(t, ch, q, 0, counted)
				publish(t, ch, q, "1", "2")
				receive(t, da)
				m := receive(t, da)
				none(t, db)
				m.Ack(true)
				a.Close()
				publish(t, ch, q, "3")
				if m := receive(t, db); string(m.Body) != "3" {
					t.Fatalf("got %q", m.Body)
				}
			})
		}
	})
}

func TestPriorityConsumers(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		ch := s.channel(t)
		q := s.queue(t, ch, nil)
		low, high := s.channel(t), s.channel(t)
		low.Qos(2, 0, false)
		high.Qos(2, 0, false)
		dl := consume(t, low, q, nil)
		dh := consume(t, high, q, amqp.Table{"x-priority": int32(10)})
		publish(t, ch, q, "1", "2", "3", "4")
		for want, d := range map[string]<-chan amqp.Delivery{"1": dh, "3": dl} {
			if m := receive(t, d); string(m.Body) != want {
				t.Fatalf("got %q, want %q", m.Body, want)
			}
		}
	})
}

func TestRoundRobin(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		ch := s.channel(t)
		q := s.queue(t, ch, nil)
		var streams []<-chan amqp.Delivery
		for range 3 {
			streams = append(streams, consume(t, s.channel(t), q, nil))
		}
		publish(t, ch, q, "1", "2", "3", "4", "5", "6")
		for _, d := range streams {
			receive(t, d)
			receive(t, d)
		}
	})
}

func TestGlobalPrefetch(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		ch := s.channel(t)
		q1, q2 := s.queue(t, ch, nil), s.queue(t, ch, nil)
		publish(t, ch, q1, "1", "2")
		publish(t, ch, q2, "1", "2")
		work := s.channel(t)
		if err := work.Qos(3, 0, true); err != nil {
			t.Fatal(err)
		}
		d1, d2 := consume(t, work, q1, nil), consume(t, work, q2, nil)
		receive(t, d1)
		m := receive(t, d1)
		receive(t, d2)
		none(t, d2)
		m.Ack(false)
		receive(t, d2)
	})
}

func TestCancel(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		ch := s.channel(t)
		q := s.queue(t, ch, nil)
		d, err := ch.Consume(q, "tag", false, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		publish(t, ch, q, "1")
		m := receive(t, d)
		if m.ConsumerTag != "tag" {
			t.Fatalf("tag %q", m.ConsumerTag)
		}
		if err := ch.Cancel("tag", false); err != nil {
			t.Fatal(err)
		}
		if _, ok := <-d; ok {
			t.Fatal("a delivery after cancel-ok")
		}
		publish(t, ch, q, "2")
		wantReady(t, ch, q, 1, 0)
		m.Nack(false, true) // still ours to settle
		wantReady(t, ch, q, 2, 0)
		if err := ch.Cancel("no such tag", false); err != nil {
			t.Fatal(err)
		}
	})
}

func TestServerCancelOnDelete(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		ch := s.channel(t)
		q := s.queue(t, ch, nil)
		work := s.channel(t)
		gone := work.NotifyCancel(make(chan string, 1))
		if _, err := work.Consume(q, "mine", false, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := ch.QueueDelete(q, false, false, false); err != nil {
			t.Fatal(err)
		}
		select {
		case tag := <-gone:
			if tag != "mine" {
				t.Fatalf("tag %q", tag)
			}
		case <-time.After(patience):
			t.Fatal("not told")
		}
	})
}

func TestNoAck(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		ch := s.channel(t)
		q := s.queue(t, ch, nil)
		ch.Qos(1, 0, false)
		d, err := ch.Consume(q, "", true, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		publish(t, ch, q, "1", "2", "3")
		for range 3 {
			receive(t, d)
		}
		ch2 := s.channel(t)
		ch.Close()
		wantReady(t, ch2, q, 0, 0)
	})
}

func TestRecover(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		ch := s.channel(t)
		q := s.queue(t, ch, nil)
		publish(t, ch, q, "1", "2")
		d := consume(t, ch, q, nil)
		receive(t, d)
		receive(t, d)
		if err := ch.Recover(true); err != nil { //nolint:staticcheck // old clients still send it
			t.Fatal(err)
		}
		for _, want := range []string{"1", "2"} {
			if m := receive(t, d); string(m.Body) != want || !m.Redelivered {
				t.Fatalf("got %q redelivered %v", m.Body, m.Redelivered)
			}
		}
	})
}

func TestAckAll(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		ch := s.channel(t)
		q := s.queue(t, ch, nil)
		publish(t, ch, q, "1", "2", "3")
		d := consume(t, ch, q, nil)
		for range 3 {
			receive(t, d)
		}
		if err := ch.Ack(0, true); err != nil {
			t.Fatal(err)
		}
		if err := ch.Ack(0, true); err != nil { // nothing left is no fault
			t.Fatal(err)
		}
		if _, err := ch.QueueDeclarePassive(q, true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		ch2 := s.channel(t)
		ch.Close()
		wantReady(t, ch2, q, 0, 0)
	})
}

func TestFlow(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		ch := s.channel(t)
		if err := ch.Flow(true); err != nil {
			t.Fatal(err)
		}
	})
}

// A quorum queue goes on counting a cancelled consumer until its deliveries
// are settled; a classic queue does not.
func TestCountAfterCancel(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		for _, args := range []amqp.Table{nil, quorum} {
			t.Run(fmt.Sprint(args["x-queue-type"]), func(t *testing.T) {
				ch, work := s.channel(t), s.channel(t)
				q := s.queue(t, ch, args)
				publish(t, ch, q, "1")
				d, err := work.Consume(q, "c", false, false, false, false, nil)
				if err != nil {
					t.Fatal(err)
				}
				m := receive(t, d)
				if err := work.Cancel("c", false); err != nil {
					t.Fatal(err)
				}
				counted := 0
				if args != nil {
					counted = 1
				}
				time.Sleep(300 * time.Millisecond)
				wantReady(t, ch, q, 0, counted)
				m.Ack(false)
				wantReady(t, ch, q, 0, 0)
			})
		}
	})
}
