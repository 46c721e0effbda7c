package toggle

import (
	"bytes"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// logicalLine is a line of a properties file with all its continuations, or a
// blank or a comment.
type logicalLine struct {
	start, end  int // in the text; end includes the line end
	content     int // end of the content of its last natural line, a dangling backslash included
	line        int // of its first natural line
	comment     bool
	pair        bool
	keyStart    int    // in the text
	keyEnd      int    // in the text, behind the key's last character
	valueStart  int    // in the text
	separator   string // without continuations
	dangling    int    // place of a backslash that would swallow a line put behind; -1 if there is none
	key, value  string // escapes still in
	name        string
	eol         string
	firstColumn bool // a comment that starts in the first column
}

// properties is a properties file cut into lines.
type properties struct {
	text  []byte
	src   string // the same, for parts that need no copy
	lines []logicalLine
}

func (d *properties) format() Format { return Properties }

// cutLine returns the end of a natural line's content and of its line end.
func cutLine(text []byte, from int) (content, end int) {
	content = from
	for content < len(text) && text[content] != '\n' && text[content] != '\r' {
		content++
	}
	end = content
	if end < len(text) {
		end++
		if text[content] == '\r' && end < len(text) && text[end] == '\n' {
			end++
		}
	}
	return content, end
}

func isBlankByte(c byte) bool { return c == ' ' || c == '\t' || c == '\f' }

func skipBlanks[T string | []byte](text T, from, to int) int {
	for from < to && isBlankByte(text[from]) {
		from++
	}
	return from
}

// endsOpen says whether a content ends with an odd number of backslashes.
func endsOpen(content []byte) bool {
	n := len(content) - len(bytes.TrimRight(content, `\`))
	return n%2 == 1
}

// readProperties parses a properties file.
func readProperties(text []byte) *model {
	lines := bytes.Count(text, []byte("\n")) + bytes.Count(text, []byte("\r")) + 1
	d := &properties{text: text, src: string(text), lines: make([]logicalLine, 0, lines)}
	m := &model{doc: d, pairs: make([]pair, 0, lines)}
	m.encoding(text, true)
	line := 1
	for at := 0; at < len(text); {
		l, natural := d.cut(at, line)
		if l.pair {
			if bad, key := d.unescape(&l); bad {
				return m.fail(BadEscape, l.line, `\u without four hex digits in `+quote(key))
			}
		}
		d.lines = append(d.lines, l)
		line += natural
		at = l.end
	}
	m.documents(d.lines)
	for i := range d.lines {
		l := &d.lines[i]
		if l.pair && l.name != "" {
			m.pairs = append(m.pairs, pair{name: l.name, line: l.line, value: textValue(l.value), at: i})
		}
	}
	m.understand()
	return m.finish()
}

// encoding warns of bytes that are no UTF-8 and of a byte order mark.
func (m *model) encoding(text []byte, mark bool) {
	if mark && bytes.HasPrefix(text, []byte("\ufeff")) {
		m.warn(BOM, 1, "", "", "the file starts with a byte order mark")
	}
	if utf8.Valid(text) {
		return
	}
	line := 1
	for at := 0; at < len(text); line++ {
		content, end := cutLine(text, at)
		if !utf8.Valid(text[at:content]) {
			m.warn(NotUTF8, line, "", "", "bytes that are no UTF-8 are read as U+FFFD")
		}
		at = end
	}
}

// cut takes one logical line off the text and tells how many natural lines it
// has.
func (d *properties) cut(at, line int) (logicalLine, int) {
	text := d.text
	l := logicalLine{start: at, line: line, dangling: -1}
	content, end := cutLine(text, at)
	first := skipBlanks(text, at, content)
	l.content, l.end, l.eol = content, end, d.src[content:end]
	if first == content {
		return l, 1
	}
	if text[first] == '#' || text[first] == '!' {
		l.comment, l.firstColumn = true, first == at
		return l, 1
	}
	if !endsOpen(text[first:content]) {
		d.split(&l, joined{text: d.src[first:content], first: first})
		return l, 1
	}
	if content-1 == first {
		return l, 1 // nothing but a backslash: the next line starts afresh
	}
	natural := 1
	var j joined
	var parts strings.Builder
	for {
		open := endsOpen(text[first:content])
		stop := content
		if open {
			stop--
		}
		j.parts = append(j.parts, part{parts.Len(), first})
		parts.Write(text[first:stop])
		l.content, l.end, l.eol = content, end, d.src[content:end]
		if !open {
			break
		}
		if end == len(text) {
			l.dangling = content - 1
			break
		}
		next := end
		content, end = cutLine(text, next)
		first = skipBlanks(text, next, content)
		natural++
	}
	j.text = parts.String()
	d.split(&l, j)
	return l, natural
}

// joined is a logical line without its continuations.
type joined struct {
	text  string
	first int    // where it begins in the file
	parts []part // of several natural lines
}

// part is what one natural line gives to a logical one.
type part struct {
	start int // in the joined text
	at    int // in the file
}

// place returns where the character at an offset stands in the file; behind
// says where the one before it ends.
func (j *joined) place(offset int, behind bool) int {
	if len(j.parts) == 0 {
		return j.first + offset
	}
	i := len(j.parts) - 1
	for i > 0 && (j.parts[i].start > offset || (behind && j.parts[i].start == offset)) {
		i--
	}
	return j.parts[i].at + offset - j.parts[i].start
}

// split finds key, separator and value.
func (d *properties) split(l *logicalLine, j joined) {
	text := j.text
	keyEnd := 0
	for keyEnd < len(text) {
		c := text[keyEnd]
		if c == '=' || c == ':' || isBlankByte(c) {
			break
		}
		if c == '\\' {
			keyEnd++
		}
		keyEnd++
	}
	keyEnd = min(keyEnd, len(text))
	valueStart := skipBlanks(text, keyEnd, len(text))
	if valueStart < len(text) && (text[valueStart] == '=' || text[valueStart] == ':') {
		valueStart = skipBlanks(text, valueStart+1, len(text))
	}
	l.pair = true
	l.key, l.separator, l.value = text[:keyEnd], text[keyEnd:valueStart], text[valueStart:]
	l.keyStart = j.place(0, false)
	l.keyEnd = j.place(keyEnd, true)
	l.valueStart = j.place(valueStart, false)
}

// unescape reads the escapes of a pair; it returns the key whose escape is bad.
func (d *properties) unescape(l *logicalLine) (bad bool, key string) {
	var ok bool
	if l.name, ok = unescape(l.key); !ok {
		return true, l.key
	}
	if l.value, ok = unescape(l.value); !ok {
		return true, l.name
	}
	return false, ""
}

// unescape reads the escapes of a key or a value, and bytes that are no UTF-8 as
// U+FFFD. It reports false at a \u without four hex digits.
func unescape(s string) (string, bool) {
	if strings.IndexByte(s, '\\') < 0 {
		return validText(s), true
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); {
		if s[i] != '\\' {
			r, n := utf8.DecodeRuneInString(s[i:])
			out = utf8.AppendRune(out, r)
			i += n
			continue
		}
		if i++; i == len(s) {
			break
		}
		switch s[i] {
		case 't':
			out = append(out, '\t')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 'f':
			out = append(out, '\f')
		case 'u':
			r, ok := hexRune(s[i+1:], 4)
			if !ok {
				return "", false
			}
			i += 4
			if utf16.IsSurrogate(r) && strings.HasPrefix(s[i+1:], `\u`) {
				if low, ok := hexRune(s[i+3:], 4); ok {
					if both := utf16.DecodeRune(r, low); both != utf8.RuneError {
						r = both
						i += 6
					}
				}
			}
			out = utf8.AppendRune(out, r) // half a pair becomes U+FFFD
		default:
			r, n := utf8.DecodeRuneInString(s[i:])
			out = utf8.AppendRune(out, r)
			i += n - 1
		}
		i++
	}
	return string(out), true
}

// hexRune reads a number of hex digits.
func hexRune(s string, digits int) (rune, bool) {
	if len(s) < digits {
		return 0, false
	}
	var r rune
	for i := range digits {
		c := s[i]
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		if r > 0x7ffffff {
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// validText replaces each byte that is no UTF-8 by U+FFFD.
func validText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	out := make([]byte, 0, len(s)+8)
	for _, r := range s {
		out = utf8.AppendRune(out, r)
	}
	return string(out)
}

// documents looks for the separators that Spring Boot's own loader knows: a
// comment of exactly three dashes in the first column that does not follow a
// comment with the same sign, and is not followed by a comment before the next
// key.
func (m *model) documents(lines []logicalLine) {
	text := m.doc.(*properties).text
	var sign byte // of the comment in the line before
	separator := 0
	keys, earlier := false, false // in this document; in one before
	for _, l := range lines {
		switch {
		case l.comment:
			content := bytes.TrimLeft(text[l.start:l.content], " \t\f")
			dashes := bytes.TrimRight(content[1:], " \t\f")
			if l.firstColumn && content[0] != sign && string(dashes) == "---" {
				earlier = earlier || keys
				keys, separator = false, l.line
				continue
			}
			if !keys && earlier { // the comment joins what follows to the document before
				keys, earlier = true, false
			}
			sign = content[0]
		default:
			sign = 0
			if !l.pair || l.name == "" {
				continue
			}
			keys = true
			if earlier {
				m.warn(DocumentSeparator, separator, "", "", "a second document begins here; services see the first one once and are deaf from then on")
				return
			}
		}
	}
}
