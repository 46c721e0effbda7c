package app

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/belay-mq/belay/cmd/belay/internal/config"
	"github.com/belay-mq/belay/consumers"
	"github.com/belay-mq/belay/registry"
)

// Listeners is a file of listener declarations, for 'belay run'.
type Listeners struct {
	// App is the application, which is the Nacos group of its toggle file.
	App string `yaml:"app"`
	// Listeners are what is hosted.
	Listeners []ListenerSpec `yaml:"listeners"`
	// WithoutToggles is "start" or "hold": what to do at a start where neither Nacos
	// nor a kept file can be read.
	WithoutToggles string `yaml:"without-toggles,omitempty"`
}

// ListenerSpec declares one listener.
type ListenerSpec struct {
	ID          string      `yaml:"id"`
	Queues      []string    `yaml:"queues"`
	Concurrency Range       `yaml:"concurrency,omitempty"`
	Prefetch    int         `yaml:"prefetch,omitempty"`
	Manual      bool        `yaml:"manual-startup,omitempty"`
	Exclusive   bool        `yaml:"exclusive,omitempty"`
	Requeue     bool        `yaml:"requeue-on-error,omitempty"`
	Force       bool        `yaml:"force-stop,omitempty"`
	Shutdown    Duration    `yaml:"shutdown-timeout,omitempty"`
	Attempts    int         `yaml:"attempts,omitempty"`
	Handler     HandlerSpec `yaml:"handler"`
}

// Duration is config.Duration.
type Duration = config.Duration

// Range is a concurrency: "2" or "2..8".
type Range struct{ Min, Max int }

// UnmarshalYAML reads "2" or "2..8".
func (r *Range) UnmarshalYAML(node ast.Node) error {
	v, err := ParseRange(node.GetToken().Value)
	if err != nil {
		return config.Mistake(node, "%s", err)
	}
	*r = v
	return nil
}

// ParseRange reads a concurrency, "2" or "2..8".
func ParseRange(s string) (Range, error) {
	lo, hi, both := strings.Cut(s, "..")
	if !both {
		hi = lo
	}
	a, errA := strconv.Atoi(lo)
	b, errB := strconv.Atoi(hi)
	switch {
	case errA != nil || errB != nil:
		return Range{}, fmt.Errorf("%q is no concurrency; write it like 2 or 2..8", s)
	case a < 1 || b < a:
		return Range{}, fmt.Errorf("the concurrency %q must have 1 ≤ min ≤ max", s)
	}
	return Range{a, b}, nil
}

// HandlerSpec is what is done with a message: exactly one of its fields is set.
type HandlerSpec struct {
	// Log writes a line for each message to the log.
	Log bool
	// Discard acks each message without looking at it.
	Discard bool
	// Exec runs a command with the message on its standard input.
	Exec *ExecSpec
	// HTTP posts the message.
	HTTP *HTTPSpec
}

// ExecSpec is a command. Exit status 0 acks the message; any other, and a timeout,
// rejects it, or requeues it where the listener says requeue-on-error. One that cannot
// be started, or is killed by somebody else, gives it back.
type ExecSpec struct {
	Command []string `yaml:"command"`
	Timeout Duration `yaml:"timeout,omitempty"` // default 30 s
}

// HTTPSpec is an address that messages are posted to. A status of 2xx acks the message;
// where nobody has looked at it (no connection, no answer in time, 3xx, 401, 403, 404,
// 405, 407, 408, 429, 502, 503, 504) it goes back; any other status rejects it, or
// requeues it where the listener says requeue-on-error. No redirect is followed.
type HTTPSpec struct {
	URL     string   `yaml:"url"`
	Timeout Duration `yaml:"timeout,omitempty"` // default 30 s
}

// UnmarshalYAML reads "log", "discard", {exec: …} or {http: …}.
func (h *HandlerSpec) UnmarshalYAML(node ast.Node) error {
	if s, ok := node.(*ast.StringNode); ok {
		switch s.Value {
		case "log":
			h.Log = true
		case "discard":
			h.Discard = true
		default:
			return config.Mistake(node, "%q is no handler; use log, discard, exec or http", s.Value)
		}
		return nil
	}
	var m struct {
		Exec *ExecSpec `yaml:"exec"`
		HTTP *HTTPSpec `yaml:"http"`
	}
	if err := yaml.NodeToValue(node, &m, yaml.Strict()); err != nil {
		return err
	}
	h.Exec, h.HTTP = m.Exec, m.HTTP
	switch {
	case (h.Exec == nil) == (h.HTTP == nil):
		return config.Mistake(node, "a handler is log, discard, or one of exec and http")
	case h.Exec != nil && len(h.Exec.Command) == 0:
		return config.Mistake(node, "exec needs a command, as a list of words")
	case h.HTTP != nil && !strings.HasPrefix(h.HTTP.URL, "http://") && !strings.HasPrefix(h.HTTP.URL, "https://"):
		return config.Mistake(node, "http needs a url that begins with http:// or https://")
	}
	return nil
}

// LoadListeners reads and checks a file of listeners; the commands that it names must be
// there. The error is a *config.Error where the file could be read.
func LoadListeners(path string) (*Listeners, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the listeners: %w", err)
	}
	l, err := ParseListeners(path, data)
	if err != nil {
		return nil, err
	}
	for i, s := range l.Listeners {
		if e := s.Handler.Exec; e != nil {
			if _, err := exec.LookPath(e.Command[0]); err != nil {
				return nil, &config.Error{Path: path, Key: fmt.Sprintf("listeners[%d].handler.exec.command", i), Text: err.Error()}
			}
		}
	}
	return l, nil
}

// ParseListeners reads and checks declarations. The error is a *config.Error.
func ParseListeners(path string, data []byte) (*Listeners, error) {
	var l Listeners
	doc, err := config.Decode(path, data, &l)
	if err != nil {
		return nil, err
	}
	if l.App == "" {
		return nil, doc.Mistake("$.app", "it is missing: name the application whose toggle file is in force")
	}
	if len(l.Listeners) == 0 {
		return nil, doc.Mistake("$.listeners", "it is empty: declare at least one")
	}
	switch l.WithoutToggles {
	case "", "start", "hold":
	default:
		return nil, doc.Mistake("$.without-toggles", fmt.Sprintf("%q is unknown; use start or hold", l.WithoutToggles))
	}
	seen := make(map[string]bool)
	for i, s := range l.Listeners {
		at := fmt.Sprintf("$.listeners[%d]", i)
		if key, text := s.mistake(); text != "" {
			return nil, doc.Mistake(at+"."+key, text)
		}
		if seen[s.ID] {
			return nil, doc.Mistake(at+".id", fmt.Sprintf("%q stands there twice", s.ID))
		}
		seen[s.ID] = true
	}
	return &l, nil
}

// keys are the keys of the file for the fields of a container's configuration.
var keys = map[string]string{"ListenerID": "id", "Queues": "queues", "Min": "concurrency", "Max": "concurrency", "Prefetch": "prefetch"}

// mistake names the key of what is wrong, and says what; "" where nothing is.
func (s ListenerSpec) mistake() (key, text string) {
	var wrong *consumers.ConfigError
	h := s.Handler
	switch err := s.Config().Validate(); {
	case errors.As(err, &wrong):
		return keys[wrong.Field], wrong.Text
	case s.Attempts < 0:
		return "attempts", fmt.Sprintf("%d must not be negative", s.Attempts)
	case !h.Log && !h.Discard && h.Exec == nil && h.HTTP == nil:
		return "handler", "it is missing; use log, discard, exec or http"
	}
	return "", ""
}

// Config returns the container's configuration.
func (s ListenerSpec) Config() consumers.Config {
	c := consumers.Config{
		ListenerID: s.ID, Queues: s.Queues, Min: s.Concurrency.Min, Max: s.Concurrency.Max,
		Prefetch: s.Prefetch, ManualStartup: s.Manual, Exclusive: s.Exclusive, DefaultRequeue: s.Requeue,
		ShutdownTimeout: time.Duration(s.Shutdown), Retry: consumers.Retry{Attempts: s.Attempts},
	}
	if s.Force {
		c.StopMode = consumers.StopForce
	}
	return c
}

// errStatus is what an exec or http handler answers to a message that was not taken.
var errStatus = errors.New("the handler did not take the message")

// Host completes the configuration of an instance that hosts the declared listeners.
func (l *Listeners) Host(c *config.Context, h HostConfig) HostConfig {
	h.App, h.Context, h.WithoutToggles = l.App, c, registry.Policy(l.WithoutToggles)
	for _, s := range l.Listeners {
		h.Listeners = append(h.Listeners, Hosted{Config: s.Config(), Handler: s.handler(h.Logger)})
	}
	return h
}
