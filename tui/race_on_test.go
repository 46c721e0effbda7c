//go:build race

package tui

// raceEnabled: the race detector makes everything several times slower, so figures of
// speed say nothing under it.
const raceEnabled = true
