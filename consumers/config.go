package consumers

import (
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"
)

// AckMode says when a message is acknowledged.
type AckMode string

// The ack modes.
const (
	// AckAuto acks after the handler returned nil.
	AckAuto AckMode = "auto"
	// AckManual leaves the ack to the handler: [Delivery.Ack] and its kin. A
	// handler that returns an error has its message settled as in AckAuto
	// unless it settled it itself.
	AckManual AckMode = "manual"
	// AckNone acks when the message is taken up, before its handler runs: at
	// most once. The prefetch still bounds what is held in memory, which the
	// broker's own auto-ack would not.
	AckNone AckMode = "none"
)

// StopMode says what a stop does with messages that were received but whose
// handler did not start.
type StopMode string

// The stop modes.
const (
	// StopDrain handles them, for at most Config.ShutdownTimeout.
	StopDrain StopMode = "drain"
	// StopForce finishes the message in hand and gives the others back, so
	// that the next holder of an exclusive or single-active-consumer queue
	// finds the order kept.
	StopForce StopMode = "force"
)

// Config configures a [Container]. ListenerID and Queues are required, all
// other fields may be left at their zero value.
type Config struct {
	// AckBatch is how many acks go into one frame. An ack waits for others at
	// most AckDelay. 1 acks each by itself. Never more than half the prefetch,
	// so that batching does not stall the broker. Default: 50.
	AckBatch int
	// AckDelay is the longest that an ack is held back. Default: 20 ms.
	AckDelay time.Duration
	// AckMode says when messages are acked. Default: AckAuto.
	AckMode AckMode
	// Args are further consumer arguments. x-listener-id is always added.
	// Default: none.
	Args amqp.Table
	// BatchSize is the largest batch of a [BatchHandler]. Default: 100.
	BatchSize int
	// BatchTimeout is how long a batch waits to fill up after its first
	// message. Default: 100 ms.
	BatchTimeout time.Duration
	// DefaultRequeue gives a message back to its queue when its handler fails
	// without saying what is to become of it; see RequeueBackoff for one that
	// always fails. Default: false, it is rejected.
	DefaultRequeue bool
	// Exclusive asks for exclusive consumers; Max must be 1 then. Where another
	// consumer has the queue the container waits for it. Default: false.
	Exclusive bool
	// FailOnMissingQueue ends the container in state Failed when a queue does
	// not exist. Default: false, it keeps trying.
	FailOnMissingQueue bool
	// IdleEvent sends an [Idle] event whenever no message came for that long.
	// Default: 0, no such event.
	IdleEvent time.Duration
	// ListenerID names the consumer definition: not blank, at most 200 bytes of
	// UTF-8, no control characters. Required.
	ListenerID string
	// Logger takes failed handlers, one a second at most, and lost sessions.
	// Default: nothing is logged.
	Logger *slog.Logger
	// ManualStartup keeps the container stopped until it is started by name;
	// Status.AutoStartup is its opposite. Default: false.
	ManualStartup bool
	// Max is the largest number of consumers. Default: Min.
	Max int
	// Min is the smallest number of consumers. Default: 1.
	Min int
	// Prefetch is how many unacked messages the broker sends to each consumer,
	// 1 to 65535. Default: 250.
	Prefetch int
	// Priority is the consumers' x-priority. Default: 0, none.
	Priority int
	// Queues are the queues to consume, at least one, each once. Every consumer
	// consumes all of them. Required.
	Queues []string
	// Recovery is the back-off between attempts to subscribe. It starts over
	// after a session that lasted at least 10 s.
	Recovery Backoff
	// RequeueBackoff is how long a consumer waits after messages that went back
	// to their queue one after the other: not after the first, then as for the
	// attempts 1, 2, 3 and on; a message with another outcome begins anew. What
	// was received waits meanwhile; a stop does not. Default: 100 ms to 10 s.
	RequeueBackoff Backoff
	// Retry says how often and how a failed message is tried again in place.
	// Default: not at all.
	Retry Retry
	// ScaleDownAfter is how long a consumer must have been idle before it is
	// given up for being one too many. Default: 10 s.
	ScaleDownAfter time.Duration
	// ScaleInterval is how often the backlog is looked at where Max is above
	// Min. Default: 1 s.
	ScaleInterval time.Duration
	// ShutdownTimeout bounds the drain of a stop; then the rest is given back.
	// Default: 5 s.
	ShutdownTimeout time.Duration
	// StopMode says what a stop does with what was received. Default:
	// StopDrain.
	StopMode StopMode
	// TagPrefix begins the consumer tags, at most 40 bytes. Default: none.
	TagPrefix string
}

// Defaults of [Config].
const (
	DefaultPrefetch        = 250
	DefaultAckBatch        = 50
	DefaultAckDelay        = 20 * time.Millisecond
	DefaultShutdownTimeout = 5 * time.Second
	DefaultScaleInterval   = time.Second
	DefaultScaleDownAfter  = 10 * time.Second
	DefaultBatchSize       = 100
	DefaultBatchTimeout    = 100 * time.Millisecond
	DefaultRequeueMin      = 100 * time.Millisecond
	DefaultRequeueMax      = 10 * time.Second
)

// orDefault sets *p to def where it is not positive.
func orDefault[T int | time.Duration](p *T, def T) {
	if *p <= 0 {
		*p = def
	}
}

// withDefaults returns a checked copy of cfg.
func (cfg Config) withDefaults() (Config, error) {
	if cfg.AckMode == "" {
		cfg.AckMode = AckAuto
	}
	if cfg.StopMode == "" {
		cfg.StopMode = StopDrain
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Min == 0 {
		cfg.Min = 1
	}
	if cfg.Max == 0 {
		cfg.Max = cfg.Min
	}
	if cfg.Prefetch == 0 {
		cfg.Prefetch = DefaultPrefetch
	}
	orDefault(&cfg.AckBatch, DefaultAckBatch)
	orDefault(&cfg.AckDelay, DefaultAckDelay)
	orDefault(&cfg.ShutdownTimeout, DefaultShutdownTimeout)
	orDefault(&cfg.ScaleInterval, DefaultScaleInterval)
	orDefault(&cfg.ScaleDownAfter, DefaultScaleDownAfter)
	orDefault(&cfg.BatchSize, DefaultBatchSize)
	orDefault(&cfg.BatchTimeout, DefaultBatchTimeout)
	cfg.Recovery = cfg.Recovery.withDefaults()
	orDefault(&cfg.RequeueBackoff.Min, DefaultRequeueMin)
	orDefault(&cfg.RequeueBackoff.Max, max(DefaultRequeueMax, cfg.RequeueBackoff.Min))
	cfg.Retry = cfg.Retry.withDefaults()
	cfg.Queues = append([]string(nil), cfg.Queues...)
	args := amqp.Table{}
	for k, v := range cfg.Args {
		args[k] = v
	}
	args["x-listener-id"] = cfg.ListenerID
	if cfg.Priority != 0 {
		args["x-priority"] = int32(cfg.Priority)
	}
	cfg.Args = args
	return cfg, cfg.check()
}

// Validate tells whether [New] would take cfg. The error is a *[ConfigError].
func (cfg Config) Validate() error {
	_, err := cfg.withDefaults()
	return err
}

func (cfg Config) check() error {
	if err := checkID(cfg.ListenerID); err != nil {
		return err
	}
	if len(cfg.Queues) == 0 {
		return &ConfigError{"Queues", "names no queue; give at least one"}
	}
	seen := map[string]bool{}
	for _, q := range cfg.Queues {
		if err := checkQueue(q); err != nil {
			return err
		}
		if seen[q] {
			return &ConfigError{"Queues", fmt.Sprintf("names %q twice", q)}
		}
		seen[q] = true
	}
	if err := checkConcurrency(cfg.Min, cfg.Max, cfg.Exclusive); err != nil {
		return err
	}
	if cfg.Prefetch < 1 || cfg.Prefetch > 65535 {
		return &ConfigError{"Prefetch", fmt.Sprintf("is %d; it must be 1 to 65535", cfg.Prefetch)}
	}
	switch cfg.AckMode {
	case AckAuto, AckManual, AckNone:
	default:
		return &ConfigError{"AckMode", fmt.Sprintf("%q is unknown; use auto, manual or none", cfg.AckMode)}
	}
	switch cfg.StopMode {
	case StopDrain, StopForce:
	default:
		return &ConfigError{"StopMode", fmt.Sprintf("%q is unknown; use drain or force", cfg.StopMode)}
	}
	if len(cfg.TagPrefix) > 40 {
		return &ConfigError{"TagPrefix", "is longer than 40 bytes"}
	}
	if err := cfg.Args.Validate(); err != nil {
		return &ConfigError{"Args", err.Error()}
	}
	return nil
}

func checkID(id string) error {
	switch {
	case strings.TrimSpace(id) == "":
		return &ConfigError{"ListenerID", "is blank; it names the listener in its toggle file"}
	case len(id) > 200:
		return &ConfigError{"ListenerID", fmt.Sprintf("is %d bytes long; at most 200 are allowed", len(id))}
	case !utf8.ValidString(id):
		return &ConfigError{"ListenerID", "is not UTF-8"}
	case strings.ContainsFunc(id, unicode.IsControl):
		return &ConfigError{"ListenerID", fmt.Sprintf("%q holds a control character", id)}
	}
	return nil
}

func checkQueue(q string) error {
	if q == "" || len(q) > 255 {
		return &ConfigError{"Queues", fmt.Sprintf("%q is not a queue name; it must be 1 to 255 bytes long", q)}
	}
	return nil
}

func checkConcurrency(lo, hi int, exclusive bool) error {
	switch {
	case lo < 1:
		return &ConfigError{"Min", fmt.Sprintf("is %d; it must be at least 1 (stop the container to have none)", lo)}
	case hi < lo:
		return &ConfigError{"Max", fmt.Sprintf("is %d, below Min, which is %d", hi, lo)}
	case exclusive && hi > 1:
		return &ConfigError{"Max", fmt.Sprintf("is %d; an exclusive consumer is always one", hi)}
	}
	return nil
}
