package server_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nacos-group/nacos-sdk-go/v2/common/constant"
	"github.com/nacos-group/nacos-sdk-go/v2/vo"

	"github.com/belay-mq/belay/nacos/server"
)

func users() *server.Auth {
	return &server.Auth{Users: []server.User{
		{Name: "nacos", Password: "s3cret", Admin: true},
		{Name: "watcher", Password: "w", Grants: []server.Grant{{}}},
		{Name: "settle", Password: "s", Grants: []server.Grant{{Namespace: "ns-settle", Write: true}}},
	}}
}

// token logs in.
func (tg target) token(t testing.TB, name, password string) string {
	t.Helper()
	status, body, _ := tg.http(t, "POST", "/nacos/v1/auth/users/login", form{"username": name, "password": password})
	if status != 200 {
		t.Fatal(status, body)
	}
	return object(t, body)["accessToken"].(string)
}

func TestAuthorisation(t *testing.T) {
	for _, behaviour := range []server.Behaviour{server.Nacos2, server.Nacos3} {
		t.Run(behaviour.String(), func(t *testing.T) {
			t.Parallel()
			s, tg := embedded(t, server.Config{Behaviour: behaviour, Auth: users()})
			k := newKey()
			v3 := behaviour == server.Nacos3
			admin, watcher, settle := tg.token(t, "nacos", "s3cret"), tg.token(t, "watcher", "w"), tg.token(t, "settle", "s")
			noUser, noRight, bad := `…"message":"user not found!"…`, `…"message":"authorization failed!"…`, `…"message":"token invalid!"…`
			if v3 {
				noUser = `…"message":"Code: 401, Message: User not found! Please check user exist or password is right!."…`
				noRight = `…"message":"Code: 403, Message: authorization failed!."…`
				bad = `…"message":"Code: 401, Message: token invalid!."…`
			}
			tg.expect(t, 403, noUser, "GET", v1Configs, k)
			tg.expect(t, 403, bad, "GET", v1Configs, k.with("accessToken", "x.y"))
			tg.expect(t, 200, "true", "POST", v1Configs, k.with("content", "a=1", "@accessToken", admin))
			tg.expect(t, 403, noRight, "POST", v1Configs, k.with("content", "a=2", "accessToken", watcher))
			tg.expect(t, 200, "a=1", "GET", v1Configs, k.with("@Authorization", "Bearer "+watcher))
			tg.expect(t, 403, noRight, "GET", v1Configs, k.with("accessToken", settle))
			tg.expect(t, 200, "true", "POST", v1Configs, k.with("tenant", "ns-settle", "content", "a=1", "accessToken", settle))
			for _, row := range historyRows(t, tg, k.with("accessToken", watcher)) {
				if row["srcUser"] != "nacos" {
					t.Errorf("the login name is the writer: %v", row)
				}
			}

			listener, byIP := v1Configs+"/listener", "/nacos/v1/cs/listener"
			if v3 {
				listener, byIP = "/nacos/v3/admin/cs/config/listener", "/nacos/v3/admin/cs/listener"
				tg.expect(t, 403, noRight, "GET", listener, k.with("accessToken", watcher).v3())
				tg.expect(t, 403, noRight, "GET", "/nacos/v3/admin/core/namespace/list", form{"accessToken": watcher})
				console := target{addr: s.ConsoleAddr()}
				console.expect(t, 200, `{"code":0,…`, "GET", "/v3/console/cs/config/listener", k.with("accessToken", watcher).v3())
				console.expect(t, 200, `{"code":0,…`, "GET", "/v3/console/core/namespace/list", form{"accessToken": watcher})
				tg.expect(t, 200, `{"code":0,…`, "GET", "/nacos/v3/admin/core/state", nil)
			} else {
				tg.expect(t, 200, `{"collectStatus":200,…`, "GET", listener, k.with("accessToken", watcher))
				tg.expect(t, 200, `{"code":200,…`, "GET", "/nacos/v1/console/namespaces", nil)
				tg.expect(t, 200, `…`, "GET", "/nacos/v1/console/server/state", nil)
			}
			tg.expect(t, 200, "…", "GET", listener, k.with("accessToken", admin).v3().with("group", k["group"]))
			tg.expect(t, 403, noRight, "GET", byIP, form{"ip": "192.0.2.7", "all": "true", "accessToken": watcher})

			s.Faults().RotateTokenKey()
			signature := `…Invalid signature…`
			tg.expect(t, 403, signature, "GET", v1Configs, k.with("accessToken", admin))
			tg.expect(t, 200, "a=1", "GET", v1Configs, k.with("accessToken", tg.token(t, "nacos", "s3cret")))
		})
	}
}

func TestLogin(t *testing.T) {
	t.Parallel()
	auth := users()
	auth.TokenTTL = time.Second
	s2, n2 := embedded(t, server.Config{Auth: auth})
	_, n3 := embedded(t, server.Config{Auth: users(), Behaviour: server.Nacos3})
	const v1, v3 = "/nacos/v1/auth/users/login", "/nacos/v3/auth/user/login"
	wrong, unknown := form{"username": "nacos", "password": "x"}, form{"username": "nobody", "password": "x"}
	n2.expect(t, 403, "user not found!", "POST", v1, wrong)
	n2.expect(t, 500, "caused: User nobody not found;", "POST", v1, unknown)
	n3.expect(t, 500, `…"message":"Handle API Compatibility failed…`, "POST", v1, wrong)
	n3.expect(t, 500, `…"message":"Handle API Compatibility failed…`, "POST", v1, unknown)
	n3.expect(t, 500, `…"message":"No message available"…`, "POST", v3, wrong)
	n3.expect(t, 403, `…"message":"Access Denied"…`, "POST", v3, unknown)
	status, body, _ := n3.http(t, "POST", v3, form{"username": "watcher", "password": "w"})
	if fields := object(t, body); status != 200 || fields["globalAdmin"] != false || fields["username"] != "watcher" || fields["tokenTtl"].(interface{ String() string }).String() != "18000" {
		t.Error(status, body)
	}
	token := n2.token(t, "nacos", "s3cret")
	eventually(t, "the token expires", func() bool {
		status, _, _ := n2.http(t, "GET", v1Configs, newKey().with("accessToken", token))
		return status == 403
	})
	n2.expect(t, 403, `…"message":"token expired!"…`, "GET", v1Configs, newKey().with("accessToken", token))

	s2.Faults().DelayUsers(time.Hour)
	if err := s2.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	n2.expect(t, 403, "user not found!", "POST", v1, form{"username": "nacos", "password": "s3cret"})
	s2.Faults().Reset()
	n2.token(t, "nacos", "s3cret")
}

func TestUsersOverHTTP(t *testing.T) {
	t.Parallel()
	_, tg := embedded(t, server.Config{Auth: &server.Auth{UserDelay: 500 * time.Millisecond}})
	login := form{"username": "nacos", "password": "p"}
	tg.expect(t, 200, `{"username":"nacos","password":"p"}`, "POST", "/nacos/v1/auth/users/admin", form{"password": "p"})
	tg.expect(t, 200, `{"code":409,"message":"have admin user cannot use it"…`, "POST", "/nacos/v1/auth/users/admin", form{"password": "p"})
	tg.expect(t, 500, "caused: User nacos not found;", "POST", "/nacos/v1/auth/users/login", login)
	eventually(t, "the users are loaded", func() bool {
		status, _, _ := tg.http(t, "POST", "/nacos/v1/auth/users/login", login)
		return status == 200
	})
	admin := tg.token(t, "nacos", "p")
	tg.expect(t, 200, `{"code":200,"message":"create user ok!"…`, "POST", "/nacos/v1/auth/users", form{"username": "ro", "password": "r", "@accessToken": admin})
	tg.expect(t, 200, `{"code":200,…`, "POST", "/nacos/v1/auth/roles", form{"username": "ro", "role": "readers", "@accessToken": admin})
	tg.expect(t, 200, `{"code":200,…`, "POST", "/nacos/v1/auth/permissions", form{"role": "readers", "resource": ":*:*", "action": "r", "@accessToken": admin})
	eventually(t, "the new user is loaded", func() bool {
		status, _, _ := tg.http(t, "POST", "/nacos/v1/auth/users/login", form{"username": "ro", "password": "r"})
		return status == 200
	})
	reader, k := tg.token(t, "ro", "r"), newKey()
	tg.expect(t, 404, "…", "GET", v1Configs, k.with("accessToken", reader))
	tg.expect(t, 403, "…", "POST", v1Configs, k.with("content", "x", "@accessToken", reader))
	tg.expect(t, 403, "…", "POST", "/nacos/v1/auth/users", form{"username": "evil", "@accessToken": reader})
}

func TestSDKAuthorisation(t *testing.T) {
	t.Parallel()
	s, _ := embedded(t, server.Config{Auth: users()})
	k := vo.ConfigParam{DataId: toggleFile, Group: uniqueGroup(), Content: "a=1"}
	as := func(name, password string) func(*constant.ClientConfig) {
		return func(c *constant.ClientConfig) { c.Username, c.Password = name, password }
	}
	admin := sdkClient(t, s.Addr(), as("nacos", "s3cret"))
	if ok, err := admin.PublishConfig(k); !ok || err != nil {
		t.Fatal(ok, err)
	}
	for message, client := range map[string]func(*constant.ClientConfig){
		"user not found!":       as("nacos", "wrong"),
		"authorization failed!": as("watcher", "w"),
	} {
		c := sdkClient(t, s.Addr(), client)
		if ok, err := c.PublishConfig(k); ok || err == nil || err.Error() != message {
			t.Errorf("%v, %v, want %s", ok, err, message)
		}
	}
	s.Faults().RotateTokenKey()
	if ok, err := admin.PublishConfig(k); ok || err == nil || !strings.Contains(err.Error(), "Invalid signature") {
		t.Error(ok, err)
	}
	if ok, err := sdkClient(t, s.Addr(), as("nacos", "s3cret")).PublishConfig(k); !ok || err != nil {
		t.Error(ok, err)
	}
}
