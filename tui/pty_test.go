//go:build unix

package tui

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/term"
	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"

	"github.com/belay-mq/belay/registry/control"
	"github.com/belay-mq/belay/registry/feed"
	"github.com/belay-mq/belay/tui/internal/fake"
)

// TestMain lets the test binary be the program under test: with TUI_CHILD set it
// runs the dashboard on its terminal.
func TestMain(m *testing.M) {
	if mode := os.Getenv("TUI_CHILD"); mode != "" {
		os.Exit(child(mode))
	}
	os.Exit(m.Run())
}

// faulty panics where a test says.
type faulty struct {
	*fake.Backend
	where string
}

func (f faulty) Plan(ctx context.Context, is ...control.Intent) (*control.Plan, error) {
	if f.where == "command" {
		panic("a command panics")
	}
	return f.Backend.Plan(ctx, is...)
}

func (f faulty) Steps(key string) []feed.Line {
	if f.where == "update" {
		panic("update panics")
	}
	return f.Backend.Steps(key)
}

// faultyInput panics on the key "!".
type faultyInput struct{ *os.File }

func (f faultyInput) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	if bytes.IndexByte(p[:n], '!') >= 0 {
		panic("a goroutine panics")
	}
	return n, err
}

// child is the program: the scene's dashboard, or a command without a screen.
func child(mode string) int {
	if mode == "headless" {
		fmt.Println("ok")
		return 0
	}
	be := fake.Scene(time.Now())
	log, err := os.OpenFile(os.Getenv("TUI_LOG"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 99
	}
	cfg := Config{Backend: faulty{be, mode}, Location: time.UTC, LogPath: log.Name(), Logger: slog.New(slog.NewTextHandler(log, nil))}
	if mode == "goroutine" {
		cfg.Input = faultyInput{os.Stdin}
	}
	switch mode {
	case "die":
		go func() {
			time.Sleep(500 * time.Millisecond)
			fmt.Println("a library prints")
			panic("a goroutine of somebody else panics")
		}()
	case "flood":
		be.Set(fake.Many(10_000, time.Now(), 2))
		go flood(be)
	case "kill":
		time.AfterFunc(500*time.Millisecond, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) })
	}
	if mode == "quiet" { // the same fleet again and again: ages do not grow
		go func() {
			for v := uint64(2); ; v++ {
				time.Sleep(100 * time.Millisecond)
				s := fake.Snapshot(time.Now())
				s.Version = v
				be.Set(s)
			}
		}()
		be.Wait()
	}
	err = Run(context.Background(), cfg)
	fmt.Printf("\r\nwrites=%d err=%v\r\n", len(be.Writes()), err)
	var sig *SignalError
	switch {
	case errors.As(err, &sig):
		return 128 + int(sig.Signal.(syscall.Signal))
	case err != nil:
		return 70
	}
	return 0
}

// terminal under test: a pty with an emulator at its other end.
type ptyTest struct {
	t      *testing.T
	ptm    *os.File
	pts    *os.File
	cmd    *exec.Cmd
	before *term.State
	log    string

	mu    sync.Mutex
	emu   *vt.Emulator
	raw   bytes.Buffer
	ended chan struct{}
}

func startPTY(t *testing.T, mode string, w, h int) *ptyTest {
	t.Helper()
	ptm, pts, err := pty.Open()
	if err != nil {
		t.Skip("no pseudo terminal here: ", err)
	}
	if err := pty.Setsize(ptm, &pty.Winsize{Rows: uint16(h), Cols: uint16(w)}); err != nil {
		t.Fatal(err)
	}
	p := &ptyTest{t: t, ptm: ptm, pts: pts, emu: vt.NewEmulator(w, h), ended: make(chan struct{}), log: filepath.Join(t.TempDir(), "log")}
	if p.before, err = term.GetState(pts.Fd()); err != nil {
		t.Fatal(err)
	}
	p.cmd = exec.Command(os.Args[0])
	if mode == "die" || mode == "kill" { // a terminal ends with the leader of its session: that is the shell
		p.cmd = exec.Command("/bin/sh", "-c", `"$0"; code=$?; sleep 1; exit $code`, os.Args[0])
	}
	p.cmd.Env = append(os.Environ(), "TUI_CHILD="+mode, "TUI_LOG="+p.log, "TERM=xterm-256color", "NO_COLOR=", "TMUX=")
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = pts, pts, pts
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, p.emu) // its answers: this terminal is silent
	go func() {
		defer close(p.ended)
		buf := make([]byte, 64<<10)
		for {
			n, err := ptm.Read(buf)
			p.mu.Lock()
			p.raw.Write(buf[:n])
			p.emu.Write(buf[:n])
			p.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = pts.Close()
		_ = ptm.Close()
		<-p.ended
		if c, ok := p.emu.InputPipe().(io.Closer); ok {
			_ = c.Close() // ends the reader of its answers
		}
	})
	return p
}

func (p *ptyTest) write(s string) {
	p.t.Helper()
	if _, err := io.WriteString(p.ptm, s); err != nil {
		p.t.Fatal(err)
	}
}

func (p *ptyTest) screen() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.emu.String()
}

func (p *ptyTest) bytes() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bytes.Clone(p.raw.Bytes())
}

// until waits for a text on the screen.
func (p *ptyTest) until(text string) {
	p.t.Helper()
	p.when(text, func(s string) bool { return strings.Contains(s, text) })
}

func (p *ptyTest) when(what string, ok func(string) bool) {
	p.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		s := p.screen()
		if ok(s) {
			return
		}
		if time.Now().After(end) {
			p.t.Fatalf("the screen never showed %q:\n%s", what, s)
		}
	}
}

// exit waits for the end of the program and returns its code.
func (p *ptyTest) exit() int {
	p.t.Helper()
	done := make(chan error, 1)
	go func() { done <- p.cmd.Wait() }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		p.t.Fatalf("the program does not end:\n%s", p.screen())
	}
	if log, _ := os.ReadFile(p.log); strings.Contains(string(log), "DATA RACE") || strings.Contains(string(p.bytes()), "DATA RACE") {
		p.t.Errorf("a data race in the program:\n%s\n%s", log, p.bytes())
	}
	return p.cmd.ProcessState.ExitCode()
}

// restored fails unless the terminal is as it was.
func (p *ptyTest) restored() {
	p.t.Helper()
	after, err := term.GetState(p.pts.Fd())
	if err != nil {
		p.t.Fatal(err)
	}
	if !reflect.DeepEqual(p.before, after) {
		p.t.Errorf("the mode of the terminal is not as before: %+v, was %+v", after, p.before)
	}
	time.Sleep(50 * time.Millisecond)
	raw := string(p.bytes())
	for on, off := range map[string]string{"\x1b[?1049h": "\x1b[?1049l", "\x1b[?25l": "\x1b[?25h", "\x1b[?2004h": "\x1b[?2004l"} {
		if strings.LastIndex(raw, on) > strings.LastIndex(raw, off) {
			p.t.Errorf("%q was sent and not taken back by %q", on, off)
		}
	}
}

func TestQuit(t *testing.T) {
	p := startPTY(t, "run", 100, 30)
	p.until("SettleConsumer")
	p.write("q")
	if code := p.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	p.restored()
}

func TestSeveralKeysInOneWrite(t *testing.T) {
	p := startPTY(t, "run", 100, 30)
	p.until("SettleConsumer")
	p.write("jjj/set")
	p.when("the filter set", func(s string) bool { return strings.Contains(s, "/set") })
	p.write("\r")
	p.until("filter set")
	p.until("4 of 8 listeners")
	p.write("\x1b")
	p.until("8 listeners")
}

func TestCrashRestoresTheTerminal(t *testing.T) {
	for mode, keys := range map[string]string{"update": "2k\r", "command": "p", "goroutine": "!"} {
		t.Run(mode, func(t *testing.T) {
			p := startPTY(t, mode, 100, 30)
			p.until("SettleConsumer")
			p.write(keys)
			if code := p.exit(); code == 0 {
				t.Error("exit code 0 after a panic")
			}
			p.restored()
			log, err := os.ReadFile(p.log)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"panics", "goroutine", "pty_test.go"} {
				if !strings.Contains(string(log), want) {
					t.Errorf("the log has no %q: %s", want, log)
				}
			}
			if !strings.Contains(string(p.bytes()), p.log) {
				t.Error("the error does not name the log")
			}
			if strings.Contains(string(p.bytes()), "pty_test.go") {
				t.Error("the stack was written to the terminal")
			}
		})
	}
}

func TestSignalsRestoreTheTerminal(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) {
			p := startPTY(t, "run", 100, 30)
			p.until("SettleConsumer")
			if err := p.cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			if code := p.exit(); code != 128+int(sig) {
				t.Errorf("exit code %d", code)
			}
			p.restored()
			log, _ := os.ReadFile(p.log)
			if sig == syscall.SIGQUIT && !strings.Contains(string(log), "goroutine") {
				t.Error("no stacks in the log after SIGQUIT")
			}
		})
	}
}

// A command without a screen writes nothing but its own text and does not wait for
// a terminal that answers nothing.
func TestHeadlessLeavesTheTerminalAlone(t *testing.T) {
	begin := time.Now()
	p := startPTY(t, "headless", 100, 30)
	if code := p.exit(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	took := time.Since(begin)
	time.Sleep(50 * time.Millisecond)
	if got := string(p.bytes()); got != "ok\r\n" {
		t.Errorf("wrote %q", got)
	}
	t.Logf("took %v", took)
	if took > 2*time.Second { // the query that must not happen waits 5 s
		t.Errorf("took %v", took)
	}
}

func TestIdleWritesNothing(t *testing.T) {
	p := startPTY(t, "quiet", 100, 30)
	p.until("SettleConsumer")
	time.Sleep(500 * time.Millisecond)
	before := len(p.bytes())
	time.Sleep(1500 * time.Millisecond)
	if after := p.bytes(); len(after) != before {
		t.Errorf("%d bytes written while nothing changed: %q", len(after)-before, after[before:])
	}
	begin := time.Now()
	user, system := cpuOf(t, p.cmd.Process.Pid)
	time.Sleep(3 * time.Second)
	user2, system2 := cpuOf(t, p.cmd.Process.Pid)
	share := float64(user2-user+system2-system) / float64(time.Since(begin))
	t.Logf("idle: %.2f %% of a core", 100*share)
	if share > 0.1 {
		t.Errorf("idle, and %.1f %% of a core", 100*share)
	}
}

// cpuOf is the processor time of a process, from /proc; zero where there is none.
func cpuOf(t *testing.T, pid int) (user, system time.Duration) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Log("no processor time: ", err)
		return 0, 0
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	tick := func(s string) time.Duration {
		var n int64
		_, _ = fmt.Sscan(s, &n)
		return time.Duration(n) * 10 * time.Millisecond
	}
	return tick(f[11]), tick(f[12])
}

func TestPauseThroughTheTerminal(t *testing.T) {
	p := startPTY(t, "run", 100, 40)
	p.until("SettleConsumer")
	p.write("j")
	p.write("p")
	p.until("Pause settle-service/SettleConsumer in PROD")
	p.until("enable=false")
	p.write("vendor")
	time.Sleep(400 * time.Millisecond)
	p.write("\t\t\t")
	p.until("▸ Cancel")
	p.write("\x1b[C")
	p.until("▸ Pause")
	p.write("\r")
	p.until("pause: settle-service written")
	p.until("pause done in")
	p.write("q")
	p.exit()
	p.restored()
	if !strings.Contains(string(p.bytes()), "writes=1") {
		t.Error("no write")
	}
}

// A panic that nothing can catch, and a kill: the terminal comes back all the same, and
// what was printed and the stack are in the log, not on the screen.
func TestDeathRestoresTheTerminal(t *testing.T) {
	for _, mode := range []string{"die", "kill"} {
		t.Run(mode, func(t *testing.T) {
			p := startPTY(t, mode, 100, 30)
			p.until("SettleConsumer")
			if code := p.exit(); code == 0 {
				t.Error("exit code 0")
			}
			p.until("the dashboard died; its last words are in")
			p.restored()
			if mode == "kill" {
				return
			}
			log, _ := os.ReadFile(p.log)
			for _, want := range []string{"a library prints", "a goroutine of somebody else panics", "pty_test.go"} {
				if !strings.Contains(string(log), want) {
					t.Errorf("the log has no %q:\n%s", want, log)
				}
				if strings.Contains(string(p.bytes()), want) {
					t.Errorf("%q was written to the terminal", want)
				}
			}
		})
	}
}

func TestSuspend(t *testing.T) {
	p := startPTY(t, "run", 100, 30)
	p.until("SettleConsumer")
	p.write("\x1a") // its group is orphaned, so the stop is ignored and it goes on
	p.when("a second screen", func(string) bool { return bytes.Count(p.bytes(), []byte("\x1b[?1049h")) >= 2 })
	p.until("SettleConsumer")
	p.write("2")
	p.until("follows")
	p.write("qq")
	if code := p.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	p.restored()
}
