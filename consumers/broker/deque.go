package broker

import "sort"

// item is a message in one queue.
type item struct {
	msg         *message
	seq         uint64 // place in the queue; kept over a requeue
	expires     int64  // broker time in nanoseconds; 0: never
	deliveries  int    // delivery count: how often it came back
	redelivered bool
}

// deque holds the ready items of one queue and priority in the order of their
// seq. It is a ring that grows and shrinks with its content.
type deque struct {
	ring []*item // length is a power of two
	head int
	n    int
}

func (d *deque) at(i int) *item     { return d.ring[(d.head+i)&(len(d.ring)-1)] }
func (d *deque) set(i int, v *item) { d.ring[(d.head+i)&(len(d.ring)-1)] = v }

func (d *deque) resize(size int) {
	ring := make([]*item, size)
	for i := range d.n {
		ring[i] = d.at(i)
	}
	d.ring, d.head = ring, 0
}

func (d *deque) pushBack(v *item) {
	if d.n == len(d.ring) {
		d.resize(max(8, 2*d.n))
	}
	d.n++
	d.set(d.n-1, v)
}

func (d *deque) popFront() *item {
	v := d.at(0)
	d.set(0, nil)
	d.head = (d.head + 1) & (len(d.ring) - 1)
	d.n--
	if len(d.ring) > 1024 && d.n < len(d.ring)/8 {
		d.resize(len(d.ring) / 4)
	}
	return v
}

// insert puts v back at the place that its seq gives it.
func (d *deque) insert(v *item) {
	if d.n == len(d.ring) {
		d.resize(max(8, 2*d.n))
	}
	at := sort.Search(d.n, func(i int) bool { return d.at(i).seq > v.seq })
	d.n++
	if at < d.n/2 {
		d.head = (d.head - 1) & (len(d.ring) - 1)
		for i := range at {
			d.set(i, d.at(i+1))
		}
	} else {
		for i := d.n - 1; i > at; i-- {
			d.set(i, d.at(i-1))
		}
	}
	d.set(at, v)
}

// ready is what a queue can deliver now: one deque for each priority, the
// highest last.
type ready struct {
	levels []deque
	n      int
	bytes  int64
}

func newReady(priorities int) ready { return ready{levels: make([]deque, priorities+1)} }

func (r *ready) level(v *item) *deque {
	return &r.levels[min(int(v.msg.priority), len(r.levels)-1)]
}

func (r *ready) push(v *item) {
	r.level(v).pushBack(v)
	r.n++
	r.bytes += int64(len(v.msg.body))
}

func (r *ready) insert(v *item) {
	r.level(v).insert(v)
	r.n++
	r.bytes += int64(len(v.msg.body))
}

func (r *ready) highest() *deque {
	for i := len(r.levels) - 1; i >= 0; i-- {
		if r.levels[i].n > 0 {
			return &r.levels[i]
		}
	}
	return nil
}

// peek is the next item to deliver, nil when there is none.
func (r *ready) peek() *item {
	if d := r.highest(); d != nil {
		return d.at(0)
	}
	return nil
}

func (r *ready) pop() *item { return r.take(r.highest()) }

// popLowest takes the item that a length limit drops first.
func (r *ready) popLowest() *item {
	for i := range r.levels {
		if r.levels[i].n > 0 {
			return r.take(&r.levels[i])
		}
	}
	return nil
}

func (r *ready) take(d *deque) *item {
	if d == nil {
		return nil
	}
	v := d.popFront()
	r.n--
	r.bytes -= int64(len(v.msg.body))
	return v
}
