package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// writeListeners declares AuditConsumer of an application.
func writeListeners(t *testing.T, app string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "listeners.yaml")
	text := fmt.Sprintf("app: %s\nlisteners:\n  - {id: AuditConsumer, queues: [audit], concurrency: 1..1, handler: discard}\n", app)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A process that hangs is named as behind, with exit status 4; when it goes on it does
// what the file says without anybody's help.
func TestUnconfirmedNamesWhoIsBehind(t *testing.T) {
	configPath := startDemo(t)
	var out bytes.Buffer
	child := exec.Command("belay", "--config", configPath, "run", "-f", writeListeners(t, "order-service"), "--instance", "frozen:1:a")
	child.Stdout, child.Stderr = &out, &out
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	t.Cleanup(func() { _ = child.Process.Kill() }) // fails once it has ended, which is fine
	row := func() (listRow, string) {
		code, text, errs := belay(t, "--config", configPath, "get", "order-service/AuditConsumer", "-o", "json")
		if code != exitOK {
			return listRow{}, errs
		}
		return decode[[]listRow](t, text)[0], text
	}
	eventually(t, 30*time.Second, "three instances run it", func() (bool, string) {
		r, text := row()
		return r.Instances.Applied == 3 && r.Instances.Total == 3, text
	})
	signal := func(s os.Signal) {
		t.Helper()
		if err := child.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	unconfirmed := func(want resultInstances, behind string, args ...string) {
		t.Helper()
		code, text, errs := belay(t, append(args, "--config", configPath, "--yes", "--wait", "2s", "-o", "json")...)
		r := decode[[]result](t, text)[0]
		if code != exitUnconfirmed || r.Result != "unconfirmed" || r.Instances != want {
			t.Errorf("belay %v with a hanging instance: exit %d, %s", args, code, text)
		}
		if !strings.Contains(errs, "order-service/AuditConsumer: behind: "+behind) {
			t.Errorf("belay %v: nobody is named as behind in %s", args, errs)
		}
	}
	all := func(state string) {
		t.Helper()
		eventually(t, 30*time.Second, state+" on all three", func() (bool, string) {
			r, text := row()
			return r.State == state && r.Instances.Applied == 3, text
		})
	}

	// It hung before the command began, which therefore does not know of it: but the
	// broker still shows its consumer.
	signal(syscall.SIGSTOP)
	unconfirmed(resultInstances{Total: 2, Applied: 2}, "queue audit", "pause", "order-service/AuditConsumer")
	signal(syscall.SIGCONT)
	all("paused")
	if code, text, errs := belay(t, "--config", configPath, "resume", "order-service/AuditConsumer", "--yes"); code != exitOK {
		t.Fatalf("resume: exit %d, %s%s", code, text, errs)
	}
	all("running")

	// It begins to hang while the command runs.
	editor := filepath.Join(t.TempDir(), "editor.sh")
	script := fmt.Sprintf("kill -STOP %d\nsed -i 's/consumers\\[2\\].enable=true/consumers[2].enable=false/' \"$1\"\n", child.Process.Pid)
	if err := os.WriteFile(editor, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("VISUAL", "sh "+editor)
	unconfirmed(resultInstances{Total: 3, Applied: 2}, "frozen:1:a", "edit", "order-service")
	signal(syscall.SIGCONT)
	all("paused")
	signal(syscall.SIGTERM)
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("belay run ended with %v: %s", err, &out)
		}
	case <-time.After(30 * time.Second):
		t.Errorf("belay run did not end: %s", &out)
	}
}

// A bare id that two applications have is nobody's.
func TestAmbiguousID(t *testing.T) {
	configPath := startDemo(t)
	background(t, "--config", configPath, "run", "-f", writeListeners(t, "other-service"), "--instance", "other:1:a")
	eventually(t, 30*time.Second, "both applications report it", func() (bool, string) {
		code, text, errs := belay(t, "--config", configPath, "list", "-o", "name", "AuditConsumer*")
		return code == exitOK && strings.Count(text, "AuditConsumer") == 2, text + errs
	})
	for _, args := range [][]string{{"get", "AuditConsumer"}, {"pause", "AuditConsumer", "--yes"}, {"report", "AuditConsumer"}} {
		code, stdout, stderr := belay(t, append([]string{"--config", configPath}, args...)...)
		if want := "order-service/AuditConsumer, other-service/AuditConsumer; say which"; code != exitUsage || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("belay %v: exit %d, %q, %q; want %d and %q", args, code, stdout, stderr, exitUsage, want)
		}
	}
}
