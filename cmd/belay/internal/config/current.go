package config

import (
	"maps"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

const currentKey = "current-context"

// WithCurrent returns the text of a configuration in which name is the current context.
// No other value and no comment changes. The error is an *Error; it says what to write
// by hand where the text is of a form that cannot be changed in one place.
func WithCurrent(path string, data []byte, name string) ([]byte, error) {
	quoted, err := yaml.Marshal(name)
	if err != nil {
		return nil, yamlError(path, err)
	}
	value := strings.TrimSpace(string(quoted))
	tree, err := parser.ParseBytes(data, parser.ParseComments)
	if err != nil {
		return nil, yamlError(path, err)
	}
	lines := strings.SplitAfter(string(data), "\n")
	at, found := currentLine(tree)
	switch {
	case found:
		lines[at] = withValue(lines[at], value)
	case strings.HasSuffix(lines[at], "\r\n"):
		lines[at] = currentKey + ": " + value + "\r\n" + lines[at]
	default:
		lines[at] = currentKey + ": " + value + "\n" + lines[at]
	}
	text := []byte(strings.Join(lines, ""))
	if !onlyCurrentDiffers(data, text, name) {
		return nil, &Error{Path: path, Line: at + 1, Key: currentKey, Text: "it cannot be changed where it stands; write it by hand, on a line of its own: " + currentKey + ": " + value}
	}
	return text, nil
}

// currentLine finds the line of the key, from 0, else that of the first key.
func currentLine(tree *ast.File) (at int, found bool) {
	for _, doc := range tree.Docs {
		body, ok := doc.Body.(*ast.MappingNode)
		if !ok || len(body.Values) == 0 {
			continue
		}
		for _, v := range body.Values {
			if v.Key.GetToken().Value == currentKey {
				return v.Key.GetToken().Position.Line - 1, true
			}
		}
		return body.Values[0].Key.GetToken().Position.Line - 1, false
	}
	return 0, false
}

// withValue replaces what stands between the colon and a comment or the line's end.
func withValue(line, value string) string {
	key, rest, _ := strings.Cut(line, ":")
	old := strings.TrimLeft(rest, " \t")
	end := len(strings.TrimRight(old, "\r\n"))
	switch {
	case strings.HasPrefix(old, "#"):
		end = 0
	case strings.HasPrefix(old, `"`), strings.HasPrefix(old, "'"):
		if i := strings.IndexByte(old[1:], old[0]); i >= 0 {
			end = i + 2
		}
	default:
		if i := strings.Index(old, " #"); i >= 0 {
			end = len(strings.TrimRight(old[:i], " \t"))
		}
	}
	tail := old[end:]
	if strings.HasPrefix(tail, "#") {
		tail = " " + tail
	}
	return key + ": " + value + tail
}

// onlyCurrentDiffers tells that after says the same as before but for the current
// context.
func onlyCurrentDiffers(before, after []byte, name string) bool {
	var was, is map[string]any
	if yaml.Unmarshal(before, &was) != nil || yaml.Unmarshal(after, &is) != nil || is[currentKey] != name {
		return false
	}
	without := func(m map[string]any) map[string]any {
		m = maps.Clone(m)
		delete(m, currentKey)
		return m
	}
	return reflect.DeepEqual(without(was), without(is))
}
