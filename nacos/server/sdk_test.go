package server_test

import (
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nacos-group/nacos-sdk-go/v2/clients"
	"github.com/nacos-group/nacos-sdk-go/v2/clients/config_client"
	"github.com/nacos-group/nacos-sdk-go/v2/common/constant"
	"github.com/nacos-group/nacos-sdk-go/v2/util"
	"github.com/nacos-group/nacos-sdk-go/v2/vo"

	"github.com/belay-mq/belay/nacos/server"
)

// patience is how long tests wait for what must come; the machine may be busy.
const patience = 20 * time.Second

// sdkPause keeps changes apart for the SDK: one that is pushed while it still handles the one before is lost in it.
const sdkPause = 200 * time.Millisecond

func start(t testing.TB, cfg server.Config) *server.Server {
	t.Helper()
	s, err := server.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// findLocalIP lets the SDK find its own address before clients do so at the same time, without a lock.
var findLocalIP = sync.OnceFunc(func() { util.LocalIP() })

// sdkClient connects the unmodified SDK.
func sdkClient(t testing.TB, addr string, change func(*constant.ClientConfig)) config_client.IConfigClient {
	t.Helper()
	findLocalIP()
	host, portText, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "nacos-sdk-*") // not t.TempDir: the SDK writes files after its Close
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	cfg := &constant.ClientConfig{TimeoutMs: 3000, NotLoadCacheAtStart: true, DisableUseSnapShot: true,
		CacheDir: dir, LogDir: dir, LogLevel: "error", AppName: "settle-service"}
	if change != nil {
		change(cfg)
	}
	c, err := clients.NewConfigClient(vo.NacosClientParam{ClientConfig: cfg, ServerConfigs: []constant.ServerConfig{
		*constant.NewServerConfig(host, port)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseClient)
	return c
}

var groups atomic.Int64

// uniqueGroup keeps tests apart, which the SDK's rate limiter, one per process and config, would mix.
func uniqueGroup() string { return "group-" + strconv.FormatInt(groups.Add(1), 10) }

const toggleFile = "rabbitmq-toggle.properties"

// listen returns the contents that the SDK's callback is called with.
func listen(t testing.TB, c config_client.IConfigClient, group string) <-chan string {
	t.Helper()
	seen := make(chan string, 10_000)
	err := c.ListenConfig(vo.ConfigParam{DataId: toggleFile, Group: group,
		OnChange: func(_, _, _, content string) { seen <- content }})
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

// await waits until want comes.
func await(t testing.TB, seen <-chan string, want string) {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case got := <-seen:
			if got == want {
				return
			}
			t.Logf("skipped %q", got)
		case <-deadline:
			t.Fatalf("%q was not seen in %v", want, patience)
		}
	}
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

func TestSDK(t *testing.T) {
	for _, behaviour := range []server.Behaviour{server.Nacos2, server.Nacos3, server.RNacos} {
		t.Run(behaviour.String(), func(t *testing.T) {
			t.Parallel()
			group := uniqueGroup()
			s := start(t, server.Config{Behaviour: behaviour})
			c := sdkClient(t, s.Addr(), nil)
			k := vo.ConfigParam{DataId: toggleFile, Group: group}

			if content, err := c.GetConfig(k); content != "" || err != nil {
				t.Fatalf("missing config: %q, %v", content, err)
			}
			publish := k
			publish.Content, publish.Type = "a=1", "properties"
			if ok, err := c.PublishConfig(publish); !ok || err != nil {
				t.Fatal(ok, err)
			}
			seen := listen(t, c, group)
			await(t, seen, "a=1")
			time.Sleep(sdkPause)
			if content, err := c.GetConfig(k); content != "a=1" || err != nil {
				t.Fatalf("%q, %v", content, err)
			}

			publish.Content, publish.CasMd5 = "a=2", "0123"
			ok, err := c.PublishConfig(publish)
			if behaviour == server.RNacos {
				if !ok || err != nil {
					t.Fatal(ok, err)
				}
				await(t, seen, "a=2")
				time.Sleep(sdkPause)
			} else if ok || err == nil || err.Error() != "Cas publish fail, server md5 may have changed." {
				t.Fatal(ok, err)
			}
			publish.Content, publish.CasMd5 = "a=3", ""
			if ok, err := c.PublishConfig(publish); !ok || err != nil {
				t.Fatal(ok, err)
			}
			await(t, seen, "a=3")
			time.Sleep(sdkPause)
			if ok, err := c.DeleteConfig(k); !ok || err != nil {
				t.Fatal(ok, err)
			}
			await(t, seen, "")
			if content, err := c.GetConfig(k); content != "" || err != nil {
				t.Fatalf("%q, %v", content, err)
			}
		})
	}
}
