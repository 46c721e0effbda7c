package server

import (
	"errors"
	"fmt"
	"strings"
)

// publicNamespace is the name under which 3.x shows the default namespace, whose id is "" on 2.x.
const publicNamespace = "public"

// defaultGroup is the group that a request without one means.
const defaultGroup = "DEFAULT_GROUP"

// key names one config. The tenant of the default namespace is "" here, whatever the server shows.
type key struct {
	tenant, group, dataID string
}

// canonical turns the two names of the default namespace into one.
func canonical(tenant string) string {
	if tenant == publicNamespace {
		return ""
	}
	return tenant
}

func (k key) String() string {
	if k.tenant == "" {
		return k.dataID + "+" + k.group
	}
	return k.dataID + "+" + k.group + "+" + k.tenant
}

// Limits of names and values, as real servers have them.
const (
	maxDataID  = 256
	maxGroup   = 128
	maxTenant  = 64
	maxTags    = 5
	maxTag     = 64
	maxForm    = 2 << 20  // bytes of an HTTP form; beyond it no parameter is seen
	maxMessage = 10 << 20 // bytes of a gRPC message
)

// illegalParam is a refused name; its text is what the server answers.
type illegalParam struct{ text string }

func (e *illegalParam) Error() string { return e.text }

// checkKey refuses names that a real server refuses, in the order in which it looks at them.
func checkKey(k key) error {
	for _, p := range []struct {
		name, value string
		max         int
	}{
		{"namespaceId/tenant", k.tenant, maxTenant},
		{"dataId", k.dataID, maxDataID},
		{"group", k.group, maxGroup},
	} {
		if len([]rune(p.value)) > p.max {
			return &illegalParam{fmt.Sprintf("Param '%s' is illegal, the param length should not exceed %d.", p.name, p.max)}
		}
		if strings.ContainsFunc(p.value, illegalRune) {
			return &illegalParam{fmt.Sprintf("Param '%s' is illegal, illegal characters should not appear in the param.", p.name)}
		}
	}
	return nil
}

func illegalRune(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.:", r))
}

var (
	errTooManyTags = errors.New("too much config_tags, over 5")
	errTagTooLong  = errors.New("too long tag, over 64")
)

func checkTags(tags string) error {
	if tags == "" {
		return nil
	}
	list := strings.Split(tags, ",")
	if len(list) > maxTags {
		return errTooManyTags
	}
	for _, tag := range list {
		if len([]rune(tag)) > maxTag {
			return errTagTooLong
		}
	}
	return nil
}

// configType returns the type under which a content is stored: one that the server does not know becomes text.
func configType(asked string) string {
	switch asked {
	case "text", "json", "xml", "yaml", "html", "properties", "toml":
		return asked
	default:
		return "text"
	}
}
