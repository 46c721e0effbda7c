package change

// record is what a shard remembers of one key. The cached items and tombstones are what the last drain left; exists,
// high and live are ahead of them: they stand for the state after every accepted event, pending ones included.
// That is what makes an answer given at accept (stale, equal, changed) the one that the sequential oracle gives.
//
// An event of a busy shard costs what its cache misses cost, so the pending list stands inside the record, with room
// for one item, and what an event touches stands first: 320 bytes, five cache lines, of which a merge needs four.
type record struct {
	key         Key
	high        int64 // datum version after all accepted events
	floor       int64 // highest version ever handed out: later local ones are above it, even after a clean
	accepted    uint32
	live        uint32 // items after all accepted events
	temps       uint16 // temporary events on their way
	turn        uint8  // the worker that delivers the key, 0 for none
	exists      bool
	waiting     bool // pend is in use
	used        bool // since the last sweep
	inUse       bool // the slot holds a key
	pend        pending
	items       []Item  // cached: sorted by ID, all live; never written after it is published
	tombs       *[]tomb // sorted by ID; nil for none
	version     int64   // datum version last delivered
	itemTop     int64   // highest version of an accepted item
	firstSeen   int64   // monotonic, as every time here
	deliveredAt int64
	delivered   uint32
	suppressed  uint32
	stale       uint32
	late        uint32
}

// tomb remembers a removal.
type tomb struct {
	Item
	until int64
}

// idle reports whether nothing of the key is on its way inside the shard.
func (r *record) idle() bool { return !r.waiting && r.turn == 0 && r.temps == 0 }

func (r *record) tombstones() []tomb {
	if r.tombs == nil {
		return nil
	}
	return *r.tombs
}

const chunkBits = 8

// table maps keys to records: open addressing over 8-byte slots, records in chunks that never move. One hash,
// computed by the caller, chooses the shard and the slot.
type table struct {
	rehash func(*Key) uint64
	slots  []slot
	chunks [][]record
	free   []uint32
	count  int
	next   uint32 // first record never used
	hand   uint32 // of the sweep
}

// slot points at a record by index+1; 0 is empty.
type slot struct{ tag, ref uint32 }

func (t *table) at(i uint32) *record { return &t.chunks[i>>chunkBits][i&(1<<chunkBits-1)] }

// find returns the key's record, or nil.
func (t *table) find(key *Key, hash uint64) *record {
	if len(t.slots) == 0 {
		return nil
	}
	mask := uint64(len(t.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		s := t.slots[i]
		if s.ref == 0 {
			return nil
		}
		if s.tag == uint32(hash>>32) {
			if r := t.at(s.ref - 1); r.key.DataInfoID == key.DataInfoID && r.key.DataCenter == key.DataCenter {
				return r
			}
		}
	}
}

// add makes a record for a key that find did not find.
func (t *table) add(key *Key, hash uint64) *record {
	if (t.count+1)*4 > len(t.slots)*3 {
		t.grow()
	}
	var ref uint32
	if n := len(t.free); n > 0 {
		ref, t.free = t.free[n-1], t.free[:n-1]
	} else {
		ref = t.next
		if int(ref>>chunkBits) == len(t.chunks) {
			t.chunks = append(t.chunks, make([]record, 1<<chunkBits))
		}
		t.next++
	}
	r := t.at(ref)
	*r = record{key: *key, inUse: true}
	t.place(hash, ref+1)
	t.count++
	return r
}

func (t *table) place(hash uint64, ref uint32) {
	mask := uint64(len(t.slots) - 1)
	i := hash & mask
	for t.slots[i].ref != 0 {
		i = (i + 1) & mask
	}
	t.slots[i] = slot{uint32(hash >> 32), ref}
}

func (t *table) grow() {
	old := t.slots
	t.slots = make([]slot, max(64, 2*len(old)))
	for _, s := range old {
		if s.ref != 0 {
			t.place(t.rehash(&t.at(s.ref-1).key), s.ref)
		}
	}
}

// remove forgets a record and closes the gap that it leaves in its run of slots.
func (t *table) remove(ref uint32) {
	mask := uint64(len(t.slots) - 1)
	r := t.at(ref)
	i := t.rehash(&r.key) & mask
	for t.slots[i].ref != ref+1 {
		i = (i + 1) & mask
	}
	for j := (i + 1) & mask; t.slots[j].ref != 0; j = (j + 1) & mask {
		home := t.rehash(&t.at(t.slots[j].ref-1).key) & mask
		if (j-home)&mask >= (j-i)&mask {
			t.slots[i] = t.slots[j]
			i = j
		}
	}
	t.slots[i] = slot{}
	*r = record{}
	t.free = append(t.free, ref)
	t.count--
}

// sweep forgets one record that was not used since the hand last passed and that nobody holds, and reports whether it
// found one. It looks at a bounded number of records, so a shard full of busy keys costs little.
func (t *table) sweep(held func(*record) bool) bool {
	for range 64 {
		if t.hand >= t.next {
			t.hand = 0
		}
		ref := t.hand
		t.hand++
		r := t.at(ref)
		switch {
		case !r.inUse || !r.idle():
		case r.used:
			r.used = false
		case held(r):
		default:
			t.remove(ref)
			return true
		}
	}
	return false
}

// all calls f for every record until f returns false.
func (t *table) all(f func(*record) bool) {
	for i := range t.next {
		if r := t.at(i); r.inUse && !f(r) {
			return
		}
	}
}
