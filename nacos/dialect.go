package nacos

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
)

// kind is the family of a server, which decides paths and shapes.
type kind int

const (
	kindUnknown kind = iota
	kindV1           // 1.x and 2.x: v1 HTTP
	kindV3           // 3.x: v3 admin HTTP
	kindOther        // r-nacos and others: the common part of v1 only
)

// dialect is what was found out about the server.
type dialect struct {
	kind    kind
	version string
}

// tenant is the namespace as this server wants it: "" on 2.x, where "public"
// storms or goes deaf; "public" on 3.x, where "" takes the pushes away from
// clients that say "public".
func (d dialect) tenant(namespace string) string {
	if namespace == "" && d.kind == kindV3 {
		return "public"
	}
	return namespace
}

// ignoresCAS tells that a publish with an outdated md5 is applied all the same.
func (d dialect) ignoresCAS() bool { return d.kind == kindOther }

// major is the first number of the version, "" while unknown.
func (d dialect) major() string {
	m, _, _ := strings.Cut(d.version, ".")
	return m
}

// detector asks the server for its dialect once, and again after forget.
type detector struct {
	client *client
	turn   chan struct{} // one asks at a time
	found  atomic.Pointer[dialect]
	old    atomic.Bool // found is to be asked for again
}

func newDetector(c *client) *detector {
	return &detector{client: c, turn: make(chan struct{}, 1)}
}

// forget makes the next get ask again. It does not block.
func (d *detector) forget() { d.old.Store(true) }

// known returns what is known without asking.
func (d *detector) known() dialect {
	if f := d.found.Load(); f != nil {
		return *f
	}
	return dialect{}
}

// get returns the dialect; it asks the server where it is not known yet.
func (d *detector) get(ctx context.Context) (dialect, error) {
	if f := d.known(); f.kind != kindUnknown && !d.old.Load() {
		return f, nil
	}
	select {
	case d.turn <- struct{}{}:
	case <-ctx.Done():
		return dialect{}, context.Cause(ctx)
	}
	defer func() { <-d.turn }()
	if f := d.known(); f.kind != kindUnknown && !d.old.Load() {
		return f, nil
	}
	found, err := d.ask(ctx)
	if err != nil {
		return dialect{}, err
	}
	d.found.Store(&found)
	d.old.Store(false)
	d.client.stats.server(found.version)
	d.client.cfg.log.Debug("server found", "version", found.version, "kind", int(found.kind))
	return found, nil
}

func (d *detector) ask(ctx context.Context) (dialect, error) {
	const what = "ask the server for its version"
	var state struct {
		Version string `json:"version"`
	}
	for _, path := range []string{"/v3/admin/core/state", "/v1/console/server/state"} {
		a, err := d.client.do(ctx, call{what: what, method: http.MethodGet, path: path, noLogin: true})
		ae := (*answerError)(nil)
		if errors.As(err, &ae) && ae.status == http.StatusGone {
			// Only 3.x has removed it, whatever stands before its admin API.
			return dialect{kind: kindV3, version: "3"}, nil
		}
		if ae != nil && ae.status < 500 {
			continue // not this family; a 403 means that the path exists only behind a login
		}
		if err != nil {
			return dialect{}, err
		}
		if path[:3] == "/v3" {
			var shape struct {
				Data struct {
					Version string `json:"version"`
				} `json:"data"`
			}
			if a.decode(what, &shape) != nil {
				continue
			}
			if shape.Data.Version != "" {
				return dialect{kind: kindV3, version: shape.Data.Version}, nil
			}
		}
		if a.decode(what, &state) != nil {
			continue
		}
		if path[:3] == "/v3" {
			return dialect{kind: kindV3, version: state.Version}, nil
		}
		return dialect{kind: kindV1, version: state.Version}, nil
	}
	return dialect{kind: kindOther}, nil
}
