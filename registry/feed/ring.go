package feed

// ring keeps the newest lines, numbered from 1 without holes.
type ring struct {
	lines []Line
	room  int
	next  uint64 // number of the next line
}

func newRing(room int) ring { return ring{room: room, next: 1} }

// push adds a line and reports whether the oldest was dropped for it.
func (r *ring) push(l Line) (dropped bool) {
	l.Seq = r.next
	r.next++
	if len(r.lines) < r.room {
		r.lines = append(r.lines, l)
		return false
	}
	r.lines[(l.Seq-1)%uint64(r.room)] = l
	return true
}

// first is the number of the oldest line that is kept.
func (r *ring) first() uint64 { return r.next - uint64(len(r.lines)) }

func (r *ring) at(seq uint64) *Line { return &r.lines[(seq-1)%uint64(r.room)] }

func (r *ring) after(after uint64, most int) (lines []Line, dropped uint64) {
	from := after + 1
	if first := r.first(); from < first {
		dropped = first - from
		from = first
	}
	if from >= r.next || most <= 0 {
		return nil, dropped
	}
	lines = make([]Line, min(uint64(most), r.next-from))
	for i := range lines {
		lines[i] = *r.at(from + uint64(i))
	}
	return lines, dropped
}

// each calls f for every line that is kept, oldest first.
func (r *ring) each(f func(*Line)) {
	for seq := r.first(); seq < r.next; seq++ {
		f(r.at(seq))
	}
}
