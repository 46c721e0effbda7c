package toggle

import (
	"fmt"
	"strconv"
)

// Change is one difference between what two files say of a listener.
type Change struct {
	ListenerID string
	// Field is "enable", "min", "max", "reason", "updatedBy", "updatedAt",
	// "pauseAt", "resumeAt" or "queue". It is "listenerId" for a listener that
	// came or went.
	Field string
	// Before and After are the values as text; an absent one is "".
	Before, After string
}

// String returns the change as a sentence: "RefundConsumer: enable true → false".
// Texts that hold anything but printable characters are quoted.
func (c Change) String() string {
	switch {
	case c.Field == fieldListener.short() && c.Before == "":
		return show(c.ListenerID) + ": new in the file"
	case c.Field == fieldListener.short():
		return show(c.ListenerID) + ": no longer in the file"
	}
	return fmt.Sprintf("%s: %s %s → %s", show(c.ListenerID), c.Field, show(c.Before), show(c.After))
}

// show quotes outside text where it must be.
func show(text string) string {
	if text == "" {
		return "absent"
	}
	quoted := strconv.Quote(text)
	if quoted == `"`+text+`"` {
		return text
	}
	return quoted
}

// Diff tells what changes for the listeners from one file to the other, by
// what is in force. A file that cannot be read says nothing, like an absent one.
// Changes are in the order of after's listeners, then of those that are gone.
func Diff(before, after *File) []Change {
	var changes []Change
	was := make(map[string]Toggle)
	for _, t := range before.InForce() {
		was[t.ListenerID] = t
	}
	stays := make(map[string]bool)
	for _, t := range after.InForce() {
		stays[t.ListenerID] = true
		old, known := was[t.ListenerID]
		if !known {
			id := t.ListenerID
			changes = append(changes, Change{ListenerID: id, Field: fieldListener.short(), After: id})
		}
		changes = append(changes, toggleDiff(old, t)...)
	}
	for _, t := range before.InForce() {
		if !stays[t.ListenerID] {
			id := t.ListenerID
			changes = append(changes, toggleDiff(t, Toggle{ListenerID: id})...)
			changes = append(changes, Change{ListenerID: id, Field: fieldListener.short(), Before: id})
		}
	}
	return changes
}

// toggleDiff compares all fields but the listenerId.
func toggleDiff(before, after Toggle) []Change {
	var changes []Change
	for f := fieldEnable; f < fieldCount; f++ {
		a, b := before.print(f), after.print(f)
		if orEmpty(a) != orEmpty(b) {
			changes = append(changes, Change{after.ListenerID, f.short(), orEmpty(a), orEmpty(b)})
		}
	}
	return changes
}

// print returns a field as text.
func (t *Toggle) print(f field) *string {
	var text string
	switch f {
	case fieldEnable:
		if t.Enable == nil {
			return nil
		}
		text = strconv.FormatBool(*t.Enable)
	case fieldMin, fieldMax:
		n := t.Min
		if f == fieldMax {
			n = t.Max
		}
		if n == nil {
			return nil
		}
		text = strconv.Itoa(*n)
	default:
		return t.textField(f)
	}
	return &text
}

func orEmpty(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}
