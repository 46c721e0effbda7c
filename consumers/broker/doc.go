// Package broker is an AMQP 0-9-1 broker inside the process: what demos and
// tests run on where no RabbitMQ is at hand.
//
// It serves unmodified AMQP clients over TCP, or through memory, and behaves
// as RabbitMQ 3.10.8 does, down to the reply texts:
//
//	b, err := broker.Listen(ctx, broker.Config{})
//	conn, err := amqp.Dial(b.URL())
//
// Without a socket, also inside a synctest bubble:
//
//	b, err := broker.New(broker.Config{})
//	conn, err := amqp.DialConfig(b.URL(), amqp.Config{Dial: b.Dial})
//
// # What it has
//
// Direct, fanout, topic and headers exchanges with alternates and bindings
// between exchanges; classic and quorum queues with their TTL, expiry, length
// limits, dead letters, delivery limits, priorities, single active and
// exclusive consumers; prefetch per consumer and per channel; confirms,
// returns, server-sent cancels, heartbeats, alarms, users with permissions,
// vhosts and policies. Transactions, streams and AMQP 1.0 are refused.
//
// # What it keeps
//
// Everything is in memory. Stop and Restart behave like a broker that died
// and came back: durable queues keep their persistent messages.
//
// # Faults
//
// Kill and KillAll break connections, Freeze leaves sockets open but silent,
// Delay and DropReply make answers late or lost, DeliverAfterCancel delivers
// to a consumer that is gone, Block raises an alarm,
// CancelConsumer cancels from the broker's side.
//
// # Bounds
//
// No client can make it hold unbounded memory or crash it: frames, messages,
// unfinished contents, channels, connections and queues are limited, a client
// that does not read gets no more deliveries and is not read from, and above
// MaxMemory publishers are held back until consumers have made room.
package broker
