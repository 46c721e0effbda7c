package feed

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	releases "github.com/belay-mq/belay/consumers/release"
)

// record is a line as belay feed -o json prints it and as processes hand it over: one JSON object per line.
type record struct {
	At          time.Time `json:"at"`
	Source      Source    `json:"source"`
	Key         string    `json:"key"`
	Version     string    `json:"version"`
	FromVersion string    `json:"fromVersion"`
	Status      Status    `json:"status"`
	Merged      int       `json:"merged"`
	DelayMs     int64     `json:"delayMs"`
	RemainingMs int64     `json:"remainingMs"`
	Late        bool      `json:"late"`
	Listeners   tookBy    `json:"listeners"`
	Text        string    `json:"text"`
}

type tookBy struct {
	OK     int `json:"ok"`
	Failed int `json:"failed"`
}

// MarshalJSON writes the line in its documented form: times in RFC 3339 UTC, durations in milliseconds. Seq, App,
// Listener, Window, Malformed and By are not part of it.
func (l Line) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(record{
		At: l.At.UTC().Truncate(time.Millisecond), Source: l.Source, Key: l.Key, Version: l.Version, FromVersion: l.FromVersion,
		Status: l.Status, Merged: l.Merged, DelayMs: l.Delay.Milliseconds(), RemainingMs: l.Remaining.Milliseconds(),
		Late: l.Late, Listeners: tookBy{l.OK, l.Failed}, Text: l.Text,
	})
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// ErrBadLine is wrapped by the errors of [Decode].
var ErrBadLine = errors.New("bad feed line")

const (
	maxEncoded = 16 << 10
	maxText    = 4 << 10
)

var (
	knownSources  = map[Source]bool{Release: true, Toggle: true, Consumer: true, Instance: true, Broker: true, Scanner: true}
	knownStatuses = map[Status]bool{Waiting: true, Delivered: true, Suppressed: true, Stale: true, Replay: true, Failed: true,
		DeadLetter: true, GapOpen: true, GapClosed: true, Epoch: true, Applied: true, Cleaned: true}
)

// Encode writes a line as one line of NDJSON, without its end.
func Encode(l Line) []byte {
	b, err := l.MarshalJSON()
	if err != nil { // there is nothing in a line that cannot be written
		return nil
	}
	return b
}

// Decode reads a line that another process wrote. It is outside text: bounds, source, status and time are checked,
// but strings may hold anything; strip them before they go to a terminal. App and Listener follow from the key.
// Every error wraps ErrBadLine.
func Decode(b []byte) (Line, error) {
	if len(b) > maxEncoded {
		return Line{}, fmt.Errorf("%w: %d bytes long, at most %d", ErrBadLine, len(b), maxEncoded)
	}
	var r record
	if err := json.Unmarshal(b, &r); err != nil {
		return Line{}, fmt.Errorf("%w: %w", ErrBadLine, err)
	}
	const longest = int64(1000 * 24 * time.Hour / time.Millisecond)
	switch {
	case !knownSources[r.Source]:
		return Line{}, fmt.Errorf("%w: unknown source %.20q", ErrBadLine, r.Source)
	case !knownStatuses[r.Status]:
		return Line{}, fmt.Errorf("%w: unknown status %.20q", ErrBadLine, r.Status)
	case r.At.Year() < 1970 || r.At.Year() > 9999:
		return Line{}, fmt.Errorf("%w: the time %s", ErrBadLine, r.At.Format(time.RFC3339))
	case r.Key == "" || len(r.Key) > maxText || len(r.Text) > maxText || len(r.Version) > 256 || len(r.FromVersion) > 256:
		return Line{}, fmt.Errorf("%w: no key, or a text that is too long", ErrBadLine)
	case r.Merged < 0 || r.DelayMs < 0 || r.DelayMs > longest || r.RemainingMs < 0 || r.RemainingMs > longest ||
		r.Listeners.OK < 0 || r.Listeners.Failed < 0:
		return Line{}, fmt.Errorf("%w: a number is out of range", ErrBadLine)
	}
	l := Line{
		At: r.At.UTC(), Source: r.Source, Key: r.Key, Version: r.Version, FromVersion: r.FromVersion, Status: r.Status,
		Merged: r.Merged, Delay: time.Duration(r.DelayMs) * time.Millisecond, Remaining: time.Duration(r.RemainingMs) * time.Millisecond,
		Late: r.Late, OK: r.Listeners.OK, Failed: r.Listeners.Failed, Text: r.Text,
	}
	switch l.Source {
	case Toggle, Consumer:
		l.App, l.Listener, _ = strings.Cut(l.Key, "/")
	case Release:
		_, ok := releases.ParseKey(l.Key)
		l.Malformed = !ok
	}
	return l, nil
}
