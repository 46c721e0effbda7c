//go:build unix

package tui

import (
	"context"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/charmbracelet/x/term"
	"golang.org/x/sys/unix"
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

// divert makes everything that is written to standard output and error while the
// dashboard runs go to the log instead of across the screen: what a library
// prints, the runtime's last words. It returns the terminal, and what undoes it. Without a log
// nothing is diverted.
func divert(logPath string) (*os.File, func()) {
	none := func() {}
	if logPath == "" {
		return os.Stdout, none
	}
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return os.Stdout, none
	}
	defer func() { _ = log.Close() }()
	screen, err := unix.FcntlInt(os.Stdout.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return os.Stdout, none
	}
	undo := []func(){}
	for _, fd := range []int{1, 2} {
		if !term.IsTerminal(uintptr(fd)) {
			continue // redirected by the user already
		}
		old, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			continue
		}
		if unix.Dup2(int(log.Fd()), fd) != nil {
			_ = unix.Close(old)
			continue
		}
		undo = append(undo, func() {
			_ = unix.Dup2(old, fd)
			_ = unix.Close(old)
		})
	}
	f := os.NewFile(uintptr(screen), "terminal")
	return f, func() {
		for _, u := range undo {
			u()
		}
		_ = f.Close()
	}
}

// watchman waits for the end of its input. When that comes without a word, the
// dashboard has died in a way that nothing in it could catch: it gives the terminal back.
const watchman = `trap '' INT HUP TERM QUIT TSTP TTOU TTIN
IFS= read -r word && exit 0
stty "$BELAY_STTY" 2>/dev/null </dev/tty
printf '\033[?2004l\033[?1002l\033[?1003l\033[?1006l\033[?25h\033[?1049l\r\nthe dashboard died; its last words are in %s\r\n' "$BELAY_LOG" >/dev/tty`

// watch starts the watchman: a small shell that restores the terminal if this
// process dies of a fatal error, of SIGKILL or of a panic in a goroutine that is
// not ours. It returns what dismisses it. Where there is no shell, nobody watches.
func watch(logPath string) (dismiss func()) {
	none := func() {}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	get := exec.CommandContext(ctx, "stty", "-g")
	get.Stdin = os.Stdin
	mode, err := get.Output()
	if err != nil {
		return none
	}
	if logPath == "" {
		logPath = "no log"
	}
	cmd := exec.Command("/bin/sh", "-c", watchman) //nolint:noctx // it outlives every context
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "BELAY_STTY=" + strings.TrimSpace(string(mode)), "BELAY_LOG=" + logPath}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil || cmd.Start() != nil {
		return none
	}
	return func() {
		_, _ = io.WriteString(in, "bye\n")
		_ = in.Close()
		_ = cmd.Wait()
	}
}
