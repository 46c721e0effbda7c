package nacos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"
)

// publish sends the content once, over HTTP, or over gRPC to servers that take
// it there only. nil means that the server took it.
func (w *writing) publish(ctx context.Context) error {
	expect := w.base
	if expect == "" {
		expect = emptyMD5
	}
	err := w.publishHTTP(ctx, expect)
	if !errors.Is(err, ErrRemovedAPI) {
		return err
	}
	known := w.store.publishRemoved.Swap(true)
	if lost := w.before.losses(); len(lost) > 0 && !known {
		return &LossError{Key: w.key, Lost: lost}
	}
	return w.publishPush(ctx, expect)
}

// publishHTTP leaves out tags and application name, which then survive, and
// sends again what else was there.
func (w *writing) publishHTTP(ctx context.Context, expect string) error {
	s := w.store
	form := url.Values{"content": {w.content.Text}, "type": {w.typ()}}
	for field, value := range map[string]string{"desc": w.before.Desc, "use": w.before.Use, "effect": w.before.Effect, "schema": w.before.Schema} {
		if value != "" {
			form.Set(field, value)
		}
	}
	r := call{
		what: "publish " + w.key.String(), method: http.MethodPost, path: "/v1/cs/configs", once: true,
		header: http.Header{"casMd5": {expect}}, // spelled as Nacos documents it
		form:   w.signed(merge(form, v1Key(w.d, s.cfg.Namespace, w.key)), "src_user"),
	}
	if n := len(r.form.Encode()); n > maxForm {
		return fmt.Errorf("write %s: %w: %d bytes as a form, at most %d", w.key, ErrTooLarge, n, maxForm)
	}
	if w.d.kind != kindV3 {
		return published(s.client.do(ctx, r))
	}
	v3 := r
	v3.path, v3.form = "/v3/admin/cs/config", w.signed(merge(form, v3Key(w.d, s.cfg.Namespace, w.key)), "srcUser")
	err := published(s.client.do(ctx, v3))
	if errors.Is(err, ErrRemovedAPI) || errors.Is(err, ErrForbidden) {
		if old := published(s.client.do(ctx, r)); !errors.Is(old, ErrRemovedAPI) {
			return old
		}
	}
	return err
}

// signed adds who writes.
func (w *writing) signed(form url.Values, field string) url.Values {
	if w.content.Operator != "" {
		form.Set(field, w.content.Operator)
	}
	return form
}

// published reads the answer to a publish: true, or true as the data of v3.
func published(a answer, err error) error {
	if err != nil {
		return err
	}
	if strings.TrimSpace(string(a.body)) == "true" {
		return nil
	}
	var ok bool
	if err := a.unwrap("publish", &ok); err != nil {
		return err
	}
	if !ok {
		return refusal("publish", http.StatusOK, a.body)
	}
	return nil
}

func merge(a, b url.Values) url.Values {
	m := url.Values{}
	for _, from := range []url.Values{a, b} {
		for k, v := range from {
			m[k] = v
		}
	}
	return m
}

// typ is the type to send: Nacos turns a missing or unknown one into "text".
func (w *writing) typ() string {
	t := w.content.Type
	if t == "" {
		t = w.before.Type
	}
	if t == "" {
		t = strings.TrimPrefix(path.Ext(w.key.DataID), ".")
	}
	switch t = strings.ToLower(t); t {
	case "yml":
		return "yaml"
	case "htm":
		return "html"
	case "properties", "yaml", "json", "xml", "html", "toml", "text":
		return t
	}
	return "text"
}

// publishPush publishes over gRPC, where a server takes none over HTTP. It
// clears the description and what else Losses names.
func (w *writing) publishPush(ctx context.Context, expect string) error {
	c := w.store.push.current()
	if c == nil {
		var err error
		if c, err = dialPush(ctx, w.store, w.d, w.store.client.endpoint(0)); err != nil {
			return err
		}
		defer c.close()
	}
	r := publishRequest{
		pushHeader: pushHeader{Module: "config"}, Group: w.key.Group, DataID: w.key.DataID, Tenant: c.tenant,
		Content: w.content.Text, CASMD5: expect,
		Additional: map[string]string{
			"type": w.typ(), "config_tags": strings.Join(w.before.Tags, ","), "appName": w.before.AppName, "src_user": w.content.Operator,
		},
	}
	var reply pushReply
	return c.request(ctx, "ConfigPublishRequest", &r, &reply)
}
