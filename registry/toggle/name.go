package toggle

import (
	"math"
	"strconv"
	"strings"
)

// field is one known property of an entry.
type field int

const (
	fieldListener field = iota
	fieldEnable
	fieldMin
	fieldMax
	fieldReason
	fieldUpdatedBy
	fieldUpdatedAt
	fieldPauseAt
	fieldResumeAt
	fieldQueue
	fieldCount
)

// fieldWords are the words of each property's name; every spelling is made of
// them.
var fieldWords = [fieldCount][]string{
	fieldListener:  {"listener", "id"},
	fieldEnable:    {"enable"},
	fieldMin:       {"concurrent", "consumers"},
	fieldMax:       {"max", "concurrent", "consumers"},
	fieldReason:    {"reason"},
	fieldUpdatedBy: {"updated", "by"},
	fieldUpdatedAt: {"updated", "at"},
	fieldPauseAt:   {"pause", "at"},
	fieldResumeAt:  {"resume", "at"},
	fieldQueue:     {"queue"},
}

// fieldUniform are the names in bare lower-case letters, fieldDashed those that
// are in force before all other spellings.
var fieldUniform, fieldDashed [fieldCount]string

func init() {
	for f, words := range fieldWords {
		fieldUniform[f] = strings.Join(words, "")
		fieldDashed[f] = strings.Join(words, "-")
	}
}

// String returns the name in camel case, as belay writes it.
func (f field) String() string { return spellCamel.spell(f) }

// short returns the name that the model has for the field.
func (f field) short() string {
	switch f {
	case fieldMin:
		return "min"
	case fieldMax:
		return "max"
	}
	return f.String()
}

// spelling is one way to write property names.
type spelling struct {
	separator   string
	first, rest func(string) string // how the first and the later words are written
}

func title(word string) string { return strings.ToUpper(word[:1]) + word[1:] }

var (
	spellCamel = spelling{"", strings.ToLower, title}
	spellings  = map[string]spelling{
		"listenerId":  spellCamel,
		"listener-id": {"-", strings.ToLower, strings.ToLower},
		"listener_id": {"_", strings.ToLower, strings.ToLower},
		"listenerid":  {"", strings.ToLower, strings.ToLower},
		"LISTENERID":  {"", strings.ToUpper, strings.ToUpper},
		"LISTENER_ID": {"_", strings.ToUpper, strings.ToUpper},
		"LISTENER-ID": {"-", strings.ToUpper, strings.ToUpper},
		"ListenerId":  {"", title, title},
	}
)

func (s spelling) spell(f field) string {
	words := fieldWords[f]
	out := make([]string, len(words))
	for i, word := range words {
		if i == 0 {
			out[i] = s.first(word)
		} else {
			out[i] = s.rest(word)
		}
	}
	return strings.Join(out, s.separator)
}

// spellingOf returns the spelling of an entry whose listenerId key ends like
// this.
func spellingOf(last string) spelling {
	if s, ok := spellings[last]; ok {
		return s
	}
	return spellCamel
}

// element is one part of a key path; start and end are its place in the path,
// without brackets.
type element struct {
	text       string
	start, end int
	bracketed  bool
}

// is tells whether the element is this name, as Spring's relaxed binding
// compares: the letters and digits of a bare one, a bracketed one literally.
func (e element) is(uniform string) bool {
	if e.bracketed {
		return e.text == uniform
	}
	n := 0
	for i := 0; i < len(e.text); i++ {
		c := e.text[i]
		switch {
		case c >= 'A' && c <= 'Z':
			c += 'a' - 'A'
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
		default:
			continue
		}
		if n >= len(uniform) || uniform[n] != c {
			return false
		}
		n++
	}
	return n == len(uniform)
}

// index returns the element as an index: 0, or digits without a leading zero.
func (e element) index() (int, bool) {
	text := e.text
	if len(text) == 0 || len(text) > 10 || (text[0] == '0' && len(text) > 1) {
		return 0, false
	}
	n := 0
	for i := 0; i < len(text); i++ {
		if text[i] < '0' || text[i] > '9' {
			return 0, false
		}
		n = n*10 + int(text[i]-'0')
	}
	return n, n <= math.MaxInt32
}

// nextElement cuts the first element off a path from an offset on. It reports
// false when there is none left. Empty elements do not count.
func nextElement(path string, from int) (element, int, bool) {
	i := from
	for i < len(path) {
		switch path[i] {
		case '.':
			i++
		case '[':
			end := closing(path, i)
			if end < 0 { // an open bracket: the rest is one bare element
				return element{path[i+1:], i + 1, len(path), false}, len(path), i+1 < len(path)
			}
			if end == i+1 {
				i = end + 1
				continue
			}
			return element{path[i+1 : end], i + 1, end, true}, end + 1, true
		default:
			end := i
			for end < len(path) && path[end] != '.' && path[end] != '[' {
				end++
			}
			return element{path[i:end], i, end, false}, end, true
		}
	}
	return element{}, i, false
}

// closing returns the place of the bracket that closes the one at open, or -1.
func closing(path string, open int) int {
	depth := 0
	for i := open; i < len(path); i++ {
		switch path[i] {
		case '[':
			depth++
		case ']':
			depth--
			if depth == 0 {
				return i
			}
		}
	}
	return -1
}

// target is what a key path means for a toggle file.
type target int

const (
	outside     target = iota // not under rabbitmq.toggle
	unknown                   // under it, but nothing known
	theList                   // rabbitmq.toggle.consumers itself
	theEntry                  // one entry itself
	entryField                // a known property of an entry
	entryOther                // an unknown key of an entry
	badIndex                  // an element in brackets that is no index
	theToggle                 // rabbitmq.toggle itself
	theRabbitMQ               // rabbitmq itself
)

// place is a key path understood.
type place struct {
	target target
	index  int     // of the entry
	at     element // the index in the path
	field  field
	last   element // the last element read
}

const listPath = "rabbitmq.toggle.consumers"

var listNames = [...]string{"rabbitmq", "toggle", "consumers"}

// locate understands a full key path.
func locate(path string) place {
	var p place
	offset := 0
	var (
		e  element
		ok bool
	)
	if strings.HasPrefix(path, listPath) && (len(path) == len(listPath) || path[len(listPath)] == '[' || path[len(listPath)] == '.') {
		offset = len(listPath)
	} else {
		for level, name := range listNames {
			if e, offset, ok = nextElement(path, offset); !ok {
				return place{target: [...]target{outside, theRabbitMQ, theToggle}[level]}
			}
			if !e.is(name) {
				if level == 2 {
					return place{target: unknown}
				}
				return place{target: outside}
			}
		}
	}
	if e, offset, ok = nextElement(path, offset); !ok {
		return place{target: theList}
	}
	p.at, p.last = e, e
	if p.index, ok = e.index(); !ok {
		p.target = unknown
		if e.bracketed {
			p.target = badIndex
		}
		return p
	}
	if e, offset, ok = nextElement(path, offset); !ok {
		p.target = theEntry
		return p
	}
	p.target, p.last = entryOther, e
	if _, _, more := nextElement(path, offset); more {
		return p
	}
	for f := field(0); f < fieldCount; f++ {
		if e.is(fieldUniform[f]) {
			p.target, p.field = entryField, f
			return p
		}
	}
	return p
}

// canonical says whether the path is literally the spelling that Spring looks
// up first.
func (p place) canonical(path string) bool {
	rest, ok := strings.CutPrefix(path, listPath+"[")
	if !ok {
		return false
	}
	rest, ok = strings.CutSuffix(rest, fieldDashed[p.field])
	if !ok {
		return false
	}
	rest, ok = strings.CutSuffix(rest, "].")
	return ok && rest == strconv.Itoa(p.index)
}

// sibling returns the path of another property of the entry that this listenerId
// path belongs to, in the same spelling.
func sibling(path string, index int, f field) string {
	path = strings.TrimPrefix(path, "\ufeff")
	p := locate(path)
	head := path[:p.last.start]
	s := spellCamel
	switch {
	case p.target == theEntry: // the path ends with the index
		head = path
		if !strings.HasSuffix(head, ".") {
			head += "."
		}
	case p.last.bracketed:
		head = strings.TrimSuffix(head, "[") + "."
	default:
		s = spellingOf(p.last.text)
	}
	if index != p.index {
		head = head[:p.at.start] + strconv.Itoa(index) + head[p.at.end:]
	}
	return head + s.spell(f)
}
