package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/belay-mq/belay/cmd/belay/internal/config"
	"github.com/belay-mq/belay/consumers"
	"github.com/belay-mq/belay/nacos"
	"github.com/belay-mq/belay/registry"
	"github.com/belay-mq/belay/registry/presence"
)

// closeTimeout bounds the end of a connection or a store.
const closeTimeout = 5 * time.Second

// Hosted is one listener that an instance hosts.
type Hosted struct {
	Config  consumers.Config
	Handler consumers.Handler
}

// HostConfig is what an instance needs.
type HostConfig struct {
	App            string
	Context        *config.Context
	Instance       string // "": made by the connection
	Listeners      []Hosted
	Logger         *slog.Logger
	StateDir       string
	WithoutToggles registry.Policy
	// Timed makes what carries out planned windows; nil: this instance does not.
	Timed func(*nacos.Store) registry.Timed
}

// Host is one instance of a service: its own connections, Nacos client, presence and
// registry. 'belay run' has one, the demo several.
type Host struct {
	conn       *consumers.Conn
	store      *nacos.Store
	reg        *registry.Registry
	containers []*consumers.Container
}

// NewHost makes an instance. Nothing is consumed before Run.
func NewHost(ctx context.Context, cfg HostConfig) (_ *Host, err error) {
	h := &Host{}
	defer func() {
		if err != nil {
			h.close(context.WithoutCancel(ctx))
		}
	}()
	vhost := ""
	for _, a := range cfg.Context.Nacos.Applications {
		if a.Name == cfg.App {
			vhost = a.VHost
		}
	}
	h.conn, err = openConn(ctx, cfg.Context.RabbitMQ, connName{app: cfg.App, instance: cfg.Instance, vhost: vhost}, cfg.Logger)
	if err != nil {
		return nil, err
	}
	h.store, err = openStore(cfg.Context.Nacos, cfg.App, cfg.Logger)
	if err != nil {
		return nil, err
	}
	rc := registry.Config{
		App: cfg.App, DataID: dataID(cfg.Context.Nacos), Logger: cfg.Logger, Store: h.store,
		Presence: presence.New(presence.Config{Conn: h.conn, Logger: cfg.Logger}),
		StateDir: cfg.StateDir, WithoutToggles: cfg.WithoutToggles,
	}
	if cfg.Timed != nil {
		rc.Timed = cfg.Timed(h.store)
	}
	h.reg = registry.New(rc)
	for _, l := range cfg.Listeners {
		l.Config.Logger = cfg.Logger
		c, err := consumers.New(h.conn, l.Config, l.Handler)
		if err != nil {
			return nil, fmt.Errorf("listener %s: %w", l.Config.ListenerID, err)
		}
		h.containers = append(h.containers, c)
		if err := h.reg.Register(c); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// Conn is the instance's connection to the broker.
func (h *Host) Conn() *consumers.Conn { return h.conn }

// Registry is the instance's registry.
func (h *Host) Registry() *registry.Registry { return h.reg }

// Containers are the instance's containers.
func (h *Host) Containers() []*consumers.Container { return h.containers }

// Run hosts the listeners until ctx ends, stops them, and closes everything. It must be
// called once.
func (h *Host) Run(ctx context.Context) error {
	err := h.reg.Run(ctx)
	return errors.Join(err, h.close(context.WithoutCancel(ctx)))
}

func (h *Host) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	var errs []error
	for _, c := range h.containers {
		errs = append(errs, c.Close(ctx))
	}
	if h.store != nil {
		errs = append(errs, h.store.Close(ctx))
	}
	if h.conn != nil {
		errs = append(errs, h.conn.Close(ctx))
	}
	return errors.Join(errs...)
}
