package presence_test

import (
	"encoding/json"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/belay-mq/belay/registry/presence"
)

// publish sends a report as a service in another language would.
func publish(t *testing.T, ch *amqp.Channel, r presence.Report) {
	t.Helper()
	body, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := ch.PublishWithContext(t.Context(), presence.Exchange, "x.y", false, false, amqp.Publishing{Body: body}); err != nil {
		t.Fatal(err)
	}
}
