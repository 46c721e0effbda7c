package broker

import (
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// consumerInfo is a consumer as it was when a sample was taken.
type consumerInfo struct {
	tag, queue, vhost, connection, host, user string
	port                                      int
	channel                                   uint16
	ackRequired, active, exclusive            bool
	prefetch                                  int
	args                                      Table
}

func (c *consumer) info() consumerInfo {
	out := consumerInfo{
		tag: c.tag, queue: c.q.name, vhost: c.q.v.name, connection: c.ch.conn.remoteName(), user: c.ch.conn.user.name,
		channel: c.ch.id, ackRequired: !c.noAck, active: !c.q.set.singleActive || c.q.active == c,
		exclusive: c.exclusive, prefetch: c.prefetch, args: c.args,
	}
	if host, port, err := net.SplitHostPort(c.ch.conn.nc.RemoteAddr().String()); err == nil {
		out.host = host
		out.port, _ = strconv.Atoi(port)
	}
	return out
}

func (c *consumerInfo) json() map[string]any {
	status := "up"
	if !c.active {
		status = "waiting"
	}
	return map[string]any{
		"arguments": orEmpty(c.args), "ack_required": c.ackRequired, "active": c.active, "activity_status": status,
		"channel_details": map[string]any{
			"connection_name": c.connection, "name": c.connection + " (" + strconv.Itoa(int(c.channel)) + ")",
			"node": "belay@embedded", "number": c.channel, "peer_host": c.host, "peer_port": c.port, "user": c.user,
		},
		"consumer_tag": c.tag, "exclusive": c.exclusive, "prefetch_count": c.prefetch,
		"queue": map[string]any{"name": c.queue, "vhost": c.vhost},
	}
}

// apiQueues lists queues without samples and consumers.
func (b *Broker) apiQueues(u *user, r *http.Request) (any, *apiError) {
	out := []map[string]any{}
	for _, v := range b.vhostsFor(u, r) {
		for _, q := range v.sorted() {
			full := b.describeQueue(q, nil, nil)
			delete(full, "consumer_details")
			out = append(out, full)
		}
	}
	return out, nil
}

func (v *vhost) sorted() []*queue {
	v.mu.Lock()
	defer v.mu.Unlock()
	names := make([]string, 0, len(v.queues))
	for name := range v.queues {
		names = append(names, name)
	}
	slices.Sort(names)
	out := make([]*queue, 0, len(names))
	for _, name := range names {
		out = append(out, v.queues[name])
	}
	return out
}

func (b *Broker) apiQueue(_ *user, r *http.Request) (any, *apiError) {
	v := b.vhost(r.PathValue("vhost"))
	v.mu.Lock()
	q := v.queues[r.PathValue("name")]
	v.mu.Unlock()
	if q == nil {
		return nil, errNotFound
	}
	lengths, refused := rangeOf(r, "lengths")
	if refused != nil {
		return nil, refused
	}
	rates, refused := rangeOf(r, "msg_rates")
	if refused != nil {
		return nil, refused
	}
	return b.describeQueue(q, lengths, rates), nil
}

// apiConsumers lists consumers; who may not see those of others gets its own.
func (b *Broker) apiConsumers(u *user, r *http.Request) (any, *apiError) {
	if StatsMode(b.stats.Load()) == StatsBare {
		return nil, errStatsHidden
	}
	out := []any{}
	for _, v := range b.vhostsFor(u, r) {
		for _, q := range v.sorted() {
			s := b.lastSample(q)
			for i := range s.consumers {
				if u.seesAll() || s.consumers[i].user == u.name {
					out = append(out, s.consumers[i].json())
				}
			}
		}
	}
	return out, nil
}

func (b *Broker) lastSample(q *queue) sample {
	b.sampler.mu.Lock()
	defer b.sampler.mu.Unlock()
	if s := b.sampler.queues[q]; s != nil {
		return s.last()
	}
	return sample{}
}

// sampleRange is which samples a question wants, newest first.
type sampleRange struct {
	step  time.Duration
	times []time.Time
}

const maxSamples = 1000

func rangeOf(r *http.Request, what string) (*sampleRange, *apiError) {
	age, errAge := strconv.Atoi(r.FormValue(what + "_age"))
	step, errStep := strconv.Atoi(r.FormValue(what + "_incr"))
	if r.FormValue(what+"_age") == "" || r.FormValue(what+"_incr") == "" {
		return nil, nil
	}
	if errAge != nil || errStep != nil || age < 0 || step <= 0 || age/step > maxSamples {
		return nil, &apiError{http.StatusBadRequest, "bad_request", "invalid range for " + what}
	}
	out := &sampleRange{step: time.Duration(step) * time.Second}
	at := time.Now().Truncate(out.step)
	for range age/step + 1 {
		out.times = append(out.times, at)
		at = at.Add(-out.step)
	}
	return out, nil
}

// details are the rate of a number and, where asked for, its samples.
func (s *series) details(value func(*sample) float64, want *sampleRange) map[string]any {
	out := map[string]any{"rate": 0.0}
	last := s.last()
	if before, ok := s.before(); ok {
		if took := last.at.Sub(before.at).Seconds(); took > 0 {
			out["rate"] = (value(&last) - value(&before)) / took
		}
	}
	if want == nil {
		return out
	}
	samples := make([]map[string]any, 0, len(want.times))
	var sum float64
	for _, at := range want.times {
		got := s.at(at)
		sum += value(&got)
		samples = append(samples, map[string]any{"sample": value(&got), "timestamp": at.UnixMilli()})
	}
	n := len(samples)
	newest, oldest := s.at(want.times[0]), s.at(want.times[n-1])
	out["samples"], out["avg"], out["avg_rate"] = samples, sum/float64(n), 0.0
	if n > 1 { // asked for samples, the API's rate is that between the newest two
		second := s.at(want.times[1])
		out["rate"] = (value(&newest) - value(&second)) / want.step.Seconds()
	}
	if took := want.times[0].Sub(want.times[n-1]).Seconds(); took > 0 {
		out["avg_rate"] = (value(&newest) - value(&oldest)) / took
	}
	return out
}

// counters of message_stats, by their names in the API.
var counters = []struct {
	name string
	of   func(*queueStats) uint64
}{
	{"ack", func(s *queueStats) uint64 { return s.acked }},
	{"deliver", func(s *queueStats) uint64 { return s.deliveredAck }},
	{"deliver_get", func(s *queueStats) uint64 { return s.deliveredAck + s.deliveredNoAck + s.gotAck + s.gotNoAck }},
	{"deliver_no_ack", func(s *queueStats) uint64 { return s.deliveredNoAck }},
	{"get", func(s *queueStats) uint64 { return s.gotAck }},
	{"get_empty", func(s *queueStats) uint64 { return s.gotEmpty }},
	{"get_no_ack", func(s *queueStats) uint64 { return s.gotNoAck }},
	{"publish", func(s *queueStats) uint64 { return s.published }},
	{"redeliver", func(s *queueStats) uint64 { return s.redelivered }},
}

// describeQueue is a queue as the API tells it.
func (b *Broker) describeQueue(q *queue, lengths, rates *sampleRange) map[string]any {
	out := q.fixed()
	if StatsMode(b.stats.Load()) == StatsBare {
		for _, key := range []string{"effective_policy_definition", "policy", "operator_policy"} {
			delete(out, key)
		}
		out["state"] = "live"
		return out
	}
	b.sampler.mu.Lock()
	defer b.sampler.mu.Unlock()
	s := b.sampler.queues[q]
	if s == nil {
		return out // declared a moment ago: the API has no numbers yet
	}
	last := s.last()
	out["consumers"] = len(last.consumers)
	details := []any{}
	for i := range last.consumers {
		details = append(details, last.consumers[i].json())
	}
	out["consumer_details"] = details
	out["idle_since"] = last.idleSince.UTC().Format(time.RFC3339)
	out["message_bytes_ready"] = last.bytes
	for name, value := range map[string]func(*sample) float64{
		"messages":                func(s *sample) float64 { return float64(s.ready + s.unacked) },
		"messages_ready":          func(s *sample) float64 { return float64(s.ready) },
		"messages_unacknowledged": func(s *sample) float64 { return float64(s.unacked) },
	} {
		out[name] = value(&last)
		out[name+"_details"] = s.details(value, lengths)
	}
	stats := map[string]any{}
	for _, c := range counters {
		stats[c.name] = c.of(&last.stats)
		stats[c.name+"_details"] = s.details(func(s *sample) float64 { return float64(c.of(&s.stats)) }, rates)
	}
	if last.stats != (queueStats{}) {
		out["message_stats"] = stats
	}
	return out
}

// fixed is what the API tells of a queue without statistics.
func (q *queue) fixed() map[string]any {
	q.v.mu.Lock()
	defer q.v.mu.Unlock()
	out := map[string]any{
		"name": q.name, "vhost": q.v.name, "durable": q.durable, "auto_delete": q.autoDelete, "exclusive": q.exclusive,
		"arguments": orEmpty(q.args), "node": "belay@embedded", "state": "running", "type": "classic",
		"policy": nil, "operator_policy": nil, "effective_policy_definition": map[string]any{},
	}
	active := "single_active_consumer_tag"
	if q.quorum {
		active, out["type"] = "single_active_consumer_ctag", "quorum"
	}
	out[active] = nil
	if q.active != nil {
		out[active] = q.active.tag
	}
	if p := q.v.policyFor(q.name); p != nil {
		out["policy"], out["effective_policy_definition"] = p.Name, orEmpty(p.Definition)
	}
	return out
}
