package consumers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Conn is a process's access to one broker: a TCP connection for consuming and
// one for publishing, so that a broker alarm, which blocks publishers, does not
// hold back acks. Both are opened when first asked for and reopened, with
// back-off, for as long as somebody waits for them. A Conn serves any number of
// containers; its methods are safe for concurrent use.
type Conn struct {
	ep      *endpoint
	consume *link
	publish *link

	mu        sync.Mutex
	callbacks map[int]func()
	nextID    int
}

// Dial checks cfg and returns a Conn. It does not wait for the broker, which
// may come up later; a wrong URL or an unreadable TLS file is an error
// ([*ConfigError], or one that wraps the file's). The context bounds nothing
// but the check. Close the Conn when it is no longer needed.
func Dial(ctx context.Context, cfg ConnConfig) (*Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ep, err := cfg.check()
	if err != nil {
		return nil, err
	}
	c := &Conn{ep: ep, callbacks: map[int]func(){}}
	c.consume = newLink(ep, "consuming", c.notify)
	c.publish = newLink(ep, "publishing", c.notify)
	return c, nil
}

// heartbeatOf returns the heartbeat of an address that sets one; the parsed
// form of the client hides it.
func heartbeatOf(raw string) (time.Duration, bool) {
	u, err := url.Parse(raw)
	if err != nil {
		return 0, false
	}
	n, err := strconv.Atoi(u.Query().Get("heartbeat"))
	return time.Duration(n) * time.Second, err == nil
}

// App returns the application's name.
func (c *Conn) App() string { return c.ep.App }

// Instance returns the name of this process: host:pid:random unless configured.
func (c *Conn) Instance() string { return c.ep.Instance }

// Host returns the name of this machine.
func (c *Conn) Host() string { return c.ep.host }

// String returns the broker's address without password.
func (c *Conn) String() string { return c.ep.shown }

// ConsumeChannel opens a new channel on the consuming connection. It waits for
// a connection until ctx ends. The caller closes the channel; when the
// connection is lost the channel is closed and a new one must be asked for.
func (c *Conn) ConsumeChannel(ctx context.Context) (*amqp.Channel, error) {
	return unwrapChannel(c.consume.channel(ctx))
}

// PublishChannel opens a new channel on the publishing connection; otherwise it
// is [Conn.ConsumeChannel].
func (c *Conn) PublishChannel(ctx context.Context) (*amqp.Channel, error) {
	return unwrapChannel(c.publish.channel(ctx))
}

func unwrapChannel(ch *channel, err error) (*amqp.Channel, error) {
	if err != nil {
		return nil, err
	}
	return ch.Channel, nil
}

// Blocked reports whether the broker holds back publishers (memory or disk
// alarm). RabbitMQ tells only a connection that publishes, so it is known once
// something was published on the publishing connection.
func (c *Conn) Blocked() bool { return c.publish.health().Blocked }

// Health says how the connections of a [Conn] fare.
type Health struct {
	// Connected is true when every connection that was asked for is open.
	Connected bool
	// Since is when Connected last changed; zero before the first attempt.
	Since time.Time
	// Attempts counts failed attempts since the last healthy connection.
	Attempts int
	// NextTry is the time of the next attempt; zero when none is planned.
	NextTry time.Time
	// LastError is why it is not connected; "" when it is.
	LastError string
	// Refused is true when the broker refused the login or the vhost.
	Refused bool
	// Blocked is [Conn.Blocked].
	Blocked bool
}

// Health returns how the connections fare. Where both are in use it describes
// the one that is worse off.
func (c *Conn) Health() Health {
	a, b := c.consume.health(), c.publish.health()
	switch blocked := a.Blocked || b.Blocked; {
	case !c.publish.asked(), c.consume.asked() && !a.Connected, c.consume.asked() && b.Connected:
		a.Blocked = blocked
		return a
	default:
		b.Blocked = blocked
		return b
	}
}

// OnChange registers a function to be called after every change of Health. It
// is called without locks held, by the goroutine that noticed the change, and
// must not block. A panic in it is logged. Functions cannot be removed.
func (c *Conn) OnChange(f func()) { c.watch(f) }

// watch is OnChange that can be undone.
func (c *Conn) watch(f func()) (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := c.nextID
	c.nextID++
	c.callbacks[id] = f
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.callbacks, id)
	}
}

func (c *Conn) notify() {
	c.mu.Lock()
	all := slices.Collect(maps.Values(c.callbacks))
	c.mu.Unlock()
	tell(c.ep.Logger, all)
}

// Close closes both connections, waits for their goroutines until ctx ends and
// returns what could not be finished. Close containers first: what they hold is
// given back only by them. Closing twice is allowed.
func (c *Conn) Close(ctx context.Context) error {
	var wg sync.WaitGroup
	var errs [2]error
	for i, l := range []*link{c.consume, c.publish} {
		wg.Go(func() { errs[i] = l.close(ctx) })
	}
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return fmt.Errorf("closing the connections to %s: %w", c.ep.shown, err)
	}
	return nil
}
