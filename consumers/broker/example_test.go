package broker_test

import (
	"context"
	"fmt"
	"log"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/belay-mq/belay/consumers/broker"
)

// Clients connect as they do to RabbitMQ.
func Example() {
	ctx := context.Background()
	b, err := broker.Listen(ctx, broker.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close(ctx)

	conn, err := amqp.Dial(b.URL())
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		log.Fatal(err)
	}
	if _, err := ch.QueueDeclare("settle", true, false, false, false, nil); err != nil {
		log.Fatal(err)
	}
	if err := ch.PublishWithContext(ctx, "", "settle", false, false, amqp.Publishing{Body: []byte("order 4711")}); err != nil {
		log.Fatal(err)
	}
	deliveries, err := ch.Consume("settle", "", false, false, false, false, nil)
	if err != nil {
		log.Fatal(err)
	}
	d := <-deliveries
	fmt.Println(string(d.Body), d.Ack(false))
	// Output: order 4711 <nil>
}

// Without a socket, clients dial through memory.
func ExampleNew() {
	ctx := context.Background()
	b, err := broker.New(broker.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close(ctx)

	conn, err := amqp.DialConfig(b.URL(), amqp.Config{Dial: b.Dial})
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	fmt.Println(conn.Properties["product"], conn.Properties["version"])
	// Output: RabbitMQ 3.10.8
}

// What a client does when its connection breaks can be tried out at will.
func ExampleBroker_Kill() {
	ctx := context.Background()
	b, err := broker.Listen(ctx, broker.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close(ctx)

	conn, err := amqp.DialConfig(b.URL(), amqp.Config{Properties: amqp.Table{"connection_name": "settle-service"}})
	if err != nil {
		log.Fatal(err)
	}
	closed := conn.NotifyClose(make(chan *amqp.Error, 1))
	for _, c := range b.Connections() {
		if c.Name == "settle-service" {
			b.Kill(c.ID)
		}
	}
	fmt.Println((<-closed).Code == amqp.FrameError || conn.IsClosed())
	// Output: true
}
