package toggle

import (
	"bytes"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// plainStart says whether a plain scalar begins here.
func (s *scanner) plainStart() bool {
	c := s.peek(0)
	if !s.gap(0) && !strings.ContainsRune("-?:,[]{}#&*!|>'\"%@`", rune(c)) {
		return true
	}
	return !s.gap(1) && (c == '-' || s.flow == 0 && (c == '?' || c == ':'))
}

func (s *scanner) plainScalar() {
	start, end := s.pos, s.pos
	indent := s.indent + 1
	var text strings.Builder
	spaces := ""
	for s.peek(0) != '#' {
		n := s.plainRun()
		if n == 0 {
			break
		}
		s.allowKey = false
		text.WriteString(spaces)
		text.Write(s.text[s.pos : s.pos+n])
		s.forward(n)
		end = s.pos
		spaces = s.plainSpaces()
		if spaces == "" || s.peek(0) == '#' || s.flow == 0 && s.col < indent {
			break
		}
	}
	s.tokens = append(s.tokens, token{kind: tokScalar, start: start, end: end, text: text.String()})
}

// plainRun returns the length of the part of a plain scalar that begins here.
func (s *scanner) plainRun() int {
	n := 0
	for !s.gap(n) {
		c := s.peek(n)
		if c == ':' && (s.gap(n+1) || s.flow > 0 && strings.IndexByte(",[]{}", s.peek(n+1)) >= 0) {
			break
		}
		if s.flow > 0 && strings.IndexByte(",[]{}", c) >= 0 {
			break
		}
		n++
	}
	return n
}

// plainSpaces moves over the white space inside a plain scalar, folding lines.
func (s *scanner) plainSpaces() string {
	start := s.pos
	for s.peek(0) == ' ' || s.peek(0) == '\t' {
		s.forward(1)
	}
	blanks := string(s.text[start:s.pos])
	first := s.lineBreak()
	if first == "" {
		return blanks
	}
	s.allowKey = true
	if s.atMarker() {
		return ""
	}
	var breaks strings.Builder
	for {
		if s.peek(0) == ' ' {
			s.forward(1)
			continue
		}
		lb := s.lineBreak()
		if lb == "" {
			break
		}
		breaks.WriteString(lb)
		if s.atMarker() {
			return ""
		}
	}
	return fold(first, breaks.String())
}

func (s *scanner) atMarker() bool {
	rest := s.text[s.pos:]
	return bytes.HasPrefix(rest, []byte("---")) || bytes.HasPrefix(rest, []byte("...")) && s.gap(3)
}

// fold joins lines: one line feed is a space, more are one less.
func fold(first, more string) string {
	if first != "\n" {
		return first + more
	}
	if more == "" {
		return " "
	}
	return more
}

func (s *scanner) quotedScalar(quote byte) {
	start := s.pos
	var text strings.Builder
	s.forward(1)
	for {
		s.quotedRun(quote, &text)
		if s.peek(0) == quote && !s.atEnd() {
			break
		}
		s.quotedSpaces(&text)
	}
	s.forward(1)
	s.tokens = append(s.tokens, token{kind: tokScalar, start: start, end: s.pos, text: text.String(), style: quote})
}

// quotedRun reads up to white space or the closing quote.
func (s *scanner) quotedRun(quote byte, text *strings.Builder) {
	for {
		n := 0
		for !s.gap(n) && s.peek(n) != quote && (quote == '\'' || s.peek(n) != '\\') {
			n++
		}
		text.Write(s.text[s.pos : s.pos+n])
		s.forward(n)
		switch {
		case s.atEnd():
			return
		case quote == '\'' && s.peek(0) == '\'' && s.peek(1) == '\'':
			text.WriteByte('\'')
			s.forward(2)
		case quote == '"' && s.peek(0) == '\\':
			s.escape(text)
		default:
			return
		}
	}
}

var yamlEscapes = map[byte]string{'0': "\x00", 'a': "\a", 'b': "\b", 't': "\t", '\t': "\t", 'n': "\n", 'v': "\v", 'f': "\f", 'r': "\r", 'e': "\x1b",
	' ': " ", '"': `"`, '/': "/", '\\': `\`, 'N': "\u0085", '_': "\u00a0", 'L': "\u2028", 'P': "\u2029"}

// escape reads one escape of a double-quoted scalar.
func (s *scanner) escape(text *strings.Builder) {
	s.forward(1)
	c := s.peek(0)
	if plain, ok := yamlEscapes[c]; ok && !s.atEnd() {
		text.WriteString(plain)
		s.forward(1)
		return
	}
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
	if digits == 0 {
		if s.lineBreak() == "" {
			s.fail(s.pos, "the escape \\%c is unknown", c)
		}
		text.WriteString(s.quotedBreaks())
		return
	}
	s.forward(1)
	r := s.hex(digits)
	if utf16.IsSurrogate(r) && s.peek(0) == '\\' && s.peek(1) == 'u' {
		if low, ok := hexRune(string(s.text[s.pos+2:min(s.pos+6, len(s.text))]), 4); ok {
			if both := utf16.DecodeRune(r, low); both != utf8.RuneError {
				r = both
				s.forward(6)
			}
		}
	}
	text.WriteRune(r)
}

func (s *scanner) hex(digits int) rune {
	r, ok := hexRune(string(s.text[s.pos:min(s.pos+digits, len(s.text))]), digits)
	if !ok || r > utf8.MaxRune {
		s.fail(s.pos, "an escape needs %d hex digits", digits)
	}
	s.forward(digits)
	return r
}

// quotedSpaces reads the white space inside quotes, folding lines.
func (s *scanner) quotedSpaces(text *strings.Builder) {
	start := s.pos
	for s.peek(0) == ' ' || s.peek(0) == '\t' {
		s.forward(1)
	}
	if s.atEnd() {
		s.fail(s.pos, "a quoted text has no end")
	}
	blanks := s.text[start:s.pos]
	first := s.lineBreak()
	if first == "" {
		text.Write(blanks)
		return
	}
	text.WriteString(fold(first, s.quotedBreaks()))
}

func (s *scanner) quotedBreaks() string {
	var breaks strings.Builder
	for {
		if s.col == 0 && s.atMarker() && s.gap(3) {
			s.fail(s.pos, "a document ends inside quotes")
		}
		for s.peek(0) == ' ' || s.peek(0) == '\t' {
			s.forward(1)
		}
		lb := s.lineBreak()
		if lb == "" {
			return breaks.String()
		}
		breaks.WriteString(lb)
	}
}

// blockScalar reads a literal or a folded scalar. Its end is that of its last
// line with content; with "+" the blank lines behind belong to it.
func (s *scanner) blockScalar(style byte) {
	start := s.pos
	s.forward(1)
	chomp, increment := s.blockIndicators()
	end := s.blockIgnored()
	var text strings.Builder
	least := max(1, s.indent+1)
	var breaks string
	indent := least + increment - 1
	if increment == 0 {
		var deepest int
		breaks, deepest = s.blockIndentation()
		indent = max(least, deepest)
	} else {
		breaks = s.blockBreaks(indent)
	}
	lb := ""
	for s.col == indent && !s.atEnd() {
		text.WriteString(breaks)
		leading := s.peek(0) == ' ' || s.peek(0) == '\t'
		from := s.pos
		s.skipLine()
		text.Write(s.text[from:s.pos])
		end = s.pos
		lb = s.lineBreak()
		breaks = s.blockBreaks(indent)
		if s.col != indent || s.atEnd() {
			break
		}
		if style == '>' && lb == "\n" && !leading && s.peek(0) != ' ' && s.peek(0) != '\t' {
			if breaks == "" {
				text.WriteByte(' ')
			}
		} else {
			text.WriteString(lb)
		}
	}
	if chomp != '-' {
		text.WriteString(lb)
	}
	if chomp == '+' {
		text.WriteString(breaks)
		end = max(end, s.lineStart())
	}
	s.tokens = append(s.tokens, token{kind: tokScalar, start: start, end: end, text: text.String(), style: style})
}

// lineStart returns the end of the line before this one, without its line end.
func (s *scanner) lineStart() int {
	at := s.pos - s.col
	if at == 0 || s.text[at-1] != '\n' && s.text[at-1] != '\r' {
		return at
	}
	at--
	if s.text[at] == '\n' && at > 0 && s.text[at-1] == '\r' {
		at--
	}
	return at
}

func (s *scanner) blockIndicators() (chomp byte, increment int) {
	for range 2 {
		switch c := s.peek(0); {
		case (c == '+' || c == '-') && chomp == 0:
			chomp = c
			s.forward(1)
		case c >= '0' && c <= '9' && increment == 0:
			if c == '0' {
				s.fail(s.pos, "the indentation of a block must not be 0")
			}
			increment = int(c - '0')
			s.forward(1)
		}
	}
	if !s.gap(0) || s.peek(0) == '\t' {
		s.fail(s.pos, "a block begins with '|' or '>', then '+', '-' or a digit")
	}
	return chomp, increment
}

// blockIgnored skips the rest of a block's first line and returns its end.
func (s *scanner) blockIgnored() int {
	end := s.pos
	for s.peek(0) == ' ' {
		s.forward(1)
	}
	if s.peek(0) == '#' {
		s.skipLine()
	}
	if !s.atEnd() && s.lineBreak() == "" {
		s.fail(s.pos, "only a comment may stand behind '|' or '>'")
	}
	return end
}

func (s *scanner) blockIndentation() (string, int) {
	var breaks strings.Builder
	deepest := 0
	for s.peek(0) == ' ' || s.breakLen(0) > 0 {
		if s.peek(0) == ' ' {
			s.forward(1)
			deepest = max(deepest, s.col)
			continue
		}
		breaks.WriteString(s.lineBreak())
	}
	return breaks.String(), deepest
}

func (s *scanner) blockBreaks(indent int) string {
	var breaks strings.Builder
	for {
		for s.col < indent && s.peek(0) == ' ' {
			s.forward(1)
		}
		lb := s.lineBreak()
		if lb == "" {
			return breaks.String()
		}
		breaks.WriteString(lb)
	}
}
