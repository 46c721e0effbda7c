package consumers_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/belay-mq/belay/consumers"
	"github.com/belay-mq/belay/consumers/broker"
)

func TestBusyConsumersAreCancelledAtOnceAndDrain(t *testing.T) {
	onServers(t, func(t *testing.T, s *server) {
		s.declare(t, "q", nil)
		s.publish(t, "q", 0, 400)
		release := make(chan struct{})
		c := container(t, s.dial(t), consumers.Config{Queues: []string{"q"}, Min: 8, Prefetch: 50, ShutdownTimeout: time.Minute}, func(context.Context, *consumers.Delivery) error {
			<-release
			return nil
		})
		start(t, c)
		eventually(t, "all prefetched", func() bool { return c.Status().InFlight == 400 })
		if err := c.Scale(t.Context(), 2, 2); err != nil {
			t.Fatal(err)
		}
		eventually(t, "six are cancelled", func() bool { return s.inspect(t, "q").Consumers == 2 })
		if st := c.Status(); st.Consumers != 2 || st.Draining != 6 || st.State != consumers.Running {
			t.Errorf("%+v", st)
		}
		close(release)
		eventually(t, "they have drained", func() bool { st := c.Status(); return st.Draining == 0 && st.Handled == 400 })
		if st := c.Status(); st.Requeued != 0 || st.Redelivered != 0 || st.Consumers != 2 {
			t.Errorf("%+v", st)
		}
	})
}

func TestBothBoundsAreRaisedAtOnce(t *testing.T) {
	onServers(t, func(t *testing.T, s *server) {
		s.declare(t, "q", nil)
		c := container(t, s.dial(t), consumers.Config{Queues: []string{"q"}, Min: 1, Max: 2}, ok)
		start(t, c)
		if err := c.Scale(t.Context(), 4, 8); err != nil {
			t.Fatal(err)
		}
		eventually(t, "four consumers", func() bool { return s.inspect(t, "q").Consumers == 4 })
		if st := c.Status(); st.Min != 4 || st.Max != 8 || !strings.Contains(st.Scaling, "4–8") {
			t.Errorf("%+v", st)
		}
		for _, pair := range [][2]int{{0, 1}, {3, 2}, {-1, -1}} {
			if err := c.Scale(t.Context(), pair[0], pair[1]); err == nil {
				t.Errorf("%v was taken", pair)
			}
		}
	})
}

func TestIdleConsumersLeaveDownToTheMinimum(t *testing.T) {
	onServers(t, func(t *testing.T, s *server) {
		s.declare(t, "q", nil)
		c := container(t, s.dial(t), consumers.Config{
			Queues: []string{"q"}, Min: 32, Max: 32, ScaleInterval: 20 * time.Millisecond, ScaleDownAfter: 100 * time.Millisecond,
		}, ok)
		var least atomic.Int64
		least.Store(32)
		c.OnChange(func() {
			if st := c.Status(); st.State == consumers.Running && int64(st.Consumers) < least.Load() {
				least.Store(int64(st.Consumers))
			}
		})
		start(t, c)
		if err := c.Scale(t.Context(), 1, 32); err != nil {
			t.Fatal(err)
		}
		eventually(t, "one is left", func() bool { return s.inspect(t, "q").Consumers == 1 })
		time.Sleep(100 * time.Millisecond)
		if st := c.Status(); st.Consumers != 1 || least.Load() != 1 || !strings.Contains(st.Scaling, "idle") {
			t.Errorf("%+v, least %d", st, least.Load())
		}
	})
}

func TestBacklogAddsConsumers(t *testing.T) {
	onServers(t, func(t *testing.T, s *server) {
		s.declare(t, "q", nil)
		s.publish(t, "q", 0, 2000)
		release := make(chan struct{})
		c := container(t, s.dial(t), consumers.Config{
			Queues: []string{"q"}, Min: 1, Max: 10, Prefetch: 1, ScaleInterval: 50 * time.Millisecond,
		}, func(context.Context, *consumers.Delivery) error {
			select {
			case <-release:
			case <-time.After(10 * time.Millisecond):
			}
			return nil
		})
		events, cancel := c.Events(100)
		defer cancel()
		start(t, c)
		begin := time.Now()
		eventually(t, "ten consumers", func() bool { return c.Status().Consumers == 10 })
		t.Logf("1 to 10 in %s", time.Since(begin))
		if st := c.Status(); !strings.Contains(st.Scaling, "wait") {
			t.Errorf("%+v", st)
		}
		expectEvents(t, events, consumers.EventScaled)
		close(release)
		eventually(t, "all handled", func() bool { return c.Status().Handled == 2000 })
	})
}

func TestPrefetchIsChangedByReplacingConsumers(t *testing.T) {
	s := embeddedServer(t, broker.Config{})
	s.declare(t, "q", nil)
	release := make(chan struct{})
	c := container(t, s.dial(t), consumers.Config{Queues: []string{"q"}, Prefetch: 5}, func(context.Context, *consumers.Delivery) error {
		<-release
		return nil
	})
	start(t, c)
	if err := c.SetPrefetch(t.Context(), 20); err != nil {
		t.Fatal(err)
	}
	awaitState(t, c, consumers.Running)
	eventually(t, "the old one is gone", func() bool { return c.Status().Draining == 0 && c.Status().Consumers == 1 })
	s.publish(t, "q", 0, 100)
	eventually(t, "the new prefetch is full", func() bool { return c.Status().InFlight == 20 })
	close(release)
}
