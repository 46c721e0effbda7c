package nacos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// fake is a server without sockets, for tests under synctest: its answers have
// the shapes of 2.5.1 or 3.0.3 (or of r-nacos, which has less), and reads lag
// behind publishes as they do there.
type fake struct {
	kind kind

	mu       sync.Mutex
	configs  map[Key]*fakeConfig
	copied   map[Key]*fakeConfig // what reads see
	shown    map[Key]int         // id of the write that was copied
	rows     []fakeRow           // newest first
	id       int
	lag      time.Duration
	requests int
	paths    map[string]int
	down     bool
	tokens   map[string]bool // nil: no login needed
	password string
	// before may answer a request in place of the fake, or fail it.
	before func(r *http.Request, form url.Values) (*http.Response, error)
	// after sees a request that was carried out and may fail the answer.
	after     func(r *http.Request) error
	ignoreCAS bool
}

type fakeConfig struct {
	text, typ, desc, tags, app, user string
	id                               int
}

type fakeRow struct {
	key            Key
	id             int
	op, text, user string
}

func newFake(k kind) *fake {
	return &fake{kind: k, configs: map[Key]*fakeConfig{}, copied: map[Key]*fakeConfig{}, shown: map[Key]int{}, paths: map[string]int{}, ignoreCAS: k == kindOther}
}

// store opens a store on the fake. Close it before the bubble ends.
func (f *fake) store(t testing.TB, change func(*Config)) *Store {
	t.Helper()
	cfg := Config{Servers: []string{"nacos"}, DisablePush: true, Operator: "oncall1"}
	if change != nil {
		change(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.client.http.Transport = f
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (f *fake) count(path string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.paths[path]
}

func (f *fake) set(change func(*fake)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *fake) intercept(before func(*http.Request, url.Values) (*http.Response, error)) {
	f.set(func(f *fake) { f.before = before })
}

func (f *fake) afterwards(after func(*http.Request) error) {
	f.set(func(f *fake) { f.after = after })
}

func respond(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
}

func respondJSON(v any) *http.Response {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return respond(200, string(text))
}

func wrapped(data any) *http.Response {
	return respondJSON(map[string]any{"code": 0, "message": "success", "data": data})
}

func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	form := r.URL.Query()
	if r.Body != nil {
		text, _ := io.ReadAll(r.Body)
		more, _ := url.ParseQuery(string(text))
		for k, v := range more {
			form[k] = v
		}
	}
	path := strings.TrimPrefix(r.URL.Path, "/nacos")
	f.mu.Lock()
	f.requests++
	f.paths[r.Method+" "+path]++
	down, before, after := f.down, f.before, f.after
	f.mu.Unlock()
	if down {
		return nil, errors.New("connection refused")
	}
	if before != nil {
		if resp, err := before(r, form); resp != nil || err != nil {
			return resp, err
		}
	}
	resp := f.serve(r, path, form)
	if after != nil {
		if err := after(r); err != nil {
			return nil, err
		}
	}
	return resp, nil
}

func (f *fake) serve(r *http.Request, path string, form url.Values) *http.Response {
	f.mu.Lock()
	defer f.mu.Unlock()
	notFound := respond(404, `{"status":404,"error":"Not Found","path":"`+path+`"}`)
	if strings.HasSuffix(path, "/login") {
		if strings.HasPrefix(path, "/v3") != (f.kind == kindV3) || f.kind == kindOther {
			return notFound
		}
		if form.Get("password") != f.password {
			return respond(500, "caused: User not found;")
		}
		token := "token-" + strconv.Itoa(len(f.tokens)+1) + "-" + strconv.FormatInt(time.Now().UnixNano(), 36)
		f.tokens[token] = true
		return respondJSON(map[string]any{"accessToken": token, "tokenTtl": 18000})
	}
	switch {
	case path == "/v3/admin/core/state" && f.kind == kindV3:
		return wrapped(map[string]string{"version": "3.0.3"})
	case path == "/v1/console/server/state" && f.kind == kindV1:
		return respondJSON(map[string]string{"version": "2.5.1"})
	case path == "/v1/console/server/state" && f.kind == kindV3:
		return respond(410, `{"status":410,"error":"Gone","message":"{\"code\":40000,\"message\":\"Current API will be deprecated\"}"}`)
	case strings.HasSuffix(path, "/state"):
		return notFound
	}
	if f.tokens != nil && !f.tokens[r.Header["accessToken"][0]] { //nolint:staticcheck // spelt as the SDK does
		return respond(403, `{"status":403,"message":"token invalid!"}`)
	}
	key := Key{DataID: form.Get("dataId"), Group: form.Get("group") + form.Get("groupName")}
	v3 := strings.HasPrefix(path, "/v3/admin")
	if v3 && f.kind != kindV3 {
		return notFound
	}
	switch r.Method + " " + path {
	case "GET /v1/cs/configs":
		if form.Get("show") == "all" && f.kind == kindV1 {
			if c := f.configs[key]; c != nil {
				return respondJSON(f.detail(key, c))
			}
			return respond(200, "")
		}
		if form.Get("show") == "all" && f.kind == kindV3 {
			return respond(410, "gone")
		}
		if c := f.copied[key]; c != nil {
			resp := respond(200, c.text)
			resp.Header.Set("Config-Type", c.typ)
			return resp
		}
		return respond(404, "config data not exist\n")
	case "GET /v3/admin/cs/config":
		if c := f.configs[key]; c != nil {
			return wrapped(f.detail(key, c))
		}
		return respond(404, `{"code":20004,"message":"resource not found","data":"Config not exist, please publish Config first."}`)
	case "GET /v3/client/cs/config":
		if c := f.copied[key]; c != nil {
			return wrapped(map[string]any{"content": c.text, "contentType": c.typ})
		}
		return respond(200, `{"code":20004,"message":"resource not found","data":null}`)
	case "POST /v1/cs/configs", "POST /v3/admin/cs/config":
		return f.publish(r, key, form, v3)
	case "DELETE /v1/cs/configs", "DELETE /v3/admin/cs/config":
		f.write(key, nil, form)
		if v3 {
			return wrapped(true)
		}
		return respond(200, "true")
	case "POST /v1/cs/configs/listener":
		if f.kind == kindOther || r.Header.Get("Long-Pulling-Timeout-No-Hangup") == "" {
			return notFound // the long poll has tests on real sockets
		}
		return f.listen(form.Get("Listening-Configs"))
	case "GET /v1/cs/history", "GET /v1/cs/history/previous", "GET /v3/admin/cs/history", "GET /v3/admin/cs/history/list", "GET /v3/admin/cs/history/previous":
		return f.history(path, key, form, v3)
	}
	return notFound
}

func (f *fake) detail(key Key, c *fakeConfig) map[string]any {
	return map[string]any{"id": strconv.Itoa(c.id), "dataId": key.DataID, "content": c.text, "type": c.typ, "desc": c.desc,
		"configTags": c.tags, "appName": c.app, "createUser": c.user, "modifyTime": time.Now().UnixMilli()}
}

func (f *fake) publish(r *http.Request, key Key, form url.Values, v3 bool) *http.Response {
	if want := r.Header["casMd5"]; len(want) == 1 && !f.ignoreCAS { //nolint:staticcheck // spelt as Nacos documents it
		if c := f.configs[key]; c != nil && md5Hex(c.text) != want[0] {
			if v3 {
				return respond(500, `{"code":20005,"message":"resource conflict","data":"Cas publish fail, server md5 may have changed."}`)
			}
			return respond(500, "caused: Cas publish fail, server md5 may have changed.;")
		}
	}
	c := &fakeConfig{text: form.Get("content"), typ: form.Get("type"), desc: form.Get("desc"), user: form.Get("src_user") + form.Get("srcUser")}
	if old := f.configs[key]; old != nil {
		c.tags, c.app, c.id = old.tags, old.app, old.id
	}
	f.write(key, c, form)
	if v3 {
		return wrapped(true)
	}
	return respond(200, "true")
}

// write stores c (nil removes) and lets reads see it after the lag. f.mu is held.
func (f *fake) write(key Key, c *fakeConfig, form url.Values) {
	old := f.configs[key]
	f.id++
	row := fakeRow{key: key, id: f.id, user: form.Get("src_user") + form.Get("srcUser")}
	switch {
	case c == nil && old == nil:
		return
	case c == nil:
		row.op, row.text = "D", old.text
		delete(f.configs, key)
	case old == nil:
		row.op, row.text = "I", c.text
		c.id = f.id
		f.configs[key] = c
	default:
		row.op, row.text = "U", old.text
		f.configs[key] = c
	}
	f.rows = append([]fakeRow{row}, f.rows...)
	show := func() {
		if f.shown[key] > row.id {
			return // a later write was copied already
		}
		f.shown[key] = row.id
		if c == nil {
			delete(f.copied, key)
		} else {
			f.copied[key] = c
		}
	}
	if f.lag == 0 {
		show()
		return
	}
	time.AfterFunc(f.lag, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		show()
	})
}

// foreign writes as somebody else does, at once.
func (f *fake) foreign(key Key, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if text == "" {
		f.write(key, nil, url.Values{})
		return
	}
	c := &fakeConfig{text: text, typ: "properties"}
	if old := f.configs[key]; old != nil {
		c.id = old.id
	}
	f.write(key, c, url.Values{"src_user": {"somebody"}})
}

func (f *fake) listen(list string) *http.Response {
	var out strings.Builder
	for entry := range strings.SplitSeq(strings.TrimSuffix(list, keyEnd), keyEnd) {
		fields := strings.Split(entry, fieldEnd)
		sum := ""
		if c := f.copied[Key{DataID: fields[0], Group: fields[1]}]; c != nil {
			sum = md5Hex(c.text)
		}
		if sum != fields[2] {
			out.WriteString(fields[0] + fieldEnd + fields[1] + keyEnd)
		}
	}
	return respond(200, url.QueryEscape(out.String())+"\n")
}

func (f *fake) history(path string, key Key, form url.Values, v3 bool) *http.Response {
	if f.kind == kindOther {
		return respond(404, "not found")
	}
	shape := func(r fakeRow, content bool) map[string]any {
		m := map[string]any{"id": strconv.Itoa(r.id), "opType": r.op + "         ", "srcUser": nil, "srcIp": "127.0.0.1", "content": nil}
		if r.user != "" {
			m["srcUser"] = r.user
		}
		if content {
			m["content"] = r.text
		}
		if v3 {
			m["modifyTime"], m["createTime"] = time.Now().UnixMilli(), 1273017600000
		} else {
			m["lastModifiedTime"], m["createdTime"] = time.Now().UTC().Format("2006-01-02T15:04:05.000-07:00"), "2010-05-05T00:00:00.000+00:00"
		}
		return m
	}
	answer := func(v any) *http.Response {
		if v3 {
			return wrapped(v)
		}
		return respondJSON(v)
	}
	if strings.HasSuffix(path, "/list") || form.Get("search") != "" {
		items := []any{}
		size, _ := strconv.Atoi(form.Get("pageSize"))
		for _, r := range f.rows {
			if r.key == key && len(items) < size {
				items = append(items, shape(r, false))
			}
		}
		return answer(map[string]any{"totalCount": len(items), "pagesAvailable": 1, "pageItems": items})
	}
	for _, r := range f.rows {
		if r.key == key && (strings.HasSuffix(path, "/previous") || strconv.Itoa(r.id) == form.Get("nid")) {
			return answer(shape(r, true))
		}
	}
	if v3 {
		return respond(400, `{"code":20002,"message":"parameter validate error","data":"Source must not be null"}`)
	}
	return respond(200, "")
}

var errCut = fmt.Errorf("read: %w", io.ErrUnexpectedEOF)
