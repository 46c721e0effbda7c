package toggle

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// tokenKind is what the scanner tells the parser.
type tokenKind int

const (
	tokStreamEnd tokenKind = iota
	tokDirective
	tokDocStart
	tokDocEnd
	tokBlockSeq
	tokBlockMap
	tokBlockEnd
	tokFlowSeqStart
	tokFlowSeqEnd
	tokFlowMapStart
	tokFlowMapEnd
	tokBlockEntry
	tokFlowEntry
	tokKey
	tokValue
	tokAlias
	tokAnchor
	tokTag
	tokScalar
)

var tokenNames = [...]string{"the end of the file", "a directive", "a document start", "a document end", "a block sequence", "a block mapping",
	"the end of the block", "'['", "']'", "'{'", "'}'", "'-'", "','", "'?'", "':'", "an alias", "an anchor", "a tag", "a scalar"}

func (k tokenKind) String() string { return tokenNames[k] }

// token is one token with its place in the text.
type token struct {
	kind       tokenKind
	start, end int
	text       string // of a scalar, an alias, an anchor, a tag
	style      byte   // of a scalar: 0 plain, ', ", |, >
	explicit   bool   // a key with its own question mark
}

// yamlError is a syntax error at a place.
type yamlError struct {
	at   int
	code Code
	text string
}

func (e *yamlError) Error() string { return e.text }

// simpleKey is a place where a key without a question mark may have begun.
type simpleKey struct {
	number     int // of its first token
	required   bool
	at         int
	row, col   int
	registered bool
}

// scanner cuts YAML 1.1 into tokens, the way SnakeYAML does: where it accepts
// more or less than the standard, so does this. It panics with a *yamlError.
type scanner struct {
	text     []byte
	pos      int
	row, col int // the column counts bytes; only ASCII can stand before what it is used for

	store    []token // what tokens is made of
	tokens   []token
	taken    int
	done     bool
	flow     int
	indent   int
	indents  []int
	allowKey bool        // a simple key may start here
	keys     []simpleKey // by flow level
}

func newScanner(text []byte, from int) *scanner {
	store := make([]token, 0, 16)
	return &scanner{store: store, tokens: store, text: text, pos: from, indent: -1, allowKey: true, keys: make([]simpleKey, 1)}
}

func (s *scanner) fail(at int, format string, args ...any) {
	panic(&yamlError{at: at, code: YAMLSyntax, text: fmt.Sprintf(format, args...)})
}

// peek returns the byte at a distance, 0 behind the end.
func (s *scanner) peek(n int) byte {
	if s.pos+n < len(s.text) {
		return s.text[s.pos+n]
	}
	return 0
}

func (s *scanner) atEnd() bool { return s.pos >= len(s.text) }

// breakLen returns the length of the line break at a distance, 0 if there is
// none there.
func (s *scanner) breakLen(n int) int {
	rest := s.text[min(s.pos+n, len(s.text)):]
	if len(rest) == 0 {
		return 0
	}
	switch rest[0] {
	case '\n':
		return 1
	case '\r':
		if len(rest) > 1 && rest[1] == '\n' {
			return 2
		}
		return 1
	case 0xc2:
		if len(rest) > 1 && rest[1] == 0x85 {
			return 2
		}
	case 0xe2:
		if len(rest) > 2 && rest[1] == 0x80 && (rest[2] == 0xa8 || rest[2] == 0xa9) {
			return 3
		}
	}
	return 0
}

// gap says whether a blank, a tab, a line break or the end stands at a distance.
func (s *scanner) gap(n int) bool {
	if s.pos+n >= len(s.text) {
		return true
	}
	c := s.text[s.pos+n]
	if c > ' ' && c < utf8.RuneSelf {
		return false
	}
	return c == ' ' || c == '\t' || c == 0 || s.breakLen(n) > 0
}

// forward moves over bytes that hold no line break.
func (s *scanner) forward(n int) {
	s.pos += n
	s.col += n
}

// lineBreak moves over one line break and returns it as SnakeYAML reads it.
func (s *scanner) lineBreak() string {
	n := s.breakLen(0)
	if n == 0 {
		return ""
	}
	text := "\n"
	if n == 3 {
		text = string(s.text[s.pos : s.pos+3])
	}
	s.pos += n
	s.row++
	s.col = 0
	return text
}

// marker says whether a document start or end stands here.
func (s *scanner) marker(sign string) bool {
	return s.col == 0 && bytes.HasPrefix(s.text[s.pos:], []byte(sign)) && s.gap(3)
}

// check returns the next token without taking it.
func (s *scanner) check() *token {
	for s.needMore() {
		s.fetch()
	}
	return &s.tokens[0]
}

// take returns the next token and moves on.
func (s *scanner) take() token {
	t := *s.check()
	s.taken++
	if s.tokens = s.tokens[1:]; len(s.tokens) == 0 {
		s.tokens = s.store[:0]
	}
	return t
}

func (s *scanner) needMore() bool {
	if s.done {
		return false
	}
	if len(s.tokens) == 0 {
		return true
	}
	s.dropStale()
	for _, k := range s.keys {
		if k.registered && k.number == s.taken {
			return true
		}
	}
	return false
}

// dropStale forgets keys that have become too long or ended with their line.
func (s *scanner) dropStale() {
	const longest = 1024
	for i := range s.keys {
		k := &s.keys[i]
		if k.registered && (k.row != s.row || s.pos-k.at > longest) {
			if k.required {
				s.fail(s.pos, "':' is missing behind a key")
			}
			k.registered = false
		}
	}
}

func (s *scanner) saveKey() {
	required := s.flow == 0 && s.indent == s.col
	if s.allowKey {
		s.removeKey()
		s.keys[s.flow] = simpleKey{s.taken + len(s.tokens), required, s.pos, s.row, s.col, true}
	}
}

func (s *scanner) removeKey() {
	k := &s.keys[s.flow]
	if k.registered && k.required {
		s.fail(s.pos, "':' is missing behind a key")
	}
	k.registered = false
}

func (s *scanner) put(kind tokenKind, length int) {
	s.tokens = append(s.tokens, token{kind: kind, start: s.pos, end: s.pos + length})
	s.forward(length)
}

// unwind ends the blocks that are indented deeper than a column.
func (s *scanner) unwind(col int) {
	for s.flow == 0 && s.indent > col {
		s.indent = s.indents[len(s.indents)-1]
		s.indents = s.indents[:len(s.indents)-1]
		s.tokens = append(s.tokens, token{kind: tokBlockEnd, start: s.pos, end: s.pos})
	}
}

// deepen begins a block at a column if it is deeper than the current one.
func (s *scanner) deepen(col int) bool {
	if s.indent >= col {
		return false
	}
	s.indents = append(s.indents, s.indent)
	s.indent = col
	return true
}

// fetch scans the next token, or several.
func (s *scanner) fetch() {
	s.toNextToken()
	s.dropStale()
	s.unwind(s.col)
	c := s.peek(0)
	switch {
	case s.atEnd():
		s.unwind(-1)
		s.removeKey()
		s.allowKey = false
		s.put(tokStreamEnd, 0)
		s.done = true
	case c == '%' && s.col == 0:
		s.fetchDirective()
	case c == '-' && s.marker("---"):
		s.fetchMarker(tokDocStart)
	case c == '.' && s.marker("..."):
		s.fetchMarker(tokDocEnd)
	case c == '[':
		s.openFlow(tokFlowSeqStart)
	case c == '{':
		s.openFlow(tokFlowMapStart)
	case c == ']':
		s.closeFlow(tokFlowSeqEnd)
	case c == '}':
		s.closeFlow(tokFlowMapEnd)
	case c == ',':
		s.removeKey()
		s.allowKey = true
		s.put(tokFlowEntry, 1)
	case c == '-' && s.gap(1):
		s.fetchBlockEntry()
	case c == '?' && (s.flow > 0 || s.gap(1)):
		s.fetchKey()
	case c == ':' && (s.flow > 0 || s.gap(1)):
		s.fetchValue()
	case c == '*' || c == '&':
		s.fetchAnchor(c)
	case c == '!':
		s.fetchTag()
	case (c == '|' || c == '>') && s.flow == 0:
		s.allowKey = true
		s.removeKey()
		s.blockScalar(c)
	case c == '\'' || c == '"':
		s.saveKey()
		s.allowKey = false
		s.quotedScalar(c)
	case s.plainStart():
		s.saveKey()
		s.allowKey = false
		s.plainScalar()
	default:
		r, _ := utf8.DecodeRune(s.text[s.pos:])
		s.fail(s.pos, "the character %q cannot stand here", r)
	}
}

// toNextToken skips blanks, comments and line breaks, but no tabs.
func (s *scanner) toNextToken() {
	for {
		for s.peek(0) == ' ' {
			s.forward(1)
		}
		if s.peek(0) == '#' {
			s.skipLine()
		}
		if s.lineBreak() == "" {
			return
		}
		if s.flow == 0 {
			s.allowKey = true
		}
	}
}

func (s *scanner) skipLine() {
	for !s.atEnd() && s.breakLen(0) == 0 {
		s.forward(1)
	}
}

func (s *scanner) fetchMarker(kind tokenKind) {
	s.unwind(-1)
	s.removeKey()
	s.allowKey = false
	s.put(kind, 3)
}

func (s *scanner) fetchDirective() {
	s.unwind(-1)
	s.removeKey()
	s.allowKey = false
	start := s.pos
	s.skipLine()
	line, _, _ := strings.Cut(string(s.text[start:s.pos]), " #")
	s.tokens = append(s.tokens, token{kind: tokDirective, start: start, end: s.pos, text: line})
}

func (s *scanner) openFlow(kind tokenKind) {
	s.saveKey()
	s.flow++
	s.keys = append(s.keys[:s.flow], simpleKey{})
	s.allowKey = true
	s.put(kind, 1)
}

func (s *scanner) closeFlow(kind tokenKind) {
	s.removeKey()
	s.flow = max(0, s.flow-1)
	s.keys = s.keys[:s.flow+1]
	s.allowKey = false
	s.put(kind, 1)
}

// openBlock begins a block here, outside of braces and brackets, unless it has
// begun before.
func (s *scanner) openBlock(kind tokenKind, what string) {
	if s.flow > 0 {
		return
	}
	if !s.allowKey {
		s.fail(s.pos, "%s cannot stand here", what)
	}
	if s.deepen(s.col) {
		s.put(kind, 0)
	}
}

func (s *scanner) fetchBlockEntry() {
	s.openBlock(tokBlockSeq, "an item of a list")
	s.allowKey = true
	s.removeKey()
	s.put(tokBlockEntry, 1)
}

func (s *scanner) fetchKey() {
	s.openBlock(tokBlockMap, "a key")
	s.allowKey = s.flow == 0
	s.removeKey()
	s.put(tokKey, 1)
	s.tokens[len(s.tokens)-1].explicit = true
}

func (s *scanner) fetchValue() {
	if k := s.keys[s.flow]; k.registered {
		s.keys[s.flow].registered = false
		at := k.number - s.taken
		s.tokens = slices.Insert(s.tokens, at, token{kind: tokKey, start: k.at, end: k.at})
		if s.flow == 0 && s.deepen(k.col) {
			s.tokens = slices.Insert(s.tokens, at, token{kind: tokBlockMap, start: k.at, end: k.at})
		}
		s.allowKey = false
	} else {
		s.openBlock(tokBlockMap, "a value")
		s.allowKey = s.flow == 0
		s.removeKey()
	}
	s.put(tokValue, 1)
}

func (s *scanner) fetchAnchor(sign byte) {
	s.saveKey()
	s.allowKey = false
	kind := tokAnchor
	if sign == '*' {
		kind = tokAlias
	}
	start := s.pos
	s.forward(1)
	for !s.gap(0) && !strings.ContainsRune(":,[]{}/.*&", rune(s.peek(0))) {
		s.forward(1)
	}
	if s.pos == start+1 || !s.gap(0) && !strings.ContainsRune("?:,]}%@`", rune(s.peek(0))) {
		s.fail(s.pos, "the name of %s cannot be read", kind)
	}
	s.tokens = append(s.tokens, token{kind: kind, start: start, end: s.pos, text: string(s.text[start+1 : s.pos])})
}

func (s *scanner) fetchTag() {
	s.saveKey()
	s.allowKey = false
	start := s.pos
	s.forward(1)
	if s.peek(0) == '<' {
		for !s.gap(0) && s.peek(0) != '>' {
			s.forward(1)
		}
		if s.peek(0) != '>' {
			s.fail(s.pos, "a tag has no end")
		}
		s.forward(1)
	} else {
		for !s.gap(0) && !strings.ContainsRune(",[]{}", rune(s.peek(0))) {
			s.forward(1)
		}
	}
	if !s.gap(0) && (s.flow == 0 || s.peek(0) != ',') {
		s.fail(s.pos, "a blank is missing behind a tag")
	}
	s.tokens = append(s.tokens, token{kind: tokTag, start: start, end: s.pos, text: string(s.text[start:s.pos])})
}
