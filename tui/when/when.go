// Package when reads the times that people type into a confirmation, and writes
// times so that nobody mistakes them.
package when

import (
	"fmt"
	"strings"
	"time"

	"strconv"
)

// longest is the farthest a typed time may lie ahead: a longer one is a slip of
// the finger.
const longest = 31 * 24 * time.Hour

// Parse reads a moment as seen from now, in now's location: a length of time
// ("15m", "1h30m", "2d"), a time of day ("14:30": today, or tomorrow where that
// has passed), or a date and time ("2026-03-01 14:30", RFC 3339). An empty text
// is the zero time. The error says what was understood and what can be typed.
func Parse(text string, now time.Time) (time.Time, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return time.Time{}, nil
	}
	t, err := parse(text, now)
	if err != nil {
		return time.Time{}, err
	}
	if !t.After(now) {
		return time.Time{}, fmt.Errorf("%s has passed", Text(t, now))
	}
	if t.Sub(now) > longest {
		return time.Time{}, fmt.Errorf("%s is more than 31 days ahead", Text(t, now))
	}
	return t, nil
}

func parse(text string, now time.Time) (time.Time, error) {
	if d, ok := length(text); ok {
		return now.Add(d).Truncate(time.Second), nil
	}
	for _, layout := range []string{"15:04", "15:04:05"} {
		if c, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			t := time.Date(now.Year(), now.Month(), now.Day(), c.Hour(), c.Minute(), c.Second(), 0, now.Location())
			if !t.After(now) {
				t = time.Date(now.Year(), now.Month(), now.Day()+1, c.Hour(), c.Minute(), c.Second(), 0, now.Location())
			}
			return t, nil
		}
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04", "2006-01-02T15:04", "2006-01-02 15:04:05"} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time; type 15m, 1h, 14:30 or 2006-01-02 14:30", text)
}

// length reads "15m", "1h30m", "90s", "2d", "1d12h"; a bare number is refused,
// because nobody knows its unit.
func length(text string) (time.Duration, bool) {
	s := strings.ToLower(strings.ReplaceAll(text, " ", ""))
	var days time.Duration
	if d, rest, ok := strings.Cut(s, "d"); ok {
		n, err := strconv.Atoi(d)
		if err != nil || n < 0 || n > 1000 {
			return 0, false
		}
		days = time.Duration(n) * 24 * time.Hour
		if rest == "" {
			return days, n > 0
		}
		s = rest
	}
	d, err := time.ParseDuration(strings.ReplaceAll(s, "min", "m"))
	if err != nil || d < 0 || s == "0" || days+d <= 0 {
		return 0, false
	}
	return days + d, true
}

// Text writes a moment in now's location and in UTC: "21:42 CET (20:42 UTC)",
// with the date where it is another day.
func Text(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	local := t.In(now.Location())
	utc := t.UTC()
	layout := "15:04"
	if t.Second() != 0 {
		layout = "15:04:05"
	}
	date := ""
	if y, m, d := local.Date(); !sameDay(y, m, d, now) {
		date = local.Format("Mon 2 Jan ")
	}
	if _, off := local.Zone(); off == 0 {
		return date + local.Format(layout) + " UTC"
	}
	u := utc.Format(layout) + " UTC"
	if utc.Day() != local.Day() {
		u = utc.Format("2 Jan ") + u
	}
	return date + local.Format(layout+" MST") + " (" + u + ")"
}

func sameDay(y int, m time.Month, d int, now time.Time) bool {
	ny, nm, nd := now.Date()
	return y == ny && m == nm && d == nd
}

// Short writes a moment for a narrow place: the time of day, with the date where
// it is not the next such time.
func Short(t, now time.Time) string {
	local := t.In(now.Location())
	if y, m, d := local.Date(); sameDay(y, m, d, now) || t.After(now) && t.Sub(now) < 20*time.Hour {
		return local.Format("15:04")
	}
	return local.Format("2 Jan 15:04")
}
