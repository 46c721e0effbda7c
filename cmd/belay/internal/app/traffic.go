package app

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/belay-mq/belay/consumers"
)

const (
	// poisonType marks the messages whose handler fails.
	poisonType  = "poison"
	poisonEvery = 45 * time.Second
	// publishTick is how often publishers send what has come due.
	publishTick = 100 * time.Millisecond
	declareTime = 5 * time.Second
)

// declareQueues makes the demo's queues.
func (d *Demo) declareQueues(ctx context.Context) error {
	conn, err := openConn(ctx, d.Context.RabbitMQ, connName{}, d.cfg.Logger)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	ctx, cancel := context.WithTimeout(ctx, declareTime)
	defer cancel()
	ch, err := conn.PublishChannel(ctx)
	if err != nil {
		return fmt.Errorf("declare the demo's queues: %w", err)
	}
	for _, l := range demoListeners {
		args := amqp.Table{}
		if l.quorum {
			args = amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": int32(20)}
		}
		if _, err := ch.QueueDeclare(l.queue, true, false, false, false, args); err != nil {
			return fmt.Errorf("declare the demo's queue %s: %w", l.queue, err)
		}
	}
	return nil
}

// publish sends the demo's messages until ctx ends, through outages.
func (d *Demo) publish(ctx context.Context) error {
	conn, err := openConn(ctx, d.Context.RabbitMQ, connName{instance: "demo-publisher"}, d.cfg.Logger)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	for _, l := range demoListeners {
		wg.Go(func() {
			p := &publisher{demoListener: l, speed: d.cfg.Speed, began: time.Now()}
			for ctx.Err() == nil {
				if err := guarded("publisher", func() error { return p.session(ctx, conn) }); err != nil && ctx.Err() == nil {
					d.log.Debug("publisher", "queue", l.queue, "error", err)
					sleep(ctx, time.Second)
				}
			}
		})
	}
	wg.Wait()
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	return conn.Close(end)
}

type publisher struct {
	demoListener
	speed  float64
	began  time.Time
	owed   float64 // messages that have come due
	n      int
	poison time.Time // when the last poison message was sent
}

func (p *publisher) session(ctx context.Context, conn *consumers.Conn) error {
	ch, err := conn.PublishChannel(ctx)
	if err != nil {
		return err
	}
	defer ch.Close()
	tick := time.NewTicker(publishTick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if conn.Blocked() {
			continue
		}
		phase := 2 * math.Pi * float64(time.Since(p.began)) / float64(p.period)
		p.owed += p.rate * p.speed * (1 + p.swing*math.Sin(phase)) * publishTick.Seconds()
		for ; p.owed >= 1; p.owed-- {
			if err := p.send(ctx, ch, ""); err != nil {
				return err
			}
		}
		if p.demoListener.poison && time.Since(p.poison) > poisonEvery {
			p.poison = time.Now()
			if err := p.send(ctx, ch, poisonType); err != nil {
				return err
			}
		}
	}
}

func (p *publisher) send(ctx context.Context, ch *amqp.Channel, kind string) error {
	p.n++
	return ch.PublishWithContext(ctx, "", p.queue, false, false, amqp.Publishing{
		ContentType: "application/json", DeliveryMode: amqp.Persistent, Type: kind,
		MessageId: p.queue + "-" + strconv.Itoa(p.n), Timestamp: time.Now(),
		Body: fmt.Appendf(nil, `{"queue":%q,"n":%d}`, p.queue, p.n),
	})
}
