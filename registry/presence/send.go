package presence

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Send publishes reports until ctx ends, then a last one with "bye". source makes
// the report to be sent; it is called on Send's goroutine and must not block. Its
// V, Instance, Host, Seq and At are filled in here. Send keeps no report while the
// broker cannot be reached: the newest state is sent when it can be again.
//
// It returns nil after the goodbye was sent (or could not be within a second).
func (p *Presence) Send(ctx context.Context, source func() Report) error {
	s := &sender{p: p, source: source}
	var wg sync.WaitGroup
	wg.Go(func() { p.again(ctx, "answer", p.answer) })
	p.again(ctx, "send", s.session)
	wg.Wait()
	s.bye()
	return nil
}

type sender struct {
	p      *Presence
	source func() Report
	seq    uint64
	ch     *amqp.Channel
}

// session opens a channel and sends until it breaks or ctx ends. The channel
// outlives a session that ended by ctx, for the goodbye.
func (s *sender) session(ctx context.Context) error {
	ch, err := s.p.conn.PublishChannel(ctx)
	if err != nil {
		return fmt.Errorf("open a channel for reports: %w", err)
	}
	if err := bounded(ctx, func() error { return declareExchanges(ch) }); err != nil {
		closeSoon(ch)
		return err
	}
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	s.ch = ch
	for {
		err := s.send(ctx, false)
		if err == nil {
			err = s.wait(ctx, closed)
		}
		if err != nil {
			if ctx.Err() == nil {
				s.ch = nil
				closeSoon(ch)
			}
			return err
		}
	}
}

// wait returns when the next report is due.
func (s *sender) wait(ctx context.Context, closed <-chan *amqp.Error) error {
	gap := time.NewTimer(minGap)
	defer gap.Stop()
	tick := time.NewTimer(s.p.interval)
	defer tick.Stop()
	due := false
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e := <-closed:
			if e != nil {
				return fmt.Errorf("reports: %w", e)
			}
			return fmt.Errorf("reports: %w", errClosed)
		case <-s.p.wake:
			due = true
		case <-s.p.asked:
			due = true
		case <-gap.C:
			if due {
				return nil
			}
			// From now on a change is sent at once.
			select {
			case <-ctx.Done():
				return ctx.Err()
			case e := <-closed:
				return fmt.Errorf("reports: %w", orClosed(e))
			case <-s.p.wake:
			case <-s.p.asked:
			case <-tick.C:
			}
			return nil
		}
	}
}

func orClosed(e *amqp.Error) error {
	if e == nil {
		return errClosed
	}
	return e
}

// send publishes one report. While a broker alarm holds publishers back nothing is
// sent: it would only wait in a socket's buffer and be old when it arrives.
func (s *sender) send(ctx context.Context, bye bool) error {
	if s.p.conn.Blocked() {
		return nil
	}
	r := s.source()
	s.seq++
	r.V, r.Instance, r.Host, r.Seq, r.At, r.Bye = 1, s.p.conn.Instance(), s.p.conn.Host(), s.seq, time.Now().UTC(), bye
	if r.App == "" {
		r.App = s.p.conn.App()
	}
	body, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode the report: %w", err)
	}
	err = bounded(ctx, func() error {
		return s.ch.PublishWithContext(ctx, Exchange, routingKey(r.App, r.Instance), false, false, amqp.Publishing{
			ContentType:  "application/json",
			DeliveryMode: amqp.Transient,
			Expiration:   "10000",
			Body:         body,
		})
	})
	if err != nil {
		return fmt.Errorf("publish the report: %w", err)
	}
	s.p.sent.Add(1)
	return nil
}

// bye sends the goodbye on the channel that is still open, and closes it. Without a
// broker there is nobody to tell, and the others find out by themselves.
func (s *sender) bye() {
	if s.ch == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := guard("bye", func() error { return s.send(ctx, true) }); err != nil {
		s.p.log.Debug("the goodbye could not be sent", "error", err)
	}
	closing := make(chan struct{})
	go func() {
		defer close(closing)
		_ = guard("close channel", s.ch.Close)
	}()
	select {
	case <-closing:
	case <-ctx.Done():
	}
}
