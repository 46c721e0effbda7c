// Package presence tells other processes what the listeners of this one do.
//
// Every process that hosts listeners (or a dashboard, which hosts none) publishes
// a [Report] to the topic exchange belay.presence: on every change, at most ten
// times a second; every two seconds; and at once when somebody asks over the
// fanout exchange belay.presence.ask. A process that wants to see the others
// collects the reports:
//
//	p := presence.Over(conn)
//	go p.Send(ctx, source)   // what a service does; registry.Registry does it for you
//	go p.Collect(ctx)        // what a dashboard does
//	seen := p.Instances()    // never blocks
//
// Reports are transient messages: without a collector there is no queue, and the
// broker drops them. The routing key <application>.<instance> only routes (dots
// become "_"); who reports stands in the body. The body is JSON and documented on
// [Report], so that services in other languages can report too. Reports are
// untrusted: they are bounded, checked and stripped of control characters, and a
// hostile one is counted and dropped.
//
// An instance is lost when three of its reports are missed, and gone when it said
// bye. While the collector's own connection is held back by a broker alarm, the
// others' reports are held back as well, so nobody is counted as lost.
package presence
