package toggle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// Op is what an [Intent] does to an entry.
type Op string

const (
	// Set changes fields of an entry.
	Set Op = "set"
	// Scale is the same as Set; the word is for the reader.
	Scale Op = "scale"
	// Resume is Set with enable true, and without resumeAt and pauseAt.
	Resume Op = "resume"
	// Add makes a new entry, and is the same as Set if the listener has one.
	Add Op = "add"
)

// Opt is a field of an [Intent] in one of three states: absent (the zero value:
// the file keeps what it has), null (it is removed), or a value.
type Opt[T any] struct {
	Present bool
	Value   *T
}

// To returns a field that is set to v.
func To[T any](v T) Opt[T] { return Opt[T]{Present: true, Value: &v} }

// Null returns a field that is removed.
func Null[T any]() Opt[T] { return Opt[T]{Present: true} }

// IsZero says whether the field is absent.
func (o Opt[T]) IsZero() bool { return !o.Present }

// MarshalJSON writes the value, or null.
func (o Opt[T]) MarshalJSON() ([]byte, error) { return json.Marshal(o.Value) }

// UnmarshalJSON reads a value, or null.
func (o *Opt[T]) UnmarshalJSON(data []byte) error {
	*o = Opt[T]{Present: true}
	if bytes.Equal(data, []byte("null")) {
		return nil
	}
	o.Value = new(T)
	return json.Unmarshal(data, o.Value)
}

// Intent is what a user wants changed of one listener. In JSON a field that is
// absent is not there, and one that is removed is null.
type Intent struct {
	Op         Op          `json:"op"`
	ListenerID string      `json:"listenerId"`
	Enable     Opt[bool]   `json:"enable,omitzero"`
	Min        Opt[int]    `json:"min,omitzero"`
	Max        Opt[int]    `json:"max,omitzero"`
	Reason     Opt[string] `json:"reason,omitzero"`
	UpdatedBy  Opt[string] `json:"updatedBy,omitzero"`
	UpdatedAt  Opt[string] `json:"updatedAt,omitzero"`
	PauseAt    Opt[string] `json:"pauseAt,omitzero"`
	ResumeAt   Opt[string] `json:"resumeAt,omitzero"`
	Queue      Opt[string] `json:"queue,omitzero"`
}

// Refusal is the error of an edit that must not be made. Its code says why.
type Refusal struct {
	Code Code
	// Line is the line of the input that stands in the way; 0 if it is the
	// intent itself.
	Line int
	// Text says what is wrong in one sentence.
	Text string
	// Forceable says that the fault was there before and that an edit with
	// force is let through.
	Forceable bool
}

// Error returns the code, the line and the text.
func (r *Refusal) Error() string {
	if r.Line == 0 {
		return fmt.Sprintf("edit refused: %s: %s", r.Code, r.Text)
	}
	return fmt.Sprintf("edit refused: line %d: %s: %s", r.Line, r.Code, r.Text)
}

func refuse(code Code, line int, format string, args ...any) *Refusal {
	return &Refusal{Code: code, Line: line, Text: fmt.Sprintf(format, args...)}
}

// change is one field of an intent.
type change struct {
	field field
	null  bool
	want  value // kindBool, kindInt or kindText
	time  bool
}

// text returns the value as a file has it, without quotes and escapes.
func (c change) text() string { return c.want.text }

// reads says whether the entry reads as wanted already.
func (c change) reads(e *entry) bool {
	switch c.field {
	case fieldListener:
		return e.Named && e.ListenerID == c.want.text
	case fieldEnable:
		return e.Enable != nil && *e.Enable == c.want.bool
	case fieldMin:
		return e.Min != nil && int64(*e.Min) == c.want.int
	case fieldMax:
		return e.Max != nil && int64(*e.Max) == c.want.int
	}
	text := e.textField(c.field)
	return text != nil && *text == c.want.text
}

func (t *Toggle) textField(f field) *string {
	switch f {
	case fieldReason:
		return t.Reason
	case fieldUpdatedBy:
		return t.UpdatedBy
	case fieldUpdatedAt:
		return t.UpdatedAt
	case fieldPauseAt:
		return t.PauseAt
	case fieldResumeAt:
		return t.ResumeAt
	case fieldQueue:
		return t.Queue
	}
	return nil
}

// changes checks an intent and returns its fields in the order in which a file
// has them.
func (in Intent) changes() ([]change, error) {
	switch in.Op {
	case Resume:
		in.Enable = To(true) //nolint:staticcheck // it is read below
		in.PauseAt, in.ResumeAt = Null[string](), Null[string]()
	case Set, Scale, Add:
	default:
		return nil, fmt.Errorf("edit: unknown operation %q", string(in.Op))
	}
	if isBlank(in.ListenerID) {
		return nil, refuse(BlankListener, 0, "a listenerId must not be blank")
	}
	var list []change
	if in.Enable.Present {
		c := change{field: fieldEnable, null: in.Enable.Value == nil}
		if !c.null {
			c.want = value{kind: kindBool, bool: *in.Enable.Value, text: strconv.FormatBool(*in.Enable.Value)}
		}
		list = append(list, c)
	}
	var err error
	if list, err = addNumber(list, fieldMin, in.Min); err != nil {
		return nil, err
	}
	if list, err = addNumber(list, fieldMax, in.Max); err != nil {
		return nil, err
	}
	for _, o := range []struct {
		field field
		opt   Opt[string]
		time  bool
	}{
		{fieldReason, in.Reason, false}, {fieldUpdatedBy, in.UpdatedBy, false}, {fieldUpdatedAt, in.UpdatedAt, true},
		{fieldPauseAt, in.PauseAt, true}, {fieldResumeAt, in.ResumeAt, true}, {fieldQueue, in.Queue, false},
	} {
		if !o.opt.Present {
			continue
		}
		c := change{field: o.field, null: o.opt.Value == nil, time: o.time}
		if !c.null {
			c.want = textValue(validText(*o.opt.Value))
			if _, ok := parseTime(c.want.text); o.time && !ok {
				return nil, refuse(BadTime, 0, "%s %s is no time like 2026-01-02T03:04:05Z", o.field, quote(c.want.text))
			}
		}
		list = append(list, c)
	}
	return list, nil
}

func addNumber(list []change, f field, o Opt[int]) ([]change, error) {
	if !o.Present {
		return list, nil
	}
	c := change{field: f, null: o.Value == nil}
	if !c.null {
		if *o.Value < 1 || *o.Value > math.MaxInt32 {
			return nil, refuse(OutOfRange, 0, "%s %d is not from 1 to %d", f, *o.Value, math.MaxInt32)
		}
		c.want = value{kind: kindInt, int: int64(*o.Value), text: strconv.Itoa(*o.Value)}
	}
	return append(list, c), nil
}
