package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const good = `current-context: prod
contexts:
  prod:
    label: PROD
    nacos:
      servers: [nacos-1:8848, nacos-2:8848]
      namespace: prod
      username: oncall
      password: ${NACOS_PASSWORD}
      applications: [order-service, {name: settle-service, vhost: settle}]
    rabbitmq:
      url: amqps://oncall:${RABBIT_PASSWORD}@rabbit/orders
      management: https://rabbit:15671
    releases:
      dsn: mysql://reader:${DB_PASSWORD}@apollo-db:3306/ApolloConfigDB
      interval: 1s
      window: 500ms
      look-back: 1000
      checkpoint: true
    writes: { read-only: false, require-reason: true, type-context-name: true }
  demo:
    nacos: embedded
    rabbitmq: embedded
    releases: embedded
`

func env(name string) (string, bool) {
	v, ok := map[string]string{"NACOS_PASSWORD": "s1", "RABBIT_PASSWORD": "s2", "DB_PASSWORD": "s3"}[name]
	return v, ok
}

func TestParse(t *testing.T) {
	f, err := Parse("c.yaml", []byte(good), env)
	if err != nil {
		t.Fatal(err)
	}
	c, err := f.Context("")
	if err != nil {
		t.Fatal(err)
	}
	if c.Name != "prod" || c.Label != "PROD" || c.Nacos.Password.Reveal() != "s1" || len(c.Nacos.Servers) != 2 {
		t.Errorf("context read wrongly: %+v", c)
	}
	if a := c.Nacos.Applications; len(a) != 2 || a[0].Name != "order-service" || a[1].Name != "settle-service" || a[1].VHost != "settle" {
		t.Errorf("applications read wrongly: %+v", a)
	}
	if got := c.RabbitMQ.URL.Reveal(); got != "amqps://oncall:s2@rabbit/orders" {
		t.Errorf("url = %s", got)
	}
	if r := c.Releases; time.Duration(r.Window) != 500*time.Millisecond || *r.LookBack != 1000 || !r.Checkpoint {
		t.Errorf("releases read wrongly: %+v", r)
	}
	if !c.Writes.RequireReason || !c.Writes.TypeContextName || c.Writes.ReadOnly {
		t.Errorf("writes read wrongly: %+v", c.Writes)
	}
	demo, err := f.Context("demo")
	if err != nil {
		t.Fatal(err)
	}
	if !demo.Nacos.Embedded || !demo.RabbitMQ.Embedded || !demo.Releases.Embedded || demo.Label != "demo" {
		t.Errorf("demo read wrongly: %+v", demo)
	}
	if printed := fmt.Sprintf("%v %+v %#v", *c.Nacos, *c.RabbitMQ, *c.Releases); strings.Contains(printed, "s1") || strings.Contains(printed, "s2") || strings.Contains(printed, "s3") {
		t.Errorf("a secret was printed: %s", printed)
	}
}

func TestMistakes(t *testing.T) {
	for name, c := range map[string]struct {
		old, new string
		line     int
		text     string
	}{
		"unknown key":         {"label: PROD", "lable: PROD", 4, `unknown field "lable"`},
		"unknown nested key":  {"namespace: prod", "namspace: prod", 7, `unknown field "namspace"`},
		"no such context":     {"current-context: prod", "current-context: prd", 1, `there is no context "prd"`},
		"a path as a name":    {"  demo:\n", "  ../../demo:\n", 21, "is no name for a context"},
		"no variable":         {"${NACOS_PASSWORD}", "${NO_SUCH}", 9, "the environment has no NO_SUCH"},
		"not a URL":           {"amqps://oncall:${RABBIT_PASSWORD}@rabbit/orders", "rabbit:5672", 12, "is no URL of the form amqp"},
		"wrong database":      {"mysql://reader", "oracle://reader", 15, `"oracle" is no kind`},
		"bad duration":        {"interval: 1s", "interval: soon", 16, "is no duration"},
		"bad number":          {"look-back: 1000", "look-back: many", 18, "cannot unmarshal"},
		"negative":            {"look-back: 1000", "look-back: -1", 18, "must not be negative"},
		"no servers":          {"[nacos-1:8848, nacos-2:8848]", "[]", 6, "at least one server"},
		"application twice":   {"{name: settle-service, vhost: settle}", "order-service", 10, "stands there twice"},
		"neither nor":         {"nacos: embedded", "nacos: built-in", 22, "neither a mapping nor"},
		"syntax":              {"label: PROD", "label: [PROD", 0, ""},
		"both passwords":      {"username: oncall", "password-file: /x", 8, "password is set too"},
		"two documents":       {"  demo:\n", "---\ncontexts:\n  demo:\n", 22, "a second document begins here"},
		"missing certificate": {"namespace: prod", "tls: {ca: /no/such/file}", 7, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(good, c.old, c.new, 1)
			if text == good {
				t.Fatal("the case changes nothing")
			}
			_, err := Parse("c.yaml", []byte(text), env)
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("err = %v, want *Error", err)
			}
			if !strings.Contains(e.Text, c.text) || c.line != 0 && e.Line != c.line {
				t.Errorf("got line %d: %s; want line %d: %s", e.Line, e.Text, c.line, c.text)
			}
			if strings.Contains(err.Error(), "s2") {
				t.Errorf("a secret in the error: %v", err)
			}
		})
	}
}

func TestReadableSecretWarns(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "config.yaml")
	write := func(text string, mode os.FileMode) *File {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		f, err := Load(path)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	t.Setenv("RABBIT_PASSWORD", "hunter2")
	literal := "contexts: {a: {rabbitmq: {url: 'amqp://u:hunter2@h/'}}}\n"
	if f := write(literal, 0o644); len(f.Warnings) != 1 {
		t.Errorf("no warning for a readable literal password: %v", f.Warnings)
	}
	if f := write(literal, 0o600); len(f.Warnings) != 0 {
		t.Errorf("warning for a private file: %v", f.Warnings)
	}
	if f := write("contexts: {a: {rabbitmq: {url: 'amqp://u:${RABBIT_PASSWORD}@h/'}}}\n", 0o644); len(f.Warnings) != 0 {
		t.Errorf("warning although the password comes from the environment: %v", f.Warnings)
	}
}

func TestMissingFile(t *testing.T) {
	if _, err := Load(filepath.Join(t.TempDir(), "none.yaml")); !errors.Is(err, ErrNoConfig) {
		t.Errorf("err = %v, want ErrNoConfig", err)
	}
}
