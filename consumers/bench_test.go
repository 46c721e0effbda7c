//go:build unix

package consumers_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/belay-mq/belay/consumers"
	"github.com/belay-mq/belay/consumers/broker"
	amqp "github.com/rabbitmq/amqp091-go"
)

// row is one line of the throughput table.
type row struct {
	mode     string // none, each, multiple, or how many acks go into one frame
	prefetch int
	n        int // consumers
	size     int // bytes of a body
}

func (r row) String() string {
	return fmt.Sprintf("ack=%s/prefetch=%d/consumers=%d/size=%d", r.mode, r.prefetch, r.n, r.size)
}

// batch is how many acks go into one frame, for both sides.
func (r row) batch() int {
	if r.mode == "each" {
		return 1
	}
	if n, err := strconv.Atoi(r.mode); err == nil {
		return n
	}
	return min(50, max(1, r.prefetch/2))
}

// BenchmarkThroughput prints the table of container against a plain amqp091-go
// loop with the same acks and prefetch: each row takes turns between the two on
// one broker and reports both rates, the median of the rounds' ratios, and what
// each side cost this process in CPU time, which a busy machine disturbs least.
//
//	go test ./consumers -run '^$' -bench Throughput -benchtime 5x
//
// -benchtime is the number of rounds; BELAY_BENCH_MESSAGES sets their size.
func BenchmarkThroughput(b *testing.B) {
	b.Run("rabbitmq", func(b *testing.B) { throughput(b, realServer(b)) })
	b.Run("embedded", func(b *testing.B) { throughput(b, embeddedServer(b, broker.Config{})) })
}

func throughput(b *testing.B, s *server) {
	for _, mode := range []string{"none", "each", "multiple"} {
		for _, prefetch := range []int{1, 10, 250, 1000} {
			for _, n := range []int{1, 4} {
				for _, size := range []int{100, 1024} {
					r := row{mode, prefetch, n, size}
					b.Run(r.String(), func(b *testing.B) { compare(b, s, r) })
				}
			}
		}
	}
}

func compare(b *testing.B, s *server, r row) {
	messages := 20000
	if v := os.Getenv("BELAY_BENCH_MESSAGES"); v != "" {
		messages, _ = strconv.Atoi(v)
	}
	if r.prefetch == 1 {
		messages /= 4
	}
	queue := fmt.Sprintf("bench-%d", vhostSeq.Add(1))
	if _, err := s.ch.QueueDeclare(queue, false, false, false, false, nil); err != nil {
		b.Fatal(err)
	}
	defer s.ch.QueueDelete(queue, false, false, false)
	body := bytes.Repeat([]byte("x"), r.size)
	conn := s.dial(b)
	var raw, own time.Duration
	var ratios []float64
	var cpu [2]time.Duration
	for i := 0; b.Loop(); i++ {
		var pair [2]time.Duration
		for j := range 2 {
			b.StopTimer()
			fill(b, s, queue, messages, body)
			b.StartTimer()
			side := (i + j) % 2
			before := cpuTime()
			if side == 0 {
				pair[0] = rawLoop(b, s, queue, r, messages)
			} else {
				pair[1] = containerLoop(b, conn, queue, r, messages)
			}
			cpu[side] += cpuTime() - before
		}
		raw, own = raw+pair[0], own+pair[1]
		ratios = append(ratios, pair[0].Seconds()/pair[1].Seconds())
	}
	slices.Sort(ratios)
	total := float64(messages * len(ratios))
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(total/raw.Seconds(), "raw-msg/s")
	b.ReportMetric(total/own.Seconds(), "msg/s")
	b.ReportMetric(ratios[len(ratios)/2], "x-raw")
	b.ReportMetric(float64(cpu[0].Microseconds())/total, "raw-cpu-µs/msg")
	b.ReportMetric(float64(cpu[1].Microseconds())/total, "cpu-µs/msg")
}

// BenchmarkAckBatch shows what gathering acks brings: prefetch 250, one ack
// frame for 1, 10, 50 and 250 messages, each beside the plain loop with the
// same acks. AckBatch is at most half the prefetch, so 250 is 125 in the
// container; the plain loop does ack once for all 250.
//
//	go test ./consumers -run '^$' -bench AckBatch -benchtime 5x
func BenchmarkAckBatch(b *testing.B) {
	run := func(b *testing.B, s *server) {
		for _, n := range []int{1, 10, 50, 250} {
			b.Run(fmt.Sprint(n), func(b *testing.B) { compare(b, s, row{fmt.Sprint(n), 250, 1, 100}) })
		}
	}
	b.Run("rabbitmq", func(b *testing.B) { run(b, realServer(b)) })
	b.Run("embedded", func(b *testing.B) { run(b, embeddedServer(b, broker.Config{})) })
}

// cpuTime is what this process has used, system calls included.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// fill publishes and waits until everything is in the queue.
func fill(b *testing.B, s *server, queue string, n int, body []byte) {
	ch, err := s.admin.Channel()
	if err != nil {
		b.Fatal(err)
	}
	defer ch.Close()
	if err := ch.Confirm(false); err != nil {
		b.Fatal(err)
	}
	var last *amqp.DeferredConfirmation
	for range n {
		if last, err = ch.PublishWithDeferredConfirm("", queue, false, false, amqp.Publishing{Body: body}); err != nil {
			b.Fatal(err)
		}
	}
	last.Wait()
}

// rawLoop is what one would write without this package.
func rawLoop(b *testing.B, s *server, queue string, r row, messages int) time.Duration {
	conn, err := amqp.Dial(s.url)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	var chans []*amqp.Channel
	for range r.n {
		ch, err := conn.Channel()
		if err != nil {
			b.Fatal(err)
		}
		if err := ch.Qos(r.prefetch, 0, false); err != nil {
			b.Fatal(err)
		}
		chans = append(chans, ch)
	}
	var got atomic.Int64
	done := make(chan struct{})
	var wg sync.WaitGroup
	begin := time.Now()
	for _, ch := range chans {
		stream, err := ch.Consume(queue, "raw", false, false, false, false, nil)
		if err != nil {
			b.Fatal(err)
		}
		wg.Go(func() {
			n := 0
			for d := range stream {
				if n++; n%r.batch() == 0 {
					_ = d.Ack(r.batch() > 1)
				}
				if got.Add(1) == int64(messages) {
					_ = d.Ack(true)
					close(done)
				}
			}
		})
	}
	<-done
	took := time.Since(begin)
	for _, ch := range chans {
		_ = ch.Cancel("raw", false)
		_ = ch.Close()
	}
	wg.Wait()
	return took
}

func containerLoop(b *testing.B, conn *consumers.Conn, queue string, r row, messages int) time.Duration {
	cfg := consumers.Config{ListenerID: "bench", Queues: []string{queue}, Min: r.n, Prefetch: r.prefetch, AckBatch: r.batch()}
	if r.mode == "none" {
		cfg.AckMode = consumers.AckNone
	}
	var got atomic.Int64
	done := make(chan struct{})
	c, err := consumers.New(conn, cfg, func(context.Context, *consumers.Delivery) error {
		if got.Add(1) == int64(messages) {
			close(done)
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	// The connection is open, as it is in the raw loop.
	if ch, err := conn.ConsumeChannel(b.Context()); err == nil {
		_ = ch.Close()
	}
	begin := time.Now()
	start(b, c)
	<-done
	took := time.Since(begin)
	stop(b, c)
	closeNow(b, c)
	return took
}

// BenchmarkLifecycle prints what starting and stopping costs on each broker:
// 100 containers at once, an idle one by itself, and until the broker shows no
// consumer any more. Beside it the plain client opens a channel, sets the
// prefetch and consumes 100 times at once on one connection, and cancels and
// closes 100 times: what the protocol costs alone.
func BenchmarkLifecycle(b *testing.B) {
	b.Run("rabbitmq", func(b *testing.B) { lifecycle(b, realServer(b)) })
	b.Run("embedded", func(b *testing.B) { lifecycle(b, embeddedServer(b, broker.Config{})) })
}

func lifecycle(b *testing.B, s *server) {
	conn := s.dial(b)
	var all []*consumers.Container
	for i := range 100 {
		q := fmt.Sprintf("lifecycle-%d", i)
		s.declare(b, q, nil)
		all = append(all, container(b, conn, consumers.Config{ListenerID: q, Queues: []string{q}}, ok))
	}
	each := func(f func(*consumers.Container)) time.Duration {
		begin := time.Now()
		var wg sync.WaitGroup
		for _, c := range all {
			wg.Go(func() { f(c) })
		}
		wg.Wait()
		return time.Since(begin)
	}
	plain, err := amqp.Dial(s.url)
	if err != nil {
		b.Fatal(err)
	}
	defer plain.Close()
	var starts, stops, one, gone, rawStarts, rawStops []time.Duration
	for b.Loop() {
		up, down := rawLifecycle(b, plain, len(all))
		rawStarts, rawStops = append(rawStarts, up), append(rawStops, down)
		starts = append(starts, each(func(c *consumers.Container) { start(b, c) }))
		stops = append(stops, each(func(c *consumers.Container) { stop(b, c) }))
		start(b, all[0])
		begin := time.Now()
		stop(b, all[0])
		one = append(one, time.Since(begin))
		for s.inspect(b, "lifecycle-0").Consumers != 0 {
		}
		gone = append(gone, time.Since(begin))
	}
	b.ReportMetric(0, "ns/op")
	for name, d := range map[string][]time.Duration{
		"ms-start-100": starts, "ms-stop-100": stops, "ms-stop-idle": one, "ms-until-0-consumers": gone,
		"raw-ms-start-100": rawStarts, "raw-ms-stop-100": rawStops,
	} {
		slices.Sort(d)
		b.ReportMetric(float64(d[len(d)/2].Microseconds())/1000, name)
	}
}

// rawLifecycle is what the plain client needs for n consumers on queues
// lifecycle-0 and up.
func rawLifecycle(b *testing.B, conn *amqp.Connection, n int) (up, down time.Duration) {
	chans := make([]*amqp.Channel, n)
	each := func(f func(i int) error) time.Duration {
		begin := time.Now()
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				if err := f(i); err != nil {
					b.Error(err)
				}
			})
		}
		wg.Wait()
		return time.Since(begin)
	}
	up = each(func(i int) (err error) {
		if chans[i], err = conn.Channel(); err != nil {
			return err
		}
		if err = chans[i].Qos(250, 0, false); err != nil {
			return err
		}
		_, err = chans[i].Consume(fmt.Sprintf("lifecycle-%d", i), fmt.Sprintf("raw-%d", i), false, false, false, false, nil)
		return err
	})
	if b.Failed() {
		b.FailNow()
	}
	down = each(func(i int) error {
		if err := chans[i].Cancel(fmt.Sprintf("raw-%d", i), false); err != nil {
			return err
		}
		return chans[i].Close()
	})
	return up, down
}
