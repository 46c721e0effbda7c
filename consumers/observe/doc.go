// Package observe shows what the broker knows of a queue: by passive declare on
// a channel of its own and, where it is configured, by the management API.
//
// An [Observer] is made with [New] over a *consumers.Conn and a virtual host,
// owned by one goroutine in Run(ctx), told by Want which queues matter, and
// read at any time, without blocking, by Queues:
//
//	o, err := observe.New(observe.Config{Conn: rmq, Management: "http://oncall:…@rabbit:15672"})
//	go o.Run(ctx)
//	o.Want([]observe.QueueID{{VHost: "/", Name: "settle"}})
//	for id, q := range o.Queues() { … }
//
// # Two sources
//
// A passive declare is exact to the millisecond, needs no further rights, and
// tells two numbers: ready messages and consumers. The management API tells
// the rest, but its numbers are up to ten seconds old: unacknowledged
// messages, rates, who the consumers are, arguments and policies, and at first
// sight the last hour. It is asked for wanted queues only, one request each.
// Its user needs the tag monitoring. Where it does not answer, refuses, or has
// its statistics disabled, everything goes on by passive declare, and
// [Observer.Health] says why and what to do.
//
// Every [Number] has its source and the time it was read. Where both sources
// count consumers and do not agree, though both had the time to, a queue shows
// both: quorum queues before RabbitMQ 4.3 count wrongly in a declare.
//
// # Hazards and forecasts
//
// [State] computes, without a broker, what a pause may do harm with and where
// a queue is heading: when it is empty, when it is full, when TTL drops its
// oldest message. Growth is measured on the length itself; how old the oldest
// message is follows from the rate at which messages came.
//
// # What it costs
//
// One goroutine owns all state; a few more make calls, each with a deadline,
// at most one of a kind for a queue at once. More than some hundred queues are
// read less often than every second.
package observe
