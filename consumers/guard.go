package consumers

import (
	"fmt"
	"log/slog"
	"runtime/debug"
)

// caught runs f, logs a panic and returns it as an error, so that it does not end the
// process.
func caught(log *slog.Logger, what string, f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%s panicked: %v", what, v)
			log.Error("panic", "in", what, "panic", v, "stack", string(debug.Stack()))
		}
	}()
	return f()
}

// tell calls functions of others one after the other; one that panics keeps no other
// from being called.
func tell(log *slog.Logger, all []func()) {
	for _, f := range all {
		_ = caught(log, "a function registered with OnChange", func() error { f(); return nil })
	}
}
