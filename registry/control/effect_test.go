package control

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belay-mq/belay/consumers/observe"
	"github.com/belay-mq/belay/registry/fleet"
)

// stage is a control with two instances of one listener, in a bubble.
type stage struct {
	*testing.T
	store *memory
	show  *scene
	c     *Control
}

func onStage(t *testing.T, test func(s stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(lines("A enable=true"))
		show := newScene(store)
		for _, instance := range []string{"host-a:1:x", "host-b:1:y"} {
			show.host("A", instance, func(h *fleet.Host) { h.FileMD5 = sum(store.text()) })
		}
		show.broker("A", 4)
		c := newControl(t, Config{Store: store, Fleet: show})
		test(stage{t, store, show, c})
	})
}

// takes makes an instance apply a file.
func (s stage) takes(instance, md5 string, state string) {
	s.show.host("A", instance, func(h *fleet.Host) {
		h.FileMD5, h.Report.State, h.At = md5, state, time.Now()
		h.Report.Consumers = map[string]int{"running": 2}[state]
	})
}

func (s stage) effect(t Ticket) fleet.Effect {
	s.Helper()
	list := s.c.Outcomes(t)
	if len(list) != 1 {
		s.Fatalf("%d outcomes", len(list))
	}
	return list[0].Effect
}

// expect waits some time and checks the phase then.
func (s stage) expect(t Ticket, after time.Duration, want fleet.Phase) fleet.Effect {
	s.Helper()
	time.Sleep(after)
	synctest.Wait()
	e := s.effect(t)
	if e.Phase != want {
		s.Fatalf("phase %s, want %s: %+v", e.Phase, want, e)
	}
	return e
}

const step = 500 * time.Millisecond

func TestEffectSteps(t *testing.T) {
	onStage(t, func(s stage) {
		ticket := write(s.T, s.c, Intent{Op: Pause, ID: id("A")})
		md5 := ticket.Files[0].MD5
		e := s.expect(ticket, step, fleet.Written)
		if e.Total != 2 || e.Seen != 0 || len(e.Behind) != 2 || e.Op != "pause" || e.By != "oncall" {
			t.Errorf("got %+v", e)
		}
		s.takes("host-a:1:x", md5, "draining")
		if e = s.expect(ticket, step, fleet.Seen); e.Seen != 1 || e.Applied != 0 || e.SeenAfter != 0 {
			t.Errorf("got %+v", e)
		}
		s.takes("host-a:1:x", md5, "stopped")
		s.takes("host-b:1:y", md5, "draining")
		if e = s.expect(ticket, step, fleet.Seen); e.Seen != 2 || e.Applied != 1 || e.SeenAfter == 0 || strings.Join(e.Behind, " ") != "host-b:1:y" {
			t.Errorf("got %+v", e)
		}
		s.takes("host-b:1:y", md5, "stopped")
		if e = s.expect(ticket, step, fleet.Applied); e.Applied != 2 || e.AppliedAfter == 0 || strings.Join(e.Behind, " ") != "queue q-A" {
			t.Errorf("got %+v", e)
		}
		s.show.broker("A", 0)
		if e = s.expect(ticket, step, fleet.Done); e.BrokerAfter <= e.AppliedAfter || len(e.Behind) != 0 {
			t.Errorf("got %+v", e)
		}
		if got := s.show.phases("A"); got != "writing written seen applied done" {
			t.Errorf("shown: %s", got)
		}
		if out := s.c.Wait(s.Context(), ticket); len(out) != 1 || out[0].Effect.Phase != fleet.Done {
			t.Errorf("got %+v", out)
		}
	})
}

// TestEffectUnconfirmed names who is behind, and is done later all the same.
func TestEffectUnconfirmed(t *testing.T) {
	onStage(t, func(s stage) {
		ticket := write(s.T, s.c, Intent{Op: Pause, ID: id("A")})
		md5 := ticket.Files[0].MD5
		s.takes("host-a:1:x", md5, "stopped")
		s.takes("host-b:1:y", md5, "draining")
		began := time.Now()
		out := s.c.Wait(s.Context(), ticket)
		if e := out[0].Effect; e.Phase != fleet.Unconfirmed || strings.Join(e.Behind, " ") != "host-b:1:y" || time.Since(began) < 9*time.Second {
			t.Fatalf("after %s: %+v", time.Since(began), e)
		}
		time.Sleep(time.Minute)
		s.takes("host-b:1:y", md5, "stopped")
		time.Sleep(step)
		s.show.broker("A", 0)
		s.expect(ticket, step, fleet.Done)
	})
}

// TestEffectOldReading does not believe a reading of the broker from before.
func TestEffectOldReading(t *testing.T) {
	onStage(t, func(s stage) {
		s.show.broker("A", 0)
		time.Sleep(step)
		ticket := write(s.T, s.c, Intent{Op: Pause, ID: id("A")})
		s.takes("host-a:1:x", ticket.Files[0].MD5, "stopped")
		s.takes("host-b:1:y", ticket.Files[0].MD5, "stopped")
		s.expect(ticket, step, fleet.Applied)
	})
}

// TestEffectSuperseded tells who wrote over it.
func TestEffectSuperseded(t *testing.T) {
	onStage(t, func(s stage) {
		ticket := write(s.T, s.c, Intent{Op: Pause, ID: id("A")})
		s.expect(ticket, step, fleet.Written)
		s.store.put(key, lines("A enable=true updatedBy=anna"), "anna")
		if e := s.expect(ticket, step, fleet.Superseded); e.SupersededBy != "anna" {
			t.Errorf("got %+v", e)
		}
	})
}

// TestEffectLaterFile counts instances that have applied a later file which wants the
// same.
func TestEffectLaterFile(t *testing.T) {
	onStage(t, func(s stage) {
		ticket := write(s.T, s.c, Intent{Op: Pause, ID: id("A")})
		s.expect(ticket, step, fleet.Written)
		later := s.store.put(key, s.store.text()+"# note\n", "anna")
		time.Sleep(step)
		s.takes("host-a:1:x", later.MD5, "stopped")
		s.takes("host-b:1:y", ticket.Files[0].MD5, "stopped")
		time.Sleep(step)
		s.show.broker("A", 0)
		s.expect(ticket, step, fleet.Done)
	})
}

// TestEffectLost holds a lost instance for behind until the broker shows that none
// of its consumers is left, or it said bye.
func TestEffectLost(t *testing.T) {
	onStage(t, func(s stage) {
		ticket := write(s.T, s.c, Intent{Op: Pause, ID: id("A")})
		s.takes("host-a:1:x", ticket.Files[0].MD5, "stopped")
		s.show.host("A", "host-b:1:y", func(h *fleet.Host) { h.Lost = true })
		if e := s.expect(ticket, step, fleet.Seen); e.Applied != 1 || strings.Join(e.Behind, " ") != "host-b:1:y" {
			t.Errorf("got %+v", e)
		}
		s.show.broker("A", 2)
		s.show.mu.Lock()
		s.show.rows["A"].Queues[0].ConsumerList = []observe.Consumer{{Instance: "host-b:1:y"}}
		s.show.rows["A"].Queues[0].ListAt = time.Now()
		s.show.mu.Unlock()
		s.expect(ticket, step, fleet.Seen)
		s.show.broker("A", 0)
		s.expect(ticket, step, fleet.Applied) // its reading is older than the step
		time.Sleep(step)
		s.show.broker("A", 0)
		s.expect(ticket, step, fleet.Done)
	})
	onStage(t, func(s stage) {
		ticket := write(s.T, s.c, Intent{Op: Pause, ID: id("A")})
		s.takes("host-a:1:x", ticket.Files[0].MD5, "stopped")
		s.show.mu.Lock()
		s.show.rows["A"].Hosts = s.show.rows["A"].Hosts[:1] // host-b said bye
		s.show.mu.Unlock()
		s.expect(ticket, step, fleet.Applied)
	})
}

// TestEffectNotOurs believes the broker alone where no instance reports.
func TestEffectNotOurs(t *testing.T) {
	onStage(t, func(s stage) {
		s.show.mu.Lock()
		s.show.rows["A"].Hosts = nil
		s.show.mu.Unlock()
		ticket := write(s.T, s.c, Intent{Op: Pause, ID: id("A")})
		if e := s.expect(ticket, step, fleet.Written); e.Total != 0 {
			t.Errorf("got %+v", e)
		}
		s.show.broker("A", 1)
		s.expect(ticket, step, fleet.Written)
		s.show.broker("A", 0)
		s.expect(ticket, step, fleet.Done)
	})
}

// TestEffectWithoutBroker takes the word of the instances where nothing shows
// queues.
func TestEffectWithoutBroker(t *testing.T) {
	onStage(t, func(s stage) {
		s.show.mu.Lock()
		s.show.rows["A"].Queues, s.show.rows["A"].Broker = nil, observe.Number{}
		s.show.mu.Unlock()
		ticket := write(s.T, s.c, Intent{Op: Pause, ID: id("A")})
		s.takes("host-a:1:x", ticket.Files[0].MD5, "stopped")
		s.takes("host-b:1:y", ticket.Files[0].MD5, "stopped")
		s.expect(ticket, step, fleet.Done)
	})
}

// TestEffectPlanned follows a window until it is known everywhere; carrying it out
// is no later write of somebody else.
func TestEffectPlanned(t *testing.T) {
	onStage(t, func(s stage) {
		ticket := write(s.T, s.c, Intent{Op: Pause, ID: id("A"), At: time.Now().Add(5 * time.Second)})
		s.expect(ticket, step, fleet.Written)
		s.takes("host-a:1:x", ticket.Files[0].MD5, "running")
		time.Sleep(6 * time.Second)
		s.store.put(key, lines("A enable=false"), "")
		s.takes("host-a:1:x", sum(s.store.text()), "stopped")
		s.takes("host-b:1:y", sum(s.store.text()), "stopped")
		time.Sleep(step)
		s.show.broker("A", 0)
		s.expect(ticket, step, fleet.Done)
	})
}

// TestEffectFailed ends at once where nothing was written.
func TestEffectFailed(t *testing.T) {
	onStage(t, func(s stage) {
		p := planned(s.T, s.c, Intent{Op: Pause, ID: id("A")})
		s.store.put(key, lines("B"), "anna")
		ticket := applied(s.T, s.c, p)
		if e := s.effect(ticket); e.Phase != fleet.Conflict || e.Err == "" {
			t.Errorf("got %+v", e)
		}
		if out := s.c.Wait(s.Context(), ticket); out[0].Effect.Phase != fleet.Conflict {
			t.Errorf("got %+v", out)
		}
		if out := s.c.Outcomes(Ticket{ID: 99}); len(out) != 0 {
			t.Errorf("got %+v", out)
		}
	})
}
