package app

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/belay-mq/belay/cmd/belay/internal/config"
	"github.com/belay-mq/belay/consumers"
)

const goodListeners = `app: settle-service
without-toggles: hold
listeners:
  - id: SettleConsumer
    queues: [settle]
    concurrency: 2..8
    force-stop: true
    handler: log
  - id: PayoutConsumer
    queues: [payout, payout.late]
    requeue-on-error: true
    shutdown-timeout: 5s
    handler: {exec: {command: [./payout, --stdin], timeout: 20s}}
`

func TestParseListeners(t *testing.T) {
	l, err := ParseListeners("l.yaml", []byte(goodListeners))
	if err != nil {
		t.Fatal(err)
	}
	settle, payout := l.Listeners[0].Config(), l.Listeners[1].Config()
	if settle.Min != 2 || settle.Max != 8 || settle.StopMode != consumers.StopForce || settle.DefaultRequeue {
		t.Errorf("SettleConsumer is read as %+v", settle)
	}
	if len(payout.Queues) != 2 || payout.StopMode == consumers.StopForce || !payout.DefaultRequeue || payout.ShutdownTimeout != 5*time.Second {
		t.Errorf("PayoutConsumer is read as %+v", payout)
	}
	if e := l.Listeners[1].Handler.Exec; e == nil || len(e.Command) != 2 || time.Duration(e.Timeout) != 20*time.Second {
		t.Errorf("the handler of PayoutConsumer is read as %+v", e)
	}
}

func TestMistakesInListeners(t *testing.T) {
	for name, c := range map[string]struct {
		old, new string
		line     int
		text     string
	}{
		"no application":      {"app: settle-service\n", "", 0, "app: it is missing"},
		"no listeners":        {goodListeners[strings.Index(goodListeners, "listeners:"):], "listeners: []\n", 3, "listeners: it is empty"},
		"unknown key":         {"force-stop", "forced-stop", 7, `unknown field "forced-stop"`},
		"unknown policy":      {"hold", "wait", 2, `without-toggles: "wait" is unknown; use start or hold`},
		"id twice":            {"PayoutConsumer", "SettleConsumer", 9, `listeners[1].id: "SettleConsumer" stands there twice`},
		"no handler":          {"    handler: log\n", "", 4, "listeners[0].handler: it is missing"},
		"blank id":            {"id: SettleConsumer", `id: ""`, 4, "listeners[0].id: is blank"},
		"no queue":            {"[payout, payout.late]", "[]", 10, "listeners[1].queues: names no queue"},
		"prefetch":            {"    force-stop", "    prefetch: -3\n    force-stop", 7, "listeners[0].prefetch: is -3"},
		"attempts":            {"    force-stop", "    attempts: -3\n    force-stop", 7, "listeners[0].attempts: -3 must not be negative"},
		"exclusive, several":  {"force-stop", "exclusive", 6, "listeners[0].concurrency: is 8; an exclusive consumer is always one"},
		"unknown handler":     {"handler: log", "handler: print", 8, "print"},
		"min above max":       {"2..8", "8..2", 6, "must have 1 ≤ min ≤ max"},
		"no number":           {"2..8", "few", 6, "is no concurrency"},
		"command as a string": {"[./payout, --stdin]", "./payout", 13, ""},
		"bad duration":        {"5s", "soon", 12, "is no duration"},
		"two documents":       {"  - id: PayoutConsumer", "---\nlisteners:\n  - id: PayoutConsumer", 10, "a second document begins here"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(goodListeners, c.old, c.new, 1)
			if text == goodListeners {
				t.Fatal("the case changes nothing")
			}
			_, err := ParseListeners("l.yaml", []byte(text))
			var e *config.Error
			if !errors.As(err, &e) {
				t.Fatalf("err = %v, want *config.Error", err)
			}
			if !strings.Contains(e.Error(), c.text) || e.Line != c.line {
				t.Errorf("got line %d: %s; want line %d: %s", e.Line, e.Text, c.line, c.text)
			}
		})
	}
}
