package consumers_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/belay-mq/belay/consumers"
	"github.com/belay-mq/belay/consumers/broker"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	amqp "github.com/rabbitmq/amqp091-go"
)

// footprint is what a leak would make grow.
type footprint struct {
	goroutines int
	heap       uint64
}

func measure() footprint {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return footprint{runtime.NumGoroutine(), m.HeapAlloc}
}

// flat fails when after is more than a little above before.
func (before footprint) flat(t *testing.T) {
	t.Helper()
	eventually(t, "the goroutines of the test's own broker and client have ended", func() bool {
		return runtime.NumGoroutine() <= before.goroutines+3
	})
	if after := measure(); after.heap > before.heap+before.heap/4+(2<<20) {
		t.Errorf("heap grew from %d to %d KiB", before.heap>>10, after.heap>>10)
	} else {
		t.Logf("heap %d to %d KiB, goroutines %d to %d", before.heap>>10, after.heap>>10, before.goroutines, after.goroutines)
	}
}

func TestAThousandPausesLeaveNothingBehind(t *testing.T) {
	cycles := 1000
	if testing.Short() {
		cycles = 100
	}
	onServers(t, func(t *testing.T, s *server) {
		s.declare(t, "q", nil)
		c := container(t, s.dial(t), consumers.Config{Queues: []string{"q"}, Min: 2}, ok)
		cycle := func(n int) {
			for i := range n {
				start(t, c)
				if i%10 == 0 {
					s.publish(t, "q", 0, 5)
				}
				stop(t, c)
			}
		}
		cycle(20)
		before := measure()
		cycle(cycles)
		before.flat(t)
		if q := s.inspect(t, "q"); q.Consumers != 0 {
			t.Errorf("%d consumers are left", q.Consumers)
		}
		// A channel that was left open would have used up an id each: the
		// server allows 2047.
		start(t, c)
		awaitState(t, c, consumers.Running)
	})
}

func TestTwentyLostConnectionsLeaveNothingBehind(t *testing.T) {
	onServers(t, func(t *testing.T, s *server) {
		net := &network{}
		conn := s.dial(t, net.over, quickConn)
		all := s.fifty(t, conn, quick)
		running := func() {
			for _, c := range all {
				awaitState(t, c, consumers.Running)
			}
		}
		kills := func(n int) {
			for range n {
				running()
				net.kill()
				eventually(t, "the loss is noticed", func() bool { return all[0].Status().State != consumers.Running })
			}
			running()
		}
		kills(2)
		before := measure()
		kills(20)
		before.flat(t)
		for _, c := range all {
			if n := s.inspect(t, c.ListenerID()).Consumers; n != 1 {
				t.Errorf("%s has %d consumers", c.ListenerID(), n)
			}
		}
	})
}

func TestABrokerAlarmIsShownAndDoesNotHoldConsumers(t *testing.T) {
	run := func(t *testing.T, s *server, raise, end func()) {
		s.declare(t, "q", nil)
		s.publish(t, "q", 0, 100)
		conn := s.dial(t)
		hold := make(chan struct{})
		c := container(t, conn, consumers.Config{Queues: []string{"q"}}, func(context.Context, *consumers.Delivery) error {
			<-hold
			return nil
		})
		events, cancel := c.Events(100)
		defer cancel()
		start(t, c)
		ch, err := conn.PublishChannel(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		raise()
		eventuallyIn(t, 30*time.Second, "the alarm is shown", func() bool {
			_ = ch.Publish("", "nowhere", false, false, amqp.Publishing{Body: []byte("x")})
			return conn.Blocked() && c.Status().Blocked
		})
		expectEvents(t, events, consumers.EventBlocked)
		close(hold)
		eventually(t, "consuming goes on", func() bool { return c.Status().Handled == 100 })
		if st := c.Status(); st.State != consumers.Running {
			t.Errorf("%+v", st)
		}
		if r := stop(t, c); r.Phase != "done" {
			t.Errorf("%+v", r)
		}
		end()
		eventuallyIn(t, 30*time.Second, "the alarm has ended", func() bool { return !c.Status().Blocked })
	}
	t.Run("embedded", func(t *testing.T) {
		s := embeddedServer(t, broker.Config{})
		run(t, s, func() { s.embedded.Block("memory") }, s.embedded.Unblock)
	})
	t.Run("rabbitmq", func(t *testing.T) {
		s := realServer(t)
		defer s.ctl(t, "set_vm_memory_high_watermark", "0.4")
		run(t, s, func() { s.ctl(t, "set_vm_memory_high_watermark", "0.0001") }, func() { s.ctl(t, "set_vm_memory_high_watermark", "0.4") })
	})
}

func TestEveryPropertyArrivesAsTheClientWouldGiveIt(t *testing.T) {
	onServers(t, func(t *testing.T, s *server) {
		s.declare(t, "q", nil)
		sent := amqp.Publishing{
			Headers: amqp.Table{
				"bool": true, "i8": int8(-3), "u8": uint8(200), "i16": int16(-300), "i32": int32(-70000), "i64": int64(1) << 40,
				"f32": float32(1.5), "f64": 2.5, "text": "grüße", "bytes": []byte{0, 1, 2}, "nil": nil, "time": time.Unix(1700000000, 0),
				"decimal": amqp.Decimal{Scale: 2, Value: 314}, "list": []any{"a", int32(1), amqp.Table{"deep": true}}, "table": amqp.Table{"k": "v"},
			},
			ContentType: "application/json", ContentEncoding: "gzip", DeliveryMode: 2, Priority: 4, CorrelationId: "c", ReplyTo: "r",
			Expiration: "60000", MessageId: "m", Timestamp: time.Unix(1700000001, 0), Type: "t", UserId: "guest", AppId: "a",
		}
		for _, size := range []int{0, 10, 300_000} { // none, one and several frames
			sent.Body = make([]byte, size)
			for range 2 {
				if err := s.ch.Publish("", "q", false, false, sent); err != nil {
					t.Fatal(err)
				}
			}
			want, found, err := s.ch.Get("q", true)
			for ; !found && err == nil; want, found, err = s.ch.Get("q", true) {
			}
			if err != nil {
				t.Fatal(err)
			}
			got := make(chan *consumers.Delivery, 2)
			c := container(t, s.dial(t), consumers.Config{Queues: []string{"q"}}, func(_ context.Context, d *consumers.Delivery) error {
				got <- d
				return nil
			})
			start(t, c)
			d := (<-got).Delivery
			d.ConsumerTag, d.DeliveryTag = "", want.DeliveryTag
			want.MessageCount = 0
			if diff := cmp.Diff(want, d, cmpopts.IgnoreFields(amqp.Delivery{}, "Acknowledger")); diff != "" {
				t.Errorf("with %d bytes: %s", size, diff)
			}
			stop(t, c)
		}
	})
}
