package toggle

import "fmt"

// Code names one kind of fault in a toggle file or in an intent.
type Code string

// The faults of a file. What Spring services do with each is told by
// [Code.Class].
const (
	AmbiguousKey      Code = "ambiguous-key"      // several spellings of one property; this one is not in force
	BadBoolean        Code = "bad-boolean"        // unreadable; the value is absent
	BadEscape         Code = "bad-escape"         // fatal: \u without four hex digits
	BadIndex          Code = "bad-index"          // the text in brackets is no index
	BadInteger        Code = "bad-integer"        // unreadable; the value is absent
	BadTime           Code = "bad-time"           // not RFC 3339; the value is absent
	BlankListener     Code = "blank-listener"     // an entry with values, but without a listenerId
	BOM               Code = "bom"                // a byte order mark in a properties file
	ConsumersValue    Code = "consumers-value"    // the list has a value of its own
	DocumentSeparator Code = "document-separator" // more than one document with keys
	DuplicateKey      Code = "duplicate-key"      // the same key again; the last wins
	DuplicateListener Code = "duplicate-listener" // the listenerId stands in a lower entry, too
	IndexGap          Code = "index-gap"          // an index is missing
	ListenerNotText   Code = "listener-not-text"  // YAML reads another text than the one written
	ListenerSpace     Code = "listener-whitespace"
	MaxBelowMin       Code = "max-below-min"
	NotUTF8           Code = "not-utf8"
	OutOfRange        Code = "out-of-range" // concurrency below 1
	Placeholder       Code = "placeholder"  // ${…}: only Spring's environment can tell the value
	UnboundEntry      Code = "unbound-entry"
	UnknownKey        Code = "unknown-key"
	WindowEmpty       Code = "window-empty" // pauseAt is not before resumeAt
	YAMLDuplicateKey  Code = "yaml-duplicate-key"
	YAMLSyntax        Code = "yaml-syntax"
)

// The faults that only an edit can have.
const (
	// SharedNode refuses an edit of YAML that is used elsewhere through an
	// anchor, or the removal of a key that is inherited through a merge key.
	SharedNode Code = "shared-node"
	// UnknownListener refuses an edit of a listener that has no entry.
	UnknownListener Code = "unknown-listener"
	// UnsafeEdit refuses an edit whose result would say something else than
	// what was asked for. It guards against layouts that nobody foresaw.
	UnsafeEdit Code = "unsafe-edit"
)

// Class says what a Spring service does with a file that has a fault. Higher
// classes do more harm.
type Class int

const (
	// Harmless faults change nothing.
	Harmless Class = iota
	// Ignores: the key or the value counts for nothing.
	Ignores
	// Resolves: the service takes the value from its own environment.
	Resolves
	// Binds: the value is taken, though it is hardly the one meant.
	Binds
	// Arbitrary: which of several values is taken cannot be told.
	Arbitrary
	// BreaksOff: the entries before this one are applied, this one half, and
	// all after it not at all.
	BreaksOff
	// SeesNothing: the service binds an empty list and looks at no entry.
	SeesNothing
	// Drops: the file counts as absent; a service that starts now starts with
	// all its listeners running.
	Drops
	// Refuses: nothing of the file is applied, without a reason in the log, and
	// the service no longer starts.
	Refuses
	// Poisons: the file is applied once, and no later version is ever seen
	// until the service is restarted.
	Poisons
)

var classNames = [...]string{"harmless", "ignores", "resolves", "binds", "arbitrary", "breaks off", "sees nothing", "drops", "refuses", "poisons"}

// String returns the class as one or two words, such as "breaks off".
func (c Class) String() string {
	if c < 0 || int(c) >= len(classNames) {
		return fmt.Sprintf("class %d", int(c))
	}
	return classNames[c]
}

// Loud says whether the class must be shown loudly, because services do not do
// what the file says.
func (c Class) Loud() bool { return c >= BreaksOff }

// Sentence says what a service does with a file of this class, for a screen:
// "settle-service will not start with this file". It is empty for classes
// without consequences.
func (c Class) Sentence(service string) string {
	switch c {
	case Poisons:
		return service + " applies this file once and sees no later version until it is restarted"
	case Refuses:
		return service + " will not start with this file, and applies nothing of it while it runs"
	case Drops:
		return service + " takes this file as absent: it keeps its old toggles, and after a start all its listeners run"
	case SeesNothing:
		return service + " sees no entry of this file"
	case BreaksOff:
		return service + " stops applying this file at this entry: the entries after it do not count"
	case Arbitrary:
		return service + " may take either value"
	case Binds:
		return service + " takes the value as it stands"
	case Resolves:
		return service + " takes the value from its own environment"
	case Ignores:
		return service + " ignores it"
	}
	return ""
}

// Class returns what Spring services do with a file that has this fault. For
// [ConsumersValue] it is the worse of two; [Problem.Class] is exact.
func (c Code) Class() Class {
	switch c {
	case DocumentSeparator:
		return Poisons
	case BadBoolean, BadIndex, BadInteger, ConsumersValue, IndexGap, UnboundEntry:
		return Refuses
	case BadEscape, YAMLSyntax, YAMLDuplicateKey:
		return Drops
	case MaxBelowMin, OutOfRange:
		return BreaksOff
	case AmbiguousKey:
		return Arbitrary
	case BlankListener, DuplicateKey, DuplicateListener, ListenerNotText, ListenerSpace:
		return Binds
	case Placeholder:
		return Resolves
	case BadTime, UnknownKey, WindowEmpty:
		return Ignores
	}
	return Harmless
}

// Problem is one fault at one place of a file.
type Problem struct {
	Code Code
	// Line is counted from 1; CR LF, CR and LF each end a line.
	Line int
	// Key is the full key as the file has it, where one is concerned.
	Key string
	// Value is the value at fault as the file has it. It is outside text: strip
	// it before it goes to a terminal.
	Value string
	// Text says what is wrong in one sentence without line and code. It quotes
	// keys and values with escapes, so it may go to a terminal.
	Text string
}

// Class returns what Spring services do with a file that has this problem.
func (p Problem) Class() Class {
	if p.Code == ConsumersValue && p.Value == "" {
		return SeesNothing
	}
	return p.Code.Class()
}

// String returns the problem with its line: "line 3: bad-boolean: …".
func (p Problem) String() string {
	return fmt.Sprintf("line %d: %s: %s", p.Line, p.Code, p.Text)
}

// blocks says whether an edit may not leave this problem in a file.
func (p Problem) blocks() bool {
	class := p.Class()
	return class == Refuses || class == SeesNothing || class == Drops || class == Poisons
}
