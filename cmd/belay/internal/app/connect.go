package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/belay-mq/belay/cmd/belay/internal/config"
	"github.com/belay-mq/belay/consumers"
	"github.com/belay-mq/belay/consumers/observe"
	"github.com/belay-mq/belay/nacos"
)

// ErrAbsent: the context does not have the part that is needed.
var ErrAbsent = errors.New("the context does not have it")

// defaultDataID is the toggle file's name where the context gives none.
const defaultDataID = "rabbitmq-toggle.properties"

func dataID(n *config.Nacos) string {
	if n == nil || n.DataID == "" {
		return defaultDataID
	}
	return n.DataID
}

// openStore makes the store of a context. It does not wait for the server.
func openStore(n *config.Nacos, app string, log *slog.Logger) (*nacos.Store, error) {
	if n == nil {
		return nil, fmt.Errorf("nacos: %w", ErrAbsent)
	}
	c := nacos.Config{
		App: app, Servers: n.Servers, Namespace: n.Namespace, Username: n.Username,
		Password: nacos.Secret(n.Password.Reveal()), PollInterval: time.Duration(n.PollInterval), Logger: log,
	}
	if t := n.TLS; t != nil {
		c.TLS = nacos.TLS{Enable: true, CAFile: t.CA, CertFile: t.Cert, KeyFile: t.Key, ServerName: t.ServerName}
	}
	return nacos.New(c)
}

// connName says who a connection is for.
type connName struct {
	app      string // "" for a dashboard
	instance string // "": made by the connection
	vhost    string // "": that of the URL
}

// openConn makes a connection to the broker of a context. It does not wait for it.
func openConn(ctx context.Context, r *config.RabbitMQ, name connName, log *slog.Logger) (*consumers.Conn, error) {
	if r == nil {
		return nil, fmt.Errorf("rabbitmq: %w", ErrAbsent)
	}
	target, err := withVHost(r.URL, name.vhost)
	if err != nil {
		return nil, err
	}
	c := consumers.ConnConfig{App: name.app, Instance: name.instance, Logger: log, URL: target.Reveal()}
	if t := r.TLS; t != nil {
		c.TLSCACertFile, c.TLSCertFile, c.TLSKeyFile, c.TLSServerName = t.CA, t.Cert, t.Key, t.ServerName
	}
	return consumers.Dial(ctx, c)
}

// withVHost puts a virtual host into the URL.
func withVHost(s config.Secret, vhost string) (config.Secret, error) {
	if vhost == "" {
		return s, nil
	}
	u, err := url.Parse(s.Reveal())
	if err != nil {
		return "", errors.New("rabbitmq: the url cannot be read") // its text may hold a password
	}
	u.Path, u.RawPath = "/"+vhost, "/"+url.PathEscape(vhost)
	return config.Secret(u.String()), nil
}

// openObserver makes the observer of a virtual host's queues, over a connection of its
// own: it opens and closes many channels.
func openObserver(r *config.RabbitMQ, conn *consumers.Conn, vhost string, log *slog.Logger) (*observe.Observer, error) {
	c := observe.Config{Conn: conn, Logger: log, VHost: vhost}
	if r.Management == "" {
		return observe.New(c)
	}
	u, err := url.Parse(r.Management.Reveal())
	if err != nil {
		return nil, errors.New("rabbitmq: the management url cannot be read") // its text may hold a password
	}
	if u.User == nil {
		if broker, err := url.Parse(r.URL.Reveal()); err == nil {
			u.User = broker.User
		}
	}
	c.Management = observe.Secret(u.String())
	if c.TLS, err = loadTLS(r.TLS); err != nil {
		return nil, err
	}
	return observe.New(c)
}

// loadTLS reads the files of a TLS connection; nil where there are none.
func loadTLS(t *config.TLS) (*tls.Config, error) {
	if t == nil {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CA != "" {
		pem, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, fmt.Errorf("rabbitmq: tls: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("rabbitmq: tls: %s holds no certificate in PEM form", t.CA)
		}
	}
	if t.Cert != "" {
		pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, fmt.Errorf("rabbitmq: tls: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// vhostOf is the virtual host that a URL names.
func vhostOf(s config.Secret) string {
	u, err := url.Parse(s.Reveal())
	if err != nil {
		return "/"
	}
	if v := strings.TrimPrefix(u.Path, "/"); v != "" {
		return v
	}
	return "/"
}
