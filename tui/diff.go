package tui

import (
	"strings"

	"github.com/belay-mq/belay/registry/toggle"
)

// lineDiff lists the lines that differ between two texts, "-" and "+" before
// them; lines they share are left out. It is for showing, not for applying.
func lineDiff(a, b string) string {
	x, y := splitLines(a), splitLines(b)
	for len(x) > 0 && len(y) > 0 && x[0] == y[0] {
		x, y = x[1:], y[1:]
	}
	for len(x) > 0 && len(y) > 0 && x[len(x)-1] == y[len(y)-1] {
		x, y = x[:len(x)-1], y[:len(y)-1]
	}
	var out strings.Builder
	put := func(sign byte, l string) {
		out.WriteByte(sign)
		out.WriteString(l)
		out.WriteByte('\n')
	}
	if len(x)*len(y) > 4_000_000 { // too much to compare: all of it
		for _, l := range x {
			put('-', l)
		}
		for _, l := range y {
			put('+', l)
		}
		return out.String()
	}
	// Longest common subsequence, from the ends.
	lcs := make([][]int32, len(x)+1)
	for i := range lcs {
		lcs[i] = make([]int32, len(y)+1)
	}
	for i := len(x) - 1; i >= 0; i-- {
		for j := len(y) - 1; j >= 0; j-- {
			if x[i] == y[j] {
				lcs[i][j] = lcs[i+1][j+1] + 1
			} else {
				lcs[i][j] = max(lcs[i+1][j], lcs[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(x) || j < len(y) {
		switch {
		case i < len(x) && j < len(y) && x[i] == y[j]:
			i, j = i+1, j+1
		case i < len(x) && (j == len(y) || lcs[i+1][j] >= lcs[i][j+1]):
			put('-', x[i])
			i++
		default:
			put('+', y[j])
			j++
		}
	}
	return out.String()
}

func splitLines(s string) []string {
	s = strings.TrimSuffix(strings.ReplaceAll(s, "\r\n", "\n"), "\n")
	if s == "" {
		return nil
	}
	return strings.Split(s, "\n")
}

// changeText says a difference in words: "RefundConsumer: enable true → false".
func changeText(c toggle.Change) string {
	show := func(s string) string {
		if s == "" {
			return "(none)"
		}
		return s
	}
	return c.ListenerID + ": " + c.Field + " " + show(c.Before) + " → " + show(c.After)
}
