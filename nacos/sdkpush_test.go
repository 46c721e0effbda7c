package nacos

import (
	"context"
	"net/http"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/belay-mq/belay/nacos/server"
	"github.com/nacos-group/nacos-sdk-go/v2/common/constant"
)

// safeSDK skips a test of SDK clients where the store opens none.
func safeSDK(t *testing.T) {
	if !sdkSafe {
		t.Skip("no client of " + constant.CLIENT_VERSION + " is opened")
	}
}

// covered waits until the SDK clients of n configs have called back.
func covered(t *testing.T, s *Store, n int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		have := s.Health().SDKClients
		if have == n {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d of %d configs have an SDK client that works", have, n)
		}
	}
}

func sdkStore(t *testing.T, srv *server.Server) *Store {
	t.Helper()
	s, err := New(Config{Servers: []string{srv.Addr()}, PollInterval: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return Eager(s)
}

// keysOf creates n configs and watches them.
func keysOf(t *testing.T, s *Store, n int) (keys []Key, states []<-chan State) {
	t.Helper()
	for i := range n {
		k := Key{DataID: testKey.DataID, Group: "sdk" + strings.Repeat("x", i+1)}
		if _, err := s.Create(t.Context(), k, Content{Text: "a=1"}); err != nil && !strings.Contains(err.Error(), "changed meanwhile") {
			t.Fatal(err)
		}
		keys, states = append(keys, k), append(states, s.Watch(t.Context(), k))
	}
	return keys, states
}

const maxSDK = 32

// TestSDKPushes: the first 32 configs have a client each, and only the rest is
// listened to on the own connection.
func TestSDKPushes(t *testing.T) {
	safeSDK(t)
	srv, err := server.Start(t.Context(), server.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = srv.Close(context.Background()) }()
	s := sdkStore(t, srv)
	defer func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	began := time.Now()
	keys, states := keysOf(t, s, maxSDK+3)
	covered(t, s, maxSDK)
	t.Logf("%d clients after %v", maxSDK, time.Since(began))
	for i, k := range keys {
		if _, err := s.client.do(t.Context(), call{what: "publish", method: "POST", path: "/v1/cs/configs", form: publishForm(k, "a=2")}); err != nil {
			t.Fatal(err)
		}
		for end := time.After(20 * time.Second); ; {
			var st State
			select {
			case st = <-states[i]:
			case <-end:
				t.Fatalf("%s: not seen", k)
			}
			if st.Text == "a=2" {
				break
			}
		}
	}
}

func publishForm(k Key, text string) map[string][]string {
	return map[string][]string{"dataId": {k.DataID}, "group": {k.Group}, "content": {text}}
}

// TestSDKMisses: where a client does not announce a change, the own connection
// listens until the client calls back again.
func TestSDKMisses(t *testing.T) {
	safeSDK(t)
	srv, err := server.Start(t.Context(), server.Config{DumpTick: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = srv.Close(context.Background()) }()
	s, err := New(Config{Servers: []string{srv.Addr()}, PollInterval: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(context.Background()) }()
	keys, _ := keysOf(t, Eager(s), 1)
	covered(t, s, 1)
	// One change does not tell: the client may be asking just then, and so announce it
	// without a push; the poll may be quicker than a push.
	text := "a=1"
	publishUntil := func(n int) {
		for end := time.Now().Add(20 * time.Second); s.Health().SDKClients != n; {
			if time.Now().After(end) {
				t.Fatalf("not %d of 1 configs have an SDK client that works", n)
			}
			text += "x"
			if _, err := s.client.do(t.Context(), call{what: "publish", method: "POST", path: "/v1/cs/configs", form: publishForm(keys[0], text)}); err != nil {
				t.Fatal(err)
			}
			for next := time.Now().Add(time.Second); s.Health().SDKClients != n && time.Now().Before(next); {
				time.Sleep(5 * time.Millisecond)
			}
		}
	}
	srv.Faults().LosePushes(server.Always)
	publishUntil(0)
	srv.Faults().Reset()
	publishUntil(1)
}

// TestSDKTriesSeldom: a config whose client cannot be opened must not use up what
// the process may open.
func TestSDKTriesSeldom(t *testing.T) {
	s, err := New(Config{Servers: []string{"127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(context.Background()) }()
	k := &sdkClient{cell: s.cell(testKey)}
	for _, want := range []time.Duration{sdkRetryMin, 2 * sdkRetryMin, 4 * sdkRetryMin} {
		s.sdk.forget(k)
		if got := s.sdk.tries[k.cell].pause; got != want {
			t.Errorf("pause %v, want %v", got, want)
		}
	}
	for range 20 {
		s.sdk.forget(k)
	}
	if got := s.sdk.tries[k.cell].pause; got != sdkRetryMax {
		t.Errorf("pause %v, want %v", got, sdkRetryMax)
	}
	s.sdk.keep(k)
	if _, ok := s.sdk.tries[k.cell]; ok {
		t.Error("a client that opens is still tried seldom")
	}
}

// TestSDKLabels: a connection of the store that a callback opens is not the client's,
// which would seem alive for as long as the connection.
func TestSDKLabels(t *testing.T) {
	safeSDK(t)
	srv, err := server.Start(t.Context(), server.Config{DumpTick: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = srv.Close(context.Background()) }()
	s := sdkStore(t, srv)
	defer func() { _ = s.Close(context.Background()) }()
	keys, states := keysOf(t, s, 1)
	covered(t, s, 1)
	s.client.close() // the callback's read has to connect
	answer, err := http.PostForm("http://"+srv.Addr()+"/nacos/v1/cs/configs", publishForm(keys[0], "a=2"))
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	for st := range states[0] {
		if st.Text == "a=2" {
			break
		}
	}
	var text strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&text, 1)
	for stack := range strings.SplitSeq(text.String(), "\n\n") {
		if strings.Contains(stack, sdkLabel) && strings.Contains(stack, "net/http.(*persistConn)") {
			t.Errorf("taken for a client's:\n%s", stack)
		}
	}
}

// TestSDKClientsEnd opens and closes stores whose SDK clients are in use, and
// counts goroutines and descriptors.
func TestSDKClientsEnd(t *testing.T) {
	safeSDK(t)
	srv, err := server.Start(t.Context(), server.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = srv.Close(context.Background()) }()
	t.Setenv("TMPDIR", t.TempDir())
	counts := func() (int, int) {
		list, _ := os.ReadDir("/proc/self/fd")
		return runtime.NumGoroutine(), len(list)
	}
	round := func() {
		s := sdkStore(t, srv)
		keysOf(t, s, 2)
		covered(t, s, 2)
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	round()
	time.Sleep(200 * time.Millisecond)
	goroutines, files := counts()
	for range 25 {
		round()
	}
	var g, f int
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if g, f = counts(); g <= goroutines+2 && f <= files+4 {
			break
		}
	}
	t.Logf("50 clients: goroutines %d, then %d; descriptors %d, then %d", goroutines, g, files, f)
	if g > goroutines+2 || f > files+4 {
		t.Errorf("left: goroutines %d, then %d; descriptors %d, then %d", goroutines, g, files, f)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("directories left: %v, %v", left, err)
	}
}

// TestSDKCloseInAnOutage: a silent server must not hold up Close.
func TestSDKCloseInAnOutage(t *testing.T) {
	safeSDK(t)
	if raceEnabled {
		t.Skip("the SDK reconnects without a lock")
	}
	for _, how := range []string{"frozen", "gone", "opening"} {
		srv, err := server.Start(t.Context(), server.Config{})
		if err != nil {
			t.Fatal(err)
		}
		s := sdkStore(t, srv)
		keysOf(t, s, 10)
		if how == "opening" {
			for end := time.Now().Add(20 * time.Second); s.push.current() == nil && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
		} else {
			covered(t, s, 10)
		}
		if how == "gone" {
			if err := srv.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		} else {
			srv.Faults().Freeze()
		}
		time.Sleep(300 * time.Millisecond)
		began := time.Now()
		if err := s.Close(context.Background()); err != nil || time.Since(began) > time.Second {
			t.Errorf("%s: close: %v after %v", how, err, time.Since(began))
		}
		t.Logf("%s: closed after %v", how, time.Since(began))
		srv.Faults().Reset()
		_ = srv.Close(context.Background())
	}
}

// TestSDKIdle measures 20 applications at rest.
func TestSDKIdle(t *testing.T) {
	safeSDK(t)
	if os.Getenv("BELAY_TEST_SOAK") != "1" {
		t.Skip("takes half a minute; set BELAY_TEST_SOAK=1")
	}
	srv, err := server.Start(t.Context(), server.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = srv.Close(context.Background()) }()
	s := sdkStore(t, srv)
	defer func() { _ = s.Close(context.Background()) }()
	keysOf(t, s, 20)
	covered(t, s, 20)
	time.Sleep(2 * time.Second)
	before := cpu(t)
	time.Sleep(20 * time.Second)
	t.Logf("client and server together: %v of CPU in 20 s; goroutines %d", cpu(t)-before, runtime.NumGoroutine())
}

// TestSDKAfterRotation: a client whose token became void pushes again, with the
// token of the store's next login.
func TestSDKAfterRotation(t *testing.T) {
	safeSDK(t)
	srv, err := server.Start(t.Context(), server.Config{Auth: &server.Auth{Users: []server.User{
		{Name: "belay", Password: "secret", Grants: []server.Grant{{Namespace: "*", Write: true}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = srv.Close(context.Background()) }()
	s, err := New(Config{Servers: []string{srv.Addr()}, Username: "belay", Password: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(context.Background()) }()
	keys, _ := keysOf(t, Eager(s), 1)
	covered(t, s, 1)
	srv.Faults().RotateTokenKey()
	began, pushes := time.Now(), s.Health().Pushes
	for text := "a="; s.Health().Pushes == pushes; text += "x" {
		if time.Since(began) > 30*time.Second {
			t.Fatal("no push any more")
		}
		// Refused until the store has logged in anew.
		_, _ = s.client.do(t.Context(), call{what: "publish", method: "POST", path: "/v1/cs/configs", form: publishForm(keys[0], text)})
		time.Sleep(500 * time.Millisecond)
	}
	t.Logf("pushes again after %v", time.Since(began))
}
