package presence

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// question is what an instance is asked over the exchange belay.presence.ask.
type question struct {
	V     int       `json:"v"`
	Want  string    `json:"want"` // "report" or "feed"
	Since time.Time `json:"since,omitzero"`
}

const maxQuestion = 4096

// Ask asks every instance to report at once.
func (p *Presence) Ask(ctx context.Context) error {
	ch, err := p.conn.PublishChannel(ctx)
	if err != nil {
		return fmt.Errorf("ask for reports: %w", err)
	}
	defer closeSoon(ch)
	return p.ask(ctx, ch, question{V: 1, Want: "report"}, amqp.Publishing{})
}

func (p *Presence) ask(ctx context.Context, ch *amqp.Channel, q question, msg amqp.Publishing) error {
	body, err := json.Marshal(q)
	if err != nil {
		return fmt.Errorf("encode the question: %w", err)
	}
	msg.ContentType, msg.DeliveryMode, msg.Expiration, msg.Body = "application/json", amqp.Transient, "5000", body
	err = bounded(ctx, func() error {
		if err := declareExchanges(ch); err != nil {
			return err
		}
		return ch.PublishWithContext(ctx, AskExchange, "", false, false, msg)
	})
	if err != nil {
		return fmt.Errorf("ask the other processes: %w", err)
	}
	return nil
}

// AskFeed asks the processes that keep a feed for their lines since a time and
// returns what arrives within wait: NDJSON lines, at most 1,000 from a process,
// in the order of arrival. The lines are untrusted.
func (p *Presence) AskFeed(ctx context.Context, since time.Time, wait time.Duration) ([][]byte, error) {
	ch, err := p.conn.ConsumeChannel(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask for feed lines: %w", err)
	}
	defer closeSoon(ch)
	var answers <-chan amqp.Delivery
	var replyTo string
	err = bounded(ctx, func() error {
		q, err := ch.QueueDeclare("", false, true, true, false, amqp.Table{"x-max-length": int32(1000)})
		if err != nil {
			return fmt.Errorf("declare a queue for feed lines: %w", err)
		}
		replyTo = q.Name
		answers, err = ch.Consume(q.Name, "", true, true, false, false, nil)
		return err
	})
	if err != nil {
		return nil, err
	}
	id := p.conn.Instance()
	if err := p.ask(ctx, ch, question{V: 1, Want: "feed", Since: since.UTC()}, amqp.Publishing{ReplyTo: replyTo, CorrelationId: id}); err != nil {
		return nil, err
	}
	var lines [][]byte
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return lines, ctx.Err()
		case <-timer.C:
			return lines, nil
		case d, ok := <-answers:
			if !ok {
				return lines, fmt.Errorf("ask for feed lines: %w", errClosed)
			}
			if len(d.Body) <= maxBody*4 {
				lines = append(lines, splitLines(d.Body)...)
			}
		}
	}
}

func splitLines(body []byte) [][]byte {
	var out [][]byte
	for line := range bytes.Lines(body) {
		if line = bytes.TrimSpace(line); len(line) > 0 && len(out) < feedMax {
			out = append(out, line)
		}
	}
	return out
}

// answer keeps this instance's queue on the exchange of questions.
func (p *Presence) answer(ctx context.Context) error {
	ch, err := p.conn.ConsumeChannel(ctx)
	if err != nil {
		return fmt.Errorf("open a channel for questions: %w", err)
	}
	defer closeSoon(ch)
	var questions <-chan amqp.Delivery
	err = bounded(ctx, func() error {
		if err := declareExchanges(ch); err != nil {
			return err
		}
		q, err := ch.QueueDeclare("", false, true, true, false, amqp.Table{"x-max-length": int32(100), "x-message-ttl": int32(5000)})
		if err != nil {
			return fmt.Errorf("declare a queue for questions: %w", err)
		}
		if err := ch.QueueBind(q.Name, "", AskExchange, false, nil); err != nil {
			return fmt.Errorf("bind the queue for questions: %w", err)
		}
		questions, err = ch.Consume(q.Name, "", true, true, false, false, nil)
		return err
	})
	if err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case d, ok := <-questions:
			if !ok {
				return fmt.Errorf("questions: %w", errClosed)
			}
			if err := p.reply(ctx, d); err != nil {
				p.log.Debug("a question was not answered", "error", err)
			}
		}
	}
}

func (p *Presence) reply(ctx context.Context, d amqp.Delivery) error {
	if len(d.Body) > maxQuestion {
		return errors.New("the question is too long")
	}
	var q question
	if err := json.Unmarshal(d.Body, &q); err != nil {
		return fmt.Errorf("the question is no JSON: %w", err)
	}
	switch {
	case q.V != 1:
		return fmt.Errorf("the question has version %d", q.V)
	case q.Want == "report":
		signal(p.asked)
		return nil
	case q.Want == "feed" && p.feed != nil && d.ReplyTo != "" && d.CorrelationId != p.conn.Instance():
		return p.sendFeed(ctx, q.Since, d.ReplyTo)
	}
	return nil
}

func (p *Presence) sendFeed(ctx context.Context, since time.Time, replyTo string) error {
	lines := p.feed(since)
	if len(lines) > feedMax {
		lines = lines[len(lines)-feedMax:]
	}
	if len(lines) == 0 {
		return nil
	}
	ch, err := p.conn.PublishChannel(ctx)
	if err != nil {
		return fmt.Errorf("answer with feed lines: %w", err)
	}
	defer closeSoon(ch)
	return bounded(ctx, func() error {
		return ch.PublishWithContext(ctx, "", replyTo, false, false, amqp.Publishing{
			ContentType:  "application/x-ndjson",
			DeliveryMode: amqp.Transient,
			Body:         bytes.Join(lines, []byte("\n")),
		})
	})
}
