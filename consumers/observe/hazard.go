package observe

import (
	"fmt"
	"time"
)

// Codes of hazards.
const (
	CodeAutoDelete    = "auto-delete"
	CodeExpires       = "expires"
	CodeTTL           = "ttl"
	CodeMaxLength     = "max-length"
	CodeDeliveryLimit = "delivery-limit"
	CodeExclusive     = "exclusive"
	CodeSingleActive  = "single-active-consumer"
)

// Hazards are what a pause of the queue's consumers may do harm with, worst
// first. In is set for those that strike at the measured rates even without a
// pause; how soon they strike with one is in the text.
func (s *State) Hazards() []Hazard {
	var out []Hazard
	add := func(code, text string, in time.Duration) {
		out = append(out, Hazard{Code: code, Queue: s.ID, Text: text, In: in})
	}
	c := s.Settings
	if c.AutoDelete {
		add(CodeAutoDelete, "auto-delete: when its last consumer goes the queue is deleted"+s.with(), 0)
	}
	if c.Expires > 0 {
		add(CodeExpires, fmt.Sprintf("x-expires: without consumers the queue is deleted after %s%s", Short(c.Expires), s.with()), 0)
	}
	if c.HasTTL {
		text, in := s.ttlText()
		add(CodeTTL, text, in)
	}
	if c.MaxLength > 0 || c.MaxBytes > 0 || c.NoRoom {
		text, in := s.lengthText()
		add(CodeMaxLength, text, in)
	}
	if c.DeliveryLimit > 0 {
		add(CodeDeliveryLimit, deliveryLimitText(c.DeliveryLimit), 0)
	}
	switch {
	case c.Exclusive || s.Locked:
		add(CodeExclusive, "exclusive queue: it is deleted when its connection closes", 0)
	case c.ExclusiveUse:
		add(CodeExclusive, "exclusive consumer: while it is paused another may take the queue", 0)
	}
	if c.SingleActive {
		add(CodeSingleActive, "single active consumer: each instance that stops hands the queue to the next; messages keep their order only with force-stop", 0)
	}
	return out
}

// NearLimit is the hazard of the queue's delivery limit for a message that
// came back so many times already: its x-delivery-count, as instances report
// it. At the limit, the next time that it is given back is its end. False
// where there is no limit.
func (q *Queue) NearLimit(count int) (Hazard, bool) {
	h := Hazard{Code: CodeDeliveryLimit, Queue: q.ID}
	switch limit := q.DeliveryLimit; {
	case limit <= 0:
		return Hazard{}, false
	case count >= limit:
		h.Text = fmt.Sprintf("delivery limit %d is reached (x-delivery-count %d): a message that the pause gives back is dropped or dead-lettered", limit, count)
	case count > 0:
		h.Text = fmt.Sprintf("delivery limit %d, x-delivery-count is %d already: messages that a pause gives back come nearer to it", limit, count)
	default:
		h.Text = deliveryLimitText(limit)
	}
	return h, true
}

func deliveryLimitText(limit int) string {
	return fmt.Sprintf("delivery limit %d: messages that a pause gives back come nearer to it", limit)
}

// with says how many messages go with a queue.
func (s *State) with() string {
	if !s.Ready.Known || s.Ready.Value < 1 {
		return ""
	}
	return " with its " + grouped(s.Ready.Value) + " messages"
}

// drops names what becomes of a message that is dropped.
func (s *State) drops() string {
	if s.Settings.DeadLetters {
		return "dead-letters"
	}
	return "drops"
}

func (s *State) ttlText() (string, time.Duration) {
	if in, ok := s.OldestDrops(false); ok {
		return fmt.Sprintf("TTL %s the oldest in %s", s.drops(), Short(in)), max(in, 1)
	}
	if in, ok := s.OldestDrops(true); ok {
		return fmt.Sprintf("paused, TTL %s the oldest in %s", s.drops(), Short(in)), 0
	}
	return fmt.Sprintf("TTL %s messages older than %s", s.drops(), Short(s.Settings.TTL)), 0
}

func (s *State) lengthText() (string, time.Duration) {
	limit := grouped(s.Settings.MaxLength) + " messages"
	if s.Settings.MaxLength == 0 && !s.Settings.NoRoom {
		limit = grouped(s.Settings.MaxBytes) + " bytes"
	}
	then := s.drops() + " the oldest"
	if s.Settings.RejectsPublish {
		then = "refuses publishers"
	}
	if in, ok := s.Full(false); ok {
		return fmt.Sprintf("full in %s: max-length of %s %s", Short(in), limit, then), max(in, 1)
	}
	if in, ok := s.Full(true); ok {
		return fmt.Sprintf("paused, it is full in %s: max-length of %s %s", Short(in), limit, then), 0
	}
	return fmt.Sprintf("max-length of %s: when full it %s", limit, then), 0
}

// counts are a queue's counters at one reading of the management API.
type counts struct {
	at                              time.Time
	delivered, redelivered, settled float64
}

const (
	loopSpan = time.Minute
	loopMin  = 10 * time.Second // a burst after a lost channel is over by then
)

// keepCounts adds a reading and drops those that are too old; counters that
// went back (the queue or the node is new) start over.
func keepCounts(all []counts, c counts) []counts {
	if n := len(all); n > 0 && (c.delivered < all[n-1].delivered || c.redelivered < all[n-1].redelivered) {
		all = nil
	}
	first := 0
	for first < len(all) && c.at.Sub(all[first].at) > loopSpan {
		first++
	}
	return append(all[first:len(all):len(all)], c)
}

// looping says how many of the newest deliveries were redeliveries, in
// percent, and whether the queue's consumers mostly give back what they get:
// more than half of the deliveries are redeliveries, in the older half of the
// readings as in the newer, and fewer messages are settled than come again.
func looping(all []counts) (Number, bool) {
	n := len(all)
	if n < 2 {
		return Number{}, false
	}
	first, middle, last := all[0], all[n/2], all[n-1]
	share := func(a, b counts) float64 {
		if d := b.delivered - a.delivered; d > 0 {
			return 100 * (b.redelivered - a.redelivered) / d
		}
		return 0
	}
	out := Number{Value: min(share(first, last), 100), At: last.at, Source: Derived, Known: true}
	again := last.redelivered - first.redelivered
	return out, n >= 3 && last.at.Sub(first.at) >= loopMin && again >= 5 &&
		share(first, middle) > 50 && share(middle, last) > 50 && last.settled-first.settled < again
}

func loopingText(redelivered Number) string {
	return fmt.Sprintf("looping: redelivered %.0f %%", redelivered.Value)
}
