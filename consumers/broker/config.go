package broker

import (
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"time"
)

// Config configures a broker. The zero value is a broker on a free loopback
// port with the user guest/guest and the vhost "/".
type Config struct {
	// Addr is the address to listen on. Default "127.0.0.1:0": loopback, a
	// free port. New ignores it.
	Addr string

	// ConsumerTimeout closes the channel of a consumer that holds a delivery
	// unacknowledged for longer. Default 30 minutes; negative: never.
	ConsumerTimeout time.Duration

	// DefaultDeliveryLimit holds for quorum queues that set none. Default 0:
	// no limit, as in RabbitMQ 3.x; RabbitMQ 4 has 20.
	DefaultDeliveryLimit int

	// Heartbeat is proposed to clients, in whole seconds. Default 60 s.
	Heartbeat time.Duration

	// Logger takes the broker's log. Default: nothing is logged.
	Logger *slog.Logger

	// ManagementAddr is the address of the management API. Default empty: it
	// is not served.
	ManagementAddr string

	// MaxChannels of one connection. Default 2047.
	MaxChannels int

	// MaxConnections are accepted at once. Default 4096.
	MaxConnections int

	// MaxFrame is the largest frame, in bytes. Default 131072.
	MaxFrame int

	// MaxMemory is how many bytes of messages are held before publishers are
	// blocked. Default 256 MiB.
	MaxMemory int64

	// MaxMessage is the largest message body, in bytes, and also bounds what
	// one connection may have unfinished. Default 16 MiB.
	MaxMessage int

	// MaxOutput is how many bytes may wait to be written to one connection
	// before it gets no more deliveries. Default 1 MiB.
	MaxOutput int

	// MaxQueues of one vhost, and as many exchanges; ten times as many
	// bindings, and as many consumers on one connection. Default 100,000.
	MaxQueues int

	// NackKeepsCount makes a quorum queue's delivery count grow by
	// basic.reject and lost channels only, as from RabbitMQ 4.3. Default:
	// basic.nack counts too, as in 3.10.8.
	NackKeepsCount bool

	// Policies in force from the start.
	Policies []VhostPolicy

	// StatsInterval is how old the management API's numbers may be, and the
	// step of its finest samples. Default 5 s.
	StatsInterval time.Duration

	// Users who may log in. Default guest/guest, an administrator. The first
	// one is in URL.
	Users []User

	// Version is told to clients. Default "3.10.8".
	Version string

	// Vhosts that exist. Default "/". The first one is in URL.
	Vhosts []string
}

// VhostPolicy is a policy and the vhost that it holds in.
type VhostPolicy struct {
	Vhost string
	Policy
}

func (c Config) withDefaults() Config {
	c.Addr = orDefault(c.Addr, "127.0.0.1:0")
	c.ConsumerTimeout = orDefault(c.ConsumerTimeout, 30*time.Minute)
	c.Heartbeat = orDefault(c.Heartbeat, time.Minute)
	c.Logger = orDefault(c.Logger, slog.New(slog.DiscardHandler)).With("component", "broker")
	c.MaxChannels = orDefault(c.MaxChannels, 2047)
	c.MaxConnections = orDefault(c.MaxConnections, 4096)
	c.MaxFrame = orDefault(c.MaxFrame, 128<<10)
	c.MaxMemory = orDefault(c.MaxMemory, 256<<20)
	c.MaxMessage = orDefault(c.MaxMessage, 16<<20)
	c.MaxOutput = orDefault(c.MaxOutput, 1<<20)
	c.MaxQueues = orDefault(c.MaxQueues, 100_000)
	c.StatsInterval = orDefault(c.StatsInterval, 5*time.Second)
	c.Version = orDefault(c.Version, "3.10.8")
	if len(c.Users) == 0 {
		c.Users = []User{{Name: "guest", Password: "guest"}}
	}
	if len(c.Vhosts) == 0 {
		c.Vhosts = []string{"/"}
	}
	return c
}

func orDefault[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// SetUser adds a user, or changes one: connections that are open stay.
func (b *Broker) SetUser(u User) error {
	compiled, err := compileUser(u)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.users[u.Name] = compiled
	return nil
}

// AddVhost adds a vhost unless it is there.
func (b *Broker) AddVhost(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.vhosts[name] == nil {
		b.vhosts[name] = newVhost(b, name)
	}
}

// SetPolicy adds a policy to a vhost, or replaces the one of its name; it
// holds for the queues that are there too.
func (b *Broker) SetPolicy(vhost string, p Policy) error {
	re, err := regexp.Compile(p.Pattern)
	if err != nil {
		return fmt.Errorf("policy %q: pattern: %w", p.Name, err)
	}
	p.re = re
	v := b.vhost(vhost)
	if v == nil {
		return fmt.Errorf("policy %q: no vhost %q", p.Name, vhost)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.dropPolicy(p.Name)
	v.policies = append(v.policies, p)
	v.applyPolicies()
	return nil
}

// DeletePolicy removes a policy and says whether there was one.
func (b *Broker) DeletePolicy(vhost, name string) bool {
	v := b.vhost(vhost)
	if v == nil {
		return false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	found := v.dropPolicy(name)
	v.applyPolicies()
	return found
}

func (v *vhost) dropPolicy(name string) bool {
	n := len(v.policies)
	v.policies = slices.DeleteFunc(v.policies, func(p Policy) bool { return p.Name == name })
	return len(v.policies) < n
}

func (v *vhost) applyPolicies() {
	for _, q := range v.queues {
		q.set = v.settings(q)
		q.touch()
		q.dropOverflow()
	}
}
