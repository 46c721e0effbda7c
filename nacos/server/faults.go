package server

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"
)

// Op names a kind of call that a fault can be aimed at. gRPC and HTTP calls of the same meaning have the same Op.
type Op string

// The kinds of calls.
const (
	OpAny     Op = ""        // every call
	OpDetail  Op = "detail"  // show=all and the v3 detail, which read the database
	OpHistory Op = "history" // list, one, previous
	OpListen  Op = "listen"  // batch listen, long poll
	OpLogin   Op = "login"
	OpPublish Op = "publish"
	OpQuery   Op = "query" // who listens, namespaces, state, connections
	OpRead    Op = "read"  // content from the dump
	OpRemove  Op = "remove"
	OpSearch  Op = "search"
)

// Always as a count makes a fault last until Faults.Reset.
const Always = -1

// Faults are the knobs with which tests break a Server on purpose. All methods may be called at any time, from any
// goroutine, and do not block. A count is the number of calls, pushes or dumps that a fault hits; Always lasts until
// Reset. Faults of the same kind replace each other per Op.
type Faults struct {
	mu      sync.Mutex
	rules   []*rule
	delay   time.Duration // of every dump
	hold    time.Duration // of every read lock
	hidden  time.Time     // reads see nothing until then
	blinded time.Duration // how long reads see nothing after a restart
	noUsers time.Duration // how long logins fail after a restart
	users   time.Time     // logins fail until then
	removed []string      // path prefixes
	ignore  bool          // casMd5

	gate   gate
	rotate func() // the token key
	wake   func() // the dump, which tells everybody when configs are to be seen again
}

// rule is a fault that hits a number of calls of one kind.
type rule struct {
	kind faultKind
	op   Op
	left int
	wait time.Duration
}

type faultKind int

const (
	faultPush faultKind = iota
	faultCollision
	faultSlow
	faultCut
	faultDeny
	faultLimit
)

func newFaults() *Faults { return &Faults{rotate: func() {}, wake: func() {}} }

// add installs a rule in place of the one of the same kind and Op; a count of 0 only removes that.
func (f *Faults) add(r *rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = slices.DeleteFunc(f.rules, func(old *rule) bool { return old.kind == r.kind && old.op == r.op })
	if r.left != 0 {
		f.rules = append(f.rules, r)
	}
}

// take reports the rule that hits this call, nil if none, and counts the hit.
func (f *Faults) take(kind faultKind, op Op) *rule {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, r := range f.rules {
		if r.kind != kind || r.op != OpAny && r.op != op {
			continue
		}
		if r.left > 0 {
			if r.left--; r.left == 0 {
				f.rules = slices.Delete(f.rules, i, i+1)
			}
		}
		return r
	}
	return nil
}

// LosePushes loses the next n pushes (gRPC) and wake-ups of long polls (HTTP): the change is there, nobody is told.
func (f *Faults) LosePushes(n int) { f.add(&rule{kind: faultPush, left: n}) }

// SlowReplies delays the replies to the next n calls of a kind by d, after they have been applied.
func (f *Faults) SlowReplies(op Op, n int, d time.Duration) {
	f.add(&rule{kind: faultSlow, op: op, left: n, wait: d})
}

// CutReplies closes the connection instead of replying to the next n calls of a kind, after they have been applied.
func (f *Faults) CutReplies(op Op, n int) { f.add(&rule{kind: faultCut, op: op, left: n}) }

// Deny refuses the next n calls of a kind with 403 "authorization failed!", whoever makes them. Logins and paths that are
// open without a token are not refused; DelayUsers makes logins fail.
func (f *Faults) Deny(op Op, n int) { f.add(&rule{kind: faultDeny, op: op, left: n}) }

// LimitRate refuses the next n calls of a kind as a server does whose rate limit is exceeded: 503 "Tps Flow restricted".
func (f *Faults) LimitRate(op Op, n int) { f.add(&rule{kind: faultLimit, op: op, left: n}) }

// DelayDumps makes changes visible d later than they would be; 0 ends it. It works with the dump tick off, too.
func (f *Faults) DelayDumps(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.delay = d
}

// CollideDumps makes the next n dumps meet a read in progress. A dump that meets one is tried again a second later, so
// that one collision means 1 s, and two on one config 2 s, of old reads after a publish.
func (f *Faults) CollideDumps(n int) { f.add(&rule{kind: faultCollision, left: n}) }

// HoldReads makes every read hold its read lock for d, so that hot readers delay dumps as they do on real servers.
func (f *Faults) HoldReads(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hold = d
}

// HideConfigs makes every config look missing to reads and listens for d from now; afterwards everybody who listens is
// told of a change. Details read the database and are not affected.
func (f *Faults) HideConfigs(d time.Duration) {
	f.mu.Lock()
	f.hidden = time.Now().Add(d)
	f.mu.Unlock()
	f.wake()
}

// HideAfterRestart makes every config look missing for d after each Restart, as r-nacos does for 2-3 s.
func (f *Faults) HideAfterRestart(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.blinded = d
}

// DelayUsers makes logins fail for d after each Restart, as real servers do for some 5 s until the users are loaded.
func (f *Faults) DelayUsers(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.noUsers = d
}

// RotateTokenKey changes the key that signs access tokens. Tokens handed out before get 403 "Invalid signature".
func (f *Faults) RotateTokenKey() { f.rotate() }

// RemoveAPIs makes HTTP paths that begin with one of the prefixes, such as "/nacos/v1/", answer 404, as later servers
// do. Without prefixes everything is there again.
func (f *Faults) RemoveAPIs(prefixes ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.removed = slices.Clone(prefixes)
}

// IgnoreCAS makes compare-and-publish publish without comparing, as r-nacos does.
func (f *Faults) IgnoreCAS(ignore bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ignore = ignore
}

// Freeze stops the server as SIGSTOP does: connections are still accepted by the operating system, nothing is read or
// answered on any port. Calls that their client gave up in the meantime are not applied after Thaw.
func (f *Faults) Freeze() { f.gate.freeze() }

// Thaw ends Freeze.
func (f *Faults) Thaw() { f.gate.thaw() }

// Reset removes all faults and thaws the server.
func (f *Faults) Reset() {
	f.Thaw()
	defer f.wake()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules, f.removed = nil, nil
	f.delay, f.hold, f.blinded, f.noUsers = 0, 0, 0, 0
	f.hidden, f.users = time.Time{}, time.Time{}
	f.ignore = false
}

func (f *Faults) losePush() bool { return f.take(faultPush, OpAny) != nil }

func (f *Faults) collide() bool { return f.take(faultCollision, OpAny) != nil }

func (f *Faults) dumpDelay() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.delay
}

func (f *Faults) readHold() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hold
}

func (f *Faults) absent() bool { return time.Now().Before(f.hiddenUntil()) }

// hiddenUntil returns when configs can be seen again; a time in the past if they can be now.
func (f *Faults) hiddenUntil() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hidden
}

func (f *Faults) usersMissing() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Now().Before(f.users)
}

func (f *Faults) ignoresCAS() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ignore
}

func (f *Faults) removedPath(path string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.removed, func(prefix string) bool { return strings.HasPrefix(path, prefix) })
}

// restarted starts the faults that follow a restart.
func (f *Faults) restarted() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.blinded > 0 {
		f.hidden = time.Now().Add(f.blinded)
	}
	if f.noUsers > 0 {
		f.users = time.Now().Add(f.noUsers)
	}
}

// reply delays a reply that is ready, as asked, and reports whether it is to be cut: by a fault, or because nobody is
// there any more to hear it.
func (f *Faults) reply(ctx context.Context, op Op) (cut bool) {
	if r := f.take(faultSlow, op); r != nil {
		wait(ctx, r.wait)
	}
	return f.take(faultCut, op) != nil || ctx.Err() != nil
}
