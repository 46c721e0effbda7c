package broker_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Consumers that acknowledge, give back, reject, cancel and lose their
// channels at random: every message is in the end acknowledged once, or dead
// lettered, and none is left, lost or doubled.
func TestConservation(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		for _, args := range []amqp.Table{{}, {"x-queue-type": "quorum"}, {"x-single-active-consumer": true}, {"x-max-priority": int32(3)}} {
			t.Run(fmt.Sprint(args), func(t *testing.T) { conserve(t, s, args) })
		}
	})
}

func conserve(t *testing.T, s *server, args amqp.Table) {
	const messages, workers = 2000, 4
	ch := s.channel(t)
	q, dead := s.deadLetters(t, ch, args)
	pub := s.channel(t)
	pub.Confirm(false)
	var last *amqp.DeferredConfirmation
	for i := range messages {
		var err error
		last, err = pub.PublishWithDeferredConfirmWithContext(t.Context(), "", q, false, false, amqp.Publishing{
			MessageId: fmt.Sprint(i), Priority: uint8(i % 4), DeliveryMode: 2,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if !last.Wait() {
		t.Fatal("not confirmed")
	}
	var mu sync.Mutex
	settled := make(map[string]string)
	note := func(id, how string) {
		mu.Lock()
		defer mu.Unlock()
		if settled[id] != "" {
			t.Errorf("message %s: %s after %s", id, how, settled[id])
		}
		settled[id] = how
	}
	done := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(settled) == messages
	}
	conn := s.connect(t)
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(w)))
			for until := time.Now().Add(patience); !done() && time.Now().Before(until); {
				session(t, conn, q, rnd, note)
			}
		})
	}
	all.Wait()
	if !done() {
		t.Fatalf("%d of %d messages settled", len(settled), messages)
	}
	rejected := 0
	for _, how := range settled {
		if how == "rejected" {
			rejected++
		}
	}
	wantReady(t, ch, q, 0, 0)
	wantReady(t, ch, dead, rejected, 0)
}

// session consumes on one channel for a while, and ends it in some way.
func session(t *testing.T, conn *amqp.Connection, q string, rnd *rand.Rand, note func(id, how string)) {
	ch, err := conn.Channel()
	if err != nil {
		t.Error(err)
		return
	}
	defer ch.Close()
	ch.Qos(1+rnd.IntN(50), 0, false)
	d, err := ch.Consume(q, "tag", false, false, false, false, nil)
	if err != nil {
		t.Error(err)
		return
	}
	var held []amqp.Delivery // in the order of their tags
	ack := func() {
		if len(held) == 0 {
			return
		}
		for _, m := range held {
			note(m.MessageId, "acked")
		}
		held[len(held)-1].Ack(true)
		held = nil
	}
	idle := time.NewTimer(100 * time.Millisecond)
	defer idle.Stop()
	for range 20 + rnd.IntN(200) {
		select {
		case m, ok := <-d:
			if !ok {
				return
			}
			held = append(held, m)
		case <-idle.C:
			ack()
			return
		}
		switch m := held[len(held)-1]; rnd.IntN(12) {
		case 0:
			m.Nack(true, true) // all that is held
			held = nil
		case 1:
			m.Reject(true)
			held = held[:len(held)-1]
		case 2:
			note(m.MessageId, "rejected")
			m.Reject(false)
			held = held[:len(held)-1]
		case 3, 4, 5:
			ack()
		}
	}
	if rnd.IntN(2) == 0 {
		ch.Cancel("tag", false)
		ack()
	}
	// Else the channel closes with what it holds.
	if _, err := ch.QueueDeclarePassive(q, true, false, false, false, nil); err != nil {
		t.Error(err) // a round trip, so that acks are not cut off
	}
}
