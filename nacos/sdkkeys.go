//go:build !race

package nacos

// sdkKeys is how many configs have an SDK client of their own. A client costs a
// connection, some ten goroutines and a health check every five seconds; one
// client for several configs loses changes that come together. Configs beyond
// are listened to on the store's own connection.
const sdkKeys = 32
