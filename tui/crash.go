package tui

import "fmt"

// Crash is a panic in the dashboard. The terminal has been restored and the stack
// is in the log.
type Crash struct {
	Value   any
	Stack   []byte
	LogPath string // of the log that has the stack, "" where there is none
}

func (c *Crash) Error() string {
	s := fmt.Sprintf("the dashboard crashed: %v", c.Value)
	if c.LogPath != "" {
		s += "; the stack is in " + c.LogPath
	}
	return s
}
