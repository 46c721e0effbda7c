package control

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/belay-mq/belay/nacos"
	"github.com/belay-mq/belay/registry/fleet"
	"github.com/belay-mq/belay/registry/toggle"
)

// AuditLine is one line of the audit log: one write of one application's file.
type AuditLine struct {
	At      time.Time       `json:"at"`
	By      string          `json:"by"`
	Context string          `json:"context,omitempty"`
	App     string          `json:"app"`
	DataID  string          `json:"dataId"`
	Op      Op              `json:"op"` // "timed" for a planned change that was due
	Reason  string          `json:"reason,omitempty"`
	Changes []AuditChange   `json:"changes"`
	Before  string          `json:"before"` // md5 of the file, "" where there was none
	After   string          `json:"after"`  // md5 of the file as written, "" where it was not
	Result  string          `json:"result"` // "written", "unchanged", "conflict" or "failed"
	Merged  bool            `json:"merged,omitempty"`
	Error   string          `json:"error,omitempty"`
	Took    float64         `json:"tookMs"`
	Orders  []toggle.Intent `json:"intents,omitempty"`
}

// AuditChange is one value that a write changed.
type AuditChange struct {
	ID     string `json:"id"`
	Field  string `json:"field"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// timedOp is the operation of a planned change that was carried out.
const timedOp Op = "timed"

const auditFile = "audit.ndjson"

// audit appends lines to a file. Several processes may share it: each line is one
// write to a file opened for appending.
type audit struct {
	dir string
	mu  sync.Mutex
}

func newAudit(dir string) *audit { return &audit{dir: dir} }

// check says whether lines can be written.
func (a *audit) check() error {
	if a.dir == "" {
		return nil
	}
	f, err := a.open()
	if err != nil {
		return err
	}
	return f.Close()
}

func (a *audit) open() (*os.File, error) {
	if err := os.MkdirAll(a.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of the audit log: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(a.dir, auditFile), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	return f, nil
}

// write appends a line and waits until it is on the disk.
func (a *audit) write(line AuditLine) (err error) {
	if a.dir == "" {
		return nil
	}
	data, err := json.Marshal(line)
	if err != nil {
		return fmt.Errorf("write the audit log: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	f, err := a.open()
	if err != nil {
		return err
	}
	defer func() {
		if e := f.Close(); err == nil && e != nil {
			err = fmt.Errorf("close the audit log: %w", e)
		}
	}()
	if _, err := f.Write(append(data, '\n')); err != nil {
		return fmt.Errorf("write the audit log: %w", err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("write the audit log to the disk: %w", err)
	}
	return nil
}

// auditWrite leaves the line of one write.
func (c *Control) auditWrite(f *FilePlan, w Written, pub *publication, began time.Time) {
	base := pub.base
	if pub.origin.Key != (nacos.Key{}) {
		base = pub.origin
	}
	line := AuditLine{
		At: began.UTC(), By: f.Intents[0].By, Context: c.cfg.Context, App: f.App, DataID: f.Base.Key.DataID, Op: f.Intents[0].Op,
		Reason: f.Intents[0].Reason, Before: base.MD5, After: w.MD5, Result: string(w.Phase), Merged: w.Merged,
		Took: float64(time.Since(began).Microseconds()) / 1000, Orders: pub.orders, Changes: []AuditChange{},
	}
	switch {
	case w.Phase == fleet.Done:
		line.Result = "unchanged"
	case w.Err != nil:
		line.Error = w.Err.Error()
	}
	before := toggle.Parse(toggle.FormatOf(f.Base.Key.DataID), []byte(base.Text))
	after := toggle.Parse(toggle.FormatOf(f.Base.Key.DataID), []byte(pub.text))
	for _, ch := range toggle.Diff(before, after) {
		line.Changes = append(line.Changes, AuditChange{ch.ListenerID, ch.Field, ch.Before, ch.After})
	}
	if err := c.audit.write(line); err != nil {
		c.log.Error("a write left no line in the audit log", "app", f.App, "error", err)
	}
}
