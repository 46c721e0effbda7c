package editor

import "strings"

// Merge applies the changes from base to mine onto theirs, by lines. It reports
// false where both changed the same lines differently.
func Merge(base, mine, theirs string) (string, bool) {
	b, m, t := split(base), split(mine), split(theirs)
	hm, ok1 := hunks(b, m)
	ht, ok2 := hunks(b, t)
	if !ok1 || !ok2 {
		return "", false
	}
	var out []string
	at := 0
	for len(hm) > 0 || len(ht) > 0 {
		switch {
		case len(hm) > 0 && len(ht) > 0 && hm[0].meets(ht[0]):
			if !hm[0].same(ht[0]) {
				return "", false
			}
			out = append(append(out, b[at:hm[0].from]...), hm[0].lines...)
			at = hm[0].to
			hm, ht = hm[1:], ht[1:]
		case len(ht) == 0 || len(hm) > 0 && hm[0].from < ht[0].from:
			out = append(append(out, b[at:hm[0].from]...), hm[0].lines...)
			at = hm[0].to
			hm = hm[1:]
		default:
			out = append(append(out, b[at:ht[0].from]...), ht[0].lines...)
			at = ht[0].to
			ht = ht[1:]
		}
	}
	return strings.Join(append(out, b[at:]...), "\n"), true
}

// hunk replaces the lines [from, to) of the base.
type hunk struct {
	from, to int
	lines    []string
}

// meets reports whether two hunks touch the same lines, or insert at one place.
func (h hunk) meets(o hunk) bool {
	if h.from == h.to && o.from == o.to {
		return h.from == o.from
	}
	return h.from < o.to && o.from < h.to || h.from == o.from
}

func (h hunk) same(o hunk) bool {
	if h.from != o.from || h.to != o.to || len(h.lines) != len(o.lines) {
		return false
	}
	for i := range h.lines {
		if h.lines[i] != o.lines[i] {
			return false
		}
	}
	return true
}

func split(s string) []string { return strings.Split(s, "\n") }

// mostCompared bounds the work of comparing two texts, in pairs of lines.
const mostCompared = 9_000_000

// hunks finds how a becomes b, by their longest common subsequence of lines.
func hunks(a, b []string) ([]hunk, bool) {
	pre := 0
	for pre < len(a) && pre < len(b) && a[pre] == b[pre] {
		pre++
	}
	post := 0
	for post < len(a)-pre && post < len(b)-pre && a[len(a)-1-post] == b[len(b)-1-post] {
		post++
	}
	x, y := a[pre:len(a)-post], b[pre:len(b)-post]
	if len(x)*len(y) > mostCompared {
		return nil, false
	}
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
	var out []hunk
	for i, j := 0, 0; i < len(x) || j < len(y); {
		if i < len(x) && j < len(y) && x[i] == y[j] {
			i, j = i+1, j+1
			continue
		}
		h := hunk{from: pre + i}
		for i < len(x) || j < len(y) {
			if i < len(x) && j < len(y) && x[i] == y[j] {
				break
			}
			if j == len(y) || i < len(x) && lcs[i+1][j] >= lcs[i][j+1] {
				i++
			} else {
				h.lines = append(h.lines, y[j])
				j++
			}
		}
		h.to = pre + i
		out = append(out, h)
	}
	return out, true
}
