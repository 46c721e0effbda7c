package release

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const checkpointVersion = 1

// checkpoint is a scanner's position as its file holds it.
type checkpoint struct {
	Version  int             `json:"version"`
	Database string          `json:"database"`
	Epoch    int             `json:"epoch"`
	Cursor   uint64          `json:"cursor"`
	Anchor   fingerprint     `json:"anchor"`
	Gaps     []checkpointGap `json:"gaps"`
	Rows     []fingerprint   `json:"rows"`
	Life     incarnation     `json:"life"`
}

type checkpointGap struct {
	Lo    uint64    `json:"lo"`
	Hi    uint64    `json:"hi"`
	Since time.Time `json:"since"`
}

// checkpointFile is named after the table's address, because two servers may
// have databases of one name.
func (s *Scanner) checkpointFile() string {
	return filepath.Join(s.cfg.CheckpointDir, fmt.Sprintf("release-%016x.json", fnv1a(s.db.dsn.address())))
}

// saveCheckpoint writes the position where it has moved. It is called after
// rows were handed over, so a crash in between hands them over again. A failure
// is an alarm and no more.
func (s *Scanner) saveCheckpoint() {
	if s.cfg.CheckpointDir == "" || !s.started {
		return
	}
	c := checkpoint{Version: checkpointVersion, Database: s.db.dsn.String(), Epoch: s.epoch, Cursor: s.cursor,
		Anchor: s.anchor, Rows: s.memory.newest(), Life: s.life}
	for _, g := range s.gaps.gaps {
		c.Gaps = append(c.Gaps, checkpointGap{Lo: g.lo, Hi: g.hi, Since: g.firstSeen.UTC()})
	}
	data, err := json.Marshal(c)
	if err == nil && bytes.Equal(data, s.saved) {
		return
	}
	if err == nil {
		err = replaceFile(s.checkpointFile(), data)
	}
	if err != nil {
		if s.saveErr == nil {
			s.event(Event{Kind: EventAlarm, Err: err, Text: fmt.Sprintf("the position cannot be kept: %v", err)})
		}
		s.saveErr = err
		return
	}
	s.saved, s.saveErr = data, nil
}

// replaceFile leaves the old or the new content, whatever happens.
func replaceFile(name string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// loadCheckpoint takes the position of an earlier process over, and says
// whether there was one that can be used.
func (s *Scanner) loadCheckpoint() bool {
	if s.cfg.CheckpointDir == "" {
		return false
	}
	data, err := os.ReadFile(s.checkpointFile())
	if os.IsNotExist(err) {
		return false
	}
	var c checkpoint
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if err == nil {
		err = c.check(s.db.dsn.String())
	}
	if err != nil {
		s.event(Event{Kind: EventAlarm, Err: err, Text: fmt.Sprintf("the checkpoint cannot be used, reading begins %d ids back: %v", s.cfg.LookBack, err)})
		return false
	}
	s.epoch, s.cursor, s.anchor, s.memory.rows, s.life, s.saved = c.Epoch, c.Cursor, c.Anchor, c.Rows, c.Life, data
	s.gaps = gapSet{}
	for _, g := range c.Gaps {
		s.gaps.append(&gap{lo: g.Lo, hi: g.Hi, firstSeen: g.Since, proof: ProofOpen})
	}
	return true
}

// check refuses a file that would make the scanner skip or repeat rows.
func (c checkpoint) check(database string) error {
	switch {
	case c.Version != checkpointVersion:
		return fmt.Errorf("it has version %d, want %d", c.Version, checkpointVersion)
	case c.Database != database:
		return fmt.Errorf("it belongs to %s", c.Database)
	case c.Epoch < 1 || c.Anchor.ID > c.Cursor:
		return fmt.Errorf("epoch %d, position %d and anchor %d do not fit", c.Epoch, c.Cursor, c.Anchor.ID)
	}
	var last uint64
	for _, g := range c.Gaps {
		if g.Lo <= last || g.Hi < g.Lo || g.Hi > c.Cursor {
			return fmt.Errorf("the gap %d to %d does not fit", g.Lo, g.Hi)
		}
		last = g.Hi
	}
	last = 0
	for _, f := range c.Rows {
		if f.ID <= last || f.ID > c.Cursor {
			return fmt.Errorf("the row %d does not fit", f.ID)
		}
		last = f.ID
	}
	return nil
}
