package consumers_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
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
		if n+r.Requeued+r.Abandoned != 250+n-r.Handled || r.Requeued == 0 || r.Handled == 0 {
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

func TestAckNoneIsBoundedByThePrefetch(t *testing.T) {
	onServers(t, func(t *testing.T, s *server) {
		s.declare(t, "q", nil)
		s.publish(t, "q", 0, 5000)
		var most int
		hold := make(chan struct{})
		var c *consumers.Container
		c = container(t, s.dial(t), consumers.Config{Queues: []string{"q"}, Prefetch: 100, AckMode: consumers.AckNone}, func(context.Context, *consumers.Delivery) error {
			most = max(most, c.Status().InFlight)
			<-hold
			return nil
		})
		start(t, c)
		eventually(t, "the prefetch is full", func() bool { return c.Status().InFlight >= 90 })
		time.Sleep(100 * time.Millisecond)
		if st := c.Status(); st.InFlight > 100 {
			t.Errorf("%d in flight", st.InFlight)
		}
		if q := s.inspect(t, "q"); q.Messages < 4800 {
			t.Errorf("%d ready: more than the prefetch was taken", q.Messages)
		}
		close(hold)
		eventually(t, "all handled", func() bool { return c.Status().Handled == 5000 })
		stop(t, c)
		if most > 100 {
			t.Errorf("%d were held", most)
		}
	})
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
