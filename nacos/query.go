package nacos

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Namespace is one namespace of the server.
type Namespace struct {
	ID      string // "" is the default one, whatever the server calls it
	Name    string
	Configs int
}

// Namespaces lists the namespaces of the server, the default one first.
func (s *Store) Namespaces(ctx context.Context) ([]Namespace, error) {
	ctx, d, stop, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	const what = "list namespaces"
	r := call{what: what, method: http.MethodGet, path: "/v1/console/namespaces"}
	if d.kind == kindV3 {
		r.path = "/v3/admin/core/namespace/list"
	}
	a, err := s.client.do(ctx, r)
	if d.kind == kindV3 && errors.Is(err, ErrForbidden) {
		r.path, r.console = "/v3/console/core/namespace/list", true
		if b, cerr := s.client.do(ctx, r); cerr == nil {
			a, err = b, nil
		}
	}
	if err != nil {
		return nil, err
	}
	var rows []struct {
		Namespace string `json:"namespace"`
		ShowName  string `json:"namespaceShowName"`
		Configs   int    `json:"configCount"`
	}
	if err := a.unwrap(what, &rows); err != nil {
		return nil, err
	}
	list := make([]Namespace, 0, len(rows))
	for _, row := range rows {
		n := Namespace{ID: row.Namespace, Name: row.ShowName, Configs: row.Configs}
		if n.ID == "public" {
			n.ID = ""
		}
		if n.ID == "" {
			list = append([]Namespace{n}, list...)
		} else {
			list = append(list, n)
		}
	}
	return list, nil
}

// Watchers lists who listens to the config. Two processes on one address are
// one row, and its md5 says what was fetched, not what was applied. The error
// is ErrRemovedAPI on servers that do not tell (r-nacos).
func (s *Store) Watchers(ctx context.Context, key Key) ([]Watcher, error) {
	if err := s.check(key); err != nil {
		return nil, err
	}
	ctx, d, stop, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	what := "list listeners of " + key.String()
	var a answer
	var found map[string]string
	if d.kind == kindV3 {
		r := call{what: what, method: http.MethodGet, path: "/v3/admin/cs/config/listener", query: v3Key(d, s.cfg.Namespace, key)}
		r.query.Set("aggregation", "true")
		a, err = s.client.do(ctx, r)
		if errors.Is(err, ErrForbidden) {
			r.path, r.console = "/v3/console/cs/config/listener", true
			if b, cerr := s.client.do(ctx, r); cerr == nil {
				a, err = b, nil
			}
		}
		if err != nil {
			return nil, err
		}
		var data struct {
			Status map[string]string `json:"listenersStatus"`
		}
		if err := a.unwrap(what, &data); err != nil {
			return nil, err
		}
		found = data.Status
	} else {
		q := v1Key(d, s.cfg.Namespace, key)
		q.Set("sampleTime", "1")
		if a, err = s.client.do(ctx, call{what: what, method: http.MethodGet, path: "/v1/cs/configs/listener", query: q}); err != nil {
			return nil, err
		}
		var body struct {
			Status map[string]string `json:"lisentersGroupkeyStatus"` // spelled so
		}
		if err := a.decode(what, &body); err != nil {
			return nil, err
		}
		found = body.Status
	}
	list := make([]Watcher, 0, len(found))
	for addr, sum := range found {
		list = append(list, Watcher{Address: addr, MD5: sum})
	}
	slices.SortFunc(list, func(a, b Watcher) int { return strings.Compare(a.Address, b.Address) })
	return list, nil
}

// searchPage is how many configs one search request returns.
const searchPage = 500

// Search lists all applications that have a config with one of the data ids:
// the keys of all groups of the namespace, sorted by group.
func (s *Store) Search(ctx context.Context, dataIDs ...string) ([]Key, error) {
	for _, id := range dataIDs {
		if err := checkName("data id", id, maxDataID); err != nil {
			return nil, err
		}
	}
	ctx, d, stop, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	seen := map[Key]bool{}
	for _, id := range dataIDs {
		for no := 1; ; no++ {
			p, err := s.searchOnce(ctx, d, id, no)
			if err != nil {
				return nil, err
			}
			for _, row := range p.PageItems {
				if row.DataID == id {
					seen[Key{DataID: row.DataID, Group: row.Group + row.GroupName}] = true
				}
			}
			if len(p.PageItems) == 0 || no >= p.PagesAvailable {
				break
			}
		}
	}
	list := make([]Key, 0, len(seen))
	for k := range seen {
		list = append(list, k)
	}
	slices.SortFunc(list, func(a, b Key) int { return strings.Compare(a.String(), b.String()) })
	return list, nil
}

type searchRow struct {
	DataID    string `json:"dataId"`
	Group     string `json:"group"`     // 2.x
	GroupName string `json:"groupName"` // 3.x
}

func (s *Store) searchOnce(ctx context.Context, d dialect, dataID string, no int) (p page[searchRow], err error) {
	what := "search for " + dataID
	r := call{what: what, method: http.MethodGet, path: "/v1/cs/configs", query: v1Key(d, s.cfg.Namespace, Key{DataID: dataID})}
	if d.kind == kindV3 {
		r.path, r.query = "/v3/admin/cs/config/list", v3Key(d, s.cfg.Namespace, Key{DataID: dataID})
	}
	r.query.Set("search", "accurate")
	r.query.Set("pageNo", strconv.Itoa(no))
	r.query.Set("pageSize", strconv.Itoa(searchPage))
	a, err := s.client.do(ctx, r)
	if err != nil {
		return p, err
	}
	if d.kind == kindV3 {
		err = a.unwrap(what, &p)
	} else {
		err = a.decode(what, &p)
	}
	return p, err
}
