// Package observe shows what the broker knows of a queue: by passive declare on
// a channel of its own and, where it is configured, by the management API.
//
// An [Observer] is made with New(Config) over a *consumers.Conn and a virtual
// host, owned by one goroutine in Run(ctx), told by Want which queues matter,
// and read at any time, without blocking, by Queues:
//
//	Run(ctx context.Context) error            // until ctx ends
//	Want(ids []QueueID)                       // replaces the set; never blocks
//	Queues() map[QueueID]*Queue               // immutable, shared; never blocks
//	Refresh()                                 // read again soon; never blocks
//	Health() Health                           // declare and management side
package observe
