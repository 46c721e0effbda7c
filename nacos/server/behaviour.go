package server

import (
	"fmt"
	"time"
)

// Behaviour selects which real server the embedded one imitates: its timing, its statuses, its wordings and the
// paths that it has. The zero value is Nacos2.
type Behaviour int

const (
	// Nacos2 imitates Nacos 2.5.1: v1 and v2 HTTP, a dump tick of 100 ms, stale reads after a publish.
	Nacos2 Behaviour = iota
	// Nacos3 imitates Nacos 3.0.3: v3 HTTP and what is left of v1, the console on a port of its own.
	Nacos3
	// RNacos imitates r-nacos 0.8.8: no dump, no history, no name checks, and compare-and-publish without the compare.
	RNacos
)

// String returns the name of the imitated server with its version.
func (b Behaviour) String() string {
	switch b {
	case Nacos2:
		return "Nacos " + b.traits().version
	case Nacos3:
		return "Nacos " + b.traits().version
	case RNacos:
		return "r-nacos " + b.traits().version
	default:
		return fmt.Sprintf("Behaviour(%d)", int(b))
	}
}

// traits are the differences between the imitated servers that are not differences of HTTP paths.
type traits struct {
	version    string        // what the server reports
	dumpTick   time.Duration // default of Config.DumpTick; negative is off
	checkNames bool          // data id, group, namespace, content, tags and sizes are checked
	ignoreCAS  bool          // casMd5 is accepted and not looked at
	history    bool          // versions are kept
	shortHold  time.Duration // the shortest hold of a long poll
	noHangup   bool          // Long-Pulling-Timeout-No-Hangup is honoured
	publicID   string        // how the default namespace is called in answers
}

func (b Behaviour) traits() traits {
	switch b {
	case Nacos3:
		return traits{version: "3.0.3", dumpTick: defaultDumpTick, checkNames: true, history: true,
			shortHold: 10 * time.Second, noHangup: true, publicID: publicNamespace}
	case RNacos:
		return traits{version: "0.8.8", dumpTick: -1, ignoreCAS: true,
			shortHold: 9500 * time.Millisecond, publicID: publicNamespace}
	default:
		return traits{version: "2.5.1", dumpTick: defaultDumpTick, checkNames: true, history: true,
			shortHold: 10 * time.Second, noHangup: true}
	}
}

// defaultDumpTick is the period at which real servers copy changed configs into the cache that reads are served from.
const defaultDumpTick = 100 * time.Millisecond

// show returns a canonical tenant as the server writes it into answers.
func (t traits) show(tenant string) string {
	if tenant == "" {
		return t.publicID
	}
	return tenant
}
