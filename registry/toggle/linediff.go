package toggle

import (
	"bytes"
	"fmt"
	"strings"
)

// Unified returns the difference of two texts by lines, each with "-", "+" or a
// space before it, in hunks with some lines of context and a head like
// "@@ -3,4 +3,5 @@". It is empty for equal texts. Lines are shown without their
// line ends; one that differs only by it is shown twice, with "\r" where it has
// one. The texts are outside text: strip them before they go to a terminal.
func Unified(before, after []byte, context int) string {
	if bytes.Equal(before, after) {
		return ""
	}
	a, b := splitLines(before), splitLines(after)
	edits := compareLines(a, b)
	var out strings.Builder
	for i := 0; i < len(edits); {
		if edits[i].sign == ' ' {
			i++
			continue
		}
		from, to := max(0, i-context), i
		for next := i; next < len(edits) && next <= to+2*context+1; next++ {
			if edits[next].sign != ' ' {
				to = next
			}
		}
		end := min(len(edits), to+1+context)
		writeHunk(&out, edits, from, end)
		i = end
	}
	return out.String()
}

type lineEdit struct {
	sign byte
	text string
	a, b int // lines before this one on either side
}

func splitLines(text []byte) []string {
	var lines []string
	for at := 0; at < len(text); {
		content, end := cutLine(text, at)
		line := string(text[at:content])
		switch eol := string(text[content:end]); eol {
		case "\n":
		case "":
			line += "\n\\ no line end"
		default:
			line += strings.NewReplacer("\r", `\r`, "\n", "").Replace(eol)
		}
		lines = append(lines, line)
		at = end
	}
	return lines
}

// compareLines finds a shortest list of edits for texts that differ in little,
// and a plain replacement of the middle for others.
func compareLines(a, b []string) []lineEdit {
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	edits := make([]lineEdit, 0, len(a)+len(b))
	x, y := 0, 0
	put := func(sign byte) {
		e := lineEdit{sign: sign, a: x, b: y}
		if sign == '+' {
			e.text = b[y]
		} else {
			e.text = a[x]
			x++
		}
		edits = append(edits, e)
		if sign != '-' {
			y++
		}
	}
	for range head {
		put(' ')
	}
	for _, sign := range middle(a[head:len(a)-tail], b[head:len(b)-tail]) {
		put(sign)
	}
	for range tail {
		put(' ')
	}
	return edits
}

// middle returns the signs of the edits from a to b by their longest common
// subsequence.
func middle(a, b []string) []byte {
	const most = 4 << 20 // cells
	if len(a) == 0 || len(b) == 0 || len(a)*len(b) > most {
		return append(bytes.Repeat([]byte("-"), len(a)), bytes.Repeat([]byte("+"), len(b))...)
	}
	width := len(b) + 1
	common := make([]int32, (len(a)+1)*width)
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i*width+j] = common[(i+1)*width+j+1] + 1
			} else {
				common[i*width+j] = max(common[(i+1)*width+j], common[i*width+j+1])
			}
		}
	}
	var signs []byte
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			signs = append(signs, ' ')
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[(i+1)*width+j] >= common[i*width+j+1]:
			signs = append(signs, '-')
			i++
		default:
			signs = append(signs, '+')
			j++
		}
	}
	return signs
}

func writeHunk(out *strings.Builder, edits []lineEdit, from, end int) {
	countA, countB := 0, 0
	for _, e := range edits[from:end] {
		if e.sign != '+' {
			countA++
		}
		if e.sign != '-' {
			countB++
		}
	}
	fmt.Fprintf(out, "@@ -%d,%d +%d,%d @@\n", edits[from].a+min(1, countA), countA, edits[from].b+min(1, countB), countB)
	for _, e := range edits[from:end] {
		out.WriteByte(e.sign)
		out.WriteString(e.text)
		out.WriteByte('\n')
	}
}
