package consumers_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/belay-mq/belay/consumers"
	"github.com/belay-mq/belay/consumers/broker"
	"github.com/prometheus/client_golang/prometheus"
)

func TestCollector(t *testing.T) {
	s := embeddedServer(t, broker.Config{})
	s.declare(t, "q", nil)
	s.publish(t, "q", 0, 10)
	c := container(t, s.dial(t), consumers.Config{ListenerID: "PayoutConsumer", Queues: []string{"q"}, Min: 2}, func(_ context.Context, d *consumers.Delivery) error {
		if d.MessageId == "3" {
			return errors.New("boom")
		}
		return nil
	})
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(consumers.NewCollector(func() []*consumers.Container { return []*consumers.Container{c} }))
	start(t, c)
	eventually(t, "all handled", func() bool { st := c.Status(); return st.Handled == 9 && st.Failed == 1 && st.InFlight == 0 })
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			key := strings.TrimPrefix(f.GetName(), "belay_consumer_")
			for _, l := range m.GetLabel() {
				if l.GetName() != "listener" {
					key += "/" + l.GetValue()
				} else if l.GetValue() != "PayoutConsumer" {
					t.Errorf("listener %q", l.GetValue())
				}
			}
			got[key] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	for key, want := range map[string]float64{
		"consumers": 2, "draining": 0, "in_flight": 0, "handled_total": 9, "failed_total": 1, "requeued_total": 0,
		"state/running": 1, "state/stopped": 0, "blocked": 0, "scalings_total/up": 0, "scalings_total/down": 0,
	} {
		if v, ok := got[key]; !ok || v != want {
			t.Errorf("%s is %v (%v), want %v", key, v, ok, want)
		}
	}
}
