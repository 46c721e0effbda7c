package nacos_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belay-mq/belay/nacos"
)

func TestNewChecksConfiguration(t *testing.T) {
	dir := t.TempDir()
	garbage := filepath.Join(dir, "garbage.pem")
	if err := os.WriteFile(garbage, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(dir, "missing.pem")
	one := []string{"127.0.0.1"}
	tests := []struct {
		name string
		cfg  nacos.Config
		want string // in the error; "" for none
	}{
		{"no server", nacos.Config{}, "no server"},
		{"host only", nacos.Config{Servers: []string{"nacos"}}, ""},
		{"host and port", nacos.Config{Servers: []string{"nacos:8850"}}, ""},
		{"http", nacos.Config{Servers: []string{"http://nacos:8850"}}, ""},
		{"https without port", nacos.Config{Servers: []string{"https://nacos"}}, ""},
		{"http with path", nacos.Config{Servers: []string{"http://nacos:8850/config/"}}, ""},
		{"IPv6", nacos.Config{Servers: []string{"::1", "[::1]", "[::1]:8850", "http://[fe80::1%25lo]:8848"}}, ""},
		{"other scheme", nacos.Config{Servers: []string{"ftp://nacos"}}, "neither http nor https"},
		{"bad port", nacos.Config{Servers: []string{"nacos:port"}}, "no port"},
		{"port out of range", nacos.Config{Servers: []string{"nacos:70000"}}, "no port"},
		{"no host", nacos.Config{Servers: []string{":8848"}}, "no host"},
		{"empty", nacos.Config{Servers: []string{""}}, "no host"},
		{"space in host", nacos.Config{Servers: []string{"na cos"}}, "no host name"},
		{"bad console", nacos.Config{Servers: one, Console: ":1"}, "console"},
		{"bad namespace", nacos.Config{Servers: one, Namespace: "a b"}, "namespace"},
		{"namespace too long", nacos.Config{Servers: one, Namespace: strings.Repeat("n", 65)}, "65 characters"},
		{"negative interval", nacos.Config{Servers: one, PollInterval: -1}, "negative"},
		{"password alone", nacos.Config{Servers: one, Password: "x"}, "without a user name"},
		{"no such authority file", nacos.Config{Servers: one, TLS: nacos.TLS{Enable: true, CAFile: missing}}, "missing.pem"},
		{"authority file is none", nacos.Config{Servers: one, TLS: nacos.TLS{Enable: true, CAFile: garbage}}, "no PEM certificate"},
		{"certificate without key", nacos.Config{Servers: one, TLS: nacos.TLS{Enable: true, CertFile: garbage}}, "belong together"},
		{"certificate is none", nacos.Config{Servers: one, TLS: nacos.TLS{Enable: true, CertFile: garbage, KeyFile: garbage}}, "garbage.pem"},
		{"files of https", nacos.Config{Servers: []string{"https://nacos"}, TLS: nacos.TLS{CAFile: missing}}, "missing.pem"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := nacos.New(tt.cfg)
			if err == nil {
				defer func() { _ = s.Close(context.Background()) }()
			}
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("error %v does not say %q", err, tt.want)
			}
		})
	}
}

func TestSecretNeverShows(t *testing.T) {
	cfg := nacos.Config{Servers: []string{"nacos"}, Username: "u", Password: "hunter2"}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("config", "password", cfg.Password, "cfg", cfg)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("config", "password", cfg.Password, "cfg", cfg.Password)
	text, err := json.Marshal(cfg.Password)
	if err != nil {
		t.Fatal(err)
	}
	shown := log.String() + string(text) + fmt.Sprintf("%v %+v %#v %s %q %x %d", cfg, cfg, cfg.Password, cfg.Password, cfg.Password, cfg.Password, cfg.Password)
	if strings.Contains(shown, "hunter2") || strings.Contains(shown, "68756e74657232") {
		t.Errorf("the password shows: %s", shown)
	}
	if cfg.Password.Reveal() != "hunter2" || nacos.Secret("").String() != "" {
		t.Error("Reveal or the empty secret is wrong")
	}
}

func TestNames(t *testing.T) {
	store, err := nacos.New(nacos.Config{Servers: []string{"127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close(context.Background()) }()
	good := nacos.Key{DataID: toggleFile, Group: "APP"}
	for _, key := range []nacos.Key{
		{Group: "APP"}, {DataID: toggleFile}, {DataID: "a b", Group: "APP"}, {DataID: "配", Group: "APP"}, {DataID: toggleFile, Group: "a@b"},
		{DataID: strings.Repeat("d", 257), Group: "APP"}, {DataID: toggleFile, Group: strings.Repeat("g", 129)}, {DataID: "a\x01b", Group: "APP"},
	} {
		if _, err := store.Get(t.Context(), key); !errors.Is(err, nacos.ErrBadName) {
			t.Errorf("get %q: %v", key, err)
		}
		if _, err := store.Create(t.Context(), key, nacos.Content{Text: "x"}); !errors.Is(err, nacos.ErrBadName) {
			t.Errorf("create %q: %v", key, err)
		}
		if err := store.Remove(t.Context(), key); !errors.Is(err, nacos.ErrBadName) {
			t.Errorf("remove %q: %v", key, err)
		}
		if _, open := <-store.Watch(t.Context(), key); open {
			t.Errorf("watch %q sent something", key)
		}
	}
	if _, err := store.Search(t.Context(), "a b"); !errors.Is(err, nacos.ErrBadName) {
		t.Errorf("search: %v", err)
	}
	for _, text := range []string{"", " \n\t"} {
		if _, err := store.Update(t.Context(), good, nacos.Content{Text: text}, "x"); !errors.Is(err, nacos.ErrBlank) {
			t.Errorf("update with %q: %v", text, err)
		}
	}
	if _, err := store.Update(t.Context(), good, nacos.Content{Text: "x"}, ""); err == nil || !strings.Contains(err.Error(), "Create") {
		t.Errorf("update without a base: %v", err)
	}
}
