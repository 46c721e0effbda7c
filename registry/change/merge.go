package change

import (
	"slices"
	"strings"
)

// pending is the reduced list of what was accepted for a key and is not delivered: [clean] [cover] items. Each item
// appears once, as the last event left it.
type pending struct {
	rec  *record
	cell // its place in a queue

	first int64 // accept time of the first event
	seq   uint64
	delta []Item // sorted by ID: live items, UnPublishers, gone ones

	events, stale, dropped uint32

	clean, cover bool // the cached items do not count; with clean the cached tombstones neither
	existed      bool // the key existed when the window opened
	late         bool
	tombs        bool // delta holds an UnPublisher or a gone item
	reasons      Sources
}

// verdict is what became of one event when it was accepted.
type verdict uint8

const (
	kept    verdict = iota
	stale           // older than what is there
	dropped         // says nothing new
)

// find returns the item of that id as the accepted events left it; tombstones count, gone items do not.
func (r *record) find(p *pending, id string, now int64) *Item {
	if i, ok := searchItems(p.delta, id); ok {
		if p.delta[i].gone {
			return nil
		}
		return &p.delta[i]
	}
	if p.clean {
		return nil
	}
	if !p.cover {
		if i, ok := searchItems(r.items, id); ok {
			return &r.items[i]
		}
	}
	if len(r.tombs) > 0 {
		if i, ok := slices.BinarySearchFunc(r.tombs, id, func(t tomb, id string) int { return strings.Compare(t.ID, id) }); ok && r.tombs[i].until > now {
			return &r.tombs[i].Item
		}
	}
	return nil
}

func searchItems(list []Item, id string) (int, bool) {
	switch len(list) { // most keys hold one item
	case 0:
		return 0, false
	case 1:
		if list[0].ID == id {
			return 0, true
		}
		if list[0].ID < id {
			return 1, false
		}
		return 0, false
	}
	return slices.BinarySearchFunc(list, id, func(x Item, id string) int { return strings.Compare(x.ID, id) })
}

// put stores x in the pending list.
func (p *pending) put(x *Item) {
	if !x.live() {
		p.tombs = true
	}
	i, ok := searchItems(p.delta, x.ID)
	if ok {
		p.delta[i] = *x
		return
	}
	p.delta = slices.Insert(p.delta, i, *x)
}

// apply takes one event into the pending list, in accept order. clock is the version that a local change would get
// from the clock alone.
func (s *shard) apply(r *record, p *pending, e *Event, seq uint64, now, clock int64) verdict {
	switch {
	case e.Source == Clean:
		p.delta, r.live = p.delta[:0], 0
		p.clean, p.cover = true, false
		p.reasons = 1 << Clean // who was owed a change of a key that is gone is owed it no more
		r.exists, r.high = false, 0
		return kept
	case e.Kind == Cover || e.Scope == ScopeSnapshot:
		return s.applyCover(r, p, e, seq, now, clock)
	}
	v, changed := stale, false
	for i := range e.Items {
		x := e.Items[i]
		x.seq, x.gone = seq, false
		got, ch := s.mergeItem(r, p, &x, now)
		changed = changed || ch
		if got == kept {
			v = kept
		}
	}
	if v == stale {
		return stale
	}
	r.newVersion(e, changed, clock)
	return kept
}

// applyCover replaces what is there.
func (s *shard) applyCover(r *record, p *pending, e *Event, seq uint64, now, clock int64) verdict {
	if e.external() && r.exists {
		if e.Version < r.high {
			return stale
		}
		if e.Version == r.high {
			return dropped
		}
	}
	if e.Scope == ScopeSnapshot && len(e.Items) == 0 && !r.exists {
		return dropped
	}
	next := make([]Item, 0, len(e.Items))
	for i := range e.Items {
		x := e.Items[i]
		x.seq, x.gone = seq, false
		if j, ok := searchItems(next, x.ID); !ok {
			next = slices.Insert(next, j, x)
		} else if x.newer(&next[j]) {
			next[j] = x
		}
	}
	changed := !r.shows(p, next)
	r.wipe(p)
	p.cover = true
	for i := range next {
		if next[i].live() {
			r.live++
			r.itemTop = max(r.itemTop, next[i].Version)
		}
		p.put(&next[i])
	}
	r.exists = true
	r.newVersion(e, changed, clock)
	return kept
}

// shows reports whether the accepted state has exactly the live items of next, by id and content.
func (r *record) shows(p *pending, next []Item) bool {
	n := uint32(0)
	for i := range next {
		x := &next[i]
		if !x.live() {
			continue
		}
		n++
		if cur := r.find(p, x.ID, 0); cur == nil || !cur.live() || cur.Content != x.Content {
			return false
		}
	}
	return n == r.live
}

// wipe empties the pending list of live items; removals stay remembered.
func (r *record) wipe(p *pending) {
	p.delta = slices.DeleteFunc(p.delta, func(x Item) bool { return !x.Unpub })
	r.live = 0
}

// newVersion moves the key's version on: an external event brings its own, a local change makes one.
func (r *record) newVersion(e *Event, changed bool, clock int64) {
	switch {
	case e.external():
		r.high = max(r.high, e.Version)
	case changed:
		r.high = r.localVersion(clock)
		r.floor = r.high
	}
}

func (r *record) localVersion(clock int64) int64 { return max(clock, r.high+1, r.floor+1) }

// mergeItem takes one item; changed reports whether subscribers would see a difference.
func (s *shard) mergeItem(r *record, p *pending, x *Item, now int64) (v verdict, changed bool) {
	cur := r.find(p, x.ID, now)
	if cur != nil && !x.newer(cur) {
		return stale, false
	}
	was := cur != nil && cur.live()
	switch {
	case x.Unpub && was:
		r.live--
		changed = true
	case !x.Unpub && was:
		changed = cur.Content != x.Content
	case !x.Unpub:
		r.live++
		r.exists = true
		changed = true
	}
	p.put(x)
	r.trim(p, s.maxItems)
	if x.live() {
		r.itemTop = max(r.itemTop, x.Version)
		if int(r.live) > s.maxItems {
			r.evict(p)
			s.count.Evicted++
		}
	}
	return kept, changed
}

// each calls f for every live item of the accepted state.
func (r *record) each(p *pending, f func(*Item)) {
	for i := range p.delta {
		if p.delta[i].live() {
			f(&p.delta[i])
		}
	}
	if p.clean || p.cover {
		return
	}
	for i := range r.items {
		if _, ok := searchItems(p.delta, r.items[i].ID); !ok {
			f(&r.items[i])
		}
	}
}

// evict drops the live item that was accepted longest ago.
func (r *record) evict(p *pending) {
	var oldest *Item
	r.each(p, func(x *Item) {
		if oldest == nil || x.seq < oldest.seq {
			oldest = x
		}
	})
	r.live--
	x := *oldest
	if r.hides(p, x.ID) {
		x.gone = true
		p.put(&x)
	} else if i, ok := searchItems(p.delta, x.ID); ok {
		p.delta = slices.Delete(p.delta, i, i+1)
	}
}

// hides reports whether the pending list needs an entry of that id to cover a cached item.
func (r *record) hides(p *pending, id string) bool {
	if p.clean || p.cover {
		return false
	}
	_, ok := searchItems(r.items, id)
	return ok
}

// trim bounds the removals that a pending list remembers: beyond most of them the oldest that hides nothing goes.
func (r *record) trim(p *pending, most int) {
	if len(p.delta) <= len(r.items)+2*most {
		return
	}
	oldest := -1
	for i := range p.delta {
		x := &p.delta[i]
		if x.Unpub && !r.hides(p, x.ID) && (oldest < 0 || x.seq < p.delta[oldest].seq) {
			oldest = i
		}
	}
	if oldest >= 0 {
		p.delta = slices.Delete(p.delta, oldest, oldest+1)
	}
}

// off removes the items of a connection and reports how many there were.
func (r *record) off(p *pending, conn string, seq uint64, clock int64) int {
	var ended []Item
	r.each(p, func(x *Item) {
		if x.Conn == conn {
			ended = append(ended, *x)
		}
	})
	for i := range ended {
		x := &ended[i]
		x.Unpub, x.seq = true, seq
		p.put(x)
		r.live--
	}
	if len(ended) > 0 {
		r.high = r.localVersion(clock)
		r.floor = r.high
	}
	return len(ended)
}

// result is what applying a pending list leaves.
type result struct {
	items   []Item
	tombs   []tomb
	changed bool
}

// settle applies the pending list to the cached items. The slices of the result are new, or taken from the list,
// which is not used afterwards; the cached ones stay as they are, notifiers may hold them.
func (r *record) settle(p *pending, now, until int64, maxTombs int) result {
	base := r.items
	if p.clean || p.cover {
		base = nil
	}
	var out result
	switch {
	case !p.tombs && (len(base) == 0 || sameIDs(base, p.delta)):
		out.items, p.delta = p.delta, nil
	default:
		out.items = mergeItems(base, p.delta)
	}
	if p.tombs || len(r.tombs) > 0 {
		out.tombs = r.settleTombs(p, now, until, maxTombs)
	}
	out.changed = !sameContent(r.items, out.items)
	return out
}

func sameIDs(a, b []Item) bool {
	return slices.EqualFunc(a, b, func(x, y Item) bool { return x.ID == y.ID })
}

func sameContent(a, b []Item) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].ID != b[i].ID || a[i].Content != b[i].Content {
			return false
		}
	}
	return true
}

// mergeItems lays delta over base, both sorted, and leaves the live ones.
func mergeItems(base, delta []Item) []Item {
	out := make([]Item, 0, len(base)+len(delta))
	for len(base) > 0 || len(delta) > 0 {
		switch {
		case len(delta) == 0 || len(base) > 0 && base[0].ID < delta[0].ID:
			out = append(out, base[0])
			base = base[1:]
		default:
			if len(base) > 0 && base[0].ID == delta[0].ID {
				base = base[1:]
			}
			if delta[0].live() {
				out = append(out, delta[0])
			}
			delta = delta[1:]
		}
	}
	return out
}

// settleTombs renews the removals of the pending list and lets go those that an item or the time overtook.
func (r *record) settleTombs(p *pending, now, until int64, most int) []tomb {
	var out []tomb
	if !p.clean {
		for _, t := range r.tombs {
			if _, ok := searchItems(p.delta, t.ID); !ok && t.until > now {
				out = append(out, t)
			}
		}
	}
	for i := range p.delta {
		if p.delta[i].Unpub && !p.delta[i].gone {
			out = append(out, tomb{p.delta[i], until})
		}
	}
	if len(out) > most {
		slices.SortFunc(out, func(a, b tomb) int { return int(int64(b.seq - a.seq)) })
		out = out[:most]
	}
	slices.SortFunc(out, func(a, b tomb) int { return strings.Compare(a.ID, b.ID) })
	return out
}
