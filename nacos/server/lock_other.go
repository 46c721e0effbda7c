//go:build !unix

package server

import (
	"io"
	"os"
)

// lockFile only creates the file: these systems have no lock that ends with the process.
func lockFile(path string) (io.Closer, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
}
