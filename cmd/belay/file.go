package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/belay-mq/belay/registry/presence"
	"github.com/belay-mq/belay/registry/toggle"
)

// maxToggleFile bounds what is read of a file or of standard input.
const maxToggleFile = 16 << 20

const fileHelp = `Works on a toggle file on disk, or on standard input (-), without any server. The
kind of file follows its name (.properties, .yml, .yaml) or --type.`

func newFileCmd(g *globals) *cobra.Command {
	cmd := &cobra.Command{Use: "file", Short: "Check, show and edit a toggle file on disk", Long: fileHelp}
	cmd.AddCommand(newFileCheckCmd(g), newFileShowCmd(g), newFileSetCmd(g))
	return cmd
}

// toggleSource is a toggle file on disk or standard input.
type toggleSource struct {
	path   string
	kind   string // --type
	format toggle.Format
	text   []byte
}

func addType(cmd *cobra.Command, s *toggleSource) {
	cmd.Flags().StringVar(&s.kind, "type", "", "`kind` of the file: properties, yml or yaml (default: by its name)")
}

func (s *toggleSource) read(stdin io.Reader, path string) (err error) {
	s.path = path
	switch s.kind {
	case "":
		s.format = toggle.FormatOf(path)
	case "properties":
		s.format = toggle.Properties
	case "yml", "yaml":
		s.format = toggle.YAML
	default:
		return usageError("--type %s: use properties, yml or yaml", s.kind)
	}
	in := stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return usageError("%w", err)
		}
		defer f.Close()
		in = f
	}
	s.text, err = io.ReadAll(io.LimitReader(in, maxToggleFile+1))
	switch {
	case err != nil:
		return fmt.Errorf("read %s: %w", path, err)
	case len(s.text) > maxToggleFile:
		return fmt.Errorf("%s is larger than %d MiB, which is no toggle file", path, maxToggleFile>>20)
	}
	return nil
}

// The JSON shapes of 'file check' and 'file show' are stable.
type checkedFile struct {
	Entries  []checkedEntry   `json:"entries"`
	Warnings []checkedProblem `json:"warnings"`
	Fatal    *checkedProblem  `json:"fatal"`
}

type checkedEntry struct {
	Index int `json:"index"`
	shownToggle
}

type shownToggle struct {
	ListenerID *string `json:"listenerId"`
	Enable     *bool   `json:"enable"`
	Min        *int    `json:"min"`
	Max        *int    `json:"max"`
	Reason     *string `json:"reason"`
	UpdatedBy  *string `json:"updatedBy"`
	UpdatedAt  *string `json:"updatedAt"`
	PauseAt    *string `json:"pauseAt,omitempty"`
	ResumeAt   *string `json:"resumeAt"`
	Queue      *string `json:"queue"`
}

func shownOf(t toggle.Toggle, named bool) shownToggle {
	s := shownToggle{
		Enable: t.Enable, Min: t.Min, Max: t.Max, Reason: t.Reason, UpdatedBy: t.UpdatedBy,
		UpdatedAt: t.UpdatedAt, PauseAt: t.PauseAt, ResumeAt: t.ResumeAt, Queue: t.Queue,
	}
	if named {
		s.ListenerID = &t.ListenerID
	}
	return s
}

type checkedProblem struct {
	Code string `json:"code"`
	Line int    `json:"line"`
	Text string `json:"text"`
}

func newFileCheckCmd(g *globals) *cobra.Command {
	var s toggleSource
	var strict bool
	cmd := &cobra.Command{
		Use: "check FILE", Short: "Lint a toggle file; tells what services do with each fault", Args: cobra.ExactArgs(1),
		Long: fileHelp + "\n\nExit status 1 where nothing can be read, with --strict also where there are warnings.",
	}
	addType(cmd, &s)
	cmd.Flags().BoolVar(&strict, "strict", false, "fail on warnings as well")
	o := addOutput(cmd, "table", "json", "yaml")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if err := o.check(); err != nil {
			return err
		}
		if err := s.read(g.in, args[0]); err != nil {
			return err
		}
		f := toggle.Parse(s.format, s.text)
		if err := g.showCheck(o, s.path, f); err != nil {
			return err
		}
		if f.Fatal != nil || strict && len(f.Warnings) > 0 {
			return &exitError{code: exitFailed}
		}
		return nil
	}
	return cmd
}

func (g *globals) showCheck(o *output, path string, f *toggle.File) error {
	out := checkedFile{Entries: []checkedEntry{}, Warnings: []checkedProblem{}}
	for _, e := range f.Entries {
		out.Entries = append(out.Entries, checkedEntry{Index: e.Index, shownToggle: shownOf(e.Toggle, e.Named)})
	}
	for _, w := range f.Warnings {
		out.Warnings = append(out.Warnings, checkedProblem{string(w.Code), w.Line, w.Text})
	}
	if f.Fatal != nil {
		out.Fatal = &checkedProblem{string(f.Fatal.Code), f.Fatal.Line, f.Fatal.Text}
	}
	if done, err := o.structured(g.out, out); done {
		return err
	}
	problems := f.Warnings
	if f.Fatal != nil {
		problems = []toggle.Problem{*f.Fatal}
	}
	for _, p := range problems {
		line := fmt.Sprintf("%s:%d: %s: %s", path, p.Line, p.Code, p.Text)
		if says := p.Class().Sentence("a service"); says != "" {
			line += "; " + says
		}
		if _, err := fmt.Fprintln(g.out, presence.Clean(line, 2000)); err != nil {
			return err
		}
	}
	if len(problems) == 0 {
		_, err := fmt.Fprintf(g.out, "%s: %d entries, no problems\n", path, len(f.Entries))
		return err
	}
	return nil
}

func newFileShowCmd(g *globals) *cobra.Command {
	var s toggleSource
	cmd := &cobra.Command{
		Use: "show FILE", Short: "Show what a toggle file puts in force", Args: cobra.ExactArgs(1), Long: fileHelp,
	}
	addType(cmd, &s)
	o := addOutput(cmd, "table", "json", "yaml")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if err := o.check(); err != nil {
			return err
		}
		if err := s.read(g.in, args[0]); err != nil {
			return err
		}
		f := toggle.Parse(s.format, s.text)
		if f.Fatal != nil {
			return fmt.Errorf("%s:%d: %s: %s", s.path, f.Fatal.Line, f.Fatal.Code, f.Fatal.Text)
		}
		list := []shownToggle{}
		var rows [][]string
		for _, t := range f.InForce() {
			list = append(list, shownOf(t, true))
			rows = append(rows, []string{
				t.ListenerID, orDash(t.Enable), orDash(t.Min), orDash(t.Max), orDash(t.Reason),
				orDash(t.UpdatedBy), orDash(t.UpdatedAt), orDash(t.PauseAt), orDash(t.ResumeAt), orDash(t.Queue),
			})
		}
		if done, err := o.structured(g.out, list); done {
			return err
		}
		return printTable(g.out, []string{"LISTENER", "ENABLE", "MIN", "MAX", "REASON", "UPDATED BY", "UPDATED AT", "PAUSE AT", "RESUME AT", "QUEUE"},
			map[string]bool{"MIN": true, "MAX": true}, rows)
	}
	return cmd
}

func orDash[T any](v *T) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprint(*v)
}

// fileEdit is the flags of 'file set'.
type fileEdit struct {
	toggleSource
	enable, min, max, reason, pauseAt, resumeAt, updatedBy, updatedAt, queue string
	intent                                                                   string
	add, force, write                                                        bool
}

const fileSetHelp = fileHelp + `

Only the lines that must change differ; everything else stays byte for byte. The result
goes to standard output, or with -w into the file. A value of "none" removes a field. An
edit after which services would not take the file is refused: exit status 1, nothing is
written, and with -o json {"code","line"} goes to standard error.`

func newFileSetCmd(g *globals) *cobra.Command {
	var e fileEdit
	cmd := &cobra.Command{
		Use: "set FILE [ID]", Short: "Edit one listener in a toggle file", Long: fileSetHelp, Args: cobra.RangeArgs(1, 2),
	}
	addType(cmd, &e.toggleSource)
	f := cmd.Flags()
	f.StringVar(&e.enable, "enable", "", "`true`, false or none")
	f.StringVar(&e.min, "min", "", "`number` of consumers to start with, or none")
	f.StringVar(&e.max, "max", "", "`number` of consumers at most, or none")
	f.StringVar(&e.reason, "reason", "", "why, or none")
	f.StringVar(&e.pauseAt, "pause-at", "", "RFC 3339 `time`, or none")
	f.StringVar(&e.resumeAt, "resume-at", "", "RFC 3339 `time`, or none")
	f.StringVar(&e.updatedBy, "updated-by", "", "who, or none")
	f.StringVar(&e.updatedAt, "updated-at", "", "RFC 3339 `time`, or none")
	f.StringVar(&e.queue, "queue", "", "queue of a listener that no instance reports, or none")
	f.BoolVar(&e.add, "add", false, "make an entry where the listener has none")
	f.BoolVar(&e.force, "force", false, "write although the file has a fault that was there before")
	f.StringVar(&e.intent, "intent", "", "take the change from this JSON `file` instead of flags (- is standard input)")
	f.BoolVarP(&e.write, "write", "w", false, "write the file instead of printing it")
	o := addOutput(cmd, "table", "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.check(); err != nil {
			return err
		}
		err := g.fileSet(cmd, &e, args)
		var r *toggle.Refusal
		if !errors.As(err, &r) {
			return err
		}
		if o.format == "json" {
			shape := struct {
				Code string `json:"code"`
				Line *int   `json:"line"`
			}{Code: string(r.Code)}
			if r.Line > 0 {
				shape.Line = &r.Line
			}
			if err := json.NewEncoder(g.err).Encode(shape); err != nil {
				return err
			}
			return &exitError{code: exitFailed}
		}
		return fmt.Errorf("%s: %w", args[0], err)
	}
	return cmd
}

func (g *globals) fileSet(cmd *cobra.Command, e *fileEdit, args []string) error {
	in, err := e.wanted(cmd, g.in, args)
	if err != nil {
		return err
	}
	if err := e.read(g.in, args[0]); err != nil {
		return err
	}
	after, err := toggle.Edit(e.format, e.text, e.force, in)
	if err != nil {
		return err
	}
	if !e.write || args[0] == "-" {
		_, err = g.out.Write(after)
		return err
	}
	return writeInPlace(args[0], after)
}

// wanted makes the intent from the flags, or from a file.
func (e *fileEdit) wanted(cmd *cobra.Command, stdin io.Reader, args []string) (toggle.Intent, error) {
	var in toggle.Intent
	if e.intent != "" {
		if len(args) > 1 {
			return in, usageError("with --intent the listener stands in the intent; leave out %s", args[1])
		}
		data, err := readIntent(stdin, e.intent)
		if err != nil {
			return in, usageError("%w", err)
		}
		if err := json.Unmarshal(data, &in); err != nil {
			return in, usageError("%s is no intent: %w", e.intent, err)
		}
		return in, nil
	}
	if len(args) < 2 {
		return in, usageError("name the listener, or give --intent")
	}
	in = toggle.Intent{Op: toggle.Set, ListenerID: args[1]}
	if e.add {
		in.Op = toggle.Add
	}
	err := errors.Join(
		setField(cmd, "enable", e.enable, &in.Enable, strconv.ParseBool),
		setField(cmd, "min", e.min, &in.Min, strconv.Atoi),
		setField(cmd, "max", e.max, &in.Max, strconv.Atoi),
		setField(cmd, "reason", e.reason, &in.Reason, asText),
		setField(cmd, "pause-at", e.pauseAt, &in.PauseAt, asText),
		setField(cmd, "resume-at", e.resumeAt, &in.ResumeAt, asText),
		setField(cmd, "updated-by", e.updatedBy, &in.UpdatedBy, asText),
		setField(cmd, "updated-at", e.updatedAt, &in.UpdatedAt, asText),
		setField(cmd, "queue", e.queue, &in.Queue, asText),
	)
	if err != nil {
		return in, usageError("%w", err)
	}
	return in, nil
}

func readIntent(stdin io.Reader, path string) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(io.LimitReader(stdin, maxToggleFile))
	}
	return os.ReadFile(path)
}

func asText(s string) (string, error) { return s, nil }

// setField takes a flag that was given into the intent; "none" removes the field.
func setField[T any](cmd *cobra.Command, flag, value string, into *toggle.Opt[T], parse func(string) (T, error)) error {
	if !cmd.Flags().Changed(flag) {
		return nil
	}
	if value == "none" {
		*into = toggle.Null[T]()
		return nil
	}
	v, err := parse(value)
	if err != nil {
		return fmt.Errorf("--%s %s: %w", flag, value, errors.Unwrap(err))
	}
	*into = toggle.To(v)
	return nil
}

// writeInPlace replaces a file in one step and keeps its permissions.
func writeInPlace(path string, data []byte) error {
	path, err := filepath.EvalSymlinks(path) // the link stays
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".belay-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer os.Remove(tmp.Name()) // fails once it was renamed, which is fine
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Chmod(info.Mode().Perm()), tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
