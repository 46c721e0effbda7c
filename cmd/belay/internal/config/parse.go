package config

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Error is a mistake in the configuration.
type Error struct {
	Path string
	Line int // 0 where the mistake has no line of its own
	Key  string
	Text string
}

func (e *Error) Error() string {
	at := e.Path
	if e.Line > 0 {
		at = fmt.Sprintf("%s:%d", e.Path, e.Line)
	}
	if e.Key != "" {
		return fmt.Sprintf("%s: %s: %s", at, e.Key, e.Text)
	}
	return at + ": " + e.Text
}

// Parse reads a configuration. lookup gives the values of ${NAME}. The error is an
// *Error.
func Parse(path string, data []byte, lookup func(string) (string, bool)) (*File, error) {
	f := &File{Path: path}
	doc, err := Decode(path, data, f)
	if err != nil {
		return nil, err
	}
	p := &reading{doc: doc, lookup: lookup}
	for name, c := range f.Contexts {
		if !nameable(name) {
			return nil, &Error{Path: path, Line: keyLine(data, name), Key: "contexts", Text: fmt.Sprintf("%q is no name for a context: use letters, digits, '.', '_' and '-', not '.' first; directories are named after it", name)}
		}
		if c == nil {
			return nil, p.fail("$.contexts."+name, "the context is empty")
		}
		c.Name = name
		if err := p.context(name, c); err != nil {
			return nil, err
		}
	}
	if f.CurrentContext != "" && f.Contexts[f.CurrentContext] == nil {
		return nil, p.fail("$.current-context", fmt.Sprintf("there is no context %q; there are %s", f.CurrentContext, strings.Join(f.Names(), ", ")))
	}
	return f, nil
}

// Decode reads a YAML file of one document into a struct that has a field for each key.
// The error is an *Error.
func Decode(path string, data []byte, into any) (*Document, error) {
	tree, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, yamlError(path, err)
	}
	if at, more := secondDocument(tree); more {
		return nil, &Error{Path: path, Line: at, Text: "a second document begins here, which is not read: put all into one"}
	}
	if err := yaml.UnmarshalWithOptions(data, into, yaml.Strict()); err != nil {
		return nil, yamlError(path, err)
	}
	return &Document{path: path, tree: tree}, nil
}

// secondDocument finds the line of a document after the first that says something.
func secondDocument(tree *ast.File) (at int, found bool) {
	said := false
	for _, doc := range tree.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.NullType || doc.Body.Type() == ast.CommentType {
			continue
		}
		if said {
			return doc.Body.GetToken().Position.Line, true
		}
		said = true
	}
	return 0, false
}

// nameable tells whether a context's name can be a directory's on any system.
func nameable(name string) bool { return contextName.MatchString(name) }

var contextName = regexp.MustCompile(`^[\p{L}\p{N}_-][\p{L}\p{N}._-]*$`)

// keyLine finds the line of a key that a path cannot name.
func keyLine(data []byte, key string) int {
	for _, t := range lexer.Tokenize(string(data)) {
		if t.Value == key && t.Next != nil && t.Next.Type == token.MappingValueType {
			return t.Position.Line
		}
	}
	return 0
}

// yamlError turns the library's error into ours, with its line and without the excerpt
// of the file, which may hold a secret.
func yamlError(path string, err error) error {
	e := &Error{Path: path, Text: "is no valid YAML"}
	var l *lineError
	if errors.As(err, &l) {
		e.Line, e.Text = l.line, l.text
		return e
	}
	var y yaml.Error
	if errors.As(err, &y) {
		e.Text = y.GetMessage()
		if t := y.GetToken(); t != nil && t.Position != nil {
			e.Line = t.Position.Line
		}
		return e
	}
	e.Text = err.Error()
	return e
}

// Document is a YAML file that was read. It knows on which lines things stand.
type Document struct {
	path string
	tree *ast.File
}

// Mistake makes an *Error at the line of a YAML path, such as $.listeners[0].id.
func (d *Document) Mistake(path, text string) error {
	return &Error{Path: d.path, Line: d.line(path), Key: strings.TrimPrefix(path, "$."), Text: text}
}

type reading struct {
	doc    *Document
	lookup func(string) (string, bool)
}

func (p *reading) fail(path, text string) error { return p.doc.Mistake(path, text) }

// line finds the line of a path, or of the nearest thing above it that is there.
func (d *Document) line(path string) int {
	for path != "$" && path != "" {
		if yp, err := yaml.PathString(path); err == nil {
			if n, err := yp.FilterFile(d.tree); err == nil && n != nil && n.GetToken() != nil {
				return n.GetToken().Position.Line
			}
		}
		i := strings.LastIndexAny(path, ".[")
		if i < 0 {
			return 0
		}
		path = path[:i]
	}
	return 0
}

var variable = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// expand puts the environment's values in.
func (p *reading) expand(path string, s *string) error {
	var missing string
	*s = variable.ReplaceAllStringFunc(*s, func(m string) string {
		name := m[2 : len(m)-1]
		v, ok := p.lookup(name)
		if !ok && missing == "" {
			missing = name
		}
		return v
	})
	if missing != "" {
		return p.fail(path, fmt.Sprintf("the environment has no %s; set it or write the value", missing))
	}
	return nil
}

func (p *reading) context(name string, c *Context) error {
	at := "$.contexts." + name
	if c.Label == "" {
		c.Label = name
	}
	if c.Nacos != nil && !c.Nacos.Embedded {
		if err := p.nacos(at+".nacos", c.Nacos); err != nil {
			return err
		}
	}
	if c.RabbitMQ != nil && !c.RabbitMQ.Embedded {
		if err := p.rabbit(at+".rabbitmq", c.RabbitMQ); err != nil {
			return err
		}
	}
	if c.Releases != nil && !c.Releases.Embedded {
		return p.releases(at+".releases", c.Releases)
	}
	return nil
}

func (p *reading) nacos(at string, n *Nacos) error {
	if len(n.Servers) == 0 {
		return p.fail(at+".servers", "name at least one server, as host or host:port")
	}
	for i := range n.Servers {
		if err := p.expand(fmt.Sprintf("%s.servers[%d]", at, i), &n.Servers[i]); err != nil {
			return err
		}
	}
	if err := p.expand(at+".username", &n.Username); err != nil {
		return err
	}
	if err := p.expand(at+".password", (*string)(&n.Password)); err != nil {
		return err
	}
	if n.PasswordFile != "" {
		if n.Password != "" {
			return p.fail(at+".password-file", "password is set too; keep one of the two")
		}
		b, err := os.ReadFile(n.PasswordFile)
		if err != nil {
			return p.fail(at+".password-file", err.Error())
		}
		n.Password = Secret(strings.TrimRight(string(b), "\r\n"))
	}
	seen := make(map[string]bool)
	for i, a := range n.Applications {
		path := fmt.Sprintf("%s.applications[%d]", at, i)
		if a.Name == "" {
			return p.fail(path, "an application needs a name")
		}
		if seen[a.Name] {
			return p.fail(path, fmt.Sprintf("application %q stands there twice", a.Name))
		}
		seen[a.Name] = true
	}
	return p.tls(at, n.TLS)
}

func (p *reading) tls(at string, t *TLS) error {
	if t == nil {
		return nil
	}
	for _, f := range []struct{ key, file string }{{"ca", t.CA}, {"cert", t.Cert}, {"key", t.Key}} {
		if f.file == "" {
			continue
		}
		if _, err := os.Stat(f.file); err != nil {
			return p.fail(at+".tls."+f.key, err.Error())
		}
	}
	if (t.Cert == "") != (t.Key == "") {
		return p.fail(at+".tls", "cert and key belong together")
	}
	return nil
}

func (p *reading) rabbit(at string, r *RabbitMQ) error {
	for _, v := range []struct {
		key     string
		secret  *Secret
		schemes string
	}{{"url", &r.URL, "amqp amqps"}, {"management", &r.Management, "http https"}} {
		path := at + "." + v.key
		if err := p.expand(path, (*string)(v.secret)); err != nil {
			return err
		}
		if *v.secret == "" {
			if v.key == "url" {
				return p.fail(path, "name the broker, as amqp://user:password@host:5672/vhost")
			}
			continue
		}
		u, err := url.Parse(v.secret.Reveal())
		if err != nil || u.Host == "" || !strings.Contains(" "+v.schemes+" ", " "+u.Scheme+" ") {
			// The value may hold a password, so it is not repeated.
			return p.fail(path, fmt.Sprintf("is no URL of the form %s://user:password@host:port/… (characters such as / or @ in a password are written %%2F, %%40)", strings.Fields(v.schemes)[0]))
		}
	}
	return p.tls(at, r.TLS)
}

func (p *reading) releases(at string, r *Releases) error {
	if err := p.expand(at+".dsn", (*string)(&r.DSN)); err != nil {
		return err
	}
	scheme, _, ok := strings.Cut(r.DSN.Reveal(), ":")
	switch {
	case !ok:
		return p.fail(at+".dsn", "name the database, as mysql://user:password@host/db, postgres://… or sqlite:/path")
	case scheme != "mysql" && scheme != "mariadb" && scheme != "postgres" && scheme != "postgresql" && scheme != "sqlite":
		return p.fail(at+".dsn", fmt.Sprintf("%q is no kind of database that belay reads; use mysql, postgres or sqlite", scheme))
	}
	if r.LookBack != nil && *r.LookBack < 0 {
		return p.fail(at+".look-back", "must not be negative")
	}
	return nil
}

const embedded = "embedded"

// lineError is a mistake that was found at a node.
type lineError struct {
	line int
	text string
}

func (e *lineError) Error() string { return e.text }

// Mistake is an error at a node of a YAML file, for UnmarshalYAML methods.
func Mistake(n ast.Node, format string, args ...any) error {
	return &lineError{line: n.GetToken().Position.Line, text: fmt.Sprintf(format, args...)}
}

// UnmarshalYAML reads a mapping, or the word embedded.
func (n *Nacos) UnmarshalYAML(node ast.Node) error {
	type plain Nacos
	return orEmbedded(node, &n.Embedded, (*plain)(n))
}

// UnmarshalYAML reads a mapping, or the word embedded.
func (r *RabbitMQ) UnmarshalYAML(node ast.Node) error {
	type plain RabbitMQ
	return orEmbedded(node, &r.Embedded, (*plain)(r))
}

// UnmarshalYAML reads a mapping, or the word embedded.
func (r *Releases) UnmarshalYAML(node ast.Node) error {
	type plain Releases
	return orEmbedded(node, &r.Embedded, (*plain)(r))
}

// UnmarshalYAML reads a mapping, or a plain name.
func (a *Application) UnmarshalYAML(node ast.Node) error {
	if s, ok := node.(*ast.StringNode); ok {
		a.Name = s.Value
		return nil
	}
	type plain Application
	return yaml.NodeToValue(node, (*plain)(a), yaml.Strict())
}

// UnmarshalYAML reads "500ms", "1s".
func (d *Duration) UnmarshalYAML(node ast.Node) error {
	text := node.GetToken().Value
	v, err := time.ParseDuration(text)
	if err != nil || v < 0 {
		return Mistake(node, "%q is no duration; write it like 500ms, 2s or 1m", text)
	}
	*d = Duration(v)
	return nil
}

func orEmbedded(node ast.Node, flag *bool, into any) error {
	if s, ok := node.(*ast.StringNode); ok {
		if s.Value != embedded {
			return Mistake(node, "%q is neither a mapping nor the word %s", s.Value, embedded)
		}
		*flag = true
		return nil
	}
	return yaml.NodeToValue(node, into, yaml.Strict())
}
