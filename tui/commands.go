package tui

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/belay-mq/belay/registry/control"
	"github.com/belay-mq/belay/registry/fleet"
)

// Deadlines of the backend's calls.
const (
	planFor    = 10 * time.Second
	applyFor   = 30 * time.Second
	historyFor = 15 * time.Second
)

// The answers of commands. The ask tells a dialog which of its questions is
// answered.
type (
	planMsg struct {
		ask  uint64
		plan *control.Plan
		err  error
	}
	applyMsg struct {
		ask    uint64
		ticket control.Ticket
		err    error
	}
	undoMsg struct {
		plan *control.Plan
		err  error
	}
	historyMsg struct {
		app      string
		versions []control.Version
		err      error
	}
	crashMsg struct{ crash *Crash }
)

// call runs f beside the loop, with a deadline. What it returns is a message;
// a panic in it becomes one too.
func (m *Model) call(d time.Duration, f func(context.Context) tea.Msg) tea.Cmd {
	ctx := m.ctx
	return func() (msg tea.Msg) {
		defer func() {
			if r := recover(); r != nil {
				msg = crashMsg{&Crash{Value: r, Stack: debug.Stack()}}
			}
		}()
		ctx, cancel := context.WithTimeoutCause(ctx, d, fmt.Errorf("no answer within %s", d))
		defer cancel()
		return f(ctx)
	}
}

// ask numbers a question.
func (m *Model) ask() uint64 {
	m.asks++
	return m.asks
}

func (m *Model) planCmd(ask uint64, intents []control.Intent) tea.Cmd {
	return m.call(planFor, func(ctx context.Context) tea.Msg {
		p, err := m.be.Plan(ctx, intents...)
		return planMsg{ask, p, cause(ctx, err)}
	})
}

func (m *Model) applyCmd(ask uint64, plan *control.Plan) tea.Cmd {
	return m.call(applyFor, func(ctx context.Context) tea.Msg {
		t, err := m.be.Apply(ctx, plan)
		return applyMsg{ask, t, cause(ctx, err)}
	})
}

func (m *Model) undoCmd() tea.Cmd {
	return m.call(planFor, func(ctx context.Context) tea.Msg {
		p, err := m.be.UndoPlan(ctx)
		return undoMsg{p, cause(ctx, err)}
	})
}

func (m *Model) historyCmd(app string) tea.Cmd {
	return m.call(historyFor, func(ctx context.Context) tea.Msg {
		vs, err := m.be.History(ctx, app)
		return historyMsg{app, vs, cause(ctx, err)}
	})
}

// detailCmd reads the history for the detail of a listener.
func (m *Model) detailCmd(id fleet.ID) tea.Cmd { return m.historyCmd(id.App) }

func (m *Model) refreshCmd() tea.Cmd {
	return m.call(planFor, func(context.Context) tea.Msg {
		m.be.Refresh()
		return nil
	})
}

func (m *Model) outageCmd(o Outages, name string) tea.Cmd {
	return m.call(applyFor, func(context.Context) tea.Msg {
		if err := o.Toggle(name); err != nil {
			return noticeMsg{"outage " + name + ": " + err.Error(), true}
		}
		return noticeMsg{"outage " + name + " switched; the same command switches it back", false}
	})
}

// cause gives the deadline's own words instead of "context deadline exceeded".
func cause(ctx context.Context, err error) error {
	if err != nil && errors.Is(err, context.DeadlineExceeded) {
		if c := context.Cause(ctx); c != nil {
			return fmt.Errorf("%w (%w)", c, err)
		}
	}
	return err
}
