package fake

import (
	"fmt"
	"math"
	"time"

	"github.com/belay-mq/belay/consumers/observe"
	"github.com/belay-mq/belay/nacos"
	"github.com/belay-mq/belay/registry/control"
	"github.com/belay-mq/belay/registry/feed"
	"github.com/belay-mq/belay/registry/fleet"
	"github.com/belay-mq/belay/registry/presence"
	"github.com/belay-mq/belay/registry/toggle"
)

func ptr[T any](v T) *T { return &v }

// number is a reading of half a second ago.
func number(v float64, now time.Time, s observe.Source) observe.Number {
	return observe.Number{Value: v, At: now.Add(-500 * time.Millisecond), Source: s, Known: true}
}

// Scene is a fleet with every kind of row, as seen at now.
func Scene(now time.Time) *Backend {
	b := New(Snapshot(now))
	b.Add(Lines(now)...)
	b.Wait(feed.Line{At: now.Add(-180 * time.Millisecond), Source: feed.Release, Key: "pay+default+db", Version: "4712", Status: feed.Waiting, Remaining: 320 * time.Millisecond, Window: 500 * time.Millisecond})
	b.Versions(nil, History(now)...)
	return b
}

// Snapshot is the scene's fleet.
func Snapshot(now time.Time) *fleet.Snapshot {
	s := &fleet.Snapshot{Version: 1, At: now, Context: "prod", Label: "PROD"}
	add := func(app, id string, st fleet.State, hosts, applied, cons, lo, hi int, ready, unack, in, out, errs float64, since time.Duration, note string) *fleet.Row {
		r := &fleet.Row{ID: fleet.ID{App: app, Listener: id}, State: st, Note: note, Since: now.Add(-since)}
		r.Ready, r.Unacked = number(ready, now, observe.Declare), number(unack, now, observe.Management)
		r.InRate, r.OutRate, r.ErrRate = number(in, now, observe.Management), number(out, now, observe.Management), number(errs, now, observe.Presence)
		r.Broker = number(float64(cons), now, observe.Declare)
		r.Actual = fleet.Actual{Known: hosts > 0, Consumers: cons, Min: lo, Max: hi}
		r.Inst = fleet.Instances{Total: hosts, Applied: applied, Reporting: hosts}
		r.Desired = fleet.Desired{Entry: true, Enable: ptr(st != fleet.Paused && st != fleet.Pausing), Min: ptr(max(1, lo/max(1, hosts))), Max: ptr(max(1, hi/max(1, hosts)))}
		r.Queues = []*observe.Queue{{ID: observe.QueueID{VHost: "/", Name: queueName(id)}, Ready: r.Ready, Unacked: r.Unacked, InRate: r.InRate, OutRate: r.OutRate, Consumers: r.Broker, History: hour(now, ready, id)}}
		for i := range hosts {
			name := string(rune('a' + i))
			state := "running"
			if st == fleet.Paused || st == fleet.Pausing && i < applied {
				state = "stopped"
			} else if st == fleet.Pausing {
				state = "draining"
			}
			r.Hosts = append(r.Hosts, fleet.Host{Instance: fmt.Sprintf("host-%s:81%d:f3a%d", name, i, i), Host: "host-" + name, At: now.Add(-time.Second), FileMD5: "9f3c04d1e0", Applied: i < applied,
				Report: presence.ListenerReport{ID: id, Queues: []string{queueName(id)}, State: state, Consumers: cons / hosts, Min: lo / hosts, Max: hi / hosts, Prefetch: 250, InFlight: int(unack) / hosts, Handled: 18234 + uint64(i)*311, Failed: uint64(errs) * 100, Since: now.Add(-since)}})
		}
		s.Rows = append(s.Rows, r)
		return r
	}
	audit := add("order-service", "AuditConsumer", fleet.Drift, 1, 0, 0, 2, 2, 402, 0, 3, 0, 0, time.Minute, "wanted running, broker shows 0")
	audit.Hosts[0].Report.LastError = ptr("the channel was closed: PRECONDITION_FAILED")
	inv := add("order-service", "InvoiceConsumer", fleet.Running, 1, 1, 2, 2, 2, 55, 500, 4, 4, 96, 3*time.Hour, "looping: redelivered 98 %, delivery 7 of 20")
	inv.Looping = true
	inv.Hosts[0].Report.LastFailure = &presence.FailureReport{At: now.Add(-2 * time.Second), Error: "json: cannot unmarshal string into Go struct field Invoice.amount", MessageID: "inv-8812", DeliveryCount: 7}
	rep := add("order-service", "ReportConsumer", fleet.Unknown, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, "no instance reports it")
	rep.Ready, rep.Unacked, rep.InRate, rep.OutRate, rep.ErrRate, rep.Broker = observe.Number{}, observe.Number{}, observe.Number{}, observe.Number{}, observe.Number{}, observe.Number{}
	rep.Queues, rep.Since = nil, time.Time{}
	mail := add("order-service", "MailConsumer", fleet.Recovering, 2, 0, 0, 2, 4, 12, 0, 1, 0, 0, 40*time.Second, "1 of 2 recovering, attempt 6, next try in 8 s")
	mail.Hosts[1].Report.State = "recovering"
	pay := add("settle-service", "PayoutConsumer", fleet.Pausing, 3, 2, 1, 2, 4, 18, 40, 5, 9, 0, 4*time.Second, "host-c still draining 40")
	pay.Done, pay.Total = 2, 3
	pay.Effect = &fleet.Effect{Op: "pause", By: "oncall", At: now.Add(-4 * time.Second), Phase: fleet.Seen, Seen: 3, Applied: 2, Total: 3, WrittenAfter: 70 * time.Millisecond, SeenAfter: 400 * time.Millisecond, Behind: []string{"host-c draining 40"}}
	ref := add("settle-service", "RefundConsumer", fleet.Paused, 3, 3, 0, 0, 4, 8310, 0, 12, 0, 0, 8*time.Minute, "oncall: vendor maintenance")
	ref.Desired.ResumeAt, ref.Desired.Reason, ref.Desired.UpdatedBy, ref.Desired.UpdatedAt = now.Add(28*time.Minute).Truncate(time.Minute), "vendor maintenance", "oncall", now.Add(-8*time.Minute)
	ref.Queues[0].Hazards = []observe.Hazard{{Code: "ttl", Queue: ref.Queues[0].ID, Text: "queue refund: TTL drops the oldest message", In: 12 * time.Minute}}
	ref.Queues[0].Forecast = "TTL drops the oldest in 12 min"
	add("settle-service", "SettleConsumer", fleet.Running, 3, 3, 4, 4, 8, 1204, 250, 310, 305, 0, 50*time.Hour, "drains in 4 min")
	leg := add("settle-service", "LegacyConsumer", fleet.Unmanaged, 1, 1, 1, 1, 1, 3, 0, 0.3, 0.3, 0, 26*time.Hour, "runs without an entry in the file")
	leg.Desired = fleet.Desired{}
	leg.Stale, leg.StaleSrc = now.Add(-14*time.Second), "presence"
	sortRows(s)
	for _, app := range []string{"order-service", "settle-service"} {
		s.Apps = append(s.Apps, &fleet.App{Name: app, Key: nacos.Key{DataID: "rabbitmq-toggle.properties", Group: app}, Writers: 3,
			File: nacos.State{MD5: "9f3c04d1e0", Text: File}, InForce: "9f3c04d1e0",
			Watchers: []nacos.Watcher{{Address: "10.0.4.17", MD5: "9f3c04d1e0"}}})
		for i := range 3 {
			if app == "order-service" && i > 1 {
				break
			}
			s.Instances = append(s.Instances, &fleet.Instance{ID: fmt.Sprintf("host-%c:81%d:f3a%d", 'a'+i, i, i), App: app, Host: fmt.Sprintf("host-%c", 'a'+i), Started: now.Add(-50 * time.Hour), At: now.Add(-time.Second),
				CanWrite: i < 2, FileMD5: "9f3c04d1e0", AppliedAt: now.Add(-8 * time.Minute), Listeners: 4})
		}
	}
	ok := func(name, text string, ago, latency time.Duration, cs ...fleet.Counter) {
		s.Health = append(s.Health, fleet.Health{Name: name, State: fleet.HealthOK, Text: text, Since: now.Add(-50 * time.Hour), LastOK: now.Add(-ago), Latency: latency, Counters: cs})
	}
	ok("nacos", "2.5.1 over push, safety poll every 3 s", time.Second, 3*time.Millisecond, fleet.Counter{Name: "pushes", Value: 18}, fleet.Counter{Name: "polls", Value: 61204}, fleet.Counter{Name: "conflicts", Value: 1})
	ok("rabbit", "RabbitMQ 4.0.5 at 10.0.4.9:5672", 0, time.Millisecond)
	ok("apollo", "MySQL 8.0 at 10.0.4.12:3306/ApolloConfigDB", time.Second, 2*time.Millisecond)
	ok("scanner", "at 4712, 0 behind, no open gap", time.Second, 2*time.Millisecond)
	ok("center", "1 key pending", 0, 0, fleet.Counter{Name: "in", Value: 9120}, fleet.Counter{Name: "merged", Value: 3011}, fleet.Counter{Name: "delivered", Value: 6108})
	return s
}

func sortRows(s *fleet.Snapshot) {
	for i := 1; i < len(s.Rows); i++ {
		for j := i; j > 0 && less(s.Rows[j].ID, s.Rows[j-1].ID); j-- {
			s.Rows[j], s.Rows[j-1] = s.Rows[j-1], s.Rows[j]
		}
	}
}

func less(a, b fleet.ID) bool { return a.App < b.App || a.App == b.App && a.Listener < b.Listener }

func queueName(id string) string {
	b := []byte(id[:len(id)-len("Consumer")])
	b[0] += 'a' - 'A'
	return string(b)
}

// hour is a queue's last hour; the refund queue rises since its pause.
func hour(now time.Time, ready float64, id string) []observe.Sample {
	var out []observe.Sample
	for i := range 120 {
		at := now.Add(-time.Hour + time.Duration(i+1)*30*time.Second)
		v := ready * (0.8 + 0.2*math.Sin(float64(i)/7))
		if id == "RefundConsumer" {
			v = 40 + 20*math.Sin(float64(i)/5)
			if paused := at.Sub(now.Add(-8*time.Minute + 4*time.Second)); paused > 0 {
				v = 60 + (ready-60)*paused.Seconds()/(8*60)
			}
		}
		out = append(out, observe.Sample{At: at, Ready: v, InRate: 12, OutRate: 12})
	}
	return out
}

// Lines is the scene's feed.
func Lines(now time.Time) []feed.Line {
	at := func(ms int) time.Time { return now.Add(-time.Duration(ms) * time.Millisecond) }
	return []feed.Line{
		{At: at(480_000), Source: feed.Toggle, Key: "settle-service/RefundConsumer", App: "settle-service", Listener: "RefundConsumer", Version: "v9f3c…", Status: feed.Applied, Text: "running → paused by oncall", By: "oncall", OK: 3},
		{At: at(84_000), Source: feed.Instance, Key: "host-c:812", App: "settle-service", Status: feed.Suppressed, Text: "gone and back after 310 ms"},
		{At: at(67_600), Source: feed.Consumer, Key: "order-service/AuditConsumer", App: "order-service", Listener: "AuditConsumer", Status: feed.Delivered, Text: "running → drift"},
		{At: at(62_000), Source: feed.Scanner, Key: "gap 4703–4708", Status: feed.GapOpen, Text: "12 s, writer not finished"},
		{At: at(61_990), Source: feed.Release, Key: "pay+gray-1+db", Version: "4702", Late: true, Status: feed.Delivered, OK: 3, Failed: 1},
		{At: at(9_300), Source: feed.Broker, Key: "queue refund", App: "settle-service", Listener: "RefundConsumer", Status: feed.Delivered, Text: "no consumer left"},
		{At: at(4_000), Source: feed.Toggle, Key: "settle-service/PayoutConsumer", App: "settle-service", Listener: "PayoutConsumer", Version: "v9f3c…", Status: feed.Applied, Text: "running → pausing by oncall", By: "oncall", OK: 2},
		{At: at(700), Source: feed.Release, Key: "order+default+application", FromVersion: "4709", Version: "4711", Merged: 2, Status: feed.Delivered, Delay: 502 * time.Millisecond, OK: 4},
	}
}

// History is the history of the scene's toggle file.
func History(now time.Time) []control.Version {
	change := func(id, field, before, after string) toggle.Change {
		return toggle.Change{ListenerID: id, Field: field, Before: before, After: after}
	}
	return []control.Version{
		{ID: "7", At: now.Add(-8 * time.Minute), By: "oncall", From: "10.0.4.2", Op: "update", MD5: "9f3c04d1e0", Known: true, Text: File, Changes: []toggle.Change{change("RefundConsumer", "enable", "true", "false"), change("RefundConsumer", "reason", "", "vendor maintenance")}},
		{ID: "6", At: now.Add(-26 * time.Hour), By: "li", From: "10.0.4.31", Op: "update", MD5: "77ab1200", Known: true, Text: "rabbitmq.toggle.consumers[0].listenerId=SettleConsumer\n", Changes: []toggle.Change{change("SettleConsumer", "maxConcurrentConsumers", "6", "8")}},
		{ID: "5", At: now.Add(-60 * time.Hour), By: "", From: "10.0.4.31", Op: "insert", MD5: "01", Known: false},
	}
}

// File is a toggle file.
const File = `# settle-service
rabbitmq.toggle.consumers[0].listenerId=SettleConsumer
rabbitmq.toggle.consumers[0].enable=true
rabbitmq.toggle.consumers[0].concurrentConsumers=2
rabbitmq.toggle.consumers[0].maxConcurrentConsumers=8
rabbitmq.toggle.consumers[1].listenerId=RefundConsumer
rabbitmq.toggle.consumers[1].enable=false
`

// Many is a fleet of n listeners.
func Many(n int, now time.Time, version uint64) *fleet.Snapshot {
	s := &fleet.Snapshot{Version: version, At: now, Context: "load", Label: "LOAD"}
	states := []fleet.State{fleet.Running, fleet.Running, fleet.Running, fleet.Paused, fleet.Pausing, fleet.Drift, fleet.Recovering}
	rows := make([]fleet.Row, n)
	for i := range n {
		r := &rows[i]
		r.ID = fleet.ID{App: fmt.Sprintf("app-%03d", i/100), Listener: fmt.Sprintf("Listener%06dConsumer", i)}
		r.State = states[i%len(states)]
		r.Ready = number(float64((i*7919+int(version)*13)%100_000), now, observe.Declare)
		r.Unacked, r.InRate, r.OutRate, r.ErrRate = number(float64(i%500), now, observe.Management), number(float64(i%90), now, observe.Management), number(float64(i%80), now, observe.Management), number(0, now, observe.Presence)
		r.Actual = fleet.Actual{Known: true, Consumers: 4, Min: 4, Max: 8}
		r.Inst = fleet.Instances{Total: 3, Applied: 3, Reporting: 3}
		r.Since = now.Add(-time.Duration(i) * time.Second)
		r.Note = "drains in 4 min"
		s.Rows = append(s.Rows, r)
	}
	return s
}
