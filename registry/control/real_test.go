package control_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/belay-mq/belay/nacos"
	"github.com/belay-mq/belay/nacos/server"
	"github.com/belay-mq/belay/registry/control"
	"github.com/belay-mq/belay/registry/fleet"
	"github.com/belay-mq/belay/registry/toggle"
)

// patience is how long tests wait for what must come; the machine may be busy.
const patience = 20 * time.Second

var toggles = nacos.Key{DataID: "rabbitmq-toggle.properties", Group: "settle-service"}

// open starts the embedded server and opens stores on it.
func open(t *testing.T, n int) []*nacos.Store {
	t.Helper()
	s, err := server.Start(context.Background(), server.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	var list []*nacos.Store
	for i := range n {
		store, err := nacos.New(nacos.Config{Servers: []string{s.Addr()}, Console: s.ConsoleAddr(), PollInterval: 300 * time.Millisecond, Operator: fmt.Sprintf("user%d", i)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := store.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		list = append(list, store)
	}
	return list
}

func controls(t *testing.T, stores []*nacos.Store) []*control.Control {
	t.Helper()
	var list []*control.Control
	for i, store := range stores {
		c := control.New(control.Config{App: toggles.Group, Store: store, Operator: fmt.Sprintf("user%d", i), AuditDir: t.TempDir()})
		t.Cleanup(func() {
			if err := c.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		list = append(list, c)
	}
	return list
}

func current(t *testing.T, store *nacos.Store) *toggle.File {
	t.Helper()
	s, err := store.Get(t.Context(), toggles)
	if err != nil {
		t.Fatal(err)
	}
	return toggle.Parse(toggle.Properties, []byte(s.Text))
}

// until repeats ok until it holds.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not in %v", what, patience)
		}
	}
}

// TestOnServer lets three processes pause different listeners of a file at the same
// moment: all are in it at the end, with a line in the history each.
func TestOnServer(t *testing.T) {
	stores := open(t, 3)
	list := controls(t, stores)
	if _, err := stores[0].Create(t.Context(), toggles, nacos.Content{Text: "# first\n"}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i, c := range list {
		wg.Go(func() {
			p, err := c.Plan(t.Context(), control.Intent{Op: control.Pause, ID: fleet.ID{App: toggles.Group, Listener: fmt.Sprintf("L%d", i)}, Reason: "late"})
			if err != nil {
				t.Error(err)
				return
			}
			ticket, err := c.Apply(t.Context(), p)
			if err != nil || ticket.Files[0].Err != nil {
				t.Error(err, ticket.Files)
			}
		})
	}
	wg.Wait()
	until(t, "all are paused", func() bool { return len(current(t, stores[1]).InForce()) == 3 })
	versions, err := list[0].History(t.Context(), toggles.Group)
	if err != nil || len(versions) != 4 {
		t.Fatalf("%d versions, %v", len(versions), err)
	}
	for _, v := range versions[:3] {
		if len(v.Changes) == 0 || v.By == "" || !v.Known {
			t.Errorf("version %+v", v)
		}
	}
	p, err := list[0].Plan(t.Context(), control.Intent{Op: control.Rollback, ID: fleet.ID{App: toggles.Group}, Version: versions[3].ID})
	if err != nil {
		t.Fatal(err)
	}
	if ticket, err := list[0].Apply(t.Context(), p); err != nil || ticket.Files[0].Err != nil {
		t.Fatal(err, ticket.Files)
	}
	until(t, "all run again", func() bool {
		n := 0
		for _, l := range current(t, stores[2]).InForce() {
			if l.Enable != nil && *l.Enable {
				n++
			}
		}
		return n == 3
	})
}

// TestTimedOnServer lets three processes carry out one planned change: the history
// shows one write of it.
func TestTimedOnServer(t *testing.T) {
	stores := open(t, 3)
	list := controls(t, stores)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for _, c := range list {
		wg.Go(func() {
			if err := c.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	var p *control.Plan
	until(t, "this process counts as one that can do it", func() (ok bool) {
		var err error
		p, err = list[0].Plan(t.Context(), control.Intent{Op: control.Pause, ID: fleet.ID{Listener: "A"}, At: time.Now().Add(2 * time.Second)})
		if err != nil {
			t.Fatal(err)
		}
		return p.Timed && p.Writers == 1
	})
	if ticket, err := list[0].Apply(t.Context(), p); err != nil || ticket.Files[0].Err != nil {
		t.Fatal(err, ticket.Files)
	}
	until(t, "the pause is carried out", func() bool {
		a, ok := current(t, stores[1]).Lookup("A")
		return ok && a.Enable != nil && !*a.Enable && a.PauseAt == nil
	})
	cancel()
	wg.Wait()
	versions, err := list[0].History(t.Context(), toggles.Group)
	if err != nil || len(versions) != 2 {
		t.Fatalf("%d versions, %v", len(versions), err)
	}
}
