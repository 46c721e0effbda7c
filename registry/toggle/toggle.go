package toggle

import (
	"fmt"
	"sort"
	"strings"
	"time"
)

// Format is the syntax of a toggle file.
type Format int

const (
	// Properties is the format of java.util.Properties, read as UTF-8.
	Properties Format = iota
	// YAML is YAML 1.1 as Spring's loader reads it.
	YAML
)

// String returns "properties" or "yaml", which is also the type that Nacos has
// for such a config.
func (f Format) String() string {
	if f == YAML {
		return "yaml"
	}
	return "properties"
}

// FormatOf tells the format of a toggle file by the end of its data id: ".yml"
// and ".yaml" are YAML, anything else is Properties.
func FormatOf(dataID string) Format {
	lower := strings.ToLower(dataID)
	if strings.HasSuffix(lower, ".yml") || strings.HasSuffix(lower, ".yaml") {
		return YAML
	}
	return Properties
}

// Toggle is the wanted state of one listener. A nil field is absent: the file
// has no opinion on it.
type Toggle struct {
	// ListenerID names the listener, exactly as written: it is never trimmed.
	ListenerID string
	// Enable says whether the listener runs.
	Enable *bool
	// Min is concurrentConsumers, the number of consumers to start with.
	Min *int
	// Max is maxConcurrentConsumers, the number that scaling may reach.
	Max *int
	// Reason says in a user's words why the toggle is as it is.
	Reason *string
	// UpdatedBy names who wrote the toggle last.
	UpdatedBy *string
	// UpdatedAt is the RFC 3339 time of that, as written.
	UpdatedAt *string
	// PauseAt is the RFC 3339 time of a planned pause, as written.
	PauseAt *string
	// ResumeAt is the RFC 3339 time at which the listener resumes, as written.
	ResumeAt *string
	// Queue names the queue of a listener that no instance reports.
	Queue *string
}

// UpdatedTime returns UpdatedAt as a time, and false if it is absent.
func (t Toggle) UpdatedTime() (time.Time, bool) { return timeOf(t.UpdatedAt) }

// PauseTime returns PauseAt as a time, and false if it is absent.
func (t Toggle) PauseTime() (time.Time, bool) { return timeOf(t.PauseAt) }

// ResumeTime returns ResumeAt as a time, and false if it is absent.
func (t Toggle) ResumeTime() (time.Time, bool) { return timeOf(t.ResumeAt) }

func timeOf(text *string) (time.Time, bool) {
	if text == nil {
		return time.Time{}, false
	}
	return parseTime(*text)
}

// Entry is one element of the file's list of consumers.
type Entry struct {
	// Index is the entry's place in the list, as written.
	Index int
	// Line is the entry's first line, counted from 1.
	Line int
	// Named says whether the entry has a listenerId at all; one that is there
	// but empty counts.
	Named bool
	Toggle
}

// File is what a toggle file says. It is not changed after [Parse] has made it
// and may be shared.
type File struct {
	// Entries are the entries by rising index, those with faults included.
	Entries []Entry
	// Warnings are the faults found, sorted by line, then code.
	Warnings []Problem
	// Fatal is set when nothing can be read; Entries and Warnings are then empty.
	Fatal *Problem
}

// Unreadable says in words where and why nothing of the file can be read, "" where it
// can.
func (f *File) Unreadable() string {
	if f == nil || f.Fatal == nil {
		return ""
	}
	return fmt.Sprintf("cannot be read, line %d: %s", f.Fatal.Line, f.Fatal.Text)
}

// InForce returns one toggle for each listener that the file names, by the
// lowest index that names it. Where several entries name the same listener, the
// last value that is not absent wins, field by field and by rising index. This
// is what a service ends with that applies the entries one after the other.
// Entries without a listenerId, or with a blank one, are left out.
func (f *File) InForce() []Toggle {
	if f == nil {
		return nil
	}
	toggles := make([]Toggle, 0, len(f.Entries))
	at := make(map[string]int, len(f.Entries))
	for _, e := range f.Entries {
		if !e.Named || isBlank(e.ListenerID) {
			continue
		}
		i, seen := at[e.ListenerID]
		if !seen {
			at[e.ListenerID] = len(toggles)
			toggles = append(toggles, e.Toggle)
			continue
		}
		toggles[i].overlay(e.Toggle)
	}
	return toggles
}

// Lookup returns the toggle in force for a listener, and false if no entry
// names it.
func (f *File) Lookup(listenerID string) (Toggle, bool) {
	found := false
	var toggle Toggle
	if f == nil || isBlank(listenerID) {
		return toggle, false
	}
	for _, e := range f.Entries {
		if !e.Named || e.ListenerID != listenerID {
			continue
		}
		if !found {
			toggle, found = e.Toggle, true
			continue
		}
		toggle.overlay(e.Toggle)
	}
	return toggle, found
}

// overlay puts the values of over that are not absent over those of t.
func (t *Toggle) overlay(over Toggle) {
	t.Enable = either(over.Enable, t.Enable)
	t.Min = either(over.Min, t.Min)
	t.Max = either(over.Max, t.Max)
	t.Reason = either(over.Reason, t.Reason)
	t.UpdatedBy = either(over.UpdatedBy, t.UpdatedBy)
	t.UpdatedAt = either(over.UpdatedAt, t.UpdatedAt)
	t.PauseAt = either(over.PauseAt, t.PauseAt)
	t.ResumeAt = either(over.ResumeAt, t.ResumeAt)
	t.Queue = either(over.Queue, t.Queue)
}

func either[T any](first, second *T) *T {
	if first != nil {
		return first
	}
	return second
}

// Worst returns the most harmful of the file's problems by [Problem.Class], the
// first of them where several are alike, and nil if there is none.
func (f *File) Worst() *Problem {
	if f == nil {
		return nil
	}
	if f.Fatal != nil {
		return f.Fatal
	}
	var worst *Problem
	for i := range f.Warnings {
		p := &f.Warnings[i]
		if worst == nil || p.Class() > worst.Class() {
			worst = p
		}
	}
	return worst
}

func sortProblems(problems []Problem) {
	sort.SliceStable(problems, func(i, j int) bool {
		if problems[i].Line != problems[j].Line {
			return problems[i].Line < problems[j].Line
		}
		return problems[i].Code < problems[j].Code
	})
}

// Parse reads a toggle file. It reads what can be read and never panics; what is
// wrong with the file stands in the result's Warnings or Fatal.
func Parse(f Format, text []byte) *File {
	return read(f, text).file()
}
