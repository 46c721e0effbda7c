package broker_test

import (
	"bytes"
	"encoding/binary"
	"net"
	"runtime"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/belay-mq/belay/consumers/broker"
)

// wellServed checks that the broker serves others as if nothing had happened.
func wellServed(t *testing.T, s *server) {
	t.Helper()
	ch := s.channel(t)
	q := s.queue(t, ch, nil)
	publish(t, ch, q, "fine")
	receive(t, consume(t, ch, q, nil)).Ack(false)
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// wantHeap fails when the heap has grown by more than bound bytes.
func wantHeap(t *testing.T, before uint64, bound int64) {
	t.Helper()
	if grown := int64(heap()) - int64(before); grown > bound {
		t.Fatalf("the heap has grown by %d bytes, more than %d", grown, bound)
	}
}

func TestHostileHandshakes(t *testing.T) {
	b, s := embedded(t, broker.Config{})
	for _, send := range [][]byte{
		nil, []byte("A"), []byte("GET / HTTP/1.1\r\n\r\n"), []byte("AMQP\x00\x01\x00\x00"),
		join([]byte("AMQP\x00\x00\x09\x01"), methodFrame(0, 10, 11, 255, 255, 255, 255)),
		join([]byte("AMQP\x00\x00\x09\x01"), methodFrame(0, 10, 40)),
		join([]byte("AMQP\x00\x00\x09\x01"), declareRaw(1, "q")),
		join([]byte("AMQP\x00\x00\x09\x01"), []byte{1, 0, 0, 255, 255, 255, 255}),
	} {
		c, err := net.Dial("tcp", b.Addr())
		if err != nil {
			t.Fatal(err)
		}
		write(t, c, send)
		c.Close()
	}
	wellServed(t, s)
}

// Half a frame, however large it says it will be, costs nothing.
func TestHalfFrames(t *testing.T) {
	b, s := embedded(t, broker.Config{})
	before := heap()
	for range 50 {
		c := rawConnect(t, b, 0)
		write(t, c, []byte{3, 0, 1, 0, 1, 255, 248}) // 128 KiB, of which nothing comes
	}
	wantHeap(t, before, 16<<20)
	wellServed(t, s)
}

// A header that announces a huge body is refused; one that announces a large
// body reserves nothing; bodies that never end are bounded together.
func TestUnfinishedContents(t *testing.T) {
	b, s := embedded(t, broker.Config{MaxMessage: 1 << 20})
	conn := s.connect(t)
	ch := open(t, conn)
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	go ch.PublishWithContext(t.Context(), "", "q", false, false, amqp.Publishing{Body: make([]byte, 1<<20+1)})
	wantReply(t, waitClosed(t, closed), 406, "PRECONDITION_FAILED - message size 1048577 is larger than configured max size 1048576")

	c := rawConnect(t, b, 0)
	for id := range uint16(20) {
		if id > 0 {
			write(t, c, methodFrame(id+1, 20, 10, 0))
			expectMethod(t, c, 20, 11)
		}
	}
	go func() {
		for id := range uint16(20) {
			c.SetWriteDeadline(time.Now().Add(patience))
			c.Write(publishRaw(id+1, "q", 1<<20, make([]byte, 100_000)))
		}
	}()
	if code := expectClose(t, c); code != 506 {
		t.Fatalf("closed with %d", code)
	}
	wellServed(t, s)
}

// A client that consumes without prefetch and never reads gets its outbox
// full, and no more.
func TestClientThatNeverReads(t *testing.T) {
	b, s := embedded(t, broker.Config{MaxOutput: 256 << 10})
	ch := s.channel(t)
	q := s.queue(t, ch, nil)
	c := rawConnect(t, b, 0)
	write(t, c, methodFrame(1, 60, 20, join([]byte{0, 0}, short(q), short("deaf"), []byte{0b0010}, make([]byte, 4))...))
	expectMethod(t, c, 60, 21)
	body := make([]byte, 10_000)
	const n = 3000
	for range n {
		if err := ch.PublishWithContext(t.Context(), "", q, false, false, amqp.Publishing{Body: body}); err != nil {
			t.Fatal(err)
		}
	}
	var left int
	for range 100 { // until it has stopped
		st, err := ch.QueueDeclarePassive(q, true, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		if left == st.Messages && left > 0 {
			break
		}
		left = st.Messages
		time.Sleep(50 * time.Millisecond)
	}
	if left < n/4 {
		t.Fatalf("only %d of %d messages are still in the queue", left, n)
	}
	// It reads after all, and gets the rest.
	go func() {
		buf := make([]byte, 64<<10)
		for {
			if _, err := c.Read(buf); err != nil {
				return
			}
		}
	}()
	c.SetReadDeadline(time.Time{})
	wantReady(t, ch, q, 0, 1)
}

// A client that asks and never reads the answers is not read from any more.
func TestClientThatOnlyAsks(t *testing.T) {
	b, s := embedded(t, broker.Config{MaxOutput: 64 << 10})
	c := rawConnect(t, b, 0)
	before := heap()
	ask := bytes.Repeat(methodFrame(1, 60, 10, 0, 0, 0, 0, 0, 1, 0), 1000)
	c.SetWriteDeadline(time.Now().Add(time.Second))
	sent := 0
	for sent < 256<<20 {
		n, err := c.Write(ask)
		sent += n
		if err != nil {
			break
		}
	}
	if sent >= 256<<20 {
		t.Fatal("it was read from for ever")
	}
	wantHeap(t, before, 32<<20)
	wellServed(t, s)
}

// Deliveries that are never acknowledged but for the newest: what the broker
// keeps for the channel stays in proportion to what is pending.
func TestNeverAcksTheFirst(t *testing.T) {
	_, s := embedded(t, broker.Config{})
	ch := s.channel(t)
	q := s.queue(t, ch, nil)
	ch.Qos(2, 0, false)
	d := consume(t, ch, q, nil)
	publish(t, ch, q, "held")
	receive(t, d)
	before := heap()
	pub := s.channel(t)
	for range 20_000 {
		publish(t, pub, q, "x")
		receive(t, d).Ack(false)
	}
	wantHeap(t, before, 8<<20)
}

func TestTooManyConnectionsAndQueues(t *testing.T) {
	b, s := embedded(t, broker.Config{MaxConnections: 3, MaxQueues: 2, MaxChannels: 2})
	conn := s.connect(t)
	ch := open(t, conn)
	for _, name := range []string{"a", "b"} {
		if _, err := ch.QueueDeclare(name, false, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
	}
	_, err := ch.QueueDeclare("c", false, false, false, false, nil)
	wantReply(t, err, 506, "RESOURCE_ERROR - cannot declare queue 'c': queue limit in vhost '/' (2) is reached")

	for len(b.Connections()) > 0 { // that one was closed
		time.Sleep(time.Millisecond)
	}
	for range 3 {
		s.connect(t)
	}
	if _, err := amqp.Dial(b.URL()); err == nil {
		t.Fatal("one connection too many")
	}

	b2 := listen(t, broker.Config{MaxChannels: 2})
	c := rawConnectMax(t, b2, 2)
	write(t, c, methodFrame(2, 20, 10, 0))
	expectMethod(t, c, 20, 11)
	write(t, c, methodFrame(3, 20, 10, 0))
	if code := expectClose(t, c); code != 530 {
		t.Fatalf("closed with %d", code)
	}
}

// A table nested without end is an error, not a crash.
func TestNestedTable(t *testing.T) {
	b, s := embedded(t, broker.Config{})
	table := []byte{0, 0, 0, 0}
	for range 10_000 {
		inner := join([]byte{1, 'k', 'F'}, table)
		table = append(binary.BigEndian.AppendUint32(nil, uint32(len(inner))), inner...)
		if len(table) > 100_000 {
			break
		}
	}
	c := rawConnect(t, b, 0)
	write(t, c, methodFrame(1, 50, 10, join([]byte{0, 0}, short("q"), []byte{0}, table)...))
	if code := expectClose(t, c); code != 501 {
		t.Fatalf("closed with %d", code)
	}
	wellServed(t, s)
}
