package feed

import (
	"strings"

	"github.com/belay-mq/belay/registry/change"
	"github.com/belay-mq/belay/registry/fleet"
)

// domain separates the keys of what goes through the center. A release message's key is (database, exact message);
// all others have a data center that begins with a NUL byte, which no database's name does.
type domain string

const (
	release  domain = ""
	toggles  domain = "\x00toggle"   // application/listener: what the file wants
	consumer domain = "\x00consumer" // application/listener: its state on each instance
	instance domain = "\x00instance" // an instance
	scanner  domain = "\x00scanner"  // gaps, epochs, errors
	health   domain = "\x00health"   // a part of the backend
	handed   domain = "\x00handed"   // lines that another process handed over
)

func domainOf(k change.Key) domain {
	if strings.HasPrefix(k.DataCenter, "\x00") {
		return domain(k.DataCenter)
	}
	return release
}

func (d domain) key(id string) change.Key { return change.Key{DataCenter: string(d), DataInfoID: id} }

// idOf reads a key made of a listener's identity. Neither part holds a NUL byte.
func idOf(k change.Key) fleet.ID {
	app, listener, _ := strings.Cut(k.DataInfoID, "\x00")
	return fleet.ID{App: app, Listener: listener}
}

func (d domain) listener(id fleet.ID) change.Key {
	return d.key(strings.ReplaceAll(id.App, "\x00", "") + "\x00" + id.Listener)
}

// source is the word for a domain on a line.
func (d domain) source() Source {
	switch d {
	case toggles:
		return Toggle
	case consumer:
		return Consumer
	case instance:
		return Instance
	case scanner:
		return Scanner
	}
	return Release
}

// short leaves out the random end of an instance's id.
func short(instance string) string {
	if i := strings.LastIndexByte(instance, ':'); i > strings.IndexByte(instance, ':') {
		return instance[:i]
	}
	return instance
}
