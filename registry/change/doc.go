// Package change merges and delays changes per key, as SOFARegistry's data change event center does, with an order
// that can be relied on.
//
// A [Center] takes events ([Center.Offer]), each a change of one key: items that are added to what is cached (merge),
// that replace it (cover), or a removal of the whole key. Within a window, 500 ms unless configured, the events of a
// key are merged; then the result is applied to the cached items and whoever listens is told once. Nothing is told
// where the content is as before.
//
// # The contract
//
// Oracle: for every key the state after a drain is the state that the accepted events give when they are applied one
// by one, in accept order, with no delay. Merging removes intermediate notifications and nothing else.
//
// Order: the deliveries of one key are in order and never overlap, with any number of workers; a key that changes
// while it is delivered waits for the next window. Across keys the order is that of due times, ties by accept
// sequence, and no more is promised.
//
// Back-pressure: a shard holds a bounded number of pending keys. [Center.Offer] waits for room, [Center.TryOffer]
// returns [ErrFull]; an event that merges with a pending one needs no room and never waits. An event is accepted as a
// whole or not at all, a client-off on all shards or on none.
//
// A slow notifier is its own fault: each has a goroutine and a bounded mailbox that keeps the latest delivery per
// key. It is never waited for; it falls behind alone, is retried on errors, and loses what it cannot take to the dead
// letters, which are reported. The observer (Config.Observe) is the exception: it sees every outcome, is called by
// the workers themselves, and while it runs its key waits.
//
// Time: waiting uses the monotonic clock only. A step of the wall clock changes the times shown, nothing else.
//
// Accounts: at any time, and after [Center.Close], the events accepted are those merged away, delivered, suppressed,
// stale, pending and undelivered; see [Counters].
//
// # Versions
//
// An item has a version of its own, which orders the events of that item: the greater (Version, Registered) wins, for
// registrations and removals alike, and the later accepted one where both are equal. A datum's version is made by the
// center for local sources, above every version of the key before; Sync and Backup bring theirs, the highest stays,
// and a cover that is older than it is dropped. A version is kept while the content is.
package change
