package table

// Mark marks the row under the cursor, or takes its mark away.
func (t *Table[R, K]) Mark() {
	if _, ok := t.Row(); !ok {
		return
	}
	if _, ok := t.marks[t.key]; ok {
		delete(t.marks, t.key)
	} else {
		t.marks[t.key] = struct{}{}
	}
}

// MarkAll marks every row that is shown; where all are marked already, it takes
// those marks away.
func (t *Table[R, K]) MarkAll() {
	all := len(t.rows) > 0
	for _, r := range t.rows {
		if _, ok := t.marks[t.id(r)]; !ok {
			all = false
			break
		}
	}
	for _, r := range t.rows {
		if all {
			delete(t.marks, t.id(r))
		} else {
			t.marks[t.id(r)] = struct{}{}
		}
	}
}

// Range begins a range at the cursor, or ends it: then every row between is
// marked. It reports whether one is open now.
func (t *Table[R, K]) Range() bool {
	if t.anchor == nil {
		if _, ok := t.Row(); ok {
			k := t.key
			t.anchor = &k
		}
		return t.anchor != nil
	}
	lo, hi := t.span()
	for i := lo; i <= hi && i < len(t.rows); i++ {
		t.marks[t.id(t.rows[i])] = struct{}{}
	}
	t.anchor = nil
	return false
}

// span returns the places between anchor and cursor; an anchor that is hidden
// counts as the cursor's own place.
func (t *Table[R, K]) span() (lo, hi int) {
	lo, hi = t.cur, t.cur
	for i, r := range t.rows {
		if t.id(r) == *t.anchor {
			lo, hi = min(lo, i), max(hi, i)
			break
		}
	}
	return lo, hi
}

// Ranging reports whether a range is open.
func (t *Table[R, K]) Ranging() bool { return t.anchor != nil }

// Unmark takes all marks away and ends an open range. It reports whether there
// was anything.
func (t *Table[R, K]) Unmark() bool {
	had := len(t.marks) > 0 || t.anchor != nil
	clear(t.marks)
	t.anchor = nil
	return had
}

// Marked returns the number of marks, and how many of them are on rows that are
// not shown.
func (t *Table[R, K]) Marked() (all, hidden int) {
	if len(t.marks) == 0 {
		return 0, 0
	}
	visible := 0
	for _, r := range t.rows {
		if _, ok := t.marks[t.id(r)]; ok {
			visible++
		}
	}
	return len(t.marks), len(t.marks) - visible
}

// Targets returns what an action acts on: the marked rows that are shown, in
// their order; where none is, the row under the cursor.
func (t *Table[R, K]) Targets() []R {
	var out []R
	if len(t.marks) > 0 {
		for _, r := range t.rows {
			if _, ok := t.marks[t.id(r)]; ok {
				out = append(out, r)
			}
		}
	}
	if len(out) == 0 {
		if r, ok := t.Row(); ok && len(t.marks) == 0 {
			out = append(out, r)
		}
	}
	return out
}
