package app

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/belay-mq/belay/cmd/belay/internal/config"
)

// A virtual host that is opened twice shows each of its instances twice, and one that is
// not opened shows none.
func TestVHosts(t *testing.T) {
	for name, c := range map[string]struct {
		url  config.Secret
		apps []string
		want []string
	}{
		"that of the url":                    {"amqp://h/orders", []string{""}, []string{"orders"}},
		"an application on that of the url":  {"amqp://h/orders", []string{"orders", "settle", "settle"}, []string{"orders", "settle"}},
		"the default one is not the url's":   {"amqp://h/orders", []string{"/"}, []string{"orders", "/"}},
		"none in the url is the default one": {"amqp://h", []string{"/", "a"}, []string{"/", "a"}},
		"an escaped slash":                   {"amqp://h/%2f", []string{"/"}, []string{"/"}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := &config.Context{RabbitMQ: &config.RabbitMQ{URL: c.url}, Nacos: &config.Nacos{}}
			for i, v := range c.apps {
				ctx.Nacos.Applications = append(ctx.Nacos.Applications, config.Application{Name: string(rune('a' + i)), VHost: v})
			}
			if got := vhosts(ctx); !slices.Equal(got, c.want) {
				t.Errorf("vhosts are %q, want %q", got, c.want)
			}
		})
	}
}

// The configuration for other processes says all that the original does: with one
// embedded part the others are real servers, with logins and write limits.
func TestConfigForOtherProcesses(t *testing.T) {
	ten := 10
	c := &config.Context{
		Name: "mixed", Label: "MIXED",
		Nacos: &config.Nacos{
			Servers: []string{"nacos:8848"}, Namespace: "prod", Username: "oncall", Password: "p: #w", DataID: "x.yaml",
			Applications: []config.Application{{Name: "settle", VHost: "s"}, {Name: "order"}}, PollInterval: config.Duration(time.Second),
		},
		RabbitMQ: &config.RabbitMQ{URL: "amqp://u:pw@h/v", Management: "http://u:pw@h:1"},
		Releases: &config.Releases{
			DSN: "mysql://r:pw@db/A", Interval: config.Duration(2 * time.Second), Window: config.Duration(time.Second), LookBack: &ten, Checkpoint: true,
		},
		Writes: config.Writes{ReadOnly: true, RequireReason: true, TypeContextName: true},
	}
	e := &Embedded{ConfigPath: filepath.Join(t.TempDir(), "config.yaml"), Context: c}
	if err := e.writeConfig(); err != nil {
		t.Fatal(err)
	}
	f, err := config.Load(e.ConfigPath)
	if err != nil {
		t.Fatal(err)
	}
	got, err := f.Context("")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c, got); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
	if info, err := os.Stat(e.ConfigPath); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}
}
