package release

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Topic is the only topic that Apollo's message table carries.
const Topic = "apollo-release"

// MaxMessage is the widest message in characters that the column holds.
const MaxMessage = 1024

var (
	// ErrTopic is wrapped by the error of a send to any topic but [Topic].
	ErrTopic = errors.New("release: unknown topic")
	// ErrKey is wrapped by the error of a key that would not be read back as
	// the same three parts.
	ErrKey = errors.New("release: bad key")
)

// Key is the three parts of a well-formed message.
type Key struct {
	AppID, Cluster, Namespace string
}

// NewKey checks the three parts: none may be empty or hold a +, because
// nothing is escaped in a message. Every error wraps [ErrKey].
func NewKey(appID, cluster, namespace string) (Key, error) {
	for _, p := range []struct{ name, value string }{{"app id", appID}, {"cluster", cluster}, {"namespace", namespace}} {
		switch {
		case p.value == "":
			return Key{}, fmt.Errorf("%w: the %s is empty", ErrKey, p.name)
		case strings.Contains(p.value, "+"):
			return Key{}, fmt.Errorf("%w: the %s %q holds a +, which separates the parts of a message", ErrKey, p.name, p.value)
		}
	}
	k := Key{AppID: appID, Cluster: cluster, Namespace: namespace}
	if n := utf8.RuneCountInString(k.Message()); n > MaxMessage {
		return Key{}, fmt.Errorf("%w: the message has %d characters, the column holds %d", ErrKey, n, MaxMessage)
	}
	return k, nil
}

// Message is the key as the table holds it.
func (k Key) Message() string { return k.AppID + "+" + k.Cluster + "+" + k.Namespace }

// ParseKey reads a message for display. ok is false where it has not exactly
// three parts, all non-empty: such a message is malformed, but still a message,
// and its identity is the whole text.
func ParseKey(message string) (k Key, ok bool) {
	app, rest, ok1 := strings.Cut(message, "+")
	cluster, namespace, ok2 := strings.Cut(rest, "+")
	if !ok1 || !ok2 || app == "" || cluster == "" || namespace == "" || strings.Contains(namespace, "+") {
		return Key{}, false
	}
	return Key{AppID: app, Cluster: cluster, Namespace: namespace}, true
}

// MessageCluster is the cluster that goes into a message: that of the parent
// namespace for a publish on a gray-release branch, whose own cluster is a
// generated name that no client asks for. parent is empty where the namespace
// is no branch.
func MessageCluster(cluster, parent string) string {
	if parent != "" {
		return parent
	}
	return cluster
}
