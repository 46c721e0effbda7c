package broker

import (
	"crypto/subtle"
	"fmt"
	"regexp"
	"slices"
)

// Password is a user's password. It prints as ***.
type Password string

// String hides the password.
func (Password) String() string { return "***" }

// GoString hides the password.
func (Password) GoString() string { return "***" }

// User is somebody who may log in.
type User struct {
	Name     string
	Password Password
	// Permissions by vhost. Nil means everything on every vhost; with an
	// entry missing the vhost is refused.
	Permissions map[string]Permissions
	// Tags decide what the management API shows: administrator, monitoring,
	// management. Nil means administrator.
	Tags []string
}

// Permissions are regular expressions, unanchored as RabbitMQ's are, that the
// names of exchanges and queues must match. An empty one matches nothing but
// the empty name.
type Permissions struct {
	Configure string
	Read      string
	Write     string
}

type permission int

const (
	permConfigure permission = iota
	permWrite
	permRead
)

// user is a User ready for checks.
type user struct {
	name     string
	password string
	tags     []string
	all      bool
	perms    map[string][3]*regexp.Regexp // vhost → configure, write, read
}

func compileUser(u User) (*user, error) {
	out := &user{name: u.Name, password: string(u.Password), tags: u.Tags, all: u.Permissions == nil}
	if u.Tags == nil {
		out.tags = []string{"administrator"}
	}
	out.perms = make(map[string][3]*regexp.Regexp)
	for vhost, p := range u.Permissions {
		var compiled [3]*regexp.Regexp
		for i, pattern := range []string{p.Configure, p.Write, p.Read} {
			if pattern == "" {
				pattern = "^$"
			}
			re, err := regexp.Compile(pattern)
			if err != nil {
				return nil, fmt.Errorf("permissions of user %q on vhost %q: %w", u.Name, vhost, err)
			}
			compiled[i] = re
		}
		out.perms[vhost] = compiled
	}
	return out, nil
}

func (u *user) mayEnter(vhost string) bool {
	_, ok := u.perms[vhost]
	return u.all || ok
}

func (u *user) may(vhost string, p permission, name string) bool {
	if u.all {
		return true
	}
	if name == "" {
		name = "amq.default"
	}
	compiled, ok := u.perms[vhost]
	return ok && compiled[p].MatchString(name)
}

func (u *user) has(tags ...string) bool {
	return slices.ContainsFunc(tags, func(t string) bool { return slices.Contains(u.tags, t) })
}

// login is the user with this name and password, nil when there is none.
func (b *Broker) login(name, password string) *user {
	b.mu.Lock()
	u := b.users[name]
	b.mu.Unlock()
	if u == nil || subtle.ConstantTimeCompare([]byte(u.password), []byte(password)) != 1 {
		return nil
	}
	return u
}

// rightsOf is the user as last set: a change of permissions holds for channels
// opened after it.
func (b *Broker) rightsOf(u *user) *user {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := b.users[u.name]; now != nil {
		return now
	}
	return u
}

// allowed refuses what the connection's user has no permission for.
func (c *conn) allowed(p permission, kind, name string) *replyError {
	if c.rights.Load().may(c.vhost.name, p, name) {
		return nil
	}
	if kind == "exchange" && name == "" {
		name = "amq.default"
	}
	return channelError(403, "access to %s '%s' in vhost '%s' refused for user '%s'", kind, name, c.vhost.name, c.user.name)
}

// Policy gives queues whose names match Pattern limits that their arguments
// do not. Of several that match, the highest Priority holds.
type Policy struct {
	ApplyTo    string // "queues", "exchanges" or "all"; empty means all
	Definition Table  // such as "message-ttl", "max-length", "delivery-limit"
	Name       string
	Pattern    string
	Priority   int
	re         *regexp.Regexp
}

func (v *vhost) policyFor(queue string) *Policy {
	var best *Policy
	for i := range v.policies {
		p := &v.policies[i]
		if p.ApplyTo != "exchanges" && p.re.MatchString(queue) && (best == nil || p.Priority > best.Priority) {
			best = p
		}
	}
	return best
}
