package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// webService serves one HTTP port of one run of the server.
type webService struct {
	socket *socket
	http   *http.Server
	calls  calls
}

func newWebService(ctx context.Context, s *Server, l net.Listener, handler http.Handler) *webService {
	w := &webService{socket: newSocket(l, &s.faults.gate)}
	w.http = &http.Server{
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 30 * time.Second,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		Handler: http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
			if !w.calls.enter() {
				panic(http.ErrAbortHandler) // the connection is cut already
			}
			defer w.calls.leave()
			handler.ServeHTTP(rw, req)
		}),
	}
	return w
}

func (w *webService) serve() error {
	if err := w.http.Serve(w.socket); err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("serve HTTP: %w", err)
	}
	return nil
}

// stop waits for the calls in progress; their connections are cut already.
func (w *webService) stop() error {
	err := w.http.Close()
	w.calls.stop()
	return err
}

// call is one HTTP call being answered.
type call struct {
	http.ResponseWriter
	req    *http.Request
	params url.Values // of query and form together
	user   User       // whose token it carries; empty if authorisation is off
}

func (c *call) param(name string) string { return c.params.Get(name) }

// sentParam returns nil for a parameter that was not sent.
func (c *call) sentParam(name string) *string {
	if values, ok := c.params[name]; ok {
		return &values[0]
	}
	return nil
}

// number returns a whole number of the call, or the default if it is not one.
func (c *call) number(name string, otherwise int) int {
	if n, err := strconv.Atoi(c.param(name)); err == nil {
		return n
	}
	return otherwise
}

// remoteIP is the address that the socket shows.
func (c *call) remoteIP() string {
	host, _ := splitAddr(c.req.RemoteAddr)
	return host
}

// sourceIP is whom the history names as the writer. Like the real server it believes what a proxy claims.
func (c *call) sourceIP() string {
	if forwarded, _, _ := strings.Cut(c.req.Header.Get("X-Forwarded-For"), ","); forwarded != "" {
		return strings.TrimSpace(forwarded)
	}
	return c.remoteIP()
}

const (
	typeJSON = "application/json;charset=UTF-8"
	typeText = "text/plain;charset=UTF-8"
	typeHTML = "text/html;charset=UTF-8"
)

// answer writes a whole response.
func (c *call) answer(status int, contentType, body string) {
	c.Header().Set("Content-Type", contentType)
	c.Header().Set("Content-Length", strconv.Itoa(len(body)))
	c.WriteHeader(status)
	_, _ = io.WriteString(c, body) // a client that has left hears nothing
}

// json answers 200 with a value.
func (c *call) json(value any) { c.jsonStatus(http.StatusOK, value) }

func (c *call) jsonStatus(status int, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		c.caused(err.Error())
		return
	}
	c.answer(status, typeJSON, string(body))
}

// caused answers 500 as 2.x does for an exception that nobody handled.
func (c *call) caused(message string) { c.causedStatus(http.StatusInternalServerError, message) }

func (c *call) causedStatus(status int, message string) {
	c.answer(status, typeHTML, "caused: "+html.EscapeString(message)+";")
}

// springError is the body that the web framework makes up for a status without a body.
type springError struct {
	Timestamp string `json:"timestamp"`
	Status    int    `json:"status"`
	Error     string `json:"error"`
	Message   string `json:"message"`
	Path      string `json:"path"`
}

func (c *call) spring(status int, message string) {
	c.jsonStatus(status, springError{Timestamp: time.Now().Format(isoTime), Status: status,
		Error: http.StatusText(status), Message: message, Path: c.req.URL.Path})
}

// result is the envelope of v2 and v3.
type result struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data"`
}

// Codes of the envelope.
const (
	codeOK        = 0
	codeMissing   = 10000
	codeDenied    = 10001
	codeIllegal   = 20002
	codeNotFound  = 20004
	codeConflict  = 20005
	codeGone      = 40000
	codeServerBad = 30000
)

func (c *call) ok(data any) { c.json(result{codeOK, "success", data}) }

func (c *call) fail(status, code int, message string, data any) {
	c.jsonStatus(status, result{code, message, data})
}

// route is how a path is answered.
type route struct {
	op     Op
	need   need
	tenant string // name of the parameter that carries the namespace
	handle func(*Server, *call)
	gone   string // non-empty: Nacos3 answers 410 and names this path instead, unless Config.LegacyAPIs
}

// handler wraps routes, one of which the parameters pick, into everything that calls have in common: reading parameters, faults, authorisation, panics.
func (s *Server) handler(pick func(url.Values) route) http.HandlerFunc {
	return func(rw http.ResponseWriter, req *http.Request) {
		c := &call{ResponseWriter: rw, req: req}
		defer func() {
			if p := recover(); p != nil {
				if p == http.ErrAbortHandler { //nolint:errorlint // the very value is the signal
					panic(p)
				}
				s.log.Error("panic in an HTTP call", slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
				c.caused(fmt.Sprint(p))
			}
		}()
		if s.faults.removedPath(req.URL.Path) {
			c.spring(http.StatusNotFound, "No message available")
			return
		}
		c.params = readParams(req)
		r := pick(c.params)
		if s.faults.gate.settled(req.Context()) != nil {
			panic(http.ErrAbortHandler)
		}
		if r.gone != "" && s.cfg.Behaviour == Nacos3 && !s.cfg.LegacyAPIs {
			s.gone(c, r.gone)
			return
		}
		if s.faults.take(faultLimit, r.op) != nil {
			c.answer(http.StatusServiceUnavailable, typeText, "Tps Flow restricted:deny by fault")
			return
		}
		if err := s.authorize(c, r); err != nil {
			c.spring(http.StatusForbidden, err.Error())
			return
		}
		reply := &heldReply{ResponseWriter: rw, release: func() {
			if s.faults.reply(req.Context(), r.op) {
				panic(http.ErrAbortHandler)
			}
		}}
		c.ResponseWriter = reply
		r.handle(s, c)
		reply.done()
	}
}

// heldReply lets faults act between a call's effect and its reply.
type heldReply struct {
	http.ResponseWriter
	release  func()
	released bool
}

func (h *heldReply) WriteHeader(status int) {
	h.done()
	h.ResponseWriter.WriteHeader(status)
}

func (h *heldReply) Write(b []byte) (int, error) {
	h.done()
	return h.ResponseWriter.Write(b)
}

// Unwrap gives http.ResponseController what lies below.
func (h *heldReply) Unwrap() http.ResponseWriter { return h.ResponseWriter }

func (h *heldReply) done() {
	if !h.released {
		h.released = true
		h.release()
	}
}

// readParams reads query and form. As with the real server, a form beyond its limit counts as not sent, and bytes that
// are not UTF-8 are replaced.
func readParams(req *http.Request) url.Values {
	params := req.URL.Query()
	defer func() {
		for _, values := range params {
			for i, value := range values {
				values[i] = strings.ToValidUTF8(value, "\uFFFD")
			}
		}
	}()
	if req.Body == nil || !strings.HasPrefix(req.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		return params
	}
	body, err := io.ReadAll(io.LimitReader(req.Body, maxForm+1))
	if err != nil || len(body) > maxForm {
		return params
	}
	// A semicolon is a character like any other to the real server; what it cannot decode it leaves out.
	form, _ := url.ParseQuery(strings.ReplaceAll(string(body), ";", "%3B"))
	for name, values := range form {
		params[name] = append(params[name], values...)
	}
	return params
}

// authorize decides on a call and notes who makes it.
func (s *Server) authorize(c *call, r route) error {
	if r.need != needNothing && s.faults.take(faultDeny, r.op) != nil {
		return errForbidden
	}
	if s.auth == nil || r.need == needNothing {
		return nil
	}
	u, err := s.auth.verify(c.token())
	if err != nil {
		return s.wordRefusal(err)
	}
	c.user = u
	return s.wordRefusal(u.allow(r.need, c.param(r.tenant)))
}

// token finds the access token in any of the three places where clients put it.
func (c *call) token() string {
	if token, ok := strings.CutPrefix(c.req.Header.Get("Authorization"), "Bearer "); ok {
		return token
	}
	if token := c.req.Header.Get("accessToken"); token != "" {
		return token
	}
	return c.param("accessToken")
}

// gone answers 410 as 3.x does for paths that it has given up.
func (s *Server) gone(c *call, instead string) {
	text, err := json.Marshal(result{Code: codeGone, Message: "Current API will be deprecated, please use API(s) `" + instead +
		"` instead, or set `nacos.core.api.compatibility.console.enabled=true` in application.properties."})
	if err != nil {
		c.caused(err.Error())
		return
	}
	c.spring(http.StatusGone, strings.Replace(string(text), `,"data":null`, "", 1))
}
