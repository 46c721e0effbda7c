package observe_test

import (
	"context"
	"fmt"
	"log"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/belay-mq/belay/consumers"
	"github.com/belay-mq/belay/consumers/broker"
	"github.com/belay-mq/belay/consumers/observe"
)

func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	b, err := broker.Listen(ctx, broker.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close(context.Background())
	publishSome(b.URL(), "settle", 3)

	rmq, err := consumers.Dial(ctx, consumers.ConnConfig{URL: b.URL()})
	if err != nil {
		log.Fatal(err)
	}
	defer rmq.Close(context.Background())
	o, err := observe.New(observe.Config{Conn: rmq})
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- o.Run(ctx) }()

	settle := observe.QueueID{VHost: "/", Name: "settle"}
	o.Want([]observe.QueueID{settle})
	for o.Queues()[settle] == nil || !o.Queues()[settle].Ready.Known {
		time.Sleep(time.Millisecond)
	}
	q := o.Queues()[settle]
	fmt.Println(q.Ready.Value, "ready by", q.Ready.Source)
	cancel()
	fmt.Println(<-ended)
	// Output:
	// 3 ready by declare
	// <nil>
}

func publishSome(url, queue string, n int) {
	conn, err := amqp.Dial(url)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		log.Fatal(err)
	}
	if _, err := ch.QueueDeclare(queue, true, false, false, false, nil); err != nil {
		log.Fatal(err)
	}
	for range n {
		if err := ch.PublishWithContext(context.Background(), "", queue, false, false, amqp.Publishing{}); err != nil {
			log.Fatal(err)
		}
	}
}

// Hazards and forecasts need no broker.
func ExampleState() {
	at := time.Date(2026, 11, 30, 21, 0, 0, 0, time.UTC)
	known := func(v float64) observe.Number { return observe.Number{Value: v, Known: true, At: at} }
	s := observe.State{
		In: known(10), Out: known(0), Now: at, Ready: known(6000),
		Arrivals: []observe.Sample{{At: at.Add(-time.Hour), InRate: 10}},
		Settings: observe.Settings{HasTTL: true, TTL: 30 * time.Minute, MaxLength: 50_000, RejectsPublish: true},
	}
	hazards := s.Hazards()
	for _, h := range hazards {
		fmt.Printf("%s: %s\n", h.Code, h.Text)
	}
	fmt.Println(s.Forecast(hazards))
	// Output:
	// ttl: TTL drops the oldest in 20 min
	// max-length: full in 73 min: max-length of 50,000 messages refuses publishers
	// TTL drops the oldest in 20 min
}
