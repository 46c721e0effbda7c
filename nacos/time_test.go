package nacos

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var testKey = Key{DataID: "rabbitmq-toggle.properties", Group: "settle-service"}

var families = []struct {
	name string
	kind kind
}{{"2.x", kindV1}, {"3.x", kindV3}, {"r-nacos", kindOther}}

// eachFamily runs a test in a bubble against each kind of server.
func eachFamily(t *testing.T, test func(t *testing.T, f *fake)) {
	for _, fam := range families {
		t.Run(fam.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, newFake(fam.kind)) })
		})
	}
}

func mustCreate(t *testing.T, s *Store, text string) State {
	t.Helper()
	st, err := s.Create(t.Context(), testKey, Content{Text: text})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// newestOf takes what the channel holds now; nothing is an error.
func newestOf(t *testing.T, states <-chan State) State {
	t.Helper()
	synctest.Wait()
	select {
	case st := <-states:
		return st
	default:
		t.Fatal("no state was sent")
	}
	return State{}
}

func nothingSent(t *testing.T, states <-chan State) {
	t.Helper()
	synctest.Wait()
	select {
	case st := <-states:
		t.Fatalf("sent %+v", st)
	default:
	}
}

func TestStaleAfterThreeIntervals(t *testing.T) {
	eachFamily(t, func(t *testing.T, f *fake) {
		s := f.store(t, nil)
		mustCreate(t, s, "a=1")
		states := s.Watch(t.Context(), testKey)
		if st := newestOf(t, states); st.Text != "a=1" || !st.Stale.IsZero() {
			t.Fatalf("first state %+v", st)
		}
		time.Sleep(20 * time.Second)
		nothingSent(t, states)
		f.set(func(f *fake) { f.down = true })
		went := time.Now()
		time.Sleep(5 * time.Second)
		nothingSent(t, states) // not yet three intervals
		time.Sleep(9 * time.Second)
		st := newestOf(t, states)
		if st.Text != "a=1" || st.Stale.IsZero() || st.Stale.After(went) || went.Sub(st.Stale) > 4*time.Second || !errors.Is(st.LastErr, ErrUnavailable) {
			t.Fatalf("down since %v, state %+v", went, st)
		}
		if h := s.Health(); h.Connected || h.Since.Sub(went) > 4*time.Second {
			t.Errorf("health %+v", h)
		}
		if _, err := s.Get(t.Context(), testKey); !errors.Is(err, ErrUnavailable) {
			t.Errorf("get returned %v while down", err)
		}
		f.set(func(f *fake) { f.down = false })
		time.Sleep(8 * time.Second)
		if st := newestOf(t, states); st.Text != "a=1" || !st.Stale.IsZero() || st.LastErr != nil {
			t.Errorf("state after the outage %+v", st)
		}
	})
}

// TestNoFlickerBack: after a publish the server's copy shows the old content
// for two seconds; neither the watch nor a read may show it again.
func TestNoFlickerBack(t *testing.T) {
	for _, noDetail := range []bool{false, true} {
		eachFamily(t, func(t *testing.T, f *fake) {
			if f.kind == kindOther {
				return // has no copy that lags
			}
			f.lag = 2080 * time.Millisecond
			if noDetail {
				f.intercept(denyDetail)
			}
			s := f.store(t, nil)
			states := s.Watch(t.Context(), testKey)
			time.Sleep(time.Second)
			if st := newestOf(t, states); !st.Absent {
				t.Fatalf("first state %+v", st)
			}
			st := mustCreate(t, s, "a=1")
			for i, text := range []string{"a=2", "a=3"} {
				if i > 0 {
					time.Sleep(time.Second) // the former publish is not seen by reads yet
				}
				var err error
				if st, err = s.Update(t.Context(), testKey, Content{Text: text}, st.MD5); err != nil {
					t.Fatalf("update to %s: %v", text, err)
				}
				for range 40 {
					time.Sleep(100 * time.Millisecond)
					if i == 0 && time.Since(st.Read) > 500*time.Millisecond {
						break
					}
					if got, err := s.Get(t.Context(), testKey); err != nil || got.Text != text {
						t.Fatalf("noDetail %v: %v after the publish of %s: read %+v, %v", noDetail, time.Since(st.Read), text, got, err)
					}
				}
			}
			if st := newestOf(t, states); st.Text != "a=3" {
				t.Errorf("watch shows %+v", st)
			}
			// A real change back is seen.
			f.foreign(testKey, "a=2")
			time.Sleep(10 * time.Second)
			if st := newestOf(t, states); st.Text != "a=2" {
				t.Errorf("after a change back: %+v", st)
			}
		})
	}
}

// denyDetail is a server on which only plain reads are allowed.
func denyDetail(r *http.Request, form url.Values) (*http.Response, error) {
	if form.Get("show") == "all" || strings.HasSuffix(r.URL.Path, "/v3/admin/cs/config") && r.Method == http.MethodGet {
		return respond(403, `{"code":403,"message":"authorization failed!"}`), nil
	}
	return nil, nil
}

func TestFalseAbsent(t *testing.T) {
	eachFamily(t, func(t *testing.T, f *fake) {
		s := f.store(t, nil)
		mustCreate(t, s, "a=1")
		states := s.Watch(t.Context(), testKey)
		newestOf(t, states)
		// A restart: refused, then for 2.5 s nothing is there.
		f.set(func(f *fake) { f.down = true })
		time.Sleep(5 * time.Second)
		var kept, copied map[Key]*fakeConfig
		hidden := 50 * time.Millisecond
		if f.kind == kindOther {
			hidden = 2500 * time.Millisecond
		}
		f.set(func(f *fake) {
			kept, copied = f.configs, f.copied
			f.down, f.configs, f.copied = false, map[Key]*fakeConfig{}, map[Key]*fakeConfig{}
		})
		// The first answer is what starts the doubt.
		for f.count("GET /v1/cs/configs")+f.count("GET /v3/admin/cs/config") == 0 || !s.Health().Connected {
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(hidden)
		f.set(func(f *fake) { f.configs, f.copied = kept, copied })
		time.Sleep(20 * time.Second)
		select {
		case st := <-states:
			if st.Absent || st.Text != "a=1" || !st.Stale.IsZero() {
				t.Errorf("a falsely absent config was believed: %+v", st)
			}
		default:
		}
		// A real removal is believed.
		f.foreign(testKey, "")
		time.Sleep(10 * time.Second)
		if st := newestOf(t, states); !st.Absent {
			t.Errorf("a removed config: %+v", st)
		}
	})
}

func TestAbsentIsReadTwice(t *testing.T) {
	eachFamily(t, func(t *testing.T, f *fake) {
		s := f.store(t, nil)
		st, err := s.Get(t.Context(), testKey)
		if err != nil || !st.Absent || st.MD5 != "" {
			t.Fatalf("%+v, %v", st, err)
		}
		if n := f.count("GET /v1/cs/configs") + f.count("GET /v3/admin/cs/config"); n != 2 {
			t.Errorf("%d reads made it absent, not 2", n)
		}
	})
}

func TestCutReplyOfAppliedPublish(t *testing.T) {
	eachFamily(t, func(t *testing.T, f *fake) {
		s := f.store(t, nil)
		cut := 0
		f.afterwards(func(r *http.Request) error {
			if r.Method == http.MethodPost && (strings.HasSuffix(r.URL.Path, "/configs") || strings.HasSuffix(r.URL.Path, "/config")) && cut < 1 {
				cut++
				return errCut
			}
			return nil
		})
		st := mustCreate(t, s, "a=1")
		cut = 0
		got, err := s.Update(t.Context(), testKey, Content{Text: "a=2"}, st.MD5)
		if err != nil || got.Text != "a=2" || cut != 1 {
			t.Fatalf("%+v, %v (%d cut)", got, err, cut)
		}
		// Applied, and overruled before we could look.
		cut = 0
		f.afterwards(func(r *http.Request) error {
			if r.Method == http.MethodPost && cut < 1 {
				cut++
				f.foreign(testKey, "a=9")
				return errCut
			}
			return nil
		})
		_, err = s.Update(t.Context(), testKey, Content{Text: "a=3"}, got.MD5)
		if f.kind != kindOther && err != nil {
			t.Errorf("an applied write that was overruled: %v", err)
		}
		if f.kind == kindOther && !errors.As(err, new(*ConflictError)) { // has no history that could tell
			t.Errorf("on r-nacos: %v", err)
		}
		time.Sleep(4 * time.Second)
		if now, err := s.Get(t.Context(), testKey); err != nil || now.Text != "a=9" {
			t.Errorf("then %+v, %v", now, err)
		}
	})
}

func TestLostPublishIsRepeated(t *testing.T) {
	eachFamily(t, func(t *testing.T, f *fake) {
		s := f.store(t, nil)
		st := mustCreate(t, s, "a=1")
		fails := 2
		f.intercept(func(r *http.Request, _ url.Values) (*http.Response, error) {
			if r.Method == http.MethodPost && fails > 0 {
				fails--
				return nil, errCut
			}
			return nil, nil
		})
		if got, err := s.Update(t.Context(), testKey, Content{Text: "a=2"}, st.MD5); err != nil || got.Text != "a=2" {
			t.Fatalf("%+v, %v", got, err)
		}
		// Nothing works any more after the publish was sent.
		f.intercept(func(r *http.Request, _ url.Values) (*http.Response, error) {
			if r.Method == http.MethodPost {
				f.set(func(f *fake) { f.down = true })
				return nil, errCut
			}
			return nil, nil
		})
		began := time.Now()
		_, err := s.Update(t.Context(), testKey, Content{Text: "a=3"}, md5Hex("a=2"))
		if !errors.Is(err, ErrUnknownOutcome) || !errors.Is(err, ErrUnavailable) {
			t.Errorf("a write of unknown outcome: %v", err)
		}
		if took := time.Since(began); took > DefaultWriteTimeout+time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

func TestIgnoredCAS(t *testing.T) {
	eachFamily(t, func(t *testing.T, f *fake) {
		f.ignoreCAS = true
		s := f.store(t, nil)
		st := mustCreate(t, s, "a=1")
		foreign := func(text string) {
			once := true
			f.intercept(func(r *http.Request, _ url.Values) (*http.Response, error) {
				if r.Method == http.MethodPost && !strings.HasSuffix(r.URL.Path, "listener") && once {
					once = false
					f.foreign(testKey, text)
				}
				return nil, nil
			})
		}
		foreign("a=9")
		got, err := s.Update(t.Context(), testKey, Content{Text: "a=2"}, st.MD5)
		var over *OverwroteError
		if f.kind == kindOther {
			// No history: only what was seen in between could tell.
			if err != nil && !errors.As(err, &over) {
				t.Fatal(err)
			}
		} else if !errors.As(err, &over) || over.Lost != "a=9" || over.Removed || over.Written.Text != "a=2" {
			t.Fatalf("overwriting a foreign change: %v, %+v", err, over)
		}
		if got.Text != "a=2" {
			t.Errorf("state %+v", got)
		}
		foreign("")
		_, err = s.Update(t.Context(), testKey, Content{Text: "a=3"}, md5Hex("a=2"))
		if f.kind != kindOther && (!errors.As(err, &over) || !over.Removed) {
			t.Errorf("creating what was removed: %v", err)
		}
		f.intercept(nil)
		// Seen before the write: a plain conflict, nothing is written.
		f.foreign(testKey, "a=7")
		if _, err := s.Update(t.Context(), testKey, Content{Text: "a=4"}, md5Hex("a=3")); !errors.As(err, new(*ConflictError)) {
			t.Errorf("a change before the write: %v", err)
		}
	})
}

func TestTokenRotation(t *testing.T) {
	for _, fam := range families[:2] {
		t.Run(fam.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(fam.kind)
				f.tokens, f.password = map[string]bool{}, "secret"
				s := f.store(t, func(c *Config) { c.Username, c.Password = "belay", "secret" })
				mustCreate(t, s, "a=1")
				states := s.Watch(t.Context(), testKey)
				newestOf(t, states)
				time.Sleep(time.Minute)
				f.set(func(f *fake) { f.tokens = map[string]bool{} })
				f.foreign(testKey, "a=2")
				time.Sleep(10 * time.Second)
				if st := newestOf(t, states); st.Text != "a=2" {
					t.Errorf("after the rotation: %+v", st)
				}
				// Refused logins are said, and not repeated more often than every 5 s.
				f.set(func(f *fake) { f.tokens, f.password = map[string]bool{}, "other" })
				logins := f.count("POST /v1/auth/users/login") + f.count("POST /v3/auth/user/login")
				time.Sleep(30 * time.Second)
				if _, err := s.Get(t.Context(), testKey); !errors.Is(err, ErrForbidden) || !strings.Contains(err.Error(), "User not found") {
					t.Errorf("get with a refused login: %v", err)
				}
				logins = f.count("POST /v1/auth/users/login") + f.count("POST /v3/auth/user/login") - logins
				if logins < 3 || logins > 8 {
					t.Errorf("%d logins in 30 s", logins)
				}
				if st := newestOf(t, states); st.Stale.IsZero() || !errors.Is(st.LastErr, ErrForbidden) {
					t.Errorf("watch says %+v", st)
				}
				f.set(func(f *fake) { f.password = "secret" })
				time.Sleep(15 * time.Second)
				if st := newestOf(t, states); !st.Stale.IsZero() || st.Text != "a=2" {
					t.Errorf("after the login works again: %+v", st)
				}
			})
		})
	}
}

func TestNoLoginInTheCredentialFreeCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(kindV1)
		f.tokens = map[string]bool{}
		f.password = "secret"
		s := f.store(t, func(c *Config) { c.Username, c.Password = "belay", "wrong" })
		_, err := s.Get(t.Context(), testKey)
		if !errors.Is(err, ErrForbidden) || strings.Contains(err.Error(), "wrong") {
			t.Errorf("get: %v", err)
		}
		if s.Health().Server != "2.5.1" {
			t.Errorf("the version is open to everybody: %+v", s.Health())
		}
	})
}

func TestIdleCost(t *testing.T) {
	eachFamily(t, func(t *testing.T, f *fake) {
		s := f.store(t, nil)
		const apps = 20
		for i := range apps {
			key := Key{DataID: testKey.DataID, Group: "app-" + string(rune('a'+i))}
			f.foreign(key, "a=1")
			s.Watch(t.Context(), key)
		}
		time.Sleep(10 * time.Second)
		f.mu.Lock()
		before := f.requests
		f.mu.Unlock()
		time.Sleep(time.Minute)
		f.mu.Lock()
		defer f.mu.Unlock()
		rate := float64(f.requests-before) / 60
		t.Logf("%.2f requests/s with %d applications watched", rate, apps)
		if f.kind != kindOther && rate > 2 {
			t.Errorf("%.2f requests/s while nothing happens", rate)
		}
	})
}

func TestHistoryMeaning(t *testing.T) {
	for _, fam := range families {
		t.Run(fam.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(fam.kind)
				s := f.store(t, nil)
				mustCreate(t, s, "a=1")
				f.foreign(testKey, "a=2")
				st, err := s.Update(t.Context(), testKey, Content{Text: "a=3", Operator: "anna"}, md5Hex("a=2"))
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Remove(t.Context(), testKey); err != nil {
					t.Fatal(err)
				}
				mustCreate(t, s, "a=4")
				list, err := s.History(t.Context(), testKey, 10)
				if fam.kind == kindOther {
					if !errors.Is(err, ErrRemovedAPI) {
						t.Errorf("history of r-nacos: %v", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				want := []Change{
					{Op: "insert", By: "oncall1", Text: "a=4"},
					{Op: "delete", By: "oncall1", Previous: "a=3"},
					{Op: "update", By: "anna", Text: "a=3", Previous: "a=2"},
					{Op: "update", By: "somebody", Text: "a=2", Previous: "a=1"},
					{Op: "insert", By: "oncall1", Text: "a=1"},
				}
				if len(list) != len(want) {
					t.Fatalf("%d changes: %+v", len(list), list)
				}
				for i, w := range want {
					g := list[i]
					if g.Op != w.Op || g.By != w.By || g.Text != w.Text || g.Previous != w.Previous || !g.Known || g.ID == "" || time.Since(g.At).Abs() > time.Minute {
						t.Errorf("change %d is %+v, not %+v", i, g, w)
					}
					if w.Text != "" && g.MD5 != md5Hex(w.Text) {
						t.Errorf("change %d: md5 %s", i, g.MD5)
					}
				}
				if list, err := s.History(t.Context(), testKey, 2); err != nil || len(list) != 2 || list[1].Previous != "a=3" {
					t.Errorf("two changes: %+v, %v", list, err)
				}
				_ = st
			})
		})
	}
}

func TestMetadataSurvives(t *testing.T) {
	eachFamily(t, func(t *testing.T, f *fake) {
		if f.kind == kindOther {
			return // keeps none
		}
		s := f.store(t, nil)
		f.configs[testKey] = &fakeConfig{text: "a=1", typ: "yaml", desc: "Toggle file", tags: "t1,t2", app: "settle", id: 7}
		if lost, err := s.Losses(t.Context(), testKey); err != nil || len(lost) > 0 {
			t.Errorf("losses: %v, %v", lost, err)
		}
		if _, err := s.Update(t.Context(), testKey, Content{Text: "a=2"}, md5Hex("a=1")); err != nil {
			t.Fatal(err)
		}
		d, err := s.Detail(t.Context(), testKey)
		if err != nil || d.Type != "yaml" || d.Desc != "Toggle file" || strings.Join(d.Tags, ",") != "t1,t2" || d.AppName != "settle" || d.ModifiedBy != "oncall1" {
			t.Errorf("detail %+v, %v", d, err)
		}
	})
}

// TestPublishOverGRPCOnly: what would be lost is said before it is lost.
func TestPublishOverGRPCOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(kindV3)
		f.configs[testKey] = &fakeConfig{text: "a=1", typ: "properties", desc: "Toggle file", id: 7}
		f.intercept(func(r *http.Request, _ url.Values) (*http.Response, error) {
			if r.Method == http.MethodPost && strings.Contains(r.URL.Path, "/cs/config") {
				return respond(410, `{"status":410,"message":"{\"code\":40000,\"message\":\"Current API will be deprecated\"}"}`), nil
			}
			return nil, nil
		})
		s := f.store(t, nil)
		_, err := s.Update(t.Context(), testKey, Content{Text: "a=2"}, md5Hex("a=1"))
		var loss *LossError
		if !errors.As(err, &loss) || len(loss.Lost) != 1 || loss.Lost[0] != "description" {
			t.Fatalf("update: %v", err)
		}
		if lost, err := s.Losses(t.Context(), testKey); err != nil || len(lost) != 1 {
			t.Errorf("losses: %v, %v", lost, err)
		}
	})
}

func TestRefusalsAreNamed(t *testing.T) {
	tests := []struct {
		name   string
		status int
		body   string
		is     error
		says   string
	}{
		{"403 text", 403, "authorization failed!", ErrForbidden, "authorization failed!"},
		{"403 of 3.x", 403, `{"code":403,"message":"Code: 403, Message: authorization failed!."}`, ErrForbidden, "Code: 403"},
		{"410", 410, `{"status":410,"error":"Gone","message":"{\"code\":40000,\"message\":\"Current API will be deprecated, please use v3\"}"}`, ErrRemovedAPI, "please use v3"},
		{"404 of Spring", 404, `{"status":404,"error":"Not Found","path":"/nacos/v1/cs/history"}`, ErrRemovedAPI, "404"},
		{"405", 405, "", ErrRemovedAPI, "405"},
		{"404 of a config", 404, "config data not exist\n", ErrAbsent, "not exist"},
		{"404 of 3.x", 404, `{"code":20004,"message":"resource not found","data":"Config not exist"}`, ErrAbsent, "Config not exist"},
		{"500", 500, "caused: something;", ErrUnavailable, "something"},
		{"503", 503, "Tps Flow restricted", ErrUnavailable, "restricted"},
	}
	all := []error{ErrForbidden, ErrRemovedAPI, ErrAbsent, ErrUnavailable}
	for _, tt := range tests {
		err := error(refusal("read x", tt.status, []byte(tt.body)))
		for _, target := range all {
			if errors.Is(err, target) != (target == tt.is) {
				t.Errorf("%s: %v is %v: %v", tt.name, err, target, errors.Is(err, target))
			}
		}
		if !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), "read x") {
			t.Errorf("%s: %q does not say %q", tt.name, err, tt.says)
		}
	}
	conflicts := []struct {
		status int
		body   string
		want   bool
	}{
		{500, "caused: Cas publish fail, server md5 may have changed.;", true},
		{500, `{"code":20005,"message":"resource conflict","data":"Cas publish fail, server md5 may have changed."}`, true},
		{500, "false", true},
		{500, "caused: no space left;", false},
		{403, "false", false},
	}
	for _, c := range conflicts {
		if got := refusal("x", c.status, []byte(c.body)).conflict(); got != c.want {
			t.Errorf("%d %s: conflict %v", c.status, c.body, got)
		}
	}
}

func TestCallerGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(kindV1)
		f.intercept(func(r *http.Request, _ url.Values) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		s := f.store(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := s.Update(ctx, testKey, Content{Text: "x"}, "y"); !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnavailable) {
			t.Errorf("cancelled update: %v", err)
		}
		began := time.Now()
		if _, err := s.Get(t.Context(), testKey); !errors.Is(err, ErrUnavailable) || time.Since(began) > 4*time.Second {
			t.Errorf("get without an answer: %v after %v", err, time.Since(began))
		}
		if _, err := s.Update(t.Context(), testKey, Content{Text: "x"}, "y"); !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnknownOutcome) {
			t.Errorf("update that never was sent: %v", err)
		}
	})
}

// TestNamespaceNames: the default namespace is "" to 2.x and "public" to 3.x in
// every request, whatever the configuration calls it; requests stay few.
func TestNamespaceNames(t *testing.T) {
	for _, namespace := range []string{"", "public", "ns-prod"} {
		eachFamily(t, func(t *testing.T, f *fake) {
			want := namespace
			if namespace != "ns-prod" {
				want = map[kind]string{kindV3: "public"}[f.kind]
			}
			bad := make(chan string, 1000)
			f.intercept(func(r *http.Request, form url.Values) (*http.Response, error) {
				for _, field := range []string{"tenant", "namespaceId"} {
					if got, ok := form[field]; ok && got[0] != want {
						bad <- r.URL.Path + " " + field + "=" + got[0]
					}
				}
				for entry := range strings.SplitSeq(strings.TrimSuffix(form.Get("Listening-Configs"), keyEnd), keyEnd) {
					fields := strings.Split(entry, fieldEnd)
					if entry != "" && (want == "" && len(fields) != 3 || want != "" && (len(fields) != 4 || fields[3] != want)) {
						bad <- r.URL.Path + " " + strings.Join(fields, "|")
					}
				}
				return nil, nil
			})
			s := f.store(t, func(c *Config) { c.Namespace = namespace })
			st := mustCreate(t, s, "a=1")
			states := s.Watch(t.Context(), testKey)
			newestOf(t, states)
			if _, err := s.Update(t.Context(), testKey, Content{Text: "a=2"}, st.MD5); err != nil {
				t.Fatal(err)
			}
			_, _ = s.History(t.Context(), testKey, 3)
			_, _ = s.Watchers(t.Context(), testKey)
			_, _ = s.Search(t.Context(), testKey.DataID)
			f.mu.Lock()
			before := f.requests
			f.mu.Unlock()
			time.Sleep(time.Minute)
			f.mu.Lock()
			if n := f.requests - before; n > 120 {
				t.Errorf("%d requests in an idle minute", n)
			}
			f.mu.Unlock()
			if err := s.Remove(t.Context(), testKey); err != nil {
				t.Fatal(err)
			}
			close(bad)
			for b := range bad {
				t.Errorf("namespace %q on %v: sent %s", namespace, f.kind, b)
			}
			f.intercept(nil)
		})
	}
}

// TestOldServer: 1.x has no gRPC, so the long poll is the transport.
func TestOldServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(kindV1)
		f.intercept(func(r *http.Request, _ url.Values) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, "/server/state") {
				return respondJSON(map[string]string{"version": "1.4.6"}), nil
			}
			if strings.HasSuffix(r.URL.Path, "/listener") && r.Header.Get("Long-Pulling-Timeout-No-Hangup") == "" {
				select {
				case <-time.After(29500 * time.Millisecond):
					return respond(200, ""), nil
				case <-r.Context().Done():
					return nil, r.Context().Err()
				}
			}
			return nil, nil
		})
		f.foreign(testKey, "a=1")
		s := f.store(t, func(c *Config) { c.DisablePush = false })
		states := s.Watch(t.Context(), testKey)
		newestOf(t, states)
		time.Sleep(5 * time.Second)
		if h := s.Health(); h.Transport != "long-poll" || h.Server != "1.4.6" {
			t.Errorf("health %+v", h)
		}
		f.foreign(testKey, "a=2")
		time.Sleep(4 * time.Second)
		if st := newestOf(t, states); st.Text != "a=2" {
			t.Errorf("%+v", st)
		}
	})
}

// TestAdminAPIHidden: a 3.x server whose admin API is kept from clients is
// still known as 3.x, because of the names of its default namespace.
func TestAdminAPIHidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(kindV3)
		f.intercept(func(r *http.Request, form url.Values) (*http.Response, error) {
			if strings.HasPrefix(r.URL.Path, "/nacos/v3/admin") {
				return respond(404, "no such page"), nil
			}
			if tenant := form.Get("tenant") + form.Get("namespaceId"); strings.Contains(r.URL.Path, "/cs/") && tenant != "public" {
				t.Errorf("%s with tenant %q", r.URL.Path, tenant)
			}
			return nil, nil
		})
		s := f.store(t, nil)
		st := mustCreate(t, s, "a=1")
		if st, err := s.Update(t.Context(), testKey, Content{Text: "a=2"}, st.MD5); err != nil || st.Text != "a=2" {
			t.Errorf("%+v, %v", st, err)
		}
		if lost, err := s.Losses(t.Context(), testKey); err != nil || len(lost) != 1 {
			t.Errorf("what a write may cost where details cannot be read: %v, %v", lost, err)
		}
		if h := s.Health(); h.Server != "3" {
			t.Errorf("health %+v", h)
		}
	})
}

// TestWritesAreNotFooledAfterARestart: a config that is hidden for a moment is
// neither reported as removed nor created anew.
func TestWritesAreNotFooledAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(kindOther)
		f.foreign(testKey, "a=1")
		hide := func() (restore func()) {
			var configs, copied map[Key]*fakeConfig
			f.set(func(f *fake) {
				configs, copied = f.configs, f.copied
				f.configs, f.copied = map[Key]*fakeConfig{}, map[Key]*fakeConfig{}
			})
			return func() { f.set(func(f *fake) { f.configs, f.copied = configs, copied }) }
		}
		time.AfterFunc(2500*time.Millisecond, hide())
		s := f.store(t, nil) // the first contact is right after the restart
		if _, err := s.Create(t.Context(), testKey, Content{Text: "a=new"}); !errors.As(err, new(*ConflictError)) {
			t.Fatalf("create: %v", err)
		}
		f.set(func(f *fake) { f.down = true })
		_, _ = s.Get(t.Context(), testKey)
		f.set(func(f *fake) { f.down = false })
		time.AfterFunc(2500*time.Millisecond, hide())
		if st, err := s.Update(t.Context(), testKey, Content{Text: "a=2"}, md5Hex("a=1")); err != nil || st.Text != "a=2" {
			t.Errorf("update: %+v, %v", st, err)
		}
	})
}
