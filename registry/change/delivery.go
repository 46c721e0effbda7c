package change

import "time"

// Outcome is what became of a key's accepted events.
type Outcome uint8

// The outcomes. Each drain of a key has exactly one.
const (
	Delivered     Outcome = iota // the content changed and is stored; notifiers that listen to Reasons are told
	Suppressed                   // the content is as it was; nobody is told
	Stale                        // every event was older than what is there
	Cleaned                      // the key was removed; only notifiers that listen to Clean are told
	Replayed                     // as Delivered, from Backup alone
	DeliveredTemp                // shown once, not stored
)

func (o Outcome) String() string {
	return name(int(o), "delivered", "suppressed", "stale", "cleaned", "replayed", "temp")
}

// Datum is the content of a key at a version. Items are sorted by ID; they are shared with the center and with every
// other reader and must not be changed.
type Datum struct {
	Version int64
	Items   []Item
}

// Delivery tells of one drain of a key. It is a value; whoever gets one may keep it.
type Delivery struct {
	Key     Key
	Outcome Outcome
	// Late is set where an event carried that remark.
	Late bool
	// Reasons are the sources of the events that counted.
	Reasons Sources
	// Merged is the number of events that this delivery absorbed beside the one that it stands for.
	Merged int
	// Stale and Dropped count the events that were older than what was there, or repeated its version.
	Stale, Dropped int
	// Seq is the accept sequence, within the key's shard, of the first event. It rises from delivery to delivery of
	// a key, also where the version does not: an older version that is merged in from outside leaves the newer one.
	Seq uint64
	// Prev is what was there before, Now what is there, or for temporary events the view that they give.
	Prev, Now Datum
	// At is when it was taken for delivery; Delay the time since the first event was accepted; Overdue the part of
	// it beyond the window.
	At      time.Time
	Delay   time.Duration
	Overdue time.Duration

	rec   *record
	shard *shard
}
