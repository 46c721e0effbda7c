package nacos_test

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/belay-mq/belay/nacos"
	"github.com/belay-mq/belay/nacos/server"
	"github.com/nacos-group/nacos-sdk-go/v2/clients"
	"github.com/nacos-group/nacos-sdk-go/v2/common/constant"
	"github.com/nacos-group/nacos-sdk-go/v2/vo"
)

// publish stores a text with one bare request, as a script does.
func publish(t testing.TB, srv *server.Server, key nacos.Key, text string) {
	t.Helper()
	resp, err := http.PostForm("http://"+srv.Addr()+"/nacos/v1/cs/configs",
		url.Values{"dataId": {key.DataID}, "group": {key.Group}, "content": {text}, "type": {"properties"}})
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("publish: %s", resp.Status)
	}
}

// latencies are the times from the start of a publish to the event.
type latencies []time.Duration

func (l latencies) at(q float64) time.Duration {
	slices.Sort(l)
	return l[min(len(l)-1, int(q*float64(len(l))))]
}

func (l latencies) report(b *testing.B) {
	b.ReportMetric(float64(l.at(0.5).Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(l.at(0.99).Microseconds())/1000, "p99-ms")
	b.ReportMetric(0, "ns/op")
}

// watchLatency publishes n texts one after the other and times their arrival.
func watchLatency(t testing.TB, srv *server.Server, store *nacos.Store, n int, transport string) latencies {
	t.Helper()
	key := newKey()
	publish(t, srv, key, text(0))
	states := store.Watch(t.Context(), key)
	await(t, states, "the text", has(text(0)))
	eventually(t, transport, func() bool { return store.Health().Transport == transport })
	time.Sleep(20 * time.Millisecond) // the listener is registered
	var l latencies
	for i := range n {
		began := time.Now()
		publish(t, srv, key, text(i+1))
		await(t, states, "the change", has(text(i+1)))
		l = append(l, time.Since(began))
		if transport == "push" {
			time.Sleep(250 * time.Millisecond) // the SDK reads a config five times a second at most
		}
	}
	return l
}

// BenchmarkChangeSeen times publish to event, with the SDK's config client on
// the same server as the peer.
func BenchmarkChangeSeen(b *testing.B) {
	far := func(c *nacos.Config) { c.PollInterval = time.Minute }
	for _, tick := range []struct {
		name string
		tick time.Duration
	}{{"at once", -1}, {"dump tick", 0}} {
		b.Run(tick.name+"/push", func(b *testing.B) {
			srv := startServer(b, server.Config{DumpTick: tick.tick})
			store := openStore(b, srv, far)
			b.ResetTimer()
			watchLatency(b, srv, store, b.N, "push").report(b)
		})
		b.Run(tick.name+"/long poll", func(b *testing.B) {
			srv := startServer(b, server.Config{DumpTick: tick.tick})
			store := openStore(b, srv, func(c *nacos.Config) { far(c); c.DisablePush = true })
			b.ResetTimer()
			watchLatency(b, srv, store, b.N, "long-poll").report(b)
		})
		b.Run(tick.name+"/sdk", func(b *testing.B) {
			srv := startServer(b, server.Config{DumpTick: tick.tick})
			sdkLatency(b, srv)
		})
	}
}

func sdkLatency(b *testing.B, srv *server.Server) {
	host, portText, err := net.SplitHostPort(srv.Addr())
	if err != nil {
		b.Fatal(err)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		b.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "nacos-sdk-*") // not TempDir: the SDK writes files after its Close
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	c, err := clients.NewConfigClient(vo.NacosClientParam{
		ClientConfig:  &constant.ClientConfig{TimeoutMs: 3000, NotLoadCacheAtStart: true, DisableUseSnapShot: true, CacheDir: dir, LogDir: dir, LogLevel: "error"},
		ServerConfigs: []constant.ServerConfig{*constant.NewServerConfig(host, port)},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer c.CloseClient()
	key := newKey()
	publish(b, srv, key, text(0))
	seen := make(chan string, 1000)
	if _, err := c.GetConfig(vo.ConfigParam{DataId: key.DataID, Group: key.Group}); err != nil {
		b.Fatal(err)
	}
	if err := c.ListenConfig(vo.ConfigParam{DataId: key.DataID, Group: key.Group, OnChange: func(_, _, _, content string) { seen <- content }}); err != nil {
		b.Fatal(err)
	}
	wait := func(want string) {
		for deadline := time.After(patience); ; {
			select {
			case got := <-seen:
				if got == want {
					return
				}
			case <-deadline:
				b.Fatal("the SDK did not call back")
			}
		}
	}
	time.Sleep(6 * time.Second) // it registers new listeners every five seconds
	b.ResetTimer()
	var l latencies
	for i := range b.N {
		began := time.Now()
		publish(b, srv, key, text(i+1))
		wait(text(i + 1))
		l = append(l, time.Since(began))
		time.Sleep(200 * time.Millisecond) // its limit of five reads a second
	}
	l.report(b)
}

// TestLatency holds the bounds, generously: the machine may be busy.
func TestLatency(t *testing.T) {
	const patient = 10 // times the bound
	for _, tt := range []struct {
		name  string
		tick  time.Duration
		lose  bool
		n     int
		bound time.Duration
	}{
		{"at once", -1, false, 40, 5 * time.Millisecond},
		{"dump tick", 0, false, 10, 130 * time.Millisecond},
		{"every push lost", 0, true, 4, 1300 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := startServer(t, server.Config{DumpTick: tt.tick})
			store := openStore(t, srv, nil)
			if tt.lose {
				srv.Faults().LosePushes(server.Always)
			}
			l := watchLatency(t, srv, store, tt.n, "push")
			t.Logf("p50 %v, p99 %v, bound %v", l.at(0.5), l.at(0.99), tt.bound)
			if l.at(0.5) > patient*tt.bound {
				t.Errorf("p50 %v is far above %v", l.at(0.5), tt.bound)
			}
		})
	}
}

func BenchmarkUpdate(b *testing.B) {
	for _, behaviour := range []server.Behaviour{server.Nacos2, server.Nacos3} {
		b.Run(fmt.Sprint(behaviour), func(b *testing.B) {
			srv := startServer(b, server.Config{Behaviour: behaviour, DumpTick: -1})
			store := openStore(b, srv, nil)
			key := newKey()
			st := create(b, store, key, text(0))
			for i := 0; b.Loop(); i++ {
				st = update(b, store, key, text(i+1), st.MD5)
			}
		})
	}
}
