package toggle

import (
	"math"
	"strconv"
	"strings"
)

func (d *yamlFile) add(m *model, changes []change) ([]splice, error) {
	if len(m.entries) == 0 {
		return d.addFirst(changes)
	}
	e := m.entries[len(m.entries)-1]
	if e.Index == math.MaxInt32 {
		return nil, refuse(BadIndex, 0, "there is no index above [%d]", e.Index)
	}
	var s spelling
	p := m.inForce(e, fieldListener)
	if s = spellCamel; p != nil && !p.place().last.bracketed {
		s = spellingOf(strings.TrimPrefix(p.place().last.text, "\ufeff"))
	}
	if p == nil {
		p = &m.pairs[e.pairs[len(e.pairs)-1]]
	}
	for _, i := range e.pairs {
		if m.pairs[i].item {
			p = &m.pairs[i]
		}
	}
	if p.site.shared >= 0 {
		return nil, d.shared(p.site.shared)
	}
	switch {
	case p.site.merged:
		return nil, d.inherited(p.site)
	case p.site.key == nil:
		return d.addItem(p.site.holder, changes, s), nil
	case p.item:
		return d.addKeyed(p, changes, s), nil
	}
	return d.addFlat(p, e.Index+1, changes), nil
}

// addItem adds an item to a list that has some.
func (d *yamlFile) addItem(list *node, changes []change, s spelling) []splice {
	last := list.items[len(list.items)-1]
	if list.flow {
		return []splice{{last.node.end, last.node.end, ", " + flowItem(changes, s)}}
	}
	indent := strings.Repeat(" ", d.column(last.start))
	gap := string(d.text[last.start+1 : max(last.start+1, last.node.start)])
	if strings.TrimSpace(gap) != "" || gap == "" || last.node.kind != nodeMap || last.node.alias != nil {
		gap = " "
	}
	end := max(last.node.end, last.start+1)
	if last.node.kind == nodeMap && last.node.flow && last.node.alias == nil {
		return d.linesAfter(end, indent+"-"+gap+flowItem(changes, s))
	}
	column := len(indent) + 1 + len(gap)
	if strings.ContainsAny(gap, "\r\n") {
		column = d.column(last.node.members[0].start)
	}
	lines := blockItem(changes, s, column)
	lines[0] = indent + "-" + gap + lines[0]
	return d.linesAfter(end, lines...)
}

// addKeyed adds an entry to a mapping whose keys are indices, or end with one.
func (d *yamlFile) addKeyed(p *pair, changes []change, s spelling) []splice {
	holder, after := p.site.holder, d.last(p, -1)
	index := strconv.Itoa(p.index + 1)
	key := index
	if v, _ := scalarValue(p.site.key.resolve()); v.kind == kindText {
		full := p.name[:p.place().at.start] + index + p.name[p.place().at.end:]
		key = strings.TrimPrefix(full[len(d.prefix(p)):], ".")
	}
	key = renderKeyed(key, holder.flow)
	if holder.flow {
		return []splice{{after.end(), after.end(), ", " + key + ": " + flowItem(changes, s)}}
	}
	column := d.column(holder.members[0].start)
	indent := strings.Repeat(" ", column)
	value := p.site.value
	if value.kind == nodeMap && value.flow {
		return d.linesAfter(after.end(), indent+key+": "+flowItem(changes, s))
	}
	below := column + 2
	if value.kind == nodeMap && value.alias == nil && len(value.members) > 0 {
		below = d.column(value.members[0].start)
	}
	lines := blockItem(changes, s, below)
	lines[0] = strings.Repeat(" ", below) + lines[0]
	return d.linesAfter(after.end(), append([]string{indent + key + ":"}, lines...)...)
}

// renderKeyed writes a key that may be a plain number.
func renderKeyed(key string, flow bool) string {
	if plainValue(key).kind == kindInt {
		return key
	}
	return renderYAMLKey(key, flow)
}

// addFlat adds an entry of keys with full paths.
func (d *yamlFile) addFlat(p *pair, index int, changes []change) []splice {
	holder, after, prefix := p.site.holder, d.last(p, -1), d.prefix(p)
	lines := make([]string, len(changes))
	for i, c := range changes {
		key := sibling(p.name, index, c.field)
		key = strings.TrimPrefix(key[min(len(prefix), len(key)):], ".")
		lines[i] = renderYAMLKey(key, holder.flow) + ": " + renderYAML(c, 0, holder.flow)
	}
	if holder.flow {
		return []splice{{after.end(), after.end(), ", " + strings.Join(lines, ", ")}}
	}
	indent := strings.Repeat(" ", d.column(holder.members[0].start))
	for i := range lines {
		lines[i] = indent + lines[i]
	}
	return d.linesAfter(after.end(), lines...)
}

// spot is the deepest part of rabbitmq.toggle.consumers that a file has.
type spot struct {
	level  int // how many of the three names are there
	holder *node
	member member
	shared int
}

// seek looks for the deepest spot below a mapping.
func (d *yamlFile) seek(n *node, path string, shared int, best *spot) {
	if n.alias != nil || n.kind != nodeMap {
		return
	}
	if n.uses > 0 {
		shared = n.anchor
	}
	for _, m := range n.members {
		if mergeKey(m.key) {
			continue
		}
		name := join(path, d.key(m.key))
		level := map[target]int{theRabbitMQ: 1, theToggle: 2, theList: 3}[locate(name).target]
		if level == 0 {
			continue
		}
		if level > best.level {
			*best = spot{level, n, m, shared}
		}
		d.seek(m.value, name, shared, best)
	}
}

// addFirst adds the first entry of a file.
func (d *yamlFile) addFirst(changes []change) ([]splice, error) {
	var root *node
	for _, doc := range d.docs {
		if root == nil || len(doc.root.members) > 0 || !doc.root.empty {
			root = doc.root
		}
	}
	best := spot{shared: -1}
	if root != nil {
		d.seek(root, "", -1, &best)
	}
	if best.shared >= 0 {
		return nil, d.shared(best.shared)
	}
	if best.level == 0 {
		return d.addAtEnd(root, changes)
	}
	missing := listNames[best.level:]
	v := best.member.value
	null := v.empty || v.alias == nil && v.kind == nodeScalar && v.style == 0 && plainValue(v.text).kind == kindNull
	switch {
	case v.alias != nil || v.anchor >= 0:
		return nil, d.shared(v.start)
	case null && best.holder.flow || v.flow && len(v.members) == 0 && len(v.items) == 0:
		text := flowPath(missing, changes)
		if v.empty {
			text = " " + text
		}
		return []splice{{v.start, v.end, text}}, nil
	case null:
		column := d.column(best.member.start) + 2
		splices := d.linesAfter(best.member.end(), blockPath(missing, column, changes)...)
		if !v.empty {
			splices = append(splices, splice{best.member.colon, v.end, ""})
		}
		return splices, nil
	case v.kind == nodeMap && best.level < len(listNames):
		return d.extend(v, missing, changes), nil
	}
	return nil, refuse(ConsumersValue, d.line(best.member.start), "%s has a value of its own", quote(d.key(best.member.key)))
}

// extend adds the missing path to a mapping that has members.
func (d *yamlFile) extend(n *node, missing []string, changes []change) []splice {
	last := n.members[len(n.members)-1].end()
	if n.flow {
		text := strings.TrimSuffix(strings.TrimPrefix(flowPath(missing, changes), "{"), "}")
		return []splice{{last, last, ", " + text}}
	}
	return d.linesAfter(last, blockPath(missing, d.column(n.members[0].start), changes)...)
}

// flowPath writes an entry below some keys in flow style.
func flowPath(keys []string, changes []change) string {
	text := "[" + flowItem(changes, spellCamel) + "]"
	for i := len(keys) - 1; i >= 0; i-- {
		text = "{" + keys[i] + ": " + text + "}"
	}
	return text
}

// blockPath writes an entry below some keys in block style.
func blockPath(keys []string, column int, changes []change) []string {
	var lines []string
	for _, key := range keys {
		lines = append(lines, strings.Repeat(" ", column)+key+":")
		column += 2
	}
	item := blockItem(changes, spellCamel, column+2)
	item[0] = strings.Repeat(" ", column) + "- " + item[0]
	return append(lines, item...)
}

// addAtEnd adds the whole path to a file that has nothing of it.
func (d *yamlFile) addAtEnd(root *node, changes []change) ([]splice, error) {
	column := 0
	switch {
	case root == nil || root.empty:
	case root.kind == nodeMap && root.flow && len(root.members) == 0:
		return []splice{{root.start, root.end, flowPath(listNames[:], changes)}}, nil
	case root.kind == nodeMap && root.flow, root.kind == nodeMap && strings.Contains(string(d.text[root.end:]), "..."):
		return d.extend(root, listNames[:], changes), nil
	case root.kind == nodeMap:
		column = d.column(root.members[0].start)
	default:
		return nil, refuse(UnsafeEdit, d.line(root.start), "this file is no mapping")
	}
	lines := blockPath(listNames[:], column, changes)
	if len(strings.TrimPrefix(string(d.text), "\ufeff")) == 0 {
		return []splice{{len(d.text), len(d.text), strings.Join(lines, "\n") + "\n"}}, nil
	}
	content, end := cutLine(d.text, 0)
	eol := string(d.text[content:end])
	if eol == "" {
		eol = "\n"
	}
	text := strings.Join(lines, eol)
	if content, end := cutLine(d.text, d.lines[len(d.lines)-1]); content > d.lines[len(d.lines)-1] || end > content {
		return []splice{{len(d.text), len(d.text), eol + text}}, nil
	}
	return []splice{{len(d.text), len(d.text), text + eol}}, nil
}
