package broker_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func (s *server) exchange(t testing.TB, ch *amqp.Channel, kind string, args amqp.Table) string {
	t.Helper()
	name := fmt.Sprintf("test.x.%d", time.Now().UnixNano())
	if err := ch.ExchangeDeclare(name, kind, false, false, false, false, args); err != nil {
		t.Fatal(err)
	}
	s.atEnd(t, func(ch *amqp.Channel) { ch.ExchangeDelete(name, false, false) })
	return name
}

func TestRouting(t *testing.T) {
	cases := []struct {
		kind    string
		binding string
		hits    []string
		misses  []string
	}{
		{"direct", "a.b", []string{"a.b"}, []string{"a", "a.b.c", ""}},
		{"fanout", "a", []string{"a", "", "x.y"}, nil},
		{"topic", "a.*", []string{"a.b", "a."}, []string{"a", "a.b.c"}},
		{"topic", "a.#", []string{"a", "a.b", "a.b.c"}, []string{"b.a", ""}},
		{"topic", "#", []string{"", "a", "a.b"}, nil},
		{"topic", "#.z", []string{"z", "a.z", "a.b.z"}, []string{"z.a", ""}},
		{"topic", "*.#.b.#.c", []string{"a.b.c", "a.x.b.y.c", "a.b.b.c"}, []string{"b.c", "a.c"}},
		{"topic", "a.#.#.b", []string{"a.b", "a.x.y.b"}, []string{"a", "a.b.x"}},
		{"topic", "*", []string{"a"}, []string{"a.b", ""}},
		{"topic", "", []string{""}, []string{"a"}},
	}
	onEach(t, func(t *testing.T, s *server) {
		for _, c := range cases {
			t.Run(c.kind+" "+c.binding, func(t *testing.T) {
				ch := s.channel(t)
				x, q := s.exchange(t, ch, c.kind, nil), s.queue(t, ch, nil)
				if err := ch.QueueBind(q, c.binding, x, false, nil); err != nil {
					t.Fatal(err)
				}
				if err := ch.QueueBind(q, c.binding, x, false, nil); err != nil { // twice is once
					t.Fatal(err)
				}
				ch.Confirm(false)
				for _, key := range append(slices.Clone(c.misses), c.hits...) {
					d, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), x, key, false, false, amqp.Publishing{Body: []byte(key)})
					if err != nil || !d.Wait() {
						t.Fatal(err)
					}
				}
				if got := bodies(t, ch, q); !slices.Equal(got, c.hits) {
					t.Fatalf("got %q, want %q", got, c.hits)
				}
				if err := ch.QueueUnbind(q, c.binding, x, nil); err != nil {
					t.Fatal(err)
				}
				d, _ := ch.PublishWithDeferredConfirmWithContext(t.Context(), x, c.hits[0], false, false, amqp.Publishing{})
				d.Wait()
				wantReady(t, ch, q, 0, 0)
			})
		}
	})
}

func TestHeadersExchange(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		ch := s.channel(t)
		x := s.exchange(t, ch, "headers", nil)
		all, some := s.queue(t, ch, nil), s.queue(t, ch, nil)
		ch.QueueBind(all, "", x, false, amqp.Table{"x-match": "all", "a": "1", "b": "2"})
		ch.QueueBind(some, "", x, false, amqp.Table{"x-match": "any", "a": "1", "b": "2"})
		ch.Confirm(false)
		for _, h := range []amqp.Table{{"a": "1", "b": "2"}, {"a": "1", "b": "3"}, {"c": "1"}} {
			d, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), x, "", false, false, amqp.Publishing{Headers: h})
			if err != nil || !d.Wait() {
				t.Fatal(err)
			}
		}
		wantReady(t, ch, all, 1, 0)
		wantReady(t, ch, some, 2, 0)
	})
}

func TestReturnsAndAlternate(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		ch := s.channel(t)
		returns := ch.NotifyReturn(make(chan amqp.Return, 1))
		confirms := ch.NotifyPublish(make(chan amqp.Confirmation, 1))
		ch.Confirm(false)
		x := s.exchange(t, ch, "direct", nil)
		if err := ch.PublishWithContext(t.Context(), x, "nowhere", true, false, amqp.Publishing{Body: []byte("back"), MessageId: "7"}); err != nil {
			t.Fatal(err)
		}
		r := <-returns
		if r.ReplyCode != 312 || r.ReplyText != "NO_ROUTE" || string(r.Body) != "back" || r.MessageId != "7" || r.Exchange != x || r.RoutingKey != "nowhere" {
			t.Fatalf("return %+v", r)
		}
		if c := <-confirms; !c.Ack {
			t.Fatal("an unroutable message was not confirmed")
		}

		alt, q := s.exchange(t, ch, "fanout", nil), s.queue(t, ch, nil)
		ch.QueueBind(q, "", alt, false, nil)
		main := s.exchange(t, ch, "direct", amqp.Table{"alternate-exchange": alt})
		ch.PublishWithContext(t.Context(), main, "nowhere", true, false, amqp.Publishing{Body: []byte("x")})
		if c := <-confirms; !c.Ack {
			t.Fatal("not confirmed")
		}
		wantReady(t, ch, q, 1, 0)
	})
}

func TestExchangeToExchange(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		ch := s.channel(t)
		a, b, q := s.exchange(t, ch, "topic", nil), s.exchange(t, ch, "fanout", nil), s.queue(t, ch, nil)
		ch.QueueBind(q, "", b, false, nil)
		if err := ch.ExchangeBind(b, "x.*", a, false, nil); err != nil {
			t.Fatal(err)
		}
		if err := ch.ExchangeBind(a, "#", b, false, nil); err != nil { // a circle
			t.Fatal(err)
		}
		publishTo(t, ch, a, "x.1")
		publishTo(t, ch, a, "y.1")
		wantReady(t, ch, q, 1, 0)
		if err := ch.ExchangeUnbind(b, "x.*", a, false, nil); err != nil {
			t.Fatal(err)
		}
		publishTo(t, ch, a, "x.1")
		wantReady(t, ch, q, 1, 0)
	})
}

func publishTo(t testing.TB, ch *amqp.Channel, exchange, key string) {
	t.Helper()
	if err := ch.PublishWithContext(t.Context(), exchange, key, false, false, amqp.Publishing{Body: []byte(key)}); err != nil {
		t.Fatal(err)
	}
}

func TestAutoDeleteExchange(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		ch := s.channel(t)
		x, q := fmt.Sprintf("test.auto.%d", time.Now().UnixNano()), s.queue(t, ch, nil)
		if err := ch.ExchangeDeclare(x, "topic", true, true, false, false, nil); err != nil {
			t.Fatal(err)
		}
		ch.QueueBind(q, "#", x, false, nil)
		if err := ch.QueueUnbind(q, "#", x, nil); err != nil {
			t.Fatal(err)
		}
		wantReply(t, ch.ExchangeDeclarePassive(x, "topic", true, true, false, false, nil), 404, "")
	})
}

func TestCarbonCopies(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		ch := s.channel(t)
		a, b, c := s.queue(t, ch, nil), s.queue(t, ch, nil), s.queue(t, ch, nil)
		x := s.exchange(t, ch, "direct", nil)
		for _, q := range []string{a, b, c} {
			ch.QueueBind(q, q, x, false, nil)
		}
		if err := ch.PublishWithContext(t.Context(), x, a, false, false, amqp.Publishing{
			Headers: amqp.Table{"CC": []any{b}, "BCC": []any{c}},
		}); err != nil {
			t.Fatal(err)
		}
		for _, q := range []string{a, b, c} {
			m := receive(t, consume(t, ch, q, nil))
			if m.Headers["CC"] == nil || m.Headers["BCC"] != nil {
				t.Fatalf("headers %v", m.Headers)
			}
		}
	})
}
