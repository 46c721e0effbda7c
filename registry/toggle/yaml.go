package toggle

import (
	"bytes"
	"sort"
	"strconv"
	"strings"
)

// yamlSite tells where in a YAML document a pair stands.
type yamlSite struct {
	holder *node // the mapping that holds it; the list, for an item of one
	at     int   // its member, or the merge key through which it is inherited
	merged bool
	direct bool  // inherited by the very mapping that it is read in
	shared int   // place of the anchor by which the holder is used elsewhere; -1 if it is not
	key    *node // nil for an item of a list
	value  *node
}

// yamlFile is a YAML file taken apart.
type yamlFile struct {
	text  []byte
	lines []int // where each line begins
	docs  []yamlDocument
}

func (d *yamlFile) format() Format { return YAML }

// line returns the line of a place, counted from 1.
func (d *yamlFile) line(at int) int {
	return sort.Search(len(d.lines), func(i int) bool { return d.lines[i] > at })
}

// readYAML parses a YAML file.
func readYAML(text []byte) *model {
	lines := bytes.Count(text, []byte("\n")) + 2
	d := &yamlFile{text: text, lines: make([]int, 0, lines)}
	m := &model{doc: d, pairs: make([]pair, 0, lines)}
	for at := 0; ; {
		d.lines = append(d.lines, at)
		content, end := cutLine(text, at)
		if content == end {
			break
		}
		at = end
	}
	m.encoding(text, false)
	from := len(text) - len(bytes.TrimPrefix(text, []byte("\ufeff")))
	docs, err := parseYAML(text, from)
	if err == nil {
		d.docs = docs
		err = d.flatten(m)
	}
	if err != nil {
		return m.fail(err.code, d.line(err.at), err.text)
	}
	m.understand()
	return m.finish()
}

// flattener turns the documents into pairs with full paths, as Spring's loader
// does.
type flattener struct {
	file  *yamlFile
	model *model
	doc   int
	left  int // how many pairs may still come, against aliases that multiply
}

// mostPairs is how many pairs aliases may make beyond those that are written.
const mostPairs = 100_000

// flatten adds the pairs of all documents to the model.
func (d *yamlFile) flatten(m *model) (err *yamlError) {
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(*yamlError)
			if !ok {
				panic(r)
			}
			err = e
		}
	}()
	f := &flattener{file: d, model: m, left: len(d.text) + mostPairs}
	filled := 0
	for i, doc := range d.docs {
		f.doc = i
		f.checkKeys(doc.root)
		before := len(m.pairs)
		f.document(doc.root)
		if len(m.pairs) == before {
			continue
		}
		if filled++; filled == 2 {
			m.warn(DocumentSeparator, d.line(doc.start), "", "", "a second document begins here; services see the first one once and are deaf from then on")
		}
	}
	return nil
}

func (f *flattener) fail(n *node, code Code, text string) {
	panic(&yamlError{n.start, code, text})
}

// checkKeys looks for keys that stand twice in one mapping.
func (f *flattener) checkKeys(n *node) {
	for _, it := range n.items {
		f.checkKeys(it.node)
	}
	if len(n.members) == 0 {
		return
	}
	seen := make(map[string]bool, len(n.members))
	for _, m := range n.members {
		if mergeKey(m.key) {
			continue
		}
		key := f.key(m.key)
		if seen[key] {
			f.fail(m.key, YAMLDuplicateKey, "the key "+quote(key)+" stands in this mapping already")
		}
		seen[key] = true
	}
	for _, m := range n.members {
		f.checkKeys(m.key)
		f.checkKeys(m.value)
	}
}

// key returns a key as Spring's loader makes a path element of it.
func (f *flattener) key(n *node) string {
	n = n.resolve()
	if n.kind != nodeScalar {
		return "[" + string(f.file.text[n.start:n.end]) + "]"
	}
	v := f.scalar(n)
	switch v.kind {
	case kindText:
		return v.text
	case kindNull:
		return "[null]"
	}
	return "[" + v.text + "]"
}

func (f *flattener) scalar(n *node) value {
	v, ok := scalarValue(n)
	if !ok {
		f.fail(n, YAMLSyntax, "the value does not fit the tag "+quote(n.tag))
	}
	return v
}

func (f *flattener) document(root *node) {
	n := root.resolve()
	if n.kind == nodeScalar && f.scalar(n).kind == kindNull {
		return
	}
	path := ""
	if n.kind != nodeMap {
		path = "document"
	}
	f.walk(path, n.start, yamlSite{shared: -1, value: root})
}

func (f *flattener) spend(n *node) {
	if f.left--; f.left < 0 {
		f.fail(n, YAMLSyntax, "the aliases of this file multiply into too many keys")
	}
}

// walk adds the pairs below one node. The site tells where the node stands,
// start where the key or the dash before it does.
func (f *flattener) walk(path string, start int, site yamlSite) {
	n := site.value.resolve()
	f.spend(site.value)
	if locate(path).target == theEntry {
		f.emit(pair{name: path, line: f.file.line(start), item: true, site: &site})
	}
	if n.uses > 0 && n.kind != nodeScalar {
		site.shared = n.anchor
	}
	switch n.kind {
	case nodeScalar:
		f.emit(pair{name: path, line: f.file.line(start), value: f.scalar(n), site: &site})
	case nodeSeq:
		if len(n.items) == 0 {
			f.emit(pair{name: path, line: f.file.line(start), value: value{kind: kindNull}, site: &site})
		}
		for i, it := range n.items {
			below := yamlSite{holder: n, at: i, shared: site.shared, value: it.node}
			if site.merged {
				below.holder, below.at, below.merged = site.holder, site.at, true
			}
			f.walk(path+"["+strconv.Itoa(i)+"]", it.start, below)
		}
	case nodeMap:
		if !collectionTag(n.tag) {
			f.fail(n, YAMLSyntax, "the tag "+quote(n.tag)+" is unknown")
		}
		for _, below := range f.members(n) {
			below.shared = site.shared
			if site.merged {
				below.holder, below.at, below.merged, below.direct = site.holder, site.at, true, false
			}
			f.walk(join(path, f.key(below.key)), below.key.start, below)
		}
	}
}

func collectionTag(tag string) bool {
	switch strings.TrimPrefix(tag, yamlTags) {
	case "", "!", "map", "seq", "omap", "pairs", "set":
		return true
	}
	return false
}

func join(path, key string) string {
	if path == "" || strings.HasPrefix(key, "[") {
		return path + key
	}
	return path + "." + key
}

func (f *flattener) emit(p pair) {
	p.doc = f.doc
	f.model.pairs = append(f.model.pairs, p)
}

// members returns the members of a mapping with those that it inherits: its own
// win over inherited ones, earlier inherited ones over later.
func (f *flattener) members(n *node) []yamlSite {
	sites := make([]yamlSite, 0, len(n.members))
	merges := false
	for i, m := range n.members {
		if mergeKey(m.key) {
			merges = true
		}
		sites = append(sites, yamlSite{holder: n, at: i, key: m.key, value: m.value})
	}
	if !merges {
		return sites
	}
	taken := make(map[string]bool, len(n.members))
	for _, m := range n.members {
		if !mergeKey(m.key) {
			taken[f.key(m.key)] = true
		}
	}
	all := sites
	sites = nil
	for i, own := range all {
		if !mergeKey(own.key) {
			sites = append(sites, own)
			continue
		}
		for _, from := range f.merged(own.value) {
			for _, inherited := range f.members(from) {
				f.spend(own.value)
				if key := f.key(inherited.key); !taken[key] {
					taken[key] = true
					sites = append(sites, yamlSite{holder: n, at: i, merged: true, direct: true, key: inherited.key, value: inherited.value})
				}
			}
		}
	}
	return sites
}

// merged returns the mappings that a merge key names.
func (f *flattener) merged(n *node) []*node {
	target := n.resolve()
	switch target.kind {
	case nodeMap:
		return []*node{target}
	case nodeSeq:
		var list []*node
		for _, it := range target.items {
			if it.node.resolve().kind != nodeMap {
				f.fail(it.node, YAMLSyntax, "only mappings can be merged")
			}
			list = append(list, it.node.resolve())
		}
		return list
	}
	f.fail(n, YAMLSyntax, "only mappings can be merged")
	return nil
}
