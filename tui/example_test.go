package tui_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"

	"github.com/belay-mq/belay/tui"
	"github.com/belay-mq/belay/tui/internal/fake"
)

// A program has the terminal until the user quits.
func ExampleRun() {
	backend := fake.Scene(time.Now()) // in a program: what the servers say
	err := tui.Run(context.Background(), tui.Config{
		Backend: backend,
		Input:   strings.NewReader("q"), // in a program: left out
		Output:  discard{},
		Label:   "PROD",
		Keys:    map[string]string{"pause": "ctrl-p"},
	})
	var crash *tui.Crash
	fmt.Println(err, errors.As(err, &crash))
	// Output: <nil> false
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// The model can be driven without a terminal, as tests do.
func ExampleModel() {
	m, err := tui.NewModel(context.Background(), tui.Config{Backend: fake.Scene(time.Now())})
	if err != nil {
		fmt.Println(err)
		return
	}
	m.Update(tea.WindowSizeMsg{Width: 100, Height: 24})
	for _, line := range strings.Split(ansi.Strip(m.View()), "\n")[4:7] {
		fmt.Println(strings.TrimSpace(line[:50]))
	}
	// Output:
	// settle  SettleConsumer   ● running
	// order   AuditConsumer    ! drift
	// order   InvoiceConsumer  ● running
}
