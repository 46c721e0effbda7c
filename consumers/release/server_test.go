package release

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// server is a private database server that a test may stop, kill and start.
type server struct {
	testing.TB
	kind    string
	dir     string
	port    int
	options []string
	cmd     *exec.Cmd
	out     bytes.Buffer
}

// binary finds a program of a server's, also where Debian keeps it off the path.
func binary(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		if real, err := filepath.EvalSymlinks(path); err == nil && filepath.Base(real) == name {
			return real
		}
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	found = append(found, "/usr/sbin/"+name)
	for _, path := range found {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return ""
}

// startServer starts a server on loopback with an empty database "apollo".
func startServer(t *testing.T, kind string, options ...string) *server {
	t.Helper()
	program := map[string]string{"mysql": "mariadbd", "postgres": "postgres"}[kind]
	if binary(program) == "" {
		t.Skipf("no %s here: a test that stops its server needs one of its own", program)
	}
	// Not t.TempDir: the server runs as another user where the test runs as root.
	dir, err := os.MkdirTemp("", "belay-"+kind)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{TB: t, kind: kind, dir: dir, port: l.Addr().(*net.TCPAddr).Port, options: options}
	l.Close()
	t.Cleanup(func() {
		s.signal(syscall.SIGCONT)
		s.kill()
		os.RemoveAll(dir)
	})
	if id := s.credential(); id != nil {
		if err := os.Chown(dir, int(id.Uid), int(id.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	if kind == "mysql" {
		s.run(s.command("mariadb-install-db", "--no-defaults", "--datadir="+dir, "--auth-root-authentication-method=normal", "--skip-test-db"))
	} else {
		s.run(s.command("initdb", "-D", dir, "-U", "belay", "-A", "trust", "-E", "UTF8", "--no-sync"))
	}
	s.start()
	admin, err := Open(context.Background(), s.dsn(map[string]string{"mysql": "mysql", "postgres": "postgres"}[kind]))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if _, err := admin.SQL().Exec("CREATE DATABASE apollo"); err != nil {
		t.Fatal(err)
	}
	return s
}

// credential is the user that the server runs as; nil is the test's own.
func (s *server) credential() *syscall.Credential {
	if os.Getuid() != 0 {
		return nil
	}
	for _, name := range []string{map[string]string{"mysql": "mysql", "postgres": "postgres"}[s.kind], "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			uid, _ := strconv.Atoi(u.Uid)
			gid, _ := strconv.Atoi(u.Gid)
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		}
	}
	s.Skip("no user to run a server as")
	return nil
}

func (s *server) command(name string, args ...string) *exec.Cmd {
	path := binary(name)
	if path == "" {
		path = name
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.credential()}
	return cmd
}

func (s *server) run(cmd *exec.Cmd) {
	s.Helper()
	if out, err := cmd.CombinedOutput(); err != nil {
		s.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
}

func (s *server) start() {
	s.Helper()
	if s.kind == "mysql" {
		s.cmd = s.command("mariadbd", append([]string{"--no-defaults", "--datadir=" + s.dir, "--bind-address=127.0.0.1", fmt.Sprintf("--port=%d", s.port),
			"--socket=" + s.dir + "/s.sock", "--pid-file=" + s.dir + "/pid", "--innodb-buffer-pool-size=16M", "--innodb-log-file-size=8M", "--skip-log-bin"}, s.options...)...)
	} else {
		s.cmd = s.command("postgres", append([]string{"-D", s.dir, "-p", strconv.Itoa(s.port), "-c", "listen_addresses=127.0.0.1",
			"-c", "unix_socket_directories=" + s.dir, "-c", "shared_buffers=16MB"}, s.options...)...)
	}
	s.out.Reset()
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	if err := s.cmd.Start(); err != nil {
		s.Fatal(err)
	}
	limit := time.Now().Add(60 * time.Second)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		db, err := Open(ctx, s.dsn(map[string]string{"mysql": "mysql", "postgres": "postgres"}[s.kind]))
		cancel()
		if err == nil {
			db.Close()
			return
		}
		if time.Now().After(limit) {
			s.kill()
			s.Fatalf("the server does not answer: %v\n%s", err, s.out.String())
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (s *server) dsn(database string) DSN {
	if s.kind == "mysql" {
		return DSN(fmt.Sprintf("mysql://root@127.0.0.1:%d/%s", s.port, database))
	}
	return DSN(fmt.Sprintf("postgres://belay@127.0.0.1:%d/%s?sslmode=disable", s.port, database))
}

func (s *server) signal(sig syscall.Signal) {
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	s.cmd.Process.Signal(sig)
	if s.kind != "postgres" || sig != syscall.SIGSTOP && sig != syscall.SIGCONT {
		return
	}
	// Each connection of PostgreSQL's has a process of its own.
	out, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", s.cmd.Process.Pid, s.cmd.Process.Pid))
	for _, pid := range strings.Fields(string(out)) {
		if n, err := strconv.Atoi(pid); err == nil {
			syscall.Kill(n, sig)
		}
	}
}

// stop ends the server in order.
func (s *server) stop() {
	s.Helper()
	s.signal(map[string]syscall.Signal{"mysql": syscall.SIGTERM, "postgres": syscall.SIGINT}[s.kind])
	s.cmd.Wait()
	s.cmd = nil
}

// kill ends it as a crash would.
func (s *server) kill() {
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	s.cmd.Process.Kill()
	s.cmd.Wait()
	s.cmd = nil
}

func onEachServer(t *testing.T, test func(*testing.T, *server, *bench)) {
	for _, kind := range []string{"mysql", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			s := startServer(t, kind)
			test(t, s, newBench(t, kind, s.dsn("apollo")))
		})
	}
}

// The server restarts while the scanner reads a long backlog.
func TestServerRestart(t *testing.T) {
	onEachServer(t, func(t *testing.T, srv *server, b *bench) {
		const n = 10_000
		arrived := make(chan struct{})
		var stopped atomic.Bool
		count := 0
		s := b.scanner(func(c *ScannerConfig) {
			c.Listeners = append(c.Listeners, ListenerFunc(func(context.Context, Row) error {
				if count++; count == 700 {
					close(arrived)
				}
				if !stopped.Load() {
					time.Sleep(100 * time.Microsecond)
				}
				return nil
			}))
		})
		b.step(s)
		b.fill(n, 1)
		b.start(s)
		<-arrived
		srv.stop()
		stopped.Store(true)
		b.wait("an error", func() bool { return s.Status().LastError != nil })
		if st := s.Status(); st.Phase != PhaseFailing || st.NextTry.IsZero() || st.ErrorSince.IsZero() {
			t.Errorf("status %+v", st)
		}
		srv.start()
		b.wait("all rows", func() bool { return len(b.seen()) >= n })
		b.insertAs(n+1, "after+the+restart")
		b.wait("the next row", func() bool { return len(b.seen()) >= n+1 })
		for i, r := range b.seen() {
			if r.ID != uint64(i+1) || r.Epoch != 1 {
				t.Fatalf("row %d is %d in epoch %d", i+1, r.ID, r.Epoch)
			}
		}
		b.wait("the recovery", func() bool { return len(b.seenEvents(EventRecovered)) > 0 && s.Status().LastError == nil })
	})
}

// The server falls silent without closing anything.
func TestServerHangs(t *testing.T) {
	hang, deadline := 4*time.Second, 500*time.Millisecond
	if os.Getenv("BELAY_TEST_SOAK") == "1" {
		hang, deadline = 30*time.Second, 5*time.Second
	}
	onEachServer(t, func(t *testing.T, srv *server, b *bench) {
		s := b.scanner(func(c *ScannerConfig) { c.QueryTimeout = deadline })
		b.step(s)
		b.insert("a+b+c")
		b.start(s)
		b.wait("the first row", func() bool { return len(b.seen()) == 1 })
		srv.signal(syscall.SIGSTOP)
		stopped := time.Now()
		b.wait("an error", func() bool { return s.Status().LastError != nil })
		if took := time.Since(stopped); took > deadline+5*time.Second {
			t.Errorf("the first error took %s with a deadline of %s", took, deadline)
		}
		asked := time.Now()
		s.Status()
		if took := time.Since(asked); took > time.Second {
			t.Errorf("the status took %s", took)
		}
		time.Sleep(hang - time.Since(stopped))
		if e := b.seenEvents(EventError); len(e) < 2 {
			t.Errorf("errors %v, want one for each deadline", e)
		}
		srv.signal(syscall.SIGCONT)
		b.insert("d+e+f")
		b.wait("the second row", func() bool { return len(b.seen()) == 2 })
		b.wait("the recovery", func() bool { return len(b.seenEvents(EventRecovered)) == 1 && s.Status().LastError == nil })
		b.want("1 2")
		b.noEvents(s, EventEpoch)
	})
}

// With a relaxed flush a crash loses the last transactions, and their ids are
// used again for other messages.
func TestServerCrashReusesIDs(t *testing.T) {
	srv := startServer(t, "mysql", "--innodb-flush-log-at-trx-commit=0", "--innodb-flush-log-at-timeout=2700")
	b := newBench(t, "mysql", srv.dsn("apollo"))
	s := b.scanner()
	b.bulk(10)
	b.exec("FLUSH TABLES `ReleaseMessage` FOR EXPORT") // writes the pages out
	b.exec("UNLOCK TABLES")
	b.exec("SET GLOBAL innodb_flush_log_at_trx_commit = 1")
	b.insert("kept+a+b")
	b.exec("SET GLOBAL innodb_flush_log_at_trx_commit = 0")
	b.step(s)
	lost := b.insert("lost+a+b", "lost+a+c")
	b.step(s)
	srv.kill()
	srv.start()
	rows, err := b.db.Recent(t.Context(), time.Unix(1, 0), 0)
	for tries := 0; err != nil && tries < 20; tries++ {
		rows, err = b.db.Recent(t.Context(), time.Unix(1, 0), 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	if last := rows[len(rows)-1]; last.ID >= lost[0] {
		t.Skipf("the crash lost nothing: the server had flushed row %d", last.ID)
	}
	again := b.insert("reused+a+b", "reused+a+c", "reused+a+d")
	if again[0] != lost[0] {
		t.Fatalf("ids %v after the crash, want %v again", again, lost)
	}
	if err := s.tick(t.Context()); err != nil {
		s.failed(err)
		b.step(s)
	}
	b.steps(s, 2)
	seen := b.seen()
	if got := show(seen[len(seen)-3:]); got != "2/12 2/13 2/14" {
		t.Errorf("delivered %q, want the reused ids in epoch 2; %v", show(seen), b.events)
	}
}
