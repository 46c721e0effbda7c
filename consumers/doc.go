// Package consumers runs RabbitMQ listeners that can be paused, resumed and
// scaled while a service runs: the Go counterpart of Spring AMQP's
// SimpleMessageListenerContainer, on amqp091-go.
//
// A [Conn] is a process's access to a broker. A [Container] runs one listener:
// a handler, on one or more queues, with between Min and Max consumers.
//
//	conn, err := consumers.Dial(ctx, consumers.ConnConfig{URL: url, App: "settle-service"})
//	c, err := consumers.New(conn, consumers.Config{
//		ListenerID: "SettleConsumer",
//		Queues:     []string{"settle"},
//		Min:        2,
//		Max:        8,
//	}, func(ctx context.Context, d *consumers.Delivery) error {
//		return settle(ctx, d.Body)
//	})
//	err = c.Start(ctx, consumers.Cause{By: "main"})
//	report, err := c.Stop(ctx, consumers.Cause{By: "operator", Reason: "vendor maintenance"})
//
// # Wishes and states
//
// Start, Stop and Scale record a wish, and the wish holds until the next one,
// whatever happens to the broker: a container that was stopped stays stopped
// over reconnects, one that was started comes back after any outage, missing
// queue or refused login, for ever. [Container.Status] tells which [State] it is
// in, since when, by whom and why; [Container.OnChange] and [Container.Events]
// tell of changes.
//
// # What becomes of a message
//
// A message is acked when its handler returns nil, and rejected (dead-lettered
// where the queue says so) when it returns an error or panics. [Requeue],
// [Reject] and [AckAnyway] wrap an error to say otherwise; [Retry] calls the
// handler again first. Acks travel together, up to Config.AckBatch in a frame.
//
// # What a stop does
//
// Each consumer is cancelled; what the broker had already sent is handled, for
// at most Config.ShutdownTimeout; what is left is given back with one nack; the
// channel is closed. The [StopReport] counts all of it. A handler that runs past
// the timeout has its context cancelled and its settlement refused: the broker
// delivers the message again.
//
// A cancel makes the next consumer of a single-active-consumer queue active
// while the messages received here are still out, so their order is lost (and
// RabbitMQ 3.10's classic queues may crash when a publish meets that moment).
// For such queues, and for exclusive ones, set Config.StopMode to [StopForce]:
// it finishes the message in hand and closes the channel, which ends the
// consumer and gives everything back in one step.
//
// # Cost
//
// Deliveries are taken out of the connection's stream before the client hands
// them from goroutine to goroutine, and reach a consumer's worker many per
// wake-up; writes are gathered. BenchmarkThroughput prints the rates beside
// those of a plain amqp091-go loop, BenchmarkLifecycle what starting and
// stopping costs.
//
// # At least once
//
// Messages are delivered at least once: acks that were not yet sent when a
// connection broke are forgotten by the broker.
package consumers
