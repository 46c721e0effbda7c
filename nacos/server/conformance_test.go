package server_test

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	pb "github.com/nacos-group/nacos-sdk-go/v2/api/grpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/belay-mq/belay/nacos/server"
)

// target is a server under test, embedded or real.
type target struct {
	addr, grpcAddr string
	behaviour      server.Behaviour
	embedded       *server.Server // nil: a real one
}

// dumps reports whether reads lag behind writes.
func (tg target) dumps() bool { return tg.behaviour != server.RNacos }

// TestConformance holds servers against what was measured on real ones. BELAY_TEST_NACOS=host:port adds a real one,
// without authorisation.
func TestConformance(t *testing.T) {
	for _, behaviour := range []server.Behaviour{server.Nacos2, server.Nacos3, server.RNacos} {
		t.Run(behaviour.String(), func(t *testing.T) {
			t.Parallel()
			s := start(t, server.Config{Behaviour: behaviour})
			conform(t, target{addr: s.Addr(), grpcAddr: s.GRPCAddr(), behaviour: behaviour, embedded: s})
		})
	}
	t.Run("real", func(t *testing.T) {
		addr := os.Getenv("BELAY_TEST_NACOS")
		if addr == "" {
			t.Skip("BELAY_TEST_NACOS not set")
		}
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(port)
		if err != nil {
			t.Fatal(err)
		}
		conform(t, target{addr: addr, grpcAddr: net.JoinHostPort(host, strconv.Itoa(n+1000)), behaviour: detect(t, addr)})
	})
}

// detect tells the real servers apart by their state paths.
func detect(t testing.TB, addr string) server.Behaviour {
	tg := target{addr: addr}
	if status, _, _ := tg.http(t, "GET", "/nacos/v3/admin/core/state", nil); status == http.StatusOK {
		return server.Nacos3
	}
	if status, _, _ := tg.http(t, "GET", "/nacos/v1/console/server/state", nil); status == http.StatusOK {
		return server.Nacos2
	}
	return server.RNacos
}

func conform(t *testing.T, tg target) {
	shortestHold := beginShortestHold(t, tg)
	for _, c := range []struct {
		name string
		run  func(*testing.T, target)
	}{
		{"detection", conformDetection},
		{"read after publish", conformReadAfterPublish},
		{"compare and publish", conformCAS},
		{"metadata", conformMetadata},
		{"detail", conformDetail},
		{"history", conformHistory},
		{"who listens", conformListeners},
		{"long poll", conformLongPoll},
		{"limits", conformLimits},
		{"message size", conformMessageSize},
		{"batch listen", conformBatchListen},
		{"deletion", conformDeletion},
		{"namespaces", conformNamespaces},
		{"search", conformSearch},
		{"paths", conformPaths},
		{"unregistered", conformUnregistered},
		{"shortest hold", shortestHold},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, tg)
		})
	}
}

// oneCall keeps no connections: those of a restarted server would be dead.
var oneCall = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

type form map[string]string

// http makes a call; a form goes into the query of GET and DELETE and into the body of POST. Keys that begin with @
// are headers.
func (tg target) http(t testing.TB, method, path string, params form) (status int, body string, header http.Header) {
	t.Helper()
	values, headers := url.Values{}, http.Header{}
	for name, value := range params {
		if h, ok := strings.CutPrefix(name, "@"); ok {
			headers.Set(h, value)
		} else {
			values.Set(name, value)
		}
	}
	target := "http://" + tg.addr + path
	var reader io.Reader
	if method == "POST" {
		reader = strings.NewReader(values.Encode())
	} else if len(values) > 0 {
		target += "?" + values.Encode()
	}
	req, err := http.NewRequestWithContext(context.Background(), method, target, reader)
	if err != nil {
		t.Fatal(err)
	}
	for name := range headers {
		req.Header.Set(name, headers.Get(name))
	}
	if method == "POST" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := oneCall.Do(req)
	if err != nil {
		return 0, err.Error(), nil
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error(), nil
	}
	return resp.StatusCode, string(text), resp.Header
}

// expect makes a call and compares status and body; a body that ends in … is a beginning, one that begins with … a part.
func (tg target) expect(t testing.TB, status int, body, method, path string, params form) {
	t.Helper()
	gotStatus, gotBody, _ := tg.http(t, method, path, params)
	if gotStatus != status || !fits(body, gotBody) {
		t.Errorf("%s %s %v:\n got %d %q\nwant %d %q", method, path, params, gotStatus, gotBody, status, body)
	}
}

func fits(want, got string) bool {
	if part, ok := strings.CutPrefix(want, "…"); ok {
		return strings.Contains(got, strings.TrimSuffix(part, "…"))
	}
	if begin, ok := strings.CutSuffix(want, "…"); ok {
		return strings.HasPrefix(got, begin)
	}
	return got == want
}

const v1Configs = "/nacos/v1/cs/configs"

// with returns a copy of params with more of them.
func (f form) with(more ...string) form {
	all := form{}
	for name, value := range f {
		all[name] = value
	}
	for i := 0; i < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return all
}

// v3 renames the parameters of v1.
func (f form) v3() form {
	all := form{}
	for name, value := range f {
		switch name {
		case "group":
			name = "groupName"
		case "tenant":
			name = "namespaceId"
		case "config_tags":
			name = "configTags"
		case "src_user":
			name = "srcUser"
		}
		all[name] = value
	}
	return all
}

func (tg target) publish(t testing.TB, params form) {
	t.Helper()
	tg.expect(t, 200, "true", "POST", v1Configs, params)
}

// publishDumped publishes and waits until reads show it.
func (tg target) publishDumped(t testing.TB, params form) {
	t.Helper()
	tg.publish(t, params)
	tg.awaitRead(t, params, params["content"])
}

func (tg target) awaitRead(t testing.TB, params form, content string) {
	t.Helper()
	eventually(t, "read of "+content, func() bool {
		status, body, _ := tg.http(t, "GET", v1Configs, form{"dataId": params["dataId"], "group": params["group"], "tenant": params["tenant"]})
		return status == 200 && body == content
	})
}

// detail returns the fields of a config's detail under the names that v1 has.
func (tg target) detail(t testing.TB, k form) map[string]any {
	t.Helper()
	path, params := v1Configs, k.with("show", "all")
	if tg.behaviour == server.Nacos3 {
		path, params = "/nacos/v3/admin/cs/config", k.v3()
	}
	status, body, _ := tg.http(t, "GET", path, params)
	if status != 200 {
		t.Fatalf("detail: %d %s", status, body)
	}
	fields := object(t, body)
	if data, ok := fields["data"].(map[string]any); ok && tg.behaviour == server.Nacos3 {
		return data
	}
	return fields
}

func object(t testing.TB, text string) map[string]any {
	t.Helper()
	var fields map[string]any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&fields); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return fields
}

// newKey names a config that no other test uses.
func newKey() form {
	return form{"dataId": toggleFile, "group": fmt.Sprintf("%s-%d", uniqueGroup(), time.Now().UnixNano())}
}

func md5Of(content string) string {
	sum := md5.Sum([]byte(content))
	return hex.EncodeToString(sum[:])
}

// raw is a gRPC client that shows what the SDK hides.
type raw struct {
	t      testing.TB
	unary  pb.RequestClient
	stream pb.BiRequestStream_RequestBiStreamClient
	pushes chan *pb.Payload
}

// connect opens a connection and, if it is to be registered, completes the setup.
func (tg target) connect(t testing.TB, register bool) *raw {
	t.Helper()
	conn, err := grpc.Dial(tg.grpcAddr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20), grpc.MaxCallSendMsgSize(64<<20)))
	if err != nil {
		t.Fatal(err)
	}
	r := &raw{t: t, unary: pb.NewRequestClient(conn), pushes: make(chan *pb.Payload, 10_000)}
	done := make(chan struct{})
	close(done)
	t.Cleanup(func() { _ = conn.Close(); <-done })
	if kind, body := r.call("ServerCheckRequest", nil); kind != "ServerCheckResponse" {
		t.Fatal(kind, body)
	}
	if !register {
		return r
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.stream, err = pb.NewBiRequestStreamClient(conn).RequestBiStream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	done = make(chan struct{})
	t.Cleanup(cancel)
	go func() {
		defer close(done)
		for {
			p, err := r.stream.Recv()
			if err != nil {
				return
			}
			r.pushes <- p
		}
	}()
	if err := r.stream.Send(r.payload("ConnectionSetupRequest", form{}.json("clientVersion", "Nacos-Go-Client:v2.2.7", "labels", map[string]string{"AppName": "raw"}))); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the connection is registered", func() bool {
		kind, _ := r.call("HealthCheckRequest", nil)
		return kind == "HealthCheckResponse"
	})
	return r
}

// json adds typed fields.
func (f form) json(more ...any) map[string]any {
	all := map[string]any{}
	for name, value := range f {
		all[name] = value
	}
	for i := 0; i < len(more); i += 2 {
		all[more[i].(string)] = more[i+1]
	}
	return all
}

func (r *raw) payload(kind string, body map[string]any) *pb.Payload {
	r.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		r.t.Fatal(err)
	}
	return &pb.Payload{Metadata: &pb.Metadata{Type: kind, ClientIp: "192.0.2.7"}, Body: &anypb.Any{Value: text}}
}

// call returns the type and the JSON of the response; a gRPC error has the type "error".
func (r *raw) call(kind string, body map[string]any) (string, string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	p, err := r.unary.Request(ctx, r.payload(kind, body))
	if err != nil {
		return "error", err.Error()
	}
	return p.GetMetadata().GetType(), string(p.GetBody().GetValue())
}

// expect makes a call and looks for a type and fields of the response.
func (r *raw) expect(kind string, body map[string]any, wantKind string, want map[string]any) {
	r.t.Helper()
	gotKind, text := r.call(kind, body)
	if gotKind != wantKind {
		r.t.Errorf("%s %v:\n got %s %s\nwant %s", kind, body, gotKind, text, wantKind)
		return
	}
	fields := object(r.t, text)
	for name, value := range want {
		if got := fmt.Sprint(fields[name]); !fits(fmt.Sprint(value), got) {
			r.t.Errorf("%s %v: %s is %q, want %q in %s", kind, body, name, got, value, text)
		}
	}
}

// pushed returns the configs that are pushed until one of the given group comes.
func (r *raw) pushed(group string) map[string]any {
	r.t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case p := <-r.pushes:
			if bytes.Contains(p.GetBody().GetValue(), []byte(group)) {
				return object(r.t, string(p.GetBody().GetValue()))
			}
		case <-deadline:
			r.t.Fatalf("no push for %s in %v", group, patience)
		}
	}
}
