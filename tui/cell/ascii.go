package cell

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// asciiOf gives a sign of the same width for every picture sign of the screens.
var asciiOf = map[rune]byte{
	'●': '*', '○': 'o', '◐': '%', '‖': '=', '■': '#', '✗': 'x', '↻': '@', '✓': 'v', '▸': '>', '◆': '+',
	'→': '>', '←': '<', '↑': '^', '↓': 'v', '…': '~', '·': '.', '×': 'x', '▼': 'v', '▲': '^', '≥': '>', '≤': '<', '–': '-', '—': '-',
	'─': '-', '│': '|', '╭': '+', '╮': '+', '╰': '+', '╯': '+', '├': '+', '┤': '+', '┌': '+', '┐': '+', '└': '+', '┘': '+', '═': '=', '▏': '|',
	'▓': '#', '░': '.', '█': '#', '▇': '#', '▆': '*', '▅': '*', '▄': '=', '▃': '-', '▂': '-', '▁': '_',
	'“': '"', '”': '"', '’': '\'', '‘': '\'',
}

// ASCII returns s with every sign outside ASCII replaced by one of the same
// width: picture signs by a likeness, others by question marks.
func ASCII(s string) string {
	ascii := true
	for i := 0; i < len(s); i++ {
		if s[i] >= 0x80 {
			ascii = false
			break
		}
	}
	if ascii {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for _, r := range s {
		if r < 0x80 {
			b.WriteRune(r)
			continue
		}
		if c, ok := asciiOf[r]; ok {
			b.WriteByte(c)
			continue
		}
		for range ansi.StringWidth(string(r)) {
			b.WriteByte('?')
		}
	}
	return b.String()
}
