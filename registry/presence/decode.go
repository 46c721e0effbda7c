package presence

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/belay-mq/belay/consumers"
)

const (
	maxBody      = 1 << 20
	maxListeners = 2000
	maxQueues    = 100
	maxName      = 255
	maxText      = 1000
)

// ErrMalformed is returned for a report that cannot be believed.
var ErrMalformed = errors.New("malformed report")

// Decode reads one report and checks it: version, sizes, names, states, counts.
// Texts are stripped of control characters and cut to a bounded length. The error
// wraps [ErrMalformed].
func Decode(body []byte) (*Report, error) {
	if len(body) > maxBody {
		return nil, fmt.Errorf("%w: %d bytes", ErrMalformed, len(body))
	}
	var r Report
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	switch {
	case r.V != 1:
		return nil, fmt.Errorf("%w: version %d", ErrMalformed, r.V)
	case !validName(r.Instance):
		return nil, fmt.Errorf("%w: no usable instance", ErrMalformed)
	case r.App != "" && !validName(r.App):
		return nil, fmt.Errorf("%w: no usable app", ErrMalformed)
	case len(r.Listeners) > maxListeners:
		return nil, fmt.Errorf("%w: %d listeners", ErrMalformed, len(r.Listeners))
	case r.Seq == 0:
		return nil, fmt.Errorf("%w: seq is missing", ErrMalformed)
	}
	r.Host = Clean(r.Host, maxName)
	if r.File != nil {
		r.File.MD5 = Clean(r.File.MD5, 64)
	}
	seen := make(map[string]bool, len(r.Listeners))
	for i := range r.Listeners {
		l := &r.Listeners[i]
		if err := l.check(); err != nil {
			return nil, err
		}
		if seen[l.ID] {
			return nil, fmt.Errorf("%w: listener %q twice", ErrMalformed, l.ID)
		}
		seen[l.ID] = true
	}
	return &r, nil
}

func (l *ListenerReport) check() error {
	if !validName(l.ID) {
		return fmt.Errorf("%w: no usable listener id", ErrMalformed)
	}
	switch consumers.State(l.State) {
	case consumers.Stopped, consumers.Starting, consumers.Running, consumers.Draining,
		consumers.Recovering, consumers.MissingQueue, consumers.Refused, consumers.Failed:
	default:
		return fmt.Errorf("%w: listener %s has state %q", ErrMalformed, l.ID, Clean(l.State, 40))
	}
	if l.Consumers < 0 || l.Draining < 0 || l.Min < 0 || l.Max < 0 || l.Prefetch < 0 || l.InFlight < 0 || l.Attempts < 0 || l.MaxDeliveryCount < 0 {
		return fmt.Errorf("%w: listener %s has a negative count", ErrMalformed, l.ID)
	}
	if len(l.Queues) > maxQueues {
		return fmt.Errorf("%w: listener %s has %d queues", ErrMalformed, l.ID, len(l.Queues))
	}
	for _, q := range l.Queues {
		if q == "" || len(q) > maxName {
			return fmt.Errorf("%w: listener %s names no usable queue", ErrMalformed, l.ID)
		}
	}
	l.By, l.Reason = Clean(l.By, maxName), Clean(l.Reason, maxText)
	if l.LastError != nil {
		s := Clean(*l.LastError, maxText)
		l.LastError = &s
	}
	if f := l.LastFailure; f != nil {
		f.Error, f.MessageID = Clean(f.Error, maxText), Clean(f.MessageID, maxName)
	}
	return nil
}

func validName(s string) bool {
	return strings.TrimSpace(s) != "" && len(s) <= maxName && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// Clean makes outside text fit to be shown: control characters become blanks, bad
// UTF-8 becomes U+FFFD, and what is longer than limit bytes is cut at a character
// and ends with "…".
func Clean(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if strings.ContainsFunc(s, unprintable) {
		s = strings.Map(func(r rune) rune {
			if unprintable(r) {
				return ' '
			}
			return r
		}, s)
	}
	if len(s) <= limit {
		return s
	}
	cut := max(limit-len("…"), 0)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

// unprintable holds for control characters and for those that turn the direction
// of a line of text around.
func unprintable(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
}
