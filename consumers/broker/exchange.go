package broker

import (
	"fmt"
	"reflect"
	"strings"
)

// exchange routes messages to queues and other exchanges of its vhost.
type exchange struct {
	name       string
	kind       string // direct, fanout, topic, headers
	durable    bool
	autoDelete bool
	internal   bool
	args       Table
	alternate  string

	bindings []*binding
	routes   map[string][]*binding // routing key → matching bindings, a cache
}

// binding leads from an exchange to a queue or to another exchange.
type binding struct {
	source *exchange
	key    string
	args   Table
	words  []string // key cut at dots, for topic
	queue  *queue
	target *exchange
}

func (b *binding) same(o *binding) bool {
	return b.queue == o.queue && b.target == o.target && b.key == o.key && sameArgs(b.args, o.args)
}

func sameArgs(a, b Table) bool {
	return len(a) == 0 && len(b) == 0 || reflect.DeepEqual(a, b)
}

func knownKind(kind string) bool {
	switch kind {
	case "direct", "fanout", "topic", "headers":
		return true
	}
	return false
}

// bind adds a binding, and says so, unless the same one is there.
func (x *exchange) bind(b *binding) bool {
	for _, o := range x.bindings {
		if b.same(o) {
			return false
		}
	}
	b.source, b.words = x, splitKey(b.key)
	x.bindings = append(x.bindings, b)
	x.routes = nil
	return true
}

// unbindIf removes the bindings that f selects and says how many.
func (x *exchange) unbindIf(f func(*binding) bool) int {
	kept := x.bindings[:0]
	for _, b := range x.bindings {
		if !f(b) {
			kept = append(kept, b)
		}
	}
	n := len(x.bindings) - len(kept)
	clear(x.bindings[len(kept):])
	x.bindings = kept
	if n > 0 {
		x.routes = nil
	}
	return n
}

const maxCachedRoutes = 4096

// match is the bindings that a message with this key and these headers takes.
func (x *exchange) match(key string, headers func() Table) []*binding {
	if x.kind == "headers" {
		var out []*binding
		t := headers()
		for _, b := range x.bindings {
			if matchHeaders(b.args, t) {
				out = append(out, b)
			}
		}
		return out
	}
	if out, ok := x.routes[key]; ok {
		return out
	}
	var out []*binding
	words := splitKey(key)
	for _, b := range x.bindings {
		if x.kind == "fanout" || b.key == key && x.kind == "direct" || x.kind == "topic" && matchTopic(b.words, words) {
			out = append(out, b)
		}
	}
	if x.routes == nil || len(x.routes) >= maxCachedRoutes {
		x.routes = make(map[string][]*binding)
	}
	x.routes[key] = out
	return out
}

// splitKey cuts a routing key into its words; the empty key has none.
func splitKey(key string) []string {
	if key == "" {
		return nil
	}
	return strings.Split(key, ".")
}

// matchTopic says whether the words of a routing key fit a pattern, where *
// is one word and # any number of them.
func matchTopic(pattern, words []string) bool {
	// The last # seen can take one word more whenever what follows it fails.
	p, w, hash, mark := 0, 0, -1, 0
	for w < len(words) {
		switch {
		case p < len(pattern) && pattern[p] == "#":
			hash, mark = p, w
			p++
		case p < len(pattern) && (pattern[p] == "*" || pattern[p] == words[w]):
			p++
			w++
		case hash >= 0:
			mark++
			p, w = hash+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == "#" {
		p++
	}
	return p == len(pattern)
}

func matchHeaders(args, headers Table) bool {
	all := args["x-match"] != "any" && args["x-match"] != "any-with-x"
	withX := args["x-match"] == "all-with-x" || args["x-match"] == "any-with-x"
	wanted := 0
	for k, v := range args {
		if k == "x-match" || strings.HasPrefix(k, "x-") && !withX {
			continue
		}
		wanted++
		got, ok := headers[k]
		fits := ok && (v == nil || reflect.DeepEqual(v, got))
		if fits && !all {
			return true
		}
		if !fits && all {
			return false
		}
	}
	return all || wanted == 0
}

// route collects the queues that a message published to x reaches, each once.
func (v *vhost) route(x *exchange, m *message) []*queue {
	if x.name == "" {
		if q := v.queues[m.key]; q != nil {
			v.targets = append(v.targets[:0], q)
			return v.targets
		}
		return nil
	}
	r := routing{v: v, out: v.targets[:0]}
	r.walk(x, m, m.key)
	if m.hasCC() {
		for _, key := range m.carbonCopies() {
			r.seen = nil
			r.walk(x, m, key)
		}
		m.header = m.withHeaders(func(t Table) { delete(t, "BCC") })
	}
	v.targets = r.out
	return r.out
}

type routing struct {
	v    *vhost
	out  []*queue
	seen map[*exchange]bool
}

func (r *routing) walk(x *exchange, m *message, key string) {
	if x.name == "" {
		if q := r.v.queues[key]; q != nil {
			r.add(q)
		}
		return
	}
	matched := x.match(key, m.headerTable)
	for _, b := range matched {
		if b.queue != nil {
			r.add(b.queue)
		} else if r.enter(x, b.target) {
			r.walk(b.target, m, key)
		}
	}
	if len(matched) == 0 && x.alternate != "" {
		if alt := r.v.exchanges[x.alternate]; alt != nil && r.enter(x, alt) {
			r.walk(alt, m, key)
		}
	}
}

func (r *routing) enter(from, to *exchange) bool {
	if r.seen == nil {
		r.seen = map[*exchange]bool{from: true}
	}
	if r.seen[to] {
		return false
	}
	r.seen[to] = true
	return true
}

func (r *routing) add(q *queue) {
	for _, o := range r.out {
		if o == q {
			return
		}
	}
	r.out = append(r.out, q)
}

// checkExchange compares a declaration with the exchange that is there.
func (v *vhost) checkExchange(x *exchange, m *method) *replyError {
	durable, autoDelete, internal := m.bit(1), m.bit(2), m.bit(3)
	unlike := func(arg string, received, current any) *replyError {
		return channelError(406, "inequivalent arg '%s' for exchange '%s' in vhost '%s': received '%v' but current is '%v'", arg, x.name, v.name, received, current)
	}
	switch {
	case x.kind != m.kind:
		return unlike("type", m.kind, x.kind)
	case x.durable != durable:
		return unlike("durable", durable, x.durable)
	case x.autoDelete != autoDelete:
		return unlike("auto_delete", autoDelete, x.autoDelete)
	case x.internal != internal:
		return unlike("internal", internal, x.internal)
	}
	return sameArg("alternate-exchange", fmt.Sprintf("exchange '%s' in vhost '%s'", x.name, v.name), m.args, x.args)
}

// sameArg refuses a declaration whose argument differs from what is there.
func sameArg(arg, what string, received, current Table) *replyError {
	r, c := received[arg], current[arg]
	if ri, ok := integer(r); ok {
		if ci, ok := integer(c); ok && ri == ci {
			return nil
		}
	}
	if reflect.DeepEqual(r, c) {
		return nil
	}
	if r != nil && c != nil {
		return channelError(406, "inequivalent arg '%s' for %s: received '%v' but current is '%v'", arg, what, r, c)
	}
	return channelError(406, "inequivalent arg '%s' for %s: received %s but current is %s", arg, what, describeArg(r), describeArg(c))
}

func describeArg(v any) string {
	if v == nil {
		return "none"
	}
	kind := "longstr"
	switch v.(type) {
	case bool:
		kind = "bool"
	case int8:
		kind = "byte"
	case uint8:
		kind = "unsignedbyte"
	case int16:
		kind = "short"
	case uint16:
		kind = "unsignedshort"
	case int32:
		kind = "signedint"
	case uint32:
		kind = "unsignedint"
	case int64:
		kind = "long"
	case float32:
		kind = "float"
	case float64:
		kind = "double"
	case Table:
		kind = "table"
	case []any:
		kind = "array"
	}
	return fmt.Sprintf("the value '%v' of type '%s'", v, kind)
}
