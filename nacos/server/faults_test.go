package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nacos-group/nacos-sdk-go/v2/vo"

	"github.com/belay-mq/belay/nacos/server"
)

// embedded starts a server whose changes are visible at once, and returns it as a target.
func embedded(t testing.TB, cfg server.Config) (*server.Server, target) {
	t.Helper()
	if cfg.DumpTick == 0 {
		cfg.DumpTick = -1
	}
	s := start(t, cfg)
	return s, target{addr: s.Addr(), grpcAddr: s.GRPCAddr(), behaviour: s.Behaviour(), embedded: s}
}

func TestLosePushes(t *testing.T) {
	t.Parallel()
	s, tg := embedded(t, server.Config{})
	k := newKey()
	r := tg.connect(t, true)
	r.expect("ConfigBatchListenRequest", listening(k, ""), "ConfigChangeBatchListenResponse", map[string]any{"success": true})
	s.Faults().LosePushes(1)
	tg.publish(t, k.with("content", "a=1"))
	select {
	case p := <-r.pushes:
		t.Fatalf("pushed %v", p)
	case <-time.After(300 * time.Millisecond):
	}
	tg.publish(t, k.with("content", "a=2"))
	r.pushed(k["group"])
}

func TestLosePushesHoldsPolls(t *testing.T) {
	t.Parallel()
	s, tg := embedded(t, server.Config{Behaviour: server.RNacos})
	k := newKey()
	s.Faults().LosePushes(server.Always)
	answered := make(chan string, 1)
	go func() {
		_, body, _ := tg.http(t, "POST", v1Configs+"/listener", form{"Listening-Configs": k["dataId"] + "\x02" + k["group"] + "\x02\x01", "@Long-Pulling-Timeout": "1000"})
		answered <- body
	}()
	time.Sleep(300 * time.Millisecond)
	tg.publish(t, k.with("content", "a=1"))
	select {
	case body := <-answered:
		t.Fatalf("answered %q", body)
	case <-time.After(500 * time.Millisecond):
	}
	s.Faults().Reset()
	tg.publish(t, k.with("content", "a=2"))
	if body := <-answered; !strings.HasPrefix(body, toggleFile) {
		t.Error(body)
	}
}

func TestCutAndSlowReplies(t *testing.T) {
	t.Parallel()
	s, tg := embedded(t, server.Config{})
	k := newKey()
	s.Faults().CutReplies(server.OpPublish, 2)
	if status, body, _ := tg.http(t, "POST", v1Configs, k.with("content", "a=1")); status != 0 {
		t.Errorf("the reply was not cut: %d %s", status, body)
	}
	tg.expect(t, 200, "a=1", "GET", v1Configs, k) // and yet it was applied
	r := tg.connect(t, true)
	if kind, body := r.call("ConfigPublishRequest", k.with("content", "a=2").json()); kind != "error" {
		t.Errorf("the reply was not cut: %s %s", kind, body)
	}
	tg.expect(t, 200, "a=2", "GET", v1Configs, k)

	const late = 300 * time.Millisecond
	s.Faults().SlowReplies(server.OpPublish, 1, late)
	began := time.Now()
	done := make(chan struct{})
	go func() {
		defer close(done)
		tg.publish(t, k.with("content", "a=3"))
	}()
	eventually(t, "it is applied before the reply", func() bool {
		_, body, _ := tg.http(t, "GET", v1Configs, k)
		return body == "a=3"
	})
	<-done
	if took := time.Since(began); took < late {
		t.Errorf("the reply took %v, want at least %v", took, late)
	}
}

func TestDumpDelays(t *testing.T) {
	t.Parallel()
	for _, tick := range []time.Duration{-1, 100 * time.Millisecond} {
		s, tg := embedded(t, server.Config{DumpTick: tick})
		k := newKey()
		tg.publishDumped(t, k.with("content", "a=0"))
		oldFor := func(content string) time.Duration {
			t.Helper()
			began := time.Now()
			tg.publish(t, k.with("content", content))
			if got := tg.detail(t, k)["content"]; got != content {
				t.Errorf("the detail is old: %v", got)
			}
			tg.awaitRead(t, k, content)
			return time.Since(began)
		}
		s.Faults().DelayDumps(400 * time.Millisecond)
		if d := oldFor("a=1"); d < 400*time.Millisecond {
			t.Errorf("tick %v, delay 400 ms: visible after %v", tick, d)
		}
		s.Faults().DelayDumps(0)
		s.Faults().CollideDumps(1)
		if d := oldFor("a=2"); d < time.Second {
			t.Errorf("tick %v, one collision: visible after %v", tick, d)
		}
		s.Faults().CollideDumps(2)
		if d := oldFor("a=3"); d < 2*time.Second {
			t.Errorf("tick %v, two collisions: visible after %v", tick, d)
		}
	}
}

func TestHoldReadsCollides(t *testing.T) {
	t.Parallel()
	s, tg := embedded(t, server.Config{})
	k := newKey()
	tg.publishDumped(t, k.with("content", "a=0"))
	s.Faults().HoldReads(500 * time.Millisecond)
	var reader sync.WaitGroup
	reader.Go(func() { tg.http(t, "GET", v1Configs, k) })
	time.Sleep(200 * time.Millisecond) // the read holds its lock
	began := time.Now()
	tg.publish(t, k.with("content", "a=1"))
	reader.Wait()
	s.Faults().HoldReads(0)
	tg.awaitRead(t, k, "a=1")
	if d := time.Since(began); d < time.Second {
		t.Errorf("a read was in the way, visible after %v, want at least 1 s", d)
	}
}

func TestHiddenConfigs(t *testing.T) {
	t.Parallel()
	s, tg := embedded(t, server.Config{Behaviour: server.RNacos})
	k := newKey()
	tg.publish(t, k.with("content", "a=1"))
	s.Faults().HideAfterRestart(time.Second)
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	tg.expect(t, 404, "config data not exist\n", "GET", v1Configs, k)
	tg.awaitRead(t, k, "a=1")
	r := tg.connect(t, true)
	for _, hide := range []struct {
		d   time.Duration
		end func()
	}{{500 * time.Millisecond, func() {}}, {time.Hour, s.Faults().Reset}} {
		s.Faults().HideConfigs(hide.d)
		tg.expect(t, 404, "config data not exist\n", "GET", v1Configs, k)
		r.expect("ConfigBatchListenRequest", listening(k, ""), "ConfigChangeBatchListenResponse", map[string]any{"changedConfigs": "[]"})
		hide.end()
		r.pushed(k["group"]) // it is there again
		tg.expect(t, 200, "a=1", "GET", v1Configs, k)
	}
}

// The SDK in front of a frozen server: its call ends with its deadline and is not applied, and it comes back by itself.
func TestFreezeSDK(t *testing.T) {
	if raceDetector {
		t.Skip("the SDK races with itself when it reconnects")
	}
	t.Parallel()
	s, tg := embedded(t, server.Config{})
	k := newKey()
	c := sdkClient(t, s.Addr(), nil)
	param := vo.ConfigParam{DataId: k["dataId"], Group: k["group"], Content: "a=1"}
	if ok, err := c.PublishConfig(param); !ok || err != nil {
		t.Fatal(ok, err)
	}
	s.Faults().Freeze()
	param.Content = "a=2"
	if ok, err := c.PublishConfig(param); ok || err == nil || !strings.Contains(err.Error(), "DeadlineExceeded") {
		t.Error(ok, err)
	}
	s.Faults().Thaw()
	param.Content = "a=3"
	eventually(t, "the SDK is back", func() bool {
		ok, _ := c.PublishConfig(param)
		return ok
	})
	if got := historyOps(t, tg, k); got != "UI" {
		t.Errorf("rows %s, newest first: what was given up was applied", got)
	}
}

// With the old paths switched on, 3.x answers them under its own name of the default namespace.
func TestLegacyAPIs(t *testing.T) {
	t.Parallel()
	s, tg := embedded(t, server.Config{Behaviour: server.Nacos3, LegacyAPIs: true})
	k := newKey()
	tg.publish(t, k.with("content", "a=1"))
	for _, params := range []form{k.with("show", "all"), k.with("search", "accurate", "pageNo", "1", "pageSize", "1")} {
		tg.expect(t, 200, `…"tenant":"public"…`, "GET", v1Configs, params)
	}
	tg.expect(t, 200, `…"tenant":"public"…`, "GET", "/nacos/v1/cs/history", k.with("search", "accurate"))
	tg.expect(t, 200, `{"collectStatus":200,…`, "GET", v1Configs+"/listener", k)
	tg.expect(t, 200, `{"code":0,…`, "GET", "/nacos/v2/cs/config", k)
	console := target{addr: s.ConsoleAddr()}
	for path, body := range map[string]string{"/v1/console/namespaces": `…"namespaceShowName":"public"…`, "/v1/console/server/state": `…"version":"3.0.3"…`} {
		tg.expect(t, 404, "…", "GET", "/nacos"+path, nil)
		console.expect(t, 200, body, "GET", path, nil)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	s, tg := embedded(t, server.Config{})
	k := newKey()
	r := tg.connect(t, true)
	s.Faults().Deny(server.OpPublish, 2)
	tg.expect(t, 403, `…"message":"authorization failed!"…`, "POST", v1Configs, k.with("content", "a=1"))
	r.expect("ConfigPublishRequest", k.with("content", "a=1").json(), "ConfigPublishResponse",
		map[string]any{"resultCode": 500, "errorCode": 403, "message": "authorization failed!", "success": false})
	s.Faults().LimitRate(server.OpRead, 2)
	tg.expect(t, 503, "Tps Flow restricted…", "GET", v1Configs, k)
	r.expect("ConfigQueryRequest", k.json(), "ConfigQueryResponse", map[string]any{"errorCode": 503, "message": "Tps Flow restricted…"})
	tg.publish(t, k.with("content", "a=1"))
	s.Faults().IgnoreCAS(true)
	tg.publish(t, k.with("content", "a=2", "@casMd5", "stale"))
	s.Faults().IgnoreCAS(false)
	tg.expect(t, 500, "caused: Cas…", "POST", v1Configs, k.with("content", "a=3", "@casMd5", "stale"))
	s.Faults().RemoveAPIs("/nacos/v1/")
	tg.expect(t, 404, "…", "GET", v1Configs, k)
	tg.expect(t, 200, "…", "GET", "/nacos/v2/cs/config", k)
	s.Faults().RemoveAPIs()
	tg.expect(t, 200, "a=2", "GET", v1Configs, k)
}

func TestFreeze(t *testing.T) {
	t.Parallel()
	s, tg := embedded(t, server.Config{})
	k := newKey()
	tg.publish(t, k.with("content", "a=1"))
	r := tg.connect(t, true)
	s.Faults().Freeze()

	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if p, err := r.unary.Request(ctx, r.payload("ConfigPublishRequest", k.with("content", "a=2").json())); err == nil {
		t.Errorf("answered while frozen: %v", p)
	}
	client := http.Client{Timeout: 500 * time.Millisecond, Transport: &http.Transport{DisableKeepAlives: true}}
	if resp, err := client.Get("http://" + s.Addr() + v1Configs); err == nil {
		_ = resp.Body.Close()
		t.Error("answered while frozen")
	}
	s.Faults().Thaw()
	tg.expect(t, 200, "a=1", "GET", v1Configs, k)
	r.expect("ConfigQueryRequest", k.json(), "ConfigQueryResponse", map[string]any{"content": "a=1"})
	if got := historyOps(t, tg, k); got != "I" {
		t.Errorf("what was given up was applied: %s", got)
	}
}

func TestStopAndRestart(t *testing.T) {
	t.Parallel()
	s, tg := embedded(t, server.Config{Behaviour: server.Nacos3})
	group := uniqueGroup()
	k := form{"dataId": toggleFile, "group": group}
	tg.publish(t, k.with("content", "a=1"))
	var seen <-chan string
	if !raceDetector {
		seen = listen(t, sdkClient(t, s.Addr(), nil), group)
		await(t, seen, "a=1")
	}
	addr, console := s.Addr(), s.ConsoleAddr()
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if status, body, _ := tg.http(t, "GET", v1Configs, k); status != 0 {
		t.Errorf("answered while stopped: %d %s", status, body)
	}
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.Addr() != addr || s.ConsoleAddr() != console {
		t.Errorf("restarted on %s and %s, was on %s and %s", s.Addr(), s.ConsoleAddr(), addr, console)
	}
	tg.expect(t, 200, "a=1", "GET", v1Configs, k)
	tg.publish(t, k.with("content", "a=2"))
	if seen != nil {
		await(t, seen, "a=2") // the client has come back by itself
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Restart(t.Context()); err == nil {
		t.Error("a closed server restarted")
	}
}

func TestThousandChanges(t *testing.T) {
	t.Parallel()
	const changes = 1000
	for _, tick := range []time.Duration{-1, 100 * time.Millisecond} {
		_, tg := embedded(t, server.Config{DumpTick: tick})
		k := newKey()
		r := tg.connect(t, true)
		followed := make(chan string, 1)
		go func() { followed <- r.follow(k, fmt.Sprint("a=", changes-1)) }()
		publisher := tg.connect(t, true)
		for i := range changes {
			publisher.expect("ConfigPublishRequest", k.with("content", fmt.Sprint("a=", i)).json(), "ConfigPublishResponse", map[string]any{"success": true})
		}
		last := fmt.Sprint("a=", changes-1)
		if got := <-followed; got != last {
			t.Errorf("tick %v: the client ends with %q", tick, got)
		}
		tg.expect(t, 200, last, "GET", v1Configs, k)
		_, body, _ := tg.http(t, "GET", "/nacos/v1/cs/history", k.with("search", "accurate", "pageNo", "1", "pageSize", "1"))
		if !strings.HasPrefix(body, fmt.Sprintf(`{"totalCount":%d,`, changes)) {
			t.Error(body)
		}
	}
}

// follow does what a client that loses nothing does: listen with what it has, read what has changed, wait for a push.
// It returns the last content once that is the wanted one, or when no push comes.
func (r *raw) follow(k form, want string) string {
	content := ""
	for {
		md5 := ""
		if content != "" {
			md5 = md5Of(content)
		}
		if _, body := r.call("ConfigBatchListenRequest", listening(k, md5)); strings.Contains(body, k["group"]) {
			_, text := r.call("ConfigQueryRequest", k.json())
			if got, ok := object(r.t, text)["content"].(string); ok {
				content = got
			}
			continue
		}
		if content == want {
			return content
		}
		select {
		case <-r.pushes:
		case <-time.After(patience):
			return content
		}
	}
}
