package consumers_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belay-mq/belay/consumers"
	amqp "github.com/rabbitmq/amqp091-go"
)

func TestConfigIsChecked(t *testing.T) {
	conn, err := consumers.Dial(t.Context(), consumers.ConnConfig{URL: "amqp://127.0.0.1:1/"})
	check(t, err)
	defer conn.Close(t.Context())
	good := func() consumers.Config { return consumers.Config{ListenerID: "L", Queues: []string{"q"}} }
	for field, change := range map[string]func(*consumers.Config){
		"ListenerID":   func(c *consumers.Config) { c.ListenerID = " " },
		"ListenerID ":  func(c *consumers.Config) { c.ListenerID = strings.Repeat("x", 201) },
		"ListenerID\t": func(c *consumers.Config) { c.ListenerID = "a\x07b" },
		"ListenerID\n": func(c *consumers.Config) { c.ListenerID = "a\xff" },
		"Queues":       func(c *consumers.Config) { c.Queues = nil },
		"Queues ":      func(c *consumers.Config) { c.Queues = []string{"a", "a"} },
		"Queues\t":     func(c *consumers.Config) { c.Queues = []string{""} },
		"Min":          func(c *consumers.Config) { c.Min = -1 },
		"Max":          func(c *consumers.Config) { c.Min, c.Max = 3, 2 },
		"Max ":         func(c *consumers.Config) { c.Exclusive, c.Max = true, 2 },
		"Prefetch":     func(c *consumers.Config) { c.Prefetch = 65536 },
		"Prefetch ":    func(c *consumers.Config) { c.Prefetch = -1 },
		"AckMode":      func(c *consumers.Config) { c.AckMode = "later" },
		"StopMode":     func(c *consumers.Config) { c.StopMode = "never" },
		"TagPrefix":    func(c *consumers.Config) { c.TagPrefix = strings.Repeat("x", 41) },
		"Args":         func(c *consumers.Config) { c.Args = amqp.Table{"x": struct{}{}} },
	} {
		cfg := good()
		change(&cfg)
		_, err := consumers.New(conn, cfg, ok)
		var wrong *consumers.ConfigError
		if !errors.As(err, &wrong) || wrong.Field != strings.TrimSpace(field) {
			t.Errorf("%q: %v", field, err)
		}
	}
	if _, err := consumers.New(conn, good(), nil); err == nil {
		t.Error("a nil handler was taken")
	}
	if _, err := consumers.New(nil, good(), ok); err == nil {
		t.Error("a nil Conn was taken")
	}
	c, err := consumers.New(conn, good(), ok)
	check(t, err)
	if st := c.Status(); st.State != consumers.Stopped || st.Min != 1 || st.Max != 1 || st.Prefetch != 250 || !st.AutoStartup || c.ListenerID() != "L" {
		t.Errorf("%+v", st)
	}
	closeNow(t, c)
	if err := c.Start(t.Context(), consumers.Cause{}); !errors.Is(err, consumers.ErrClosed) {
		t.Errorf("Start of a closed container: %v", err)
	}
}

func TestDialChecksItsConfigurationAndShowsNoPassword(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "ca.pem")
	check(t, os.WriteFile(bad, []byte("nothing"), 0o600))
	for _, cfg := range []consumers.ConnConfig{
		{},
		{URL: "http://guest:s3cret@host/"},
		{URL: "amqp://guest:s3cret@host:port/"},
		{URL: "amqp://guest:s3cret@host name/"},
		{URL: "amqp://guest:s3cret@host/", TLSServerName: "x"},
		{URL: "amqp://guest:s3cret@host/?auth_mechanism=magic"},
		{URL: "amqps://guest:s3cret@host/", TLSCACertFile: "/does/not/exist"},
		{URL: "amqps://guest:s3cret@host/", TLSCACertFile: bad},
		{URL: "amqps://guest:s3cret@host/", TLSCertFile: bad},
		{URL: "amqps://guest:s3cret@host/", TLSCertFile: bad, TLSKeyFile: bad},
	} {
		_, err := consumers.Dial(t.Context(), cfg)
		if err == nil {
			t.Errorf("%v was taken", cfg)
			continue
		}
		for _, text := range []string{err.Error(), fmt.Sprint(cfg), fmt.Sprintf("%+v %#v", cfg, cfg), cfg.LogValue().String()} {
			if strings.Contains(text, "s3cret") {
				t.Errorf("the password is shown: %s", text)
			}
		}
	}
	conn, err := consumers.Dial(t.Context(), consumers.ConnConfig{URL: "amqp://guest:s3cret@127.0.0.1:1/v", App: "a", Recovery: quick})
	check(t, err)
	defer conn.Close(context.Background())
	if s := conn.String(); s != "amqp://guest:***@127.0.0.1:1/v" || conn.App() != "a" || strings.Count(conn.Instance(), ":") != 2 || !strings.HasPrefix(conn.Instance(), conn.Host()) {
		t.Errorf("%s %s %s", s, conn.Instance(), conn.Host())
	}
	ctx, cancel := context.WithCancel(t.Context())
	changed := make(chan struct{}, 100)
	conn.OnChange(func() { changed <- struct{}{} })
	go func() { <-changed; <-changed; cancel() }()
	if _, err := conn.PublishChannel(ctx); err == nil || !errors.Is(err, context.Canceled) {
		t.Errorf("PublishChannel without a broker: %v", err)
	}
	if h := conn.Health(); h.Connected || h.Attempts == 0 || !strings.Contains(h.LastError, "refused") || strings.Contains(h.LastError, "s3cret") {
		t.Errorf("%+v", h)
	}
	check(t, conn.Close(t.Context()))
	if _, err := conn.ConsumeChannel(t.Context()); !errors.Is(err, consumers.ErrClosed) {
		t.Errorf("ConsumeChannel of a closed Conn: %v", err)
	}
}
