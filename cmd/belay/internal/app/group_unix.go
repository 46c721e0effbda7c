//go:build unix

package app

import (
	"os/exec"
	"syscall"
)

// ownGroup gives a command a process group of its own: ctrl-c in the terminal does not
// reach it, so that a stop lets it finish, and it is killed with all that it started.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
