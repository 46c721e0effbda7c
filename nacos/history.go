package nacos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// historyRow is a row as both families send it. Its content is that before the
// change for "U", the inserted one for "I" and the deleted one for "D"; its
// author is that of the change.
type historyRow struct {
	ID           flexible `json:"id"`
	Content      string   `json:"content"`
	SrcIP        string   `json:"srcIp"`
	SrcUser      string   `json:"srcUser"`
	OpType       string   `json:"opType"`
	LastModified stamp    `json:"lastModifiedTime"` // 2.x
	ModifyTime   stamp    `json:"modifyTime"`       // 3.x
}

func (r historyRow) op() string {
	switch strings.TrimSpace(r.OpType) {
	case "I":
		return "insert"
	case "D":
		return "delete"
	}
	return "update"
}

// at is the time of the change; createdTime is a constant on real servers.
func (r historyRow) at() time.Time {
	if t := time.Time(r.LastModified); !t.IsZero() {
		return t
	}
	return time.Time(r.ModifyTime)
}

// flexible is a JSON string or number, kept as text.
type flexible string

func (f *flexible) UnmarshalJSON(b []byte) error {
	*f = flexible(strings.Trim(string(b), `"`))
	return nil
}

// stamp is a time as 2.x (ISO 8601) or 3.x (milliseconds) writes it.
type stamp time.Time

func (s *stamp) UnmarshalJSON(b []byte) error {
	text := strings.Trim(string(b), `"`)
	if text == "" || text == "null" {
		return nil
	}
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
		*s = stamp(time.UnixMilli(ms))
		return nil
	}
	for _, layout := range []string{"2006-01-02T15:04:05.999Z07:00", "2006-01-02T15:04:05.999Z0700"} {
		if t, err := time.Parse(layout, text); err == nil {
			*s = stamp(t)
			return nil
		}
	}
	return fmt.Errorf("%q is no time", text)
}

type page[T any] struct {
	TotalCount     int `json:"totalCount"`
	PagesAvailable int `json:"pagesAvailable"`
	PageItems      []T `json:"pageItems"`
}

// History returns the newest changes of the config, newest first, at most
// limit: who wrote what, when and from where, with the text that each change
// wrote and the one that it replaced. Where a text could not be read Known is
// false. The error is ErrRemovedAPI on servers without history (r-nacos) and
// ErrForbidden without the permission.
func (s *Store) History(ctx context.Context, key Key, limit int) ([]Change, error) {
	if err := s.check(key); err != nil {
		return nil, err
	}
	if limit <= 0 {
		return nil, nil
	}
	ctx, d, stop, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	rows, err := s.historyRows(ctx, d, key, limit)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	read := s.historyTexts(ctx, d, key, rows)
	// What the newest change wrote is the live content.
	live := reading{absent: true}
	liveKnown := rows[0].op() == "delete"
	if !liveKnown {
		if r, err := s.read(ctx, key); err == nil {
			live, liveKnown = r, true
		}
	}
	changes := make([]Change, len(rows))
	for i, row := range rows {
		c := Change{ID: string(row.ID), At: row.at(), Op: row.op(), By: row.SrcUser, From: row.SrcIP}
		switch c.Op {
		case "insert":
			c.Text, c.Known = row.Content, read[i]
		case "delete":
			c.Previous, c.Known = row.Content, read[i]
		default:
			c.Previous = row.Content
			// The row of the next newer change holds what this one wrote.
			if i == 0 {
				c.Text, c.Known = live.text, liveKnown && read[i]
			} else {
				c.Text, c.Known = rows[i-1].Content, read[i-1] && read[i]
			}
		}
		if c.Known && c.Op != "delete" {
			c.MD5 = md5Hex(c.Text)
		}
		changes[i] = c
	}
	return changes, nil
}

// historyRows lists the newest rows, without contents.
func (s *Store) historyRows(ctx context.Context, d dialect, key Key, limit int) ([]historyRow, error) {
	what := "read history of " + key.String()
	r := call{what: what, method: http.MethodGet, path: "/v1/cs/history", query: v1Key(d, s.cfg.Namespace, key)}
	if d.kind == kindV3 {
		r.path, r.query = "/v3/admin/cs/history/list", v3Key(d, s.cfg.Namespace, key)
	} else {
		r.query.Set("search", "accurate")
	}
	r.query.Set("pageNo", "1")
	r.query.Set("pageSize", strconv.Itoa(min(limit, 500)))
	a, err := s.client.do(ctx, r)
	if err != nil {
		return nil, err
	}
	var p page[historyRow]
	if d.kind == kindV3 {
		err = a.unwrap(what, &p)
	} else {
		err = a.decode(what, &p)
	}
	return p.PageItems[:min(limit, len(p.PageItems))], err
}

// historyTexts fills in the contents, a few at a time, and says of which rows
// they are known.
func (s *Store) historyTexts(ctx context.Context, d dialect, key Key, rows []historyRow) []bool {
	known := make([]bool, len(rows))
	var wg sync.WaitGroup
	slots := make(chan struct{}, 4)
	for i := range rows {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			one, err := s.historyRow(ctx, d, key, string(rows[i].ID))
			if err == nil {
				rows[i].Content, known[i] = one.Content, true
			}
		})
	}
	wg.Wait()
	return known
}

// historyRow reads one row with its content.
func (s *Store) historyRow(ctx context.Context, d dialect, key Key, id string) (historyRow, error) {
	what := "read change " + id + " of " + key.String()
	r := call{what: what, method: http.MethodGet, path: "/v1/cs/history", query: v1Key(d, s.cfg.Namespace, key)}
	if d.kind == kindV3 {
		r.path, r.query = "/v3/admin/cs/history", v3Key(d, s.cfg.Namespace, key)
	}
	r.query.Set("nid", id)
	return s.oneRow(ctx, d, what, r)
}

// previousRow reads the newest row by the config's id, in one request.
func (s *Store) previousRow(ctx context.Context, d dialect, key Key, configID string) (historyRow, error) {
	what := "read newest change of " + key.String()
	r := call{what: what, method: http.MethodGet, path: "/v1/cs/history/previous", query: v1Key(d, s.cfg.Namespace, key)}
	if d.kind == kindV3 {
		r.path, r.query = "/v3/admin/cs/history/previous", v3Key(d, s.cfg.Namespace, key)
	}
	r.query.Set("id", configID)
	return s.oneRow(ctx, d, what, r)
}

func (s *Store) oneRow(ctx context.Context, d dialect, what string, r call) (row historyRow, err error) {
	a, err := s.client.do(ctx, r)
	if err != nil {
		return row, err
	}
	if len(strings.TrimSpace(string(a.body))) == 0 {
		return row, fmt.Errorf("%s: %w", what, ErrAbsent) // 2.x knows no such row
	}
	if d.kind == kindV3 {
		err = a.unwrap(what, &row)
	} else {
		err = a.decode(what, &row)
	}
	return row, err
}

// Previous returns the newest change of the config with both texts, in two
// requests.
func (s *Store) Previous(ctx context.Context, key Key) (Change, error) {
	list, err := s.History(ctx, key, 1)
	if err != nil {
		return Change{}, err
	}
	if len(list) == 0 {
		return Change{}, fmt.Errorf("newest change of %s: %w: no history", key, ErrAbsent)
	}
	return list[0], nil
}

// overwrote looks into the history for what was really there before our write:
// a server that ignores the expected md5 leaves its trace there.
func (w *writing) overwrote(ctx context.Context) (lost string, removed, ok bool) {
	s := w.store
	if w.d.kind == kindOther || w.before.id == "" && w.base != "" {
		return "", false, false
	}
	id := w.before.id
	if id == "" {
		detail, err := s.detail(ctx, w.d, w.key)
		if err != nil {
			return "", false, false
		}
		id = detail.id
	}
	row, err := s.previousRow(ctx, w.d, w.key, id)
	if err != nil {
		if !errors.Is(err, ErrForbidden) && !errors.Is(err, ErrRemovedAPI) {
			s.cfg.log.Debug("history after a write not read", "key", w.key.String(), "err", err)
		}
		return "", false, false
	}
	switch row.op() {
	case "insert":
		return "", true, w.base != "" && md5Hex(row.Content) == w.sum
	case "update":
		// A row whose old content is what we wrote is of a later change.
		if sum := md5Hex(row.Content); sum != w.base && sum != w.sum {
			return w.replaced(ctx)
		}
	}
	return "", false, false
}

// inHistory tells whether a write whose outcome is not known was applied and
// then overruled by another.
func (w *writing) inHistory(ctx context.Context) bool {
	list, err := w.store.History(ctx, w.key, 10)
	if err != nil {
		return false
	}
	for _, c := range list {
		if c.Known && c.MD5 == w.sum && (c.By == w.content.Operator || c.By == "") &&
			(c.Op == "insert" && w.base == "" || c.Op == "update" && md5Hex(c.Previous) == w.base) {
			return true
		}
	}
	return false
}

// replaced finds our write among the newest changes and what it replaced.
func (w *writing) replaced(ctx context.Context) (lost string, removed, ok bool) {
	list, err := w.store.History(ctx, w.key, 10)
	if err != nil {
		return "", false, false
	}
	for _, c := range list {
		if c.Known && c.MD5 == w.sum && c.Op == "update" {
			return c.Previous, false, md5Hex(c.Previous) != w.base
		}
	}
	return "", false, false
}
