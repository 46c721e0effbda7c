package broker_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.uber.org/goleak"

	"github.com/belay-mq/belay/consumers/broker"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func embedded(t testing.TB, cfg broker.Config) (*broker.Broker, *server) {
	t.Helper()
	b := listen(t, cfg)
	return b, &server{url: b.URL(), dial: amqp.DialConfig}
}

func waitClosed(t testing.TB, c <-chan *amqp.Error) *amqp.Error {
	t.Helper()
	select {
	case err := <-c:
		return err
	case <-time.After(patience):
		t.Fatal("still open")
		return nil
	}
}

func TestKill(t *testing.T) {
	b, s := embedded(t, broker.Config{})
	c1, c2 := s.connect(t), s.connect(t)
	ch := open(t, c1)
	q := s.queue(t, ch, nil)
	publish(t, ch, q, "x")
	receive(t, consume(t, ch, q, nil))
	infos := b.Connections()
	if len(infos) < 2 || infos[0].User != "guest" || infos[0].Vhost != "/" || infos[0].Channels != 1 {
		t.Fatalf("connections %+v", infos)
	}
	closed := c1.NotifyClose(make(chan *amqp.Error, 1))
	if !b.Kill(infos[0].ID) {
		t.Fatal("no such connection")
	}
	waitClosed(t, closed)
	wantReady(t, open(t, c2), q, 1, 0)
	if b.Kill(9999) {
		t.Fatal("killed a connection that is not there")
	}
	closed = c2.NotifyClose(make(chan *amqp.Error, 1))
	b.KillAll()
	waitClosed(t, closed)
}

func TestFreeze(t *testing.T) {
	b, s := embedded(t, broker.Config{})
	conn := s.connect(t)
	ch := open(t, conn)
	q := s.queue(t, ch, nil)
	b.Freeze()
	answered := make(chan error, 1)
	go func() {
		_, err := ch.QueueDeclarePassive(q, true, false, false, false, nil)
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Fatal("a frozen broker answered", err)
	case <-time.After(200 * time.Millisecond):
	}
	if conn.IsClosed() {
		t.Fatal("the socket is closed")
	}
	b.Thaw()
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
}

func TestDropReply(t *testing.T) {
	b, s := embedded(t, broker.Config{})
	conn := s.connect(t)
	ch := open(t, conn)
	q := s.queue(t, ch, nil)
	if _, err := ch.Consume(q, "c", false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	b.DropReply("basic.cancel-ok", 1)
	answered := make(chan error, 1)
	go func() { answered <- ch.Cancel("c", false) }()
	wantReady(t, open(t, conn), q, 0, 0) // it was carried out
	select {
	case err := <-answered:
		t.Fatal("answered", err)
	case <-time.After(100 * time.Millisecond):
	}
	ch2 := open(t, conn)
	if _, err := ch2.Consume(q, "d", false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := ch2.Cancel("d", false); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	<-answered
}

func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, s := piped(t, broker.Config{})
		ch := s.channel(t)
		b.Delay(time.Second)
		start := time.Now()
		if err := ch.Qos(1, 0, false); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < time.Second || took > 2*time.Second {
			t.Fatalf("took %v", took)
		}
		b.Delay(0)
	})
}

func piped(t testing.TB, cfg broker.Config) (*broker.Broker, *server) {
	t.Helper()
	b, err := broker.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(t, b) })
	return b, &server{url: b.URL(), dial: func(url string, cfg amqp.Config) (*amqp.Connection, error) {
		cfg.Dial = b.Dial
		return amqp.DialConfig(url, cfg)
	}}
}

func TestBlock(t *testing.T) {
	b, s := embedded(t, broker.Config{})
	pub, quiet := s.connect(t), s.connect(t)
	blocked := pub.NotifyBlocked(make(chan amqp.Blocking, 2))
	quietBlocked := quiet.NotifyBlocked(make(chan amqp.Blocking, 2))
	ch := open(t, pub)
	q := s.queue(t, ch, nil)
	publish(t, ch, q, "before")
	d := consume(t, open(t, quiet), q, nil)
	receive(t, d).Ack(false)
	b.Block("disk is full")
	if _, err := ch.QueueDeclarePassive(q, true, false, false, false, nil); err != nil {
		t.Fatal(err) // not held back before it publishes
	}
	publish(t, ch, q, "during")
	if n := <-blocked; !n.Active || n.Reason != "disk is full" {
		t.Fatalf("notice %+v", n)
	}
	none(t, d)
	if _, err := open(t, quiet).QueueDeclarePassive(q, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	b.Unblock()
	if n := <-blocked; n.Active {
		t.Fatalf("notice %+v", n)
	}
	if m := receive(t, d); string(m.Body) != "during" {
		t.Fatalf("got %q", m.Body)
	}
	select {
	case n := <-quietBlocked:
		t.Fatalf("a connection that does not publish was told %+v", n)
	default:
	}
}

// Publishers are held back when too much is queued, and go on when consumers
// have made room.
func TestMemoryAlarm(t *testing.T) {
	b, s := embedded(t, broker.Config{MaxMemory: 1 << 20})
	pub := s.connect(t)
	blocked := pub.NotifyBlocked(make(chan amqp.Blocking, 100))
	ch := open(t, pub)
	q := s.queue(t, ch, nil)
	sent := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for range 400 {
			if err := ch.PublishWithContext(ctx, "", q, false, false, amqp.Publishing{Body: make([]byte, 10_000)}); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	if n := <-blocked; !n.Active {
		t.Fatalf("notice %+v", n)
	}
	if used := b.Memory(); used > 2<<20 {
		t.Fatalf("%d bytes held with a limit of 1 MiB", used)
	}
	d := consume(t, s.channel(t), q, nil)
	for range 400 {
		receive(t, d).Ack(false)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	wantReady(t, s.channel(t), q, 0, 1)
	for end := time.Now().Add(5 * time.Second); b.Memory() != 0; time.Sleep(time.Millisecond) { // the last acks are on their way
		if time.Now().After(end) {
			t.Fatalf("%d bytes held by nothing", b.Memory())
		}
	}
}

func TestCancelConsumer(t *testing.T) {
	b, s := embedded(t, broker.Config{})
	ch := s.channel(t)
	q := s.queue(t, ch, nil)
	gone := ch.NotifyCancel(make(chan string, 1))
	if _, err := ch.Consume(q, "c", false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if b.CancelConsumer("/", q, "other") || b.CancelConsumer("nope", q, "") || !b.CancelConsumer("/", q, "") {
		t.Fatal("cancelled the wrong ones")
	}
	if tag := <-gone; tag != "c" {
		t.Fatalf("tag %q", tag)
	}
	wantReady(t, s.channel(t), q, 0, 0)
}

func TestStopAndRestart(t *testing.T) {
	b, s := embedded(t, broker.Config{})
	conn := s.connect(t)
	ch := open(t, conn)
	q := s.queue(t, ch, nil)
	ch.Confirm(false)
	for _, mode := range []uint8{2, 1, 2} {
		c, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), "", q, false, false, amqp.Publishing{DeliveryMode: mode, Body: []byte{mode}})
		if err != nil || !c.Wait() {
			t.Fatal(err)
		}
	}
	if _, err := ch.QueueDeclare("transient", false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ch.Get(q, false); err != nil { // unacknowledged when it stops
		t.Fatal(err)
	}
	closed := conn.NotifyClose(make(chan *amqp.Error, 1))
	if err := b.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	waitClosed(t, closed)
	if _, err := amqp.Dial(b.URL()); err == nil {
		t.Fatal("a stopped broker took a connection")
	}
	if _, err := b.Dial("", ""); !errors.Is(err, broker.ErrStopped) {
		t.Fatal(err)
	}
	addr := b.Addr()
	if err := b.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if b.Addr() != addr {
		t.Fatalf("address %s became %s", addr, b.Addr())
	}
	ch = s.channel(t)
	wantReady(t, ch, q, 2, 0)
	m, _, err := ch.Get(q, true)
	if err != nil || !m.Redelivered {
		t.Fatal(err, m.Redelivered)
	}
	_, err = ch.QueueDeclarePassive("transient", false, false, false, false, nil)
	wantReply(t, err, 404, "")
}

// TestDeliverAfterCancel reads the frames: the client hides what comes after a
// cancel.
func TestDeliverAfterCancel(t *testing.T) {
	for _, after := range []time.Duration{0, 20 * time.Millisecond} {
		b, s := embedded(t, broker.Config{})
		admin := open(t, s.connect(t))
		q := s.queue(t, admin, nil)
		b.DeliverAfterCancel(1, after)
		for _, id := range []string{"1", "2", "3"} {
			publish(t, admin, q, id)
		}
		b.DeliverAfterCancel(1, after)
		c := rawConnect(t, b, 0)
		write(t, c, methodFrame(1, 60, 10, 0, 0, 0, 0, 0, 1, 0)) // prefetch 1
		expectMethod(t, c, 60, 11)
		write(t, c, methodFrame(1, 60, 20, join([]byte{0, 0}, short(q), short("tag"), []byte{0}, []byte{0, 0, 0, 0})...))
		expectMethod(t, c, 60, 21)
		expectMethod(t, c, 60, 60)
		readFrame(t, c) // header
		readFrame(t, c) // body
		write(t, c, methodFrame(1, 60, 30, join(short("tag"), []byte{0})...))
		expectMethod(t, c, 60, 31)
		expectMethod(t, c, 60, 60)
		wantReady(t, admin, q, 1, 0)
		c.Close()
		wantReady(t, admin, q, 3, 0)
	}
}

func TestConsumerTimeout(t *testing.T) {
	_, s := embedded(t, broker.Config{ConsumerTimeout: 100 * time.Millisecond})
	conn := s.connect(t)
	ch := open(t, conn)
	q := s.queue(t, ch, nil)
	publish(t, ch, q, "x")
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	receive(t, consume(t, ch, q, nil))
	wantReply(t, waitClosed(t, closed), 406, "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: 100 ms. This timeout value can be configured, see consumers doc guide to learn more")
	wantReady(t, open(t, conn), q, 1, 0)
}

func TestHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, s := piped(t, broker.Config{})
		conn := s.connect(t) // 10 s
		time.Sleep(5 * time.Minute)
		if conn.IsClosed() {
			t.Fatal("an idle connection with heartbeats was closed")
		}
		b.Freeze()
		time.Sleep(time.Minute)
		if !conn.IsClosed() {
			t.Fatal("the client did not miss the heartbeats")
		}
		b.Thaw()
	})
}

// A client that sends nothing for two heartbeats is dropped.
func TestSilentClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := piped(t, broker.Config{})
		c := rawConnect(t, b, 10)
		c.SetReadDeadline(time.Time{})
		go func() {
			buf := make([]byte, 1024)
			for {
				if _, err := c.Read(buf); err != nil {
					return
				}
			}
		}()
		time.Sleep(15 * time.Second)
		if len(b.Connections()) != 1 {
			t.Fatal("dropped too early")
		}
		time.Sleep(15 * time.Second)
		if len(b.Connections()) != 0 {
			t.Fatal("a silent client is still there")
		}
	})
}

func TestLogin(t *testing.T) {
	b, _ := embedded(t, broker.Config{
		Users: []broker.User{
			{Name: "guest", Password: "guest"},
			{Name: "reader", Password: "r", Permissions: map[string]broker.Permissions{"/": {Read: "^public"}}},
		},
		Vhosts: []string{"/", "other"},
	})
	dial := func(user, vhost string) error {
		c, err := amqp.Dial("amqp://" + user + "@" + b.Addr() + "/" + vhost)
		if err == nil {
			c.Close()
		}
		return err
	}
	wantReply(t, dial("guest:wrong", "%2f"), 403, "username or password not allowed")
	wantReply(t, dial("nobody:guest", "%2f"), 403, "username or password not allowed")
	wantReply(t, dial("guest:guest", "nope"), 530, "NOT_ALLOWED - vhost nope not found")
	wantReply(t, dial("reader:r", "other"), 530, "NOT_ALLOWED - access to vhost 'other' refused for user 'reader'")
	if err := dial("guest:guest", "other"); err != nil {
		t.Fatal(err)
	}

	guest := &server{url: b.URL(), dial: amqp.DialConfig}
	for _, q := range []string{"public.q", "private.q"} {
		if _, err := guest.channel(t).QueueDeclare(q, true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
	}
	s := &server{url: "amqp://reader:r@" + b.Addr() + "/", dial: amqp.DialConfig}
	if _, err := s.channel(t).Consume("public.q", "", false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	_, err := s.channel(t).Consume("private.q", "", false, false, false, false, nil)
	wantReply(t, err, 403, "ACCESS_REFUSED - access to queue 'private.q' in vhost '/' refused for user 'reader'")
	_, err = s.channel(t).QueueDeclare("public.new", true, false, false, false, nil)
	wantReply(t, err, 403, "ACCESS_REFUSED - access to queue 'public.new' in vhost '/' refused for user 'reader'")
	ch := s.channel(t)
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	ch.PublishWithContext(t.Context(), "", "public.q", false, false, amqp.Publishing{})
	wantReply(t, waitClosed(t, closed), 403, "ACCESS_REFUSED - access to exchange 'amq.default' in vhost '/' refused for user 'reader'")

	if err := b.SetUser(broker.User{Name: "guest", Password: "new"}); err != nil {
		t.Fatal(err)
	}
	if err := dial("guest:new", "%2f"); err != nil {
		t.Fatal(err)
	}
}

func TestPolicies(t *testing.T) {
	b, s := embedded(t, broker.Config{})
	ch := s.channel(t)
	q := s.queue(t, ch, amqp.Table{"x-max-length": int32(5)})
	if err := b.SetPolicy("/", broker.Policy{Name: "p", Pattern: "^test", Definition: broker.Table{"max-length": int64(3)}}); err != nil {
		t.Fatal(err)
	}
	publish(t, ch, q, "1", "2", "3", "4", "5", "6")
	wantReady(t, ch, q, 3, 0)
	if err := b.SetPolicy("/", broker.Policy{Name: "p", Pattern: "^other"}); err != nil {
		t.Fatal(err)
	}
	publish(t, ch, q, "1", "2", "3", "4", "5", "6")
	wantReady(t, ch, q, 5, 0)
	if b.SetPolicy("/", broker.Policy{Name: "bad", Pattern: "("}) == nil || b.SetPolicy("nope", broker.Policy{Pattern: "x"}) == nil {
		t.Fatal("took a bad policy")
	}
}

// The option of RabbitMQ 4.3: a nack does not count, a reject does.
func TestNackKeepsCount(t *testing.T) {
	_, s := embedded(t, broker.Config{NackKeepsCount: true, DefaultDeliveryLimit: 2})
	ch := s.channel(t)
	q := s.queue(t, ch, quorum)
	d := consume(t, ch, q, nil)
	publish(t, ch, q, "x")
	for range 10 {
		receive(t, d).Nack(false, true)
	}
	for range 3 {
		receive(t, d).Reject(true)
	}
	none(t, d)
	wantReady(t, ch, q, 0, 1)
}
