package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/belay-mq/belay/cmd/belay/internal/config"
	"github.com/belay-mq/belay/consumers/broker"
	"github.com/belay-mq/belay/consumers/release"
	"github.com/belay-mq/belay/nacos/server"
)

// ErrEmbedded: the context has an embedded part, which only 'belay demo', 'belay run'
// and the dashboard start.
var ErrEmbedded = errors.New("the context has an embedded server, which this command does not start")

// serverTimeout bounds the start and the stop of one embedded server.
const serverTimeout = 10 * time.Second

// Embedded is the servers that run in this process.
type Embedded struct {
	// ConfigPath is the configuration that was written for other processes.
	ConfigPath string
	// Context is the context with the addresses of the servers filled in.
	Context *config.Context

	nacos  *server.Server
	broker *broker.Broker
	unlock func()

	mu   sync.Mutex // one outage at a time
	down map[string]bool
}

// HasEmbedded reports whether a part of the context is embedded.
func HasEmbedded(c *config.Context) bool {
	return c.Nacos != nil && c.Nacos.Embedded || c.RabbitMQ != nil && c.RabbitMQ.Embedded || c.Releases != nil && c.Releases.Embedded
}

// StartEmbedded starts the embedded parts of a context with their data under dir, and
// writes dir/config.yaml, with which other processes reach them. A directory serves one
// process at a time.
func StartEmbedded(ctx context.Context, c *config.Context, dir string, log *slog.Logger) (_ *Embedded, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of the embedded servers: %w", err)
	}
	e := &Embedded{ConfigPath: filepath.Join(dir, "config.yaml"), down: make(map[string]bool)}
	e.unlock, err = lockDir(dir)
	if err != nil {
		return nil, fmt.Errorf("%s is in use by another belay (its configuration is %s); name another directory with --dir: %w", dir, e.ConfigPath, err)
	}
	resolved := *c
	e.Context = &resolved
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Close(context.WithoutCancel(ctx)))
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	if c.Nacos != nil && c.Nacos.Embedded {
		e.nacos, err = server.Start(ctx, server.Config{Dir: filepath.Join(dir, "nacos"), Logger: log})
		if err != nil {
			return nil, fmt.Errorf("start the embedded Nacos server: %w", err)
		}
		n := *c.Nacos
		n.Embedded, n.Servers = false, []string{e.nacos.Addr()}
		resolved.Nacos = &n
	}
	if c.RabbitMQ != nil && c.RabbitMQ.Embedded {
		e.broker, err = broker.Listen(ctx, broker.Config{Logger: log, ManagementAddr: "127.0.0.1:0", Vhosts: vhosts(c)})
		if err != nil {
			return nil, fmt.Errorf("start the embedded broker: %w", err)
		}
		r := *c.RabbitMQ
		r.Embedded, r.URL, r.Management = false, config.Secret(e.broker.URL()), config.Secret(e.broker.ManagementURL())
		resolved.RabbitMQ = &r
	}
	if c.Releases != nil && c.Releases.Embedded {
		r := *c.Releases
		r.Embedded, r.DSN = false, config.Secret("sqlite:"+filepath.Join(dir, "releases.db"))
		resolved.Releases = &r
		if err = initReleases(ctx, r.DSN); err != nil {
			return nil, err
		}
	}
	return e, e.writeConfig()
}

// vhosts lists the virtual hosts that a context uses, each once: that of the broker's
// URL, then those of the applications. A virtual host that stood there twice would have
// every instance on it counted twice.
func vhosts(c *config.Context) []string {
	out := []string{"/"}
	if c.RabbitMQ != nil && !c.RabbitMQ.Embedded {
		out[0] = vhostOf(c.RabbitMQ.URL)
	}
	if c.Nacos == nil {
		return out
	}
	for _, a := range c.Nacos.Applications {
		if a.VHost != "" && !slices.Contains(out, a.VHost) {
			out = append(out, a.VHost)
		}
	}
	return out
}

func initReleases(ctx context.Context, dsn config.Secret) error {
	db, err := release.Open(ctx, release.DSN(dsn.Reveal()))
	if err != nil {
		return fmt.Errorf("open the embedded release table: %w", err)
	}
	return errors.Join(db.Init(ctx), db.Close())
}

// writeConfig writes the configuration for other processes. It holds the passwords in
// clear, since a part may be a real server, and is readable by its owner only.
func (e *Embedded) writeConfig() error {
	c := e.Context
	text, err := yaml.Marshal(mapping{"current-context": c.Name, "contexts": mapping{c.Name: revealed(c)}})
	if err != nil {
		return fmt.Errorf("write the configuration for other processes: %w", err)
	}
	return replaceFile(e.ConfigPath, text)
}

// mapping is a mapping of a YAML file.
type mapping map[string]any

// set leaves out what is not set, so that the file reads as a person would write it.
func set[T comparable](m mapping, key string, v T) {
	var zero T
	if v != zero {
		m[key] = v
	}
}

// revealed is a context as it stands in a file, with everything that another process
// needs: above all, one that is read-only must not become writable by being copied.
func revealed(c *config.Context) mapping {
	m := mapping{"label": c.Label}
	set(m, "writes", c.Writes)
	if n := c.Nacos; n != nil {
		v := mapping{"servers": n.Servers}
		set(v, "namespace", n.Namespace)
		set(v, "username", n.Username)
		set(v, "password", n.Password.Reveal())
		set(v, "data-id", n.DataID)
		set(v, "tls", n.TLS)
		set(v, "poll-interval", n.PollInterval)
		if len(n.Applications) > 0 {
			v["applications"] = n.Applications
		}
		m["nacos"] = v
	}
	if r := c.RabbitMQ; r != nil {
		v := mapping{"url": r.URL.Reveal()}
		set(v, "management", r.Management.Reveal())
		set(v, "tls", r.TLS)
		m["rabbitmq"] = v
	}
	if r := c.Releases; r != nil {
		v := mapping{"dsn": r.DSN.Reveal()}
		set(v, "interval", r.Interval)
		set(v, "window", r.Window)
		set(v, "look-back", r.LookBack)
		set(v, "checkpoint", r.Checkpoint)
		m["releases"] = v
	}
	return m
}

func replaceFile(path string, data []byte) error {
	tmp := path + ".new"
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// Names lists the servers that Toggle can take down.
func (e *Embedded) Names() []string {
	var names []string
	if e.broker != nil {
		names = append(names, "broker")
	}
	if e.nacos != nil {
		names = append(names, "nacos")
	}
	return names
}

// Toggle takes a server down, as if it had been killed, or brings it back.
func (e *Embedded) Toggle(name string) error {
	e.mu.Lock()
	down := e.down[name]
	e.mu.Unlock()
	return e.SetDown(name, !down)
}

// SetDown takes a server down or brings it back; it does nothing where it is so already.
func (e *Embedded) SetDown(name string, down bool) error {
	if !slices.Contains(e.Names(), name) {
		return fmt.Errorf("there is no embedded server %q; there are %v", name, e.Names())
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.down[name] == down {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), serverTimeout)
	defer cancel()
	var err error
	switch {
	case name == "broker" && down:
		err = e.broker.Stop(ctx)
	case name == "broker":
		err = e.broker.Restart(ctx)
	case down:
		err = e.nacos.Stop()
	default:
		err = e.nacos.Restart(ctx)
	}
	if err != nil {
		return fmt.Errorf("outage of %s: %w", name, err)
	}
	e.down[name] = down
	return nil
}

// Close stops the servers.
func (e *Embedded) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	var errs []error
	if e.broker != nil {
		errs = append(errs, e.broker.Close(ctx))
	}
	if e.nacos != nil {
		errs = append(errs, e.nacos.Close(ctx))
	}
	if e.unlock != nil {
		e.unlock()
	}
	return errors.Join(errs...)
}
