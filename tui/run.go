package tui

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/belay-mq/belay/tui/input"
	_ "github.com/belay-mq/belay/tui/quiet" // before Bubble Tea's initialiser
)

// SignalError is returned by Run when a signal ended the dashboard. The terminal
// has been restored.
type SignalError struct {
	Signal os.Signal
}

func (e *SignalError) Error() string { return "the dashboard was ended by " + e.Signal.String() }

// endWithin is how long the program may take to end after a signal or a crash;
// then the terminal is restored without it.
const endWithin = 2 * time.Second

// framesPerSecond is how often a frame may go out. The renderer wakes up that often
// also where nothing changes, and a key is seen after half the time between two.
const framesPerSecond = 30

// Run has the terminal and shows the dashboard until the user quits (nil), the
// context ends (its cause), a signal ends it (*SignalError) or it crashes (*Crash). In
// every case the terminal is as it was before. A terminal that goes away ends it
// like SIGHUP.
func Run(ctx context.Context, cfg Config) error {
	env := os.Getenv
	if cfg.Env != nil {
		env = lookup(cfg.Env)
	}
	if env("NO_COLOR") != "" || env("TERM") == "dumb" {
		cfg.NoColor = true
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m, err := NewModel(ctx, cfg)
	if err != nil {
		return err
	}
	m.env = env
	r := &runner{m: m, ended: make(chan error, 1)}
	t, out, err := openTTY(cfg, env, r.gone)
	if err != nil {
		return err
	}
	m.term = t
	r.p = tea.NewProgram(r, tea.WithContext(ctx), tea.WithInput(t.reader), tea.WithOutput(out), tea.WithAltScreen(), tea.WithFPS(framesPerSecond),
		tea.WithoutSignalHandler(), tea.WithoutCatchPanics())

	sig := make(chan os.Signal, 1)
	signal.Notify(sig, ends...)
	defer signal.Stop(sig)
	done := make(chan error, 1)
	go func() {
		defer func() {
			if v := recover(); v != nil {
				done <- &Crash{Value: v, Stack: debug.Stack()}
			}
		}()
		_, err := r.p.Run()
		done <- err
	}()

	var why error // why it ends, when the program did not end by itself
	select {
	case err = <-done:
	case s := <-sig:
		why = &SignalError{s}
		if wantsStacks(s) {
			m.log.Error("the dashboard was ended by a signal that asks for the stacks", "signal", s.String(), "stack", stacks())
		}
	case why = <-r.ended:
	}
	rough := why != nil
	if why != nil {
		r.p.Kill()
		select {
		case <-done:
			rough = errors.Is(why, errGone)
		case <-time.After(endWithin):
		}
	}
	var c *Crash
	if errors.As(err, &c) {
		rough = true
	}
	t.close(rough)
	return r.outcome(ctx, err, why)
}

// errGone says that the terminal went away.
var errGone = errors.New("the terminal was closed")

// outcome is what Run returns.
func (r *runner) outcome(ctx context.Context, err, why error) error {
	crash := r.crashed()
	if crash == nil {
		errors.As(err, &crash)
	}
	if crash == nil {
		errors.As(why, &crash)
	}
	switch {
	case crash != nil:
		crash.LogPath = r.m.cfg.LogPath
		r.m.log.Error("the dashboard crashed", "panic", fmt.Sprint(crash.Value), "stack", string(crash.Stack))
		return crash
	case why != nil:
		return why
	case err == nil:
		return nil
	case errors.Is(err, tea.ErrProgramKilled) && ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fmt.Errorf("drawing the dashboard: %w", err)
}

// stacks returns the stacks of all goroutines, at most a megabyte.
func stacks() string {
	buf := make([]byte, 1<<20)
	return string(buf[:runtime.Stack(buf, true)])
}

func lookup(env []string) func(string) string {
	return func(name string) string {
		for i := len(env) - 1; i >= 0; i-- {
			if v, ok := strings.CutPrefix(env[i], name+"="); ok {
				return v
			}
		}
		return ""
	}
}

// runner is the model as Bubble Tea sees it: a panic in the model or in a command ends
// the program in order instead of tearing it down with the terminal raw.
type runner struct {
	m     *Model
	p     *tea.Program
	ended chan error // why the program must end

	mu    sync.Mutex
	crash *Crash
}

// end asks Run to end the program.
func (r *runner) end(why error) {
	select {
	case r.ended <- why:
	default:
	}
}

// gone takes the end of the input: a terminal was closed; anything else has no
// more keys.
func (r *runner) gone(err error, isTerminal bool) {
	var p *input.Panic
	if errors.As(err, &p) {
		r.end(&Crash{Value: p.Value, Stack: p.Stack})
		return
	}
	if isTerminal {
		r.end(errGone)
	}
}

func (r *runner) crashed() *Crash {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.crash == nil {
		return r.m.crash
	}
	return r.crash
}

// caught takes a panic; it is deferred.
func (r *runner) caught(cmd *tea.Cmd) {
	v := recover()
	if v == nil {
		return
	}
	r.mu.Lock()
	if r.crash == nil {
		r.crash = &Crash{Value: v, Stack: debug.Stack()}
	}
	c := r.crash
	r.mu.Unlock()
	if cmd != nil {
		*cmd = tea.Quit
		return
	}
	r.end(c)
}

// Init implements tea.Model.
func (r *runner) Init() tea.Cmd { return r.safe(r.m.Init()) }

// Update implements tea.Model.
func (r *runner) Update(msg tea.Msg) (_ tea.Model, cmd tea.Cmd) {
	defer r.caught(&cmd)
	_, cmd = r.m.Update(msg)
	return r, r.safe(cmd)
}

// View implements tea.Model.
func (r *runner) View() (s string) {
	defer r.caught(nil)
	return r.m.View()
}

// safe wraps a command so that a panic in it ends the program in order.
func (r *runner) safe(cmd tea.Cmd) tea.Cmd {
	if cmd == nil {
		return nil
	}
	return func() (msg tea.Msg) {
		defer func() {
			if v := recover(); v != nil {
				msg = crashMsg{&Crash{Value: v, Stack: debug.Stack()}}
			}
		}()
		msg = cmd()
		if batch, ok := msg.(tea.BatchMsg); ok {
			for i := range batch {
				batch[i] = r.safe(batch[i])
			}
		}
		return msg
	}
}
