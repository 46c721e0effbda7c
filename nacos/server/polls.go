package server

import (
	"errors"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Separators of the form field Listening-Configs.
const (
	wordSeparator = "\x02"
	lineSeparator = "\x01"
	maxPolled     = 10000 // configs in one long poll
)

// polled is one config in a long poll.
type polled struct {
	key    key    // with the tenant as sent
	tenant bool   // whether a tenant was sent
	md5    string // "" if the client has nothing
}

var errProbe = errors.New("invalid probeModify")

// parseListening reads the field Listening-Configs: for each config, data id, group, md5 and perhaps tenant, separated
// by \x02 and ended by \x01. The field's value may be URL-encoded once more than the form is.
func parseListening(field string) ([]polled, error) {
	decoded, err := url.QueryUnescape(field)
	if err != nil {
		return nil, errProbe
	}
	var list []polled
	for line := range strings.SplitSeq(decoded, lineSeparator) {
		if line == "" {
			continue
		}
		words := strings.Split(line, wordSeparator)
		if len(words) < 3 || len(words) > 4 || len(list) == maxPolled {
			return nil, errProbe
		}
		p := polled{key: key{dataID: words[0], group: words[1]}, md5: words[2]}
		if len(words) == 4 {
			p.tenant, p.key.tenant = true, words[3]
		}
		list = append(list, p)
	}
	if len(list) == 0 {
		return nil, errProbe
	}
	return list, nil
}

// changedText is the answer to a long poll: the changed configs, URL-encoded; empty if there are none.
func changedText(changed []polled, dropPublic bool) string {
	if len(changed) == 0 {
		return ""
	}
	var b strings.Builder
	for _, p := range changed {
		b.WriteString(p.key.dataID + wordSeparator + p.key.group)
		if p.tenant && p.key.tenant != "" && !(dropPublic && p.key.tenant == publicNamespace) {
			b.WriteString(wordSeparator + p.key.tenant)
		}
		b.WriteString(lineSeparator)
	}
	return url.QueryEscape(b.String()) + "\n"
}

// pollMemory is for how long the listener query shows a 1.x client after its poll was answered: it asks again at once.
const pollMemory = time.Second

// poll is a long poll that is being held, or was until a moment ago.
type poll struct {
	ip    string
	keys  map[key]string // md5 by config as it is looked up
	wake  chan struct{}
	ended time.Time // zero while it is held
}

// polls are the long polls of 1.x clients. It is safe for concurrent use.
type polls struct {
	mu   sync.Mutex
	held map[*poll]struct{}
}

func newPolls() *polls { return &polls{held: make(map[*poll]struct{})} }

func (ps *polls) hold(ip string, keys map[key]string) *poll {
	p := &poll{ip: ip, keys: keys, wake: make(chan struct{}, 1)}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for old := range ps.held {
		if old.forgotten() {
			delete(ps.held, old)
		}
	}
	ps.held[p] = struct{}{}
	return p
}

func (p *poll) forgotten() bool { return !p.ended.IsZero() && time.Since(p.ended) > pollMemory }

func (ps *polls) end(p *poll) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p.ended = time.Now()
}

// changed wakes the polls that wait for k.
func (ps *polls) changed(k key, faults *Faults) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for p := range ps.held {
		if _, ok := p.keys[k]; !ok || !p.ended.IsZero() || faults.losePush() {
			continue
		}
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
}

// listening calls see for every config that a 1.x client waits for.
func (ps *polls) listening(see func(ip string, k key, md5 string)) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for p := range ps.held {
		if p.forgotten() {
			continue
		}
		for k, md5 := range p.keys {
			see(p.ip, k, md5)
		}
	}
}

// listenersOf returns who listens to k: the address that the client claims (gRPC) or has (HTTP), and the md5 it has.
func (s *Server) listenersOf(k key) map[string]string {
	found := make(map[string]string)
	s.polls.listening(func(ip string, have key, md5 string) {
		if have == k {
			found[ip] = md5
		}
	})
	for _, c := range s.conns.list() {
		if l, ok := c.listening(k); ok {
			found[c.clientIP] = l.md5
		}
	}
	return found
}

// listenedBy returns what the clients at an address listen to.
func (s *Server) listenedBy(ip string) map[key]string {
	found := make(map[key]string)
	s.polls.listening(func(have string, k key, md5 string) {
		if have == ip {
			found[k] = md5
		}
	})
	for _, c := range s.conns.list() {
		if c.clientIP != ip {
			continue
		}
		for k, l := range c.all() {
			found[k] = l.md5
		}
	}
	return found
}
