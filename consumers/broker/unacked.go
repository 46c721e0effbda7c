package broker

import "sort"

// pending is a delivery that a client has not acknowledged.
type pending struct {
	tag   uint64
	item  *item // nil: settled, its slot is not reused yet
	queue *queue
	from  *consumer // nil for basic.get
	since int64     // broker time of the delivery, nanoseconds
}

// unacked holds a channel's pending deliveries in the order of their tags.
// Tags only grow; settled slots are removed when they are many.
type unacked struct {
	slots []pending
	live  int
}

func (u *unacked) add(p pending) {
	u.slots = append(u.slots, p)
	u.live++
}

// find is the position of tag, or -1.
func (u *unacked) find(tag uint64) int {
	if len(u.slots) == 0 || tag < u.slots[0].tag {
		return -1
	}
	at := int(min(tag-u.slots[0].tag, uint64(len(u.slots)-1)))
	if u.slots[at].tag != tag {
		at = sort.Search(len(u.slots), func(i int) bool { return u.slots[i].tag >= tag })
	}
	if at == len(u.slots) || u.slots[at].tag != tag || u.slots[at].item == nil {
		return -1
	}
	return at
}

// take removes the delivery of tag.
func (u *unacked) take(tag uint64) (pending, bool) {
	at := u.find(tag)
	if at < 0 {
		return pending{}, false
	}
	p := u.slots[at]
	u.slots[at].item = nil
	u.live--
	u.trim()
	return p, true
}

// takeUpTo removes every delivery up to and with tag, in order.
func (u *unacked) takeUpTo(tag uint64, f func(pending)) {
	n := 0
	for n < len(u.slots) && u.slots[n].tag <= tag {
		if u.slots[n].item != nil {
			f(u.slots[n])
			u.live--
		}
		n++
	}
	u.slots = append(u.slots[:0], u.slots[n:]...)
}

// trim removes settled slots: those at the front, and all when they
// outnumber the pending ones.
func (u *unacked) trim() {
	n := 0
	for n < len(u.slots) && u.slots[n].item == nil {
		n++
	}
	if n == len(u.slots) {
		u.slots = u.slots[:0]
		return
	}
	if n < 64 && len(u.slots) < 2*u.live+64 {
		return
	}
	kept := u.slots[:0]
	for _, p := range u.slots[n:] {
		if p.item != nil {
			kept = append(kept, p)
		}
	}
	clear(u.slots[len(kept):])
	u.slots = kept
}

// takeIf removes every delivery that f selects, in order.
func (u *unacked) takeIf(f func(*pending) bool) []pending {
	var out []pending
	kept := u.slots[:0]
	for _, p := range u.slots {
		switch {
		case p.item == nil:
		case f(&p):
			out = append(out, p)
		default:
			kept = append(kept, p)
		}
	}
	clear(u.slots[len(kept):])
	u.slots, u.live = kept, len(kept)
	return out
}

func (u *unacked) takeAll() []pending {
	return u.takeIf(func(*pending) bool { return true })
}

// oldest is the time of the first pending delivery, 0 when there is none.
func (u *unacked) oldest() int64 {
	for i := range u.slots {
		if u.slots[i].item != nil {
			return u.slots[i].since
		}
	}
	return 0
}
