package consumers_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belay-mq/belay/consumers"
	amqp "github.com/rabbitmq/amqp091-go"
)

func TestWhatBecomesOfAFailedMessage(t *testing.T) {
	boom := errors.New("boom")
	for _, tc := range []struct {
		name      string
		requeue   bool // DefaultRequeue
		fail      func() error
		dead      int
		delivered int
	}{
		{"error", false, func() error { return boom }, 1, 1},
		{"error with DefaultRequeue", true, func() error { return boom }, 0, 2},
		{"reject", true, func() error { return consumers.Reject(boom) }, 1, 1},
		{"requeue", false, func() error { return consumers.Requeue(boom) }, 0, 2},
		{"requeue, wrapped", false, func() error { return fmt.Errorf("handling: %w", consumers.Requeue(boom)) }, 0, 2},
		{"ack anyway", false, func() error { return consumers.AckAnyway(boom) }, 0, 1},
		{"panic", false, func() error { panic(boom) }, 1, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			onServers(t, func(t *testing.T, s *server) {
				s.declare(t, "dead", nil)
				s.declare(t, "q", amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
				s.publish(t, "q", 0, 10)
				seen := newTally()
				c := container(t, s.dial(t), consumers.Config{Queues: []string{"q"}, DefaultRequeue: tc.requeue}, func(_ context.Context, d *consumers.Delivery) error {
					seen.add(d.MessageId)
					if d.MessageId == "5" && !d.Redelivered {
						return tc.fail()
					}
					return nil
				})
				start(t, c)
				eventually(t, "all delivered", func() bool { _, all := seen.total(); return all == 9+tc.delivered })
				eventually(t, "the dead letter", func() bool { return s.inspect(t, "dead").Messages == tc.dead })
				stop(t, c)
				st := c.Status()
				if q := s.inspect(t, "q"); q.Messages != 0 || st.Failed != 1 || st.InFlight != 0 {
					t.Errorf("%d left, %+v", q.Messages, st)
				}
				if f := st.LastFailure; f == nil || f.MessageID != "5" || !strings.Contains(f.Error, "boom") {
					t.Errorf("last failure: %+v", f)
				}
			})
		})
	}
}

// TestAlwaysRequeued: what fails and goes back again and again must not go round as
// fast as the machine can, and the wait must not hold up a stop.
func TestAlwaysRequeued(t *testing.T) {
	onServers(t, func(t *testing.T, s *server) {
		s.declare(t, "q", nil)
		s.publish(t, "q", 0, 1)
		seen := newTally()
		c := container(t, s.dial(t), consumers.Config{Queues: []string{"q"}, DefaultRequeue: true, RequeueBackoff: consumers.Backoff{Min: time.Second, Max: time.Minute}},
			func(_ context.Context, d *consumers.Delivery) error {
				seen.add(d.MessageId)
				return errors.New("boom")
			})
		start(t, c)
		eventually(t, "given back at once", func() bool { _, all := seen.total(); return all == 2 })
		time.Sleep(300 * time.Millisecond)
		if _, all := seen.total(); all != 2 {
			t.Errorf("handled %d times within 0.3 s, want 2 and then a wait", all)
		}
		began := time.Now()
		stop(t, c)
		if took := time.Since(began); took > 700*time.Millisecond {
			t.Errorf("the stop took %v", took)
		}
		if q := s.inspect(t, "q"); q.Messages != 1 {
			t.Errorf("%d messages left, want 1", q.Messages)
		}
	})
}

// TestRequeueBackoffBeginsAnew: a message with another outcome ends the row.
func TestRequeueBackoffBeginsAnew(t *testing.T) {
	onServers(t, func(t *testing.T, s *server) {
		s.declare(t, "q", nil)
		s.publish(t, "q", 0, 40)
		seen := newTally()
		c := container(t, s.dial(t), consumers.Config{Queues: []string{"q"}, Prefetch: 1, RequeueBackoff: consumers.Backoff{Min: time.Hour}},
			func(_ context.Context, d *consumers.Delivery) error {
				seen.add(d.MessageId)
				if !d.Redelivered {
					return consumers.Requeue(nil)
				}
				return nil
			})
		start(t, c)
		eventually(t, "all handled twice", func() bool { _, all := seen.total(); return all == 80 })
		stop(t, c)
	})
}

func TestManualAckFromElsewhereOutOfOrder(t *testing.T) {
	onServers(t, func(t *testing.T, s *server) {
		s.declare(t, "q", nil)
		const messages = 2000
		s.publish(t, "q", 0, messages)
		seen := newTally()
		var later sync.WaitGroup
		c := container(t, s.dial(t), consumers.Config{Queues: []string{"q"}, Min: 2, Prefetch: 100, AckMode: consumers.AckManual}, func(_ context.Context, d *consumers.Delivery) error {
			later.Go(func() {
				time.Sleep(rand.N(5 * time.Millisecond))
				if d.MessageId == "7" && !d.Redelivered {
					if err := d.Requeue(); err != nil {
						t.Error(err)
					}
					return
				}
				seen.add(d.MessageId)
				if err := d.Ack(); err != nil {
					t.Errorf("ack of %s: %v", d.MessageId, err)
				}
				if err := d.Ack(); !errors.Is(err, consumers.ErrSettled) {
					t.Errorf("second ack: %v", err)
				}
				if err := d.Delivery.Nack(false, true); !errors.Is(err, consumers.ErrSettled) {
					t.Errorf("nack after the ack: %v", err)
				}
			})
			return nil
		})
		start(t, c)
		eventually(t, "all acked", func() bool { n, _ := seen.total(); return n == messages })
		later.Wait()
		r := stop(t, c)
		if q := s.inspect(t, "q"); q.Messages != 0 || r.Requeued != 0 || c.Status().LastError != "" {
			t.Errorf("%d left, report %+v, status %+v", q.Messages, r, c.Status())
		}
		if _, all := seen.total(); all != messages {
			t.Errorf("%d acks for %d messages", all, messages)
		}
	})
}

func TestManualAckAfterTheStopIsStale(t *testing.T) {
	onServers(t, func(t *testing.T, s *server) {
		s.declare(t, "q", nil)
		s.publish(t, "q", 0, 1)
		got := make(chan *consumers.Delivery, 1)
		c := container(t, s.dial(t), consumers.Config{Queues: []string{"q"}, AckMode: consumers.AckManual, ShutdownTimeout: 50 * time.Millisecond}, func(_ context.Context, d *consumers.Delivery) error {
			got <- d
			return nil
		})
		start(t, c)
		d := <-got
		if r := stop(t, c); r.Requeued != 1 {
			t.Errorf("%+v", r)
		}
		if err := d.Ack(); !errors.Is(err, consumers.ErrStale) {
			t.Errorf("ack after the stop: %v", err)
		}
		if q := s.inspect(t, "q"); q.Messages != 1 {
			t.Errorf("%d ready", q.Messages)
		}
	})
}

func TestClientsOwnMultipleAckCoversNoMoreThanItSays(t *testing.T) {
	onServers(t, func(t *testing.T, s *server) {
		s.declare(t, "q", nil)
		s.publish(t, "q", 0, 10)
		all := make(chan *consumers.Delivery, 10)
		c := container(t, s.dial(t), consumers.Config{Queues: []string{"q"}, AckMode: consumers.AckManual, ShutdownTimeout: 50 * time.Millisecond}, func(_ context.Context, d *consumers.Delivery) error {
			all <- d
			return nil
		})
		start(t, c)
		for i := range 10 {
			if d := <-all; i == 5 {
				if err := d.Delivery.Ack(true); err != nil {
					t.Error(err)
				}
			}
		}
		if r := stop(t, c); r.Requeued != 4 {
			t.Errorf("%+v", r)
		}
		if q := s.inspect(t, "q"); q.Messages != 4 {
			t.Errorf("%d ready, want 4", q.Messages)
		}
	})
}

func TestRetryThenRepublish(t *testing.T) {
	onServers(t, func(t *testing.T, s *server) {
		s.declare(t, "q", nil)
		s.declare(t, "parked", nil)
		s.publish(t, "q", 0, 3)
		seen := newTally()
		c := container(t, s.dial(t), consumers.Config{Queues: []string{"q"}, Retry: consumers.Retry{
			Attempts: 3, Backoff: quick, RoutingKey: "parked",
		}}, func(_ context.Context, d *consumers.Delivery) error {
			seen.add(d.MessageId)
			if d.MessageId == "1" {
				return errors.New("boom")
			}
			return nil
		})
		start(t, c)
		eventually(t, "the message is parked", func() bool { return s.inspect(t, "parked").Messages == 1 })
		stop(t, c)
		if _, all := seen.total(); all != 5 {
			t.Errorf("%d calls, want 5", all)
		}
		d, ok, err := s.ch.Get("parked", true)
		if err != nil || !ok || d.MessageId != "1" || d.Headers["x-exception-message"] != "boom" || d.Headers["x-original-routing-key"] != "q" {
			t.Errorf("parked: %+v %v", d, err)
		}
		if q := s.inspect(t, "q"); q.Messages != 0 {
			t.Errorf("%d left", q.Messages)
		}
	})
}

func TestRepublishToNowhereKeepsTheMessage(t *testing.T) {
	onServers(t, func(t *testing.T, s *server) {
		s.declare(t, "q", nil)
		s.publish(t, "q", 0, 1)
		c := container(t, s.dial(t), consumers.Config{Queues: []string{"q"}, Retry: consumers.Retry{RoutingKey: "nowhere"}}, func(context.Context, *consumers.Delivery) error {
			time.Sleep(5 * time.Millisecond)
			return errors.New("boom")
		})
		start(t, c)
		eventually(t, "it came back", func() bool { return c.Status().Redelivered > 1 })
		stop(t, c)
		if q := s.inspect(t, "q"); q.Messages != 1 {
			t.Errorf("%d ready: the message was lost", q.Messages)
		}
	})
}

func TestBatchHandler(t *testing.T) {
	onServers(t, func(t *testing.T, s *server) {
		s.declare(t, "q", nil)
		s.publish(t, "q", 0, 250)
		var mu sync.Mutex
		var sizes []int
		c, err := consumers.NewBatch(s.dial(t), consumers.Config{ListenerID: "B", Queues: []string{"q"}, BatchSize: 100, BatchTimeout: 50 * time.Millisecond},
			func(_ context.Context, batch []*consumers.Delivery) error {
				mu.Lock()
				defer mu.Unlock()
				sizes = append(sizes, len(batch))
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closeNow(t, c) })
		start(t, c)
		eventually(t, "all handled", func() bool { return c.Status().Handled == 250 })
		if r := stop(t, c); r.Requeued != 0 {
			t.Errorf("%+v", r)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, n := range sizes {
			if n > 100 {
				t.Errorf("batches of %v", sizes)
			}
		}
		if len(sizes) > 6 {
			t.Errorf("%d batches: %v", len(sizes), sizes)
		}
	})
}

// What a handler says is wrong is in the log, also where the message is dropped, but not
// once for each of the many rounds of a message.
func TestFailedHandlersAreLogged(t *testing.T) {
	onServers(t, func(t *testing.T, s *server) {
		s.declare(t, "q", nil)
		var mu sync.Mutex
		var log strings.Builder
		c := container(t, s.dial(t), consumers.Config{
			Queues: []string{"q"}, Logger: slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, nil)),
		}, func(context.Context, *consumers.Delivery) error { return errors.New("no customer 4711") })
		start(t, c)
		s.publish(t, "q", 0, 300)
		eventually(t, "all failed", func() bool { return c.Status().Failed == 300 })
		stop(t, c)
		mu.Lock()
		defer mu.Unlock()
		if n := strings.Count(log.String(), "no customer 4711"); n == 0 || n > 100 {
			t.Errorf("%d lines for 300 failures:\n%.500s", n, log.String())
		}
	})
}

type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
