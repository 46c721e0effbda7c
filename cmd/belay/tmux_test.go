package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// terminal is a tmux window with a shell in it.
type terminal struct {
	t      *testing.T
	socket string
}

func newTerminal(t *testing.T, width, height int) *terminal {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		if os.Getenv("BELAY_TEST_REAL") == "1" {
			t.Fatal("tmux is not installed, but BELAY_TEST_REAL=1 asks for whole runs in a terminal")
		}
		t.Skip("tmux is not installed")
	}
	term := &terminal{t, filepath.Join(t.TempDir(), "tmux")}
	term.tmux("-f", "/dev/null", "new-session", "-d", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height), "env PS1='$ ' sh")
	t.Cleanup(func() { _ = exec.Command("tmux", "-S", term.socket, "kill-server").Run() })
	return term
}

func (m *terminal) tmux(args ...string) string {
	m.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-S", m.socket}, args...)...).CombinedOutput()
	if err != nil {
		m.t.Fatalf("tmux %v: %v: %s", args, err, out)
	}
	return string(out)
}

func (m *terminal) keys(keys ...string) {
	m.t.Helper()
	for _, k := range keys {
		m.tmux("send-keys", k)
	}
}

func (m *terminal) text(s string) {
	m.t.Helper()
	m.tmux("send-keys", "-l", s)
}

func (m *terminal) screen() string {
	m.t.Helper()
	return m.tmux("capture-pane", "-p")
}

// see waits until the screen shows all of the words.
func (m *terminal) see(within time.Duration, words ...string) {
	m.t.Helper()
	eventually(m.t, within, "the screen shows "+strings.Join(words, ", "), func() (bool, string) {
		s := m.screen()
		for _, w := range words {
			if !strings.Contains(s, w) {
				return false, "\n" + s
			}
		}
		return true, ""
	})
}

// confirm presses enter on the chosen button until the write is done: the first time may
// be refused as too quick to have read what it does.
func (m *terminal) confirm(done string) {
	m.t.Helper()
	eventually(m.t, 20*time.Second, done, func() (bool, string) {
		s := m.screen()
		if strings.Contains(s, "[ Cancel ]") && strings.Contains(s, "▸") {
			m.keys("Enter")
		}
		return strings.Contains(s, done), "\n" + s
	})
}

// buildBelay builds the program as a user has it.
func buildBelay(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "belay")
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v: %s", err, out)
	}
	return path
}

// The dashboard as a person uses it, with keys only: start, pause with a confirmation, see
// it paused, see it in the feed, undo nothing by a stray key, resume, quit.
func TestDashboardInATerminal(t *testing.T) {
	isolate(t)
	program := buildBelay(t)
	dir := t.TempDir()
	m := newTerminal(t, 120, 40)
	m.text("stty -a > " + dir + "/before; " + program + " demo --dir " + dir + "; echo ended $?; stty -a > " + dir + "/after\n")
	m.see(20*time.Second, "9 listeners", "SettleConsumer", "● running", "nacos ●", "rabbit ●")

	m.text("/Audit")
	m.keys("Enter")
	m.see(5*time.Second, "AuditConsumer")
	m.text("p")
	m.see(10*time.Second, "Pause order-service/AuditConsumer in DEMO", "[ Cancel ]")
	m.text("vendor maintenance")
	m.keys("Tab", "Tab", "Tab", "Enter") // the last stop is the buttons, with Cancel selected
	m.see(5*time.Second, "● running")

	m.text("p")
	m.see(10*time.Second, "[ Cancel ]")
	m.text("vendor maintenance")
	m.keys("Tab", "Tab", "Tab", "Right")
	m.confirm("pause done")
	m.see(5*time.Second, "‖ paused")

	configPath := filepath.Join(dir, "config.yaml")
	code, text, errs := belay(t, "--config", configPath, "get", "order-service/AuditConsumer", "-o", "json")
	if code != exitOK || decode[[]listRow](t, text)[0].Reason != "vendor maintenance" {
		t.Errorf("another process sees: exit %d, %s%s", code, text, errs)
	}

	m.text("r")
	m.see(10*time.Second, "Resume order-service/AuditConsumer", "[ Cancel ]")
	m.keys("Tab", "Tab", "Right")
	m.confirm("resume done")
	m.see(5*time.Second, "● running")
	for _, screen := range []struct{ key, title string }{{"2", "Feed"}, {"3", "History"}, {"4", "Instances"}, {"5", "Health"}} {
		m.text(screen.key)
		m.see(10*time.Second, screen.title)
		if s := m.screen(); strings.Contains(s, "guest:guest") {
			t.Errorf("%s shows a password:\n%s", screen.title, s)
		}
	}
	m.text("1")
	m.keys("Escape") // clears the filter; only then, or escape and q would be one key, alt-q
	m.see(5*time.Second, "9 listeners")
	m.text("q")
	m.see(20*time.Second, "ended 0")
	eventually(t, 5*time.Second, "the terminal's settings", func() (bool, string) {
		before, _ := os.ReadFile(filepath.Join(dir, "before"))
		after, _ := os.ReadFile(filepath.Join(dir, "after"))
		return len(before) > 0 && string(before) == string(after), string(before) + string(after)
	})
}

// An outage is said on the screen, and goes away by itself.
func TestOutageInATerminal(t *testing.T) {
	isolate(t)
	program := buildBelay(t)
	dir := t.TempDir()
	m := newTerminal(t, 120, 40)
	m.text(program + " demo --dir " + dir + "; echo ended $?\n")
	m.see(20*time.Second, "9 listeners", "● running")
	for _, server := range []string{"broker", "nacos"} {
		m.text(":outage " + server)
		m.keys("Enter")
		if server == "broker" {
			m.see(20*time.Second, "rabbit is down", "rabbit ✗", "was running", "s ago")
		} else {
			m.see(30*time.Second, "nacos is down", "nacos ✗")
		}
		m.text(":outage " + server)
		m.keys("Enter")
		m.see(60*time.Second, "nacos ●", "rabbit ●", "● running", "‖ paused")
	}
	m.text("q")
	m.see(20*time.Second, "ended 0")
}
