package fleet

import (
	"sort"
	"time"

	"github.com/belay-mq/belay/consumers/observe"
	"github.com/belay-mq/belay/registry/presence"
	"github.com/belay-mq/belay/registry/toggle"
)

// inputs is everything that one snapshot is made from, taken at one moment.
type inputs struct {
	apps      []*App
	files     map[string]fileView
	instances []*Instance
	hosts     map[ID][]hostView
	queues    map[observe.QueueID]*observe.Queue
	// onQueue counts the reported consumers by queue and listener, so that those of
	// other listeners can be told from ours.
	onQueue map[observe.QueueID]map[ID]int
	effects map[ID]Effect
	blocked bool
	// deaf says since when no reports are received on a virtual host.
	deaf        map[string]time.Time
	appHost     map[string]string
	defaultHost string
}

type fileView struct {
	known   bool
	toggles map[string]toggle.Toggle
	changed map[string]time.Time
	stale   time.Time
	loud    *Problem // the worst fault, where it stops services
	watched int      // clients that listen in Nacos
}

type hostView struct {
	seen   *presence.Seen
	report *presence.ListenerReport
}

func (in *inputs) vhost(app string) string {
	if h := in.appHost[app]; h != "" {
		return h
	}
	return in.defaultHost
}

// gather collects what the sources know now.
func (f *Fleet) gather(now time.Time) *inputs {
	in := &inputs{
		files: make(map[string]fileView), hosts: make(map[ID][]hostView),
		queues: make(map[observe.QueueID]*observe.Queue), onQueue: make(map[observe.QueueID]map[ID]int),
		deaf: make(map[string]time.Time), appHost: make(map[string]string),
	}
	if len(f.cfg.Brokers) > 0 {
		in.defaultHost = f.cfg.Brokers[0].VHost
	}
	for _, a := range f.cfg.Apps {
		in.appHost[a.Name] = a.VHost
	}
	writers := make(map[string]int)
	for _, b := range f.cfg.Brokers {
		f.gatherBroker(in, b, writers)
	}
	f.gatherFiles(in, now, writers)
	sort.Slice(in.instances, func(i, j int) bool {
		a, b := in.instances[i], in.instances[j]
		return a.App < b.App || a.App == b.App && a.ID < b.ID
	})
	return in
}

func (f *Fleet) gatherBroker(in *inputs, b Broker, writers map[string]int) {
	if b.Observer != nil {
		for id, q := range b.Observer.Queues() {
			in.queues[id] = q
		}
	}
	if b.Presence == nil {
		return
	}
	h := b.Presence.Health()
	in.blocked = in.blocked || h.Blocked
	if !h.Collecting {
		in.deaf[b.VHost] = h.Since
	}
	seen := b.Presence.Instances()
	for i := range seen {
		s := &seen[i]
		r := &s.Report
		inst := &Instance{ID: r.Instance, App: r.App, Host: r.Host, Started: r.Started, At: s.Received, Lost: s.Lost, CanWrite: r.CanWrite, Listeners: len(r.Listeners)}
		if r.File != nil {
			inst.FileMD5, inst.AppliedAt = r.File.MD5, r.File.AppliedAt
		}
		in.instances = append(in.instances, inst)
		if r.CanWrite && !s.Lost {
			writers[r.App]++
		}
		for j := range r.Listeners {
			l := &r.Listeners[j]
			id := ID{App: r.App, Listener: l.ID}
			in.hosts[id] = append(in.hosts[id], hostView{seen: s, report: l})
			if s.Lost {
				continue
			}
			for _, q := range l.Queues {
				qid := observe.QueueID{VHost: in.vhost(r.App), Name: q}
				if in.onQueue[qid] == nil {
					in.onQueue[qid] = make(map[ID]int)
				}
				in.onQueue[qid][id] += l.Consumers
			}
		}
	}
}

func (f *Fleet) gatherFiles(in *inputs, now time.Time, writers map[string]int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	in.effects = make(map[ID]Effect, len(f.effects))
	for id, e := range f.effects {
		if f.effectOver(e, now) {
			delete(f.effects, id)
			continue
		}
		in.effects[id] = e
	}
	for name, a := range f.apps {
		// A dashboard that may write carries out the changes of any application.
		in.apps = append(in.apps, a.view(writers[name]+writers[""]))
		v := fileView{known: a.known, toggles: a.toggles, changed: copyTimes(a.changed), stale: a.staleSince(now), watched: len(a.watchers)}
		if a.watchErr != "" {
			v.watched = 0 // the list is old
		}
		if len(a.problems) > 0 && a.problems[0].Loud {
			v.loud = &a.problems[0]
		}
		in.files[name] = v
	}
	sort.Slice(in.apps, func(i, j int) bool { return in.apps[i].Name < in.apps[j].Name })
}

func copyTimes(m map[string]time.Time) map[string]time.Time {
	out := make(map[string]time.Time, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

const (
	// showDone is how long a finished effect stays in its row.
	showDone = 15 * time.Second
	// showTrouble is how long one that did not get there does.
	showTrouble = 5 * time.Minute
)

// effectOver holds for an effect that was shown long enough.
func (f *Fleet) effectOver(e Effect, now time.Time) bool {
	last := max(e.WrittenAfter, e.SeenAfter, e.AppliedAfter, e.BrokerAfter)
	age := now.Sub(e.At) - last
	switch e.Phase {
	case Done:
		return age > showDone
	case Superseded, Conflict, WriteFailed, Unconfirmed:
		return age > showTrouble
	}
	return false
}
