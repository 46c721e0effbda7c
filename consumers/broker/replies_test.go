package broker_test

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestReplyTexts holds the codes and texts of refusals. Each case gets a
// fresh connection and channel, and a durable queue "q" that the connection
// does not own in any special way.
func TestReplyTexts(t *testing.T) {
	declare := func(args amqp.Table) func(*amqp.Channel, string) error {
		return func(ch *amqp.Channel, q string) error {
			_, err := ch.QueueDeclare(q+".new", true, false, false, false, args)
			if err == nil {
				ch.QueueDelete(q+".new", false, false, false)
			}
			return err
		}
	}
	cases := []struct {
		name string
		args amqp.Table // of the queue that is there
		do   func(ch *amqp.Channel, q string) error
		code int
		text string // %q stands for the queue's name
	}{
		{"passive declare of a missing queue", nil, func(ch *amqp.Channel, q string) error {
			_, err := ch.QueueDeclarePassive(q+".no", true, false, false, false, nil)
			return err
		}, 404, "NOT_FOUND - no queue '%q.no' in vhost '/'"},
		{"durable differs", nil, func(ch *amqp.Channel, q string) error {
			_, err := ch.QueueDeclare(q, false, false, false, false, nil)
			return err
		}, 406, "PRECONDITION_FAILED - inequivalent arg 'durable' for queue '%q' in vhost '/': received 'false' but current is 'true'"},
		{"auto-delete differs", nil, func(ch *amqp.Channel, q string) error {
			_, err := ch.QueueDeclare(q, true, true, false, false, nil)
			return err
		}, 406, "PRECONDITION_FAILED - inequivalent arg 'auto_delete' for queue '%q' in vhost '/': received 'true' but current is 'false'"},
		{"exclusive differs", nil, func(ch *amqp.Channel, q string) error {
			_, err := ch.QueueDeclare(q, true, false, true, false, nil)
			return err
		}, 405, "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '%q' in vhost '/'. It could be originally declared on another connection or the exclusive property value does not match that of the original declaration."},
		{"ttl received none", amqp.Table{"x-message-ttl": int32(60000)}, func(ch *amqp.Channel, q string) error {
			_, err := ch.QueueDeclare(q, true, false, false, false, nil)
			return err
		}, 406, "PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue '%q' in vhost '/': received none but current is the value '60000' of type 'signedint'"},
		{"ttl differs", amqp.Table{"x-message-ttl": int32(60000)}, func(ch *amqp.Channel, q string) error {
			_, err := ch.QueueDeclare(q, true, false, false, false, amqp.Table{"x-message-ttl": int64(5)})
			return err
		}, 406, "PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue '%q' in vhost '/': received '5' but current is '60000'"},
		{"ttl in another width", amqp.Table{"x-message-ttl": int32(60000)}, func(ch *amqp.Channel, q string) error {
			_, err := ch.QueueDeclare(q, true, false, false, false, amqp.Table{"x-message-ttl": int64(60000)})
			return err
		}, 0, ""},
		{"ttl only received", nil, func(ch *amqp.Channel, q string) error {
			_, err := ch.QueueDeclare(q, true, false, false, false, amqp.Table{"x-message-ttl": int32(5)})
			return err
		}, 406, "PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue '%q' in vhost '/': received the value '5' of type 'signedint' but current is none"},
		{"dead letter exchange differs", amqp.Table{"x-dead-letter-exchange": "a"}, func(ch *amqp.Channel, q string) error {
			_, err := ch.QueueDeclare(q, true, false, false, false, amqp.Table{"x-dead-letter-exchange": "b"})
			return err
		}, 406, "PRECONDITION_FAILED - inequivalent arg 'x-dead-letter-exchange' for queue '%q' in vhost '/': received 'b' but current is 'a'"},
		{"queue type differs", amqp.Table{"x-queue-type": "quorum"}, func(ch *amqp.Channel, q string) error {
			_, err := ch.QueueDeclare(q, true, false, false, false, nil)
			return err
		}, 406, "PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue '%q' in vhost '/': received none but current is the value 'quorum' of type 'longstr'"},
		{"queue type received", nil, func(ch *amqp.Channel, q string) error {
			_, err := ch.QueueDeclare(q, true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
			return err
		}, 406, "PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue '%q' in vhost '/': received the value 'quorum' of type 'longstr' but current is none"},
		{"classic type spelled out", nil, func(ch *amqp.Channel, q string) error {
			_, err := ch.QueueDeclare(q, true, false, false, false, amqp.Table{"x-queue-type": "classic"})
			return err
		}, 0, ""},
		{"unknown argument is not compared", nil, func(ch *amqp.Channel, q string) error {
			_, err := ch.QueueDeclare(q, true, false, false, false, amqp.Table{"x-whatever": "x"})
			return err
		}, 0, ""},
		{"bad ttl type", nil, declare(amqp.Table{"x-message-ttl": "5"}), 406,
			"PRECONDITION_FAILED - invalid arg 'x-message-ttl' for queue '%q.new' in vhost '/': \"expected integer, got longstr\""},
		{"negative ttl", nil, declare(amqp.Table{"x-message-ttl": int32(-1)}), 406,
			"PRECONDITION_FAILED - invalid arg 'x-message-ttl' for queue '%q.new' in vhost '/': {value_negative,-1}"},
		{"zero expires", nil, declare(amqp.Table{"x-expires": int32(0)}), 406,
			"PRECONDITION_FAILED - invalid arg 'x-expires' for queue '%q.new' in vhost '/': {value_zero,0}"},
		{"negative max-length", nil, declare(amqp.Table{"x-max-length": int32(-1)}), 406,
			"PRECONDITION_FAILED - invalid arg 'x-max-length' for queue '%q.new' in vhost '/': {value_negative,-1}"},
		{"bad overflow", nil, declare(amqp.Table{"x-overflow": "burst"}), 406, "PRECONDITION_FAILED - invalid arg 'x-overflow' for queue '%q.new' in vhost '/': invalid_overflow"},
		{"bad max-priority", nil, declare(amqp.Table{"x-max-priority": int32(300)}), 406,
			"PRECONDITION_FAILED - invalid arg 'x-max-priority' for queue '%q.new' in vhost '/': {max_value_exceeded,300}"},
		{"dead letter key without exchange", nil, declare(amqp.Table{"x-dead-letter-routing-key": "k"}), 406,
			"PRECONDITION_FAILED - invalid arg 'x-dead-letter-routing-key' for queue '%q.new' in vhost '/': routing_key_but_no_dlx_defined"},
		{"unknown queue type", nil, declare(amqp.Table{"x-queue-type": "square"}), 406,
			"PRECONDITION_FAILED - invalid arg 'x-queue-type' for queue '%q.new' in vhost '/': \"unsupported queue type 'square'\""},
		{"quorum not durable", nil, func(ch *amqp.Channel, q string) error {
			_, err := ch.QueueDeclare(q+".new", false, false, false, false, amqp.Table{"x-queue-type": "quorum"})
			return err
		}, 406, "PRECONDITION_FAILED - invalid property 'non-durable' for queue '%q.new' in vhost '/'"},
		{"quorum exclusive", nil, func(ch *amqp.Channel, q string) error {
			_, err := ch.QueueDeclare(q+".new", true, false, true, false, amqp.Table{"x-queue-type": "quorum"})
			return err
		}, 406, "PRECONDITION_FAILED - invalid property 'exclusive-owner' for queue '%q.new' in vhost '/'"},
		{"quorum auto-delete", nil, func(ch *amqp.Channel, q string) error {
			_, err := ch.QueueDeclare(q+".new", true, true, false, false, amqp.Table{"x-queue-type": "quorum"})
			return err
		}, 406, "PRECONDITION_FAILED - invalid property 'auto-delete' for queue '%q.new' in vhost '/'"},
		{"quorum with priorities", nil, declare(amqp.Table{"x-queue-type": "quorum", "x-max-priority": int32(5)}), 406,
			"PRECONDITION_FAILED - invalid arg 'x-max-priority' for queue '%q.new' in vhost '/' of queue type rabbit_quorum_queue"},
		{"quorum with global qos", amqp.Table{"x-queue-type": "quorum"}, func(ch *amqp.Channel, q string) error {
			if err := ch.Qos(5, 0, true); err != nil {
				return err
			}
			_, err := ch.Consume(q, "", false, false, false, false, nil)
			return err
		}, 540, "NOT_IMPLEMENTED - queue '%q' in vhost '/' does not support global qos"},
		{"reserved queue name", nil, func(ch *amqp.Channel, q string) error {
			_, err := ch.QueueDeclare("amq.mine", true, false, false, false, nil)
			return err
		}, 403, "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'"},
		{"reserved exchange name", nil, func(ch *amqp.Channel, q string) error {
			return ch.ExchangeDeclare("amq.mine", "direct", true, false, false, false, nil)
		}, 403, "ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'"},
		{"unknown exchange type", nil, func(ch *amqp.Channel, q string) error {
			return ch.ExchangeDeclare(q+".x", "square", false, true, false, false, nil)
		}, 503, "COMMAND_INVALID - invalid exchange type 'square'"},
		{"exchange type differs", nil, func(ch *amqp.Channel, q string) error {
			return ch.ExchangeDeclare("amq.topic", "direct", true, false, false, false, nil)
		}, 406, "PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'amq.topic' in vhost '/': received 'direct' but current is 'topic'"},
		{"exchange durable differs", nil, func(ch *amqp.Channel, q string) error {
			return ch.ExchangeDeclare("amq.topic", "topic", false, false, false, false, nil)
		}, 406, "PRECONDITION_FAILED - inequivalent arg 'durable' for exchange 'amq.topic' in vhost '/': received 'false' but current is 'true'"},
		{"passive declare of a missing exchange", nil, func(ch *amqp.Channel, q string) error {
			return ch.ExchangeDeclarePassive(q+".x", "direct", false, false, false, false, nil)
		}, 404, "NOT_FOUND - no exchange '%q.x' in vhost '/'"},
		{"bind to a missing exchange", nil, func(ch *amqp.Channel, q string) error {
			return ch.QueueBind(q, "k", q+".x", false, nil)
		}, 404, "NOT_FOUND - no exchange '%q.x' in vhost '/'"},
		{"bind a missing queue", nil, func(ch *amqp.Channel, q string) error {
			return ch.QueueBind(q+".no", "k", "amq.direct", false, nil)
		}, 404, "NOT_FOUND - no queue '%q.no' in vhost '/'"},
		{"bind to the default exchange", nil, func(ch *amqp.Channel, q string) error {
			return ch.QueueBind(q, "k", "", false, nil)
		}, 403, "ACCESS_REFUSED - operation not permitted on the default exchange"},
		{"delete the default exchange", nil, func(ch *amqp.Channel, q string) error {
			return ch.ExchangeDelete("", false, false)
		}, 403, "ACCESS_REFUSED - operation not permitted on the default exchange"},
		{"delete amq.direct", nil, func(ch *amqp.Channel, q string) error {
			return ch.ExchangeDelete("amq.direct", false, false)
		}, 403, "ACCESS_REFUSED - deletion of system exchange 'amq.direct' in vhost '/' not allowed"},
		{"delete a missing queue", nil, func(ch *amqp.Channel, q string) error {
			_, err := ch.QueueDelete(q+".no", false, false, false)
			return err
		}, 0, ""},
		{"delete a queue in use", nil, func(ch *amqp.Channel, q string) error {
			if _, err := ch.Consume(q, "", false, false, false, false, nil); err != nil {
				return err
			}
			_, err := ch.QueueDelete(q, true, false, false)
			return err
		}, 406, "PRECONDITION_FAILED - queue '%q' in vhost '/' in use"},
		{"delete a queue not empty", nil, func(ch *amqp.Channel, q string) error {
			publish(t, ch, q, "x")
			time.Sleep(20 * time.Millisecond)
			_, err := ch.QueueDelete(q, false, true, false)
			return err
		}, 406, "PRECONDITION_FAILED - queue '%q' in vhost '/' not empty"},
		{"purge a missing queue", nil, func(ch *amqp.Channel, q string) error {
			_, err := ch.QueuePurge(q+".no", false)
			return err
		}, 404, "NOT_FOUND - no queue '%q.no' in vhost '/'"},
		{"consume from a missing queue", nil, func(ch *amqp.Channel, q string) error {
			_, err := ch.Consume(q+".no", "", false, false, false, false, nil)
			return err
		}, 404, "NOT_FOUND - no queue '%q.no' in vhost '/'"},
		{"consume beside an exclusive consumer", nil, func(ch *amqp.Channel, q string) error {
			if _, err := ch.Consume(q, "a", false, true, false, false, nil); err != nil {
				return err
			}
			_, err := ch.Consume(q, "b", false, false, false, false, nil)
			return err
		}, 403, "ACCESS_REFUSED - queue '%q' in vhost '/' in exclusive use"},
		{"exclusive beside a consumer", nil, func(ch *amqp.Channel, q string) error {
			if _, err := ch.Consume(q, "a", false, false, false, false, nil); err != nil {
				return err
			}
			_, err := ch.Consume(q, "b", false, true, false, false, nil)
			return err
		}, 403, "ACCESS_REFUSED - queue '%q' in vhost '/' in exclusive use"},
		{"consumer tag twice", nil, func(ch *amqp.Channel, q string) error {
			if _, err := ch.Consume(q, "a", false, false, false, false, nil); err != nil {
				return err
			}
			_, err := ch.Consume(q, "a", false, false, false, false, nil)
			return err
		}, 530, "NOT_ALLOWED - attempt to reuse consumer tag 'a'"},
		{"exclusive on a single active consumer queue", amqp.Table{"x-single-active-consumer": true}, func(ch *amqp.Channel, q string) error {
			_, err := ch.Consume(q, "", false, true, false, false, nil)
			return err
		}, 403, "ACCESS_REFUSED - queue '%q' in vhost '/' in exclusive use"},
		{"bad consumer priority", nil, func(ch *amqp.Channel, q string) error {
			_, err := ch.Consume(q, "", false, false, false, false, amqp.Table{"x-priority": "high"})
			return err
		}, 406, "PRECONDITION_FAILED - invalid arg 'x-priority' for queue '%q' in vhost '/': \"expected integer, got longstr\""},
		{"get from a missing queue", nil, func(ch *amqp.Channel, q string) error {
			_, _, err := ch.Get(q+".no", false)
			return err
		}, 404, "NOT_FOUND - no queue '%q.no' in vhost '/'"},
		{"prefetch size", nil, func(ch *amqp.Channel, q string) error {
			return ch.Qos(1, 10, false)
		}, 540, "NOT_IMPLEMENTED - prefetch_size!=0 (10)"},
	}
	onEach(t, func(t *testing.T, s *server) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				ch := s.channel(t)
				q := s.queue(t, ch, c.args)
				err := c.do(ch, q)
				if c.code == 0 {
					if err != nil {
						t.Fatal(err)
					}
					return
				}
				wantReply(t, err, c.code, replyText(c.text, q))
			})
		}
	})
}

// TestAsyncReplies holds refusals that no reply is waited for.
func TestAsyncReplies(t *testing.T) {
	cases := []struct {
		name string
		do   func(ch *amqp.Channel, q string)
		code int
		text string
	}{
		{"unknown delivery tag", func(ch *amqp.Channel, q string) { ch.Ack(7, false) }, 406, "PRECONDITION_FAILED - unknown delivery tag 7"},
		{"unknown delivery tag, multiple", func(ch *amqp.Channel, q string) { ch.Ack(7, true) }, 406, "PRECONDITION_FAILED - unknown delivery tag 7"},
		{"ack twice", func(ch *amqp.Channel, q string) {
			publish(t, ch, q, "x")
			time.Sleep(20 * time.Millisecond)
			m, _, _ := ch.Get(q, false)
			m.Ack(false)
			m.Ack(false)
		}, 406, "PRECONDITION_FAILED - unknown delivery tag 1"},
		{"nack unknown", func(ch *amqp.Channel, q string) { ch.Nack(3, false, true) }, 406, "PRECONDITION_FAILED - unknown delivery tag 3"},
		{"publish to a missing exchange", func(ch *amqp.Channel, q string) {
			ch.PublishWithContext(t.Context(), q+".x", "k", false, false, amqp.Publishing{})
		}, 404, "NOT_FOUND - no exchange '%q.x' in vhost '/'"},
		{"bad expiration", func(ch *amqp.Channel, q string) {
			ch.PublishWithContext(t.Context(), "", q, false, false, amqp.Publishing{Expiration: "5x"})
		}, 406, "PRECONDITION_FAILED - invalid expiration '5x': {leftover_string,\"x\"}"},
		{"expiration not a number", func(ch *amqp.Channel, q string) {
			ch.PublishWithContext(t.Context(), "", q, false, false, amqp.Publishing{Expiration: "soon"})
		}, 406, "PRECONDITION_FAILED - invalid expiration 'soon': no_integer"},
		{"user id of somebody else", func(ch *amqp.Channel, q string) {
			ch.PublishWithContext(t.Context(), "", q, false, false, amqp.Publishing{UserId: "boss"})
		}, 406, "PRECONDITION_FAILED - user_id property set to 'boss' but authenticated user was 'guest'"},
		{"immediate", func(ch *amqp.Channel, q string) {
			ch.PublishWithContext(t.Context(), "", q, false, true, amqp.Publishing{})
		}, 540, "NOT_IMPLEMENTED - immediate=true"},
	}
	onEach(t, func(t *testing.T, s *server) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				ch := s.channel(t)
				q := s.queue(t, ch, nil)
				closed := ch.NotifyClose(make(chan *amqp.Error, 1))
				c.do(ch, q)
				select {
				case err := <-closed:
					wantReply(t, err, c.code, replyText(c.text, q))
				case <-time.After(patience):
					t.Fatal("the channel stays open")
				}
			})
		}
	})
}
