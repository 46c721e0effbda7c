package consumers_test

import (
	"context"
	"testing"

	"github.com/belay-mq/belay/consumers"
	"github.com/belay-mq/belay/consumers/broker"
)

func TestKilledConnectionComesBackAndRefusesTheOldAck(t *testing.T) {
	s := embeddedServer(t, broker.Config{})
	s.declare(t, "q", nil)
	s.publish(t, "q", 0, 1)
	entered, release := make(chan bool, 2), make(chan struct{})
	c := container(t, s.dial(t), consumers.Config{Queues: []string{"q"}}, func(_ context.Context, d *consumers.Delivery) error {
		entered <- d.Redelivered
		if !d.Redelivered {
			<-release
		}
		return nil
	})
	start(t, c)
	<-entered
	s.embedded.KillAll()
	if again := <-entered; !again {
		t.Error("the message was not flagged as redelivered")
	}
	eventually(t, "the redelivered one is handled", func() bool { return c.Status().Handled == 1 })
	close(release)
	eventually(t, "the old ack is refused", func() bool { return c.Status().StaleAcks == 1 })
	awaitState(t, c, consumers.Running)
	stop(t, c)
}
