package consumers

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// ConnConfig configures a [Conn]. Only URL is required. It prints without its
// password.
type ConnConfig struct {
	// App names the application, Nacos's group of its toggle file. It goes into
	// the client properties of both connections (belay-app). Default: empty.
	App string
	// ConnectTimeout bounds TCP, TLS and AMQP handshakes together. Default: 10 s.
	ConnectTimeout time.Duration
	// DialFunc opens the transport in place of a TCP dial. Default: a
	// [net.Dialer].
	DialFunc func(ctx context.Context, network, address string) (net.Conn, error)
	// Heartbeat is the interval asked of the broker; a peer that is silent for
	// one and a half is given up. A heartbeat in the URL takes precedence.
	// Default: 10 s.
	Heartbeat time.Duration
	// Instance names this process. Default: host:pid:random; of a name in that form
	// the first part is what Conn.Host returns.
	Instance string
	// Logger takes what is worth knowing: connections lost, refused, back.
	// Default: nothing is logged.
	Logger *slog.Logger
	// Recovery is the back-off between attempts to connect. It starts over
	// after a connection that lasted at least 10 s.
	Recovery Backoff
	// ReplyTimeout bounds the wait for the broker's reply to one request; a
	// connection that does not answer is dropped. Default: 10 s.
	ReplyTimeout time.Duration
	// TLS is the base of the TLS configuration for an amqps URL; the files
	// below are added to a copy of it. Default: the system's roots, TLS 1.2 or
	// newer.
	TLS *tls.Config
	// TLSCACertFile is a PEM file with the authorities to trust. Default: the
	// URL's cacertfile, else the system's.
	TLSCACertFile string
	// TLSCertFile and TLSKeyFile are PEM files of the client's certificate.
	// Default: the URL's certfile and keyfile, else none.
	TLSCertFile string
	TLSKeyFile  string
	// TLSServerName is the name to verify. Default: the URL's
	// server_name_indication, else its host.
	TLSServerName string
	// URL is the broker, amqp://user:password@host:port/vhost or amqps://….
	// Reserved characters in user and password must be percent-encoded.
	// Required.
	URL string
}

// String returns the configuration's address without its password.
func (c ConnConfig) String() string {
	return fmt.Sprintf("ConnConfig{App: %q, Instance: %q, URL: %s}", c.App, c.Instance, redact(c.URL))
}

// GoString is String, so that %#v shows no password either.
func (c ConnConfig) GoString() string { return c.String() }

// LogValue is String for slog.
func (c ConnConfig) LogValue() slog.Value { return slog.StringValue(c.String()) }

// redact returns the address in raw with the password replaced and without
// query, which may name key files.
func redact(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" && u.Path == "" {
		return "***"
	}
	u.RawQuery, u.Fragment = "", ""
	if _, has := u.User.Password(); has {
		u.User = url.UserPassword(u.User.Username(), "***")
	}
	return strings.Replace(u.String(), "%2A%2A%2A", "***", 1)
}

// endpoint is a checked ConnConfig: everything that a dial needs.
type endpoint struct {
	ConnConfig
	uri     amqp.URI
	tls     *tls.Config
	sasl    func() []amqp.Authentication
	address string
	shown   string
	host    string
}

func (c ConnConfig) check() (*endpoint, error) {
	if c.URL == "" {
		return nil, &ConfigError{"URL", "is empty; give amqp://user:password@host:port/vhost"}
	}
	uri, err := amqp.ParseURI(c.URL)
	if err != nil {
		// The parser's message quotes the URL, so it is not passed on.
		return nil, &ConfigError{"URL", "is not an AMQP address; give amqp://user:password@host:port/vhost with reserved characters percent-encoded"}
	}
	ep := &endpoint{ConnConfig: c, uri: uri, shown: redact(c.URL)}
	ep.address = net.JoinHostPort(uri.Host, fmt.Sprint(uri.Port))
	if ep.host, err = os.Hostname(); err != nil {
		ep.host = "localhost"
	}
	// An instance that names its host, as host:pid:random, is believed: in a container
	// the name of the machine says nothing.
	if parts := strings.Split(c.Instance, ":"); len(parts) == 3 && parts[0] != "" {
		ep.host = parts[0]
	}
	ep.defaults()
	if ep.sasl, err = mechanisms(uri); err != nil {
		return nil, err
	}
	if uri.Scheme == "amqps" {
		if ep.tls, err = ep.tlsConfig(); err != nil {
			return nil, err
		}
	} else if c.TLS != nil || c.TLSCACertFile != "" || c.TLSCertFile != "" || c.TLSKeyFile != "" || c.TLSServerName != "" {
		return nil, &ConfigError{"URL", "TLS is configured but the scheme is amqp; use amqps"}
	}
	return ep, nil
}

func (ep *endpoint) defaults() {
	if ep.Instance == "" {
		var b [2]byte
		_, _ = rand.Read(b[:]) // never fails, see its documentation
		ep.Instance = fmt.Sprintf("%s:%d:%s", ep.host, os.Getpid(), hex.EncodeToString(b[:]))
	}
	if ep.ConnectTimeout <= 0 {
		ep.ConnectTimeout = 10 * time.Second
	}
	if ep.uri.ConnectionTimeout > 0 {
		ep.ConnectTimeout = time.Duration(ep.uri.ConnectionTimeout) * time.Millisecond
	}
	if ep.ReplyTimeout <= 0 {
		ep.ReplyTimeout = 10 * time.Second
	}
	if ep.Heartbeat <= 0 {
		ep.Heartbeat = 10 * time.Second
	}
	if ep.Logger == nil {
		ep.Logger = slog.New(slog.DiscardHandler)
	}
	if ep.DialFunc == nil {
		ep.DialFunc = (&net.Dialer{}).DialContext
	}
	ep.Recovery = ep.Recovery.withDefaults()
}

func mechanisms(uri amqp.URI) (func() []amqp.Authentication, error) {
	names := uri.AuthMechanism
	if len(names) == 0 {
		names = []string{"PLAIN"}
	}
	for _, n := range names {
		switch strings.ToUpper(n) {
		case "PLAIN", "AMQPLAIN", "EXTERNAL":
		default:
			return nil, &ConfigError{"URL", fmt.Sprintf("auth_mechanism %q is unknown; use plain, amqplain or external", n)}
		}
	}
	return func() []amqp.Authentication {
		var all []amqp.Authentication
		for _, n := range names {
			switch strings.ToUpper(n) {
			case "PLAIN":
				all = append(all, uri.PlainAuth())
			case "AMQPLAIN":
				all = append(all, uri.AMQPlainAuth())
			case "EXTERNAL":
				all = append(all, &amqp.ExternalAuth{})
			}
		}
		return all
	}, nil
}

func (ep *endpoint) tlsConfig() (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if ep.TLS != nil {
		cfg = ep.TLS.Clone()
	}
	first := func(a, b string) string {
		if a != "" {
			return a
		}
		return b
	}
	if name := first(ep.TLSServerName, ep.uri.ServerName); name != "" {
		cfg.ServerName = name
	}
	if cfg.ServerName == "" {
		cfg.ServerName = ep.uri.Host
	}
	if file := first(ep.TLSCACertFile, ep.uri.CACertFile); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("consumers: reading the certificate authorities (TLSCACertFile): %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, &ConfigError{"TLSCACertFile", file + " holds no PEM certificate"}
		}
		cfg.RootCAs = pool
	}
	cert, key := first(ep.TLSCertFile, ep.uri.CertFile), first(ep.TLSKeyFile, ep.uri.KeyFile)
	if (cert == "") != (key == "") {
		return nil, &ConfigError{"TLSCertFile", "a client certificate needs both TLSCertFile and TLSKeyFile"}
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("consumers: reading the client certificate (TLSCertFile, TLSKeyFile): %w", err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}
