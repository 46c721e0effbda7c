package toggle

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"unicode"
)

func (d *properties) replace(p *pair, c change) ([]splice, error) {
	l := d.lines[p.at]
	if l.separator == "" {
		return []splice{{l.keyEnd, l.content, "=" + escapeValue(c.text(), "=")}}, nil
	}
	return []splice{{l.valueStart, l.content, escapeValue(c.text(), l.separator)}}, nil
}

func (d *properties) remove(p *pair) ([]splice, error) {
	l := d.lines[p.at]
	return []splice{{l.start, l.end, ""}}, nil
}

func (d *properties) insert(m *model, e *entry, c change) ([]splice, error) {
	p := m.inForce(e, fieldListener)
	last := m.pairs[e.pairs[len(e.pairs)-1]].at
	return d.write(last, []string{sibling(p.name, e.Index, c.field)}, []change{c}), nil
}

func (d *properties) add(m *model, changes []change) ([]splice, error) {
	index, last := 0, -1
	path := listPath + "[0]." + fieldListener.String()
	var p *pair
	for _, e := range m.entries {
		if e.Index == math.MaxInt32 {
			return nil, refuse(BadIndex, 0, "there is no index above [%d]", e.Index)
		}
		index = e.Index + 1
		if at := e.pairs[len(e.pairs)-1]; m.pairs[at].at > last {
			last, p = m.pairs[at].at, &m.pairs[at]
			if named := m.inForce(e, fieldListener); named != nil {
				p = named
			}
		}
	}
	if p != nil {
		path = p.name
	}
	keys := make([]string, len(changes))
	for i, c := range changes {
		keys[i] = sibling(path, index, c.field)
	}
	if last < 0 {
		return d.append(keys, changes), nil
	}
	return d.write(last, keys, changes), nil
}

// write puts new lines right behind a line, in its style.
func (d *properties) write(after int, keys []string, changes []change) []splice {
	l := d.lines[after]
	separator := l.separator
	if separator == "" {
		separator = "="
	}
	indent := string(d.text[l.start:l.keyStart])
	if i := strings.LastIndexAny(indent, "\r\n"); i >= 0 {
		indent = indent[i+1:]
	}
	lines := make([]string, len(keys))
	for i, key := range keys {
		lines[i] = indent + escapeKey(key) + separator + escapeValue(changes[i].text(), separator)
	}
	return d.place(after, lines)
}

// place puts new lines right behind a line.
func (d *properties) place(after int, lines []string) []splice {
	l := d.lines[after]
	eol := l.eol
	for i := after; eol == "" && i >= 0; i-- {
		eol = d.lines[i].eol
		if eol == "" && i == after && l.end > l.content {
			eol = string(d.text[l.content:l.end])
		}
	}
	if eol == "" {
		eol = "\n"
	}
	var splices []splice
	if l.dangling >= 0 {
		splices = append(splices, splice{l.dangling, l.dangling + 1, ""})
	}
	text := strings.Join(lines, eol)
	if l.eol == "" {
		return append(splices, splice{l.end, l.end, eol + text})
	}
	return append(splices, splice{l.end, l.end, text + eol})
}

// append puts new lines at the end of a file without toggles.
func (d *properties) append(keys []string, changes []change) []splice {
	lines := make([]string, len(keys))
	for i, key := range keys {
		lines[i] = escapeKey(key) + "=" + escapeValue(changes[i].text(), "=")
	}
	if len(bytes.TrimPrefix(d.text, []byte("\ufeff"))) == 0 {
		end := len(d.text)
		return []splice{{end, end, strings.Join(lines, "\n") + "\n"}}
	}
	last := len(d.lines) - 1
	eol := "\n"
	for _, l := range d.lines {
		if l.eol != "" {
			eol = l.eol
			break
		}
	}
	l := d.lines[last]
	var splices []splice
	switch {
	case l.dangling >= 0:
		splices = append(splices, splice{l.dangling, l.dangling + 1, ""})
	case !l.comment && !l.pair && endsOpen(d.text[l.start:l.content]):
		splices = append(splices, splice{l.content - 1, l.content, ""})
	}
	text := strings.Join(lines, eol)
	if l.eol == "" {
		return append(splices, splice{l.end, l.end, eol + text})
	}
	return append(splices, splice{l.end, l.end, text + eol})
}

// escapeKey writes a key so that it reads as it is.
func escapeKey(key string) string {
	var b strings.Builder
	for i, r := range key {
		switch {
		case r == '=' || r == ':' || r == ' ' || (i == 0 && (r == '#' || r == '!')):
			b.WriteByte('\\')
			b.WriteRune(r)
		default:
			escapeRune(&b, r)
		}
	}
	return b.String()
}

// escapeValue writes a value so that it reads as it is behind a separator.
func escapeValue(text, separator string) string {
	var b strings.Builder
	blank := strings.Trim(separator, " \t\f") == ""
	for i, r := range text {
		switch {
		case i == 0 && (r == ' ' || blank && (r == '=' || r == ':')):
			b.WriteByte('\\')
			b.WriteRune(r)
		default:
			escapeRune(&b, r)
		}
	}
	return b.String()
}

func escapeRune(b *strings.Builder, r rune) {
	switch r {
	case '\\':
		b.WriteString(`\\`)
	case '\t':
		b.WriteString(`\t`)
	case '\n':
		b.WriteString(`\n`)
	case '\r':
		b.WriteString(`\r`)
	case '\f':
		b.WriteString(`\f`)
	default:
		if mustEscape(r) {
			fmt.Fprintf(b, `\u%04X`, r)
			return
		}
		b.WriteRune(r)
	}
}

// mustEscape names the characters that are not written raw: controls, the byte
// order mark, and the white space beyond ASCII that Spring Cloud Alibaba
// garbles.
func mustEscape(r rune) bool {
	switch {
	case r < ' ', r >= 0x7f && r <= 0x9f, r == '\ufeff':
		return true
	case r < 0xa0:
		return false
	}
	return isJavaSpace(r) && unicode.IsSpace(r)
}
