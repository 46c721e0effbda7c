package nacos

import (
	"fmt"
	"strings"
	"time"
)

// Key names one config inside a store's namespace.
type Key struct {
	DataID string
	Group  string // the application
}

// String returns "group/dataID", for messages.
func (k Key) String() string { return k.Group + "/" + k.DataID }

// Content is what a write stores.
type Content struct {
	// Text is the whole new content; an empty one is refused by Nacos.
	Text string
	// Type is Nacos's config type ("properties", "yaml", …). Empty keeps the
	// type that the config has; for a new config it follows from the data id.
	Type string
	// Operator is recorded in the history as the author. Empty records the
	// login name where there is one.
	Operator string
}

// State is what a store knows of one config: a state, not an edge. It is a
// value; the store never changes one that it has handed out.
type State struct {
	Key     Key
	Text    string
	MD5     string // of Text, lower-case hex; "" when Absent
	Absent  bool   // the config does not exist (believed after a second read)
	Seq     uint64 // rises with every state the store believed; md5s have no order, this has
	Type    string // "" where the source of this read does not tell
	Read    time.Time
	Stale   time.Time // zero while reads succeed; else since when none did for 3 intervals
	LastErr error     // why the newest read failed; nil when it succeeded
}

// ConflictError is returned by a write whose base is no longer what the server
// holds. It is never returned after the write was applied.
type ConflictError struct {
	Key Key
	// BaseMD5 is what the caller had read, "" for a creation.
	BaseMD5 string
	// Actual is what the server holds now.
	Actual State
}

func (e *ConflictError) Error() string {
	if e.Actual.Absent {
		return fmt.Sprintf("%s was removed meanwhile; read it again before writing", e.Key)
	}
	return fmt.Sprintf("%s was changed meanwhile (md5 %.8s, expected %.8s); read it again before writing", e.Key, e.Actual.MD5, e.BaseMD5)
}

// OverwroteError is returned by a write on a server that ignores the expected
// md5 (r-nacos): the write was applied, and a foreign change between the
// caller's read and the write was lost by it.
type OverwroteError struct {
	Key Key
	// Lost is the foreign content that was overwritten, where it is known.
	Lost string
	// Removed tells that the foreign change had removed the config, which this
	// write then created anew.
	Removed bool
	// Written is the state after the write.
	Written State
}

func (e *OverwroteError) Error() string {
	return fmt.Sprintf("%s was written, but a change made meanwhile by somebody else was overwritten (this server ignores the expected md5)", e.Key)
}

// LossError is returned by a write that found out that this server takes
// publishes only over gRPC, which clear what Lost names. Nothing was written.
// The next Update of the config does it; Losses names the same before.
type LossError struct {
	Key  Key
	Lost []string
}

func (e *LossError) Error() string {
	return fmt.Sprintf("%s was not written: this server takes no publish over HTTP, and one over gRPC would lose its %s; plan again to do it all the same",
		e.Key, strings.Join(e.Lost, ", "))
}

// Change is one row of a config's history.
type Change struct {
	ID       string // Nacos's history id
	At       time.Time
	Op       string // "insert", "update", "delete"
	By       string // who wrote it, "" where Nacos does not know
	From     string // address as Nacos gives it
	Text     string // the content that this change wrote; "" for a delete
	MD5      string
	Known    bool // Text was read (a list row alone does not carry it)
	Previous string
}

// Watcher is a client that listens to a config, as the server lists them.
type Watcher struct {
	Address string // as the server claims it; two processes on one address are one row
	MD5     string // the content that it has fetched, which proves nothing about applying it
}

// Health says how a store fares.
type Health struct {
	Server    string // "2.5.1", "3.0.3", "" while unknown
	Transport string // "push", "long-poll", "poll"
	Connected bool
	LastOK    time.Time     // newest successful request
	Latency   time.Duration // of the newest successful request
	Since     time.Time     // when Connected last changed
	LastErr   string        // why it is not Connected, or why a watched config cannot be read; "" when all is well
	Polls     uint64
	Pushes    uint64
	Conflicts uint64
	Retries   uint64
	// SDKClients is how many of the watched configs are listened to by a client
	// of nacos-sdk-go that has called back, 32 at most. The store's own
	// connection listens to the rest.
	SDKClients int
}
