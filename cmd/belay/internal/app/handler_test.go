package app

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/belay-mq/belay/consumers"
	"github.com/belay-mq/belay/consumers/broker"
)

func handlerOf(t *testing.T, declared string) consumers.Handler {
	t.Helper()
	l, err := ParseListeners("l.yaml", []byte("app: a\nlisteners:\n  - id: L\n    queues: [q]\n    handler: "+declared+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	return l.Listeners[0].handler(slog.New(slog.DiscardHandler))
}

func message(body string) *consumers.Delivery {
	return &consumers.Delivery{Delivery: amqp.Delivery{Body: []byte(body), MessageId: "m\x00-1", RoutingKey: "key", ContentType: "text/plain"}, Queue: "q"}
}

func TestExecHandler(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	t.Setenv("OUT", out)
	for name, c := range map[string]struct {
		declared, want string
		back           bool
	}{
		"taken":           {`{exec: {command: [sh, -c, 'cat > "$OUT"; echo "$BELAY_QUEUE $BELAY_MESSAGE_ID $BELAY_ROUTING_KEY $BELAY_REDELIVERED" >> "$OUT"']}}`, "", false},
		"leaves a child":  {`{exec: {command: [sh, -c, "sleep 5 & exit 0"]}}`, "", false},
		"refused":         {`{exec: {command: [sh, -c, "echo no such customer >&2; exit 3"]}}`, "sh: exit status 3: no such customer", false},
		"too long":        {`{exec: {command: [sleep, "60"], timeout: 50ms}}`, "sleep was ended after 50ms", false},
		"killed":          {`{exec: {command: [sh, -c, 'kill -9 $$']}}`, "sh was killed: signal: killed", true},
		"cannot be begun": {`{exec: {command: [/no/such/program]}}`, "/no/such/program could not be started", true},
	} {
		t.Run(name, func(t *testing.T) { judge(t, handlerOf(t, c.declared)(t.Context(), message("body;")), c.want, c.back) })
	}
	if text, err := os.ReadFile(out); err != nil || string(text) != "body;q m-1 key false\n" {
		t.Errorf("the command read %q, %v", text, err)
	}
}

func TestHTTPHandler(t *testing.T) {
	var got string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/slow":
			<-r.Context().Done()
		case "/moved":
			http.Redirect(w, r, "/200", http.StatusFound)
		case "/200":
			got = r.Method + " " + r.Header.Get("Content-Type") + " " + r.Header.Get("X-Belay-Queue") + " " + string(body)
		case "/204":
			w.WriteHeader(http.StatusNoContent)
		case "/422":
			http.Error(w, "no such customer", http.StatusUnprocessableEntity)
		case "/500":
			http.Error(w, "oops", http.StatusInternalServerError)
		case "/503":
			http.Error(w, "restarting", http.StatusServiceUnavailable)
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	away := httptest.NewServer(nil)
	away.Close()
	for url, c := range map[string]struct {
		want string
		back bool
	}{
		server.URL + "/200":        {"", false},
		server.URL + "/204":        {"", false},
		server.URL + "/422":        {"422 Unprocessable Entity: no such customer", false},
		server.URL + "/500":        {"500 Internal Server Error: oops", false},
		server.URL + "/503":        {"503 Service Unavailable: restarting", true},
		server.URL + "/elsewhere":  {"404 Not Found", true},
		server.URL + "/moved":      {"302 Found", true},
		server.URL + "/slow":       {"exceeded", true},
		away.URL + "/switched-off": {"connection refused", true},
	} {
		t.Run(url[strings.LastIndex(url, "/")+1:], func(t *testing.T) {
			judge(t, handlerOf(t, `{http: {url: "`+url+`", timeout: 200ms}}`)(t.Context(), message("body")), c.want, c.back)
		})
	}
	if got != "POST text/plain q body" {
		t.Errorf("the server got %q", got)
	}
}

// judge checks an outcome: "" is taken, else the error says want, and back tells that
// the message goes back to its queue.
func judge(t *testing.T, err error, want string, back bool) {
	t.Helper()
	switch {
	case want == "" && err == nil:
	case want == "" || err == nil || !strings.Contains(err.Error(), want):
		t.Errorf("err = %v, want %q", err, want)
	case strings.HasPrefix(err.Error(), "requeue: ") != back:
		t.Errorf("it goes back: %v; want %v (%v)", !back, back, err)
	}
}

// While the address of a handler is away nothing is lost, and a stop waits for nothing.
func TestNothingIsLostWhileAHandlerIsAway(t *testing.T) {
	b, err := broker.Listen(t.Context(), broker.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close(context.Background())
	client, err := amqp.Dial(b.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ch, err := client.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ch.QueueDeclare("q", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if err := ch.PublishWithContext(t.Context(), "", "q", false, false, amqp.Publishing{Body: []byte("m")}); err != nil {
			t.Fatal(err)
		}
	}
	conn, err := consumers.Dial(t.Context(), consumers.ConnConfig{URL: b.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	away := httptest.NewServer(nil)
	away.Close()
	c, err := consumers.New(conn, consumers.Config{ListenerID: "L", Queues: []string{"q"}}, handlerOf(t, `{http: {url: "`+away.URL+`"}}`))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if err := c.Start(t.Context(), consumers.Cause{}); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for c.Status().Failed < 3 {
		if time.Since(began) > 10*time.Second {
			t.Fatalf("no message came: %+v", c.Status())
		}
		time.Sleep(5 * time.Millisecond)
	}
	began = time.Now()
	if _, err := c.Stop(t.Context(), consumers.Cause{}); err != nil || time.Since(began) > 2*time.Second {
		t.Errorf("stopped after %s: %v", time.Since(began), err)
	}
	for {
		q, err := ch.QueueDeclarePassive("q", true, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		if q.Messages == 20 {
			return
		}
		if time.Since(began) > 5*time.Second {
			t.Fatalf("%d messages are ready, want 20", q.Messages)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
