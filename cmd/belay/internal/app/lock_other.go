//go:build !unix

package app

import (
	"os"
	"path/filepath"
)

// lockDir keeps a directory for one process, as far as the system refuses to open a
// file that another process has open for writing.
func lockDir(dir string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	return func() { f.Close() }, nil
}
