package observe

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// The rates of now are not those of the last step of the graph.
func TestRatesAreThoseOfNow(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rate, samples := 100, ""
		if r.URL.Query().Has("msg_rates_age") {
			rate, samples = 3, `,"samples":[{"sample":7,"timestamp":60000},{"sample":5,"timestamp":0}]`
		}
		fmt.Fprintf(w, `{"messages_ready":7,"messages_ready_details":{"rate":0%s},"message_stats":{"publish_details":{"rate":%d%s}}}`, samples, rate, samples)
	}))
	defer api.Close()
	c, err := newClient(Config{Management: Secret(strings.Replace(api.URL, "http://", "http://guest:guest@", 1)), Parallel: 2, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.http.CloseIdleConnections()
	for history, graph := range map[time.Duration]int{0: 0, time.Minute: 2} {
		f, err := c.queue(t.Context(), QueueID{VHost: "/", Name: "q"}, history, 3)
		if err != nil {
			t.Fatal(err)
		}
		if f.in.Value != 100 || len(f.hour) != graph {
			t.Errorf("history %v: in %v a second, %d samples; want 100 and %d", history, f.in.Value, len(f.hour), graph)
		}
	}
}
