package main

import (
	"strings"

	"github.com/belay-mq/belay/registry/presence"
)

// printable strips outside text, line by line.
func printable(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = presence.Clean(lines[i], 4000)
	}
	return strings.Join(lines, "\n")
}
