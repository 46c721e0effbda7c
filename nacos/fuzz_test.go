package nacos

import (
	"encoding/json"
	"net"
	"net/url"
	"strings"
	"testing"
)

func FuzzParseListened(f *testing.F) {
	for _, s := range []string{"", "lp.properties%02LP%01\n", "a%02b%02public%01c%02d%01", "%02%01", "%zz", "a%02b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		changed, err := parseListened(body)
		if err != nil && len(changed) > 0 {
			t.Errorf("%q: an error and %v", body, changed)
		}
		for k := range changed {
			if strings.ContainsAny(k.DataID+k.Group, fieldEnd+keyEnd) {
				t.Errorf("%q: key %q holds a separator", body, k)
			}
		}
	})
}

func FuzzListenedRoundTrip(f *testing.F) {
	f.Add("rabbitmq-toggle.properties", "APP", "ns")
	f.Fuzz(func(t *testing.T, dataID, group, tenant string) {
		if checkKey(Key{DataID: dataID, Group: group}) != nil || tenant != "" && checkName("namespace", tenant, maxNamespace) != nil {
			t.Skip("names that are never sent")
		}
		entry := dataID + fieldEnd + group
		if tenant != "" {
			entry += fieldEnd + tenant
		}
		changed, err := parseListened(url.QueryEscape(entry+keyEnd) + "\n")
		if err != nil || len(changed) != 1 || !changed[Key{DataID: dataID, Group: group}] {
			t.Errorf("%q: %v, %v", entry, changed, err)
		}
	})
}

func FuzzRefusal(f *testing.F) {
	for _, s := range []string{"", "false", "caused: x;", `{"code":20005}`, `{"message":"{\"code\":1}"}`, `{"data":{}}`, "{", "\xff\xfe"} {
		f.Add(500, s)
	}
	f.Fuzz(func(t *testing.T, status int, body string) {
		e := refusal("call", status, []byte(body))
		if len(e.text) > 320 || !strings.Contains(e.Error(), "call") {
			t.Errorf("%q became %q", body, e.Error())
		}
		if e.conflict() && e.Is(ErrUnavailable) {
			t.Errorf("%q is a conflict and an outage", body)
		}
	})
}

func FuzzAddress(f *testing.F) {
	for _, s := range []string{"nacos", "nacos:1", "::1", "[::1]:8848", "http://[fe80::1%25lo]:1/x/", "https://a", ":", "[", "a:b:c", "ftp://x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Config{Servers: []string{text}}.settle()
		if err != nil {
			return
		}
		e := s.endpoints[0]
		if _, _, err := net.SplitHostPort(e.grpc); err != nil {
			t.Errorf("%q: gRPC address %q: %v", text, e.grpc, err)
		}
		if u, err := url.Parse(e.base); err != nil || u.Hostname() == "" || u.Port() == "" {
			t.Errorf("%q: base %q: %v", text, e.base, err)
		}
	})
}

func FuzzHistoryRow(f *testing.F) {
	f.Add(`{"id":"1185","opType":"U         ","srcUser":null,"lastModifiedTime":"2026-11-30T21:25:46.914+00:00"}`)
	f.Add(`{"id":12,"opType":"D","modifyTime":1796073960851}`)
	f.Add(`{"lastModifiedTime":"yesterday"}`)
	f.Fuzz(func(t *testing.T, body string) {
		var row historyRow
		if json.Unmarshal([]byte(body), &row) != nil {
			return
		}
		if op := row.op(); op != "insert" && op != "update" && op != "delete" {
			t.Errorf("op %q", op)
		}
		_ = row.at()
	})
}
