package toggle

import (
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// kind is the type that a value has before Spring converts it. In properties
// every value is a text.
type kind int

const (
	kindText kind = iota
	kindBool
	kindInt
	kindFloat
	kindNull
)

// value is a value as the loader of the format hands it to Spring.
type value struct {
	kind    kind
	text    string // printed, as a String property gets it
	written string // as it stands in the file, without quotes
	bool    bool
	int     int64 // saturated
	float   float64
}

func textValue(text string) value { return value{kind: kindText, text: text, written: text} }

func (v value) placeholder() bool { return v.kind == kindText && strings.Contains(v.text, "${") }

// toBool converts as Spring does; absent is true for an empty value.
func (v value) toBool() (b, absent, ok bool) {
	switch v.kind {
	case kindBool:
		return v.bool, false, true
	case kindNull:
		return false, true, true
	case kindText:
		switch strings.ToLower(trimControls(v.text)) {
		case "":
			return false, true, true
		case "true", "on", "yes", "1":
			return true, false, true
		case "false", "off", "no", "0":
			return false, false, true
		}
	}
	return false, false, false
}

// toInt converts to 32 bits as Spring does; absent is true for an empty value.
func (v value) toInt() (n int, absent, ok bool) {
	switch v.kind {
	case kindInt:
		return int(v.int), false, v.int >= math.MinInt32 && v.int <= math.MaxInt32
	case kindFloat:
		if math.IsNaN(v.float) { // as Java's Double.longValue
			return 0, false, true
		}
		whole := math.Trunc(v.float)
		return int(max(min(whole, 1<<40), -1<<40)), false, whole >= math.MinInt32 && whole <= math.MaxInt32
	case kindNull:
		return 0, true, true
	case kindText:
		if v.text == "" {
			return 0, true, true
		}
		n, ok = parseInt(v.text)
		return n, false, ok
	}
	return 0, false, false
}

// toTime returns the time as it is written; absent is true for an empty value.
func (v value) toTime() (text string, absent, ok bool) {
	text = trimControls(v.text)
	if text == "" {
		return "", true, true
	}
	_, ok = parseTime(text)
	return text, false, ok
}

// trimControls trims like Java's String.trim: everything up to the space.
func trimControls(s string) string {
	return strings.TrimFunc(s, func(r rune) bool { return r <= ' ' })
}

// isJavaSpace is Java's Character.isWhitespace.
func isJavaSpace(r rune) bool {
	switch r {
	case '\u00a0', '\u2007', '\u202f':
		return false
	case '\t', '\n', '\v', '\f', '\r', 0x1c, 0x1d, 0x1e, 0x1f:
		return true
	}
	return r >= ' ' && unicode.In(r, unicode.Zs, unicode.Zl, unicode.Zp)
}

func isBlank(s string) bool {
	for _, r := range s {
		if r > ' ' && !isJavaSpace(r) {
			return false
		}
	}
	return true
}

// spaceAtEnds says whether a text starts or ends with white space, the kinds
// that Java does not count included: nobody sees them.
func spaceAtEnds(s string) bool {
	if s == "" {
		return false
	}
	first, _ := utf8.DecodeRuneInString(s)
	last, _ := utf8.DecodeLastRuneInString(s)
	space := func(r rune) bool { return r <= ' ' || isJavaSpace(r) || unicode.IsSpace(r) }
	return space(first) || space(last)
}

// parseInt reads a number as Spring's NumberUtils does: white space is dropped
// wherever it stands, digits of any script, hexadecimal after 0x, 0X or #, and
// never octal.
func parseInt(text string) (int, bool) {
	text = strings.Map(func(r rune) rune {
		if isJavaSpace(r) {
			return -1
		}
		return r
	}, text)
	negative, base := false, int64(10)
	unsigned := strings.TrimPrefix(text, "-")
	hex := false
	for _, prefix := range []string{"0x", "0X", "#"} {
		if rest, ok := strings.CutPrefix(unsigned, prefix); ok {
			negative, base, hex = len(unsigned) < len(text), 16, true
			text = rest
			break
		}
	}
	if !hex && text != "" && (text[0] == '-' || text[0] == '+') {
		negative = text[0] == '-'
		text = text[1:]
	}
	if text == "" {
		return 0, false
	}
	var n int64
	for _, r := range text {
		digit, ok := digitOf(r)
		if !ok || digit >= base {
			return 0, false
		}
		if n = n*base + digit; n > math.MaxInt32+1 {
			return 0, false
		}
	}
	if negative {
		n = -n
	}
	return int(n), n <= math.MaxInt32
}

// digitOf is Java's Character.digit for the characters of one UTF-16 unit.
func digitOf(r rune) (int64, bool) {
	switch {
	case r >= '0' && r <= '9':
		return int64(r - '0'), true
	case r >= 'a' && r <= 'f':
		return int64(r-'a') + 10, true
	case r >= 'A' && r <= 'F':
		return int64(r-'A') + 10, true
	case r >= 'ａ' && r <= 'ｆ':
		return int64(r-'ａ') + 10, true
	case r >= 'Ａ' && r <= 'Ｆ':
		return int64(r-'Ａ') + 10, true
	case r < utf8.RuneSelf || r > 0xffff || !unicode.Is(unicode.Nd, r):
		return 0, false
	}
	zero := r // the digits of one script stand in a row of ten
	for r-zero < 9 && unicode.Is(unicode.Nd, zero-1) {
		zero--
	}
	return int64(r - zero), true
}

// parseTime reads an RFC 3339 time strictly.
func parseTime(text string) (time.Time, bool) {
	var t time.Time
	if err := t.UnmarshalText([]byte(text)); err != nil {
		return time.Time{}, false
	}
	return t, true
}
