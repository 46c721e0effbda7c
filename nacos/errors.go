package nacos

import (
	"errors"
	"fmt"
	"strings"
)

// Errors that callers tell apart with errors.Is. Conflicts are [*ConflictError]
// and [*OverwroteError].
var (
	// ErrUnavailable: the server could not be reached or gave no usable answer.
	// Nothing that was known before is shown as current because of it.
	ErrUnavailable = errors.New("nacos server is not available")
	// ErrForbidden: the login was refused or a permission is missing; the text
	// names the permission and what it is needed for.
	ErrForbidden = errors.New("nacos refused permission")
	// ErrRemovedAPI: this server does not have the call (any more); the text
	// holds the server's words.
	ErrRemovedAPI = errors.New("this nacos server does not offer the call")
	// ErrBadName: a data id, group or namespace that Nacos would refuse. One
	// such name in a listen request would make the server refuse all others.
	ErrBadName = errors.New("name is not allowed by nacos")
	// ErrTooLarge: the content exceeds what Nacos takes over HTTP (2 MB).
	ErrTooLarge = errors.New("content is too large for nacos")
	// ErrBlank: the content is empty or blank, which Nacos refuses.
	ErrBlank = errors.New("nacos refuses blank content")
	// ErrAbsent: the config does not exist.
	ErrAbsent = errors.New("config does not exist")
	// ErrUnknownOutcome: a write failed and no later read could tell whether it
	// was applied. Read again before repeating it.
	ErrUnknownOutcome = errors.New("it is not known whether the write was applied")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("nacos store is closed")
)

// Limits of names and contents, as Nacos checks them.
const (
	maxDataID    = 256
	maxGroup     = 128
	maxNamespace = 64
	maxForm      = 2 << 20 // bytes of an encoded form
)

// checkKey refuses what Nacos would refuse.
func checkKey(k Key) error {
	if err := checkName("data id", k.DataID, maxDataID); err != nil {
		return err
	}
	return checkName("group", k.Group, maxGroup)
}

func checkName(what, name string, limit int) error {
	if name == "" {
		return fmt.Errorf("%w: the %s is empty", ErrBadName, what)
	}
	if len(name) > limit {
		return fmt.Errorf("%w: the %s has %d characters, at most %d are allowed", ErrBadName, what, len(name), limit)
	}
	for i := range len(name) {
		if c := name[i]; !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-_.:", c) >= 0) {
			return fmt.Errorf("%w: the %s %q may hold letters, digits and - _ . : only", ErrBadName, what, name)
		}
	}
	return nil
}

// answerError is an answer of the server other than success.
type answerError struct {
	what   string // the call in words
	status int
	code   int // Nacos's own code, 0 where there is none
	text   string
}

func (e *answerError) Error() string {
	if e.code != 0 {
		return fmt.Sprintf("%s: server answered %d (code %d): %s", e.what, e.status, e.code, e.text)
	}
	return fmt.Sprintf("%s: server answered %d: %s", e.what, e.status, e.text)
}

func (e *answerError) Is(target error) bool {
	switch target {
	case ErrForbidden:
		return e.status == 403 || e.status == 401
	case ErrRemovedAPI:
		return e.removed()
	case ErrAbsent:
		return e.absent()
	case ErrUnavailable:
		return e.status >= 500 && !e.conflict()
	}
	return false
}

// removed tells a call that the server does not have from a config that it
// does not have: both can be 404.
func (e *answerError) removed() bool {
	return e.status == 410 || e.status == 405 || e.status == 404 && !e.absent()
}

func (e *answerError) absent() bool {
	return e.code == 20004 || e.status == 404 && strings.Contains(e.text, "config data not exist")
}

// conflict recognises the wordings of 2.x (text, code 20005) and 3.x (the bare
// word false on the old path).
func (e *answerError) conflict() bool {
	return e.code == 20005 || e.status == 500 && (strings.Contains(e.text, "Cas publish fail") || strings.TrimSpace(e.text) == "false")
}
