package consumers_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/belay-mq/belay/consumers"
	"github.com/belay-mq/belay/consumers/broker"
	amqp "github.com/rabbitmq/amqp091-go"
)

func ok(context.Context, *consumers.Delivery) error { return nil }

func TestStartConsumeStop(t *testing.T) {
	onServers(t, func(t *testing.T, s *server) {
		s.declare(t, "q", nil)
		s.publish(t, "q", 0, 1000)
		seen := newTally()
		c := container(t, s.dial(t), consumers.Config{Queues: []string{"q"}, Min: 2}, func(_ context.Context, d *consumers.Delivery) error {
			seen.add(d.MessageId)
			return nil
		})
		start(t, c)
		if st := c.Status(); st.State != consumers.Running || st.Consumers != 2 || st.By != "test" {
			t.Errorf("status after Start: %+v", st)
		}
		eventually(t, "all handled", func() bool { return c.Status().Handled == 1000 })
		r := stop(t, c)
		if r.Phase != "done" || r.Requeued != 0 || r.Abandoned != 0 {
			t.Errorf("report %+v", r)
		}
		if q := s.inspect(t, "q"); q.Consumers != 0 || q.Messages != 0 {
			t.Errorf("after the stop: %+v", q)
		}
		if n, all := seen.total(); n != 1000 || all != 1000 {
			t.Errorf("%d messages in %d deliveries", n, all)
		}
		if st := c.Status(); st.State != consumers.Stopped || st.InFlight != 0 {
			t.Errorf("status after Stop: %+v", st)
		}
		if r := stop(t, c); r.Phase != "idle" {
			t.Errorf("second stop: %+v", r)
		}
	})
}

func TestListenerIDIsAConsumerArgument(t *testing.T) {
	s := realServer(t) // the embedded broker shows no consumers
	s.declare(t, "q", nil)
	c := container(t, s.dial(t), consumers.Config{ListenerID: "PayoutConsumer", Queues: []string{"q"}, Priority: 3, TagPrefix: "x-"}, ok)
	start(t, c)
	eventuallyIn(t, 30*time.Second, "the consumer in the management API", func() bool {
		var all []struct {
			Tag       string         `json:"consumer_tag"`
			Arguments map[string]any `json:"arguments"`
			Prefetch  int            `json:"prefetch_count"`
		}
		s.get(t, "/api/consumers/"+s.vhost, &all)
		return len(all) == 1 && all[0].Arguments["x-listener-id"] == "PayoutConsumer" && all[0].Arguments["x-priority"] == 3.0 &&
			all[0].Prefetch == consumers.DefaultPrefetch && strings.HasPrefix(all[0].Tag, "x-PayoutConsumer-")
	})
}

func TestPauseOfASlowHandlerLosesAndDoublesNothing(t *testing.T) {
	onServers(t, func(t *testing.T, s *server) {
		s.declare(t, "q", nil)
		s.publish(t, "q", 0, 400)
		handled := newTally()
		c := container(t, s.dial(t), consumers.Config{Queues: []string{"q"}, ShutdownTimeout: time.Second}, func(ctx context.Context, d *consumers.Delivery) error {
			select {
			case <-time.After(20 * time.Millisecond):
				handled.add(d.MessageId)
				return nil
			case <-ctx.Done():
				return consumers.Requeue(context.Cause(ctx))
			}
		})
		start(t, c)
		eventually(t, "the prefetch is full", func() bool { return c.Status().InFlight >= 240 })
		r := stop(t, c)
		n, _ := handled.total()
		// What was handled before the stop fills the prefetch until its ack is sent.
		held, before := r.Handled+r.Requeued+r.Abandoned, n-r.Handled
		if held > 250 || held < 250-before || r.Requeued == 0 || r.Handled == 0 {
			t.Errorf("%d handled in all, report %+v", n, r)
		}
		if q := s.inspect(t, "q"); q.Messages != 400-n {
			t.Errorf("%d ready, want %d", q.Messages, 400-n)
		}
		if r.Took > 3*time.Second {
			t.Errorf("stop took %s", r.Took)
		}
		fast := container(t, s.dial(t), consumers.Config{Queues: []string{"q"}}, func(_ context.Context, d *consumers.Delivery) error {
			handled.add(d.MessageId)
			return nil
		})
		start(t, fast)
		eventually(t, "the rest is handled", func() bool { n, _ := handled.total(); return n == 400 })
		stop(t, fast)
		if n, all := handled.total(); n != 400 || all != 400 {
			t.Errorf("%d messages handled %d times", n, all)
		}
		if re := fast.Status().Redelivered; int(re) != r.Requeued+r.Abandoned {
			t.Errorf("%d redelivered, %d given back", re, r.Requeued+r.Abandoned)
		}
	})
}

func TestThirtyPausesOnAQuorumQueueWithDeliveryLimitLoseNothing(t *testing.T) {
	onServers(t, func(t *testing.T, s *server) {
		s.declare(t, "dead", nil)
		s.declare(t, "q", amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": int32(20),
			"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
		const messages = 3000
		s.publish(t, "q", 0, messages)
		seen := newTally()
		c := container(t, s.dial(t), consumers.Config{Queues: []string{"q"}, Prefetch: 50, ShutdownTimeout: 10 * time.Second}, func(_ context.Context, d *consumers.Delivery) error {
			time.Sleep(200 * time.Microsecond)
			seen.add(d.MessageId)
			return nil
		})
		for i := range 30 {
			start(t, c)
			before := c.Status().Handled
			eventually(t, "some are handled", func() bool { st := c.Status(); return st.Handled > before || st.Handled == messages })
			if r := stop(t, c); r.Requeued != 0 || r.Abandoned != 0 {
				t.Fatalf("pause %d: %+v", i, r)
			}
		}
		start(t, c)
		eventuallyIn(t, 60*time.Second, "all handled", func() bool { n, _ := seen.total(); return n == messages })
		stop(t, c)
		if n, all := seen.total(); n != messages || all != messages {
			t.Errorf("%d messages in %d deliveries", n, all)
		}
		if q := s.inspect(t, "dead"); q.Messages != 0 {
			t.Errorf("%d dead-lettered", q.Messages)
		}
	})
}

func TestStartAndStopFromEverywhere(t *testing.T) {
	s := embeddedServer(t, broker.Config{})
	s.declare(t, "q", nil)
	c := container(t, s.dial(t), consumers.Config{Queues: []string{"q"}, Min: 3}, ok)
	span := 5 * time.Second
	if testing.Short() {
		span = time.Second
	}
	var wg sync.WaitGroup
	end := time.Now().Add(span)
	for range 100 {
		wg.Go(func() {
			for time.Now().Before(end) {
				if rand.N(2) == 0 {
					_ = c.Start(t.Context(), consumers.Cause{By: "a"})
				} else if _, err := c.Stop(t.Context(), consumers.Cause{By: "b"}); err != nil {
					t.Error(err)
				}
				time.Sleep(rand.N(10 * time.Millisecond))
			}
		})
	}
	wg.Wait()
	start(t, c)
	awaitState(t, c, consumers.Running)
	eventually(t, "the drained ones are gone", func() bool { return c.Status().Draining == 0 })
	if q := s.inspect(t, "q"); q.Consumers != 3 || c.Status().Consumers != 3 {
		t.Errorf("%d consumers on the broker, status %+v", q.Consumers, c.Status())
	}
	if st := c.Status(); st.LastError != "" {
		t.Errorf("a channel was lost: %s", st.LastError)
	}
}

func TestFrozenBrokerDoesNotHoldAStop(t *testing.T) {
	s := embeddedServer(t, broker.Config{})
	s.declare(t, "q", nil)
	c := container(t, s.dial(t, func(c *consumers.ConnConfig) { c.ReplyTimeout = 3 * time.Second }), consumers.Config{Queues: []string{"q"}}, ok)
	start(t, c)
	s.embedded.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	begin := time.Now()
	r, err := c.Stop(ctx, consumers.Cause{By: "test"})
	if took := time.Since(begin); err == nil || r.Phase != "cancel" || took > 1500*time.Millisecond {
		t.Errorf("%+v, %v after %s", r, err, took)
	}
	eventually(t, "the connection is given up", func() bool { return c.Status().State == consumers.Stopped })
	s.embedded.Thaw()
	eventually(t, "no consumer is left", func() bool { return s.inspect(t, "q").Consumers == 0 })
}

func TestPrefetchIsHonoured(t *testing.T) {
	for _, prefetch := range []int{1, 10, 250, 1000} {
		t.Run(fmt.Sprint(prefetch), func(t *testing.T) {
			onServers(t, func(t *testing.T, s *server) {
				s.declare(t, "q", nil)
				s.publish(t, "q", 0, 1500)
				release := make(chan struct{})
				c := container(t, s.dial(t), consumers.Config{Queues: []string{"q"}, Prefetch: prefetch}, func(context.Context, *consumers.Delivery) error {
					<-release
					return nil
				})
				start(t, c)
				eventually(t, "the prefetch is full", func() bool { return c.Status().InFlight == prefetch })
				time.Sleep(20 * time.Millisecond) // more would come now
				if q, st := s.inspect(t, "q"), c.Status(); q.Messages != 1500-prefetch || st.InFlight != prefetch {
					t.Errorf("%d ready, %d in flight", q.Messages, st.InFlight)
				}
				close(release)
				eventually(t, "all handled", func() bool { return c.Status().Handled == 1500 })
			})
		})
	}
}

// TestAckNoneIsBoundedByThePrefetch lets 100,000 messages wait behind a slow
// handler: what is acked before the handler must not be more than the prefetch
// ahead of it, neither here nor on the broker, or the backlog would move into
// this process.
func TestAckNoneIsBoundedByThePrefetch(t *testing.T) {
	const messages, prefetch, size = 100_000, 100, 200
	run := func(t *testing.T, s *server) {
		s.declare(t, "q", nil)
		body := make([]byte, size)
		for range messages {
			if err := s.ch.Publish("", "q", false, false, amqp.Publishing{Body: body}); err != nil {
				t.Fatal(err)
			}
		}
		eventuallyIn(t, time.Minute, "everything is in the queue", func() bool { return s.inspect(t, "q").Messages == messages })
		var most, slow atomic.Int64
		slow.Store(1)
		var c *consumers.Container
		c = container(t, s.dial(t), consumers.Config{Queues: []string{"q"}, Prefetch: prefetch, AckMode: consumers.AckNone}, func(context.Context, *consumers.Delivery) error {
			if slow.Load() == 1 {
				most.Store(max(most.Load(), int64(c.Status().InFlight)))
				time.Sleep(time.Millisecond)
			}
			return nil
		})
		before := measure()
		start(t, c)
		unacked := 0 // at most; RabbitMQ tells with a delay
		eventuallyIn(t, 30*time.Second, "a second has passed and the broker tells what is unacked", func() bool {
			ready := s.inspect(t, "q").Messages
			st := c.Status() // later than ready, so that what is handled meanwhile widens the bound
			if taken := messages - ready; taken > int(st.Handled)+2*prefetch {
				t.Errorf("%d taken from the queue, %d handled", taken, st.Handled)
			}
			if st.InFlight > prefetch {
				t.Errorf("%d in flight", st.InFlight)
			}
			unacked = max(unacked, s.unacked(t, "q"))
			return t.Failed() || unacked > 0 && st.Handled > 500
		})
		if unacked > prefetch {
			t.Errorf("%d unacked on the broker", unacked)
		}
		// The embedded broker's own messages are in this heap, and only leave it.
		after := measure()
		if after.heap > before.heap+(2<<20) {
			t.Errorf("heap grew from %d to %d KiB while %d messages of %d bytes waited", before.heap>>10, after.heap>>10, messages, size)
		}
		if most.Load() > prefetch {
			t.Errorf("%d were held", most.Load())
		}
		handled := c.Status().Handled
		slow.Store(0)
		eventuallyIn(t, time.Minute, "all handled", func() bool { return c.Status().Handled == messages })
		stop(t, c)
		t.Logf("%d handled slowly, at most %d held and %d unacked; heap %d to %d KiB", handled, most.Load(), unacked, before.heap>>10, after.heap>>10)
	}
	t.Run("embedded", func(t *testing.T) {
		run(t, embeddedServer(t, broker.Config{ManagementAddr: "127.0.0.1:0", StatsInterval: 10 * time.Millisecond}))
	})
	t.Run("rabbitmq", func(t *testing.T) { run(t, realServer(t)) })
}

// TestDeliveryAfterTheCancelIsGivenBack has the broker deliver once more after
// it has confirmed the cancel: with the reply, in the drain, and near its end.
func TestDeliveryAfterTheCancelIsGivenBack(t *testing.T) {
	for _, after := range []time.Duration{0, 20 * time.Millisecond, 200 * time.Millisecond} {
		t.Run(after.String(), func(t *testing.T) {
			const messages, prefetch = 20, 5
			s := embeddedServer(t, broker.Config{})
			s.declare(t, "q", nil)
			s.publish(t, "q", 0, messages)
			seen := newTally()
			entered, release := make(chan struct{}, messages), make(chan struct{})
			c := container(t, s.dial(t), consumers.Config{Queues: []string{"q"}, Prefetch: prefetch}, func(_ context.Context, d *consumers.Delivery) error {
				entered <- struct{}{}
				<-release
				seen.add(d.MessageId)
				return nil
			})
			start(t, c)
			<-entered
			eventually(t, "the prefetch is full", func() bool { return c.Status().InFlight == prefetch })
			s.embedded.DeliverAfterCancel(1, after)
			time.AfterFunc(200*time.Millisecond, func() { close(release) })
			r := stop(t, c)
			n, all := seen.total()
			// The late one may still have come in time to be handled.
			if n != all || n < prefetch || n > prefetch+1 || r.Handled != n || r.Abandoned != 0 {
				t.Errorf("%d messages in %d deliveries, report %+v", n, all, r)
			}
			if q := s.inspect(t, "q"); q.Messages != messages-n || q.Consumers != 0 {
				t.Errorf("%d ready and %d consumers, want %d and none", q.Messages, q.Consumers, messages-n)
			}
			if st := c.Status(); st.LastError != "" || st.InFlight != 0 {
				t.Errorf("%+v", st)
			}
			start(t, c)
			eventually(t, "the rest is handled", func() bool { return c.Status().Handled == messages })
			if n, all := seen.total(); n != messages || all != messages {
				t.Errorf("%d messages handled %d times", n, all)
			}
		})
	}
}

func TestSingleActiveConsumerKeepsTheOrderOverAForcedStop(t *testing.T) {
	onServers(t, func(t *testing.T, s *server) {
		s.declare(t, "q", amqp.Table{"x-single-active-consumer": true})
		s.publish(t, "q", 0, 600)
		// What is published meanwhile moves the queue to deliver: a stop that
		// cancelled first and gave back later would let the next holder begin
		// with what comes after the messages given back.
		var more sync.WaitGroup
		more.Go(func() { s.publish(t, "q", 600, 3000) })
		defer more.Wait()
		var mu sync.Mutex
		var order []string
		handle := func(d time.Duration) consumers.Handler {
			return func(_ context.Context, m *consumers.Delivery) error {
				mu.Lock()
				order = append(order, m.MessageId)
				mu.Unlock()
				time.Sleep(d)
				return nil
			}
		}
		cfg := consumers.Config{Queues: []string{"q"}, StopMode: consumers.StopForce}
		first := container(t, s.dial(t), cfg, handle(2*time.Millisecond))
		next := container(t, s.dial(t), cfg, handle(0))
		start(t, first)
		eventually(t, "the first holder has begun", func() bool { return first.Status().Handled > 20 })
		start(t, next)
		if r := stop(t, first); r.Requeued == 0 || r.Abandoned != 0 {
			t.Errorf("report %+v", r)
		}
		defer func() { t.Logf("%+v\n%+v\n%+v", first.Status(), next.Status(), s.inspect(t, "q")) }()
		eventually(t, "all handled", func() bool { return first.Status().Handled+next.Status().Handled == 3600 })
		for i, id := range order {
			if id != fmt.Sprint(i) {
				t.Fatalf("message %s was handled as number %d", id, i)
			}
		}
	})
}

func TestManyStopsAreParallel(t *testing.T) {
	onServers(t, func(t *testing.T, s *server) {
		conn := s.dial(t)
		var all []*consumers.Container
		for i := range 20 {
			q := fmt.Sprintf("q%d", i)
			s.declare(t, q, nil)
			s.publish(t, q, 0, 1)
			all = append(all, container(t, conn, consumers.Config{ListenerID: q, Queues: []string{q}}, func(context.Context, *consumers.Delivery) error {
				time.Sleep(500 * time.Millisecond)
				return nil
			}))
		}
		for _, c := range all {
			start(t, c)
		}
		var wg sync.WaitGroup
		begin := time.Now()
		for _, c := range all {
			wg.Go(func() { stop(t, c) })
		}
		wg.Wait()
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("20 stops of half a second each took %s", took)
		}
	})
}
