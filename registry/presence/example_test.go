package presence_test

import (
	"fmt"

	"github.com/belay-mq/belay/registry/presence"
)

// A report is JSON; services in any language may send one to the exchange
// belay.presence.
func ExampleDecode() {
	r, err := presence.Decode([]byte(`{
		"v":1, "app":"settle-service", "instance":"host-c:811:f3a9", "host":"host-c", "seq":42,
		"at":"2026-01-02T03:04:05Z", "bye":false, "canWrite":false,
		"listeners":[{"id":"PayoutConsumer","queues":["payout"],"state":"draining","consumers":1,"draining":1,"min":2,"max":4,"inFlight":3}]
	}`))
	if err != nil {
		panic(err)
	}
	l := r.Listeners[0]
	fmt.Printf("%s on %s: %s, %d in flight\n", l.ID, r.Instance, l.State, l.InFlight)

	_, err = presence.Decode([]byte(`{"v":1,"instance":"x","seq":1,"listeners":[{"id":"L","state":"happy"}]}`))
	fmt.Println(err)
	// Output:
	// PayoutConsumer on host-c:811:f3a9: draining, 3 in flight
	// malformed report: listener L has state "happy"
}

// Clean makes outside text fit for a screen.
func ExampleClean() {
	fmt.Println(presence.Clean("red: \x1b[31mhello", 100))
	fmt.Println(presence.Clean("a long reason that goes on", 15))
	// Output:
	// red:  [31mhello
	// a long reaso…
}
