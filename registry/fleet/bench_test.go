package fleet

import (
	"fmt"
	"testing"
	"time"

	"github.com/belay-mq/belay/registry/presence"
)

// crowd is a Presence of many instances.
type crowd struct{ seen []presence.Seen }

func (c *crowd) Instances() []presence.Seen { return c.seen }
func (c *crowd) Gone(string) bool           { return false }
func (c *crowd) Health() presence.Health    { return presence.Health{Collecting: true} }
func (c *crowd) OnChange(func())            {}

// BenchmarkRebuild joins a fleet: instances times listeners, ten instances to an
// application.
func BenchmarkRebuild(b *testing.B) {
	for _, n := range []int{10, 1000} {
		b.Run(fmt.Sprintf("instances=%d", n), func(b *testing.B) {
			c := &crowd{}
			for i := range n {
				r := presence.Report{App: fmt.Sprintf("app%d", i/10), Instance: fmt.Sprintf("host:%d:x", i)}
				for j := range 20 {
					r.Listeners = append(r.Listeners, presence.ListenerReport{
						ID: fmt.Sprintf("L%d", j), Queues: []string{fmt.Sprintf("q%d", j)}, State: "running", Consumers: 2, Min: 2, Max: 4,
					})
				}
				c.seen = append(c.seen, presence.Seen{Report: r, Received: time.Now()})
			}
			f := New(Config{Brokers: []Broker{{VHost: "/", Presence: c}}})
			b.ReportAllocs()
			for b.Loop() {
				f.rebuild(time.Now())
			}
			b.ReportMetric(float64(len(f.Snapshot().Rows)), "rows")
		})
	}
}
