package consumers

import (
	"errors"
	"fmt"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Errors that callers can test with [errors.Is].
var (
	// ErrClosed is returned by every method of a [Conn] or [Container] that
	// was closed.
	ErrClosed = errors.New("consumers: closed")
	// ErrNoReply is returned when the broker did not answer a request in time;
	// the connection it was sent on has been dropped.
	ErrNoReply = errors.New("consumers: the broker did not reply in time")
	// ErrStale is returned by a settlement (ack, requeue, reject) whose session
	// has ended: the broker has the message back and delivers it again.
	ErrStale = errors.New("consumers: the session of this delivery has ended; the broker delivers the message again")
	// ErrSettled is returned by the second settlement of one delivery. It is
	// not sent to the broker, which would close the channel for it.
	ErrSettled = errors.New("consumers: this delivery is already settled")
	// ErrSessionLost is the cancellation cause of a handler's context when the
	// connection or channel of its delivery was lost.
	ErrSessionLost = errors.New("consumers: the channel of this delivery was lost")
	// ErrShutdownTimeout is the cancellation cause of a handler's context when
	// it ran past Config.ShutdownTimeout while its consumer was stopping.
	ErrShutdownTimeout = errors.New("consumers: the shutdown timeout passed")
)

// PanicError is what a handler's panic is turned into.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("handler panicked: %v", e.Value) }

// Unwrap returns the panic's value where that is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// ConfigError says which field of a configuration is wrong and what it must be.
type ConfigError struct {
	Field string
	Text  string
}

func (e *ConfigError) Error() string { return "consumers: " + e.Field + ": " + e.Text }

// reply returns the broker's reply in err, nil where there is none.
func reply(err error) *amqp.Error {
	var e *amqp.Error
	if errors.As(err, &e) {
		return e
	}
	return nil
}

// isMissing reports that the broker said that a queue does not exist.
func isMissing(err error) bool {
	e := reply(err)
	return e != nil && e.Code == amqp.NotFound
}

// isExclusive reports that another consumer or connection has the queue for
// itself. RabbitMQ answers 403 for an exclusive consumer and 405 for an
// exclusive queue; the text tells the former from a lack of permission.
func isExclusive(err error) bool {
	e := reply(err)
	if e == nil {
		return false
	}
	return e.Code == amqp.ResourceLocked || e.Code == amqp.AccessRefused && strings.Contains(e.Reason, "exclusive use")
}

// isRefused reports that the broker refuses the login, the vhost or the
// permission.
func isRefused(err error) bool {
	e := reply(err)
	if e == nil || isExclusive(err) {
		return false
	}
	return e.Code == amqp.AccessRefused || e.Code == amqp.NotAllowed
}
