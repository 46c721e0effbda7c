package broker_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/belay-mq/belay/consumers/broker"
)

// BenchmarkConsume publishes and consumes through raw amqp091-go, side by side
// on the embedded broker and, where BELAY_TEST_AMQP names one, on RabbitMQ.
// msg/s is what arrived and was acknowledged.
func BenchmarkConsume(b *testing.B) {
	for _, where := range []string{"embedded", "rabbitmq"} {
		for _, batch := range []int{1, 50} {
			b.Run(fmt.Sprintf("%s/ack=%d", where, batch), func(b *testing.B) {
				var s *server
				if where == "embedded" {
					s = &server{url: listen(b, broker.Config{}).URL(), dial: amqp.DialConfig}
				} else {
					s = &server{url: realURL(b), dial: amqp.DialConfig}
				}
				benchConsume(b, s, batch)
			})
		}
	}
}

func benchConsume(b *testing.B, s *server, batch int) {
	pub, sub := s.channel(b), s.channel(b)
	q := s.queue(b, sub, nil)
	if err := sub.Qos(250, 0, false); err != nil {
		b.Fatal(err)
	}
	d := consume(b, sub, q, nil)
	body := make([]byte, 100)
	stop := new(atomic.Bool)
	defer stop.Store(true)
	total := b.N
	b.ResetTimer()
	go func() {
		for i := 0; i < total && !stop.Load(); i++ {
			if pub.PublishWithContext(b.Context(), "", q, false, false, amqp.Publishing{Body: body}) != nil {
				return
			}
		}
	}()
	for i := 1; i <= total; i++ {
		m := <-d
		if i%batch == 0 || i == total {
			if err := m.Ack(batch > 1); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(total)/b.Elapsed().Seconds(), "msg/s")
}
