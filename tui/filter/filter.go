// Package filter decides which rows a typed filter shows.
package filter

import (
	"strings"
	"unicode"
)

// Filter is a parsed filter. The zero value shows everything. It is a value.
type Filter struct {
	text    string
	not     bool
	fuzzy   bool
	needle  string // lower case
	letters []rune // of a fuzzy needle
}

// Parse reads a filter as it is typed: a substring without regard to case;
// with "!" in front, rows that do not contain it; with "~" in front, rows that
// contain its letters in this order.
func Parse(text string) Filter {
	f := Filter{text: text}
	rest := strings.TrimSpace(text)
	if r, ok := strings.CutPrefix(rest, "!"); ok {
		f.not, rest = true, r
	}
	if r, ok := strings.CutPrefix(rest, "~"); ok {
		f.fuzzy, rest = true, r
	}
	f.needle = strings.ToLower(strings.TrimSpace(rest))
	f.letters = []rune(f.needle)
	return f
}

// String returns the filter as it was typed.
func (f Filter) String() string { return f.text }

// Empty reports whether the filter shows everything.
func (f Filter) Empty() bool { return f.needle == "" }

// Match reports whether a row with these fields is shown.
func (f Filter) Match(fields ...string) bool {
	if f.needle == "" {
		return true
	}
	for _, s := range fields {
		if f.in(s) {
			return !f.not
		}
	}
	return f.not
}

func (f Filter) in(s string) bool {
	if !f.fuzzy {
		return containsFold(s, f.needle)
	}
	i := 0
	for _, r := range s {
		if unicode.ToLower(r) == f.letters[i] {
			if i++; i == len(f.letters) {
				return true
			}
		}
	}
	return false
}

// containsFold is strings.Contains(strings.ToLower(s), lower), without a copy
// of s where it is ASCII.
func containsFold(s, lower string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= 0x80 {
			return strings.Contains(strings.ToLower(s), lower)
		}
	}
	n := len(lower)
	for i := 0; i+n <= len(s); i++ {
		j := 0
		for j < n {
			c := s[i+j]
			if 'A' <= c && c <= 'Z' {
				c += 'a' - 'A'
			}
			if c != lower[j] {
				break
			}
			j++
		}
		if j == n {
			return true
		}
	}
	return false
}
