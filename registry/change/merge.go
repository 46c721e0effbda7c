package change

import (
	"slices"
	"strings"
)

// pending is the reduced list of what was accepted for a key and is not delivered: [clean] [cover] items. Each item
// appears once, as the last event left it. The zero value is an empty list.
type pending struct {
	delta []Item // sorted by ID: live items, UnPublishers, gone ones; starts in one

	events, stale, dropped uint32
	pos                    int32 // in the heap of a debouncing queue

	q   *queue // nil while the key's turn is awaited
	due int64

	reasons      Sources
	clean, cover bool // the cached items do not count; with clean the cached tombstones neither
	existed      bool // the key existed when the window opened
	late         bool
	local        bool // high was made here, not brought by an external event
	tombs        bool // delta holds an UnPublisher or a gone item

	one        [1]Item
	first      int64 // accept time of the first event
	seq        uint64
	prev, next *record // in the list of a queue with a fixed window
}

// verdict is what became of one event when it was accepted.
type verdict uint8

const (
	kept    verdict = iota
	stale           // older than what is there
	dropped         // says nothing new
)

// find returns the item of that id as the accepted events left it; tombstones count, gone items do not.
func (r *record) find(id string, now int64) *Item {
	if i, ok := searchItems(r.pend.delta, id); ok {
		if r.pend.delta[i].gone {
			return nil
		}
		return &r.pend.delta[i]
	}
	if r.pend.clean {
		return nil
	}
	if !r.pend.cover {
		if i, ok := searchItems(r.items, id); ok {
			return &r.items[i]
		}
	}
	if r.tombs != nil {
		if i := searchTombs(*r.tombs, id); i >= 0 && (*r.tombs)[i].until > now {
			return &(*r.tombs)[i].Item
		}
	}
	return nil
}

// searchItems is where an id stands, or would stand, in a sorted list.
func searchItems(list []Item, id string) (int, bool) {
	lo, hi := 0, len(list)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		switch have := list[mid].ID; {
		case have == id: // first: most keys hold one item, and it is that one
			return mid, true
		case have < id:
			lo = mid + 1
		default:
			hi = mid
		}
	}
	return lo, false
}

// put stores x in the pending list.
func (r *record) put(x *Item) {
	if !x.live() {
		r.pend.tombs = true
	}
	if len(r.pend.delta) == 0 && cap(r.pend.delta) == 0 {
		r.pend.one[0] = *x
		r.pend.delta = r.pend.one[:]
		return
	}
	r.pend.delta = putItem(r.pend.delta, x)
}

// putItem puts x into a sorted list.
func putItem(list []Item, x *Item) []Item {
	i, ok := searchItems(list, x.ID)
	if ok {
		list[i] = *x
		return list
	}
	return slices.Insert(list, i, *x)
}

// apply takes one event into the pending list, in accept order. clock is the version that a local change would get
// from the clock alone.
func (s *shard) apply(r *record, e *Event, seq uint64, now, clock int64) verdict {
	switch {
	case e.Source == Clean:
		r.pend.delta, r.live = r.pend.delta[:0], 0
		r.pend.clean, r.pend.cover, r.pend.local = true, false, false
		r.pend.reasons = 1 << Clean // who was owed a change of a key that is gone is owed it no more
		r.exists, r.high = false, 0
		return kept
	case e.Kind == Cover || e.Scope == ScopeSnapshot:
		return s.applyCover(r, e, seq, clock)
	}
	v, changed := stale, false
	take := func(x *Item) {
		got, ch := s.mergeItem(r, x, now)
		changed = changed || ch
		if got == kept {
			v = kept
		}
	}
	if len(e.Items) == 1 {
		x := e.Items[0]
		x.seq, x.gone = seq, false
		take(&x)
	} else {
		list := own(e.Items, seq)
		for i := range list {
			take(&list[i])
		}
	}
	if v == stale {
		return stale
	}
	r.newVersion(e, changed, clock)
	return kept
}

// applyCover replaces what is there.
func (s *shard) applyCover(r *record, e *Event, seq uint64, clock int64) verdict {
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
	next := own(e.Items, seq)
	changed := !r.exists || !r.shows(next)
	r.coverAll()
	for i := range next {
		if next[i].live() {
			r.live++
			r.itemTop = max(r.itemTop, next[i].Version)
		}
		r.put(&next[i])
	}
	s.bound(r)
	r.exists = true
	r.newVersion(e, changed, clock)
	return kept
}

// own copies an event's items, sorted, each id once.
func own(items []Item, seq uint64) []Item {
	out := make([]Item, 0, len(items))
	for i := range items {
		x := items[i]
		x.seq, x.gone = seq, false
		if j, ok := searchItems(out, x.ID); !ok {
			out = slices.Insert(out, j, x)
		} else if x.newer(&out[j]) {
			out[j] = x
		}
	}
	return out
}

// shows reports whether the accepted state has exactly the live items of next, by id and content.
func (r *record) shows(next []Item) bool {
	n := uint32(0)
	for i := range next {
		x := &next[i]
		if !x.live() {
			continue
		}
		n++
		if cur := r.find(x.ID, 0); cur == nil || !cur.live() || cur.Content != x.Content {
			return false
		}
	}
	return n == r.live
}

// coverAll empties the pending list of live items and hides the cached ones; removals stay remembered.
func (r *record) coverAll() {
	r.pend.cover = true
	r.live = 0
	r.pend.delta = slices.DeleteFunc(r.pend.delta, func(x Item) bool { return !x.Unpub && !r.hides(x.ID) })
	for i := range r.pend.delta {
		if x := &r.pend.delta[i]; !x.Unpub {
			x.gone, r.pend.tombs = true, true
		}
	}
}

// newVersion moves the key's version on: an external event brings its own, a local change makes one.
func (r *record) newVersion(e *Event, changed bool, clock int64) {
	switch {
	case e.external():
		if e.Version > r.high {
			r.high, r.pend.local = e.Version, false
		}
	case changed:
		r.makeVersion(clock)
	}
}

func (r *record) makeVersion(clock int64) {
	r.high = r.localVersion(clock)
	r.floor, r.pend.local = r.high, true
}

func (r *record) localVersion(clock int64) int64 { return max(clock, r.high+1, r.floor+1) }

// mergeItem takes one item; changed reports whether subscribers would see a difference.
func (s *shard) mergeItem(r *record, x *Item, now int64) (v verdict, changed bool) {
	cur := r.find(x.ID, now)
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
	r.put(x)
	r.trim(s.maxItems)
	if x.live() {
		r.itemTop = max(r.itemTop, x.Version)
		s.bound(r)
	}
	return kept, changed
}

// bound drops what is more than the key may hold.
func (s *shard) bound(r *record) {
	if r.live <= 1 {
		return
	}
	for most := s.limit(r); int(r.live) > most; s.count.Evicted++ {
		r.evict()
	}
}

// limit is how many items the key may hold.
func (s *shard) limit(r *record) int {
	if s.c.cfg.ItemLimit == nil {
		return s.maxItems
	}
	return min(s.maxItems, max(1, s.c.cfg.ItemLimit(r.key)))
}

// each calls f for every live item of the accepted state.
func (r *record) each(f func(*Item)) {
	delta := r.pend.delta
	for i := range delta {
		if delta[i].live() {
			f(&delta[i])
		}
	}
	if r.pend.clean || r.pend.cover {
		return
	}
	for i := range r.items { // both are sorted
		x := &r.items[i]
		for len(delta) > 0 && delta[0].ID < x.ID {
			delta = delta[1:]
		}
		if len(delta) == 0 || delta[0].ID != x.ID {
			f(x)
		}
	}
}

// evict drops the live item that was accepted longest ago.
func (r *record) evict() {
	var oldest *Item
	r.each(func(x *Item) {
		if oldest == nil || x.seq < oldest.seq {
			oldest = x
		}
	})
	r.live--
	x := *oldest
	if r.hides(x.ID) {
		x.gone = true
		r.put(&x)
	} else if i, ok := searchItems(r.pend.delta, x.ID); ok {
		r.pend.delta = slices.Delete(r.pend.delta, i, i+1)
	}
}

// hides reports whether the pending list needs an entry of that id to cover a cached item or tombstone.
func (r *record) hides(id string) bool {
	if r.pend.clean {
		return false
	}
	if !r.pend.cover {
		if _, ok := searchItems(r.items, id); ok {
			return true
		}
	}
	return r.tombs != nil && searchTombs(*r.tombs, id) >= 0
}

// searchTombs returns the index of that id, or -1.
func searchTombs(list []tomb, id string) int {
	i, ok := slices.BinarySearchFunc(list, id, func(t tomb, id string) int { return strings.Compare(t.ID, id) })
	if !ok {
		return -1
	}
	return i
}

// trim bounds the removals that a pending list remembers: beyond most of them the oldest that hides nothing goes.
func (r *record) trim(most int) {
	if len(r.pend.delta) <= len(r.items)+2*most {
		return
	}
	oldest := -1
	for i := range r.pend.delta {
		x := &r.pend.delta[i]
		if x.Unpub && !r.hides(x.ID) && (oldest < 0 || x.seq < r.pend.delta[oldest].seq) {
			oldest = i
		}
	}
	if oldest >= 0 {
		r.pend.delta = slices.Delete(r.pend.delta, oldest, oldest+1)
	}
}

// off removes the items of a connection and reports how many there were.
func (r *record) off(conn string, seq uint64, clock int64) int {
	var ended []Item
	r.each(func(x *Item) {
		if x.Conn == conn {
			ended = append(ended, *x)
		}
	})
	for i := range ended {
		x := &ended[i]
		x.Unpub, x.seq = true, seq
		r.put(x)
		r.live--
	}
	if len(ended) > 0 {
		r.makeVersion(clock)
	}
	return len(ended)
}

// result is what applying a pending list leaves.
type result struct {
	items   []Item
	tombs   *[]tomb
	changed bool
}

// settle applies the pending list to the cached items, which stay as they are: notifiers may hold them.
func (r *record) settle(now, until int64, maxTombs int) result {
	base := r.items
	if r.pend.clean || r.pend.cover {
		base = nil
	}
	out := result{items: base}
	if len(r.pend.delta) > 0 {
		out.items = mergeItems(base, r.pend.delta)
	}
	if r.pend.tombs || r.tombs != nil {
		out.tombs = r.settleTombs(now, until, maxTombs)
	}
	out.changed = !sameContent(r.items, out.items)
	return out
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
	if len(delta) == 1 && delta[0].live() && (len(base) == 0 || len(base) == 1 && base[0].ID == delta[0].ID) {
		return []Item{delta[0]} // most keys hold one item
	}
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
func (r *record) settleTombs(now, until int64, most int) *[]tomb {
	var out []tomb
	if !r.pend.clean {
		for _, t := range r.tombstones() {
			if _, ok := searchItems(r.pend.delta, t.ID); !ok && t.until > now {
				out = append(out, t)
			}
		}
	}
	for i := range r.pend.delta {
		if r.pend.delta[i].Unpub && !r.pend.delta[i].gone {
			out = append(out, tomb{r.pend.delta[i], until})
		}
	}
	if len(out) > most {
		slices.SortFunc(out, func(a, b tomb) int { return int(int64(b.seq - a.seq)) })
		out = out[:most]
	}
	if len(out) == 0 {
		return nil
	}
	slices.SortFunc(out, func(a, b tomb) int { return strings.Compare(a.ID, b.ID) })
	return &out
}
