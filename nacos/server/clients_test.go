package server_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/belay-mq/belay/nacos/server"
)

// unavailable skips a test that needs something from the network, or fails it where BELAY_TEST_REAL=1 insists.
func unavailable(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("BELAY_TEST_REAL") == "1" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// command runs a program in dir and returns what it printed.
func command(t *testing.T, dir string, env []string, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// An independent client, which long-polls over HTTP, works against each imitated server.
func TestNPMClient(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			unavailable(t, program+" is not installed")
		}
	}
	dir := t.TempDir()
	if out, err := command(t, dir, nil, "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "nacos@2.6.3"); err != nil {
		unavailable(t, "npm cannot install the client: "+out)
	}
	script, err := os.ReadFile(filepath.Join("testdata", "npm-client.js"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "client.js"), script, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, behaviour := range []server.Behaviour{server.Nacos2, server.Nacos3, server.RNacos} {
		s := start(t, server.Config{Behaviour: behaviour})
		out, err := command(t, dir, nil, "node", "client.js", s.Addr(), uniqueGroup(), filepath.Join(dir, behaviour.String()))
		if err != nil || !strings.HasSuffix(strings.TrimSpace(out), "ok") {
			t.Errorf("%v: %v\n%s", behaviour, err, out)
		}
	}
}

// newestSDK is the newest version of the SDK that the module proxy serves.
const newestSDK = "github.com/nacos-group/nacos-sdk-go/v2@v2.3.5"

// The server also serves the newest SDK, with the gRPC library that this one brings along. It builds the package a second
// time and downloads modules, therefore only where real servers are asked for.
func TestNewestSDK(t *testing.T) {
	if os.Getenv("BELAY_TEST_REAL") != "1" {
		t.Skip("downloads and builds other modules: only with BELAY_TEST_REAL=1")
	}
	t.Parallel()
	dir := t.TempDir()
	root := filepath.Join("..", "..")
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"GOFLAGS=-mod=mod -modfile=" + filepath.Join(dir, "go.mod")}
	if out, err := command(t, root, env, "go", "get", newestSDK); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := command(t, ".", env, "go", "test", "-count=1", "-timeout=150s", "-run=^(TestSDK|TestSDKAuthorisation)$", "."); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	// The store opens no client of it, but is built on its definitions.
	if out, err := command(t, root, env, "go", "test", "-count=1", "-timeout=150s", "-run=^(TestRapidChanges|TestTransports|TestNothingIsLeft)$", "./nacos"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
