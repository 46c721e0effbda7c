package consumers

import (
	"context"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Retry says how a failed message is tried again before its fate is decided.
// The consumer holds the message meanwhile and handles no other, so the order
// is kept. A handler that says what is to become of its message ([Requeue],
// [Reject], [AckAnyway]) is not retried.
type Retry struct {
	// Attempts is how often the handler is called at most. Default: 1, no
	// retry.
	Attempts int
	// Backoff is the wait between two calls. Default: as [Backoff].
	Backoff Backoff
	// Exchange and RoutingKey are where an exhausted message is published to,
	// with confirm; it is acked once the broker confirmed. The headers
	// x-exception-message, x-original-exchange and x-original-routing-key are
	// added. Where neither is set it is settled like any failure.
	Exchange   string
	RoutingKey string
}

func (r Retry) withDefaults() Retry {
	orDefault(&r.Attempts, 1)
	r.Backoff = r.Backoff.withDefaults()
	return r
}

func (r Retry) republishes() bool { return r.Exchange != "" || r.RoutingKey != "" }

// pauseBefore waits before the next call and reports whether to make it.
func (r Retry) pauseBefore(ctx context.Context, attempt int, halt <-chan struct{}) bool {
	t := time.NewTimer(r.Backoff.Delay(attempt))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-halt:
		return false
	case <-ctx.Done():
		return false
	}
}

// republisher publishes exhausted messages, one at a time, and knows what became
// of each.
type republisher struct {
	mu      sync.Mutex
	ch      *channel
	returns chan amqp.Return
}

// open makes sure that there is a channel in confirm mode; mu is held.
func (p *republisher) open(ctx context.Context, l *link) error {
	if p.ch != nil && !p.ch.IsClosed() {
		return nil
	}
	ch, err := l.channel(ctx)
	if err != nil {
		return err
	}
	if err := ch.request(ctx, "asking for confirms", func() error { return ch.Confirm(false) }); err != nil {
		ch.abandon()
		return err
	}
	p.ch, p.returns = ch, ch.NotifyReturn(make(chan amqp.Return, 1))
	return nil
}

func (p *republisher) close(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ch != nil && !p.ch.IsClosed() {
		p.ch.close(ctx)
	}
}

// republish publishes an exhausted message and waits for the confirm.
func (c *Container) republish(ctx context.Context, d *Delivery, cause error) error {
	p := &c.republisher
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.open(ctx, c.conn.publish); err != nil {
		return err
	}
	headers := amqp.Table{}
	for k, v := range d.Headers {
		headers[k] = v
	}
	headers["x-exception-message"] = clip(cause.Error(), 1000)
	headers["x-original-exchange"] = d.Exchange
	headers["x-original-routing-key"] = d.RoutingKey
	r := c.cfg.Retry
	conf, err := p.ch.PublishWithDeferredConfirm(r.Exchange, r.RoutingKey, true, false, amqp.Publishing{
		Headers: headers, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, DeliveryMode: d.DeliveryMode,
		Priority: d.Priority, CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo, MessageId: d.MessageId,
		Timestamp: d.Timestamp, Type: d.Type, AppId: d.AppId, Body: d.Body,
	})
	if err != nil {
		return fmt.Errorf("republishing: %w", err)
	}
	// A confirm that was not waited for would be taken for the next message's.
	ok, err := conf.WaitContext(ctx)
	if err != nil {
		p.ch.abandon()
		p.ch = nil
		return fmt.Errorf("waiting for the broker's confirm of a republished message: %w", err)
	}
	select {
	case back, open := <-p.returns: // comes before the confirm
		if open {
			return fmt.Errorf("no queue takes messages for exchange %q, routing key %q: %s", r.Exchange, r.RoutingKey, back.ReplyText)
		}
	default:
	}
	if !ok {
		return fmt.Errorf("the broker did not take the republished message")
	}
	return nil
}

// clip shortens s to at most n bytes, at a rune's border.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n]
}
