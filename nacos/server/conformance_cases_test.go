package server_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/belay-mq/belay/nacos/server"
)

func conformDetection(t *testing.T, tg target) {
	v3, _, _ := tg.http(t, "GET", "/nacos/v3/admin/core/state", nil)
	v1, body, _ := tg.http(t, "GET", "/nacos/v1/console/server/state", nil)
	want := map[server.Behaviour][2]int{server.Nacos2: {404, 200}, server.Nacos3: {200, 410}, server.RNacos: {404, 404}}[tg.behaviour]
	if got := [2]int{v3, v1}; got != want && !(tg.behaviour == server.Nacos3 && tg.embedded == nil && v1 == 404) {
		t.Errorf("state paths answer %v, want %v", got, want)
	}
	if tg.behaviour == server.Nacos2 && !strings.HasPrefix(object(t, body)["version"].(string), "2.") {
		t.Error(body)
	}
}

func conformReadAfterPublish(t *testing.T, tg target) {
	k := newKey()
	tg.expect(t, 404, "config data not exist…", "GET", v1Configs, k)
	old := 0
	for i := range 10 {
		content := fmt.Sprint("a=", i)
		tg.publish(t, k.with("content", content, "type", "properties"))
		if _, body, _ := tg.http(t, "GET", v1Configs, k); body != content {
			old++
		}
		if tg.dumps() {
			if got := tg.detail(t, k)["content"]; got != content {
				t.Errorf("the detail shows %q right after the publish of %q", got, content)
			}
		}
		tg.awaitRead(t, k, content)
	}
	if tg.dumps() && old < 5 || !tg.dumps() && old > 0 {
		t.Errorf("%d of 10 first reads were old", old)
	}
	_, _, header := tg.http(t, "GET", v1Configs, k)
	if header.Get("Content-Md5") != md5Of("a=9") {
		t.Error(header)
	}
	if tg.dumps() && header.Get("Config-Type") != "properties" {
		t.Error(header)
	}
}

func conformCAS(t *testing.T, tg target) {
	k := newKey()
	conflict := "Cas publish fail, server md5 may have changed."
	tg.publish(t, k.with("content", "one", "@casMd5", md5Of("")))
	r := tg.connect(t, true)
	publish := func(casMD5 string) (string, map[string]any) {
		kind, body := r.call("ConfigPublishRequest", k.json("content", "two", "casMd5", casMD5))
		return kind, object(t, body)
	}
	if tg.behaviour == server.RNacos {
		if _, body := publish("stale"); body["success"] != true {
			t.Error(body)
		}
		tg.expect(t, 200, "true", "POST", v1Configs, k.with("content", "three", "@casMd5", "stale"))
		return
	}
	for _, stale := range []string{"stale", strings.ToUpper(md5Of("one")), md5Of("two")} {
		kind, body := publish(stale)
		if kind != "ConfigPublishResponse" || fmt.Sprintf("%v %v %v %v", body["resultCode"], body["errorCode"], body["message"], body["success"]) != "500 500 "+conflict+" false" {
			t.Error(kind, body)
		}
	}
	same := k.with("content", "one", "@casMd5", "stale")
	if tg.behaviour == server.Nacos3 {
		tg.expect(t, 500, "false", "POST", v1Configs, same)
		tg.expect(t, 500, `{"code":20005,"message":"resource conflict","data":"`+conflict+`"}`, "POST", "/nacos/v3/admin/cs/config", same.v3())
	} else {
		tg.expect(t, 500, "caused: "+conflict+";", "POST", v1Configs, same)
		tg.expect(t, 500, `{"code":20005,"message":"resource conflict","data":"`+conflict+`"}`, "POST", "/nacos/v2/cs/config", same)
	}
	tg.publish(t, k.with("content", "three", "casMd5", "a form field is not looked at"))
	tg.publish(t, k.with("content", "four", "@casMd5", md5Of("three")))
	tg.expect(t, 200, "true", "DELETE", v1Configs, k)
	tg.publish(t, k.with("content", "five", "@casMd5", md5Of("four")))
}

func conformMetadata(t *testing.T, tg target) {
	if tg.behaviour == server.RNacos {
		t.Skip("r-nacos has no detail")
	}
	r := tg.connect(t, true)
	sdk := func(more map[string]string) func(form) {
		return func(k form) {
			addition := map[string]string{"tag": "", "config_tags": "", "appName": "", "betaIps": "", "type": "", "src_user": "", "encryptedDataKey": ""}
			for name, value := range more {
				addition[name] = value
			}
			r.expect("ConfigPublishRequest", k.json("content", "b=2", "casMd5", "", "additionMap", addition), "ConfigPublishResponse", map[string]any{"success": true})
		}
	}
	web := func(more ...string) func(form) {
		return func(k form) { tg.publish(t, k.with("content", "b=2").with(more...)) }
	}
	for _, c := range []struct {
		name                     string
		write                    func(form)
		typ, tags, appName, desc string // - is null
	}{
		{"SDK, nothing set", sdk(nil), "text", "-", "", "-"},
		{"SDK, type", sdk(map[string]string{"type": "properties"}), "properties", "-", "", "-"},
		{"SDK, type and tags", sdk(map[string]string{"type": "properties", "config_tags": "t1,t2"}), "properties", "t1,t2", "", "-"},
		{"SDK, type, tags, appName", sdk(map[string]string{"type": "properties", "config_tags": "t1,t2", "appName": "settle"}), "properties", "t1,t2", "settle", "-"},
		{"HTTP, content only", web(), "text", "t1,t2", "settle", "-"},
		{"HTTP, type and desc", web("type", "properties", "desc", "Toggle file"), "properties", "t1,t2", "settle", "Toggle file"},
		{"HTTP, unknown type", web("type", "yml"), "text", "t1,t2", "settle", "-"},
	} {
		k := newKey()
		tg.publish(t, k.with("content", "a=1", "type", "properties", "config_tags", "t1,t2", "appName", "settle", "desc", "Toggle file",
			"use", "u1", "effect", "e1", "schema", "s1"))
		c.write(k)
		d := tg.detail(t, k)
		show := func(name string) string {
			if d[name] == nil {
				return "-"
			}
			return fmt.Sprint(d[name])
		}
		got := []string{show("type"), show("configTags"), show("appName"), show("desc")}
		if want := []string{c.typ, c.tags, c.appName, c.desc}; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: type, tags, appName, desc are %q, want %q", c.name, got, want)
		}
		if tg.behaviour == server.Nacos2 && show("use")+show("effect")+show("schema") != "---" {
			t.Errorf("%s: %v", c.name, d)
		}
	}
}

func conformDetail(t *testing.T, tg target) {
	k := newKey()
	content := "a=1\nb=ü"
	tg.publish(t, k.with("content", content, "type", "properties", "config_tags", "t1,t2", "appName", "settle", "desc", "Toggle file",
		"use", "u1", "effect", "e1", "schema", "s1", "src_user", "oncall1", "@X-Forwarded-For", "10.1.2.3"))
	switch tg.behaviour {
	case server.RNacos:
		tg.awaitRead(t, k, content)
		tg.expect(t, 200, content, "GET", v1Configs, k.with("show", "all"))
		return
	case server.Nacos3:
		tg.expect(t, 404, `{"code":20004,"message":"resource not found","data":"Config not exist, please publish Config first."}`,
			"GET", "/nacos/v3/admin/cs/config", newKey().v3())
		_, body, _ := tg.http(t, "GET", "/nacos/v3/admin/cs/config", k.v3())
		if !strings.HasPrefix(body, `{"code":0,"message":"success","data":{"id":"`) {
			t.Error(body)
		}
	}
	d := tg.detail(t, k)
	want := map[string]string{"dataId": k["dataId"], "content": content, "md5": md5Of(content), "type": "properties", "appName": "settle",
		"createUser": "oncall1", "createIp": "10.1.2.3", "desc": "Toggle file", "configTags": "t1,t2", "encryptedDataKey": "",
		"createTime": fmt.Sprint(d["modifyTime"])}
	names := "id dataId group content md5 encryptedDataKey tenant appName type createTime modifyTime createUser createIp desc use effect schema configTags"
	if tg.behaviour == server.Nacos3 {
		want["groupName"], want["namespaceId"] = k["group"], "public"
		names = "id namespaceId groupName dataId md5 type appName createTime modifyTime content desc encryptedDataKey createUser createIp configTags"
	} else {
		want["group"], want["tenant"], want["use"], want["effect"], want["schema"] = k["group"], "", "u1", "e1", "s1"
	}
	for name, value := range want {
		if got := fmt.Sprint(d[name]); got != value {
			t.Errorf("%s is %q, want %q", name, got, value)
		}
	}
	for name := range strings.FieldsSeq(names) {
		if _, ok := d[name]; !ok {
			t.Errorf("%s is missing in %v", name, d)
		}
	}
	if len(d) != len(strings.Fields(names)) {
		t.Errorf("%d fields, want %s: %v", len(d), names, d)
	}
	if id, ok := d["id"].(string); !ok || len(id) < 18 {
		t.Errorf("id %v", d["id"])
	}
}

func conformDeletion(t *testing.T, tg target) {
	k := newKey()
	r := tg.connect(t, true)
	tg.publishDumped(t, k.with("content", "one"))
	for range 2 { // deleting what is not there succeeds, too
		r.expect("ConfigRemoveRequest", k.json(), "ConfigRemoveResponse", map[string]any{"success": true})
	}
	eventually(t, "the config reads as missing", func() bool {
		_, body := r.call("ConfigQueryRequest", k.json())
		return strings.Contains(body, "config data not exist")
	})
	r.expect("ConfigQueryRequest", k.json(), "ConfigQueryResponse", map[string]any{"success": false, "errorCode": 300, "resultCode": 500})
	tg.publishDumped(t, k.with("content", "one"))
	if tg.dumps() {
		if got := historyOps(t, tg, k); got != "IDI" {
			t.Errorf("history has the rows %s, newest first", got)
		}
	}
}

func conformNamespaces(t *testing.T, tg target) {
	switch tg.behaviour {
	case server.Nacos2:
		k := newKey()
		tg.expect(t, 200, `{"code":200,"message":null,"data":[{"namespace":"","namespaceShowName":"public","namespaceDesc":"Default Namespace","quota":200,…`, "GET", "/nacos/v1/console/namespaces", nil)
		public := k.with("tenant", "public")
		tg.publish(t, public.with("content", "a=1"))
		tg.awaitRead(t, k, "a=1")
		tg.expect(t, 404, "config data not exist…", "GET", v1Configs, public)
		tg.expect(t, 404, "…", "GET", v1Configs, public.with("show", "all"))
		tg.expect(t, 200, `{"totalCount":0,…`, "GET", v1Configs, public.with("search", "accurate", "pageNo", "1", "pageSize", "9"))
		tg.expect(t, 200, `{"totalCount":0,…`, "GET", "/nacos/v1/cs/history", public.with("search", "accurate", "pageNo", "1", "pageSize", "9"))
		// gRPC reads know the namespace, listens do not: the client is told of a change for ever.
		r := tg.connect(t, true)
		r.expect("ConfigQueryRequest", public.json(), "ConfigQueryResponse", map[string]any{"content": "a=1"})
		for range 3 {
			r.expect("ConfigBatchListenRequest", listening(public, md5Of("a=1")), "ConfigChangeBatchListenResponse",
				map[string]any{"changedConfigs": fmt.Sprint([]any{map[string]any{"group": k["group"], "dataId": toggleFile, "tenant": "public"}})})
		}
	case server.Nacos3:
		k := newKey()
		tg.expect(t, 200, `{"code":0,"message":"success","data":[{"namespace":"public","namespaceShowName":"public",…`, "GET", "/nacos/v3/admin/core/namespace/list", nil)
		tg.publishDumped(t, k.with("content", "a=1"))
		for _, tenant := range []string{"", "public"} {
			tg.expect(t, 200, "a=1", "GET", v1Configs, k.with("tenant", tenant))
		}
		// One client that says "" takes the pushes from those that say "public".
		named, unnamed := tg.connect(t, true), tg.connect(t, true)
		named.expect("ConfigBatchListenRequest", listening(k.with("tenant", "public"), md5Of("a=1")), "ConfigChangeBatchListenResponse", map[string]any{"changedConfigs": "[]"})
		tg.publish(t, k.with("content", "a=2"))
		if push := named.pushed(k["group"]); push["tenant"] != "public" {
			t.Error(push)
		}
		named.expect("ConfigBatchListenRequest", listening(k.with("tenant", "public"), md5Of("a=2")), "ConfigChangeBatchListenResponse", map[string]any{"changedConfigs": "[]"})
		unnamed.expect("ConfigBatchListenRequest", listening(k, md5Of("a=2")), "ConfigChangeBatchListenResponse", map[string]any{"changedConfigs": "[]"})
		tg.publish(t, k.with("content", "a=3"))
		if push := unnamed.pushed(k["group"]); push["tenant"] != "" {
			t.Error(push)
		}
	case server.RNacos:
		for _, path := range []string{"/nacos/v1/console/namespaces", "/nacos/v2/console/namespace/list"} {
			tg.expect(t, 200, `…"namespaceShowName":"public"…`, "GET", path, nil)
		}
	}
}

// listening is the body of a batch listen for one config.
func listening(k form, md5 string) map[string]any {
	return map[string]any{"listen": true, "configListenContexts": []map[string]string{
		{"dataId": k["dataId"], "group": k["group"], "tenant": k["tenant"], "md5": md5}}}
}

func conformBatchListen(t *testing.T, tg target) {
	k := newKey()
	r := tg.connect(t, true)
	unchanged := map[string]any{"success": true, "changedConfigs": "[]"}
	r.expect("ConfigBatchListenRequest", listening(k, ""), "ConfigChangeBatchListenResponse", unchanged)
	tg.publish(t, k.with("content", "a=1"))
	if push := r.pushed(k["group"]); push["dataId"] != toggleFile || push["group"] != k["group"] || push["requestId"] == "" {
		t.Error(push)
	}
	r.expect("ConfigBatchListenRequest", listening(k, md5Of("a=1")), "ConfigChangeBatchListenResponse", unchanged)
	for _, stale := range []string{"", "x", md5Of("a=0")} {
		r.expect("ConfigBatchListenRequest", listening(k, stale), "ConfigChangeBatchListenResponse",
			map[string]any{"changedConfigs": fmt.Sprint([]any{map[string]any{"group": k["group"], "dataId": toggleFile, "tenant": ""}})})
	}
	if tg.behaviour == server.RNacos {
		return
	}
	batch := listening(k, "x")
	batch["configListenContexts"] = append(batch["configListenContexts"].([]map[string]string), map[string]string{"dataId": "bad name", "group": k["group"]})
	r.expect("ConfigBatchListenRequest", batch, "ConfigChangeBatchListenResponse", map[string]any{"success": false, "errorCode": 400,
		"message": "Param check invalid:Param 'dataId' is illegal, illegal characters should not appear in the param."})
}

func conformUnregistered(t *testing.T, tg target) {
	r := tg.connect(t, false)
	kind, body := r.call("ConfigQueryRequest", newKey().json())
	if tg.behaviour == server.RNacos {
		return // not measured
	}
	if fields := object(t, body); kind != "ErrorResponse" || fmt.Sprint(fields["errorCode"]) != "301" || fields["message"] != "Connection is unregistered." {
		t.Error(kind, body)
	}
}

func conformLimits(t *testing.T, tg target) {
	r := tg.connect(t, true)
	k := newKey()
	long := func(n int) string { return strings.Repeat("x", n) }
	if tg.behaviour == server.RNacos {
		r.expect("ConfigPublishRequest", k.with("dataId", "with space"+long(300), "content", "").json(), "ConfigPublishResponse", map[string]any{"success": true})
		return
	}
	for _, c := range []struct {
		change  []string
		code    int
		message string
	}{
		{[]string{"dataId", long(256)}, 0, ""},
		{[]string{"dataId", long(257)}, 400, "Param check invalid:Param 'dataId' is illegal, the param length should not exceed 256."},
		{[]string{"group", long(128)}, 0, ""},
		{[]string{"group", long(129)}, 400, "Param check invalid:Param 'group' is illegal, the param length should not exceed 128."},
		{[]string{"tenant", long(65)}, 400, "Param check invalid:Param 'namespaceId/tenant' is illegal, the param length should not exceed 64."},
		{[]string{"dataId", "a b"}, 400, "…illegal characters should not appear in the param."},
		{[]string{"dataId", "a@b"}, 400, "…illegal characters should not appear in the param."},
		{[]string{"group", "配"}, 400, "…illegal characters should not appear in the param."},
		{[]string{"dataId", "A-z_0.9:x"}, 0, ""},
		{[]string{"content", ""}, 400, "content is blank : "},
		{[]string{"content", " \n"}, 400, "content is blank : …"},
		{[]string{"tenant", "no-such-namespace"}, 0, ""},
	} {
		want := map[string]any{"success": c.code == 0, "errorCode": c.code}
		if c.message != "" {
			want["message"] = c.message
		}
		r.expect("ConfigPublishRequest", k.with("content", "a=1").with(c.change...).json(), "ConfigPublishResponse", want)
	}
	for tags, message := range map[string]string{"1,2,3,4,5,6": "too much config_tags, over 5", long(65): "too long tag, over 64"} {
		r.expect("ConfigPublishRequest", k.json("content", "a=1", "additionMap", map[string]string{"config_tags": tags}),
			"ConfigPublishResponse", map[string]any{"errorCode": 500, "message": message})
	}
	tg.expect(t, 400, "Param 'dataId' is illegal, illegal characters should not appear in the param.\n", "GET", v1Configs, k.with("dataId", "a b"))
	tg.expect(t, 400, "caused: content is blank : ;", "POST", v1Configs, k.with("content", ""))
	if tg.behaviour == server.Nacos3 {
		tg.expect(t, 400, `{"code":10000,…`, "POST", "/nacos/v3/admin/cs/config", k.with("content", "").v3())
	}
	big := strings.Repeat("x", 2<<20)
	tooBig := map[server.Behaviour]int{server.Nacos2: 500, server.Nacos3: 400}[tg.behaviour]
	tg.expect(t, tooBig, "…", "POST", v1Configs, k.with("content", big))
}

func conformMessageSize(t *testing.T, tg target) {
	if tg.behaviour == server.RNacos {
		t.Skip("r-nacos stores what the SDK cannot read")
	}
	r := tg.connect(t, true)
	k := newKey()
	content := strings.Repeat("x", 9<<20)
	r.expect("ConfigPublishRequest", k.with("content", content).json(), "ConfigPublishResponse", map[string]any{"success": true})
	if kind, text := r.call("ConfigPublishRequest", k.with("content", content+strings.Repeat("x", 1<<20)).json()); kind != "error" ||
		!strings.Contains(text, "ResourceExhausted") || !strings.Contains(text, "gRPC message exceeds maximum size 10485760") {
		t.Errorf("%s %.200s", kind, text)
	}
	r.expect("HealthCheckRequest", nil, "HealthCheckResponse", map[string]any{"success": true}) // the connection stays usable
	eventually(t, "9 MiB can be read", func() bool {
		_, text := r.call("ConfigQueryRequest", k.json())
		return strings.Contains(text, content)
	})
}

func conformLongPoll(t *testing.T, tg target) {
	const path = v1Configs + "/listener"
	k := newKey()
	tg.publishDumped(t, k.with("content", "a=1"))
	line := func(group, md5 string, tenant ...string) string {
		return strings.Join(append([]string{toggleFile, group, md5}, tenant...), "\x02") + "\x01"
	}
	changed := func(fields ...string) string { return url.QueryEscape(strings.Join(fields, "\x02")+"\x01") + "\n" }
	poll := func(field string, more ...string) form {
		return form{"Listening-Configs": field, "@Long-Pulling-Timeout": "30000"}.with(more...)
	}
	for _, md5 := range []string{"", "x", md5Of("a=0")} {
		tg.expect(t, 200, changed(toggleFile, k["group"]), "POST", path, poll(line(k["group"], md5)))
	}
	tg.expect(t, 200, changed(toggleFile, k["group"]+"-missing"), "POST", path, poll(line(k["group"]+"-missing", md5Of("a=1"))))
	public := changed(toggleFile, k["group"], "public")
	if tg.behaviour == server.RNacos {
		public = changed(toggleFile, k["group"])
	}
	tg.expect(t, 200, public, "POST", path, poll(line(k["group"], "x", "public")))
	tg.expect(t, 200, changed(toggleFile, k["group"], "ns-1"), "POST", path, poll(line(k["group"], "x", "ns-1")))
	if tg.behaviour == server.RNacos {
		tg.expect(t, 204, "", "POST", path, form{})
		tg.expect(t, 204, "", "POST", path, poll("garbage\x01"))
	} else {
		began := time.Now()
		many := line(k["group"], md5Of("a=1")) + line(k["group"]+"-missing", "")
		tg.expect(t, 200, "", "POST", path, poll(many, "@Long-Pulling-Timeout-No-Hangup", "true"))
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("a poll without hang-up took %v", took)
		}
		tg.expect(t, 400, "caused: invalid probeModify;", "POST", path, form{})
		status, body, _ := tg.http(t, "POST", path, poll("garbage\x01"))
		message := map[server.Behaviour]string{server.Nacos2: "invalid probeModify", server.Nacos3: "Handle API Compatibility failed"}[tg.behaviour]
		if status != 500 || !strings.HasPrefix(fmt.Sprint(object(t, body)["message"]), message) {
			t.Error(status, body)
		}
	}
	// A change during the hold ends it.
	go func() {
		time.Sleep(300 * time.Millisecond) // the poll must be held by then; if it is not, it is answered at once, just as right
		if tg.behaviour == server.Nacos2 && tg.embedded != nil {
			tg.expect(t, 200, `{"collectStatus":200,"lisentersGroupkeyStatus":{"127.0.0.1":"`+md5Of("a=1")+`"}}`, "GET", path, k)
		}
		tg.publish(t, k.with("content", "a=2"))
	}()
	began := time.Now()
	tg.expect(t, 200, changed(toggleFile, k["group"]), "POST", path, poll(line(k["group"], md5Of("a=1"))))
	if took := time.Since(began); took > 9*time.Second {
		t.Errorf("the change was answered after %v", took)
	}
}

// beginShortestHold starts a long poll that asks to be held for 1 s, and returns the test that waits for its answer. It
// is held for 10 s, during which other tests run.
func beginShortestHold(t *testing.T, tg target) func(*testing.T, target) {
	k := newKey()
	began, took, done := time.Now(), time.Duration(0), make(chan struct{})
	go func() {
		defer close(done)
		tg.expect(t, 200, "", "POST", v1Configs+"/listener", form{"Listening-Configs": k["dataId"] + "\x02" + k["group"] + "\x02\x01", "@Long-Pulling-Timeout": "1000"})
		took = time.Since(began)
	}()
	t.Cleanup(func() { <-done }) // before the server is stopped, also where the test below was not chosen
	return func(t *testing.T, _ target) {
		if <-done; took < 9*time.Second || took > 25*time.Second {
			t.Errorf("a poll with a timeout of 1 s was held for %v, want 10 s", took)
		}
	}
}

func conformListeners(t *testing.T, tg target) {
	k := newKey()
	tg.publishDumped(t, k.with("content", "a=1"))
	if tg.behaviour == server.RNacos {
		tg.expect(t, 405, "…", "GET", v1Configs+"/listener", k)
		return
	}
	r := tg.connect(t, true)
	r.expect("ConfigBatchListenRequest", listening(k, md5Of("a=1")), "ConfigChangeBatchListenResponse", map[string]any{"success": true})
	if tg.behaviour == server.Nacos2 {
		tg.expect(t, 200, `{"collectStatus":200,"lisentersGroupkeyStatus":{"192.0.2.7":"`+md5Of("a=1")+`"}}`, "GET", v1Configs+"/listener", k.with("sampleTime", "1"))
		tg.expect(t, 200, `{"collectStatus":200,"lisentersGroupkeyStatus":{}}`, "GET", v1Configs+"/listener", k.with("tenant", "public", "sampleTime", "1"))
		tg.expect(t, 200, `…"`+toggleFile+"+"+k["group"]+`":"`+md5Of("a=1")+`"…`, "GET", "/nacos/v1/cs/listener", form{"ip": "192.0.2.7", "all": "true"})
		tg.expect(t, 200, `…"appName":"raw"…`, "GET", "/nacos/v2/core/loader/current", nil)
		return
	}
	for _, tenant := range []string{"", "public"} {
		tg.expect(t, 200, `{"code":0,"message":"success","data":{"queryType":"config","listenersStatus":{"192.0.2.7":"`+md5Of("a=1")+`"}}}`,
			"GET", "/nacos/v3/admin/cs/config/listener", k.with("tenant", tenant, "aggregation", "true").v3())
	}
	tg.expect(t, 200, `…"`+toggleFile+"+"+k["group"]+`+public":"`+md5Of("a=1")+`"…`, "GET", "/nacos/v3/admin/cs/listener", form{"ip": "192.0.2.7", "all": "true"})
	tg.expect(t, 200, `…"listenersStatus":{}…`, "GET", "/nacos/v3/admin/cs/listener", form{"ip": "192.0.2.7", "all": "false"})
	tg.expect(t, 200, `…"appName":"raw"…`, "GET", "/nacos/v3/admin/core/loader/current", nil)
}

// historyRows returns the history, newest first.
func historyRows(t *testing.T, tg target, k form) []map[string]any {
	t.Helper()
	path, params := "/nacos/v1/cs/history", k.with("search", "accurate", "pageNo", "1", "pageSize", "100")
	if tg.behaviour == server.Nacos3 {
		path, params = "/nacos/v3/admin/cs/history/list", params.v3()
	}
	status, body, _ := tg.http(t, "GET", path, params)
	if status != 200 {
		t.Fatal(status, body)
	}
	list := object(t, body)
	if tg.behaviour == server.Nacos3 {
		list = list["data"].(map[string]any)
	}
	var rows []map[string]any
	for _, row := range list["pageItems"].([]any) {
		rows = append(rows, row.(map[string]any))
	}
	return rows
}

func historyOps(t *testing.T, tg target, k form) string {
	t.Helper()
	ops := ""
	for _, row := range historyRows(t, tg, k) {
		ops += strings.TrimSpace(row["opType"].(string))
	}
	return ops
}

func conformHistory(t *testing.T, tg target) {
	k := newKey()
	if tg.behaviour == server.RNacos {
		tg.expect(t, 404, "…", "GET", "/nacos/v1/cs/history", k.with("search", "accurate"))
		return
	}
	tg.publish(t, k.with("content", "one", "type", "properties", "src_user", "ann", "desc", "TD", "config_tags", "t1,t2"))
	tg.publish(t, k.with("content", "two", "src_user", "bob"))
	tg.publish(t, k.with("content", "three"))
	id := fmt.Sprint(tg.detail(t, k)["id"])
	tg.expect(t, 200, "true", "DELETE", v1Configs, k)
	rows := historyRows(t, tg, k)
	if got := historyOps(t, tg, k); got != "DUUI" {
		t.Fatalf("rows %s, newest first", got)
	}
	full := func(i int) map[string]any {
		t.Helper()
		path, params := "/nacos/v1/cs/history", k.with("nid", fmt.Sprint(rows[i]["id"]))
		if tg.behaviour == server.Nacos3 {
			path, params = "/nacos/v3/admin/cs/history", params.v3()
		}
		status, body, _ := tg.http(t, "GET", path, params)
		if status != 200 {
			t.Fatal(status, body)
		}
		fields := object(t, body)
		if tg.behaviour == server.Nacos3 {
			return fields["data"].(map[string]any)
		}
		return fields
	}
	// An update keeps what was there before it and who wrote what came after.
	for i, want := range []struct {
		op, content string
		user        any
	}{{"D", "three", nil}, {"U", "two", nil}, {"U", "one", "bob"}, {"I", "one", "ann"}} {
		row, one := rows[i], full(i)
		if row["content"] != nil || row["md5"] != nil || one["content"] != want.content || one["md5"] != md5Of(want.content) || one["srcUser"] != want.user {
			t.Errorf("row %d: %v, by itself %v, want %v", i, row, one, want)
		}
		if row["opType"] != want.op+"         " || row["publishType"] != "formal" {
			t.Errorf("row %d: %v", i, row)
		}
	}
	if info := fmt.Sprint(full(2)["extInfo"]); !strings.Contains(info, `"type":"properties"`) || !strings.Contains(info, `"config_tags":"t1,t2"`) || !strings.Contains(info, `"c_desc":"TD"`) {
		t.Error(info)
	}
	other := newKey()
	tg.publish(t, other.with("content", "x"))
	first := fmt.Sprint(rows[0]["id"])
	if tg.behaviour == server.Nacos2 {
		if fmt.Sprint(rows[0]["createdTime"]) != "2010-05-05T00:00:00.000+00:00" || !strings.HasSuffix(fmt.Sprint(rows[0]["lastModifiedTime"]), "+00:00") {
			t.Error(rows[0])
		}
		tg.expect(t, 200, `…"content":"three"…`, "GET", "/nacos/v1/cs/history/previous", k.with("id", id))
		tg.expect(t, 200, "", "GET", "/nacos/v1/cs/history", k.with("nid", "999999999"))
		tg.expect(t, 200, "", "GET", "/nacos/v1/cs/history/previous", k.with("id", "5"))
		tg.expect(t, 0, "…malformed HTTP status…", "GET", "/nacos/v1/cs/history", other.with("nid", first))
		tg.expect(t, 500, "caused: Required request parameter &#39;dataId&#39; …", "GET", "/nacos/v1/cs/history", form{"nid": first})
		tg.expect(t, 200, `{"totalCount":0,…`, "GET", "/nacos/v1/cs/history", k.with("group", "", "search", "accurate", "pageNo", "1", "pageSize", "10"))
		tg.expect(t, 200, `{"totalCount":4,"pageNumber":2,"pagesAvailable":2,…`, "GET", "/nacos/v1/cs/history", k.with("search", "accurate", "pageNo", "2", "pageSize", "3"))
		tg.expect(t, 200, `{"code":0,"message":"success","data":{"totalCount":4,"pageNumber":1,…`, "GET", "/nacos/v2/cs/history/list", k.with("pageNo", "1", "pageSize", "10"))
		return
	}
	const admin = "/nacos/v3/admin/cs/history"
	if fmt.Sprint(rows[0]["createTime"]) != "1273017600000" {
		t.Error(rows[0])
	}
	tg.expect(t, 200, `…"content":"three"…`, "GET", admin+"/previous", k.with("id", id).v3())
	absent := `{"code":20002,"message":"parameter validate error","data":"Source must not be null"}`
	tg.expect(t, 400, absent, "GET", admin, k.with("nid", "999999999").v3())
	tg.expect(t, 400, absent, "GET", admin+"/previous", k.with("id", "5").v3())
	tg.expect(t, 403, `{"code":10001,"message":"access denied","data":"Please check dataId, group or namespaceId."}`, "GET", admin, other.with("nid", first).v3())
	tg.expect(t, 400, `{"code":10000,"message":"parameter missing",…`, "GET", admin, form{"nid": first})
	tg.expect(t, 400, `{"code":10000,…`, "GET", admin+"/list", k.with("group", "").v3())
	tg.expect(t, 200, `{"code":0,"message":"success","data":{"totalCount":4,"pageNumber":2,"pagesAvailable":2,…`, "GET", admin+"/list", k.with("pageNo", "2", "pageSize", "3").v3())
}

func conformSearch(t *testing.T, tg target) {
	dataID := "search-" + newKey()["group"]
	for i, group := range []string{"APP1", "APP2", "APP3"} {
		tg.publish(t, form{"dataId": dataID + ".properties", "group": group, "content": fmt.Sprint("a=", i), "type": "properties", "appName": "settle", "config_tags": fmt.Sprint("t", i)})
	}
	tg.publish(t, form{"dataId": dataID + ".yml", "group": "APP1", "content": "y: 1", "type": "yaml"})
	base := form{"search": "accurate", "dataId": dataID + ".properties", "group": "", "pageNo": "1", "pageSize": "2"}
	if tg.behaviour == server.RNacos {
		tg.expect(t, 200, `…"md5":"`+md5Of("a=0")+`"…`, "GET", v1Configs, base)
		tg.expect(t, 200, `{"totalCount":4,…`, "GET", v1Configs, base.with("search", "blur", "dataId", dataID))
		tg.expect(t, 200, `{"totalCount":0,…`, "GET", v1Configs, base.with("search", "blur", "dataId", dataID+".*"))
		return
	}
	path, params, open := v1Configs, func(f form) form { return f }, ""
	if tg.behaviour == server.Nacos3 {
		path, params, open = "/nacos/v3/admin/cs/config/list", form.v3, `{"code":0,"message":"success","data":`
	}
	for _, c := range []struct {
		want   string
		change []string
	}{
		{`{"totalCount":3,"pageNumber":1,"pagesAvailable":2,"pageItems":[{"id":"…`, nil},
		{`{"totalCount":3,"pageNumber":7,"pagesAvailable":2,"pageItems":[]}…`, []string{"pageNo", "7"}},
		{`{"totalCount":1,…`, []string{"group", "APP2"}},
		{`{"totalCount":3,…`, []string{"pageSize", "100000"}},
		{`{"totalCount":0,…`, []string{"search", "blur", "dataId", dataID}},
		{`{"totalCount":4,…`, []string{"search", "blur", "dataId", dataID + ".*"}},
		{`{"totalCount":1,…`, []string{"search", "blur", "dataId", dataID + ".y*"}},
		{`{"totalCount":1,…`, []string{"config_tags", "t1"}},
	} {
		tg.expect(t, 200, open+c.want, "GET", path, params(base.with(c.change...)))
	}
	_, body, _ := tg.http(t, "GET", path, params(base))
	if tg.behaviour == server.Nacos2 {
		if !strings.Contains(body, `"content":"a=0","md5":null,"encryptedDataKey":null,"tenant":"","appName":"settle","type":"properties"}`) {
			t.Error(body)
		}
		tg.expect(t, 500, "caused: Required request parameter &#39;group&#39; …", "GET", v1Configs, form{"search": "accurate", "dataId": dataID, "pageNo": "1", "pageSize": "2"})
		return
	}
	if !strings.Contains(body, `"md5":"`+md5Of("a=0")+`","type":"properties","appName":"settle","createTime":0,"modifyTime":0}`) || strings.Contains(body, `"content"`) {
		t.Error(body)
	}
	tg.expect(t, 400, `{"code":20002,…`, "GET", path, params(base.with("pageNo", "0")))
}

func conformPaths(t *testing.T, tg target) {
	k := newKey()
	tg.publishDumped(t, k.with("content", "a=1"))
	switch tg.behaviour {
	case server.Nacos2:
		for _, path := range []string{"/nacos/v3/admin/cs/config", "/nacos/v3/client/cs/config", "/nacos/v3/admin/core/namespace/list"} {
			tg.expect(t, 404, `…"error":"Not Found"…`, "GET", path, k.v3())
		}
		tg.expect(t, 200, `{"code":0,"message":"success","data":"a=1"}`, "GET", "/nacos/v2/cs/config", k)
		tg.expect(t, 404, `{"code":20004,"message":"resource not found","data":"config data not exist"}`, "GET", "/nacos/v2/cs/config", newKey())
	case server.Nacos3:
		tg.expect(t, 200, `{"code":0,"message":"success","data":{"resultCode":200,…`, "GET", "/nacos/v3/client/cs/config", k.v3())
		tg.expect(t, 200, `{"code":20004,…`, "GET", "/nacos/v3/client/cs/config", newKey().v3())
		tg.expect(t, 200, `{"code":0,"message":"success","data":true}`, "POST", "/nacos/v3/admin/cs/config", k.with("content", "a=2").v3())
		tg.expect(t, 200, `{"code":0,"message":"success","data":true}`, "DELETE", "/nacos/v3/admin/cs/config", k.v3())
		if tg.embedded == nil {
			return // the switches of a real server are its operator's
		}
		for path, params := range map[string]form{
			v1Configs:                            k.with("show", "all"),
			v1Configs + "/listener":              k,
			"/nacos/v1/cs/listener":              {"ip": "192.0.2.7"},
			"/nacos/v1/cs/history":               k.with("search", "accurate"),
			"/nacos/v2/cs/config":                k,
			"/nacos/v2/cs/history/list":          k,
			"/nacos/v1/console/namespaces":       nil,
			"/nacos/v1/console/server/state":     nil,
			"/nacos/v1/console/health/readiness": nil,
		} {
			status, body, _ := tg.http(t, "GET", path, params)
			if message := fmt.Sprint(object(t, body)["message"]); status != 410 || !strings.HasPrefix(message, `{"code":40000,"message":"Current API will be deprecated`) {
				t.Error(path, status, body)
			}
		}
		tg.expect(t, 410, "…", "GET", v1Configs, k.with("search", "accurate", "pageNo", "1", "pageSize", "1"))
	}
}
