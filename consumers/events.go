package consumers

import (
	"sync"
	"sync/atomic"
	"time"
)

// EventKind is the kind of an [Event]. Its text is stable.
type EventKind string

// The kinds of events.
const (
	EventStarted       EventKind = "started"             // running after a start or a recovery
	EventStopped       EventKind = "stopped"             // stopped, everything given back
	EventDraining      EventKind = "draining"            // a stop has begun
	EventRecovering    EventKind = "recovering"          // a channel or the connection was lost
	EventRefused       EventKind = "refused"             // the broker refuses login or permission
	EventMissingQueue  EventKind = "missing-queue"       // Queue does not exist
	EventCancelled     EventKind = "cancelled-by-broker" // the broker cancelled the consumer of Queue
	EventScaled        EventKind = "scaled"              // the number of consumers was changed; Text says why
	EventIdle          EventKind = "idle"                // no message for Config.IdleEvent
	EventHandlerFailed EventKind = "handler-failed"      // Err is what the handler returned
	EventBlocked       EventKind = "blocked"             // the broker holds back publishers
	EventUnblocked     EventKind = "unblocked"           // it no longer does
	EventFailed        EventKind = "failed"              // given up, because an option says so
)

// Event is something that happened to a container.
type Event struct {
	At         time.Time
	Kind       EventKind
	ListenerID string
	Queue      string // where one queue is concerned
	Text       string // in words, for a person
	Err        error  // where there is one
	// Dropped counts the events that this subscription lost before this one,
	// because it did not keep up.
	Dropped uint64
}

// events hands events to subscriptions without ever waiting for one.
type events struct {
	mu   sync.RWMutex
	subs map[*eventSub]struct{}
	any  atomic.Bool
}

type eventSub struct {
	mu      sync.Mutex
	ch      chan Event
	dropped uint64
	done    bool
}

// Events subscribes to the container's events. The channel holds buffer events
// (at least 1); what does not fit is dropped and counted in the next event's
// Dropped: the container never waits. cancel ends the subscription and closes
// the channel; it may be called more than once.
func (c *Container) Events(buffer int) (ch <-chan Event, cancel func()) {
	s := &eventSub{ch: make(chan Event, max(buffer, 1))}
	e := &c.events
	e.mu.Lock()
	if e.subs == nil {
		e.subs = map[*eventSub]struct{}{}
	}
	e.subs[s] = struct{}{}
	e.any.Store(true)
	e.mu.Unlock()
	return s.ch, func() {
		e.mu.Lock()
		delete(e.subs, s)
		e.any.Store(len(e.subs) > 0)
		e.mu.Unlock()
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.done {
			s.done = true
			close(s.ch)
		}
	}
}

func (e *events) send(ev Event) {
	if !e.any.Load() {
		return
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	for s := range e.subs {
		s.send(ev)
	}
}

func (s *eventSub) send(ev Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done {
		return
	}
	ev.Dropped = s.dropped
	select {
	case s.ch <- ev:
		s.dropped = 0
	default:
		s.dropped++
	}
}

func (c *Container) emit(kind EventKind, queue, text string, err error) {
	c.events.send(Event{At: time.Now(), Kind: kind, ListenerID: c.cfg.ListenerID, Queue: queue, Text: text, Err: err})
}
