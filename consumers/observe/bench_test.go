package observe_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/belay-mq/belay/consumers"
	"github.com/belay-mq/belay/consumers/broker"
	"github.com/belay-mq/belay/consumers/observe"
)

// BenchmarkObserver reads many queues of an embedded broker in the same
// process, both ways, and reports how much of a core that takes together, how
// often each queue was declared, and the heap.
func BenchmarkObserver(b *testing.B) {
	for _, n := range []int{20, 200, 2000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			br, err := broker.Listen(ctx, broker.Config{ManagementAddr: "127.0.0.1:0"})
			if err != nil {
				b.Fatal(err)
			}
			defer br.Close(context.Background())
			ids := declareMany(b, br.URL(), n)
			rmq, err := consumers.Dial(ctx, consumers.ConnConfig{URL: br.URL()})
			if err != nil {
				b.Fatal(err)
			}
			defer rmq.Close(context.Background())
			o, err := observe.New(observe.Config{Conn: rmq, Management: observe.Secret(strings.Replace(br.ManagementURL(), "//", "//guest:guest@", 1))})
			if err != nil {
				b.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- o.Run(ctx) }()
			o.Want(ids)
			time.Sleep(2 * time.Second) // past the first look at each
			b.ResetTimer()
			before := cpu()
			for range b.N {
				time.Sleep(time.Second)
			}
			b.ReportMetric(100*(cpu()-before).Seconds()/b.Elapsed().Seconds(), "%core")
			var oldest time.Duration
			for _, q := range o.Queues() {
				oldest = max(oldest, time.Since(q.Ready.At))
			}
			b.ReportMetric(oldest.Seconds(), "s-oldest")
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			b.ReportMetric(float64(m.HeapAlloc)/(1<<20), "MiB")
			cancel()
			if err := <-ended; err != nil {
				b.Error(err)
			}
		})
	}
}

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func declareMany(b *testing.B, url string, n int) []observe.QueueID {
	conn, err := amqp.Dial(url)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		b.Fatal(err)
	}
	ids := make([]observe.QueueID, n)
	for i := range ids {
		ids[i] = observe.QueueID{VHost: "/", Name: fmt.Sprintf("q%d", i)}
		args := amqp.Table{"x-message-ttl": int32(3_600_000), "x-max-length": int32(1000)}
		if _, err := ch.QueueDeclare(ids[i].Name, true, false, false, false, args); err != nil {
			b.Fatal(err)
		}
	}
	return ids
}
