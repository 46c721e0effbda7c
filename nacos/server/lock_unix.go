//go:build unix

package server

import (
	"fmt"
	"io"
	"os"
	"syscall"
)

// lockFile takes a lock that ends with the process or with the file's Close.
func lockFile(path string) (io.Closer, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("%s: another server uses this directory: %w", path, err)
	}
	return f, nil
}
