package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nacos-group/nacos-sdk-go/v2/clients"
	"github.com/nacos-group/nacos-sdk-go/v2/clients/config_client"
	"github.com/nacos-group/nacos-sdk-go/v2/common/constant"
	"github.com/nacos-group/nacos-sdk-go/v2/vo"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/belay-mq/belay/cmd/belay/internal/config"
)

// lockedBuffer collects what a command prints while it still runs.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// isolate keeps a test's state apart from the user's.
func isolate(t *testing.T) {
	t.Helper()
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("BELAY_CONFIG", "")
	t.Setenv("BELAY_OPERATOR", "tester")
}

// background runs a command until the test ends, and returns what it prints.
func background(t *testing.T, args ...string) (out *lockedBuffer, stop func()) {
	t.Helper()
	out = &lockedBuffer{}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan int, 1)
	go func() { done <- run(ctx, args, streams{in: strings.NewReader(""), out: out, err: out}) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		select {
		case code := <-done:
			if code != exitOK {
				t.Errorf("belay %s ended with %d: %s", strings.Join(args, " "), code, out)
			}
		case <-time.After(60 * time.Second):
			t.Errorf("belay %s did not end: %s", strings.Join(args, " "), out)
		}
	}
	t.Cleanup(stop)
	return out, stop
}

// belay runs a command to its end.
func belay(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	var out, errs bytes.Buffer
	code = run(ctx, args, streams{in: strings.NewReader(""), out: &out, err: &errs})
	return code, out.String(), errs.String()
}

// eventually tries again until ok holds; what the last try saw is reported.
func eventually(t *testing.T, within time.Duration, what string, ok func() (bool, string)) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		good, saw := ok()
		if good {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s; last: %s", what, within, saw)
		}
		time.Sleep(50 * time.Millisecond) // between two looks at another process's state
	}
}

func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("no JSON: %v in %q", err, text)
	}
	return v
}

// startDemo runs the demo and waits until its listeners are all as wanted.
func startDemo(t *testing.T) (configPath string) {
	t.Helper()
	isolate(t)
	dir := t.TempDir()
	out, _ := background(t, "demo", "--headless", "--dir", dir)
	configPath = filepath.Join(dir, "config.yaml")
	eventually(t, 30*time.Second, "the demo says where its configuration is", func() (bool, string) {
		return strings.Contains(out.String(), configPath), out.String()
	})
	eventually(t, 30*time.Second, "every listener is as wanted", func() (bool, string) {
		code, text, errs := belay(t, "--config", configPath, "list", "-o", "json")
		if code != exitOK {
			return false, errs
		}
		rows := decode[[]listRow](t, text)
		for _, r := range rows {
			if r.Instances.Total == 0 || r.Instances.Applied != r.Instances.Total {
				return false, text
			}
		}
		return len(rows) >= 8, text
	})
	return configPath
}

// outside is what a plain AMQP client and a plain Nacos client see, which know nothing
// of belay.
type outside struct {
	t      *testing.T
	ch     *amqp.Channel
	config config_client.IConfigClient
}

func lookFromOutside(t *testing.T, configPath string) *outside {
	t.Helper()
	f, err := config.Load(configPath)
	if err != nil {
		t.Fatal(err)
	}
	c, err := f.Context("")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := amqp.Dial(c.RabbitMQ.URL.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := strings.Cut(c.Nacos.Servers[0], ":")
	var n uint64
	if _, err := fmt.Sscan(port, &n); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	client, err := clients.NewConfigClient(vo.NacosClientParam{
		ClientConfig:  &constant.ClientConfig{TimeoutMs: 5000, NotLoadCacheAtStart: true, LogDir: dir, CacheDir: dir, DisableUseSnapShot: true},
		ServerConfigs: []constant.ServerConfig{{IpAddr: host, Port: n}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseClient)
	return &outside{t, ch, client}
}

func (o *outside) queue(name string) amqp.Queue {
	o.t.Helper()
	q, err := o.ch.QueueDeclarePassive(name, true, false, false, false, nil)
	if err != nil {
		o.t.Fatal(err)
	}
	return q
}

func (o *outside) file(app string) string {
	o.t.Helper()
	text, err := o.config.GetConfig(vo.ConfigParam{DataId: "rabbitmq-toggle.properties", Group: app})
	if err != nil {
		o.t.Fatal(err)
	}
	return text
}

func (o *outside) publish(queue string, n int) {
	o.t.Helper()
	for range n {
		if err := o.ch.PublishWithContext(o.t.Context(), "", queue, false, false, amqp.Publishing{Body: []byte("x")}); err != nil {
			o.t.Fatal(err)
		}
	}
}

// The whole path: a pause reaches every instance, the broker shows nobody, messages stay,
// the file differs only in its entry; a resume brings it all back.
func TestPauseAndResumeFromOutside(t *testing.T) {
	configPath := startDemo(t)
	o := lookFromOutside(t, configPath)
	before := o.file("order-service")

	code, text, errs := belay(t, "--config", configPath, "pause", "ReportConsumer", "--reason", "a test", "--wait", "10s", "--yes", "-o", "json")
	results := decode[[]result](t, text)
	if code != exitOK || len(results) != 1 || results[0].Result != "done" || results[0].Instances.Applied != results[0].Instances.Total || results[0].Instances.Total != 2 {
		t.Fatalf("pause: exit %d, %s\n%s", code, text, errs)
	}
	if q := o.queue("report"); q.Consumers != 0 {
		t.Errorf("the broker shows %d consumers after the pause", q.Consumers)
	}
	ready := o.queue("report").Messages
	o.publish("report", 100)
	eventually(t, 10*time.Second, "100 messages stay ready", func() (bool, string) {
		q := o.queue("report")
		return q.Messages >= ready+100 && q.Consumers == 0, fmt.Sprint(q)
	})
	onlyEntryDiffers(t, before, o.file("order-service"), "rabbitmq.toggle.consumers[3].")

	code, text, _ = belay(t, "--config", configPath, "get", "order-service/ReportConsumer", "-o", "json")
	if row := decode[[]listRow](t, text)[0]; code != exitOK || row.State != "paused" || row.By != "tester" || row.Reason != "a test" {
		t.Errorf("get: exit %d, %s", code, text)
	}
	if code, text, _ := belay(t, "--config", configPath, "pause", "ReportConsumer", "--reason", "a test", "--yes", "-o", "json"); code != exitOK || decode[[]result](t, text)[0].Result != "unchanged" {
		t.Errorf("a second pause: exit %d, %s", code, text)
	}

	code, text, errs = belay(t, "--config", configPath, "resume", "ReportConsumer", "--yes", "-o", "json")
	if code != exitOK || decode[[]result](t, text)[0].Result != "done" {
		t.Fatalf("resume: exit %d, %s\n%s", code, text, errs)
	}
	eventually(t, 30*time.Second, "the 100 are handled", func() (bool, string) {
		q := o.queue("report")
		return q.Messages < 10 && q.Consumers == 2, fmt.Sprint(q)
	})
}

// onlyEntryDiffers compares line by line, leaving out the lines of one entry.
func onlyEntryDiffers(t *testing.T, before, after, entry string) {
	t.Helper()
	if before == after {
		t.Fatal("the file did not change at all")
	}
	others := func(text string) string {
		var b strings.Builder
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, entry) {
				b.WriteString(line)
			}
		}
		return b.String()
	}
	if a, b := others(before), others(after); a != b {
		t.Errorf("lines outside of the entry changed:\n%s\n%s", a, b)
	}
}

func TestWritesThatAreNotAllowed(t *testing.T) {
	configPath := startDemo(t)
	o := lookFromOutside(t, configPath)
	before := o.file("order-service")
	for name, c := range map[string]struct {
		args []string
		code int
		text string
	}{
		"no terminal, no yes": {[]string{"pause", "AuditConsumer"}, exitUsage, "--yes"},
		"read-only":           {[]string{"--read-only", "pause", "AuditConsumer", "--yes"}, exitUsage, "read-only"},
		"unknown listener":    {[]string{"pause", "NoSuchConsumer", "--yes"}, exitUsage, "there is no listener"},
		"bad time":            {[]string{"pause", "AuditConsumer", "--until", "soon", "--yes"}, exitUsage, "--until"},
		"both ends":           {[]string{"pause", "AuditConsumer", "--until", "1h", "--for", "1h", "--yes"}, exitUsage, "for until"},
		"no length":           {[]string{"pause", "AuditConsumer", "--for", "0s", "--yes"}, exitUsage, "must be above 0"},
		"no timeout":          {[]string{"--timeout", "0s", "list"}, exitUsage, "must be above 0"},
		"unknown source":      {[]string{"feed", "--for", "1s", "--source", "toggles"}, exitUsage, "use one of"},
		"bad concurrency":     {[]string{"scale", "AuditConsumer", "4..2", "--yes"}, exitUsage, "min ≤ max"},
		"unknown flag":        {[]string{"pause", "--nosuch"}, exitUsage, "unknown flag"},
		"unknown application": {[]string{"history", "nosuch"}, exitUsage, "there is no application"},
		"no such app":         {[]string{"--app", "nosuch", "list"}, exitUsage, `there is no application "nosuch"`},
		"no instances of it":  {[]string{"--app", "nosuch", "instances"}, exitUsage, `there is no application "nosuch"`},
		"listed by name":      {[]string{"list", "NoSuchConsumer"}, exitUsage, "there is no listener"},
		"history of nothing":  {[]string{"history", "order-service/NoSuchConsumer"}, exitUsage, "there is no listener"},
		"no such version":     {[]string{"--app", "order-service", "rollback", "99999", "--yes"}, exitUsage, "no such version"},
		"nothing to compare":  {[]string{"diff", "order-service", "99999"}, exitUsage, "there is no version"},
		"unknown output":      {[]string{"list", "-o", "xml"}, exitUsage, "use one of"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := belay(t, append([]string{"--config", configPath}, c.args...)...)
			if code != c.code || !strings.Contains(stderr, c.text) {
				t.Errorf("exit %d, stdout %q, stderr %q; want %d, %q", code, stdout, stderr, c.code, c.text)
			}
		})
	}
	if after := o.file("order-service"); after != before {
		t.Errorf("the file was changed:\n%s", after)
	}
}

// A pause is confirmed by every process that hosts the listener, and an outage of the
// broker neither loses it nor is hidden.
func TestSeveralProcessesAndAnOutage(t *testing.T) {
	configPath := startDemo(t)
	dir := filepath.Dir(configPath)
	listeners := filepath.Join(t.TempDir(), "listeners.yaml")
	text := "app: order-service\nlisteners:\n  - {id: AuditConsumer, queues: [audit], concurrency: 1..2, handler: discard}\n"
	if err := os.WriteFile(listeners, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	background(t, "--config", configPath, "run", "-f", listeners, "--instance", "second:1:a")
	background(t, "--config", configPath, "run", "-f", listeners, "--instance", "third:1:a")
	get := func() (listRow, string) {
		code, text, errs := belay(t, "--config", configPath, "get", "order-service/AuditConsumer", "-o", "json")
		if code != exitOK {
			return listRow{}, errs
		}
		return decode[[]listRow](t, text)[0], text
	}
	eventually(t, 30*time.Second, "four instances run it", func() (bool, string) {
		row, text := get()
		return row.Instances.Applied == 4 && row.State == "running", text
	})
	code, out, errs := belay(t, "--config", configPath, "pause", "order-service/AuditConsumer", "--yes", "-o", "json")
	if r := decode[[]result](t, out); code != exitOK || r[0].Instances.Applied != 4 || r[0].Instances.Total != 4 {
		t.Fatalf("pause: exit %d, %s\n%s", code, out, errs)
	}
	if code, out, errs := belay(t, "demo", "outage", "broker", "--for", "2s", "--dir", dir); code != exitOK {
		t.Fatalf("outage: exit %d, %s%s", code, out, errs)
	}
	if code, _, _ := belay(t, "--config", configPath, "--timeout", "500ms", "list"); code != exitUnreachable {
		t.Errorf("list during the outage: exit %d, want %d", code, exitUnreachable)
	}
	eventually(t, 60*time.Second, "paused on all after the outage", func() (bool, string) {
		row, text := get()
		return row.State == "paused" && row.Instances.Applied == 4 && row.Instances.Reporting == 4, text
	})
	o := lookFromOutside(t, configPath)
	if q := o.queue("audit"); q.Consumers != 0 {
		t.Errorf("the broker shows %d consumers of a paused listener after the outage", q.Consumers)
	}
}
