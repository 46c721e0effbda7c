package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belay-mq/belay/cmd/belay/internal/app"
	"github.com/belay-mq/belay/nacos"
	"github.com/belay-mq/belay/registry/control"
	"github.com/belay-mq/belay/registry/fleet"
	"github.com/belay-mq/belay/registry/toggle"
)

func newRollbackCmd(g *globals) *cobra.Command {
	var w writeFlags
	cmd := &cobra.Command{
		Use: "rollback VERSION", Short: "Bring an earlier version of a toggle file back", Args: cobra.ExactArgs(1),
		Long: `Writes an earlier version of a toggle file back, as a new version. What the file says
now and the version does not is written out, so that no listener is left in a state that
nothing asks for. 'belay history' lists the versions.`,
	}
	w.add(cmd)
	o := addOutput(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.check(); err != nil {
			return err
		}
		b, end, err := g.settled(cmd.Context())
		if err != nil {
			return err
		}
		defer end()
		name, err := g.oneApp(b, "")
		if err != nil {
			return err
		}
		return g.carryOut(cmd.Context(), b, o, w, []control.Intent{{
			Op: control.Rollback, ID: fleet.ID{App: name}, Version: args[0], Reason: w.reason, Force: w.force,
		}})
	}
	return cmd
}

func newEditCmd(g *globals) *cobra.Command {
	var w writeFlags
	cmd := &cobra.Command{
		Use: "edit [APP]", Short: "Edit a toggle file of Nacos in $EDITOR", Args: cobra.MaximumNArgs(1), ValidArgsFunction: g.completeApps,
		Long: `Opens the toggle file of an application in $VISUAL or $EDITOR, shows what the edit
changes, asks, and writes it by compare-and-publish. Where somebody else has changed the
file meanwhile, nothing is written (exit status 3). A text that was edited and is not
written is kept in a file, whatever the cause.`,
	}
	w.add(cmd)
	o := addOutput(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.check(); err != nil {
			return err
		}
		b, end, err := g.settled(cmd.Context())
		if err != nil {
			return err
		}
		defer end()
		name, err := g.oneApp(b, strings.Join(args, ""))
		if err != nil {
			return err
		}
		file := b.Snapshot().App(name).File
		text, err := g.inEditor(cmd.Context(), file.Key.DataID, file.Text)
		if err == nil && text == file.Text {
			_, err = fmt.Fprintln(g.err, "nothing was changed")
			return err
		}
		if err == nil {
			w.editedMD5 = &file.MD5
			err = g.publishText(cmd.Context(), b, o, w, file, text)
		}
		if err == nil || statusOf(err) == exitUnconfirmed || text == "" || text == file.Text {
			return err
		}
		return keepText(err, file.Key.DataID, text)
	}
	return cmd
}

// publishText writes an edited text.
func (g *globals) publishText(ctx context.Context, b *app.Backend, o *output, w writeFlags, file nacos.State, text string) error {
	if f := toggle.Parse(toggle.FormatOf(file.Key.DataID), []byte(text)); f.Fatal != nil {
		return fmt.Errorf("line %d: %s: %s; nothing was written", f.Fatal.Line, f.Fatal.Code, f.Fatal.Text)
	}
	return g.carryOut(ctx, b, o, w, []control.Intent{{
		Op: control.Edit, ID: fleet.ID{App: file.Key.Group}, Text: &text, Reason: w.reason, Force: w.force,
	}})
}

// errEditedMeanwhile: the file in Nacos is no longer the one that the editor was given.
var errEditedMeanwhile = &exitError{exitConflict, errors.New("the file was changed while it was in the editor; nothing was written")}

// keepText leaves the edited text in a file, so that the work is not lost, and adds its
// name to the error.
func keepText(err error, name, text string) error {
	f, ferr := os.CreateTemp("", "belay-edit-*-"+filepath.Base(name))
	if ferr != nil {
		return errors.Join(err, ferr)
	}
	_, ferr = f.WriteString(text)
	if ferr = errors.Join(ferr, f.Close()); ferr != nil {
		return errors.Join(err, ferr)
	}
	if err.Error() == "" { // the results were printed
		return &exitError{statusOf(err), fmt.Errorf("your text is in %s", f.Name())}
	}
	return fmt.Errorf("%w; your text is in %s", err, f.Name())
}

// inEditor lets the user edit a text. The file is private and goes away afterwards. Of
// an editor that fails the text is returned too.
func (g *globals) inEditor(ctx context.Context, name, text string) (string, error) {
	editor := os.Getenv("VISUAL")
	if editor == "" {
		editor = os.Getenv("EDITOR")
	}
	words := strings.Fields(editor)
	if len(words) == 0 {
		return "", usageError("set $VISUAL or $EDITOR to your editor")
	}
	dir, err := os.MkdirTemp("", "belay-edit-")
	if err != nil {
		return "", fmt.Errorf("edit: %w", err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, filepath.Base(name))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("edit: %w", err)
	}
	cmd := exec.CommandContext(ctx, words[0], append(words[1:], path)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = g.in, g.err, g.err
	failure := cmd.Run()
	out, err := os.ReadFile(path)
	switch {
	case failure != nil:
		return string(out), fmt.Errorf("%s ended with an error; nothing was written: %w", words[0], failure)
	case err != nil:
		return "", fmt.Errorf("edit: %w", err)
	}
	return string(out), nil
}
