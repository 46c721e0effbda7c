package feed

import "strconv"

// covers knows what the past holds: of release messages the row ids, merged ones as a range; of other lines what they
// say, and when.
type covers struct {
	rows  map[string][]span // message → ids
	lines map[string][]int64
}

type span struct{ from, to uint64 }

const (
	mostCovered = 100_000 // keys
	mostSpans   = 1024    // of one key
	// apart is how far the clocks of two processes, and the moments at which they saw one change, may lie apart, in
	// seconds.
	apart = 3
)

func newCovers() covers { return covers{rows: map[string][]span{}, lines: map[string][]int64{}} }

// hold reports whether the past holds a row; exact leaves out the ranges of merged lines.
func (c *covers) hold(message string, row uint64, exact bool) bool {
	for _, s := range c.rows[message] {
		if s.from <= row && row <= s.to && (!exact || s.from == s.to) {
			return true
		}
	}
	return false
}

// row notes rows and reports whether they were new.
func (c *covers) row(message string, s span) bool {
	if c.hold(message, s.from, false) && c.hold(message, s.to, false) {
		return false
	}
	if list := c.rows[message]; len(list) > 0 && len(list) < mostSpans || list == nil && len(c.rows) < mostCovered {
		c.rows[message] = append(list, s)
	}
	return true
}

// take notes a line and reports whether it was new.
func (c *covers) take(l Line) bool {
	if l.Source == Release {
		return c.takeRelease(l)
	}
	k := string(l.Source) + "\x00" + l.Key + "\x00" + l.Version
	said := k + "\x00" + string(l.Status)
	if l.Source != Toggle { // a toggle's version says which change it is
		said += l.Text
	}
	at := l.At.Unix()
	if c.near(said, at) {
		return false
	}
	for _, k := range []string{k, said} {
		if list := c.lines[k]; len(list) > 0 && len(list) < mostSpans || list == nil && len(c.lines) < mostCovered {
			c.lines[k] = append(list, at)
		}
	}
	return true
}

// changed reports whether some line tells of the toggle change that l, from the history, tells of.
func (c *covers) changed(l Line) bool {
	return c.near(string(l.Source)+"\x00"+l.Key+"\x00"+l.Version, l.At.Unix())
}

func (c *covers) near(k string, at int64) bool {
	for _, t := range c.lines[k] {
		if t-apart <= at && at <= t+apart {
			return true
		}
	}
	return false
}

func (c *covers) takeRelease(l Line) bool {
	to, err := strconv.ParseUint(l.Version, 10, 64)
	if err != nil || l.Status == Failed || l.Status == DeadLetter {
		return true
	}
	from := to
	if v, err := strconv.ParseUint(l.FromVersion, 10, 64); err == nil && v < to {
		from = v
	}
	return c.row(l.Key, span{from, to})
}
