package toggle

import (
	"fmt"
	"sort"
)

// pair is one key and value of a file, by its full path.
type pair struct {
	name  string
	line  int
	value value
	item  bool      // no value, only the place where a YAML entry begins
	at    int       // properties: the logical line
	doc   int       // YAML: the document; there the same key in another one is no fault
	site  *yamlSite // YAML: where it stands
	target
	field field
	index int // of the entry
}

// place understands the pair's path in full.
func (p *pair) place() place { return locate(p.name) }

// property is what the pairs of one entry say on one field.
type property struct {
	count   int // how many pairs
	inForce int // an index into the model's pairs; -1 if there is none
}

// entry is one entry with the pairs that belong to it.
type entry struct {
	Entry
	pairs  []int // in file order, unknown keys included
	fields [fieldCount]property
}

// model is a file understood: what it says, and which pair says it.
type model struct {
	pairs    []pair
	entries  []*entry // by rising index
	warnings []Problem
	fatal    *Problem
	doc      document
}

func (m *model) file() *File {
	if m.fatal != nil {
		return &File{Fatal: m.fatal}
	}
	f := &File{Warnings: m.warnings}
	if len(m.entries) > 0 {
		f.Entries = make([]Entry, len(m.entries))
		for i, e := range m.entries {
			f.Entries[i] = e.Entry
		}
	}
	return f
}

// read parses a text into a model.
func read(f Format, text []byte) *model {
	if f == YAML {
		return readYAML(text)
	}
	return readProperties(text)
}

func (m *model) fail(code Code, line int, text string) *model {
	m.fatal = &Problem{Code: code, Line: line, Text: text}
	m.pairs, m.entries, m.warnings = nil, nil, nil
	return m
}

func (m *model) warn(code Code, line int, key, value, format string, args ...any) {
	m.warnings = append(m.warnings, Problem{Code: code, Line: line, Key: key, Value: value, Text: fmt.Sprintf(format, args...)})
}

func (m *model) warnAt(code Code, p *pair, format string, args ...any) {
	m.warn(code, p.line, p.name, p.value.written, format, args...)
}

// quote makes outside text fit for a sentence.
func quote(text string) string {
	const most = 60
	if len(text) <= most {
		return fmt.Sprintf("%q", text)
	}
	cut := 0
	for i := range text {
		if i > most {
			break
		}
		cut = i
	}
	return fmt.Sprintf("%q…", text[:cut])
}

// understand turns the pairs into entries and finds what is wrong with them.
func (m *model) understand() {
	byIndex := make(map[int]*entry)
	seen := make(map[string]int, len(m.pairs))
	var list []int
	for i := range m.pairs {
		p := &m.pairs[i]
		place := locate(p.name)
		p.target, p.field, p.index = place.target, place.field, place.index
		if p.target == outside || p.target == theRabbitMQ {
			continue
		}
		if !p.item {
			if doc, again := seen[p.name]; again && doc == p.doc {
				m.warnAt(DuplicateKey, p, "%s stands here again; the last one counts", quote(p.name))
			}
			seen[p.name] = p.doc
		}
		switch p.target {
		case theList:
			list = append(list, i)
		case badIndex:
			m.warnAt(BadIndex, p, "%s is no index", quote("["+place.at.text+"]"))
		case unknown, theToggle:
			if p.target == unknown && !p.item || p.value.text != "" {
				m.warnAt(UnknownKey, p, "%s is no key of a toggle file", quote(p.name))
			}
		default:
			m.addToEntry(byIndex, i)
		}
	}
	m.entries = make([]*entry, 0, len(byIndex))
	for _, e := range byIndex {
		m.entries = append(m.entries, e)
	}
	sort.Slice(m.entries, func(i, j int) bool { return m.entries[i].Index < m.entries[j].Index })
	m.checkList(list)
	m.checkGap()
	byListener := make(map[string]int)
	for _, e := range m.entries {
		m.evaluate(e)
		m.checkListener(e, byListener)
	}
}

func (m *model) addToEntry(byIndex map[int]*entry, i int) {
	p := &m.pairs[i]
	e := byIndex[p.index]
	if e == nil {
		e = &entry{Entry: Entry{Index: p.index, Line: p.line}, pairs: make([]int, 0, 8)}
		for f := range e.fields {
			e.fields[f].inForce = -1
		}
		byIndex[p.index] = e
	}
	e.Line = min(e.Line, p.line)
	e.pairs = append(e.pairs, i)
	switch p.target {
	case entryField:
		prop := &e.fields[p.field]
		prop.count, prop.inForce = prop.count+1, i
	case entryOther:
		m.warnAt(UnknownKey, p, "%s is no key of an entry", quote(p.name))
	case theEntry:
		if !p.item && p.value.text != "" {
			m.warnAt(UnknownKey, p, "an entry has keys, no value of its own")
		}
	}
}

// of returns the pairs of one field of an entry, in file order.
func (m *model) of(e *entry, f field) []int {
	var list []int
	for _, i := range e.pairs {
		if m.pairs[i].target == entryField && m.pairs[i].field == f {
			list = append(list, i)
		}
	}
	return list
}

// choose finds which of several pairs of one property is in force, and warns of
// the other spellings.
func (m *model) choose(pairs []int, canonical func(*pair) bool) int {
	chosen := pairs[len(pairs)-1]
	for _, i := range pairs {
		if canonical(&m.pairs[i]) {
			chosen = i // of equal names the last
		}
	}
	inForce := &m.pairs[chosen]
	last := make(map[string]int)
	for _, i := range pairs {
		last[m.pairs[i].name] = i
	}
	for name, i := range last {
		if name != inForce.name {
			m.warnAt(AmbiguousKey, &m.pairs[i], "the same as %s in line %d, which counts here; services may take either", quote(inForce.name), inForce.line)
		}
	}
	return chosen
}

func (m *model) checkList(list []int) {
	if len(list) == 0 {
		return
	}
	p := &m.pairs[m.choose(list, func(p *pair) bool { return p.name == listPath })]
	if p.value.text == "" && len(m.entries) == 0 {
		return
	}
	m.warnAt(ConsumersValue, p, "the list of consumers has a value of its own, %s", quote(p.value.written))
}

func (m *model) checkGap() {
	line, missing := 0, -1
	for i, e := range m.entries {
		if missing < 0 && e.Index != i {
			missing, line = i, e.Line
		}
		if missing >= 0 {
			line = min(line, e.Line)
		}
	}
	if missing >= 0 {
		m.warn(IndexGap, line, "", "", "there is no entry [%d]", missing)
	}
}

// evaluate reads the values in force of an entry.
func (m *model) evaluate(e *entry) {
	for f := range e.fields {
		if prop := &e.fields[f]; prop.count > 1 {
			prop.inForce = m.choose(m.of(e, field(f)), func(p *pair) bool { return p.place().canonical(p.name) })
		}
	}
	bound := m.evaluateListener(e)
	var has bool
	e.Enable, has = m.boolean(e, fieldEnable)
	bound = bound || has
	e.Min, has = m.integer(e, fieldMin)
	bound = bound || has
	e.Max, has = m.integer(e, fieldMax)
	bound = bound || has
	e.Reason = m.text(e, fieldReason)
	e.UpdatedBy = m.text(e, fieldUpdatedBy)
	e.Queue = m.text(e, fieldQueue)
	e.UpdatedAt = m.time(e, fieldUpdatedAt)
	e.PauseAt = m.time(e, fieldPauseAt)
	e.ResumeAt = m.time(e, fieldResumeAt)
	if !bound {
		m.warn(UnboundEntry, e.Line, "", "", "entry [%d] has neither listenerId nor enable nor concurrency", e.Index)
	}
	if e.Min != nil && e.Max != nil && *e.Max < *e.Min {
		m.warnAt(MaxBelowMin, m.inForce(e, fieldMax), "the maximum %d is below the minimum %d", *e.Max, *e.Min)
	}
	pause, planned := e.PauseTime()
	resume, ends := e.ResumeTime()
	if planned && ends && !pause.Before(resume) {
		m.warnAt(WindowEmpty, m.inForce(e, fieldResumeAt), "pauseAt %s is not before resumeAt %s", quote(*e.PauseAt), quote(*e.ResumeAt))
	}
	if bound && (!e.Named || isBlank(e.ListenerID)) {
		if p := m.inForce(e, fieldListener); p != nil {
			m.warnAt(BlankListener, p, "the listenerId is blank")
		} else {
			m.warn(BlankListener, e.Line, "", "", "entry [%d] has no listenerId", e.Index)
		}
	}
}

func (m *model) inForce(e *entry, f field) *pair {
	if i := e.fields[f].inForce; i >= 0 {
		return &m.pairs[i]
	}
	return nil
}

func (m *model) evaluateListener(e *entry) (bound bool) {
	p := m.inForce(e, fieldListener)
	if p == nil {
		return false
	}
	e.Named, e.ListenerID = true, p.value.text
	return true
}

// checkListener warns of listenerIds that are hardly meant like this.
func (m *model) checkListener(e *entry, byListener map[string]int) {
	p := m.inForce(e, fieldListener)
	if p == nil || isBlank(e.ListenerID) {
		return
	}
	if p.value.placeholder() {
		m.warnAt(Placeholder, p, "only a service's environment can resolve %s", quote(p.value.text))
	}
	if p.value.kind != kindText && p.value.text != p.value.written {
		m.warnAt(ListenerNotText, p, "YAML reads %s as %s; put it in quotes", quote(p.value.written), quote(p.value.text))
	}
	if spaceAtEnds(e.ListenerID) {
		m.warnAt(ListenerSpace, p, "the listenerId %s starts or ends with white space, which belongs to it", quote(e.ListenerID))
	}
	if first, ok := byListener[e.ListenerID]; ok {
		m.warnAt(DuplicateListener, p, "%s stands in entry [%d], too", quote(e.ListenerID), first)
		return
	}
	byListener[e.ListenerID] = e.Index
}

// boolean returns the value in force; has says whether Spring binds something.
func (m *model) boolean(e *entry, f field) (b *bool, has bool) {
	return convert(m, e, f, BadBoolean, "%s %s is no boolean: write true or false", value.toBool)
}

func (m *model) integer(e *entry, f field) (n *int, has bool) {
	if n, has = convert(m, e, f, BadInteger, "%s %s is no number", value.toInt); n != nil && *n < 1 {
		m.warnAt(OutOfRange, m.inForce(e, f), "%s %d is below 1", f, *n)
	}
	return n, has
}

// convert reads a value in force that Spring converts.
func convert[T any](m *model, e *entry, f field, bad Code, text string, to func(value) (v T, absent, ok bool)) (v *T, has bool) {
	p := m.inForce(e, f)
	if p == nil {
		return nil, false
	}
	if p.value.placeholder() {
		m.warnAt(Placeholder, p, "only a service's environment can resolve %s", quote(p.value.text))
		return nil, true
	}
	read, absent, ok := to(p.value)
	switch {
	case !ok:
		m.warnAt(bad, p, text, f, quote(p.value.written))
		return nil, true
	case absent:
		return nil, false
	}
	return &read, true
}

func (m *model) text(e *entry, f field) *string {
	p := m.inForce(e, f)
	if p == nil {
		return nil
	}
	text := p.value.text
	return &text
}

func (m *model) time(e *entry, f field) *string {
	p := m.inForce(e, f)
	if p == nil {
		return nil
	}
	text, absent, ok := p.value.toTime()
	if !ok {
		m.warnAt(BadTime, p, "%s %s is no time like 2026-01-02T03:04:05Z", f, quote(p.value.written))
	}
	if absent || !ok {
		return nil
	}
	return &text
}

// find returns the entry that an edit of a listener concerns: of those that name
// it, the one with the highest index.
func (m *model) find(listenerID string) *entry {
	for i := len(m.entries) - 1; i >= 0; i-- {
		if m.entries[i].Named && m.entries[i].ListenerID == listenerID {
			return m.entries[i]
		}
	}
	return nil
}

// finish sorts the warnings once all are found.
func (m *model) finish() *model {
	sortProblems(m.warnings)
	return m
}
