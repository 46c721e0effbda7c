package change

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// State is where a key stands.
type State uint8

// The states of a key. A key that is delivered and already has new events is Delivering.
const (
	Idle State = iota
	Pending
	Delivering
)

func (s State) String() string { return name(int(s), "idle", "pending", "delivering") }

// Counters count events. At any time, and after Close,
//
//	Accepted = Merged + Delivered + Suppressed + Stale + Pending + Undelivered
type Counters struct {
	Accepted    uint64
	Merged      uint64 // absorbed by another event of their key
	Delivered   uint64
	Suppressed  uint64 // changed nothing
	Stale       uint64 // older than what was there
	Pending     uint64
	Undelivered uint64 // given up by Close

	Refused   uint64 // ErrFull; not accepted
	Evicted   uint64 // items beyond MaxItems
	Forgotten uint64 // keys beyond MaxKeys
}

func (c *Counters) add(o *Counters) {
	c.Accepted += o.Accepted
	c.Merged += o.Merged
	c.Delivered += o.Delivered
	c.Suppressed += o.Suppressed
	c.Stale += o.Stale
	c.Pending += o.Pending
	c.Undelivered += o.Undelivered
	c.Refused += o.Refused
	c.Evicted += o.Evicted
	c.Forgotten += o.Forgotten
}

// NotifierCounters count the deliveries of one notifier. Posted = Done + Superseded + DeadLetters + Undelivered +
// Waiting + the running one.
type NotifierCounters struct {
	Name        string
	Posted      uint64
	Done        uint64
	Superseded  uint64 // a newer delivery of the key took their place
	DeadLetters uint64
	Undelivered uint64 // given up by Close
	Retries     uint64
	Waiting     int
}

// Stats is a summary of a center.
type Stats struct {
	Counters
	Keys        int // remembered
	PendingKeys int
	Notifiers   []NotifierCounters
	Window      Window
}

// Stats counts. Each shard is looked at in turn; the equation of Counters holds at any time.
func (c *Center) Stats() Stats {
	var out Stats
	for _, s := range c.shards {
		s.mu.Lock()
		out.add(&s.count)
		out.Keys += s.keys.count
		out.PendingKeys += s.npend
		out.Window = s.queues[len(s.queues)-1].window
		s.mu.Unlock()
	}
	for _, b := range c.notifiers {
		b.mu.Lock()
		n := b.count
		n.Waiting = b.waiting
		b.mu.Unlock()
		out.Notifiers = append(out.Notifiers, n)
	}
	return out
}

// KeyStats is what is known of one key.
type KeyStats struct {
	Key       Key
	State     State
	FirstSeen time.Time
	// Since is when the first pending event was accepted; Due when the key's window ends and Remaining how long that
	// is from now, at least 0. They are zero where nothing is pending.
	Since     time.Time
	Due       time.Time
	Remaining time.Duration
	// MergedNow counts the events that the pending delivery would absorb, MergedTotal those that deliveries absorbed.
	MergedNow   int
	MergedTotal int
	Accepted    int
	Delivered   int
	Suppressed  int
	Stale       int
	Late        int
	// Sources of the pending events.
	Sources Sources
	// LastAcceptedVersion is the datum's version with all accepted events in it, LastDeliveredVersion the one that
	// was last delivered, LastItemVersion the highest version of an item ever accepted: for release messages the
	// highest row id.
	LastAcceptedVersion  int64
	LastDeliveredVersion int64
	LastItemVersion      int64
	// PendingFrom and PendingTo are the lowest and highest version of the items that are pending.
	PendingFrom, PendingTo int64
	LastDeliveredAt        time.Time // zero where nothing was delivered
	LastError              string    // of a notifier
	Retries                int       // of notifiers
	Items                  int       // cached
	// PendingItems are the items of the pending events as they stand now, UnPublishers among them.
	PendingItems []Item
}

// Get returns the statistics of a key; ok is false where the center does not know it.
func (c *Center) Get(k Key) (st KeyStats, ok bool) {
	hash := c.hash(&k)
	s := c.shardOf(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.keys.find(&k, hash)
	if r == nil {
		return KeyStats{}, false
	}
	return s.stats(r, c.wall(), s.now()), true
}

// Datum returns what is cached for a key: the last delivered content, without what is pending.
func (c *Center) Datum(k Key) (d Datum, ok bool) {
	hash := c.hash(&k)
	s := c.shardOf(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.keys.find(&k, hash)
	if r == nil {
		return Datum{}, false
	}
	return Datum{r.version, r.items}, true
}

// Waiting lists the keys that have something pending, the one that is due next first, ties by key, at most limit of them;
// limit 0 means all. It locks one shard after the other, for the time that
// copying takes; with a debounce all of a shard's keys are copied.
func (c *Center) Waiting(limit int) []KeyStats {
	var out []KeyStats
	for _, s := range c.shards {
		s.mu.Lock()
		wall, now := c.wall(), s.now()
		for _, q := range s.queues {
			q.each(limit, func(r *record) { out = append(out, s.stats(r, wall, now)) })
		}
		s.mu.Unlock()
	}
	slices.SortFunc(out, func(a, b KeyStats) int { return cmp.Or(a.Due.Compare(b.Due), compareKeys(a.Key, b.Key)) })
	if limit > 0 && len(out) > limit {
		out = out[:limit]
	}
	return out
}

func (s *shard) stats(r *record, wall time.Time, now int64) KeyStats {
	at := func(t int64) time.Time { return wall.Add(time.Duration(t - now)) }
	st := KeyStats{
		Key: r.key, FirstSeen: at(r.firstSeen), Accepted: int(r.accepted),
		Delivered: int(r.delivered), Suppressed: int(r.suppressed), Stale: int(r.stale), Late: int(r.late),
		LastAcceptedVersion: r.high, LastDeliveredVersion: r.version, LastItemVersion: r.itemTop,
		LastError: s.errs[r].last, Retries: s.errs[r].retries, Items: len(r.items),
	}
	if r.delivered > 0 {
		st.LastDeliveredAt = at(r.deliveredAt)
	}
	// accepted = merged + delivered + suppressed + stale + pending, where events stale while pending count as both
	st.MergedTotal = int(r.accepted) - int(r.delivered) - int(r.suppressed) - int(r.stale) - int(r.temps)
	if p := &r.pend; r.waiting {
		st.MergedTotal -= int(p.events - p.stale - p.dropped)
		st.State = Pending
		st.Since, st.Due, st.Remaining = at(p.first), at(p.due), time.Duration(max(0, p.due-now))
		if n := p.events - p.stale - p.dropped; n > 0 {
			st.MergedNow = int(n - 1)
		}
		st.Sources = p.reasons
		st.PendingItems = slices.Clone(p.delta)
		for i := range p.delta {
			v := p.delta[i].Version
			if i == 0 || v < st.PendingFrom {
				st.PendingFrom = v
			}
			st.PendingTo = max(st.PendingTo, v)
		}
	}
	if r.turn != 0 {
		st.State = Delivering
	}
	return st
}

func compareKeys(a, b Key) int {
	return cmp.Or(strings.Compare(a.DataCenter, b.DataCenter), strings.Compare(a.DataInfoID, b.DataInfoID))
}
