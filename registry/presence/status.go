package presence

import (
	"time"

	"github.com/belay-mq/belay/consumers"
)

// Of returns the report of one listener's status.
func Of(s consumers.Status) ListenerReport {
	r := ListenerReport{
		ID: s.ListenerID, Queues: s.Queues, State: string(s.State), Blocked: s.Blocked,
		Attempts: s.Attempts, Consumers: s.Consumers, Draining: s.Draining, Min: s.Min, Max: s.Max,
		Prefetch: s.Prefetch, InFlight: s.InFlight, Handled: s.Handled, Failed: s.Failed,
		Requeued: s.Requeued, Redelivered: s.Redelivered, MaxDeliveryCount: s.MaxDeliveryCount,
		Since: s.Since.UTC(), By: s.By, Reason: s.Reason,
	}
	if r.Queues == nil {
		r.Queues = []string{}
	}
	if !s.NextTry.IsZero() {
		at := s.NextTry.UTC().Round(0)
		r.NextTry = &at
	}
	if s.LastError != "" {
		r.LastError = &s.LastError
	}
	if f := s.LastFailure; f != nil {
		r.LastFailure = &FailureReport{At: f.At.UTC().Truncate(time.Millisecond), Error: f.Error, MessageID: f.MessageID, DeliveryCount: f.DeliveryCount}
	}
	return r
}
