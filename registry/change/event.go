package change

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"
)

// Errors that callers may test for with errors.Is.
var (
	// ErrBadEvent says that an event contradicts itself, for example a snapshot source under the datum scope.
	ErrBadEvent = errors.New("bad event")
	// ErrClosed says that the center no longer accepts events.
	ErrClosed = errors.New("change center is closed")
	// ErrFull says that a shard holds as many pending keys as it may and the event's key is not among them.
	ErrFull = errors.New("change center is full")
)

// Key identifies a datum. For release messages DataCenter is the name of the database and DataInfoID the exact
// bytes of the message.
type Key struct {
	DataCenter string
	DataInfoID string
}

// String shows the key for logs, as dataCenter/dataInfoId.
func (k Key) String() string { return k.DataCenter + "/" + k.DataInfoID }

// Item is one registration under a key. Strings are immutable, so the center's copy never aliases what the caller
// changes afterwards.
type Item struct {
	// ID is the registration's id, unique within its key.
	ID string
	// Conn is the connection that registered the item; a client-off of that connection removes it. It is no part of
	// the content: an item that moves to another connection unchanged is not a change.
	Conn string
	// Content is what subscribers see.
	Content string
	// Version and Registered order two events of one item: the greater (Version, Registered) wins, and where both
	// are equal the one accepted later. Registered is in milliseconds.
	Version    int64
	Registered int64
	// Unpub makes the item an UnPublisher: it removes the item of that ID and leaves a tombstone, so that a
	// registration older than the removal does not bring the item back.
	Unpub bool

	gone bool   // only in a pending list: hides a cached item without a tombstone
	seq  uint64 // accept sequence within the shard
}

// newer reports whether x, accepted after y, beats it.
func (x *Item) newer(y *Item) bool {
	if x.Version != y.Version {
		return x.Version > y.Version
	}
	return x.Registered >= y.Registered
}

// live reports whether the item is visible to subscribers.
func (x *Item) live() bool { return !x.Unpub && !x.gone }

// Scope says what an event is about.
type Scope uint8

// The scopes of SOFARegistry.
const (
	ScopeDatum    Scope = iota // one key
	ScopeClient                // every item of one connection, see Center.ClientOff
	ScopeSnapshot              // one key, replaced as a whole and without delay
)

func (s Scope) String() string { return name(int(s), "datum", "client", "snapshot") }

// Kind says how an event's items meet the cached ones.
type Kind uint8

// The change types of SOFARegistry.
const (
	Merge Kind = iota // items are added to the cached ones, or remove them where they are UnPublishers
	Cover             // items replace the cached ones
)

func (k Kind) String() string { return name(int(k), "merge", "cover") }

func name(i int, names ...string) string {
	if i < len(names) {
		return names[i]
	}
	return fmt.Sprintf("%d?", i)
}

// Source says where an event comes from. It decides who is told and how the version is made.
type Source uint8

// The sources of SOFARegistry, and Off for what a client-off removes.
const (
	Pub      Source = iota // a client of this node; makes a new version
	PubTemp                // a client of this node; is delivered but not stored
	Sync                   // another data center; brings its version
	Backup                 // another node of this data center, or a checkpoint; brings its version, tells nobody
	Snapshot               // a client that reports all its items after a reconnect; makes a new version
	Clean                  // the cleaner; removes the key
	Off                    // a connection that ended; counts as Pub wherever sources are matched
	sources
)

func (s Source) String() string {
	return name(int(s), "pub", "pub-temp", "sync", "backup", "snapshot", "clean", "off")
}

// Sources is a set of sources.
type Sources uint8

// SourcesOf makes a set.
func SourcesOf(list ...Source) Sources {
	var set Sources
	for _, s := range list {
		set |= 1 << s
	}
	return set
}

// The sets that SOFARegistry's notifiers listen to.
var (
	Subscribers      = SourcesOf(Pub, Sync, Snapshot)
	Replicas         = SourcesOf(Pub)
	SnapshotReplicas = SourcesOf(Snapshot)
	Temporary        = SourcesOf(PubTemp)
)

// Has reports whether s is in the set.
func (set Sources) Has(s Source) bool { return set&(1<<s) != 0 }

// Len counts the sources in the set.
func (set Sources) Len() int { return bits.OnesCount8(uint8(set)) }

// String lists the sources with + between them.
func (set Sources) String() string {
	var out []string
	for s := range sources {
		if set.Has(s) {
			out = append(out, s.String())
		}
	}
	return strings.Join(out, "+")
}

// Owes reports whether a notifier that listens to set is told of a change that came from reasons.
func (set Sources) Owes(reasons Sources) bool {
	if reasons.Has(Off) {
		reasons |= 1 << Pub
	}
	return set&reasons != 0
}

// Event is one change of one key. The zero Scope, Kind and Source are those of a client's registration
// (datum, merge, pub). The center copies what it keeps; the caller may reuse Items at once.
type Event struct {
	Key   Key
	Items []Item
	// Conn is the connection that ended; only with ScopeClient.
	Conn string
	// Late is the sender's remark that the event comes out of order. It is counted and handed on, nothing else.
	Late bool
	// Kind is ignored with ScopeSnapshot, ScopeClient and the sources PubTemp and Clean, which have only one.
	Kind Kind
	// Scope and Source must fit: ScopeSnapshot goes with Source Snapshot and the other way round.
	Scope  Scope
	Source Source
	// Version is the datum's version at the sender, greater than 0, for the sources Sync and Backup. Others have
	// their version made by the center and ignore it.
	Version int64
}

// check reports what is wrong with a datum or snapshot event.
func (e *Event) check(maxItems int) error {
	switch {
	case e.Scope == ScopeClient:
		if e.Conn == "" {
			return fmt.Errorf("%w: client scope without a connection", ErrBadEvent)
		}
		return nil
	case e.Scope > ScopeSnapshot || e.Kind > Cover || e.Source >= Off:
		return fmt.Errorf("%w: scope %v, kind %v, source %v", ErrBadEvent, e.Scope, e.Kind, e.Source)
	case (e.Scope == ScopeSnapshot) != (e.Source == Snapshot):
		return fmt.Errorf("%w: scope %v with source %v; a snapshot needs both", ErrBadEvent, e.Scope, e.Source)
	case e.external() && e.Version <= 0:
		return fmt.Errorf("%w: source %v without a version", ErrBadEvent, e.Source)
	case len(e.Items) > maxItems:
		return fmt.Errorf("%w: %d items, at most %d", ErrBadEvent, len(e.Items), maxItems)
	case len(e.Items) == 0 && e.Source != Clean && e.Source != Snapshot && e.Kind == Merge:
		return fmt.Errorf("%w: nothing to merge", ErrBadEvent)
	}
	return nil
}

// external reports whether the event brings its own version.
func (e *Event) external() bool { return e.Source == Sync || e.Source == Backup }
