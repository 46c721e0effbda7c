package feed

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/belay-mq/belay/nacos"
	"github.com/belay-mq/belay/registry/fleet"
	"github.com/belay-mq/belay/registry/presence"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a feed in a synctest bubble with a fleet of values.
type world struct {
	*Feed
	t    *testing.T
	snap fleet.Snapshot
	seen uint64
}

func newWorld(t *testing.T, cfg Config) *world {
	t.Helper()
	f, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{Feed: f, t: t}
	t.Cleanup(func() {
		if err := f.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return w
}

// show compares the snapshot with the one before.
func (w *world) show() {
	w.t.Helper()
	s := w.snap
	s.Version++
	w.snap.Version++
	s.At = time.Now()
	s.Rows, s.Apps, s.Instances = nil, nil, nil
	for _, r := range w.snap.Rows {
		row := *r
		row.Hosts = append([]fleet.Host(nil), r.Hosts...)
		s.Rows = append(s.Rows, &row)
	}
	for _, a := range w.snap.Apps {
		app := *a
		s.Apps = append(s.Apps, &app)
	}
	for _, i := range w.snap.Instances {
		inst := *i
		s.Instances = append(s.Instances, &inst)
	}
	s.Health = append([]fleet.Health(nil), w.snap.Health...)
	if err := w.Compare(w.t.Context(), &s); err != nil {
		w.t.Fatal(err)
	}
}

// rest lets d pass.
func (w *world) rest(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// news are the lines since the last call, in short.
func (w *world) news() []string {
	lines, _ := w.Lines(w.seen, 1<<20)
	var out []string
	for _, l := range lines {
		w.seen = l.Seq
		out = append(out, brief(l))
	}
	return out
}

func brief(l Line) string {
	s := fmt.Sprintf("%s %s", l.Source, l.Key)
	if l.FromVersion != "" && l.Source == Release {
		s += " " + l.FromVersion + "→"
	} else if l.Version != "" {
		s += " "
	}
	s += l.Version + " " + string(l.Status)
	if l.Merged > 0 {
		s += fmt.Sprintf(" ×%d", l.Merged+1)
	}
	if l.Late {
		s += " late"
	}
	if l.Malformed {
		s += " malformed"
	}
	if l.OK+l.Failed > 0 {
		s += fmt.Sprintf(" ok %d/%d", l.OK, l.OK+l.Failed)
	}
	if l.Text != "" {
		s += ": " + l.Text
	}
	return s
}

func (w *world) expect(want ...string) {
	w.t.Helper()
	got := w.news()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		w.t.Errorf("lines:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// file sets an application's toggle file.
func (w *world) file(app, text string) {
	for _, a := range w.snap.Apps {
		if a.Name == app {
			a.File.Text, a.File.MD5, a.File.Seq = text, md5Of(text), a.File.Seq+1
			a.InForce = a.File.MD5
			return
		}
	}
	w.snap.Apps = append(w.snap.Apps, &fleet.App{
		Name: app, Key: nacos.Key{DataID: "rabbitmq-toggle.properties", Group: app}, InForce: md5Of(text),
		File: nacos.State{Text: text, MD5: md5Of(text), Seq: 1},
	})
}

// md5Of is a stand-in that is as good for tests.
func md5Of(text string) string {
	h := uint32(2166136261)
	for i := range len(text) {
		h = (h ^ uint32(text[i])) * 16777619
	}
	return fmt.Sprintf("%08x", h)
}

// entry is one entry of a toggle file.
func entry(i int, listener string, enable bool, more ...string) string {
	p := fmt.Sprintf("rabbitmq.toggle.consumers[%d].", i)
	s := p + "listenerId=" + listener + "\n" + p + fmt.Sprintf("enable=%v\n", enable)
	for _, m := range more {
		s += p + m + "\n"
	}
	return s
}

// host sets the state of a listener on an instance, and lists the instance.
func (w *world) host(app, listener, inst, state string) *fleet.Host {
	id := fleet.ID{App: app, Listener: listener}
	var row *fleet.Row
	for _, r := range w.snap.Rows {
		if r.ID == id {
			row = r
		}
	}
	if row == nil {
		row = &fleet.Row{ID: id, State: fleet.Running}
		w.snap.Rows = append(w.snap.Rows, row)
	}
	found := false
	for _, i := range w.snap.Instances {
		found = found || i.ID == inst
	}
	if !found {
		w.snap.Instances = append(w.snap.Instances, &fleet.Instance{ID: inst, App: app, Host: inst, Started: w.start})
	}
	for i := range row.Hosts {
		if row.Hosts[i].Instance == inst {
			row.Hosts[i].Report.State = state
			return &row.Hosts[i]
		}
	}
	row.Hosts = append(row.Hosts, fleet.Host{Instance: inst, Report: presence.ListenerReport{ID: listener, State: state}})
	row.Inst.Total++
	return &row.Hosts[len(row.Hosts)-1]
}

// lose marks an instance as lost, or as back.
func (w *world) lose(inst string, lost bool) {
	for _, i := range w.snap.Instances {
		if i.ID == inst {
			i.Lost = lost
		}
	}
	for _, r := range w.snap.Rows {
		for i := range r.Hosts {
			if r.Hosts[i].Instance == inst {
				r.Hosts[i].Lost = lost
			}
		}
	}
}

// leave takes an instance off the list.
func (w *world) leave(inst string) {
	keep := w.snap.Instances[:0]
	for _, i := range w.snap.Instances {
		if i.ID != inst {
			keep = append(keep, i)
		}
	}
	w.snap.Instances = keep
	for _, r := range w.snap.Rows {
		hosts := r.Hosts[:0]
		for _, h := range r.Hosts {
			if h.Instance != inst {
				hosts = append(hosts, h)
			}
		}
		r.Hosts = hosts
	}
}
