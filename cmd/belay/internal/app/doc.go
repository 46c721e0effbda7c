// Package app turns a context of the configuration into a running backend: it opens
// the connections, starts the embedded servers where the context asks for them, and
// wires store, presence, observer, fleet, feed and control together. The dashboard and
// every subcommand stand on it; nothing else knows that a server may be embedded.
package app
