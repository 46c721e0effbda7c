package fleet_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belay-mq/belay/consumers/observe"
	"github.com/belay-mq/belay/nacos"
	"github.com/belay-mq/belay/registry/fleet"
	"github.com/belay-mq/belay/registry/presence"
)

// world is a fleet over fakes that a test sets, inside a synctest bubble.
type world struct {
	t       *testing.T
	fleet   *fleet.Fleet
	changes chan nacos.State
	seq     uint64

	mu       sync.Mutex
	seen     map[string]presence.Seen
	health   presence.Health
	queues   map[observe.QueueID]*observe.Queue
	wanted   []observe.QueueID
	watchers []nacos.Watcher
	noSearch error
	onChange func()
}

func newWorld(t *testing.T) *world { return newWorldOf(t, fleet.AppConfig{Name: "settle"}) }

// newWorldOf follows the named applications; without any those that are found.
func newWorldOf(t *testing.T, apps ...fleet.AppConfig) *world { return newWorldOnly(t, "", apps...) }

// newWorldOnly shows one of them only.
func newWorldOnly(t *testing.T, only string, apps ...fleet.AppConfig) *world {
	w := &world{
		t: t, changes: make(chan nacos.State), seen: map[string]presence.Seen{},
		health: presence.Health{Collecting: true, Since: time.Now()}, queues: map[observe.QueueID]*observe.Queue{},
	}
	w.fleet = fleet.New(fleet.Config{
		Apps: apps, Store: w, Context: "test", Only: only,
		Brokers: []fleet.Broker{{VHost: "/", Presence: w, Observer: w}},
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = w.fleet.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return w
}

func (w *world) Watch(ctx context.Context, _ nacos.Key) <-chan nacos.State {
	out := make(chan nacos.State)
	go func() {
		defer close(out)
		for {
			select {
			case <-ctx.Done():
				return
			case s := <-w.changes:
				out <- s
			}
		}
	}()
	return out
}

func (w *world) Watchers(context.Context, nacos.Key) ([]nacos.Watcher, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.watchers, nil
}

func (w *world) Search(context.Context, ...string) ([]nacos.Key, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return nil, w.noSearch
}

func (w *world) Instances() []presence.Seen {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []presence.Seen
	for _, name := range []string{"a", "b", "c"} {
		if s, ok := w.seen[name]; ok {
			out = append(out, s)
		}
	}
	return out
}

func (w *world) Gone(string) bool { return false }

func (w *world) Health() presence.Health {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.health
}

func (w *world) OnChange(f func()) { w.onChange = f }

func (w *world) Want(ids []observe.QueueID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wanted = ids
}

func (w *world) Queues() map[observe.QueueID]*observe.Queue {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make(map[observe.QueueID]*observe.Queue)
	for k, v := range w.queues {
		out[k] = v
	}
	return out
}

func (w *world) Refresh() {}

// file hands in a toggle file with one entry for L.
func (w *world) file(fields ...string) {
	var b strings.Builder
	b.WriteString("rabbitmq.toggle.consumers[0].listenerId=L\n")
	for _, f := range fields {
		fmt.Fprintf(&b, "rabbitmq.toggle.consumers[0].%s\n", f)
	}
	w.text(b.String())
}

func (w *world) text(s string) {
	w.seq++
	w.changes <- nacos.State{Seq: w.seq, Text: s, MD5: fmt.Sprint("md5-", w.seq), Read: time.Now()}
}

// report hands in the report of an instance for L.
func (w *world) report(name string, l presence.ListenerReport) {
	l.ID, l.Queues = "L", []string{"q"}
	if l.Min == 0 {
		l.Min, l.Max = 1, 1
	}
	w.mu.Lock()
	w.seen[name] = presence.Seen{
		Received: time.Now(),
		Report:   presence.Report{App: "settle", Instance: name, Host: "host-" + name, Listeners: []presence.ListenerReport{l}},
	}
	w.mu.Unlock()
	w.onChange()
}

func (w *world) lose(name string) {
	w.mu.Lock()
	s := w.seen[name]
	s.Lost = true
	w.seen[name] = s
	w.mu.Unlock()
	w.onChange()
}

// queue shows the broker's consumers on q.
func (w *world) queue(consumers int) {
	n := observe.Number{Value: float64(consumers), At: time.Now(), Source: observe.Declare, Known: true}
	id := observe.QueueID{VHost: "/", Name: "q"}
	w.mu.Lock()
	w.queues[id] = &observe.Queue{ID: id, Consumers: n, Ready: observe.Number{At: time.Now(), Source: observe.Declare, Known: true}}
	w.mu.Unlock()
	w.onChange()
}

// row lets time pass until the newest inputs are joined, and returns L's row.
func (w *world) row() *fleet.Row {
	w.t.Helper()
	time.Sleep(150 * time.Millisecond)
	synctest.Wait()
	r := w.fleet.Snapshot().Row(fleet.ID{App: "settle", Listener: "L"})
	if r == nil {
		w.t.Fatal("there is no row of L")
	}
	return r
}

func (w *world) expect(state fleet.State, note string) *fleet.Row {
	w.t.Helper()
	r := w.row()
	if r.State != state || !strings.Contains(r.Note, note) {
		w.t.Errorf("state %s, note %q; want %s, %q", r.State, r.Note, state, note)
	}
	return r
}

func text(s string) *string { return &s }
