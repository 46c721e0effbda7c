package broker_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/belay-mq/belay/consumers/broker"
)

// api is a management API under test.
type api struct {
	base, user, password string
}

func (a api) do(t testing.TB, method, path string, body string) (int, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, a.base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(a.user, a.password)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	out, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, out
}

func (a api) get(t testing.TB, path string, into any) {
	t.Helper()
	status, body := a.do(t, "GET", path, "")
	if status != 200 {
		t.Fatalf("GET %s: %d %s", path, status, body)
	}
	if err := json.Unmarshal(body, into); err != nil {
		t.Fatalf("GET %s: %v", path, err)
	}
}

// onEachManaged runs a test on the embedded broker and on RabbitMQ where the
// environment names its management API.
func onEachManaged(t *testing.T, f func(t *testing.T, s *server, a api)) {
	t.Run("embedded", func(t *testing.T) {
		b, s := embedded(t, broker.Config{ManagementAddr: "127.0.0.1:0", StatsInterval: 50 * time.Millisecond})
		f(t, s, api{b.ManagementURL(), "guest", "guest"})
	})
	t.Run("rabbitmq", func(t *testing.T) {
		raw := os.Getenv("BELAY_TEST_AMQP_MANAGEMENT")
		if raw == "" && os.Getenv("BELAY_TEST_REAL") != "1" {
			t.Skip("BELAY_TEST_AMQP_MANAGEMENT not set")
		}
		u, err := url.Parse(raw)
		if err != nil || raw == "" {
			t.Fatalf("BELAY_TEST_AMQP_MANAGEMENT %q: %v", raw, err)
		}
		password, _ := u.User.Password()
		f(t, &server{url: realURL(t), dial: amqp.DialConfig}, api{"http://" + u.Host, u.User.Username(), password})
	})
}

type apiDetails struct {
	Rate    float64
	Samples []struct {
		Sample    float64
		Timestamp int64
	}
}

type apiQueueShape struct {
	Name, Vhost, Type, State string
	Durable, Exclusive       bool
	AutoDelete               bool `json:"auto_delete"`
	Arguments                map[string]any
	Policy                   *string
	Effective                map[string]any `json:"effective_policy_definition"`
	Consumers                *int
	Ready                    *int       `json:"messages_ready"`
	Unacked                  *int       `json:"messages_unacknowledged"`
	ReadyDetails             apiDetails `json:"messages_ready_details"`
	Stats                    *struct {
		Publish        int
		Ack            int
		Redeliver      int
		DeliverGet     int        `json:"deliver_get"`
		PublishDetails apiDetails `json:"publish_details"`
	} `json:"message_stats"`
	Details []struct {
		Tag       string `json:"consumer_tag"`
		Arguments map[string]any
		Active    bool
		Ack       bool `json:"ack_required"`
		Exclusive bool
		Prefetch  int             `json:"prefetch_count"`
		Channel   json.RawMessage `json:"channel_details"` // an empty list before the channel is known
	} `json:"consumer_details"`
}

func TestManagementQueue(t *testing.T) {
	onEachManaged(t, func(t *testing.T, s *server, a api) {
		ch := s.channel(t)
		q := s.queue(t, ch, amqp.Table{"x-max-length": int32(100)})
		publish(t, ch, q, "1", "2", "3", "4")
		work := s.channel(t)
		work.Qos(2, 0, false)
		d, err := work.Consume(q, "tag", false, false, false, false, amqp.Table{"x-listener-id": "L"})
		if err != nil {
			t.Fatal(err)
		}
		receive(t, d).Ack(false)
		receive(t, d).Nack(false, true)
		receive(t, d)
		path := "/api/queues/%2F/" + url.PathEscape(q) + "?lengths_age=3600&lengths_incr=60&msg_rates_age=60&msg_rates_incr=5"
		var got apiQueueShape
		for range 400 {
			got = apiQueueShape{}
			a.get(t, path, &got)
			// Queue and channel tell their numbers at different times.
			if got.Consumers != nil && *got.Consumers == 1 && got.Ready != nil && *got.Ready == 1 && *got.Unacked == 2 &&
				got.Stats != nil && got.Stats.Redeliver == 1 && got.Stats.Publish == 4 && got.Stats.Ack == 1 &&
				len(got.Details) == 1 && string(got.Details[0].Channel) != "[]" {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		if got.Ready == nil || *got.Ready != 1 || *got.Unacked != 2 || got.Stats == nil || got.Stats.Publish != 4 || got.Stats.Ack != 1 || got.Stats.DeliverGet != 4 {
			text, _ := json.Marshal(got)
			t.Fatalf("numbers of %s", text)
		}
		if got.Name != q || got.Vhost != "/" || got.Type != "classic" || got.State != "running" || !got.Durable || got.Arguments["x-max-length"] != 100.0 {
			t.Fatalf("queue %+v", got)
		}
		if len(got.ReadyDetails.Samples) != 61 || len(got.Stats.PublishDetails.Samples) != 13 {
			t.Fatalf("%d and %d samples", len(got.ReadyDetails.Samples), len(got.Stats.PublishDetails.Samples))
		}
		first, second := got.ReadyDetails.Samples[0].Timestamp, got.ReadyDetails.Samples[1].Timestamp
		if first-second != 60_000 || first%60_000 != 0 {
			t.Fatalf("samples at %d and %d", first, second)
		}
		c := got.Details[0]
		var channel struct {
			User       string
			Number     int
			Connection string `json:"connection_name"`
		}
		if err := json.Unmarshal(c.Channel, &channel); err != nil {
			t.Fatal(err)
		}
		if c.Tag != "tag" || c.Arguments["x-listener-id"] != "L" || !c.Active || !c.Ack || c.Prefetch != 2 || channel.User != "guest" || channel.Number != 1 || !strings.Contains(channel.Connection, " -> ") {
			t.Fatalf("consumer %+v", c)
		}
		status, body := a.do(t, "GET", "/api/queues/%2F/no.such.queue", "")
		if status != 404 || string(body) != `{"error":"Object Not Found","reason":"Not Found"}` {
			t.Fatalf("%d %s", status, body)
		}
	})
}

func TestManagementPolicy(t *testing.T) {
	onEachManaged(t, func(t *testing.T, s *server, a api) {
		ch := s.channel(t)
		q := s.queue(t, ch, nil)
		name := fmt.Sprintf("p%d", time.Now().UnixNano())
		path := "/api/policies/%2F/" + name
		body := `{"pattern":"^` + q + `$","definition":{"message-ttl":60000},"priority":5,"apply-to":"queues"}`
		if status, out := a.do(t, "PUT", path, body); status/100 != 2 {
			t.Fatalf("%d %s", status, out)
		}
		var got apiQueueShape
		for range 100 {
			a.get(t, "/api/queues/%2F/"+q, &got)
			if got.Effective["message-ttl"] == 60000.0 {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		if got.Policy == nil || *got.Policy != name || got.Effective["message-ttl"] != 60000.0 {
			t.Fatalf("queue %+v", got)
		}
		var list []struct{ Name, Pattern, Vhost string }
		a.get(t, "/api/policies/%2F", &list)
		if len(list) == 0 || list[0].Vhost != "/" {
			t.Fatalf("policies %+v", list)
		}
		if status, out := a.do(t, "DELETE", path, ""); status != 204 {
			t.Fatalf("%d %s", status, out)
		}
	})
}

func TestManagementUsers(t *testing.T) {
	everything := map[string]broker.Permissions{"/": {Configure: ".*", Read: ".*", Write: ".*"}}
	b, s := embedded(t, broker.Config{
		ManagementAddr: "127.0.0.1:0", StatsInterval: 20 * time.Millisecond,
		Users: []broker.User{
			{Name: "guest", Password: "guest"},
			{Name: "mon", Password: "p", Tags: []string{"monitoring"}, Permissions: everything},
			{Name: "man", Password: "p", Tags: []string{"management"}, Permissions: everything},
			{Name: "app", Password: "p", Tags: []string{}, Permissions: everything},
		},
		Vhosts: []string{"/", "v"},
	})
	ch := s.channel(t)
	q := s.queue(t, ch, nil)
	consume(t, ch, q, nil)
	time.Sleep(100 * time.Millisecond)
	as := func(user, password, path string) (int, string) {
		status, body := api{b.ManagementURL(), user, password}.do(t, "GET", path, "")
		return status, string(body)
	}
	for _, c := range []struct {
		user, password, path string
		status               int
		body                 string
	}{
		{"guest", "wrong", "/api/whoami", 401, `{"error":"not_authorized","reason":"Login failed"}`},
		{"app", "p", "/api/whoami", 401, `{"error":"not_authorised","reason":"Not management user"}`},
		{"man", "p", "/api/whoami", 200, `{"name":"man","tags":["management"]}`},
		{"man", "p", "/api/consumers/%2F", 200, `[]`},
		{"man", "p", "/api/queues/v/x", 401, `{"error":"not_authorised","reason":"User not authorised to access virtual host"}`},
		{"mon", "p", "/api/queues/nope/x", 404, `{"error":"Object Not Found","reason":"Not Found"}`},
		{"mon", "p", "/api/nothing", 404, `{"error":"Object Not Found","reason":"Not Found"}`},
	} {
		if status, body := as(c.user, c.password, c.path); status != c.status || body != c.body {
			t.Errorf("%s %s: %d %s", c.user, c.path, status, body)
		}
	}
	if _, body := as("mon", "p", "/api/consumers/%2F"); !strings.Contains(body, q) {
		t.Errorf("consumers for a monitoring user: %s", body)
	}
	if _, body := as("mon", "p", "/api/overview"); !strings.Contains(body, `"rabbitmq_version":"3.10.8"`) {
		t.Errorf("overview %s", body)
	}
	if _, body := as("guest", "guest", "/api/connections"); !strings.Contains(body, `"user":"guest"`) {
		t.Errorf("connections %s", body)
	}

	b.SetStats(broker.StatsRefused)
	if status, body := as("mon", "p", "/api/queues/%2F/"+q); status != 400 || body != `{"error":"bad_request","reason":"Stats in management UI are disabled on this node"}` {
		t.Errorf("%d %s", status, body)
	}
	b.SetStats(broker.StatsBare)
	if status, body := as("mon", "p", "/api/queues/%2F/"+q); status != 200 || strings.Contains(body, "messages") || !strings.Contains(body, `"state":"live"`) {
		t.Errorf("%d %s", status, body)
	}
	if status, _ := as("mon", "p", "/api/consumers/%2F"); status != 400 {
		t.Errorf("%d", status)
	}
	b.SetStats(broker.StatsOn)
	if status, body := as("mon", "p", "/api/queues"); status != 200 || !strings.Contains(body, q) {
		t.Errorf("%d %s", status, body)
	}
}

// Numbers are as old as the interval says.
func TestManagementLag(t *testing.T) {
	b, s := embedded(t, broker.Config{ManagementAddr: "127.0.0.1:0", StatsInterval: time.Hour})
	ch := s.channel(t)
	q := s.queue(t, ch, nil)
	publish(t, ch, q, "x")
	wantReady(t, ch, q, 1, 0)
	var got apiQueueShape
	api{b.ManagementURL(), "guest", "guest"}.get(t, "/api/queues/%2F/"+q, &got)
	if got.Ready != nil || got.Stats != nil {
		t.Fatalf("numbers before the first sample: %+v", got)
	}
}
