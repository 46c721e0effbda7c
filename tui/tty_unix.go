//go:build unix

package tui

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// ends are the signals that end the dashboard.
var ends = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}

// wantsStacks reports whether a signal asks for the stacks of all goroutines.
func wantsStacks(s os.Signal) bool { return s == syscall.SIGQUIT }

// stopProcess stops the process's group and returns when it is continued. Where nobody
// controls the jobs, the signal does nothing, and it returns soon.
func stopProcess() error {
	cont := make(chan os.Signal, 1)
	signal.Notify(cont, syscall.SIGCONT)
	defer signal.Stop(cont)
	if err := syscall.Kill(0, syscall.SIGTSTP); err != nil {
		return err
	}
	select {
	case <-cont:
	case <-time.After(500 * time.Millisecond):
	}
	return nil
}
