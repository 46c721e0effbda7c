package nacos

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTLS(t *testing.T) {
	f := newFake(kindV1)
	f.foreign(testKey, "a=1")
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		resp, err := f.RoundTrip(r)
		if err != nil {
			t.Error(err)
			return
		}
		defer resp.Body.Close()
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body)
	}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes are what we want
	srv.StartTLS()
	defer srv.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		tls  TLS
		ok   bool
	}{
		{"authority given", TLS{CAFile: ca}, true},
		{"anybody", TLS{InsecureSkipVerify: true}, true},
		{"unknown authority", TLS{}, false},
		{"other name", TLS{CAFile: ca, ServerName: "elsewhere"}, false},
	} {
		s, err := New(Config{Servers: []string{srv.URL}, TLS: tt.tls, DisablePush: true})
		if err != nil {
			t.Fatal(err)
		}
		st, err := s.Get(t.Context(), testKey)
		if tt.ok && (err != nil || st.Text != "a=1") || !tt.ok && (!errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "certificate")) {
			t.Errorf("%s: %+v, %v", tt.name, st, err)
		}
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// TestServersFailOver: the next server is asked when one cannot be reached.
func TestServersFailOver(t *testing.T) {
	f := newFake(kindV1)
	f.foreign(testKey, "a=1")
	s := f.store(t, func(c *Config) { c.Servers = []string{"one", "two", "three"} })
	s.client.http.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.URL.Hostname() != "three" {
			return nil, errors.New("connection refused")
		}
		return f.RoundTrip(r)
	})
	if st, err := s.Get(t.Context(), testKey); err != nil || st.Text != "a=1" {
		t.Errorf("%+v, %v", st, err)
	}
	if st, err := s.Update(t.Context(), testKey, Content{Text: "a=2"}, md5Hex("a=1")); err != nil || st.Text != "a=2" {
		t.Errorf("%+v, %v", st, err)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestPanicIsContained: whatever panics under a read is an error of that read.
func TestPanicIsContained(t *testing.T) {
	f := newFake(kindV1)
	s := f.store(t, nil)
	f.intercept(denyDetail)
	s.client.http.Transport = roundTripper(func(*http.Request) (*http.Response, error) { panic("broken transport") })
	if _, err := s.Get(t.Context(), testKey); err == nil || !strings.Contains(err.Error(), "panic") {
		t.Errorf("get: %v", err)
	}
	s.client.http.Transport = f
	if st, err := s.Get(t.Context(), testKey); err != nil || !st.Absent {
		t.Errorf("then: %+v, %v", st, err)
	}
}

// TestLargeContentIsRead: others may publish over gRPC what a form cannot hold.
func TestLargeContentIsRead(t *testing.T) {
	for _, fam := range families {
		f := newFake(fam.kind)
		large := strings.Repeat("x", 3<<20)
		f.foreign(testKey, large)
		s := f.store(t, nil)
		if st, err := s.Get(t.Context(), testKey); err != nil || st.Text != large {
			t.Errorf("%s: %d bytes, %v", fam.name, len(st.Text), err)
		}
		if _, err := s.Update(t.Context(), testKey, Content{Text: large + "y"}, md5Hex(large)); !errors.Is(err, ErrTooLarge) || errors.Is(err, ErrUnknownOutcome) {
			t.Errorf("%s: update %v", fam.name, err)
		}
		// The refused write asked for a read. The fake encodes megabytes without
		// looking at the end of the request, so let it finish before Close.
		if st, err := s.Get(t.Context(), testKey); err != nil || st.Text != large {
			t.Errorf("%s: after the update %d bytes, %v", fam.name, len(st.Text), err)
		}
	}
}
