package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/belay-mq/belay/nacos"
	"github.com/belay-mq/belay/registry/toggle"
)

// mostVersions bounds how many versions are read.
const mostVersions = 100

// History returns the versions of an application's toggle file, newest first,
// each with what it changed. The error is [ErrNoHistory] where the store keeps
// none, else as of nacos.Store.History.
func (c *Control) History(ctx context.Context, app string) ([]Version, error) {
	if c.cfg.Store == nil {
		return nil, errNoStore
	}
	key := c.key(app)
	h, ok := c.cfg.Store.(Historian)
	if !ok {
		return nil, ErrNoHistory
	}
	changes, err := h.History(ctx, key, mostVersions)
	if errors.Is(err, nacos.ErrRemovedAPI) {
		return nil, fmt.Errorf("%w: %w", ErrNoHistory, err)
	}
	if err != nil {
		return nil, fmt.Errorf("read the history of %s: %w", key, err)
	}
	format := toggle.FormatOf(key.DataID)
	versions := make([]Version, len(changes))
	var good *toggle.File // the newest that could be read
	for i, ch := range slices.Backward(changes) {
		v := Version{ID: ch.ID, At: ch.At, By: ch.By, From: ch.From, Op: ch.Op, MD5: ch.MD5, Text: ch.Text, Known: ch.Known}
		if ch.Known {
			before, after := toggle.Parse(format, []byte(ch.Previous)), toggle.Parse(format, []byte(ch.Text))
			if before.Fatal == nil {
				good = before
			}
			if v.Unreadable = after.Unreadable(); v.Unreadable == "" {
				v.Changes = toggle.Diff(good, after)
			}
			if v.MD5 == "" && ch.Text != "" {
				v.MD5 = sum(ch.Text)
			}
		}
		versions[i] = v
	}
	return versions, nil
}

// version finds one version of an application's file.
func (c *Control) version(ctx context.Context, app, id string) (Version, error) {
	versions, err := c.History(ctx, app)
	if err != nil {
		return Version{}, err
	}
	for _, v := range versions {
		if v.ID != id {
			continue
		}
		if !v.Known || v.Text == "" {
			return v, fmt.Errorf("roll %s back to version %s: its content could not be read", app, id)
		}
		return v, nil
	}
	return Version{}, fmt.Errorf("roll %s back: %w: %s is not among the newest %d", app, ErrNoVersion, id, mostVersions)
}

// keepStates completes an old version so that it leaves no listener in a state that
// nothing asks for: one that is paused now and on which the version has no opinion
// is wanted running.
func (c *Control) keepStates(f *FilePlan, text string) (string, error) {
	format := toggle.FormatOf(f.Base.Key.DataID)
	version := toggle.Parse(format, []byte(text))
	if version.Fatal != nil {
		return text, nil // refused later, with its line
	}
	for _, now := range parse(f.Base).InForce() {
		old, _ := version.Lookup(now.ListenerID)
		if old.Enable == nil && now.Enable != nil && !*now.Enable {
			out, err := toggle.Edit(format, []byte(text), true, toggle.Intent{Op: toggle.Add, ListenerID: now.ListenerID, Enable: toggle.To(true)})
			if err != nil {
				return "", fmt.Errorf("roll %s back: write out that %s runs: %w", f.App, now.ListenerID, err)
			}
			text = string(out)
			f.Warnings = append(f.Warnings, Warning{Code: "undo-absent", App: f.App,
				Text: fmt.Sprintf("%s is paused, and that version has no enable for it: enable=true is written out", now.ListenerID)})
		}
		var lost []string
		if now.Min != nil && old.Min == nil {
			lost = append(lost, "minimum")
		}
		if now.Max != nil && old.Max == nil {
			lost = append(lost, "maximum")
		}
		if len(lost) > 0 {
			f.Warnings = append(f.Warnings, Warning{Code: "undo-kept", App: f.App,
				Text: fmt.Sprintf("that version has no %s for %s: it keeps its consumers until it restarts", strings.Join(lost, " and no "), now.ListenerID)})
		}
	}
	return text, nil
}
