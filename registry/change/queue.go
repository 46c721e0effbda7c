package change

import "container/heap"

// queue holds the pending keys of one window setting. With a constant window the order of arrival is the order of
// delivery, so a list does; a debounced key moves on with each event, and waits in a heap at the time that it had
// when it was last looked at, so that an event costs no reordering.
type queue struct {
	window     Window
	head, tail *record
	heap       atHeap
}

func (q *queue) debounces() bool { return q.window.Quiet > 0 }

func (q *queue) empty() bool { return q.head == nil && len(q.heap) == 0 }

// push adds a key whose due is set.
func (q *queue) push(r *record) {
	r.pend.q = q
	if q.debounces() {
		heap.Push(&q.heap, r)
		return
	}
	r.pend.prev, r.pend.next = q.tail, nil
	if q.tail == nil {
		q.head = r
	} else {
		q.tail.pend.next = r
	}
	q.tail = r
}

// first is the pending key that is due next, or nil.
func (q *queue) first() *record {
	if !q.debounces() {
		return q.head
	}
	for len(q.heap) > 0 {
		top := &q.heap[0]
		if top.at == top.r.pend.due {
			return top.r
		}
		top.at = top.r.pend.due
		heap.Fix(&q.heap, 0)
	}
	return nil
}

// remove takes a key out.
func (q *queue) remove(r *record) {
	p := &r.pend
	p.q = nil
	if q.debounces() {
		heap.Remove(&q.heap, int(p.pos))
		return
	}
	if p.prev == nil {
		q.head = p.next
	} else {
		p.prev.pend.next = p.next
	}
	if p.next == nil {
		q.tail = p.prev
	} else {
		p.next.pend.prev = p.prev
	}
	p.prev, p.next = nil, nil
}

// each calls f for the keys that wait here: where the window is fixed for the first n by due time (0: all), else for
// all, in no order.
func (q *queue) each(n int, f func(*record)) {
	for r, i := q.head, 1; r != nil && (n == 0 || i <= n); r, i = r.pend.next, i+1 {
		f(r)
	}
	for i := range q.heap {
		f(q.heap[i].r)
	}
}

// nextDue is when an event at now lets a key go whose first event was at first.
func (w Window) nextDue(first, now int64) int64 {
	due := first + int64(w.Max)
	if w.Quiet > 0 {
		due = min(due, now+int64(w.Quiet))
	}
	return due
}

// debounced is a key in the heap, at the due time that it had when it was last looked at.
type debounced struct {
	r  *record
	at int64
}

type atHeap []debounced

func (h atHeap) Len() int { return len(h) }
func (h atHeap) Less(i, j int) bool {
	if h[i].at != h[j].at {
		return h[i].at < h[j].at
	}
	return h[i].r.pend.seq < h[j].r.pend.seq
}
func (h atHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].r.pend.pos, h[j].r.pend.pos = int32(i), int32(j)
}
func (h *atHeap) Push(x any) {
	r := x.(*record)
	r.pend.pos = int32(len(*h))
	*h = append(*h, debounced{r, r.pend.due})
}
func (h *atHeap) Pop() any {
	last := len(*h) - 1
	r := (*h)[last].r
	(*h)[last] = debounced{}
	*h = (*h)[:last]
	return r
}

// fifo is a queue in a slice that reuses its room.
type fifo[T any] struct {
	list []T
	head int
}

func (f *fifo[T]) len() int { return len(f.list) - f.head }

func (f *fifo[T]) push(x T) {
	if f.head > 32 && f.head*2 > len(f.list) {
		n := copy(f.list, f.list[f.head:])
		clear(f.list[n:])
		f.list, f.head = f.list[:n], 0
	}
	f.list = append(f.list, x)
}

func (f *fifo[T]) pop() T {
	var zero T
	x := f.list[f.head]
	f.list[f.head] = zero
	if f.head++; f.head == len(f.list) {
		f.list, f.head = f.list[:0], 0
	}
	return x
}
