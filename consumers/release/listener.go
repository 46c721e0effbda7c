package release

import (
	"context"
	"fmt"
)

// Listener is told of every row, in the order of delivery, by the scanner's
// goroutine: it must be fast and must not wait for the scanner. An error or a
// panic is counted and reported and keeps nobody else from the row; the row is
// not handed over again. The context ends with [Scanner.Run].
type Listener interface {
	HandleRow(context.Context, Row) error
}

// ListenerFunc is a function as a [Listener].
type ListenerFunc func(context.Context, Row) error

// HandleRow calls f.
func (f ListenerFunc) HandleRow(ctx context.Context, r Row) error { return f(ctx, r) }

// PanicError is the error of a listener, or a driver, that panicked.
type PanicError struct {
	Value any
	Stack []byte
}

// Error is the panic's value; the stack is left to the log.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }
