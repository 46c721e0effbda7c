package server

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// disk keeps a database in a directory: one folder per config with config.json and one file per version, and
// namespaces.json. Files are written beside their place, synced and renamed, so that a crash leaves the old or the new
// one, never half of one. A version is written before the change that it describes; loading drops one whose change did
// not come to pass.
type disk struct {
	root string
	lock io.Closer
}

const (
	configFile     = "config.json"
	namespacesFile = "namespaces.json"
	configsDir     = "configs"
	versionPrefix  = "version-"
	partial        = ".partial"
)

// openDisk reads what is kept in root into d, which from then on writes there. It fails while another server has it.
func openDisk(root string, d *database) (*disk, error) {
	if err := os.MkdirAll(filepath.Join(root, configsDir), 0o700); err != nil {
		return nil, fmt.Errorf("create the data directory: %w", err)
	}
	lock, err := lockFile(filepath.Join(root, "lock"))
	if err != nil {
		return nil, err
	}
	k := &disk{root: root, lock: lock}
	if err := k.load(d); err != nil {
		return nil, errors.Join(err, k.close())
	}
	d.journal = k
	return k, nil
}

// close lets another server have the directory.
func (k *disk) close() error { return k.lock.Close() }

func (k *disk) load(d *database) error {
	if err := readJSON(filepath.Join(k.root, namespacesFile), &d.namespaces); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	folders, err := os.ReadDir(filepath.Join(k.root, configsDir))
	if err != nil {
		return fmt.Errorf("read the data directory: %w", err)
	}
	for _, folder := range folders {
		if !folder.IsDir() {
			continue
		}
		if err := d.loadFolder(filepath.Join(k.root, configsDir, folder.Name())); err != nil {
			return err
		}
	}
	return nil
}

// loadFolder reads one config and its versions.
func (d *database) loadFolder(folder string) error {
	var r *record
	if err := readJSON(filepath.Join(folder, configFile), &r); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	files, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("read %s: %w", folder, err)
	}
	var rows []*version
	for _, file := range files {
		path := filepath.Join(folder, file.Name())
		if strings.HasSuffix(file.Name(), partial) {
			if err := os.Remove(path); err != nil {
				return fmt.Errorf("remove what a crash left: %w", err)
			}
			continue
		}
		if !strings.HasPrefix(file.Name(), versionPrefix) {
			continue
		}
		v := new(version)
		if err := readJSON(path, v); err != nil {
			return err
		}
		rows = append(rows, v)
	}
	slices.SortFunc(rows, func(a, b *version) int { return cmp.Compare(a.NID, b.NID) })
	if n := len(rows); n > 0 && !rows[n-1].happened(r) {
		if err := os.Remove(filepath.Join(folder, versionName(rows[n-1]))); err != nil {
			return fmt.Errorf("remove a version whose change was not made: %w", err)
		}
		rows = rows[:n-1]
	}
	for _, v := range rows {
		d.versions[v.key()] = append(d.versions[v.key()], v)
		d.lastNID, d.lastID = max(d.lastNID, v.NID), max(d.lastID, v.ConfigID)
	}
	if r != nil {
		d.configs[r.key()] = r
		d.lastNID, d.lastID = max(d.lastNID, r.NID), max(d.lastID, r.ID)
	}
	return nil
}

// happened reports whether the change that the newest version of a config describes was made: r is what is stored.
func (v *version) happened(r *record) bool {
	if v.Op == "D" {
		return r == nil
	}
	return r != nil && r.NID == v.NID
}

// folder is where a config is kept: named so that people find it, told apart by a hash.
func (k *disk) folder(c key) string {
	sum := sha256.Sum256([]byte(c.tenant + "\x00" + c.group + "\x00" + c.dataID))
	name := strings.Map(func(r rune) rune {
		if illegalRune(r) || r == ':' {
			return '_'
		}
		return r
	}, c.group+"_"+c.dataID)
	return filepath.Join(k.root, configsDir, name[:min(len(name), 100)]+"_"+hex.EncodeToString(sum[:8]))
}

func versionName(v *version) string { return versionPrefix + strconv.FormatInt(v.NID, 10) + ".json" }

func (k *disk) putConfig(r *record) error {
	return writeJSON(filepath.Join(k.folder(r.key()), configFile), r)
}

func (k *disk) dropConfig(r *record) error {
	folder := k.folder(r.key())
	if err := os.Remove(filepath.Join(folder, configFile)); err != nil {
		return err
	}
	return syncDir(folder)
}

func (k *disk) putVersion(v *version) error {
	folder := k.folder(v.key())
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	return writeJSON(filepath.Join(folder, versionName(v)), v)
}

func (k *disk) dropVersion(v *version) error {
	err := os.Remove(filepath.Join(k.folder(v.key()), versionName(v)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (k *disk) putNamespaces(list []namespace) error {
	return writeJSON(filepath.Join(k.root, namespacesFile), list)
}

func readJSON(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read stored data: %w", err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s is damaged; move it away to go on without it: %w", path, err)
	}
	return nil
}

// writeJSON replaces a file as a whole.
func writeJSON(path string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	temporary := path + partial
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(temporary, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes renames and removals in a directory last.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	err = dir.Sync()
	return errors.Join(err, dir.Close())
}
