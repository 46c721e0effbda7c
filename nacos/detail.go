package nacos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Detail is what the server's database holds of a config beside its text.
type Detail struct {
	Key     Key
	Text    string
	MD5     string
	Type    string
	Tags    []string
	AppName string
	Desc    string
	// Use, Effect and Schema are shown by 1.x and 2.x only.
	Use, Effect, Schema string
	Modified            time.Time // of the newest write
	ModifiedBy          string    // "" where the writer named nobody
	ModifiedFrom        string    // address as Nacos gives it, which a client may claim
	id                  string    // the config's id, for the history
}

// detailBody is the JSON of both families.
type detailBody struct {
	ID         string `json:"id"`
	DataID     string `json:"dataId"`
	Content    string `json:"content"`
	Type       string `json:"type"`
	AppName    string `json:"appName"`
	ModifyTime int64  `json:"modifyTime"`
	CreateUser string `json:"createUser"`
	CreateIP   string `json:"createIp"`
	Desc       string `json:"desc"`
	Use        string `json:"use"`
	Effect     string `json:"effect"`
	Schema     string `json:"schema"`
	ConfigTags string `json:"configTags"`
}

// Detail returns the config with its metadata, read from the database: it is
// never behind a publish. The error is ErrAbsent where the config does not
// exist and ErrRemovedAPI where the server has no such call.
func (s *Store) Detail(ctx context.Context, key Key) (Detail, error) {
	if err := s.check(key); err != nil {
		return Detail{}, err
	}
	ctx, d, stop, err := s.begin(ctx)
	if err != nil {
		return Detail{}, err
	}
	defer stop()
	if d.kind == kindOther {
		return Detail{}, fmt.Errorf("detail of %s: %w", key, ErrRemovedAPI)
	}
	return s.detail(ctx, d, key)
}

func (s *Store) detail(ctx context.Context, d dialect, key Key) (Detail, error) {
	what := "read detail of " + key.String()
	var body detailBody
	if d.kind == kindV3 {
		a, err := s.client.do(ctx, call{what: what, method: http.MethodGet, path: "/v3/admin/cs/config", query: v3Key(d, s.cfg.Namespace, key)})
		if err != nil {
			return Detail{}, err
		}
		if err := a.unwrap(what, &body); err != nil {
			return Detail{}, err
		}
	} else {
		q := v1Key(d, s.cfg.Namespace, key)
		q.Set("show", "all")
		a, err := s.client.do(ctx, call{what: what, method: http.MethodGet, path: "/v1/cs/configs", query: q})
		if err != nil {
			return Detail{}, err
		}
		if t := strings.TrimSpace(string(a.body)); t == "" || t == "null" {
			return Detail{}, fmt.Errorf("%s: %w", what, ErrAbsent)
		}
		if err := a.decode(what, &body); err != nil || body.DataID != key.DataID {
			// The plain content: this server does not know the parameter.
			return Detail{}, fmt.Errorf("%s: %w: the answer is no detail", what, ErrRemovedAPI)
		}
	}
	detail := Detail{
		Key: key, Text: body.Content, MD5: md5Hex(body.Content), Type: body.Type, AppName: body.AppName, Desc: body.Desc,
		Use: body.Use, Effect: body.Effect, Schema: body.Schema, ModifiedBy: body.CreateUser, ModifiedFrom: body.CreateIP, id: body.ID,
	}
	if body.ModifyTime > 0 {
		detail.Modified = time.UnixMilli(body.ModifyTime)
	}
	for tag := range strings.SplitSeq(body.ConfigTags, ",") {
		if tag = strings.TrimSpace(tag); tag != "" {
			detail.Tags = append(detail.Tags, tag)
		}
	}
	return detail, nil
}

// Losses names what the next Update of the config would lose of its metadata,
// in words for the user ("description"); a plan shows them before anything is
// written. There are none where the server takes publishes over HTTP and shows
// the config's details. What a 3.x server does not show (use, effect, schema)
// is not named: it cannot be known.
func (s *Store) Losses(ctx context.Context, key Key) ([]string, error) {
	detail, err := s.Detail(ctx, key)
	switch {
	case errors.Is(err, ErrAbsent):
		return nil, nil
	case errors.Is(err, ErrForbidden), errors.Is(err, ErrRemovedAPI):
		if s.detector.known().kind == kindOther {
			return nil, nil // nothing of the kind is kept there
		}
		return []string{"description (if there is one: it may not be read)"}, nil
	case err != nil:
		return nil, err
	case s.publishRemoved.Load():
		return detail.losses(), nil
	}
	return nil, nil
}

// losses is what a publish over gRPC clears.
func (d Detail) losses() []string {
	var lost []string
	for _, f := range []struct{ name, value string }{{"description", d.Desc}, {"use", d.Use}, {"effect", d.Effect}, {"schema", d.Schema}} {
		if f.value != "" {
			lost = append(lost, f.name)
		}
	}
	return lost
}
