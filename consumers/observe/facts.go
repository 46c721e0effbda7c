package observe

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// facts are what the management API told of a queue.
type facts struct {
	settings         Settings
	policyKnown      bool // settings holds the policy too
	ready, unacked   Number
	bytes, consumers Number
	in, out          Number
	list             []Consumer // nil: not told
	listAt           time.Time
	hour             []Sample // only where asked for
	counts           counts
	hasCounts        bool
}

// answer is the API's description of a queue, as far as it is read. Numbers
// are absent where statistics are off or not there yet.
type answer struct {
	Type       string
	AutoDelete bool           `json:"auto_delete"`
	Exclusive  bool           `json:"exclusive"`
	Arguments  map[string]any `json:"arguments"`
	Policy     any            `json:"effective_policy_definition"` // an empty list where there is none, from old servers
	Ready      *float64       `json:"messages_ready"`
	Unacked    *float64       `json:"messages_unacknowledged"`
	Bytes      *float64       `json:"message_bytes_ready"`
	Consumers  *float64       `json:"consumers"`
	Lengths    details        `json:"messages_ready_details"`
	Stats      *stats         `json:"message_stats"`
	Details    []consumerJSON `json:"consumer_details"`
}

type details struct {
	Rate    float64
	Samples []struct {
		Sample    float64
		Timestamp int64
	}
}

type stats struct {
	Ack             float64 `json:"ack"`
	DeliverGet      float64 `json:"deliver_get"`
	Redeliver       float64 `json:"redeliver"`
	DeliverNoAck    float64 `json:"deliver_no_ack"`
	GetNoAck        float64 `json:"get_no_ack"`
	AckRate         details `json:"ack_details"`
	DeliverNoAckRat details `json:"deliver_no_ack_details"`
	GetNoAckRate    details `json:"get_no_ack_details"`
	PublishRate     details `json:"publish_details"`
}

type consumerJSON struct {
	Tag       string          `json:"consumer_tag"`
	Arguments json.RawMessage `json:"arguments"` // an empty list where there are none, from old servers
	Active    *bool           `json:"active"`
	Exclusive bool            `json:"exclusive"`
	Prefetch  int             `json:"prefetch_count"`
	Channel   json.RawMessage `json:"channel_details"` // an empty list until the channel is known
}

// columns keeps answers small.
const columns = "type,auto_delete,exclusive,arguments,effective_policy_definition,messages_ready,messages_unacknowledged," +
	"message_bytes_ready,consumers,messages_ready_details,message_stats,consumer_details"

// queue asks for one queue; with history the last hour too, in such steps.
func (c *client) queue(ctx context.Context, id QueueID, history time.Duration, major int) (*facts, error) {
	path := "/api/queues/" + url.PathEscape(id.VHost) + "/" + url.PathEscape(id.Name) + "?columns=" + columns
	var past []Sample
	if history > 0 {
		step := strconv.Itoa(int(history.Seconds()))
		var a answer
		if err := c.get(ctx, path+"&lengths_age=3600&lengths_incr="+step+"&msg_rates_age=3600&msg_rates_incr="+step, &a); err != nil {
			return nil, err
		}
		past = a.hour(time.Now())
	}
	var a answer // asked for samples, the API's rates are those between two of them: up to a step old
	if err := c.get(ctx, path, &a); err != nil {
		return nil, err
	}
	f := a.facts(time.Now(), major)
	f.hour = past
	return f, nil
}

func (a *answer) facts(now time.Time, major int) *facts {
	number := func(v *float64) Number {
		if v == nil {
			return Number{}
		}
		return Number{Value: *v, At: now, Source: Management, Known: true}
	}
	f := &facts{
		settings: a.settings(major), ready: number(a.Ready), unacked: number(a.Unacked), bytes: number(a.Bytes),
		consumers: number(a.Consumers), policyKnown: a.Policy != nil,
	}
	if a.Ready == nil {
		return f
	}
	f.list, f.listAt = []Consumer{}, now
	for i := range a.Details {
		f.list = append(f.list, a.Details[i].consumer())
	}
	in, out := 0.0, 0.0
	if s := a.Stats; s != nil {
		in, out = s.PublishRate.Rate, s.AckRate.Rate+s.DeliverNoAckRat.Rate+s.GetNoAckRate.Rate
		f.counts = counts{at: now, delivered: s.DeliverGet, redelivered: s.Redeliver, settled: s.Ack + s.DeliverNoAck + s.GetNoAck}
		f.hasCounts = true
	}
	f.in, f.out = number(&in), number(&out)
	return f
}

// settings joins arguments and policy.
func (a *answer) settings(major int) Settings {
	policy, _ := a.Policy.(map[string]any)
	number := func(key string) (float64, bool) {
		arg, okA := a.Arguments["x-"+key].(float64)
		pol, okP := policy[key].(float64)
		switch {
		case okA && okP:
			return min(arg, pol), true
		case okA:
			return arg, true
		}
		return pol, okP
	}
	text := func(key string) string {
		if s, ok := a.Arguments["x-"+key].(string); ok {
			return s
		}
		s, _ := policy[key].(string)
		return s
	}
	s := Settings{AutoDelete: a.AutoDelete, Exclusive: a.Exclusive, Quorum: a.Type == "quorum"}
	if ms, ok := number("message-ttl"); ok {
		s.HasTTL, s.TTL = true, milliseconds(ms)
	}
	if ms, ok := number("expires"); ok {
		s.Expires = milliseconds(ms)
	}
	if n, ok := number("max-length"); ok {
		s.MaxLength, s.NoRoom = n, n == 0
	}
	if n, ok := number("max-length-bytes"); ok {
		s.MaxBytes = n
	}
	s.RejectsPublish = strings.HasPrefix(text("overflow"), "reject-publish")
	_, fromArgs := a.Arguments["x-dead-letter-exchange"]
	_, fromPolicy := policy["dead-letter-exchange"]
	s.DeadLetters = fromArgs || fromPolicy
	if n, ok := number("delivery-limit"); ok {
		s.DeliveryLimit = int(n)
	} else if s.Quorum && major >= 4 {
		s.DeliveryLimit = 20
	}
	s.SingleActive, _ = a.Arguments["x-single-active-consumer"].(bool)
	for _, c := range a.Details {
		s.ExclusiveUse = s.ExclusiveUse || c.Exclusive
	}
	return s
}

// milliseconds is a duration, kept within what a duration can hold.
func milliseconds(ms float64) time.Duration {
	return time.Duration(min(max(ms, 0), 1e12)) * time.Millisecond
}

func (c *consumerJSON) consumer() Consumer {
	out := Consumer{Tag: c.Tag, Prefetch: c.Prefetch, Active: c.Active == nil || *c.Active}
	var args map[string]any
	if json.Unmarshal(c.Arguments, &args) == nil {
		out.ListenerID, _ = args["x-listener-id"].(string)
	}
	var ch struct {
		Connection string `json:"connection_name"`
	}
	if json.Unmarshal(c.Channel, &ch) == nil {
		out.Connection = ch.Connection
	}
	return out
}

// hour is the graph of the last hour: lengths as sampled, rates from the
// counters between two samples.
func (a *answer) hour(now time.Time) []Sample {
	n := len(a.Lengths.Samples)
	if n == 0 {
		return nil
	}
	out := make([]Sample, 0, n)
	for i := n - 1; i >= 0; i-- { // the API's newest is first
		from := a.Lengths.Samples[i]
		at := time.UnixMilli(from.Timestamp)
		if at.After(now) {
			continue
		}
		s := Sample{At: at, Ready: from.Sample}
		if a.Stats != nil {
			s.InRate = a.Stats.PublishRate.between(i)
			s.OutRate = a.Stats.AckRate.between(i) + a.Stats.DeliverNoAckRat.between(i) + a.Stats.GetNoAckRate.between(i)
		}
		out = append(out, s)
	}
	return out
}

// between is the rate from the sample after i, which is older, to i.
func (d *details) between(i int) float64 {
	if i+1 >= len(d.Samples) {
		return 0
	}
	now, before := d.Samples[i], d.Samples[i+1]
	seconds := float64(now.Timestamp-before.Timestamp) / 1000
	if seconds <= 0 || now.Sample < before.Sample {
		return 0 // the counters started over
	}
	return (now.Sample - before.Sample) / seconds
}

func majorOf(version string) int {
	n, _ := strconv.Atoi(strings.SplitN(version, ".", 2)[0])
	return n
}
