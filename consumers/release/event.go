package release

import (
	"fmt"
	"time"
)

// EventKind says what an [Event] is about.
type EventKind string

// The kinds of events.
const (
	// EventGapOpened: ids are missing below one that was seen.
	EventGapOpened EventKind = "gap-opened"
	// EventGapClosed: a gap ended; Proof says how.
	EventGapClosed EventKind = "gap-closed"
	// EventEpoch: the table was truncated or restored; it is read again.
	EventEpoch EventKind = "epoch"
	// EventChanged: a row that was handed over has been changed in place. It is
	// not handed over again.
	EventChanged EventKind = "changed"
	// EventAlarm: somebody should look.
	EventAlarm EventKind = "alarm"
	// EventError: a try to read failed; Err and NextTry say more.
	EventError EventKind = "error"
	// EventRecovered: reading works again.
	EventRecovered EventKind = "recovered"
	// EventListener: a listener failed or panicked at a row.
	EventListener EventKind = "listener"
	// EventVariant: two messages differ only in case, which this database takes
	// for equal. They are two keys here.
	EventVariant EventKind = "variant"
)

// Event is something that the scanner noticed beside rows.
type Event struct {
	At       time.Time
	Database string
	Epoch    int
	// Err is the cause of an error, alarm or listener event; it may be nil.
	Err error
	// From and To are the ids that a gap, an epoch or a changed row is about.
	From, To uint64
	// History marks a gap among the rows that were there before the scanner
	// began: usually rows that a cleaner deleted long ago, and no news.
	History bool
	Kind    EventKind
	// NextTry is when an error is followed by the next try.
	NextTry time.Time
	Proof   Proof
	// Text says it in one line, without secrets. Messages from the table in it
	// are quoted.
	Text string
}

// String is the event's text with its kind.
func (e Event) String() string { return fmt.Sprintf("%s: %s", e.Kind, e.Text) }
