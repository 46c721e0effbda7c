package consumers_test

import (
	"context"
	"testing"
	"time"

	"github.com/belay-mq/belay/consumers"
)

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
	})
}

func TestPauseGivesBackWhatWasNotHandled(t *testing.T) {
	onServers(t, func(t *testing.T, s *server) {
		s.declare(t, "q", nil)
		s.publish(t, "q", 0, 250)
		c := container(t, s.dial(t), consumers.Config{Queues: []string{"q"}, ShutdownTimeout: 300 * time.Millisecond}, func(_ context.Context, d *consumers.Delivery) error {
			time.Sleep(20 * time.Millisecond)
			return nil
		})
		start(t, c)
		eventually(t, "all prefetched", func() bool { return c.Status().InFlight > 200 })
		r := stop(t, c)
		q := s.inspect(t, "q")
		t.Logf("%+v ready %d", r, q.Messages)
		if handled := int(c.Status().Handled); r.Requeued != 250-handled-r.Abandoned {
			t.Errorf("handled %d in all, report %+v", handled, r)
		}
	})
}
