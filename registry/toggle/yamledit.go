package toggle

import (
	"strings"
)

// column returns how far a place is from the start of its line.
func (d *yamlFile) column(at int) int { return at - d.lines[d.line(at)-1] }

// lineEnd returns where the content of the line of a place ends, and where the
// next line begins.
func (d *yamlFile) lineEnd(at int) (content, end int) {
	return cutLine(d.text, d.lines[d.line(at)-1])
}

// shared refuses an edit of something that is used elsewhere, too.
func (d *yamlFile) shared(anchor int) error {
	return refuse(SharedNode, d.line(anchor), "this is used elsewhere through its anchor: the edit would change more than it says")
}

func (d *yamlFile) inherited(s *yamlSite) error {
	return refuse(SharedNode, d.line(s.holder.members[s.at].start), "this is inherited through a merge key and cannot be changed for one entry alone")
}

// usedInside returns the place of an anchor in a node that an alias leads to, or
// -1.
func usedInside(n *node) int {
	if n.alias != nil {
		return -1
	}
	if n.uses > 0 {
		return n.anchor
	}
	for _, it := range n.items {
		if at := usedInside(it.node); at >= 0 {
			return at
		}
	}
	for _, m := range n.members {
		if at := max(usedInside(m.key), usedInside(m.value)); at >= 0 {
			return at
		}
	}
	return -1
}

func (d *yamlFile) replace(p *pair, c change) ([]splice, error) {
	s := p.site
	if s.shared >= 0 {
		return nil, d.shared(s.shared)
	}
	if s.merged {
		if !s.direct {
			return nil, d.inherited(s)
		}
		return d.put(p, p.index, d.key(s.key), c), nil
	}
	if at := usedInside(s.value); at >= 0 {
		return nil, d.shared(at)
	}
	n, flow := s.value, s.holder.flow
	switch {
	case !n.empty && n.alias == nil && n.kind == nodeScalar:
		return []splice{{n.start, n.end, renderYAML(c, n.style, flow)}}, nil
	case !n.empty:
		return []splice{{n.start, n.end, renderYAML(c, 0, flow)}}, nil
	case s.holder.members[s.at].colon < 0:
		return []splice{{n.start, n.start, ": " + renderYAML(c, 0, flow)}}, nil
	}
	return []splice{{n.start, n.start, " " + renderYAML(c, 0, flow)}}, nil
}

func (d *yamlFile) insert(m *model, e *entry, c change) ([]splice, error) {
	p := m.inForce(e, fieldListener)
	if p.site.shared >= 0 {
		return nil, d.shared(p.site.shared)
	}
	if p.site.merged && !p.site.direct {
		return nil, d.inherited(p.site)
	}
	prefix := d.prefix(p)
	key := strings.TrimPrefix(sibling(p.name, e.Index, c.field)[len(prefix):], ".")
	return d.put(p, e.Index, key, c), nil
}

// key returns a key as a path element.
func (d *yamlFile) key(n *node) string { return (&flattener{file: d}).key(n) }

// prefix returns the path of the mapping in which a pair is read.
func (d *yamlFile) prefix(p *pair) string {
	return strings.TrimSuffix(p.name, d.key(p.site.key))
}

// last returns the last member of a pair's holder that belongs to its entry, or
// to any entry if index is negative.
func (d *yamlFile) last(p *pair, index int) member {
	holder := p.site.holder
	prefix := strings.TrimSuffix(d.prefix(p), ".")
	whole := locate(prefix).target == theEntry
	found := holder.members[p.site.at]
	for _, m := range holder.members {
		if whole {
			found = m
			continue
		}
		if mergeKey(m.key) {
			continue
		}
		at := locate(join(prefix, d.key(m.key)))
		switch at.target {
		case theEntry, entryField, entryOther:
			if index < 0 || at.index == index {
				found = m
			}
		}
	}
	return found
}

// put adds a key to the mapping that holds a pair, behind the last key of its
// entry.
func (d *yamlFile) put(p *pair, index int, key string, c change) []splice {
	holder := p.site.holder
	text := renderYAMLKey(key, holder.flow) + ": " + renderYAML(c, 0, holder.flow)
	after := d.last(p, index)
	if holder.flow {
		return []splice{{after.end(), after.end(), ", " + text}}
	}
	indent := strings.Repeat(" ", d.column(holder.members[0].start))
	return d.linesAfter(after.end(), indent+text)
}

// linesAfter puts lines behind the line of a place.
func (d *yamlFile) linesAfter(at int, lines ...string) []splice {
	content, end := d.lineEnd(at)
	eol := string(d.text[content:end])
	for line := d.line(at) - 2; eol == "" && line >= 0; line-- {
		above, next := cutLine(d.text, d.lines[line])
		eol = string(d.text[above:next])
	}
	if eol == "" {
		eol = "\n"
	}
	text := strings.Join(lines, eol)
	if content == end {
		return []splice{{end, end, eol + text}}
	}
	return []splice{{end, end, text + eol}}
}

func (d *yamlFile) remove(p *pair) ([]splice, error) {
	s := p.site
	if s.merged {
		return nil, d.inherited(s)
	}
	if s.shared >= 0 {
		return nil, d.shared(s.shared)
	}
	m := s.holder.members[s.at]
	if at := max(usedInside(m.key), usedInside(m.value)); at >= 0 {
		return nil, d.shared(at)
	}
	members := s.holder.members
	if s.holder.flow {
		switch {
		case s.at > 0:
			return []splice{{members[s.at-1].end(), m.end(), ""}}, nil
		case len(members) > 1:
			return []splice{{m.start, members[1].start, ""}}, nil
		}
		return []splice{{m.start, m.end(), ""}}, nil
	}
	if len(members) == 1 {
		return []splice{{m.start, m.end(), "{}"}}, nil
	}
	lineStart := d.lines[d.line(m.start)-1]
	content, end := d.lineEnd(m.end())
	before := strings.TrimRight(string(d.text[lineStart:m.start]), " ")
	if before == "" {
		return []splice{{lineStart, end, ""}}, nil
	}
	next := members[s.at+1].start
	if strings.TrimSpace(string(d.text[end:next])) == "" {
		return []splice{{m.start, next, ""}}, nil // the next key moves up behind the dash
	}
	return []splice{{lineStart + len(before), content, ""}}, nil // comments stand between: the dash stays alone
}
