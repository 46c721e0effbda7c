package toggle

import (
	"fmt"
	"strings"
)

// renderYAML writes a value in a style: that of the scalar it replaces, or 0 for
// a new one.
func renderYAML(c change, style byte, flow bool) string {
	text := c.text()
	switch {
	case style == '\'' && !hasYAMLControl(text):
		return "'" + strings.ReplaceAll(text, "'", "''") + "'"
	case style == '\'' || style == '"':
		return quoteYAML(text)
	case c.want.kind != kindText || c.time || plainSafe(text, flow):
		return text
	}
	return quoteYAML(text)
}

// renderYAMLKey writes a key.
func renderYAMLKey(key string, flow bool) string {
	if plainSafe(key, flow) {
		return key
	}
	return quoteYAML(key)
}

// plainSafe says whether a text reads as itself without quotes.
func plainSafe(text string, flow bool) bool {
	if text == "" || strings.TrimSpace(text) != text || strings.ContainsRune("-?:,[]{}#&*!|>'\"%@`", rune(text[0])) {
		return false
	}
	if strings.Contains(text, ": ") || strings.Contains(text, " #") || strings.HasSuffix(text, ":") {
		return false
	}
	if flow && strings.ContainsAny(text, ",[]{}") || hasYAMLControl(text) || text == "<<" {
		return false
	}
	return plainValue(text).kind == kindText
}

// yamlControl names the characters that need an escape.
func yamlControl(r rune) bool {
	return r < ' ' || r >= 0x7f && r <= 0x9f || r == '\u2028' || r == '\u2029' || r == '\ufeff' || r == '\ufffe' || r == '\uffff'
}

func hasYAMLControl(text string) bool { return strings.IndexFunc(text, yamlControl) >= 0 }

func quoteYAML(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '\\' || r == '"':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case yamlControl(r):
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// flowItem writes an entry in one pair of braces.
func flowItem(changes []change, s spelling) string {
	parts := make([]string, len(changes))
	for i, c := range changes {
		parts[i] = s.spell(c.field) + ": " + renderYAML(c, 0, true)
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// blockItem writes the lines of an entry, the first without indentation.
func blockItem(changes []change, s spelling, column int) []string {
	lines := make([]string, len(changes))
	for i, c := range changes {
		lines[i] = s.spell(c.field) + ": " + renderYAML(c, 0, false)
		if i > 0 {
			lines[i] = strings.Repeat(" ", column) + lines[i]
		}
	}
	return lines
}
