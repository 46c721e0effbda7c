package feed

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestEncode(t *testing.T) {
	l := Line{
		Seq: 7, At: time.Date(2026, 11, 30, 22, 14, 5, 120e6, time.FixedZone("", 3600)), Source: Release, Key: "order+default+<app>",
		Version: "4711", FromVersion: "4709", Status: Delivered, Merged: 2, Delay: 502 * time.Millisecond, OK: 3, Failed: 1, Late: true,
		Text: "hook: no route", Window: time.Second, By: "oncall",
	}
	const want = `{"at":"2026-11-30T21:14:05.12Z","source":"release","key":"order+default+<app>","version":"4711","fromVersion":"4709",` +
		`"status":"delivered","merged":2,"delayMs":502,"remainingMs":0,"late":true,"listeners":{"ok":3,"failed":1},"text":"hook: no route"}`
	got := string(Encode(l))
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	back, err := Decode([]byte(got))
	if err != nil {
		t.Fatal(err)
	}
	l.Seq, l.Window, l.By, l.At = 0, 0, "", l.At.UTC()
	if diff := cmp.Diff(l, back); diff != "" {
		t.Error(diff)
	}
	toggled, err := Decode([]byte(`{"at":"2026-11-30T21:14:05Z","source":"toggle","key":"settle/Refund","status":"applied"}`))
	if err != nil || toggled.App != "settle" || toggled.Listener != "Refund" {
		t.Errorf("%+v, %v", toggled, err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	good := string(Encode(Line{At: time.Unix(1e9, 0), Source: Release, Key: "a+b+c", Version: "1", Status: Delivered}))
	for name, text := range map[string]string{
		"no JSON":           "{",
		"a number":          "7",
		"unknown source":    strings.Replace(good, `"release"`, `"evil"`, 1),
		"unknown status":    strings.Replace(good, `"delivered"`, `"great"`, 1),
		"no time":           strings.Replace(good, "2001-", "0001-", 1),
		"no key":            strings.Replace(good, "a+b+c", "", 1),
		"long key":          strings.Replace(good, "a+b+c", strings.Repeat("k", maxText+1), 1),
		"too long":          good + strings.Repeat(" ", maxEncoded),
		"negative count":    strings.Replace(good, `"merged":0`, `"merged":-1`, 1),
		"huge delay":        strings.Replace(good, `"delayMs":0`, `"delayMs":9223372036854775807`, 1),
		"negative failures": strings.Replace(good, `"failed":0`, `"failed":-3`, 1),
	} {
		if text == good {
			t.Fatalf("%s: the test changes nothing", name)
		}
		if _, err := Decode([]byte(text)); !errors.Is(err, ErrBadLine) {
			t.Errorf("%s: %v, want ErrBadLine", name, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(Encode(Line{At: time.Unix(1e9, 0), Source: Toggle, Key: "a/b", Status: Waiting, Remaining: time.Second}))
	f.Add([]byte(`{"at":"2026-11-30T21:14:05.12Z","source":"release","key":"\u001b[2J","status":"stale","delayMs":1e3}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := Decode(b)
		if err != nil {
			return
		}
		again, err := Decode(Encode(l))
		if err != nil {
			t.Fatalf("%q is read, but not what is written of it: %v", b, err)
		}
		l.At = l.At.Truncate(time.Millisecond)
		if diff := cmp.Diff(l, again); diff != "" {
			t.Fatal(diff)
		}
	})
}
