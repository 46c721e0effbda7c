package nacos

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belay-mq/belay/nacos/server"
)

// embeddedStore opens a store on an embedded server, with every HTTP request
// going through intercept first.
func embeddedStore(t *testing.T, b server.Behaviour, intercept func(*http.Request) *http.Response) (*Store, *server.Server) {
	t.Helper()
	srv, err := server.Start(t.Context(), server.Config{Behaviour: b})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Servers: []string{srv.Addr()}, PollInterval: 300 * time.Millisecond, Operator: "oncall1"})
	if err != nil {
		t.Fatal(err)
	}
	sockets := s.client.http.Transport
	s.client.http.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
		if intercept != nil {
			if resp := intercept(r); resp != nil {
				return resp, nil
			}
		}
		return sockets.RoundTrip(r)
	})
	t.Cleanup(func() {
		err := s.Close(context.Background())
		if c, ok := sockets.(*http.Transport); ok {
			c.CloseIdleConnections()
		}
		if err := errors.Join(err, srv.Close(context.Background())); err != nil {
			t.Error(err)
		}
	})
	return s, srv
}

// TestPublishOverGRPC: a server that takes no publish over HTTP. What that
// costs is said before, and done when asked again.
func TestPublishOverGRPC(t *testing.T) {
	for _, b := range []server.Behaviour{server.Nacos2, server.Nacos3} {
		t.Run(b.String(), func(t *testing.T) {
			removed := false
			s, _ := embeddedStore(t, b, func(r *http.Request) *http.Response {
				if removed && r.Method == http.MethodPost && (strings.HasSuffix(r.URL.Path, "/cs/configs") || strings.HasSuffix(r.URL.Path, "/cs/config")) {
					return respond(410, "gone")
				}
				return nil
			})
			// What the store cannot set itself: a description and tags.
			d, err := s.detector.get(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			r := call{what: "publish", method: http.MethodPost, path: "/v1/cs/configs", form: v1Key(d, "", testKey)}
			if d.kind == kindV3 {
				r.path, r.form = "/v3/admin/cs/config", v3Key(d, "", testKey)
			}
			for k, v := range map[string]string{"content": "a=1", "type": "properties", "desc": "Toggle file", "config_tags": "t1,t2", "configTags": "t1,t2", "appName": "settle"} {
				r.form.Set(k, v)
			}
			if _, err := s.client.do(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			st, err := s.Update(t.Context(), testKey, Content{Text: "a=2"}, md5Hex("a=1"))
			if err != nil {
				t.Fatal(err)
			}
			check := func(want string, desc string) {
				t.Helper()
				d, err := s.Detail(t.Context(), testKey)
				if err != nil || d.Text != want || d.Type != "properties" || !slices.Equal(d.Tags, []string{"t1", "t2"}) || d.AppName != "settle" || d.Desc != desc || d.ModifiedBy != "oncall1" {
					t.Errorf("detail %+v, %v", d, err)
				}
			}
			check("a=2", "Toggle file")

			removed = true
			_, err = s.Update(t.Context(), testKey, Content{Text: "a=3"}, st.MD5)
			var loss *LossError
			if !errors.As(err, &loss) || !slices.Equal(loss.Lost, []string{"description"}) {
				t.Fatalf("update: %v", err)
			}
			check("a=2", "Toggle file")
			if lost, err := s.Losses(t.Context(), testKey); err != nil || !slices.Equal(lost, loss.Lost) {
				t.Errorf("losses %v, %v", lost, err)
			}
			if st, err = s.Update(t.Context(), testKey, Content{Text: "a=3"}, st.MD5); err != nil || st.Text != "a=3" {
				t.Fatalf("update over gRPC: %+v, %v", st, err)
			}
			check("a=3", "")
			if _, err := s.Update(t.Context(), testKey, Content{Text: "a=4"}, md5Hex("a=1")); !errors.As(err, new(*ConflictError)) {
				t.Errorf("conflict over gRPC: %v", err)
			}
		})
	}
}

// TestListenCallRemoved: without the listen call of 1.x the safety poll goes
// over gRPC, and by reading where that is gone, too.
func TestListenCallRemoved(t *testing.T) {
	for _, b := range []server.Behaviour{server.Nacos2, server.Nacos3} {
		for _, push := range []bool{true, false} {
			t.Run(b.String(), func(t *testing.T) {
				s, srv := embeddedStore(t, b, nil)
				if s.cfg.DisablePush = !push; !push {
					srv.Faults().RemoveAPIs("/nacos/v1/cs/configs/listener")
				} else if b == server.Nacos3 {
					srv.Faults().RemoveAPIs("/nacos/v1/")
				} else {
					srv.Faults().RemoveAPIs("/nacos/v1/cs/configs/listener")
				}
				srv.Faults().LosePushes(server.Always)
				st := mustCreate(t, s, "a=1")
				states := s.Watch(t.Context(), testKey)
				take := func(want string) {
					t.Helper()
					for deadline := time.After(20 * time.Second); ; {
						select {
						case st := <-states:
							if st.Text == want {
								return
							}
						case <-deadline:
							t.Fatalf("%s not seen", want)
						}
					}
				}
				take("a=1")
				other, err := New(Config{Servers: []string{srv.Addr()}})
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = other.Close(context.Background()) }()
				for _, text := range []string{"a=2", "a=3"} {
					if st, err = other.Update(t.Context(), testKey, Content{Text: text}, st.MD5); err != nil {
						t.Fatal(err)
					}
					take(text)
				}
				if h := s.Health(); h.Polls == 0 || push && h.Transport != "push" {
					t.Errorf("health %+v", h)
				}
			})
		}
	}
}
