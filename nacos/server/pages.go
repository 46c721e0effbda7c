package server

import (
	"regexp"
	"strings"
)

// page is one page of a list, as all versions send it.
type page struct {
	TotalCount     int `json:"totalCount"`
	PageNumber     int `json:"pageNumber"`
	PagesAvailable int `json:"pagesAvailable"`
	PageItems      any `json:"pageItems"`
}

// Sizes of pages of the history; searches have no upper limit.
const (
	defaultPage    = 100
	maxHistoryPage = 500
)

// paged cuts a page out of list and shows its items. A page beyond the end is empty, its totals are right.
func paged[T, S any](list []T, number, size int, show func(T) S) page {
	if size <= 0 {
		size = defaultPage
	}
	p := page{TotalCount: len(list), PageNumber: number, PagesAvailable: (len(list) + size - 1) / size}
	items := []S{}
	// Divided, not multiplied: both numbers come from outside and their product may overflow.
	if number >= 1 && number <= p.PagesAvailable {
		from := (number - 1) * size
		for _, item := range list[from:min(len(list), from+min(size, len(list)))] {
			items = append(items, show(item))
		}
	}
	p.PageItems = items
	return p
}

// queryOf reads what a search asks for. Blank patterns select everything.
func (s *Server) queryOf(c *call, tenant, groupParam, tagsParam string) query {
	pattern := exact
	q := query{tenant: tenant}
	if c.param("search") == "blur" {
		pattern = wildcard
		if s.cfg.Behaviour == RNacos {
			pattern = substring
		}
		q.content = c.param("config_detail") + c.param("configDetail")
	}
	q.dataID, q.group, q.appName = pattern(c.param("dataId")), pattern(c.param(groupParam)), pattern(c.param("appName"))
	if tags := c.param(tagsParam); tags != "" {
		q.tags = strings.Split(tags, ",")
	}
	return q
}

func everything(string) bool { return true }

func exact(pattern string) func(string) bool {
	if pattern == "" {
		return everything
	}
	return func(value string) bool { return value == pattern }
}

func substring(pattern string) func(string) bool {
	return func(value string) bool { return strings.Contains(value, pattern) }
}

// wildcard matches with * for any text; a pattern without one must be equal.
func wildcard(pattern string) func(string) bool {
	if !strings.Contains(pattern, "*") {
		return exact(pattern)
	}
	parts := strings.Split(pattern, "*")
	for i, part := range parts {
		parts[i] = regexp.QuoteMeta(part)
	}
	re, err := regexp.Compile("(?s)^" + strings.Join(parts, ".*") + "$")
	if err != nil { // quoted text always compiles
		return func(string) bool { return false }
	}
	return re.MatchString
}
