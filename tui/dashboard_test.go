package tui

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"

	"github.com/belay-mq/belay/nacos"
	"github.com/belay-mq/belay/registry/control"
	"github.com/belay-mq/belay/registry/feed"
	"github.com/belay-mq/belay/registry/fleet"
	"github.com/belay-mq/belay/registry/toggle"
	"github.com/belay-mq/belay/tui/internal/fake"
	"github.com/belay-mq/belay/tui/keys"
)

// views opens every screen and dialog in turn.
var views = map[string][]string{
	"consumers": {}, "detail": {"enter"}, "feed": {"2"}, "history": {"3"}, "version": {"3", "enter"}, "instances": {"4"}, "health": {"5"},
	"help": {"?"}, "pause": {"p"}, "several": {"*", "p"}, "scale": {"s"}, "resume": {"r"}, "palette": {":"}, "filter": {"/", "s"}, "steps": {"2", "enter"}, "edit": {"e"},
}

func TestEverySizeFits(t *testing.T) {
	check := func(d *driver, w, h int) {
		d.m.Update(tea.WindowSizeMsg{Width: w, Height: h})
		s := d.m.View()
		lines := strings.Split(s, "\n")
		if len(lines) > max(1, h) {
			d.t.Fatalf("%d×%d: %d lines", w, h, len(lines))
		}
		for i, l := range lines {
			if n := ansi.StringWidth(l); n > w {
				d.t.Fatalf("%d×%d: line %d is %d wide: %q", w, h, i+1, n, ansi.Strip(l))
			}
		}
	}
	for name, keys := range views {
		t.Run(name, func(t *testing.T) {
			drive(t, 120, 40, func(d *driver) {
				d.press(keys...)
				for w := 0; w <= 40; w++ {
					for h := 0; h <= 12; h++ {
						check(d, w, h)
					}
				}
				for w := 1; w <= 250; w++ {
					check(d, w, 12+w%30)
				}
			})
		})
	}
}

func TestSmallWindowSaysSo(t *testing.T) {
	drive(t, 49, 12, func(d *driver) { d.sees("window too small", "50×12") })
	drive(t, 50, 11, func(d *driver) { d.sees("window too small") })
}

// Random keys write nothing, as long as enter is not pressed on the confirming
// button.
func TestRandomKeysWriteNothing(t *testing.T) {
	all := []string{"up", "down", "left", "right", "home", "end", "pgup", "pgdown", "tab", "shift+tab", "enter", "esc", "backspace", "delete", " ",
		"ctrl+d", "ctrl+u", "ctrl+r", "ctrl+s", "ctrl+k", "ctrl+w"}
	for r := ' '; r < 0x7f; r++ {
		all = append(all, string(r))
	}
	drive(t, 120, 40, func(d *driver) {
		rng := rand.New(rand.NewPCG(1, 2))
		for range 10_000 {
			k := all[rng.IntN(len(all))]
			if w, ok := d.m.top().(*writeDialog); ok && k == "enter" && w.at == stopButtons && w.yes {
				continue
			}
			_, cmd := d.m.Update(keyOf(k))
			if cmd != nil {
				if msg := cmd(); msg != nil {
					if _, quit := msg.(tea.QuitMsg); !quit {
						d.send(msg)
					}
				}
			}
			if rng.IntN(20) == 0 {
				d.wait(tick)
			}
			d.m.View()
		}
		if n := len(d.be.Writes()); n != 0 {
			t.Errorf("%d writes", n)
		}
	})
}

// Whatever was filtered, sorted, refreshed and marked before: an action concerns the
// marked rows that are visible, else the highlighted one.
func TestTargetsAreWhatIsSeen(t *testing.T) {
	drive(t, 160, 30, func(d *driver) {
		rng := rand.New(rand.NewPCG(3, 4))
		for i := range 2000 {
			switch rng.IntN(9) {
			case 0:
				d.press("j")
			case 1:
				d.press("k")
			case 2:
				d.press(" ")
			case 3:
				d.press("o")
			case 4:
				d.press("O")
			case 5:
				d.press("/")
				d.m.active().filtering().set([]string{"", "settle", "order", "!order", "~rfnd", "nothing at all"}[rng.IntN(6)])
				d.press("esc")
				d.m.active().filtering().set([]string{"", "settle", "order", "!order", "~rfnd", "nothing at all"}[rng.IntN(6)])
			case 6:
				s := *d.be.Snapshot()
				s.Version++
				s.Rows = nil
				for _, r := range d.be.Snapshot().Rows {
					x := *r
					x.Ready.Value = float64(rng.IntN(9999))
					s.Rows = append(s.Rows, &x)
				}
				d.be.Set(&s)
				d.wait(3 * time.Second)
			case 7:
				d.press("g", "V", "j", "j", "V")
			case 8:
				d.press("*")
			}
			// What the screen shows, read from its text.
			var marked, cursor []string
			for _, l := range strings.Split(d.screen(), "\n") {
				f := strings.Fields(l)
				lead := []rune(l)
				if len(lead) < 3 || len(f) < 3 || !strings.HasSuffix(f[1], "Consumer") && !strings.HasSuffix(f[2], "Consumer") {
					continue
				}
				name := f[1]
				if !strings.HasSuffix(name, "Consumer") {
					name = f[2]
				}
				if lead[1] == '◆' {
					marked = append(marked, name)
				}
				if lead[0] == '▸' {
					cursor = append(cursor, name)
				}
			}
			want := marked
			all, _ := d.m.home().t.Marked()
			if all == 0 {
				want = cursor
			}
			rows, why := d.m.home().targets()
			var got []string
			for _, r := range rows {
				got = append(got, r.ID.Listener)
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("step %d: acts on %v, the screen shows %v (%s):\n%s", i, got, want, why, d.screen())
			}
		}
	})
}

func TestPastedTextDoesNothing(t *testing.T) {
	text := "Please pause the refund consumer, it keeps failing.\nregards\n\n\tp\n\t\t\t\t\n\n"
	t.Run("bracketed", func(t *testing.T) {
		drive(t, 120, 40, func(d *driver) {
			d.send(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(text), Paste: true})
			d.sees("pasted text is ignored")
			d.press("p")
			d.send(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(text), Paste: true})
			d.sees("▸ reason")
			if n := len(d.be.Writes()); n != 0 {
				t.Errorf("%d writes", n)
			}
		})
	})
	t.Run("as keys", func(t *testing.T) {
		drive(t, 120, 40, func(d *driver) {
			for range 20 {
				for _, r := range text {
					switch r {
					case '\n':
						d.press("enter")
					case '\t':
						d.press("tab")
					default:
						_, cmd := d.m.Update(keyOf(string(r)))
						if cmd != nil {
							if msg := cmd(); msg != nil {
								if _, quit := msg.(tea.QuitMsg); !quit {
									d.send(msg)
								}
							}
						}
					}
				}
			}
			if n := len(d.be.Writes()); n != 0 {
				t.Errorf("%d writes", n)
			}
		})
	})
}

// The key that opened the dialog never confirms it, and neither does enter alone.
func TestOpeningKeyNeverConfirms(t *testing.T) {
	drive(t, 120, 40, func(d *driver) {
		for range 5 {
			d.press("p")
			d.wait(time.Second)
		}
		d.sees("ppppp"[:4]) // typed into the reason
		d.press("enter", "enter", "enter", "enter", "enter")
		if n := len(d.be.Writes()); n != 0 {
			t.Errorf("%d writes", n)
		}
		if d.m.top() != nil {
			t.Error("enter on Cancel did not close the dialog")
		}
	})
}

// confirmed presses the keys that confirm a dialog whose focus is in its first field.
func (d *driver) confirmed() {
	d.t.Helper()
	for range 8 {
		if w := d.m.top().(*writeDialog); w.at == stopButtons {
			break
		}
		d.press("tab")
	}
	d.wait(time.Second)
	if want := d.m.top().(*writeDialog).expect(d.m); want != "" {
		d.typed(want)
	} else {
		d.press("right")
	}
	d.press("enter")
}

func TestPause(t *testing.T) {
	drive(t, 120, 40, func(d *driver) {
		d.press("j", "p")
		d.typed("vendor")
		d.confirmed()
		w := d.be.Writes()
		if len(w) != 1 || len(w[0].Files) != 1 || len(w[0].Files[0].Intents) != 1 {
			t.Fatalf("writes: %+v", w)
		}
		in := w[0].Files[0].Intents[0]
		if in.ID.Listener != "SettleConsumer" || in.Op != control.Pause || in.Reason != "vendor" || !in.Until.IsZero() {
			t.Errorf("wrote %+v", in)
		}
		d.sees("pause: settle-service written")
		d.wait(time.Second)
		d.sees("‖ paused", "pause done in 0.8 s")
	})
}

func TestPauseWindowInLocalTimeAndUTC(t *testing.T) {
	drive(t, 120, 40, func(d *driver) {
		d.press("p", "tab")
		d.typed("22:00")
		d.press("tab")
		d.typed("1h")
		d.press("tab")
		d.wait(time.Second)
		// The test's clock begins at 2000-01-01 00:00 UTC, 01:00 in Berlin.
		d.sees("22:00 CET (21:00 UTC)", "23:00 CET (22:00 UTC)", "3 processes can do it")
		d.confirmed()
		in := d.be.Writes()[0].Files[0].Intents[0]
		if !in.At.Equal(time.Date(2000, 1, 1, 21, 0, 0, 0, time.UTC)) || !in.Until.Equal(in.At.Add(time.Hour)) {
			t.Errorf("from %v until %v", in.At, in.Until)
		}
	}, func(c *Config) {
		loc, err := time.LoadLocation("Europe/Berlin")
		if err != nil {
			t.Skip("no time zones here")
		}
		c.Location = loc
	})
}

// A length of time counts from the confirmation, however long the dialog was open; and
// what was planned is not called a pause that is in force.
func TestPlannedTimesKeepUpWithTheClock(t *testing.T) {
	drive(t, 120, 40, func(d *driver) {
		d.press("p", "tab", "tab")
		d.typed("1m")
		d.press("tab")
		d.wait(10 * time.Minute)
		now := d.m.v.now
		d.confirmed()
		if in := d.be.Writes()[0].Files[0].Intents[0]; in.Until.Sub(now) < 50*time.Second {
			t.Errorf("resumes at %v, confirmed at %v", in.Until, now)
		}
	})
}

func TestPlannedPauseIsNotCalledDone(t *testing.T) {
	r := &fleet.Row{Effect: &fleet.Effect{Op: "pause", Phase: fleet.Done, Applied: 2, Total: 2, AppliedAfter: time.Second, BrokerAfter: time.Second}}
	if s := effectText(r); !strings.Contains(s, "pause done") {
		t.Errorf("a pause says %q", s)
	}
	r.Desired.PauseAt = time.Now()
	if s := effectText(r); strings.Contains(s, "done") || strings.Contains(s, "broker") || !strings.Contains(s, "planned pause noted") {
		t.Errorf("a planned pause says %q", s)
	}
}

func TestFaultyFileIsSaidOnEveryScreen(t *testing.T) {
	drive(t, 120, 40, func(d *driver) {
		s := *d.be.Snapshot()
		s.Apps = append([]*fleet.App{{Name: "faulty-service", Problems: []fleet.Problem{{Loud: true, Text: "takes this file as absent"}}}}, s.Apps...)
		d.be.Set(&s)
		d.wait(time.Second)
		for _, key := range []string{"1", "2", "4"} {
			d.press(key)
			d.sees("! toggle file of faulty-service: takes this file as absent")
		}
		s.Apps[0] = &fleet.App{Name: "faulty-service", Problems: []fleet.Problem{{Loud: true, Text: "faulty-service keeps its old toggles"}}}
		d.be.Set(&s)
		d.wait(time.Second)
		d.sees("! faulty toggle file: faulty-service keeps its old toggles")
	})
}

func TestSeveralNeedTheirNumber(t *testing.T) {
	drive(t, 120, 40, func(d *driver) {
		d.press(" ", " ", " ", "p", "tab", "tab", "tab")
		d.wait(time.Second)
		d.press("right", "enter")
		d.sees("type 3 first")
		d.typed("33")
		d.press("enter")
		if len(d.be.Writes()) != 0 {
			t.Fatal("33 confirmed 3")
		}
		d.press("p", "tab", "tab", "tab")
		d.wait(time.Second)
		d.typed("3")
		d.press("enter")
		w := d.be.Writes()
		if len(w) != 1 {
			t.Fatalf("%d writes", len(w))
		}
		n := 0
		for _, f := range w[0].Files {
			n += len(f.Intents)
		}
		if n != 3 || len(w[0].Files) != 2 {
			t.Errorf("%d intents in %d files", n, len(w[0].Files))
		}
	})
}

func TestContextMayAskForItsNameAndAReason(t *testing.T) {
	drive(t, 120, 40, func(d *driver) {
		d.be.Confirm = control.Confirm{RequireReason: true, TypeContextName: true}
		d.press("p", "tab", "tab", "tab")
		d.wait(time.Second)
		d.typed("PROD")
		d.press("enter")
		d.sees("a reason is required in PROD")
		if len(d.be.Writes()) != 0 {
			t.Fatal("written without a reason")
		}
		d.typed("x")
		d.press("tab", "tab", "tab")
		d.wait(time.Second)
		d.press("right", "enter")
		if len(d.be.Writes()) != 1 {
			t.Error("not written: ", d.screen())
		}
	})
}

func TestTooQuickToHaveReadIt(t *testing.T) {
	drive(t, 120, 40, func(d *driver) {
		d.press("p", "tab", "tab", "tab", "right", "enter")
		d.sees("too quick")
		if len(d.be.Writes()) != 0 {
			t.Error("written")
		}
		d.wait(time.Second)
		d.press("enter")
		if len(d.be.Writes()) != 1 {
			t.Error("not written afterwards")
		}
	})
}

func TestReadOnly(t *testing.T) {
	drive(t, 120, 40, func(d *driver) {
		d.sees("read-only")
		for _, k := range []string{"p", "r", "s", "e", "u"} {
			d.press(k)
			d.sees("read-only: this context allows no writing")
			if d.m.top() != nil {
				t.Fatalf("%s opened a dialog", k)
			}
		}
		d.wait(noticeFor + time.Second)
		for _, hint := range []string{"p pause", "r resume", "s scale"} {
			if strings.Contains(d.screen(), hint) {
				t.Errorf("the hints offer %q", hint)
			}
		}
	}, func(c *Config) { c.ReadOnly = true })
}

func TestAlreadyPausedBySomebody(t *testing.T) {
	drive(t, 120, 40, func(d *driver) {
		d.be.OnPlan = func(p *control.Plan) {
			p.Files[0].Unchanged, p.Files[0].UnchangedBy = true, "li"
		}
		d.press("p", "tab", "tab", "tab")
		d.wait(time.Second)
		d.sees("already paused by li", "Close")
		d.press("right", "enter")
		if len(d.be.Writes()) != 0 || d.m.top() != nil {
			t.Error("there was nothing to confirm")
		}
	})
}

func TestConflictShowsBoth(t *testing.T) {
	drive(t, 120, 40, func(d *driver) {
		first := true
		d.be.OnPlan = func(p *control.Plan) { p.Files[0].Base = nacos.State{Text: "a=1\nb=2\n", MD5: "1"} }
		d.be.OnApply = func(p *control.Plan) (control.Ticket, error) {
			if first {
				first = false
				key := nacos.Key{Group: p.Files[0].App, DataID: "rabbitmq-toggle.properties"}
				return control.Ticket{Files: []control.Written{{App: p.Files[0].App, Phase: fleet.Conflict,
					Err: fmt.Errorf("publishing: %w", &nacos.ConflictError{Key: key, Actual: nacos.State{Text: "a=1\nb=3\n", MD5: "2"}})}}}, nil
			}
			return control.Ticket{ID: 1, Files: []control.Written{{App: p.Files[0].App, MD5: "3333333", Phase: fleet.Written}}}, nil
		}
		d.press("p")
		d.confirmed()
		d.sees("Somebody changed this file meanwhile", "theirs", "-b=2", "+b=3", "yours", "merged")
		d.wait(time.Second)
		d.press("right", "enter")
		d.sees("written (md5 333333…)")
	})
}

func TestRefusedFileMayBeForced(t *testing.T) {
	drive(t, 120, 40, func(d *driver) {
		d.be.OnPlan = func(p *control.Plan) {
			p.Files[0].Refusal = &toggle.Refusal{Code: "bad-boolean", Line: 12, Text: "enable \"maybe\" is no boolean", Forceable: true}
			p.Files[0].Forceable = true
		}
		d.press("p", "tab", "tab", "tab")
		d.wait(time.Second)
		d.sees("line 12: enable \"maybe\" is no boolean", "write although the file has a fault")
		d.press("tab", "right", "enter")
		d.sees("refused")
		d.press("left", "shift+tab", " ", "tab")
		d.wait(time.Second)
		d.press("right", "enter")
		w := d.be.Writes()
		if len(w) != 1 || !w[0].Files[0].Intents[0].Force {
			t.Errorf("wrote %+v", w)
		}
	})
}

func TestScaleAndResumeWithOne(t *testing.T) {
	drive(t, 120, 40, func(d *driver) {
		d.press("j", "s", "backspace", "4", "tab")
		d.press("backspace", "3")
		d.wait(time.Second)
		d.sees("max 3 is below min 4")
		d.press("backspace", "9")
		d.confirmed()
		in := d.be.Writes()[0].Files[0].Intents[0]
		if in.Op != control.Scale || *in.Min != 4 || *in.Max != 9 {
			t.Errorf("wrote %+v", in)
		}
		d.press("r", "tab", " ")
		d.confirmed()
		in = d.be.Writes()[1].Files[0].Intents[0]
		if in.Op != control.Resume || in.Min == nil || *in.Min != 1 || *in.Max != 1 {
			t.Errorf("wrote %+v", in)
		}
	})
}

func TestUndo(t *testing.T) {
	drive(t, 120, 40, func(d *driver) {
		d.press("u")
		d.sees("nothing to undo: no write of this dashboard")
		d.press("j", "p")
		d.confirmed()
		d.press("u")
		d.sees("Undo my last toggle")
		d.wait(time.Second)
		d.press("u", "u", "enter") // Cancel
		d.press("u")
		d.wait(time.Second)
		d.press("right", "enter")
		if n := len(d.be.Writes()); n != 2 {
			t.Errorf("%d writes", n)
		}
	})
}

func TestEdit(t *testing.T) {
	drive(t, 120, 40, func(d *driver) {
		d.press("j", "e", "down", "down", "end")
		for range 4 {
			d.press("backspace")
		}
		d.typed("maybe")
		d.sees("line 3", "✗")
		for range 5 {
			d.press("backspace")
		}
		d.typed("false")
		d.sees("no fault", "SettleConsumer: enable true → false")
		d.press("esc")
		d.sees("esc again")
		d.press("ctrl+s")
		d.sees("Publish the toggle file", "-rabbitmq.toggle.consumers[0].enable=true", "+rabbitmq.toggle.consumers[0].enable=false")
		d.wait(time.Second)
		d.press("right", "enter")
		w := d.be.Writes()
		if len(w) != 1 || !strings.Contains(*w[0].Files[0].Intents[0].Text, "[0].enable=false") {
			t.Fatalf("wrote %+v", w)
		}
		if len(d.m.dialogs) != 0 {
			t.Error("the editor stays open")
		}
	})
}

// TestEditUnreadable: a text that no service could read has no effects to show and
// is not offered for publishing.
func TestEditUnreadable(t *testing.T) {
	drive(t, 120, 40, func(d *driver) {
		d.press("j", "e", "down", "end")
		d.typed(`\u12`)
		d.sees("line 2", "nothing of this text can be read")
		d.lacks("→ absent", "absent →")
		d.press("ctrl+s")
		d.sees("mend it first")
		d.lacks("Publish the toggle file")
		d.wait(time.Second)
		d.press("right", "enter")
		if w := d.be.Writes(); len(w) != 0 {
			t.Errorf("wrote %+v", w)
		}
	})
}

func TestRollBack(t *testing.T) {
	drive(t, 120, 40, func(d *driver) {
		d.press("3")
		d.sees("listener RefundConsumer", "1 of 3 versions")
		d.press("esc")
		d.sees("3 of 3 versions", "maxConcurrentConsumers 6 → 8")
		d.press("j", "enter")
		d.press("d")
		d.press("right", "enter")
		d.sees("Roll settle-service back to")
		d.wait(time.Second)
		d.press("right", "enter")
		w := d.be.Writes()
		if len(w) != 1 || w[0].Files[0].Intents[0].Op != control.Rollback || w[0].Files[0].Intents[0].Version != "6" {
			t.Errorf("wrote %+v", w)
		}
	})
}

func TestHistoryNotAvailable(t *testing.T) {
	drive(t, 120, 40, func(d *driver) {
		d.be.Versions(errors.New("history not available (410)"))
		d.press("3")
		d.sees("history not available (410)")
		d.press("1", "enter")
		d.wait(time.Second)
		d.sees("history not available (410)")
	})
}

// With every server away the program answers keys and never ends.
func TestBlackHole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		be := fake.Scene(time.Now())
		be.Hole = true
		m, err := NewModel(t.Context(), Config{Backend: be, Location: time.UTC})
		if err != nil {
			t.Fatal(err)
		}
		m.Update(tea.WindowSizeMsg{Width: 120, Height: 40})
		begin := time.Now()
		var slow []tea.Cmd
		for _, k := range []string{"p", "esc", "3", "1", "u", "?", "esc", "/", "s", "esc", "enter", "q", "p", "tab", "tab", "tab", "right", "enter"} {
			_, cmd := m.Update(keyOf(k))
			m.View()
			if cmd != nil {
				slow = append(slow, cmd)
			}
		}
		if took := time.Since(begin); took > 0 {
			t.Errorf("a key waited %v for the backend", took)
		}
		if len(slow) < 3 {
			t.Errorf("only %d commands", len(slow))
		}
		// Every command ends with a sentence at its deadline.
		for _, c := range slow {
			m.Update(c())
		}
		if !strings.Contains(ansi.Strip(m.View()), "no answer within") {
			t.Errorf("no word of the deadline:\n%s", ansi.Strip(m.View()))
		}
		if len(be.Writes()) != 0 {
			t.Error("written")
		}
	})
}

func TestBackendGoneAndBack(t *testing.T) {
	drive(t, 120, 40, func(d *driver) {
		d.wait(10*time.Minute + time.Second)
		d.sees("nothing was read since", "10m ago: all values are old", "nacos ◐ 10m old")
		s := fake.Snapshot(time.Now())
		s.Version = 2
		s.Health[0].State, s.Health[0].Err, s.Health[0].Since = fleet.HealthDown, "connection refused", time.Now().Add(-10*time.Minute)
		d.be.Set(s)
		d.wait(time.Second)
		d.sees("nacos ✗ down 10m", "nacos is down since", "connection refused")
		s = fake.Snapshot(time.Now())
		s.Version = 3
		d.be.Set(s)
		d.wait(time.Second)
		if strings.Contains(d.screen(), "down") || strings.Contains(d.screen(), "old:") {
			t.Errorf("not recovered:\n%s", d.screen())
		}
		d.sees("nacos ● 1s")
	})
}

// Nothing hostile reaches the terminal, and the columns stay aligned.
func TestHostileText(t *testing.T) {
	evil := []string{"\x1b[2J\x1b]0;x\x07evil", "a\rb\nc", "\u202Egnp.exe", strings.Repeat("漢", 200), "\x9b31m", "z\u200bw\u200dj", "tab\there", "\xff\xfe"}
	drive(t, 120, 40, func(d *driver) {
		s := fake.Snapshot(time.Now())
		s.Version = 2
		for i, r := range s.Rows {
			x := evil[i%len(evil)]
			r.ID.Listener += x
			r.Note, r.Reason, r.Desired.Reason, r.By = x, x, x, x
			for _, q := range r.Queues {
				q.ID.Name, q.Err, q.Forecast = x, x, x
			}
			for j := range r.Hosts {
				r.Hosts[j].Instance, r.Hosts[j].Report.LastError, r.Hosts[j].Report.State = x, &x, x
			}
		}
		for i := range s.Health {
			s.Health[i].Err, s.Health[i].Text, s.Health[i].Advice = evil[i], evil[i], evil[i]
		}
		for i, in := range s.Instances {
			in.ID, in.Host, in.FileMD5 = evil[i], evil[i], evil[i]
		}
		s.Apps[0].Name, s.Apps[0].Watchers[0].Address, s.Label = evil[0], evil[2], evil[1]
		d.be.Set(s)
		for _, x := range evil {
			d.be.Add(feed.Line{At: time.Now(), Source: feed.Release, Key: x, Version: x, Text: x, Status: feed.Failed, By: x})
		}
		d.be.OnPlan = func(p *control.Plan) {
			for _, x := range evil {
				p.Warnings = append(p.Warnings, control.Warning{Text: x})
				p.Files[0].Diff += "+" + x + "\n"
			}
		}
		d.be.Versions(nil, control.Version{ID: evil[0], By: evil[2], From: evil[1], Op: evil[3], MD5: evil[0], Changes: []toggle.Change{{ListenerID: evil[2], Field: "enable", Before: evil[0], After: evil[1]}}})
		d.wait(time.Second)
		for name, keys := range views {
			d.m.dialogs, d.m.detail, d.m.typing, d.m.at = nil, nil, nil, screenConsumers
			d.press("g")
			d.press(keys...)
			d.wait(time.Second)
			for n, l := range strings.Split(d.m.View(), "\n") {
				plain := ansi.Strip(l)
				for _, r := range plain {
					if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == '\u202E' || r == '\u200b' || r == '\u200d' {
						t.Fatalf("%s: line %d carries %U: %q", name, n+1, r, plain)
					}
				}
				// Only our own colours and attributes remain.
				for rest := l; ; {
					i := strings.IndexByte(rest, 0x1b)
					if i < 0 {
						break
					}
					rest = rest[i+1:]
					j := strings.IndexFunc(rest, func(r rune) bool { return r == 'm' })
					if !strings.HasPrefix(rest, "[") || j < 0 || strings.Trim(rest[1:j], "0123456789;") != "" {
						t.Fatalf("%s: line %d carries an escape sequence: %q", name, n+1, l)
					}
				}
				if !utf8.ValidString(l) {
					t.Fatalf("%s: line %d is not UTF-8", name, n+1)
				}
				if w := ansi.StringWidth(l); w > 120 {
					t.Fatalf("%s: line %d is %d wide", name, n+1, w)
				}
			}
		}
		// Columns stand below their titles, whatever the names hold.
		d.m.dialogs, d.m.detail, d.m.at = nil, nil, screenConsumers
		d.m.dirty = true
		lines := strings.Split(d.screen(), "\n")
		head := 2
		for !strings.Contains(lines[head], "LISTENER") {
			head++
		}
		col := ansi.StringWidth(lines[head][:strings.Index(lines[head], "STATE")])
		for _, l := range lines[head+1 : head+1+len(s.Rows)] {
			if c := ansi.Truncate(l, col, ""); ansi.StringWidth(c) != col || !strings.HasSuffix(c, "  ") {
				t.Errorf("the state does not begin in column %d: %q", col, l)
			}
		}
	})
}

func TestStatesAreWords(t *testing.T) {
	drive(t, 120, 40, func(d *driver) {
		if strings.Contains(d.m.View(), "\x1b[3") || strings.Contains(d.m.View(), "\x1b[9") {
			t.Error("colours in spite of NO_COLOR")
		}
		d.sees("paused", "running", "pausing 2/3", "drift", "unknown", "recovering", "unmanaged", "▸")
	}, func(c *Config) { c.NoColor = true })
}

func TestASCII(t *testing.T) {
	drive(t, 120, 40, func(d *driver) {
		for name, keys := range views {
			d.m.dialogs, d.m.detail, d.m.typing, d.m.at = nil, nil, nil, screenConsumers
			d.press(keys...)
			for _, r := range d.m.View() {
				if r >= 0x80 {
					t.Fatalf("%s shows %q", name, r)
				}
			}
			for _, l := range strings.Split(d.m.View(), "\n") {
				if ansi.StringWidth(l) > 120 {
					t.Fatalf("%s: too wide: %q", name, l)
				}
			}
		}
	}, func(c *Config) { c.ASCII = true })
}

func TestUnboundAndIdleKeysSayWhy(t *testing.T) {
	drive(t, 120, 40, func(d *driver) {
		d.press("x")
		d.sees("x has no meaning here")
		d.press("f")
		d.sees("works on the feed")
		d.press("2", "o")
		d.sees("works on the consumers")
		d.press("p")
		d.sees("choose a listener on the consumers first")
		d.press("5", "/")
		d.sees("nothing to filter")
		d.press("tab")
		d.sees("one pane")
	})
}

func TestKeysAreRebound(t *testing.T) {
	drive(t, 120, 40, func(d *driver) {
		d.press("p")
		d.sees("p has no meaning here")
		d.wait(noticeFor + time.Second)
		d.sees("ctrl-p pause")
		d.press("ctrl+p")
		d.sees("Pause settle-service/RefundConsumer")
	}, func(c *Config) { c.Keys = map[string]string{"pause": "ctrl-p"} })
	if _, err := NewModel(t.Context(), Config{Backend: fake.Scene(time.Now()), Keys: map[string]string{"pause": "r"}}); err == nil || !strings.Contains(err.Error(), "both") {
		t.Errorf("a key with two meanings: %v", err)
	}
}

// Every binding has its place in the help screen, and every hint is a binding.
func TestHelpShowsEveryKey(t *testing.T) {
	drive(t, 200, 60, func(d *driver) {
		d.press("?")
		for _, b := range d.m.v.keys.All() {
			d.sees(b.Names(), b.Help)
		}
		for _, s := range d.m.screens {
			for _, a := range s.hints() {
				b := d.m.v.keys.For(a)
				if b == nil || b.Hint == "" {
					t.Errorf("the hint %s has no word", a)
				}
			}
		}
	})
}

// The README's table of keys is the key map's.
func TestReadmeHasTheKeys(t *testing.T) {
	b, err := os.ReadFile("../README.md")
	if err != nil {
		t.Skip("there is no README.md yet")
	}
	begin, end := "<!-- keys -->\n", "<!-- /keys -->"
	_, rest, ok := strings.Cut(string(b), begin)
	table, _, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("README.md has no %s … %s", strings.TrimSpace(begin), end)
	}
	if strings.TrimSpace(table) != strings.TrimSpace(keys.Markdown()) {
		t.Errorf("the table of keys in README.md is not the key map's; it should be:\n%s", keys.Markdown())
	}
}
