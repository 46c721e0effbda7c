package observe

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// simQueue is a queue in a tenth-of-a-second simulation: messages come and go
// at given rates, and the oldest is dropped by its age.
type simQueue struct {
	now     time.Time
	born    []time.Time // ready messages, oldest first
	samples []Sample
	trend   trend
	in, out float64
	credit  [2]float64
	ttl     time.Duration
	dropped int
}

const simStep = 100 * time.Millisecond

func (q *simQueue) run(d time.Duration, in, out float64) {
	q.in, q.out = in, out
	for range int(d / simStep) {
		q.step()
	}
}

func (q *simQueue) step() {
	q.now = q.now.Add(simStep)
	q.credit[0] += q.in * simStep.Seconds()
	q.credit[1] += q.out * simStep.Seconds()
	for ; q.credit[0] >= 1; q.credit[0]-- {
		q.born = append(q.born, q.now)
	}
	for ; q.credit[1] >= 1; q.credit[1]-- {
		if len(q.born) > 0 {
			q.born = q.born[1:]
		}
	}
	for q.ttl > 0 && len(q.born) > 0 && q.now.Sub(q.born[0]) >= q.ttl {
		q.born = q.born[1:]
		q.dropped++
	}
	if q.now.UnixMilli()%1000 == 0 {
		q.trend.add(point{q.now, float64(len(q.born))})
	}
	if q.now.UnixMilli()%5000 == 0 {
		q.samples = append(q.samples, Sample{At: q.now, Ready: float64(len(q.born)), InRate: q.in, OutRate: min(q.out, q.in+float64(len(q.born)))})
	}
}

func (q *simQueue) state(s Settings) State {
	known := func(v float64) Number { return Number{Value: v, At: q.now, Source: Management, Known: true} }
	return State{
		Arrivals: q.samples, Consumers: known(1), ID: QueueID{"/", "sim"}, In: known(q.in), Out: known(q.out),
		Net: q.trend.slope(q.now), Now: q.now, Ready: known(float64(len(q.born))), Bytes: known(100 * float64(len(q.born))), Settings: s,
	}
}

// until runs on at the present rates and returns when cond holds.
func (q *simQueue) until(t *testing.T, cond func() bool) time.Duration {
	t.Helper()
	start := q.now
	for !cond() {
		if q.now.Sub(start) > 3*time.Hour {
			t.Fatal("it never happens in the simulation")
		}
		q.step()
	}
	return q.now.Sub(start)
}

func near(t *testing.T, what string, got, want time.Duration) {
	t.Helper()
	if diff := math.Abs((got - want).Seconds()); diff > 0.05*want.Seconds()+3 {
		t.Errorf("%s: forecast %v, in the simulation %v", what, got, want)
	}
}

func newSim(ttl time.Duration) *simQueue {
	return &simQueue{now: time.Unix(1_800_000_000, 0), ttl: ttl}
}

func TestForecastDrains(t *testing.T) {
	for _, rates := range [][2]float64{{5, 20}, {0, 3}, {100, 104}} {
		q := newSim(0)
		q.run(100*time.Second, rates[1]+20, 0)
		q.run(40*time.Second, rates[0], rates[1])
		s := q.state(Settings{})
		got, ok := s.Drains()
		if !ok {
			t.Fatalf("%v: no forecast", rates)
		}
		near(t, fmt.Sprint(rates), got, q.until(t, func() bool { return len(q.born) == 0 }))
		if text := s.Forecast(nil); text != "drains in "+Short(got) {
			t.Errorf("text %q", text)
		}
	}
	q := newSim(0)
	q.run(100*time.Second, 20, 10)
	s := q.state(Settings{})
	if _, ok := s.Drains(); ok || s.Forecast(nil) != "" {
		t.Error("a growing queue drains")
	}
}

func TestForecastFull(t *testing.T) {
	q := newSim(0)
	q.run(60*time.Second, 20, 5)
	s := q.state(Settings{MaxLength: 3000})
	got, ok := s.Full(false)
	if !ok {
		t.Fatal("no forecast")
	}
	paused, ok := s.Full(true)
	if !ok || paused >= got {
		t.Fatalf("paused it is full in %v, running in %v", paused, got)
	}
	bytes := q.state(Settings{MaxBytes: 300_000})
	if byBytes, ok := bytes.Full(false); !ok || byBytes != got {
		t.Errorf("by bytes %v, by length %v", byBytes, got)
	}
	near(t, "full", got, q.until(t, func() bool { return len(q.born) >= 3000 }))
	s = q.state(Settings{MaxLength: 100_000})
	if _, ok := s.Full(false); !ok {
		t.Error("no forecast for a high limit")
	}
	q.run(60*time.Second, 5, 20)
	s = q.state(Settings{MaxLength: 100_000})
	if _, ok := s.Full(false); ok {
		t.Error("a draining queue gets full")
	}
}

func TestForecastTTL(t *testing.T) {
	const ttl = 20 * time.Minute
	cases := []struct {
		name  string
		build func(*simQueue)
	}{
		{"paused", func(q *simQueue) { q.run(5*time.Minute, 10, 0) }},
		{"paused after a burst", func(q *simQueue) { q.run(time.Minute, 100, 0); q.run(3*time.Minute, 1, 0) }},
		{"consumers too slow", func(q *simQueue) { q.run(5*time.Minute, 20, 0); q.run(4*time.Minute, 20, 10) }},
		{"an old burst comes to the head too late", func(q *simQueue) { q.run(2*time.Minute, 200, 0); q.run(2*time.Minute, 1, 15) }},
		{"grows slowly for long", func(q *simQueue) { q.run(10*time.Minute, 10, 8) }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			q := newSim(ttl)
			c.build(q)
			if q.dropped > 0 {
				t.Fatal("the simulation dropped before the forecast")
			}
			s := q.state(Settings{HasTTL: true, TTL: ttl})
			got, ok := s.OldestDrops(false)
			if !ok {
				t.Fatal("no forecast")
			}
			near(t, c.name, got, q.until(t, func() bool { return q.dropped > 0 }))
		})
	}
	t.Run("fast enough", func(t *testing.T) {
		q := newSim(ttl)
		q.run(time.Minute, 20, 0)
		q.run(30*time.Second, 10, 30)
		s := q.state(Settings{HasTTL: true, TTL: ttl})
		if got, ok := s.OldestDrops(false); ok {
			t.Fatalf("drops in %v, but the queue is drained before", got)
		}
		paused, ok := s.OldestDrops(true)
		if !ok {
			t.Fatal("no forecast for a pause")
		}
		q.out = 0
		near(t, "paused", paused, q.until(t, func() bool { return q.dropped > 0 }))
	})
	t.Run("in a steady state", func(t *testing.T) {
		q := newSim(ttl)
		q.run(time.Minute, 10, 0)
		q.run(10*time.Minute, 10, 10)
		s := q.state(Settings{HasTTL: true, TTL: ttl})
		if got, ok := s.OldestDrops(false); ok {
			t.Fatalf("drops in %v", got)
		}
	})
}

// At the edges there is no forecast, and never one below zero.
func TestForecastEdges(t *testing.T) {
	number := func(v float64) Number { return Number{Value: v, Known: true} }
	all := Settings{HasTTL: true, TTL: time.Minute, MaxLength: 10, MaxBytes: 10, Expires: time.Hour, DeliveryLimit: 3}
	for _, s := range []State{
		{Settings: all},
		{Settings: all, Ready: number(0)},
		{Settings: all, Ready: number(1e12), In: number(1e12), Out: number(0)},
		{Settings: all, Ready: number(50), In: number(1), Out: number(0), Bytes: number(500)},
		{Settings: all, Ready: number(5), In: number(0), Out: number(0), Consumers: number(0)},
		{Settings: all, Ready: number(5), In: number(math.NaN()), Out: number(math.Inf(1)), Net: number(math.NaN())},
		{Settings: all, Ready: number(5), In: number(-5), Out: number(-5), Arrivals: []Sample{{InRate: -4}, {At: time.Unix(5, 0)}}},
	} {
		s.Now = time.Unix(1000, 0)
		hazards := s.Hazards()
		for _, h := range hazards {
			if h.In < 0 || h.Text == "" || h.Code == "" {
				t.Errorf("hazard %+v of %+v", h, s)
			}
		}
		s.Forecast(hazards)
	}
}

func TestHazardTexts(t *testing.T) {
	known := func(v float64) Number { return Number{Value: v, Known: true} }
	base := State{ID: QueueID{"/", "refund"}, Ready: known(8310), In: known(12), Out: known(0), Consumers: known(4), Now: time.Unix(10_000, 0)}
	hour := []Sample{{At: time.Unix(10_000-720, 0), InRate: 12}, {At: time.Unix(9_995, 0), InRate: 12}}
	cases := []struct {
		settings Settings
		text     string
		in       bool
	}{
		{Settings{AutoDelete: true}, "auto-delete: when its last consumer goes the queue is deleted with its 8,310 messages", false},
		{Settings{Expires: 30 * time.Minute}, "x-expires: without consumers the queue is deleted after 30 min with its 8,310 messages", false},
		{Settings{HasTTL: true, TTL: 30 * time.Minute}, "TTL drops the oldest in 18 min", true},
		{Settings{HasTTL: true, TTL: 30 * time.Minute, DeadLetters: true}, "TTL dead-letters the oldest in 18 min", true},
		{Settings{MaxLength: 10_000}, "full in 2 min: max-length of 10,000 messages drops the oldest", true},
		{Settings{MaxLength: 10_000, RejectsPublish: true}, "full in 2 min: max-length of 10,000 messages refuses publishers", true},
		{Settings{DeliveryLimit: 20}, "delivery limit 20: messages that a pause gives back come nearer to it", false},
		{Settings{Exclusive: true}, "exclusive queue: it is deleted when its connection closes", false},
		{Settings{ExclusiveUse: true}, "exclusive consumer: while it is paused another may take the queue", false},
		{Settings{SingleActive: true}, "single active consumer: each instance that stops hands the queue to the next; messages keep their order only with force-stop", false},
	}
	for _, c := range cases {
		s := base
		s.Settings, s.Arrivals = c.settings, hour
		got := s.Hazards()
		if len(got) != 1 || got[0].Text != c.text || got[0].In > 0 != c.in || got[0].Queue != s.ID {
			t.Errorf("%+v:\n got %+v\nwant %q", c.settings, got, c.text)
		}
	}
	s := base
	if len(s.Hazards()) != 0 {
		t.Error("hazards of a plain queue")
	}
	s.Out, s.Settings = known(30), Settings{MaxLength: 10_000}
	if got := s.Hazards()[0]; got.Text != "paused, it is full in 2 min: max-length of 10,000 messages drops the oldest" || got.In != 0 {
		t.Errorf("draining: %+v", got)
	}
}

func TestLooping(t *testing.T) {
	at := time.Unix(1000, 0)
	run := func(rows ...[3]float64) (Number, bool) {
		var all []counts
		for i, r := range rows {
			all = keepCounts(all, counts{at.Add(time.Duration(i) * 5 * time.Second), r[0], r[1], r[2]})
		}
		return looping(all)
	}
	if share, is := run([3]float64{0, 0, 0}, [3]float64{100, 96, 2}, [3]float64{200, 194, 4}, [3]float64{300, 292, 6}); !is || math.Round(share.Value) != 97 {
		t.Errorf("a loop: %v %v", share, is)
	}
	if share, is := run([3]float64{0, 0, 0}, [3]float64{300, 250, 50}, [3]float64{400, 250, 150}, [3]float64{500, 250, 250}); is || share.Value != 50 {
		t.Errorf("a burst after a lost channel: %v %v", share, is)
	}
	if _, is := run([3]float64{0, 0, 0}, [3]float64{100, 96, 2}); is {
		t.Error("a loop from 5 s")
	}
	if _, is := run([3]float64{500, 400, 0}, [3]float64{600, 500, 0}, [3]float64{10, 0, 0}, [3]float64{20, 0, 10}, [3]float64{30, 0, 20}, [3]float64{40, 0, 30}); is {
		t.Error("counters that started over")
	}
	if share, is := looping(nil); share.Known || is {
		t.Error("a loop from nothing")
	}
}

func TestTrend(t *testing.T) {
	at := time.Unix(1000, 0)
	slope := func(values ...float64) Number {
		var tr trend
		for i, v := range values {
			tr.add(point{at.Add(time.Duration(i) * time.Second), v})
		}
		return tr.slope(at.Add(time.Duration(len(values)-1) * time.Second))
	}
	if got := slope(100, 98, 96, 94, 92, 90, 88); !got.Known || math.Abs(got.Value+2) > 1e-9 || got.Source != Derived {
		t.Errorf("slope %+v", got)
	}
	if got := slope(100, 0, 100, 0, 100, 0, 100, 0); got.Value != 0 {
		t.Errorf("slope of noise %+v", got)
	}
	if got := slope(100, 90); got.Known {
		t.Errorf("slope of two points %+v", got)
	}
	if got := slope(5, 5, 5, 5, 5, 5, 5); !got.Known || got.Value != 0 {
		t.Errorf("slope of a level %+v", got)
	}
}

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "1 s", 4 * time.Second: "4 s", 99 * time.Second: "99 s", 12 * time.Minute: "12 min", 41*time.Minute + 50*time.Second: "41 min", 3 * time.Hour: "3 h", 72 * time.Hour: "3 d",
	} {
		if got := Short(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
	if got := grouped(1_234_567); got != "1,234,567" {
		t.Errorf("grouped %q", got)
	}
}

func TestNearLimit(t *testing.T) {
	q := Queue{ID: QueueID{"/", "q"}, DeliveryLimit: 20}
	for count, want := range map[int]string{
		0:  "delivery limit 20: messages that a pause gives back come nearer to it",
		7:  "delivery limit 20, x-delivery-count is 7 already: messages that a pause gives back come nearer to it",
		20: "delivery limit 20 is reached (x-delivery-count 20): a message that the pause gives back is dropped or dead-lettered",
	} {
		if h, ok := q.NearLimit(count); !ok || h.Text != want || h.Code != CodeDeliveryLimit || h.Queue != q.ID {
			t.Errorf("%d: %+v", count, h)
		}
	}
	if _, ok := new(Queue).NearLimit(3); ok {
		t.Error("a hazard without a limit")
	}
}
