package registry

import (
	"crypto/md5"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// keptPath is where the last good file of this application is kept.
func (r *Registry) keptPath() string {
	safe := func(s string) string {
		return strings.Map(func(c rune) rune {
			if c == '/' || c == '\\' || c == 0 || c == ':' {
				return '_'
			}
			return c
		}, s)
	}
	return filepath.Join(r.cfg.StateDir, "toggles", safe(r.cfg.App), safe(r.cfg.DataID))
}

// keepFile stores the text for a start without Nacos. It replaces the old file in
// one step, so that a crash leaves one or the other.
func (r *Registry) keepFile(text string) {
	if r.cfg.StateDir == "" {
		return
	}
	if err := writeFile(r.keptPath(), []byte(text)); err != nil {
		r.log.Warn("the toggle file could not be kept for the next start", "error", err)
	}
}

func (r *Registry) keptFile() ([]byte, bool) {
	if r.cfg.StateDir == "" {
		return nil, false
	}
	text, err := os.ReadFile(r.keptPath())
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			r.log.Warn("the kept toggle file could not be read", "error", err)
		}
		return nil, false
	}
	return text, true
}

// sum is the md5 that Nacos gives a text.
func sum(text []byte) string {
	s := md5.Sum(text)
	return hex.EncodeToString(s[:])
}

func writeFile(path string, data []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, ".kept-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // fails once it was renamed, which is fine
	_, err = tmp.Write(data)
	if err == nil {
		err = tmp.Sync()
	}
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	return err
}
