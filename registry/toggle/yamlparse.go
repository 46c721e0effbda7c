package toggle

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

type nodeKind int

const (
	nodeScalar nodeKind = iota
	nodeSeq
	nodeMap
)

// node is one node of a YAML document. An alias is a node of its own that leads
// to its target.
type node struct {
	kind       nodeKind
	start, end int    // of the content, without anchor and tag; end is that of the last child
	text       string // of a scalar
	style      byte
	tag        string
	flow       bool
	empty      bool // a scalar of which nothing is written
	anchor     int  // place of its anchor; -1 if it has none
	uses       int  // how often an alias leads to it
	alias      *node
	items      []item
	members    []member
}

// item is an element of a sequence; start is its dash in block style.
type item struct {
	start int
	node  *node
}

// member is a pair of a mapping. start is that of the key, or of its question
// mark; colon is behind the colon, or -1 where there is none.
type member struct {
	start int
	colon int
	key   *node
	value *node
}

// end returns where a member ends.
func (m member) end() int { return max(m.key.end, m.colon, m.value.end) }

func (n *node) resolve() *node {
	if n.alias != nil {
		return n.alias
	}
	return n
}

// yamlDocument is one document of a file.
type yamlDocument struct {
	start int // of its separator or of its first token
	root  *node
}

// mostNesting is the depth at which SnakeYAML gives up.
const mostNesting = 50

// yamlParser makes documents of tokens.
type yamlParser struct {
	scan    *scanner
	anchors map[string]*node
	open    []*node // the nodes that are not complete yet
	depth   int
	tags    map[string]string
}

// parseYAML reads all documents of a text.
func parseYAML(text []byte, from int) (docs []yamlDocument, err *yamlError) {
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(*yamlError)
			if !ok {
				panic(r)
			}
			docs, err = nil, e
		}
	}()
	if at := unprintable(text); at >= 0 {
		r, _ := utf8.DecodeRune(text[at:])
		return nil, &yamlError{at, YAMLSyntax, "the character " + quote(string(r)) + " is not allowed in YAML"}
	}
	p := &yamlParser{scan: newScanner(text, from)}
	for first := true; ; first = false {
		for p.next().kind == tokDocEnd {
			p.scan.take()
		}
		if p.next().kind == tokStreamEnd {
			return docs, nil
		}
		start := p.next().start
		p.anchors, p.tags = map[string]*node{}, map[string]string{"!": "!", "!!": "tag:yaml.org,2002:"}
		explicit := p.directives()
		if p.next().kind == tokDocStart {
			start = p.scan.take().start
		} else if explicit || !first {
			p.unexpected("a document start")
		}
		docs = append(docs, yamlDocument{start, p.root()})
	}
}

// unprintable finds the first character that YAML does not allow.
func unprintable(text []byte) int {
	for i, c := range text {
		if c < ' ' && c != '\t' && c != '\n' && c != '\r' || c == 0x7f {
			return i
		}
		if c == 0xc2 && i+1 < len(text) && text[i+1] >= 0x80 && text[i+1] <= 0x9f && text[i+1] != 0x85 {
			return i
		}
	}
	for _, c := range []string{"\ufffe", "\uffff"} {
		if i := bytes.Index(text, []byte(c)); i >= 0 {
			return i
		}
	}
	return -1
}

func (p *yamlParser) next() *token { return p.scan.check() }

func (p *yamlParser) unexpected(wanted string) {
	t := p.next()
	p.scan.fail(t.start, "%s is missing before %s", wanted, t.kind)
}

// directives reads the directives of a document and says whether there are any.
func (p *yamlParser) directives() bool {
	any, version := false, false
	for p.next().kind == tokDirective {
		t := p.scan.take()
		any = true
		words := strings.Fields(t.text)
		switch words[0] {
		case "%YAML":
			if version || len(words) != 2 || !strings.HasPrefix(words[1], "1.") {
				p.scan.fail(t.start, "the directive %s is not understood", quote(t.text))
			}
			version = true
		case "%TAG":
			if len(words) != 3 {
				p.scan.fail(t.start, "the directive %s is not understood", quote(t.text))
			}
			p.tags[words[1]] = words[2]
		}
	}
	return any
}

// root reads the node of a document, which may be empty.
func (p *yamlParser) root() *node {
	switch t := p.next(); t.kind {
	case tokDirective, tokDocStart, tokDocEnd, tokStreamEnd:
		return p.nothing(t.start)
	}
	n := p.node(true, false)
	switch t := p.next(); t.kind {
	case tokDirective, tokDocStart, tokDocEnd, tokStreamEnd:
	default:
		p.scan.fail(t.start, "a document start is missing before %s", t.kind)
	}
	return n
}

func (p *yamlParser) nothing(at int) *node {
	return &node{start: at, end: at, empty: true, anchor: -1}
}

// node reads one node. In block style a list may stand at the indentation of
// its key (indentless).
func (p *yamlParser) node(block, indentless bool) *node {
	t := p.next()
	if t.kind == tokAlias {
		return p.alias(p.scan.take())
	}
	n := &node{start: t.start, anchor: -1}
	named, end := "", t.start
	for t.kind == tokAnchor && n.anchor < 0 || t.kind == tokTag && n.tag == "" {
		end = t.end
		if t.kind == tokAnchor {
			n.anchor, named = t.start, t.text
		} else {
			n.tag = p.tag(*t)
		}
		p.scan.take()
		t = p.next()
	}
	if named != "" {
		p.anchors[named] = n
	}
	if p.depth++; p.depth > mostNesting+1 {
		p.scan.fail(t.start, "it is nested deeper than %d levels", mostNesting)
	}
	p.open = append(p.open, n)
	n.start, n.end = t.start, t.end
	switch {
	case block && indentless && t.kind == tokBlockEntry:
		p.blockItems(n)
	case block && t.kind == tokBlockSeq:
		p.scan.take()
		p.blockItems(n)
		p.blockEnd()
	case block && t.kind == tokBlockMap:
		p.scan.take()
		p.blockMembers(n)
		p.blockEnd()
	case t.kind == tokFlowSeqStart:
		p.flowItems(n)
	case t.kind == tokFlowMapStart:
		p.flowMembers(n)
	case t.kind == tokScalar:
		n.text, n.style = t.text, t.style
		p.scan.take()
	case n.anchor >= 0 || n.tag != "":
		n.start, n.end, n.empty = end, end, true
	default:
		p.unexpected("a value")
	}
	p.open = p.open[:len(p.open)-1]
	p.depth--
	return n
}

func (p *yamlParser) alias(t token) *node {
	target := p.anchors[t.text]
	if target == nil {
		p.scan.fail(t.start, "there is no anchor &%s before this alias", t.text)
	}
	for _, n := range p.open {
		if n == target {
			p.scan.fail(t.start, "the alias *%s stands inside its own anchor", t.text)
		}
	}
	target.uses++
	return &node{kind: target.kind, start: t.start, end: t.end, anchor: -1, alias: target}
}

func (p *yamlParser) tag(t token) string {
	text := t.text
	if inner, ok := strings.CutPrefix(text, "!<"); ok {
		return strings.TrimSuffix(inner, ">")
	}
	handle := "!"
	if i := strings.IndexByte(text[1:], '!'); i >= 0 {
		handle = text[:i+2]
	}
	prefix, ok := p.tags[handle]
	if !ok {
		p.scan.fail(t.start, "the tag handle %s is unknown", quote(handle))
	}
	return prefix + text[len(handle):]
}

func (p *yamlParser) blockEnd() {
	if p.next().kind != tokBlockEnd {
		p.unexpected("the end of the block")
	}
	p.scan.take()
}

// value reads the node behind a dash, a key or a colon of block style; it is
// empty before the tokens named.
func (p *yamlParser) value(at int, indentless bool, empty ...tokenKind) *node {
	kind := p.next().kind
	for _, k := range empty {
		if kind == k {
			return p.nothing(at)
		}
	}
	return p.node(true, indentless)
}

func (p *yamlParser) blockItems(n *node) {
	n.kind = nodeSeq
	for p.next().kind == tokBlockEntry {
		dash := p.scan.take()
		v := p.value(dash.end, false, tokBlockEntry, tokKey, tokValue, tokBlockEnd)
		n.items = append(n.items, item{dash.start, v})
		n.end = max(dash.end, v.end)
	}
}

func (p *yamlParser) blockMembers(n *node) {
	n.kind = nodeMap
	for p.next().kind == tokKey {
		t := p.scan.take()
		m := member{colon: -1}
		m.key = p.value(t.end, true, tokKey, tokValue, tokBlockEnd)
		m.start = t.start
		if p.next().kind == tokValue {
			m.colon = p.scan.take().end
			m.value = p.value(m.colon, true, tokKey, tokValue, tokBlockEnd)
		} else {
			m.value = p.nothing(m.key.end)
		}
		n.members = append(n.members, m)
		n.end = m.end()
	}
}

func (p *yamlParser) flowItems(n *node) {
	n.kind, n.flow = nodeSeq, true
	p.scan.take()
	for first := true; p.next().kind != tokFlowSeqEnd; first = false {
		if !first {
			p.comma("']'")
			if p.next().kind == tokFlowSeqEnd {
				break
			}
		}
		start := p.next().start
		if p.next().kind != tokKey {
			n.items = append(n.items, item{start, p.node(false, false)})
			continue
		}
		single := &node{kind: nodeMap, start: start, flow: true, anchor: -1}
		single.members = []member{p.flowMember(tokFlowSeqEnd)}
		single.end = single.members[0].end()
		n.items = append(n.items, item{start, single})
	}
	n.end = p.scan.take().end
}

func (p *yamlParser) flowMembers(n *node) {
	n.kind, n.flow = nodeMap, true
	p.scan.take()
	for first := true; p.next().kind != tokFlowMapEnd; first = false {
		if !first {
			p.comma("'}'")
			if p.next().kind == tokFlowMapEnd {
				break
			}
		}
		if p.next().kind == tokKey {
			n.members = append(n.members, p.flowMember(tokFlowMapEnd))
			continue
		}
		start := p.next().start
		m := member{start: start, colon: -1, key: p.node(false, false)}
		m.value = p.nothing(m.key.end)
		n.members = append(n.members, m)
	}
	n.end = p.scan.take().end
}

func (p *yamlParser) comma(or string) {
	if p.next().kind != tokFlowEntry {
		p.unexpected("',' or " + or)
	}
	p.scan.take()
}

func (p *yamlParser) flowMember(end tokenKind) member {
	t := p.scan.take()
	m := member{start: t.start, colon: -1}
	m.key = p.flowValue(t.end, tokValue, tokFlowEntry, end)
	if p.next().kind == tokValue {
		m.colon = p.scan.take().end
		m.value = p.flowValue(m.colon, tokFlowEntry, end)
	} else {
		m.value = p.nothing(m.key.end)
	}
	return m
}

func (p *yamlParser) flowValue(at int, empty ...tokenKind) *node {
	kind := p.next().kind
	for _, k := range empty {
		if kind == k {
			return p.nothing(at)
		}
	}
	return p.node(false, false)
}
