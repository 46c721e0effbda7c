package presence

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"
)

// BenchmarkReceive takes in the report of an instance with 20 busy listeners. A
// thousand instances send 500 of them a second.
func BenchmarkReceive(b *testing.B) {
	var bodies [][]byte
	for seq := range 64 {
		r := Report{V: 1, App: "settle-service", Instance: "host-c:811:f3a9", Host: "host-c", Seq: uint64(seq + 1), Started: time.Now(), At: time.Now(), File: &FileReport{MD5: "9f3c", AppliedAt: time.Now()}}
		for i := range 20 {
			r.Listeners = append(r.Listeners, ListenerReport{
				ID: fmt.Sprintf("Consumer%d", i), Queues: []string{"queue"}, State: "running", Consumers: 4, Min: 2, Max: 8,
				Prefetch: 250, InFlight: 100, Handled: uint64(18234 + seq), Since: time.Now(), By: "toggle",
			})
		}
		body, err := json.Marshal(r)
		if err != nil {
			b.Fatal(err)
		}
		bodies = append(bodies, body)
	}
	p := New(Config{Conn: nobody{}})
	b.ReportAllocs()
	b.SetBytes(int64(len(bodies[0])))
	n := 0
	for b.Loop() {
		p.receive(bodies[n%len(bodies)])
		n++
		if n%len(bodies) == 0 {
			clear(p.seen)
		}
	}
	// What a thousand such instances cost: 500 reports a second.
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)*500/float64(time.Second)*100, "%core/1000inst")
}

// nobody is a Conn without a broker.
type nobody struct{ Conn }

func (nobody) Blocked() bool { return false }
