package toggle

import (
	"errors"
	"fmt"
	"sort"
	"strings"
)

// document is a file of one format, cut up so that it can be edited.
type document interface {
	format() Format
	// replace changes the value of a pair that is in force.
	replace(p *pair, c change) ([]splice, error)
	// insert adds a missing key to an entry.
	insert(m *model, e *entry, c change) ([]splice, error)
	// remove takes one pair away.
	remove(p *pair) ([]splice, error)
	// add makes a new entry; the first change is its listenerId.
	add(m *model, changes []change) ([]splice, error)
}

// splice replaces a part of a text.
type splice struct {
	start, end int
	text       string
}

func apply(text []byte, splices []splice) []byte {
	sort.SliceStable(splices, func(i, j int) bool { return splices[i].start < splices[j].start })
	size := len(text)
	for _, s := range splices {
		size += len(s.text)
	}
	out := make([]byte, 0, size)
	at := 0
	for _, s := range splices {
		if s.start > at {
			out = append(out, text[at:s.start]...)
		}
		out = append(out, s.text...)
		at = max(at, s.end)
	}
	return append(out, text[at:]...)
}

// Edit returns the text with the intents carried out, one after the other. Only
// lines that must change differ; all others stay byte for byte. An intent that
// asks for what the text says already changes nothing.
//
// The error is a [*Refusal] if the edit must not be made: the intent itself is
// bad, the listener is unknown, or the result would have a fault for which
// Spring services would not take the file. With force the faults of the last
// kind that were there before are let through, but never a fatal one, never
// [DocumentSeparator], and none that the edit makes.
func Edit(f Format, text []byte, force bool, intents ...Intent) ([]byte, error) {
	before := read(f, text)
	if before.fatal != nil {
		return nil, &Refusal{Code: before.fatal.Code, Line: before.fatal.Line, Text: before.fatal.Text}
	}
	for _, p := range before.warnings {
		if p.Code == DocumentSeparator {
			return nil, &Refusal{Code: p.Code, Line: p.Line, Text: p.Text}
		}
	}
	e := editor{text: text, model: before}
	for _, in := range intents {
		if err := e.carryOut(in); err != nil {
			return nil, err
		}
	}
	if err := check(before, e.model, force); err != nil {
		return nil, err
	}
	return e.text, nil
}

// Check says whether a whole new text may take the place of another one, by the
// rules of [Edit]: the error is a [*Refusal] if services would not take it. With
// force the faults that before has, too, are let through.
func Check(f Format, before, after []byte, force bool) error {
	new := read(f, after)
	if p := new.fatal; p != nil {
		return refuse(p.Code, p.Line, "%s", p.Text)
	}
	err := check(read(f, before), new, force)
	var refusal *Refusal
	if errors.As(err, &refusal) {
		for _, p := range new.warnings { // the line of the text that is to be written
			if p.Code == refusal.Code && p.Text == refusal.Text {
				refusal.Line = p.Line
				break
			}
		}
	}
	return err
}

// editor holds a text while intents are carried out on it.
type editor struct {
	text  []byte
	model *model
}

// do makes one change and reads the result.
func (e *editor) do(splices []splice, err error) error {
	if err != nil || len(splices) == 0 {
		return err
	}
	format := e.model.doc.format()
	e.text = apply(e.text, splices)
	e.model = read(format, e.text)
	if p := e.model.fatal; p != nil {
		return refuse(UnsafeEdit, 0, "the layout of this file is not understood well enough to edit it: %s", p.Text)
	}
	return nil
}

func (e *editor) carryOut(in Intent) error {
	in.ListenerID = validText(in.ListenerID)
	changes, err := in.changes()
	if err != nil {
		return err
	}
	before := e.model
	target := before.find(in.ListenerID)
	switch {
	case target != nil:
		if err := pairKept(target, changes); err != nil {
			return err
		}
		err = e.change(in.ListenerID, changes)
	case in.Op == Add:
		err = e.add(in.ListenerID, changes)
	default:
		return refuse(UnknownListener, 0, "no entry names the listener %s", quote(in.ListenerID))
	}
	if err != nil {
		return err
	}
	return e.verify(before, target, in.ListenerID, changes)
}

// pairKept refuses a change of concurrency that leaves the maximum below the
// minimum.
func pairKept(e *entry, changes []change) error {
	low, high, touched := e.Min, e.Max, false
	for _, c := range changes {
		if c.field != fieldMin && c.field != fieldMax {
			continue
		}
		touched = true
		var n *int
		if !c.null {
			v := int(c.want.int)
			n = &v
		}
		if c.field == fieldMin {
			low = n
		} else {
			high = n
		}
	}
	if touched && low != nil && high != nil && *high < *low {
		return refuse(MaxBelowMin, 0, "the maximum %d would be below the minimum %d", *high, *low)
	}
	return nil
}

// change brings an entry to what is wanted: removals one by one, then all else at
// once, values in place before missing keys.
func (e *editor) change(listenerID string, changes []change) error {
	for _, c := range changes {
		for c.null {
			target := e.model.find(listenerID)
			if target == nil {
				break
			}
			pairs := e.model.of(target, c.field)
			if len(pairs) == 0 {
				break
			}
			if err := e.do(e.model.doc.remove(&e.model.pairs[pairs[len(pairs)-1]])); err != nil {
				return err
			}
		}
	}
	target := e.model.find(listenerID)
	if target == nil {
		return refuse(UnsafeEdit, 0, "the entry of %s was lost on the way", quote(listenerID))
	}
	var inPlace, missing []splice
	for _, c := range changes {
		if c.null || c.reads(target) {
			continue
		}
		if p := e.model.inForce(target, c.field); p != nil {
			splices, err := e.model.doc.replace(p, c)
			if err != nil {
				return err
			}
			inPlace = append(inPlace, splices...)
			continue
		}
		splices, err := e.model.doc.insert(e.model, target, c)
		if err != nil {
			return err
		}
		missing = append(missing, splices...)
	}
	return e.do(append(inPlace, missing...), nil)
}

func (e *editor) add(listenerID string, changes []change) error {
	if strings.Contains(listenerID, "${") {
		return refuse(Placeholder, 0, "a new listenerId must not hold ${")
	}
	if err := pairKept(&entry{}, changes); err != nil {
		return err
	}
	list := []change{{field: fieldListener, want: textValue(listenerID)}}
	for _, c := range changes {
		if !c.null {
			list = append(list, c)
		}
	}
	return e.do(e.model.doc.add(e.model, list))
}

// verify makes sure that the edit did what was asked for and nothing else.
func (e *editor) verify(before *model, old *entry, listenerID string, changes []change) error {
	target := e.model.find(listenerID)
	if target == nil {
		return refuse(UnsafeEdit, 0, "the entry of %s cannot be placed safely in this file", quote(listenerID))
	}
	for _, c := range changes {
		if c.null && target.fields[c.field].count > 0 || !c.null && !c.reads(target) {
			return refuse(UnsafeEdit, 0, "%s of %s cannot be changed safely in this file", c.field, quote(listenerID))
		}
	}
	if old != nil && !target.keeps(old, changes) {
		return refuse(UnsafeEdit, 0, "an edit of %s would change other values of it, too", quote(listenerID))
	}
	others := len(before.entries)
	if old != nil {
		others--
	}
	i, same := 0, 0
	for _, was := range before.entries {
		if was == old {
			continue
		}
		for i < len(e.model.entries) && e.model.entries[i].Index < was.Index {
			i++
		}
		if i < len(e.model.entries) && e.model.entries[i].says(was) {
			same++
		}
	}
	if same != others || len(e.model.entries) > others+1 {
		return refuse(UnsafeEdit, 0, "an edit of %s would change other entries of this file, too", quote(listenerID))
	}
	return nil
}

// says tells whether two entries read the same.
func (e *entry) says(other *entry) bool {
	return e.Index == other.Index && e.Named == other.Named && e.ListenerID == other.ListenerID && e.keeps(other, nil)
}

// keeps tells whether two entries read the same but for some fields. A line end
// at the end of a text does not count: a block of YAML at the end of a file gets
// one as soon as something is put behind it.
func (e *entry) keeps(other *entry, but []change) bool {
	var changed [fieldCount]bool
	for _, c := range but {
		changed[c.field] = true
	}
	for f := fieldEnable; f < fieldCount; f++ {
		a, b := e.print(f), other.print(f)
		if !changed[f] && ((a == nil) != (b == nil) || a != nil && strings.TrimRight(*a, "\n") != strings.TrimRight(*b, "\n")) {
			return false
		}
	}
	return true
}

// check refuses a result that services would not take.
func check(before, after *model, force bool) error {
	type fault struct {
		code Code
		key  string
	}
	old := make(map[fault][]int)
	for _, p := range before.warnings {
		if p.blocks() {
			old[fault{p.Code, p.Key}] = append(old[fault{p.Code, p.Key}], p.Line)
		}
	}
	var first *Refusal
	for _, p := range after.warnings {
		if !p.blocks() {
			continue
		}
		r := &Refusal{Code: p.Code, Text: p.Text}
		id := fault{p.Code, p.Key}
		if lines := old[id]; len(lines) > 0 {
			r.Line, old[id] = lines[0], lines[1:]
			r.Forceable = p.Code != DocumentSeparator
		} else {
			r.Line = before.lineOf(p.Key)
		}
		if force && r.Forceable {
			continue
		}
		if first == nil || first.Forceable && !r.Forceable {
			first = r
		}
	}
	if first == nil {
		return nil
	}
	return first
}

func (m *model) lineOf(key string) int {
	line := 0
	for _, p := range m.pairs {
		if key != "" && p.name == key && !p.item {
			line = p.line
		}
	}
	return line
}

// String describes the intent for logs and audit lines.
func (in Intent) String() string {
	s := fmt.Sprintf("%s %s", in.Op, in.ListenerID)
	changes, err := in.changes()
	if err != nil {
		return s
	}
	for _, c := range changes {
		if c.null {
			s += fmt.Sprintf(" %s=-", c.field)
		} else {
			s += fmt.Sprintf(" %s=%s", c.field, c.text())
		}
	}
	return s
}
