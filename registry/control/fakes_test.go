package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belay-mq/belay/consumers/observe"
	"github.com/belay-mq/belay/nacos"
	"github.com/belay-mq/belay/registry"
	"github.com/belay-mq/belay/registry/fleet"
	"github.com/belay-mq/belay/registry/presence"
	"github.com/belay-mq/belay/registry/toggle"
)

const (
	app  = "settle-service"
	file = "rabbitmq-toggle.properties"
)

var key = nacos.Key{DataID: file, Group: app}

// memory is a store of configs in memory. It behaves as Nacos does where that
// matters: compare-and-publish, and watches that hand out the newest state.
type memory struct {
	mu       sync.Mutex
	states   map[nacos.Key]nacos.State
	history  map[nacos.Key][]nacos.Change
	watchers map[nacos.Key][]chan nacos.State
	nWrites  int
	nTries   int
	losses   []string

	// before is called before each write, without locks; it may write, too. fail
	// returns the error of a write, and whether the write is applied all the same.
	before func(try int)
	fail   func(try int) (err error, applied bool)
	getErr error
}

func newMemory(text string) *memory {
	m := &memory{states: map[nacos.Key]nacos.State{}, history: map[nacos.Key][]nacos.Change{}, watchers: map[nacos.Key][]chan nacos.State{}}
	if text != "" {
		m.put(key, text, "")
	}
	return m
}

// put writes as somebody else does, whatever is there.
func (m *memory) put(k nacos.Key, text, by string) nacos.State {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.states[k]
	s := nacos.State{Key: k, Text: text, MD5: sum(text), Seq: old.Seq + 1, Read: time.Now()}
	m.states[k] = s
	m.history[k] = append([]nacos.Change{{ID: fmt.Sprint(s.Seq), At: time.Now(), By: by, Op: "update", Text: text, Previous: old.Text, Known: true}}, m.history[k]...)
	for _, ch := range m.watchers[k] {
		select {
		case <-ch:
		default:
		}
		ch <- s
	}
	return s
}

// writes counts the writes that were applied, tries all.
func (m *memory) writes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.nWrites
}

func (m *memory) tries() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.nTries
}

func (m *memory) text() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.states[key].Text
}

func (m *memory) Get(_ context.Context, k nacos.Key) (nacos.State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.getErr != nil {
		return nacos.State{}, m.getErr
	}
	s, ok := m.states[k]
	if !ok {
		s = nacos.State{Key: k, Absent: true}
	}
	return s, nil
}

func (m *memory) Watch(ctx context.Context, k nacos.Key) <-chan nacos.State {
	ch := make(chan nacos.State, 1)
	m.mu.Lock()
	m.watchers[k] = append(m.watchers[k], ch)
	if s, ok := m.states[k]; ok {
		ch <- s
	}
	m.mu.Unlock()
	return ch
}

func (m *memory) write(k nacos.Key, c nacos.Content, base string) (nacos.State, error) {
	m.mu.Lock()
	m.nTries++
	try, before, fail := m.nTries, m.before, m.fail
	m.mu.Unlock()
	if before != nil {
		before(try)
	}
	var err error
	applied := true
	if fail != nil {
		err, applied = fail(try)
	}
	m.mu.Lock()
	now := m.states[k]
	m.mu.Unlock()
	if err == nil && now.MD5 != base {
		now.Absent = now.Text == ""
		return nacos.State{}, &nacos.ConflictError{Key: k, BaseMD5: base, Actual: now}
	}
	if !applied {
		return nacos.State{}, err
	}
	s := m.put(k, c.Text, c.Operator)
	m.mu.Lock()
	m.nWrites++
	m.mu.Unlock()
	return s, err
}

func (m *memory) Create(_ context.Context, k nacos.Key, c nacos.Content) (nacos.State, error) {
	return m.write(k, c, "")
}

func (m *memory) Update(_ context.Context, k nacos.Key, c nacos.Content, base string) (nacos.State, error) {
	return m.write(k, c, base)
}

func (m *memory) History(_ context.Context, k nacos.Key, limit int) ([]nacos.Change, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.history[k][:min(limit, len(m.history[k]))], nil
}

func (m *memory) Losses(context.Context, nacos.Key) ([]string, error) { return m.losses, nil }

// scene is a fleet that a test moves by hand.
type scene struct {
	mu      sync.Mutex
	store   *memory
	rows    map[string]*fleet.Row
	writers int
	effects map[fleet.ID][]fleet.Effect
	version uint64
}

func newScene(store *memory) *scene {
	return &scene{store: store, rows: map[string]*fleet.Row{}, effects: map[fleet.ID][]fleet.Effect{}}
}

// host sets what an instance reports of a listener.
func (s *scene) host(listener, instance string, change func(*fleet.Host)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	row := s.row(listener)
	for i := range row.Hosts {
		if row.Hosts[i].Instance == instance {
			change(&row.Hosts[i])
			return
		}
	}
	h := fleet.Host{Instance: instance, Host: strings.SplitN(instance, ":", 2)[0], At: time.Now(), Report: presence.ListenerReport{ID: listener, State: "running", Consumers: 2, Min: 2, Max: 4}}
	change(&h)
	row.Hosts = append(row.Hosts, h)
}

func (s *scene) row(listener string) *fleet.Row {
	if s.rows[listener] == nil {
		s.rows[listener] = &fleet.Row{ID: fleet.ID{App: app, Listener: listener}}
	}
	return s.rows[listener]
}

// broker sets what the broker shows of a listener, read now.
func (s *scene) broker(listener string, consumers int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	row := s.row(listener)
	n := observe.Number{Known: true, Value: float64(consumers), At: time.Now(), Source: observe.Declare}
	row.Broker = n
	row.Queues = []*observe.Queue{{ID: observe.QueueID{Name: "q-" + listener}, Consumers: n}}
}

// Snapshot joins the file as it is now with the rows.
func (s *scene) Snapshot() *fleet.Snapshot {
	state, _ := s.store.Get(context.Background(), key)
	f := toggle.Parse(toggle.Properties, []byte(state.Text))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	snap := &fleet.Snapshot{Version: s.version, At: time.Now(), Apps: []*fleet.App{{Name: app, Key: key, File: state, InForce: state.MD5, Writers: s.writers}}}
	for _, t := range f.InForce() {
		s.row(t.ListenerID)
	}
	for _, name := range slices.Sorted(maps.Keys(s.rows)) {
		row := *s.rows[name]
		row.Hosts = append([]fleet.Host(nil), row.Hosts...)
		row.Desired = fleet.Desired{}
		row.Actual = fleet.Actual{}
		t, entry := f.Lookup(name)
		want := registry.WantedAt(t, time.Now())
		if entry {
			row.Desired = fleet.Desired{Entry: true, Enable: t.Enable, Min: t.Min, Max: t.Max}
			if t.UpdatedBy != nil {
				row.Desired.UpdatedBy = *t.UpdatedBy
			}
			row.Desired.PauseAt, _ = t.PauseTime()
			row.Desired.ResumeAt, _ = t.ResumeTime()
		}
		for i := range row.Hosts {
			h := &row.Hosts[i]
			h.Applied = fleet.Matches(h.Report, want.Enable, t.Min, t.Max)
			if !h.Lost {
				row.Actual.Known = true
				row.Actual.Consumers += h.Report.Consumers
			}
		}
		snap.Rows = append(snap.Rows, &row)
	}
	return snap
}

func (s *scene) SetEffect(id fleet.ID, e fleet.Effect) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.effects[id] = append(s.effects[id], e)
}

// phases lists the phases that a listener's effects went through.
func (s *scene) phases(listener string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []string
	for _, e := range s.effects[fleet.ID{App: app, Listener: listener}] {
		if n := len(list); n == 0 || list[n-1] != string(e.Phase) {
			list = append(list, string(e.Phase))
		}
	}
	return strings.Join(list, " ")
}

// lines builds a properties file: "A enable=true reason=x" is one entry.
func lines(entries ...string) string {
	var b strings.Builder
	for i, e := range entries {
		words := strings.Fields(e)
		fmt.Fprintf(&b, "rabbitmq.toggle.consumers[%d].listenerId=%s\n", i, words[0])
		for _, w := range words[1:] {
			fmt.Fprintf(&b, "rabbitmq.toggle.consumers[%d].%s\n", i, w)
		}
	}
	return b.String()
}

func newControl(t *testing.T, cfg Config) *Control {
	t.Helper()
	if cfg.Operator == "" {
		cfg.Operator = "oncall"
	}
	c := New(cfg)
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c
}

func id(listener string) fleet.ID { return fleet.ID{App: app, Listener: listener} }

func planned(t *testing.T, c *Control, intents ...Intent) *Plan {
	t.Helper()
	p, err := c.Plan(t.Context(), intents...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func applied(t *testing.T, c *Control, p *Plan) Ticket {
	t.Helper()
	ticket, err := c.Apply(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return ticket
}

// write plans and applies, and makes sure that it was written.
func write(t *testing.T, c *Control, intents ...Intent) Ticket {
	t.Helper()
	ticket := applied(t, c, planned(t, c, intents...))
	for _, w := range ticket.Files {
		if w.Err != nil {
			t.Fatal(w.Err)
		}
	}
	return ticket
}

func codes(list []Warning) string {
	var out []string
	for _, w := range list {
		out = append(out, w.Code)
	}
	return strings.Join(out, " ")
}

func auditLines(t *testing.T, dir string) []AuditLine {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, auditFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	var list []AuditLine
	for _, text := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		var line AuditLine
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatal(err)
		}
		list = append(list, line)
	}
	return list
}

func lookup(t *testing.T, text, listener string) toggle.Toggle {
	t.Helper()
	f := toggle.Parse(toggle.Properties, []byte(text))
	if f.Fatal != nil {
		t.Fatal(f.Fatal)
	}
	got, ok := f.Lookup(listener)
	if !ok {
		t.Fatalf("no entry of %s in\n%s", listener, text)
	}
	return got
}
