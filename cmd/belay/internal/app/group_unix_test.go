//go:build unix

package app

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What a command started ends with it: they are a process group, which is not ours.
func TestExecHandlerEndsWhatItStarted(t *testing.T) {
	pid := filepath.Join(t.TempDir(), "pid")
	t.Setenv("PID", pid)
	err := handlerOf(t, `{exec: {command: [sh, -c, 'sleep 60 & echo $! > "$PID"; wait'], timeout: 2s}}`)(t.Context(), message("m"))
	judge(t, err, "sh was ended after 2s", false)
	text, err := os.ReadFile(pid)
	number := strings.TrimSpace(string(text))
	child, cerr := strconv.Atoi(number)
	if err != nil || cerr != nil {
		t.Fatalf("the command wrote %q, %v", text, err)
	}
	for end := time.Now().Add(3 * time.Second); syscall.Kill(child, 0) == nil; time.Sleep(10 * time.Millisecond) {
		if stat, _ := os.ReadFile("/proc/" + number + "/stat"); strings.Contains(string(stat), ") Z ") {
			break // dead; nobody has reaped it
		}
		if time.Now().After(end) {
			t.Fatal("what the command started goes on")
		}
	}
}
