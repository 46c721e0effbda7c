package registry_test

import (
	"context"
	"sync"
	"time"

	"github.com/belay-mq/belay/consumers"
	"github.com/belay-mq/belay/nacos"
)

// store is a ConfigStore whose states a test hands in.
type store struct {
	states chan nacos.State
	ended  chan struct{} // closed: the watch ends
	seq    uint64
}

func newStore() *store { return &store{states: make(chan nacos.State), ended: make(chan struct{})} }

func (s *store) Get(context.Context, nacos.Key) (nacos.State, error) { return nacos.State{}, nil }

func (s *store) Watch(ctx context.Context, _ nacos.Key) <-chan nacos.State {
	out := make(chan nacos.State)
	go func() {
		defer close(out)
		for {
			select {
			case <-ctx.Done():
				return
			case <-s.ended:
				return
			case v := <-s.states:
				select {
				case out <- v:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return out
}

func (s *store) say(text string) {
	s.seq++
	s.states <- nacos.State{Seq: s.seq, Text: text, MD5: text, Absent: text == ""}
}

// listener is a Listener that notes its calls.
type listener struct {
	id string

	mu        sync.Mutex
	status    consumers.Status
	calls     []string
	hangs     bool // Start and Scale return only when their context ends
	stopTakes time.Duration
	scaleErr  error
	onChange  []func()
}

func newListener(id string) *listener {
	return &listener{id: id, status: consumers.Status{ListenerID: id, State: consumers.Stopped, Min: 1, Max: 1, AutoStartup: true}}
}

func (l *listener) ListenerID() string { return l.id }

func (l *listener) set(state consumers.State, call string) {
	l.mu.Lock()
	l.status.State = state
	if call != "" {
		l.calls = append(l.calls, call)
	}
	fs := l.onChange
	l.mu.Unlock()
	for _, f := range fs {
		f()
	}
}

func (l *listener) Start(ctx context.Context, c consumers.Cause) error {
	if l.hangs {
		l.set(consumers.Starting, "start by "+c.By)
		<-ctx.Done()
		return ctx.Err()
	}
	l.set(consumers.Running, "start by "+c.By)
	return nil
}

func (l *listener) Stop(ctx context.Context, c consumers.Cause) (consumers.StopReport, error) {
	l.set(consumers.Draining, "stop by "+c.By)
	select {
	case <-time.After(l.stopTakes):
	case <-ctx.Done():
		return consumers.StopReport{}, ctx.Err()
	}
	l.set(consumers.Stopped, "")
	return consumers.StopReport{}, nil
}

func (l *listener) Scale(ctx context.Context, lo, hi int) error {
	if l.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.scaleErr != nil {
		return l.scaleErr
	}
	l.status.Min, l.status.Max = lo, hi
	return nil
}

func (l *listener) Status() consumers.Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status
}

func (l *listener) OnChange(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onChange = append(l.onChange, f)
}

func (l *listener) did() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.calls
	l.calls = nil
	return out
}
