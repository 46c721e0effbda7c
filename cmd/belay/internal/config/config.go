// Package config reads belay's configuration file: named contexts, each an environment
// with its Nacos, its RabbitMQ and its release messages.
//
// A mistake is an error that names file, line and key; an unknown key is one too.
// Values may take ${NAME} from the environment. Secrets are [Secret]s, which print
// as ***.
package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"
)

// ErrNoConfig: there is no configuration file.
var ErrNoConfig = errors.New("there is no configuration")

// File is a configuration file as read.
type File struct {
	Path           string              `yaml:"-"`
	CurrentContext string              `yaml:"current-context"`
	Contexts       map[string]*Context `yaml:"contexts"`
	// Keys rebinds keys of the dashboard: action to one or several keys ("p space").
	Keys map[string]string `yaml:"keys,omitempty"`
	// Warnings are about the file, not errors.
	Warnings []string `yaml:"-"`
}

// Context is one named environment.
type Context struct {
	Name string `yaml:"-"`
	// Label is shown on every screen and in each confirmation. Default: the name.
	Label    string    `yaml:"label,omitempty"`
	Nacos    *Nacos    `yaml:"nacos,omitempty"`
	RabbitMQ *RabbitMQ `yaml:"rabbitmq,omitempty"`
	Releases *Releases `yaml:"releases,omitempty"`
	Writes   Writes    `yaml:"writes,omitempty"`
}

// Nacos is where the toggle files are.
type Nacos struct {
	// Embedded: belay starts the server itself (the word "embedded").
	Embedded     bool          `yaml:"-"`
	Servers      []string      `yaml:"servers"`
	Namespace    string        `yaml:"namespace,omitempty"`
	Username     string        `yaml:"username,omitempty"`
	Password     Secret        `yaml:"password,omitempty"`
	PasswordFile string        `yaml:"password-file,omitempty"`
	DataID       string        `yaml:"data-id,omitempty"`
	Applications []Application `yaml:"applications,omitempty"`
	TLS          *TLS          `yaml:"tls,omitempty"`
	PollInterval Duration      `yaml:"poll-interval,omitempty"`
}

// Application is a Nacos group, and where its queues are.
type Application struct {
	Name  string `yaml:"name"`
	VHost string `yaml:"vhost,omitempty"`
}

// RabbitMQ is the broker.
type RabbitMQ struct {
	Embedded   bool   `yaml:"-"`
	URL        Secret `yaml:"url"`
	Management Secret `yaml:"management,omitempty"`
	TLS        *TLS   `yaml:"tls,omitempty"`
}

// Releases is the database with Apollo's ReleaseMessage table.
type Releases struct {
	Embedded bool     `yaml:"-"`
	DSN      Secret   `yaml:"dsn"`
	Interval Duration `yaml:"interval,omitempty"`
	Window   Duration `yaml:"window,omitempty"`
	// LookBack is how many ids below the newest are looked at when the scanner
	// starts; nil: the default of 1,000.
	LookBack   *int `yaml:"look-back,omitempty"`
	Checkpoint bool `yaml:"checkpoint,omitempty"`
}

// TLS names the files of a TLS connection.
type TLS struct {
	CA         string `yaml:"ca,omitempty"`
	Cert       string `yaml:"cert,omitempty"`
	Key        string `yaml:"key,omitempty"`
	ServerName string `yaml:"server-name,omitempty"`
}

// Writes says what is asked of whoever writes.
type Writes struct {
	ReadOnly        bool `yaml:"read-only,omitempty"`
	RequireReason   bool `yaml:"require-reason,omitempty"`
	TypeContextName bool `yaml:"type-context-name,omitempty"`
}

// Secret is a text that is never printed. Reveal gives it to what needs it.
type Secret string

// String returns "***", or "" for an empty secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "***"
}

// GoString returns the same as String.
func (s Secret) GoString() string { return s.String() }

// MarshalText makes every encoder print "***".
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Reveal returns the text itself.
func (s Secret) Reveal() string { return string(s) }

// Duration is a time.Duration written like "500ms" or "1m".
type Duration time.Duration

// MarshalText writes it as it is read.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// Path is where the configuration file is: the flag's value, else $BELAY_CONFIG, else
// $XDG_CONFIG_HOME/belay/config.yaml.
func Path(flag string) string {
	if flag != "" {
		return flag
	}
	if p := os.Getenv("BELAY_CONFIG"); p != "" {
		return p
	}
	return filepath.Join(home("XDG_CONFIG_HOME", ".config"), "belay", "config.yaml")
}

// StateDir is where belay keeps state: $XDG_STATE_HOME/belay.
func StateDir() string { return filepath.Join(home("XDG_STATE_HOME", ".local/state"), "belay") }

func home(env, below string) string {
	if p := os.Getenv(env); filepath.IsAbs(p) {
		return p
	}
	h, err := os.UserHomeDir()
	if err != nil {
		h = os.TempDir()
	}
	return filepath.Join(h, below)
}

// Load reads and checks the file. A missing file is an error that wraps ErrNoConfig.
func Load(path string) (*File, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w at %s", ErrNoConfig, path)
	}
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	f, err := Parse(path, data, os.LookupEnv)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o044 != 0 && f.literalSecret(data) {
		f.Warnings = append(f.Warnings, fmt.Sprintf("%s holds a password and can be read by others; run: chmod 600 %s", path, path))
	}
	return f, nil
}

// literalSecret reports whether a secret stands in the file itself, not taken from the
// environment.
func (f *File) literalSecret(data []byte) bool {
	for _, c := range f.Contexts {
		var secrets []Secret
		if c.Nacos != nil {
			secrets = append(secrets, c.Nacos.Password)
		}
		if c.RabbitMQ != nil {
			secrets = append(secrets, passwordOf(c.RabbitMQ.URL), passwordOf(c.RabbitMQ.Management))
		}
		if c.Releases != nil {
			secrets = append(secrets, passwordOf(c.Releases.DSN))
		}
		for _, s := range secrets {
			if s != "" && strings.Contains(string(data), s.Reveal()) {
				return true
			}
		}
	}
	return false
}

// passwordOf returns the password in a URL, without reading it strictly.
func passwordOf(url Secret) Secret {
	_, rest, ok := strings.Cut(string(url), "://")
	if !ok {
		return ""
	}
	userinfo, _, ok := strings.Cut(rest, "@")
	if !ok {
		return ""
	}
	_, password, _ := strings.Cut(userinfo, ":")
	return Secret(password)
}

// Context returns the named context, or the current one for an empty name.
func (f *File) Context(name string) (*Context, error) {
	if name == "" {
		name = f.CurrentContext
	}
	if name == "" && len(f.Contexts) == 1 {
		for n := range f.Contexts {
			name = n
		}
	}
	if name == "" {
		return nil, fmt.Errorf("%s: no current-context is set; choose one of %s with --context or 'belay use'", f.Path, strings.Join(f.Names(), ", "))
	}
	c := f.Contexts[name]
	if c == nil {
		return nil, fmt.Errorf("%s: there is no context %q; there are %s", f.Path, name, strings.Join(f.Names(), ", "))
	}
	return c, nil
}

// Names returns the names of the contexts, sorted.
func (f *File) Names() []string {
	names := make([]string, 0, len(f.Contexts))
	for n := range f.Contexts {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}
