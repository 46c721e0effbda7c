//go:build race

package server_test

// raceDetector is whether the race detector is on: the SDK races with itself when it reconnects, which would fail tests
// that have nothing to do with it.
const raceDetector = true
