//go:build race

package nacos

// sdkKeys is zero where the race detector is on: the SDK replaces a broken
// connection without a lock, which would be reported as an error of the program
// that is tested. Its own connection serves a store then.
const sdkKeys = 0
