package consumers_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/belay-mq/belay/consumers"
	"github.com/belay-mq/belay/consumers/broker"
	amqp "github.com/rabbitmq/amqp091-go"
)

// quick is a back-off for tests: the same shape, twenty times as fast.
var quick = consumers.Backoff{Min: 10 * time.Millisecond, Max: 500 * time.Millisecond}

func quickConn(cfg *consumers.ConnConfig) { cfg.Recovery = quick }

func TestAckOfALostSessionIsNotSent(t *testing.T) {
	onServers(t, func(t *testing.T, s *server) {
		s.declare(t, "q", nil)
		s.publish(t, "q", 0, 1)
		net := &network{}
		entered, release := make(chan bool, 2), make(chan struct{})
		c := container(t, s.dial(t, net.over), consumers.Config{Queues: []string{"q"}}, func(ctx context.Context, d *consumers.Delivery) error {
			entered <- d.Redelivered
			if !d.Redelivered {
				<-release
				if ctx.Err() == nil || context.Cause(ctx) != consumers.ErrSessionLost {
					t.Errorf("the handler's context: %v", context.Cause(ctx))
				}
			}
			return nil
		})
		start(t, c)
		<-entered
		net.kill()
		if again := <-entered; !again {
			t.Error("the message was not flagged as redelivered")
		}
		eventually(t, "the redelivered one is handled", func() bool { return c.Status().Handled == 1 })
		close(release)
		eventually(t, "the old ack is refused", func() bool { return c.Status().StaleAcks == 1 })
		awaitState(t, c, consumers.Running)
		stop(t, c)
		if q := s.inspect(t, "q"); q.Messages != 0 || c.Status().Redelivered != 1 {
			t.Errorf("%d ready, %+v", q.Messages, c.Status())
		}
	})
}

// fifty starts containers, each on a queue of its listener's name.
func (s *server) fifty(t *testing.T, conn *consumers.Conn, recovery consumers.Backoff) []*consumers.Container {
	t.Helper()
	var all []*consumers.Container
	for i := range 50 {
		q := fmt.Sprintf("q%d", i)
		s.declare(t, q, nil)
		c := container(t, conn, consumers.Config{ListenerID: q, Queues: []string{q}, Recovery: recovery}, ok)
		start(t, c)
		all = append(all, c)
	}
	return all
}

func TestFiftyContainersComeBackAfterAnOutage(t *testing.T) {
	outage, backoff := 2*time.Second, quick
	if soak() {
		outage, backoff = time.Minute, consumers.Backoff{}
	}
	onServers(t, func(t *testing.T, s *server) {
		net := &network{}
		conn := s.dial(t, net.over, func(c *consumers.ConnConfig) { c.Recovery = backoff })
		all := s.fifty(t, conn, backoff)
		paused := all[40:]
		for _, c := range paused {
			stop(t, c)
		}
		net.set(false)
		awaitState(t, all[0], consumers.Recovering)
		before := net.dialed()
		time.Sleep(outage)
		if st := all[0].Status(); st.Attempts == 0 || st.NextTry.IsZero() || st.LastError == "" {
			t.Errorf("status in the outage: %+v", st)
		}
		if n := net.dialed() - before; n > 4+int(outage/backoff.Ceiling(1)) {
			t.Errorf("%d attempts in %s", n, outage)
		}
		stop(t, all[39]) // stopped during the outage: it stays so
		paused = all[39:]
		net.set(true)
		for _, c := range all[:39] {
			eventuallyIn(t, time.Minute, c.ListenerID()+" is back", func() bool {
				return c.Status().State == consumers.Running && s.inspect(t, c.ListenerID()).Consumers == 1
			})
		}
		time.Sleep(2 * backoff.Ceiling(1))
		for _, c := range paused {
			if st := c.Status(); st.State != consumers.Stopped || s.inspect(t, c.ListenerID()).Consumers != 0 {
				t.Errorf("%s: %+v", c.ListenerID(), st)
			}
		}
	})
}

func soak() bool { return envSet("BELAY_TEST_SOAK") }

func TestContainerStartedWithoutABrokerRunsOnceItIsThere(t *testing.T) {
	s := embeddedServer(t, broker.Config{})
	s.declare(t, "q", nil)
	net := &network{down: true}
	c := container(t, s.dial(t, net.over, quickConn), consumers.Config{Queues: []string{"q"}}, ok)
	begin := time.Now()
	start(t, c)
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("Start took %s", took)
	}
	if st := c.Status(); st.State != consumers.Recovering || !strings.Contains(st.LastError, "network down") || st.By != "broker" {
		t.Errorf("%+v", st)
	}
	net.set(true)
	awaitState(t, c, consumers.Running)
	if st := c.Status(); st.LastError != "" || st.By != "test" {
		t.Errorf("%+v", st)
	}
}

func TestDeletedQueueIsWaitedFor(t *testing.T) {
	onServers(t, func(t *testing.T, s *server) {
		s.declare(t, "gone", nil)
		s.declare(t, "other", nil)
		conn := s.dial(t)
		c := container(t, conn, consumers.Config{Queues: []string{"gone"}, Recovery: quick}, ok)
		other := container(t, conn, consumers.Config{Queues: []string{"other"}}, ok)
		events, cancel := c.Events(100)
		defer cancel()
		start(t, c)
		start(t, other)
		since := other.Status().Since
		if _, err := s.ch.QueueDelete("gone", false, false, false); err != nil {
			t.Fatal(err)
		}
		awaitState(t, c, consumers.MissingQueue)
		if st := c.Status(); !strings.Contains(st.LastError, "gone") {
			t.Errorf("%+v", st)
		}
		time.Sleep(50 * time.Millisecond)
		s.declare(t, "gone", nil)
		awaitState(t, c, consumers.Running)
		s.publish(t, "gone", 0, 1)
		eventually(t, "handled", func() bool { return c.Status().Handled == 1 })
		if st := other.Status(); st.State != consumers.Running || !st.Since.Equal(since) {
			t.Errorf("the other container: %+v", st)
		}
		expectEvents(t, events, consumers.EventStarted, consumers.EventCancelled, consumers.EventMissingQueue, consumers.EventStarted)
	})
}

// expectEvents reads events until all kinds were seen in this order.
func expectEvents(t *testing.T, events <-chan consumers.Event, kinds ...consumers.EventKind) {
	t.Helper()
	timeout := time.After(15 * time.Second)
	for _, k := range kinds {
		for {
			select {
			case e := <-events:
				if e.Kind == k {
					goto next
				}
			case <-timeout:
				t.Fatalf("no event %q", k)
			}
		}
	next:
	}
}

func TestMissingQueueIsNotAskedForTooOften(t *testing.T) {
	span, backoff := time.Second, quick
	if soak() {
		span, backoff = time.Minute, consumers.Backoff{}
	}
	onServers(t, func(t *testing.T, s *server) {
		c := container(t, s.dial(t), consumers.Config{Queues: []string{"missing"}, Recovery: backoff}, ok)
		start(t, c)
		awaitState(t, c, consumers.MissingQueue)
		time.Sleep(span)
		st := c.Status()
		most, at := 1, time.Duration(0)
		for at < span+time.Second {
			at += backoff.Min
			if most > 1 {
				at += (backoff.Ceiling(most) - backoff.Min) / 20 // twenty times luckier than the mean
			}
			most++
		}
		if st.Attempts < 2 || st.Attempts > most {
			t.Errorf("%d attempts in %s, at most %d expected", st.Attempts, span, most)
		}
		if st.State != consumers.MissingQueue || st.Consumers != 0 {
			t.Errorf("%+v", st)
		}
	})
}

func TestMissingQueueCanEndTheContainer(t *testing.T) {
	onServers(t, func(t *testing.T, s *server) {
		c := container(t, s.dial(t), consumers.Config{Queues: []string{"missing"}, FailOnMissingQueue: true}, ok)
		if err := c.Start(t.Context(), consumers.Cause{}); err == nil || !strings.Contains(err.Error(), "missing") {
			t.Errorf("Start: %v", err)
		}
		if st := c.Status(); st.State != consumers.Failed || st.LastError == "" {
			t.Errorf("%+v", st)
		}
		s.declare(t, "missing", nil)
		start(t, c)
		awaitState(t, c, consumers.Running)
	})
}

func TestOneMissingQueueDoesNotHoldTheOther(t *testing.T) {
	onServers(t, func(t *testing.T, s *server) {
		s.declare(t, "here", nil)
		s.publish(t, "here", 0, 10)
		c := container(t, s.dial(t), consumers.Config{Queues: []string{"missing", "here"}, Min: 2, Recovery: quick}, ok)
		start(t, c)
		eventually(t, "the queue that exists is consumed", func() bool { return c.Status().Handled == 10 })
		eventually(t, "the state says so", func() bool {
			st := c.Status()
			return st.State == consumers.MissingQueue && st.Consumers == 2 && strings.Contains(st.LastError, "missing")
		})
		s.declare(t, "missing", nil)
		awaitState(t, c, consumers.Running)
		for _, q := range []string{"here", "missing"} {
			if n := s.inspect(t, q).Consumers; n != 2 {
				t.Errorf("%d consumers on %s", n, q)
			}
		}
		if r := stop(t, c); r.Phase != "done" {
			t.Errorf("%+v", r)
		}
	})
}

func TestQueuesAreAddedAndRemovedWhileRunning(t *testing.T) {
	onServers(t, func(t *testing.T, s *server) {
		s.declare(t, "a", nil)
		s.declare(t, "b", nil)
		c := container(t, s.dial(t), consumers.Config{Queues: []string{"a"}, Min: 2}, ok)
		start(t, c)
		if err := c.AddQueues(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
		eventually(t, "b is consumed", func() bool { return s.inspect(t, "b").Consumers == 2 && c.Status().State == consumers.Running })
		if err := c.RemoveQueues(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a is no longer consumed", func() bool { return s.inspect(t, "a").Consumers == 0 })
		s.publish(t, "b", 0, 100)
		eventually(t, "b is handled", func() bool { return c.Status().Handled == 100 })
		if err := c.RemoveQueues(t.Context(), "b"); err == nil {
			t.Error("the last queue was removed")
		}
		if st := c.Status(); len(st.Queues) != 1 || st.Consumers != 2 {
			t.Errorf("%+v", st)
		}
	})
}

func TestRefusedLoginIsTriedAgain(t *testing.T) {
	onServers(t, func(t *testing.T, s *server) {
		s.declare(t, "q", nil)
		s.setPassword(t, "late", "wrong")
		u, _ := url.Parse(s.url)
		u.User = url.UserPassword("late", "right")
		c := container(t, s.dial(t, quickConn, func(c *consumers.ConnConfig) { c.URL = u.String() }), consumers.Config{Queues: []string{"q"}}, ok)
		start(t, c)
		awaitState(t, c, consumers.Refused)
		eventually(t, "three attempts", func() bool { return c.Status().Attempts >= 3 })
		if st := c.Status(); strings.Contains(st.LastError, "right") {
			t.Errorf("the password is shown: %s", st.LastError)
		}
		s.setPassword(t, "late", "right")
		awaitState(t, c, consumers.Running)
	})
}

func TestExclusiveQueueIsWaitedFor(t *testing.T) {
	onServers(t, func(t *testing.T, s *server) {
		s.declare(t, "q", nil)
		if _, err := s.ch.Consume("q", "holder", true, true, false, false, nil); err != nil {
			t.Fatal(err)
		}
		c := container(t, s.dial(t), consumers.Config{Queues: []string{"q"}, Exclusive: true, Recovery: quick}, ok)
		start(t, c)
		eventually(t, "it says that it waits", func() bool {
			st := c.Status()
			return st.State == consumers.Recovering && strings.Contains(st.LastError, "exclusive")
		})
		if err := s.ch.Cancel("holder", false); err != nil {
			t.Fatal(err)
		}
		awaitState(t, c, consumers.Running)
	})
}

func TestConsumerCancelledByTheBrokerComesBack(t *testing.T) {
	onServers(t, func(t *testing.T, s *server) {
		s.declare(t, "q", nil)
		c := container(t, s.dial(t), consumers.Config{Queues: []string{"q"}, Min: 2, Recovery: quick}, ok)
		events, cancel := c.Events(100)
		defer cancel()
		start(t, c)
		if s.embedded != nil {
			s.embedded.CancelConsumer("/", "q", "")
		} else { // the one way to have RabbitMQ send a cancel
			if _, err := s.ch.QueueDelete("q", false, false, false); err != nil {
				t.Fatal(err)
			}
			s.declare(t, "q", nil)
		}
		expectEvents(t, events, consumers.EventCancelled)
		eventually(t, "both are back", func() bool {
			return c.Status().State == consumers.Running && s.inspect(t, "q").Consumers == 2
		})
		s.publish(t, "q", 0, 10)
		eventually(t, "handled", func() bool { return c.Status().Handled == 10 })
	})
}

func TestConsumerTimeoutOfTheBrokerIsRecoveredFrom(t *testing.T) {
	run := func(t *testing.T, s *server) {
		s.declare(t, "q", nil)
		s.publish(t, "q", 0, 1)
		var calls atomic.Int32
		release := make(chan struct{})
		c := container(t, s.dial(t), consumers.Config{Queues: []string{"q"}, Recovery: quick}, func(context.Context, *consumers.Delivery) error {
			if calls.Add(1) == 1 {
				<-release
			}
			return nil
		})
		events, cancel := c.Events(100)
		defer cancel()
		start(t, c)
		eventuallyIn(t, 2*time.Minute, "the channel is closed and the message delivered again", func() bool { return c.Status().Handled == 1 })
		close(release)
		eventually(t, "the late ack is refused", func() bool { return c.Status().StaleAcks == 1 })
		expectEvents(t, events, consumers.EventRecovering, consumers.EventStarted)
		if q := s.inspect(t, "q"); q.Consumers != 1 || q.Messages != 0 {
			t.Errorf("%+v", q)
		}
	}
	t.Run("embedded", func(t *testing.T) { run(t, embeddedServer(t, broker.Config{ConsumerTimeout: 300 * time.Millisecond})) })
	t.Run("rabbitmq", func(t *testing.T) {
		s := realServer(t)
		// RabbitMQ looks at every tick of a channel, once a minute; what new
		// channels take from the server's settings is changed for the test.
		s.setting(t, "consumer_timeout", "1000")
		s.setting(t, "channel_tick_interval", "500")
		run(t, s)
	})
}

func TestServerRestartIsRecoveredFrom(t *testing.T) {
	run := func(t *testing.T, s *server, down, up func()) {
		if _, err := s.ch.QueueDeclare("q", true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		s.publish(t, "q", 0, 10)
		c := container(t, s.dial(t, quickConn), consumers.Config{Queues: []string{"q"}, Recovery: quick}, ok)
		start(t, c)
		down()
		eventually(t, "it notices", func() bool { return c.Status().State != consumers.Running })
		up()
		awaitState(t, c, consumers.Running)
		s.connect(t)
		s.publish(t, "q", 10, 10)
		eventually(t, "handled", func() bool { return c.Status().Handled >= 20 })
	}
	t.Run("embedded", func(t *testing.T) {
		s := embeddedServer(t, broker.Config{})
		run(t, s, func() { check(t, s.embedded.Stop(t.Context())) }, func() { check(t, s.embedded.Restart(t.Context())) })
	})
	t.Run("rabbitmq", func(t *testing.T) {
		s := realServer(t)
		run(t, s, func() { s.ctl(t, "stop_app") }, func() { s.ctl(t, "start_app") })
	})
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestDeliveryCountIsShown(t *testing.T) {
	onServers(t, func(t *testing.T, s *server) {
		s.declare(t, "q", amqp.Table{"x-queue-type": "quorum"})
		s.publish(t, "q", 0, 1)
		c := container(t, s.dial(t), consumers.Config{Queues: []string{"q"}}, func(_ context.Context, d *consumers.Delivery) error {
			if d.DeliveryCount() < 3 {
				return consumers.Requeue(nil)
			}
			return nil
		})
		start(t, c)
		eventually(t, "handled", func() bool { return c.Status().Handled == 1 })
		if st := c.Status(); st.MaxDeliveryCount != 3 || st.Requeued != 3 || st.Failed != 3 || st.Redelivered != 3 {
			t.Errorf("%+v", st)
		}
	})
}

func TestIdleEvent(t *testing.T) {
	s := embeddedServer(t, broker.Config{})
	s.declare(t, "q", nil)
	c := container(t, s.dial(t), consumers.Config{Queues: []string{"q"}, IdleEvent: 30 * time.Millisecond}, ok)
	events, cancel := c.Events(100)
	defer cancel()
	begin := time.Now()
	start(t, c)
	expectEvents(t, events, consumers.EventStarted, consumers.EventIdle, consumers.EventIdle)
	if took := time.Since(begin); took < 60*time.Millisecond {
		t.Errorf("two idle events in %s", took)
	}
}

func TestSlowReaderOfEventsIsToldWhatItLost(t *testing.T) {
	s := embeddedServer(t, broker.Config{})
	s.declare(t, "q", nil)
	c := container(t, s.dial(t), consumers.Config{Queues: []string{"q"}}, ok)
	events, cancel := c.Events(1)
	defer cancel()
	for range 3 {
		start(t, c)
		stop(t, c)
	}
	<-events
	start(t, c)
	if e := <-events; e.Kind != consumers.EventStarted || e.Dropped == 0 {
		t.Errorf("%+v", e)
	}
	cancel()
	cancel()
}

func TestMissingPermissionIsShownAsRefused(t *testing.T) {
	onServers(t, func(t *testing.T, s *server) {
		s.declare(t, "q", nil)
		s.setPassword(t, "blind", "blind")
		s.permit(t, "blind", "")
		u, _ := url.Parse(s.url)
		u.User = url.UserPassword("blind", "blind")
		c := container(t, s.dial(t, quickConn, func(c *consumers.ConnConfig) { c.URL = u.String() }), consumers.Config{Queues: []string{"q"}, Recovery: quick}, ok)
		start(t, c)
		awaitState(t, c, consumers.Refused)
		s.permit(t, "blind", ".*")
		awaitState(t, c, consumers.Running)
	})
}
