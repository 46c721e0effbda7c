package app

import (
	"testing"

	"github.com/belay-mq/belay/cmd/belay/internal/config"
)

// A process that may not write must not be counted among those that could carry out a
// planned window: the registry reports canWrite where it has a Timed.
func TestNewTimedOnlyWhereWritesAreAllowed(t *testing.T) {
	for name, c := range map[string]struct {
		opts    Options
		context bool
		want    bool
	}{
		"may write":          {want: true},
		"read-only process":  {opts: Options{ReadOnly: true}},
		"read-only context":  {context: true},
		"both are read-only": {opts: Options{ReadOnly: true}, context: true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := &config.Context{Label: "T", Nacos: &config.Nacos{Servers: []string{"127.0.0.1:1"}}, Writes: config.Writes{ReadOnly: c.context}}
			store, err := openStore(ctx.Nacos, "a", nil)
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close(t.Context())
			// The comparison is of the interface: a nil pointer in it would be a Timed.
			if timed := NewTimed(ctx, "a", store, c.opts); (timed != nil) != c.want {
				t.Errorf("NewTimed gives %v, want one: %t", timed, c.want)
			}
		})
	}
}
