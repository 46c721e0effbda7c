package when

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip("no time zones here")
	}
	now := time.Date(2026, 3, 28, 21, 14, 5, 0, berlin) // the night before the clocks go forward
	for _, c := range []struct{ text, want string }{
		{"", "0001-01-01T00:00:00Z"},
		{"15m", "2026-03-28T21:29:05+01:00"},
		{" 1h30m ", "2026-03-28T22:44:05+01:00"},
		{"90s", "2026-03-28T21:15:35+01:00"},
		{"2d", "2026-03-30T22:14:05+02:00"},
		{"1d12h", "2026-03-30T10:14:05+02:00"},
		{"20min", "2026-03-28T21:34:05+01:00"},
		{"22:00", "2026-03-28T22:00:00+01:00"},
		{"02:30", "2026-03-29T03:30:00+02:00"}, // does not exist that night
		{"21:14", "2026-03-29T21:14:00+02:00"}, // has passed: tomorrow
		{"2026-03-29 14:30", "2026-03-29T14:30:00+02:00"},
		{"2026-03-28T22:00:00Z", "2026-03-28T22:00:00Z"},
	} {
		got, err := Parse(c.text, now)
		if err != nil || got.Format(time.RFC3339) != c.want {
			t.Errorf("%q: %s, %v, want %s", c.text, got.Format(time.RFC3339), err, c.want)
		}
	}
	for text, want := range map[string]string{
		"15": "no time", "0": "no time", "0s": "no time", "-5m": "no time", "25:00": "no time", "soon": "type 15m", "99d": "more than 31 days", "2026-03-01 14:30": "passed", "1e9h": "no time",
	} {
		if got, err := Parse(text, now); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

func TestText(t *testing.T) {
	east := time.FixedZone("CET", 3600)
	now := time.Date(2026, 11, 30, 21, 14, 0, 0, east)
	for _, c := range []struct {
		at          time.Time
		text, short string
	}{
		{now.Add(28 * time.Minute), "21:42 CET (20:42 UTC)", "21:42"},
		{now.Add(3 * time.Hour), "Tue 1 Dec 00:14 CET (30 Nov 23:14 UTC)", "00:14"},
		{now.Add(5 * time.Second), "21:14:05 CET (20:14:05 UTC)", "21:14"},
		{time.Time{}, "", "1 Jan 01:00"},
	} {
		if got := Text(c.at, now); got != c.text {
			t.Errorf("got %q, want %q", got, c.text)
		}
		if got := Short(c.at, now); got != c.short {
			t.Errorf("got %q, want %q", got, c.short)
		}
	}
	if got := Text(now.UTC().Add(time.Hour), now.UTC()); got != "21:14 UTC" {
		t.Errorf("in UTC: %q", got)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"15m", "1d12h", "22:00", "2026-03-29 14:30", "x", "999999999999h", "1d-1h"} {
		f.Add(s)
	}
	now := time.Date(2026, 3, 28, 21, 14, 5, 0, time.UTC)
	f.Fuzz(func(t *testing.T, s string) {
		at, err := Parse(s, now)
		if err == nil && !at.IsZero() && (!at.After(now) || at.Sub(now) > longest) {
			t.Errorf("%q is %v", s, at)
		}
	})
}

func ExampleParse() {
	now := time.Date(2026, 11, 30, 21, 14, 0, 0, time.FixedZone("CET", 3600))
	for _, text := range []string{"15m", "22:00", "06:00", "15"} {
		at, err := Parse(text, now)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(text, "is", Text(at, now))
	}
	// Output:
	// 15m is 21:29 CET (20:29 UTC)
	// 22:00 is 22:00 CET (21:00 UTC)
	// 06:00 is Tue 1 Dec 06:00 CET (05:00 UTC)
	// "15" is no time; type 15m, 1h, 14:30 or 2006-01-02 14:30
}
