package feed

import (
	"slices"
	"time"
)

const (
	stepKeys = 2048 // keys whose accepted events are remembered
	stepMost = 32   // events per key
)

// stepLog remembers when the last events of the keys that changed last were accepted.
type stepLog struct {
	byKey map[string]*keySteps
	order []string // by first event; the oldest goes first
}

type keySteps struct {
	source   Source
	accepted []accepted
}

type accepted struct {
	at      time.Time
	version string
}

func newStepLog() stepLog { return stepLog{byKey: map[string]*keySteps{}} }

func (s *stepLog) note(key string, src Source, version string, at time.Time) {
	k := s.byKey[key]
	if k == nil {
		if len(s.order) >= stepKeys {
			delete(s.byKey, s.order[0])
			s.order = slices.Delete(s.order, 0, 1)
		}
		k = &keySteps{source: src}
		s.byKey[key] = k
		s.order = append(s.order, key)
	}
	if len(k.accepted) == stepMost {
		k.accepted = slices.Delete(k.accepted, 0, 1)
	}
	k.accepted = append(k.accepted, accepted{at, version})
}

// accept notes that an event of a key was accepted.
func (f *Feed) accept(key string, src Source, version string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.steps.note(key, src, version, time.Now())
}

// Steps returns every step that is known of a key, as lines name it, oldest first: when its last events were
// accepted (as waiting lines), what became of them, and what waits now. It does not block.
func (f *Feed) Steps(key string) []Line {
	var out []Line
	f.mu.Lock()
	if k := f.steps.byKey[key]; k != nil {
		for _, a := range k.accepted {
			out = append(out, Line{At: a.at, Source: k.source, Key: key, Version: a.version, Status: Waiting, Window: f.window, Remaining: f.window})
		}
	}
	f.ring.each(func(l *Line) {
		if l.Key == key {
			out = append(out, *l)
		}
	})
	f.mu.Unlock()
	slices.SortStableFunc(out, func(a, b Line) int { return a.At.Compare(b.At) })
	for _, l := range f.Pending() {
		if l.Key == key {
			out = append(out, l)
		}
	}
	return out
}
