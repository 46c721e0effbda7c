package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/charmbracelet/x/term"

	"github.com/belay-mq/belay/registry/control"
)

// errNotConfirmed: the user said no.
var errNotConfirmed = errors.New("not confirmed; nothing was written")

// isTerminal reports whether a stream is a terminal.
func isTerminal(s any) bool {
	f, ok := s.(*os.File)
	return ok && term.IsTerminal(f.Fd())
}

// confirm asks before a write. One listener: yes or no. Several: their number. A context
// that asks for its name gets its name. --yes answers it all.
func (g *globals) confirm(p *control.Plan, w writeFlags) error {
	if w.yes {
		return nil
	}
	if !isTerminal(g.in) {
		return usageError("there is no terminal to confirm on; look at it with --dry-run, then give --yes")
	}
	n := 0
	for _, f := range p.Files {
		if !f.Unchanged {
			n += len(f.Affected)
		}
	}
	if p.Timed {
		fmt.Fprintln(g.err, timedText(p))
	}
	want, question := "y", fmt.Sprintf("Write this to %s? [y/N] ", p.Context)
	switch {
	case p.Confirm.TypeContextName:
		want, question = p.Context, fmt.Sprintf("This changes %d listeners. Type the context's name, %s, to write: ", n, p.Context)
	case n > 1:
		want, question = fmt.Sprint(n), fmt.Sprintf("This changes %d listeners in %s. Type their number to write: ", n, p.Context)
	}
	return g.ask(question, want)
}

// ask puts a question and returns errNotConfirmed unless the answer is the wanted one.
func (g *globals) ask(question, want string) error {
	if !isTerminal(g.in) {
		return usageError("there is no terminal to confirm on; give --yes")
	}
	fmt.Fprint(g.err, question)
	answer, err := bufio.NewReader(g.in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the confirmation: %w", err)
	}
	answer = strings.TrimSpace(answer)
	if answer == want || want == "y" && strings.EqualFold(answer, "yes") {
		return nil
	}
	return errNotConfirmed
}

// timedText says when a planned change happens and who can carry it out.
func timedText(p *control.Plan) string {
	var b strings.Builder
	for _, f := range p.Files {
		for _, in := range f.Intents {
			if !in.At.IsZero() {
				fmt.Fprintf(&b, "%s pauses at %s\n", in.ID, bothZones(in.At))
			}
			if !in.Until.IsZero() {
				fmt.Fprintf(&b, "%s resumes at %s\n", in.ID, bothZones(in.Until))
			}
		}
	}
	fmt.Fprintf(&b, "%d processes can carry it out", p.Writers)
	return b.String()
}

func bothZones(t time.Time) string {
	return t.Local().Format("2006-01-02 15:04 MST") + " (" + t.UTC().Format("15:04 UTC") + ")"
}
