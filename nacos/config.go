package nacos

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// Defaults of [Config].
const (
	DefaultPort         = 8848
	DefaultContextPath  = "/nacos"
	DefaultPollInterval = 3 * time.Second
	DefaultCallTimeout  = 3 * time.Second
	DefaultWriteTimeout = 5 * time.Second
	grpcPortOffset      = 1000
	consolePort         = 8080
)

// Secret is a string that never shows itself: every way of printing, logging
// or marshalling it gives ***. Reveal returns the text.
type Secret string

// Reveal returns the secret text.
func (s Secret) Reveal() string { return string(s) }

// String returns "***", or "" for an empty secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "***"
}

// Format prints *** whatever the verb is.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// LogValue keeps the secret out of structured logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText keeps the secret out of JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// TLS says how to reach servers that speak TLS. Files are read and checked by
// [New].
type TLS struct {
	// CAFile is a PEM file with the authorities that signed the server's
	// certificate. Empty uses those of the system.
	CAFile string
	// CertFile and KeyFile are this client's certificate, where the server asks
	// for one. Both or neither.
	CertFile string
	// Enable turns TLS on for HTTP and gRPC. A server given as https:// turns
	// it on as well.
	Enable bool
	// InsecureSkipVerify accepts any certificate.
	InsecureSkipVerify bool
	KeyFile            string
	// ServerName is the name expected in the certificate. Empty: the host.
	ServerName string
}

// Config says which Nacos a [Store] speaks to. Only Servers is needed.
type Config struct {
	// App is the application name that this client reports to the server; it
	// shows in the server's list of connections. Default "belay".
	App string
	// CallTimeout bounds every single request. Default 3 s.
	CallTimeout time.Duration
	// Console is "host[:port]" of the console of a 3.x server, which answers a
	// read-only user some questions that the server port refuses. Default: the
	// server's host and port 8080.
	Console string
	// ContextPath is the path before /v1, /v2 and /v3. Default "/nacos".
	ContextPath string
	// DisablePush leaves gRPC alone: changes are then noticed by the HTTP long
	// poll and the safety poll.
	DisablePush bool
	// GRPCPort is the port of pushes. Default: the HTTP port + 1000.
	GRPCPort int
	// Logger takes what happens at debug and warn level, never contents, tokens
	// or passwords. Default: nothing is logged.
	Logger *slog.Logger
	// Namespace is the namespace id; empty and "public" are the default one.
	Namespace string
	// Operator is recorded as the author of writes that name none.
	Operator string
	// Password of Username.
	Password Secret
	// PollInterval is the time between two safety polls, which bound how long a
	// change can stay unseen whose push was lost. A state is stale after three
	// intervals without a successful read. Default 3 s.
	PollInterval time.Duration
	// Servers are "host[:port]", "http://host[:port]" or "https://host[:port]";
	// IPv6 hosts with or without brackets. The default port is 8848. The
	// next one is tried when one cannot be reached.
	Servers []string
	// TLS is needed for servers that speak it.
	TLS TLS
	// Username logs in where the server has authentication on. Empty: no login.
	Username string
	// WriteTimeout bounds a write with its retries and re-reads. Default 5 s.
	WriteTimeout time.Duration
}

// endpoint is one server.
type endpoint struct {
	base    string // http://host:port/nacos
	console string // http://host:8080, the console of 3.x
	grpc    string // host:port
	host    string // for TLS
	scheme  string // http or https
	path    string // /nacos
	port    int    // of HTTP
	push    int    // of gRPC
}

// settled is a Config with defaults filled in and addresses and files read.
type settled struct {
	Config
	endpoints []endpoint
	tls       *tls.Config
	log       *slog.Logger
}

func (c Config) settle() (settled, error) {
	s := settled{Config: c, log: c.Logger}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.log = s.log.With("component", "nacos")
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&s.CallTimeout, DefaultCallTimeout)
	def(&s.PollInterval, DefaultPollInterval)
	def(&s.WriteTimeout, DefaultWriteTimeout)
	if s.App == "" {
		s.App = "belay"
	}
	if s.ContextPath == "" {
		s.ContextPath = DefaultContextPath
	}
	s.ContextPath = "/" + strings.Trim(s.ContextPath, "/")
	if s.ContextPath == "/" {
		s.ContextPath = ""
	}
	switch {
	case len(c.Servers) == 0:
		return s, errors.New("nacos: no server given; set Servers to host:port")
	case s.CallTimeout < 0 || s.PollInterval < 0 || s.WriteTimeout < 0:
		return s, errors.New("nacos: CallTimeout, PollInterval and WriteTimeout must not be negative")
	case s.GRPCPort < 0 || s.GRPCPort > 65535:
		return s, fmt.Errorf("nacos: GRPCPort %d is no port", s.GRPCPort)
	case s.Username == "" && s.Password != "":
		return s, errors.New("nacos: a password without a user name; set Username")
	}
	if s.Namespace == "public" {
		s.Namespace = ""
	}
	if s.Namespace != "" {
		if err := checkName("namespace", s.Namespace, maxNamespace); err != nil {
			return s, err
		}
	}
	for _, text := range c.Servers {
		e, secure, err := s.endpoint(text)
		if err != nil {
			return s, err
		}
		s.TLS.Enable = s.TLS.Enable || secure
		s.endpoints = append(s.endpoints, e)
	}
	if s.TLS.Enable {
		var err error
		if s.tls, err = s.TLS.load(); err != nil {
			return s, err
		}
	}
	return s, nil
}

// endpoint reads one address; secure tells that it was given as https.
func (s *settled) endpoint(text string) (e endpoint, secure bool, err error) {
	rest, scheme := strings.TrimSpace(text), "http"
	if s.TLS.Enable {
		scheme = "https"
	}
	if before, after, ok := strings.Cut(rest, "://"); ok {
		scheme, rest = strings.ToLower(before), after
		if scheme != "http" && scheme != "https" {
			return e, false, fmt.Errorf("nacos: server %q: scheme %q is neither http nor https", text, before)
		}
	}
	path := s.ContextPath
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		if p := strings.TrimRight(rest[i:], "/"); p != "" {
			path = p
		}
		rest = rest[:i]
	}
	host, port, err := splitHostPort(rest, DefaultPort)
	if err != nil {
		return e, false, fmt.Errorf("nacos: server %q: %w", text, err)
	}
	push := s.GRPCPort
	if push == 0 {
		push = port + grpcPortOffset
	}
	console := net.JoinHostPort(host, strconv.Itoa(consolePort))
	if s.Console != "" {
		h, p, err := splitHostPort(strings.TrimPrefix(strings.TrimPrefix(s.Console, "http://"), "https://"), consolePort)
		if err != nil {
			return e, false, fmt.Errorf("nacos: console %q: %w", s.Console, err)
		}
		console = net.JoinHostPort(h, strconv.Itoa(p))
	}
	base := scheme + "://" + strings.Replace(net.JoinHostPort(host, strconv.Itoa(port)), "%", "%25", 1) + path
	if u, err := url.Parse(base); err != nil || u.RawQuery != "" || u.Fragment != "" || u.Port() == "" {
		return e, false, fmt.Errorf("nacos: server %q is no address of the form host:port", text)
	}
	return endpoint{
		base:    base,
		console: scheme + "://" + console,
		grpc:    net.JoinHostPort(host, strconv.Itoa(push)),
		host:    host,
		scheme:  scheme, path: path, port: port, push: push,
	}, scheme == "https", nil
}

// splitHostPort takes "host", "host:port", "[v6]", "[v6]:port" and a bare v6.
func splitHostPort(text string, defaultPort int) (host string, port int, err error) {
	host = text
	switch {
	case strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]"):
		host = text[1 : len(text)-1]
	case strings.Count(text, ":") > 1 && !strings.HasPrefix(text, "["):
		// a bare IPv6 address
	case strings.Contains(text, ":"):
		var p string
		if host, p, err = net.SplitHostPort(text); err != nil {
			return "", 0, err
		}
		if port, err = strconv.Atoi(p); err != nil || port < 1 || port > 65535 {
			return "", 0, fmt.Errorf("%q is no port", p)
		}
	}
	if port == 0 {
		port = defaultPort
	}
	if host == "" {
		return "", 0, errors.New("no host")
	}
	name := host
	if strings.Contains(host, ":") {
		host = strings.Replace(host, "%25", "%", 1) // a zone, as URLs write it
		var ip string
		if ip, name, _ = strings.Cut(host, "%"); net.ParseIP(ip) == nil {
			return "", 0, fmt.Errorf("%q is no address", host)
		}
	}
	if strings.IndexFunc(name, func(r rune) bool { return !strings.ContainsRune(hostLetters, r) }) >= 0 {
		return "", 0, fmt.Errorf("%q is no host name", host)
	}
	return host, port, nil
}

const hostLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."

// load reads the files, so that a bad one is an error of New and not a failure
// of the first connection.
func (t TLS) load() (*tls.Config, error) {
	c := &tls.Config{InsecureSkipVerify: t.InsecureSkipVerify, ServerName: t.ServerName, MinVersion: tls.VersionTLS12}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("nacos: TLS CAFile: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("nacos: TLS CAFile %s holds no PEM certificate", t.CAFile)
		}
	}
	if (t.CertFile == "") != (t.KeyFile == "") {
		return nil, errors.New("nacos: TLS CertFile and KeyFile belong together; only one is set")
	}
	if t.CertFile != "" {
		cert, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("nacos: TLS CertFile %s, KeyFile %s: %w", t.CertFile, t.KeyFile, err)
		}
		c.Certificates = []tls.Certificate{cert}
	}
	return c, nil
}
