package nacos

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"time"
)

// md5Hex is Nacos's fingerprint of a content.
func md5Hex(text string) string {
	sum := md5.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// reading is the outcome of one read.
type reading struct {
	text   string
	typ    string
	absent bool
	// fresh tells that the server's database was read, not the copy that lags
	// behind it by up to two seconds.
	fresh bool
}

func (r reading) md5() string {
	if r.absent {
		return ""
	}
	return md5Hex(r.text)
}

// read asks the server for a config once. It prefers the detail call, which
// reads the database; where that is not allowed or not there, the plain one.
func (s *Store) read(ctx context.Context, key Key) (reading, error) {
	d, err := s.detector.get(ctx)
	if err != nil {
		return reading{}, err
	}
	if d.kind != kindOther && s.detailWorks() {
		detail, err := s.detail(ctx, d, key)
		switch {
		case err == nil:
			return reading{text: detail.Text, typ: detail.Type, fresh: true}, nil
		case errors.Is(err, ErrAbsent):
			return reading{absent: true, fresh: true}, nil
		case errors.Is(err, ErrForbidden), errors.Is(err, ErrRemovedAPI):
			s.detailRefused(err)
		default:
			return reading{}, err
		}
	}
	return s.plain(ctx, d, key)
}

// detailRetry is how long the detail call is left alone after a refusal.
const detailRetry = time.Minute

func (s *Store) detailWorks() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.noDetailUntil.IsZero() || time.Now().After(s.noDetailUntil)
}

func (s *Store) detailRefused(err error) {
	s.mu.Lock()
	s.noDetailUntil = time.Now().Add(detailRetry)
	s.mu.Unlock()
	s.cfg.log.Debug("detail refused, reading the lagging copy", "err", err)
}

// plain reads what all clients read: the server's copy of its database.
func (s *Store) plain(ctx context.Context, d dialect, key Key) (reading, error) {
	what := "read " + key.String()
	if d.kind == kindV3 {
		r, err := s.plainV3(ctx, d, what, key)
		if !errors.Is(err, ErrRemovedAPI) {
			return r, err
		}
	}
	a, err := s.client.do(ctx, call{what: what, method: http.MethodGet, path: "/v1/cs/configs", query: v1Key(d, s.cfg.Namespace, key)})
	if errors.Is(err, ErrAbsent) {
		return reading{absent: true}, nil
	}
	if err != nil {
		return reading{}, err
	}
	return reading{text: string(a.body), typ: a.header.Get("Config-Type")}, nil
}

func (s *Store) plainV3(ctx context.Context, d dialect, what string, key Key) (reading, error) {
	a, err := s.client.do(ctx, call{what: what, method: http.MethodGet, path: "/v3/client/cs/config", query: v3Key(d, s.cfg.Namespace, key)})
	if err == nil {
		var data struct {
			Content     string `json:"content"`
			ContentType string `json:"contentType"`
		}
		if err = a.unwrap(what, &data); err == nil {
			return reading{text: data.Content, typ: data.ContentType}, nil
		}
	}
	if errors.Is(err, ErrAbsent) {
		return reading{absent: true}, nil
	}
	return reading{}, err
}

// v1Key names a config in v1 calls.
func v1Key(d dialect, namespace string, key Key) url.Values {
	return url.Values{"dataId": {key.DataID}, "group": {key.Group}, "tenant": {d.tenant(namespace)}}
}

// v3Key names a config in v3 calls.
func v3Key(d dialect, namespace string, key Key) url.Values {
	return url.Values{"dataId": {key.DataID}, "groupName": {key.Group}, "namespaceId": {d.tenant(namespace)}}
}
