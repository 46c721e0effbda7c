package nacos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nacos-group/nacos-sdk-go/v2/clients/config_client"
	"github.com/nacos-group/nacos-sdk-go/v2/clients/nacos_client"
	"github.com/nacos-group/nacos-sdk-go/v2/common/constant"
	"github.com/nacos-group/nacos-sdk-go/v2/vo"
)

// sdkClient is one SDK client with its config.
type sdkClient struct {
	cell      *cell
	client    *config_client.ConfigClient // of the goroutine that opens, then of that which shuts
	dir       string                      // for what the SDK writes
	label     string                      // of its goroutines; tells clients apart
	tenant    string                      // the namespace as the server wanted it then
	ready     bool                        // opened; guarded by sdkPush.mu
	called    atomic.Bool                 // it called back: the next call is a push
	confirmed atomic.Bool                 // it works: the own connection need not listen
	dead      atomic.Bool                 // it could not be opened: the own connection listens
}

// delivers tells that the client is known to announce the config's changes.
func (k *sdkClient) delivers() bool { return k.confirmed.Load() && !k.dead.Load() }

// begin opens the client and reports to the loop.
func (k *sdkClient) begin(opened, failed chan<- *sdkClient) {
	s, to := k.cell.store, opened
	var err error
	pprof.Do(s.ctx, pprof.Labels(sdkLabel, k.label), func(context.Context) { err = k.open() })
	if err != nil {
		s.cfg.log.Debug("SDK client not opened", "config", k.cell.key.String(), "err", err)
		k.dead.Store(true)
		s.push.enqueue(k.cell, true) // it may have called back before it failed
		k.shut()
		to = failed
	}
	select {
	case to <- k:
	case <-s.ctx.Done():
		if to == opened {
			k.shut()
		}
	}
}

// open connects the client and listens. It returns when the connection stands;
// the listening is known to work with the first callback.
func (k *sdkClient) open() (err error) {
	s := k.cell.store
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("SDK: panic: %v", r)
		}
	}()
	if err := checkKey(k.cell.key); err != nil {
		return err
	}
	if k.dir, err = os.MkdirTemp("", "belay-nacos-*"); err != nil {
		return err
	}
	nc, err := s.sdkConfig(k.dir, k.tenant)
	if err != nil {
		return err
	}
	prepareSDK()
	k.client, err = config_client.NewConfigClient(nc)
	silenceSDK() // it put its own logger in place
	if err != nil {
		return err
	}
	param := k.param()
	param.OnChange = func(string, string, string, string) { k.changed() }
	if err := k.client.ListenConfig(param); err != nil {
		return err
	}
	return k.connect()
}

// connect asks for the config. Only a request makes the SDK connect, and
// connecting makes it listen; by itself it would begin after five seconds. Where
// the SDK's own limit keeps it from asking it is asked again: one that never
// connected does so when it is closed, and keeps a goroutine for ever.
func (k *sdkClient) connect() error {
	for {
		_, err := k.client.GetConfig(k.param())
		if err == nil {
			return nil
		}
		if !strings.Contains(err.Error(), "is limited") {
			return errors.New("the SDK could not read over its connection")
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (k *sdkClient) param() vo.ConfigParam {
	return vo.ConfigParam{DataId: k.cell.key.DataID, Group: k.cell.key.Group}
}

// changed is the callback. The first one tells that the listener stands.
func (k *sdkClient) changed() {
	unlabel()
	defer k.recovered("callback")
	s := k.cell.store
	if k.called.Swap(true) {
		s.stats.pushes.Add(1)
	}
	s.hinted(k.cell.key)
	if !k.dead.Load() && !k.confirmed.Swap(true) {
		s.push.enqueue(k.cell, true) // no more there
	}
}

// recovered keeps a panic of the SDK, or of ours in its goroutine, from ending the
// process, and reports it.
func (k *sdkClient) recovered(what string) {
	if r := recover(); r != nil {
		k.cell.store.cfg.log.Error("panic in an SDK client", "in", what, "config", k.cell.key.String(), "panic", r, "stack", string(debug.Stack()))
	}
}

// sdkLiving counts the clients of the process that have not ended.
var sdkLiving atomic.Int64

// shut ends the client as soon as it is idle. One that is ended with a request
// under way or a push waiting inside keeps a goroutine for ever, and a read that
// was under way puts the config back that was cancelled.
func (k *sdkClient) shut() {
	defer sdkLiving.Add(-1)
	defer k.recovered("close")
	if k.dir != "" {
		defer func() { _ = os.RemoveAll(k.dir) }()
	}
	if k.client == nil {
		return
	}
	end := time.Now().Add(sdkLinger)
	for idle := 0; idle < 2 && time.Now().Before(end); time.Sleep(sdkSettle) {
		_ = k.client.CancelListenConfig(k.param())
		if _, busy := sdkActivity.of(k.label); busy {
			idle = 0
		} else {
			idle++
		}
	}
	k.client.CloseClient()
	// It writes into its directory until its last goroutine has noticed.
	for end = time.Now().Add(sdkReconnect); time.Now().Before(end); time.Sleep(sdkSettle) {
		if alive, _ := sdkActivity.of(k.label); !alive {
			return
		}
	}
}

// sdkConfig describes the servers to the SDK. It logs in through the store.
func (s *Store) sdkConfig(dir, tenant string) (*nacos_client.NacosClient, error) {
	t := s.cfg.TLS
	cfg := constant.ClientConfig{
		TimeoutMs: uint64(s.cfg.CallTimeout.Milliseconds()), NamespaceId: tenant, AppName: s.cfg.App,
		CacheDir: dir, LogDir: dir, LogLevel: "error", NotLoadCacheAtStart: true, DisableUseSnapShot: true,
		Username: s.cfg.Username,
		TLSCfg:   constant.TLSConfig{Appointed: true, Enable: t.Enable, CaFile: t.CAFile, TrustAll: t.InsecureSkipVerify},
	}
	var servers []constant.ServerConfig
	for _, e := range s.cfg.endpoints {
		ip := e.host
		if strings.Contains(ip, ":") {
			ip = "[" + ip + "]"
		}
		servers = append(servers, constant.ServerConfig{Scheme: e.scheme, IpAddr: ip, Port: uint64(e.port), GrpcPort: uint64(e.push), ContextPath: e.path})
	}
	nc := &nacos_client.NacosClient{}
	return nc, errors.Join(nc.SetClientConfig(cfg), nc.SetServerConfig(servers), nc.SetHttpAgent(sdkLogin{s}))
}
