package consumers

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Frames and methods of AMQP 0-9-1 that the tap knows.
const (
	frameHeader  = 7 // type, channel, size
	frameExtra   = frameHeader + 1
	frameEnd     = 0xCE
	typeMethod   = 1
	typeHeader   = 2
	typeBody     = 3
	basicDeliver = 60<<16 | 60
	maxFrame     = 128 << 10
)

// heartbeat is an empty frame that says that the peer is alive.
var heartbeat = []byte{8, 0, 0, 0, 0, 0, 0, frameEnd}

// tap sits between the socket and the client and takes the deliveries of our
// own consumers out of the stream, so that they reach the inbox of their worker
// many at a time. The client hands each one through two goroutines, which costs
// more than everything else that happens to a small message. All other frames
// pass through untouched; the client still makes every request, and knows of
// every consumer, but sees none of their deliveries.
//
// Read is called by the client's reader alone. Subscriptions may be changed at
// any time: a delivery whose consumer tag is not (or no longer) tapped passes.
type tap struct {
	in   *bufio.Reader
	pass int    // bytes of the present frame that are still to pass
	own  []byte // bytes of ours that go first
	beat time.Time
	open map[uint16]*content // deliveries taken, not yet complete
	full []*consumer         // consumers with something in staged

	mu   sync.Mutex
	tags map[string]*subscription
}

// subscription is one consumer tag.
type subscription struct {
	consumer *consumer
	queue    string
	tag      string

	// The newest routing, of which most messages of a queue share one. Used by
	// the reader alone.
	exchange, key string
}

// content is a delivery under way.
type content struct {
	sub  *subscription
	d    *Delivery
	left uint64 // bytes of the body to come
	head bool   // the header is there
}

func newTap(r io.Reader) *tap {
	return &tap{in: bufio.NewReaderSize(r, maxFrame+frameExtra), open: map[uint16]*content{}, tags: map[string]*subscription{}}
}

// subscribe takes the deliveries for tag from now on.
func (t *tap) subscribe(tag, queue string, s *consumer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tags[tag] = &subscription{consumer: s, queue: queue, tag: tag}
}

func (t *tap) unsubscribe(tag string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.tags, tag)
}

// Read implements io.Reader for the client: what remains of the stream. What
// was taken is handed over before it returns, and before it waits.
func (t *tap) Read(p []byte) (int, error) {
	defer t.handOver()
	for t.pass == 0 && len(t.own) == 0 {
		if err := t.frame(); err != nil {
			return 0, err
		}
	}
	if len(t.own) > 0 {
		n := copy(p, t.own)
		t.own = t.own[n:]
		return n, nil
	}
	n, err := t.in.Read(p[:min(len(p), t.pass)])
	t.pass -= n
	return n, err
}

// peek returns the next n bytes without taking them.
func (t *tap) peek(n int) ([]byte, error) {
	if t.in.Buffered() < n {
		t.handOver()
	}
	p, err := t.in.Peek(n)
	if err == io.EOF && len(p) > 0 {
		err = io.ErrUnexpectedEOF
	}
	return p, err
}

// frame looks at the next frame and takes it, or sets pass.
func (t *tap) frame() error {
	h, err := t.peek(frameHeader)
	if err != nil {
		return err
	}
	kind, channel, size := h[0], binary.BigEndian.Uint16(h[1:]), binary.BigEndian.Uint32(h[3:])
	if size > maxFrame {
		t.pass = frameHeader // the client refuses it
		return nil
	}
	t.pass = int(size) + frameExtra
	c := t.open[channel]
	switch {
	case kind == typeMethod && size >= 4:
		delete(t.open, channel) // content that a method cuts off never ends
		if h, err = t.peek(frameHeader + 4); err != nil {
			return err
		}
		if binary.BigEndian.Uint32(h[frameHeader:]) != basicDeliver {
			return nil
		}
	case c != nil && (kind == typeHeader || kind == typeBody):
	default:
		return nil
	}
	f, err := t.peek(t.pass)
	if err != nil {
		return err
	}
	if f[len(f)-1] != frameEnd {
		return nil // the client refuses it
	}
	taken, err := t.take(kind, channel, c, decoder{b: f[frameHeader : len(f)-1]})
	if err != nil {
		return fmt.Errorf("%w: frame type %d on channel %d", err, kind, channel)
	}
	if taken {
		_, _ = t.in.Discard(t.pass)
		t.pass = 0
		t.alive()
	}
	return nil
}

// take decodes one frame of a delivery; false lets it pass.
func (t *tap) take(kind byte, channel uint16, c *content, in decoder) (bool, error) {
	switch kind {
	case typeMethod:
		in.take(4)
		sub := t.lookup(in.short())
		if sub == nil {
			return false, nil
		}
		c = &content{sub: sub, d: sub.delivery(&in)}
		t.open[channel] = c
	case typeHeader:
		in.take(4) // class and weight
		c.left, c.head = in.u64(), true
		in.properties(&c.d.Delivery)
		c.d.Body = make([]byte, 0, min(c.left, maxFrame))
	case typeBody:
		if !c.head || uint64(len(in.b)) > c.left {
			return false, errMalformed
		}
		c.d.Body = append(c.d.Body, in.b...)
		c.left -= uint64(len(in.b))
	}
	if in.bad {
		return false, errMalformed
	}
	if c != nil && c.head && c.left == 0 {
		delete(t.open, channel)
		t.stage(c)
	}
	return true, nil
}

func (t *tap) lookup(tag []byte) *subscription {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tags[string(tag)]
}

// delivery reads the rest of a basic.deliver.
func (s *subscription) delivery(in *decoder) *Delivery {
	d := &Delivery{Queue: s.queue, consumer: s.consumer}
	d.Acknowledger = guard{s.consumer}
	d.ConsumerTag = s.tag
	d.DeliveryTag = in.u64()
	d.Redelivered = in.u8() != 0
	if x := in.short(); string(x) != s.exchange {
		s.exchange = string(x)
	}
	if k := in.short(); string(k) != s.key {
		s.key = string(k)
	}
	d.Exchange, d.RoutingKey = s.exchange, s.key
	return d
}

func (t *tap) stage(c *content) {
	s := c.sub.consumer
	if len(s.staged) == 0 {
		t.full = append(t.full, s)
	}
	s.staged = append(s.staged, c.d)
}

// handOver puts what was taken into the inboxes.
func (t *tap) handOver() {
	for i, s := range t.full {
		s.receive(s.staged)
		clear(s.staged)
		s.staged = s.staged[:0]
		t.full[i] = nil
	}
	t.full = t.full[:0]
}

// alive lets the client see a heartbeat now and then: it gives up a peer of
// which it sees nothing, and a busy broker sends none.
func (t *tap) alive() {
	if now := time.Now(); now.Sub(t.beat) > time.Second/4 {
		t.beat = now
		t.own = heartbeat
	}
}

var _ amqp.Acknowledger = guard{}
