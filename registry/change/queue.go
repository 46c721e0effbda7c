package change

import "container/heap"

// cell is a pending key's place in the queue that it waits in.
type cell struct {
	due        int64
	at         int64 // when a debounced key is looked at again; due may have moved on since
	q          *queue
	prev, next *pending
	pos        int32
}

// queue holds the pending keys of one window setting. With a constant window the order of arrival is the order of
// delivery, so a list does; a debounced key moves on with each event, and waits in a heap at the time that it had
// when it was last looked at, so that an event costs no reordering.
type queue struct {
	window     Window
	head, tail *pending
	heap       atHeap
}

func (q *queue) debounces() bool { return q.window.Quiet > 0 }

func (q *queue) empty() bool { return q.head == nil && len(q.heap) == 0 }

// push adds p, whose due is set.
func (q *queue) push(p *pending) {
	p.q = q
	if q.debounces() {
		p.at = p.due
		heap.Push(&q.heap, p)
		return
	}
	p.prev, p.next = q.tail, nil
	if q.tail == nil {
		q.head = p
	} else {
		q.tail.next = p
	}
	q.tail = p
}

// first is the pending key that is due next, or nil.
func (q *queue) first() *pending {
	if !q.debounces() {
		return q.head
	}
	for len(q.heap) > 0 {
		p := q.heap[0]
		if p.at == p.due {
			return p
		}
		p.at = p.due
		heap.Fix(&q.heap, 0)
	}
	return nil
}

// remove takes p out.
func (q *queue) remove(p *pending) {
	p.q = nil
	if q.debounces() {
		heap.Remove(&q.heap, int(p.pos))
		return
	}
	if p.prev == nil {
		q.head = p.next
	} else {
		p.prev.next = p.next
	}
	if p.next == nil {
		q.tail = p.prev
	} else {
		p.next.prev = p.prev
	}
	p.prev, p.next = nil, nil
}

// nextDue is when an event at now lets a key go whose first event was at first.
func (w Window) nextDue(first, now int64) int64 {
	due := first + int64(w.Max)
	if w.Quiet > 0 {
		due = min(due, now+int64(w.Quiet))
	}
	return due
}

type atHeap []*pending

func (h atHeap) Len() int { return len(h) }
func (h atHeap) Less(i, j int) bool {
	if h[i].at != h[j].at {
		return h[i].at < h[j].at
	}
	return h[i].seq < h[j].seq
}
func (h atHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].pos, h[j].pos = int32(i), int32(j)
}
func (h *atHeap) Push(x any) {
	p := x.(*pending)
	p.pos = int32(len(*h))
	*h = append(*h, p)
}
func (h *atHeap) Pop() any {
	last := len(*h) - 1
	p := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return p
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

func (f *fifo[T]) front() *T { return &f.list[f.head] }

func (f *fifo[T]) pop() T {
	var zero T
	x := f.list[f.head]
	f.list[f.head] = zero
	if f.head++; f.head == len(f.list) {
		f.list, f.head = f.list[:0], 0
	}
	return x
}
