package observe

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Settings are a queue's limits as they hold: its arguments and the effective
// policy, the lower of two numbers. Zero means none.
type Settings struct {
	AutoDelete     bool
	DeadLetters    bool
	DeliveryLimit  int
	Exclusive      bool          // the queue belongs to one connection
	ExclusiveUse   bool          // a consumer is exclusive
	Expires        time.Duration // unused for so long, the queue is deleted
	MaxBytes       float64
	MaxLength      float64
	NoRoom         bool // MaxLength is 0: nothing is kept
	Quorum         bool
	RejectsPublish bool // a full queue refuses publishings; else it drops the oldest
	SingleActive   bool
	TTL            time.Duration // of messages; see HasTTL
	HasTTL         bool
}

// State is what forecasts and hazards follow from: the numbers of one queue
// at one moment. It is a value and needs no broker.
type State struct {
	Arrivals  []Sample // oldest first; their InRate tells how old the oldest message is
	Bytes     Number   // of ready messages
	Consumers Number
	ID        QueueID
	In, Out   Number // messages a second
	Locked    bool   // exclusive to another connection
	Net       Number // growth in messages a second, measured on the length itself
	Now       time.Time
	Ready     Number
	Settings  Settings
	Unacked   Number
}

// net is the growth: as measured on the length, else from the two rates.
func (s *State) net() (float64, bool) {
	if s.Net.Known {
		return s.Net.Value, true
	}
	if s.In.Known && s.Out.Known {
		return s.In.Value - s.Out.Value, true
	}
	return 0, false
}

// Forecast is the most useful sentence about where the queue is heading: the
// hazard that strikes first at the measured rates, else when it is empty, ""
// where neither is in sight.
func (s *State) Forecast(hazards []Hazard) string {
	var first *Hazard
	for i, h := range hazards {
		if h.In > 0 && (first == nil || h.In < first.In) {
			first = &hazards[i]
		}
	}
	if first != nil {
		return first.Text
	}
	if d, ok := s.Drains(); ok {
		return "drains in " + Short(d)
	}
	return ""
}

// farthest is how far forecasts look.
const farthest = 7 * 24 * time.Hour

// Drains is when the queue is empty at the measured rate.
func (s *State) Drains() (time.Duration, bool) {
	net, ok := s.net()
	if !ok || !s.Ready.Known || s.Ready.Value < 1 || net >= 0 {
		return 0, false
	}
	return within(s.Ready.Value / -net)
}

// Full is when a length limit is reached: at the measured rates, or with
// paused set when nothing is consumed any more.
func (s *State) Full(paused bool) (time.Duration, bool) {
	growth, ok := s.growth(paused)
	if !ok || !s.Ready.Known || growth <= 0 {
		return 0, false
	}
	seconds := math.Inf(1)
	if s.Settings.MaxLength > 0 {
		seconds = max(0, s.Settings.MaxLength-s.Ready.Value) / growth
	}
	if s.Settings.MaxBytes > 0 && s.Bytes.Known && s.Ready.Value > 0 {
		each := s.Bytes.Value / s.Ready.Value
		if each > 0 {
			seconds = min(seconds, max(0, s.Settings.MaxBytes-s.Bytes.Value)/(each*growth))
		}
	}
	return within(seconds)
}

func (s *State) growth(paused bool) (float64, bool) {
	if !paused {
		return s.net()
	}
	if s.In.Known {
		return s.In.Value, true
	}
	return 0, false
}

func within(seconds float64) (time.Duration, bool) {
	if math.IsNaN(seconds) || seconds > farthest.Seconds() {
		return 0, false
	}
	return time.Duration(seconds * float64(time.Second)), true
}

// OldestDrops is when message TTL drops the oldest ready message: at the
// measured rates, where consumers may reach it before, or with paused set
// when nothing is consumed any more. It follows the messages through the
// queue: when each of them came is known from the rate at which they arrived.
func (s *State) OldestDrops(paused bool) (time.Duration, bool) {
	if !s.Settings.HasTTL || !s.Ready.Known || s.Ready.Value < 1 {
		return 0, false
	}
	out := 0.0
	if !paused {
		if !s.Out.Known && !s.Consumers.Known {
			return 0, false
		}
		out = s.leaving()
	}
	return within(firstDrop(s.ages(), out, s.In, s.Ready.Value, s.Settings.TTL.Seconds()))
}

// firstDrop is the first moment, in seconds from now, at which the message at
// the head is as old as ttl. The message that is k places behind the head now
// is at the head k/out later, and so much older.
func firstDrop(ages []age, out float64, in Number, ready, ttl float64) float64 {
	head := ages[0]
	if head.seconds >= ttl {
		return 0
	}
	if out <= 0 {
		return ttl - head.seconds
	}
	t0, then0 := 0.0, head.seconds
	for _, a := range ages[1:] {
		t := a.behind / out
		then := a.seconds + t
		if then >= ttl {
			return t0 + (ttl-then0)/(then-then0)*(t-t0)
		}
		t0, then0 = t, then
	}
	// Those still to come find the queue as long as it will be by then.
	if in.Known && in.Value > out {
		return (in.Value*ttl - ready) / (in.Value - out)
	}
	return math.Inf(1)
}

// leaving is how many messages leave the queue a second.
func (s *State) leaving() float64 {
	if s.Net.Known && s.In.Known {
		return max(0, s.In.Value-s.Net.Value)
	}
	if s.Out.Known {
		return s.Out.Value
	}
	if s.Net.Known {
		return max(0, -s.Net.Value)
	}
	return 0
}

// age is how long the message so many places behind the head has been in the
// queue.
type age struct{ behind, seconds float64 }

// ages are the ages of ready messages from the head to the tail, at the places
// where the arrival rate changed.
func (s *State) ages() []age {
	// From the newest message back: so many came in each step.
	back := []age{{s.Ready.Value, 0}}
	placed, at := 0.0, s.Now
	for i := len(s.Arrivals) - 1; i >= 0 && placed < s.Ready.Value; i-- {
		sample := s.Arrivals[i]
		step := at.Sub(sample.At).Seconds()
		if step <= 0 {
			continue
		}
		came := sample.InRate * step
		if placed+came >= s.Ready.Value && came > 0 {
			part := (s.Ready.Value - placed) / came
			back = append(back, age{0, s.Now.Sub(at).Seconds() + part*step})
			placed = s.Ready.Value
			break
		}
		placed += came
		at = sample.At
		back = append(back, age{s.Ready.Value - placed, s.Now.Sub(at).Seconds()})
	}
	if placed < s.Ready.Value {
		// Older than all that is known: at least as old as the first sample.
		back = append(back, age{0, s.Now.Sub(at).Seconds()})
	}
	out := make([]age, len(back))
	for i, a := range back {
		out[len(back)-1-i] = a
	}
	return out
}

// Short writes a duration as a person would say it: "4 s", "12 min", "3 h",
// "2 d".
func Short(d time.Duration) string {
	switch {
	case d < time.Second:
		return "1 s"
	case d < 100*time.Second:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 100*time.Minute:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d d", int(d.Hours()/24))
}

// grouped writes a count with thousands separators.
func grouped(v float64) string {
	s := strconv.FormatInt(int64(v), 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
