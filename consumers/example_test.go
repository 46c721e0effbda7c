package consumers_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/belay-mq/belay/consumers"
	"github.com/belay-mq/belay/consumers/broker"
	amqp "github.com/rabbitmq/amqp091-go"
)

// exampleBroker starts an embedded broker with queues that hold messages; the
// examples run on it.
func exampleBroker(queue string, messages ...string) (url string, end func()) {
	ctx := context.Background()
	b, err := broker.Listen(ctx, broker.Config{})
	if err != nil {
		log.Fatal(err)
	}
	admin, err := amqp.Dial(b.URL())
	if err != nil {
		log.Fatal(err)
	}
	defer admin.Close()
	ch, err := admin.Channel()
	if err != nil {
		log.Fatal(err)
	}
	if _, err := ch.QueueDeclare(queue, true, false, false, false, nil); err != nil {
		log.Fatal(err)
	}
	for _, m := range messages {
		if err := ch.Publish("", queue, false, false, amqp.Publishing{MessageId: m, Body: []byte(m)}); err != nil {
			log.Fatal(err)
		}
	}
	return b.URL(), func() { b.Close(ctx) }
}

// A service consumes from a queue, is paused by an operator, and resumed.
func Example() {
	url, end := exampleBroker("settle", "m1", "m2", "m3")
	defer end()
	ctx := context.Background()

	conn, err := consumers.Dial(ctx, consumers.ConnConfig{URL: url, App: "settle-service"})
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close(ctx)
	done := make(chan struct{}, 3)
	c, err := consumers.New(conn, consumers.Config{
		ListenerID: "SettleConsumer",
		Queues:     []string{"settle"},
	}, func(_ context.Context, d *consumers.Delivery) error {
		fmt.Printf("settling %s\n", d.Body)
		done <- struct{}{}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close(ctx)

	if err := c.Start(ctx, consumers.Cause{By: "main"}); err != nil {
		log.Fatal(err)
	}
	for range 3 {
		<-done
	}
	report, err := c.Stop(ctx, consumers.Cause{By: "ines", Reason: "vendor maintenance"})
	if err != nil {
		log.Fatal(err)
	}
	st := c.Status()
	fmt.Printf("%s by %s: %s; given back: %d\n", st.State, st.By, st.Reason, report.Requeued)
	// Output:
	// settling m1
	// settling m2
	// settling m3
	// stopped by ines: vendor maintenance; given back: 0
}

// What a handler returns decides what becomes of its message.
func ExampleReject() {
	url, end := exampleBroker("orders", "good", "nonsense", "twice")
	defer end()
	ctx := context.Background()
	conn, err := consumers.Dial(ctx, consumers.ConnConfig{URL: url})
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close(ctx)

	results := make(chan string, 4)
	c, err := consumers.New(conn, consumers.Config{ListenerID: "Orders", Queues: []string{"orders"}}, func(_ context.Context, d *consumers.Delivery) error {
		switch {
		case d.MessageId == "nonsense":
			results <- "nonsense: dead-lettered"
			return consumers.Reject(errors.New("not an order"))
		case d.MessageId == "twice" && !d.Redelivered:
			results <- "twice: back to the queue"
			return consumers.Requeue(errors.New("the ledger is busy"))
		}
		results <- d.MessageId + ": acked"
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close(ctx)
	if err := c.Start(ctx, consumers.Cause{By: "main"}); err != nil {
		log.Fatal(err)
	}
	for range 4 {
		fmt.Println(<-results)
	}
	// Output:
	// good: acked
	// nonsense: dead-lettered
	// twice: back to the queue
	// twice: acked
}

// Both bounds of the number of consumers are set at once, while it runs.
func ExampleContainer_Scale() {
	url, end := exampleBroker("payout")
	defer end()
	ctx := context.Background()
	conn, err := consumers.Dial(ctx, consumers.ConnConfig{URL: url})
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close(ctx)
	c, err := consumers.New(conn, consumers.Config{ListenerID: "Payout", Queues: []string{"payout"}, Min: 1, Max: 2},
		func(context.Context, *consumers.Delivery) error { return nil })
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close(ctx)
	changed := make(chan struct{}, 1)
	c.OnChange(func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	if err := c.Start(ctx, consumers.Cause{By: "main"}); err != nil {
		log.Fatal(err)
	}
	if err := c.Scale(ctx, 4, 8); err != nil {
		log.Fatal(err)
	}
	for c.Status().Consumers != 4 {
		<-changed
	}
	st := c.Status()
	fmt.Printf("%d consumers of %d–%d: %s\n", st.Consumers, st.Min, st.Max, st.Scaling)
	// Output:
	// 4 consumers of 4–8: 1 to 4: bounds set to 4–8
}

// Events tell what happens; a reader that is too slow loses some, and is told.
func ExampleContainer_Events() {
	url, end := exampleBroker("audit")
	defer end()
	ctx := context.Background()
	conn, err := consumers.Dial(ctx, consumers.ConnConfig{URL: url})
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close(ctx)
	c, err := consumers.New(conn, consumers.Config{ListenerID: "Audit", Queues: []string{"audit"}},
		func(context.Context, *consumers.Delivery) error { return nil })
	if err != nil {
		log.Fatal(err)
	}
	events, cancel := c.Events(16)
	_ = c.Start(ctx, consumers.Cause{By: "main"})
	_, _ = c.Stop(ctx, consumers.Cause{By: "main"})
	_ = c.Close(ctx)
	cancel()
	for e := range events {
		fmt.Println(e.Kind)
	}
	// Output:
	// started
	// draining
	// stopped
}

// A batch handler gets what was received together.
func ExampleNewBatch() {
	url, end := exampleBroker("clicks", "a", "b", "c")
	defer end()
	ctx := context.Background()
	conn, err := consumers.Dial(ctx, consumers.ConnConfig{URL: url})
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close(ctx)
	done := make(chan int)
	c, err := consumers.NewBatch(conn, consumers.Config{
		ListenerID: "Clicks", Queues: []string{"clicks"}, BatchSize: 3, BatchTimeout: time.Minute,
	}, func(_ context.Context, batch []*consumers.Delivery) error {
		done <- len(batch)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close(ctx)
	_ = c.Start(ctx, consumers.Cause{By: "main"})
	fmt.Println(<-done, "in one call")
	// Output:
	// 3 in one call
}

// The back-off of a connection, of a subscription and of a retry has one shape.
func ExampleBackoff_Ceiling() {
	var b consumers.Backoff
	for n := 1; n <= 8; n++ {
		fmt.Print(b.Ceiling(n), " ")
	}
	// Output:
	// 400ms 800ms 1.6s 3.2s 6.4s 12.8s 25.6s 30s
}
