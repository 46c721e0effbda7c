package nacos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// maxAnswer bounds what is read of one answer: Nacos stores at most 10 MiB.
const maxAnswer = 32 << 20

// call is one HTTP request to Nacos.
type call struct {
	what    string // in words, for errors: "read app/rabbitmq-toggle.properties"
	method  string
	path    string // below the context path
	query   url.Values
	form    url.Values
	header  http.Header
	console bool          // on the console's port, without the context path
	noLogin bool          // without a token
	timeout time.Duration // 0: the configured one
	once    bool          // never repeated on another server: not idempotent
}

// answer is a 200.
type answer struct {
	body   []byte
	header http.Header
}

// client sends calls to the servers of a store, with a token where there is a
// user, and moves to the next server when one cannot be reached.
type client struct {
	cfg   *settled
	http  *http.Client
	cur   atomic.Uint32 // index of the server in use
	auth  *auth
	stats *stats
}

func newClient(cfg *settled, stats *stats) *client {
	c := &client{cfg: cfg, stats: stats}
	c.http = &http.Client{
		Transport: &http.Transport{
			DialContext:           (&net.Dialer{Timeout: cfg.CallTimeout, KeepAlive: 15 * time.Second}).DialContext,
			TLSClientConfig:       cfg.tls,
			TLSHandshakeTimeout:   cfg.CallTimeout,
			MaxConnsPerHost:       32, // many configs are read at once, in an outage too
			MaxIdleConnsPerHost:   8,
			IdleConnTimeout:       30 * time.Second,
			ResponseHeaderTimeout: 0, // every call has its own deadline
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	c.auth = &auth{client: c, turn: make(chan struct{}, 1)}
	return c
}

// endpoint returns the server in use, or one that follows it.
func (c *client) endpoint(skip int) endpoint {
	return c.cfg.endpoints[(int(c.cur.Load())+skip)%len(c.cfg.endpoints)]
}

// do sends the call. Errors are *answerError for answers other than 200, and
// wrap ErrUnavailable where there was no answer.
func (c *client) do(ctx context.Context, r call) (answer, error) {
	tries := len(c.cfg.endpoints)
	if r.once {
		tries = 1
	}
	var err error
	for range tries {
		used := c.cur.Load()
		var a answer
		a, err = c.authorised(ctx, r)
		if err == nil || ctx.Err() != nil {
			return a, err
		}
		if ae := (*answerError)(nil); errors.As(err, &ae) {
			return a, err
		}
		c.cur.CompareAndSwap(used, used+1)
	}
	return answer{}, err
}

// authorised adds the token and, on a 403, logs in again and repeats the call.
func (c *client) authorised(ctx context.Context, r call) (answer, error) {
	if c.cfg.Username == "" || r.noLogin {
		return c.send(ctx, r, "")
	}
	token, err := c.auth.token(ctx, "")
	if err != nil {
		return answer{}, fmt.Errorf("%s: %w", r.what, err)
	}
	a, err := c.send(ctx, r, token)
	if !errors.Is(err, ErrForbidden) {
		return a, err
	}
	if !c.auth.worthRetry(err) {
		return a, err
	}
	fresh, lerr := c.auth.token(ctx, token)
	if lerr != nil {
		return a, fmt.Errorf("%w; logging in again: %w", err, lerr)
	}
	if fresh == token {
		return a, err
	}
	return c.send(ctx, r, fresh)
}

func (c *client) send(ctx context.Context, r call, token string) (answer, error) {
	timeout := r.timeout
	if timeout == 0 {
		timeout = c.cfg.CallTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %v", timeout))
	defer cancel()
	e := c.endpoint(0)
	target := e.base + r.path
	if r.console {
		target = e.console + r.path
	}
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	var body io.Reader
	if r.form != nil {
		body = strings.NewReader(r.form.Encode())
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, body)
	if err != nil {
		return answer{}, fmt.Errorf("%s: %w", r.what, err)
	}
	for k, v := range r.header {
		req.Header[k] = v
	}
	if r.form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=UTF-8")
	}
	req.Header.Set("User-Agent", "belay")
	if token != "" {
		req.Header["accessToken"] = []string{token} // spelled as Nacos documents it
	}
	c.stats.requests.Add(1)
	began := time.Now()
	resp, err := c.http.Do(req)
	if err != nil {
		return answer{}, c.unreachable(ctx, r.what, e, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return answer{}, c.unreachable(ctx, r.what, e, err)
	}
	if len(text) > maxAnswer {
		return answer{}, fmt.Errorf("%s: %w: the answer exceeds %d bytes", r.what, ErrTooLarge, maxAnswer)
	}
	if resp.StatusCode < 500 {
		c.stats.ok(time.Since(began))
	}
	if resp.StatusCode != http.StatusOK {
		return answer{}, refusal(r.what, resp.StatusCode, text)
	}
	return answer{body: text, header: resp.Header}, nil
}

// unreachable says why there was no answer, without the URL, whose query may
// hold what the user would rather not see in a log.
func (c *client) unreachable(ctx context.Context, what string, e endpoint, err error) error {
	if ue := (*url.Error)(nil); errors.As(err, &ue) {
		err = ue.Err
	}
	if cause := context.Cause(ctx); cause != nil && ctx.Err() != nil {
		err = cause
	}
	host := strings.TrimPrefix(strings.TrimPrefix(e.base, "http://"), "https://")
	host, _, _ = strings.Cut(host, "/")
	if errors.Is(err, context.Canceled) || errors.Is(err, ErrClosed) {
		return fmt.Errorf("%s (%s): %w", what, host, err)
	}
	err = fmt.Errorf("%s (%s): %w: %w", what, host, ErrUnavailable, err)
	c.stats.fail(err)
	return err
}

// refusal reads the error shapes of Nacos: plain text, Spring's error JSON, and
// {code, message, data} of v2 and v3.
func refusal(what string, status int, body []byte) *answerError {
	e := &answerError{what: what, status: status, text: strings.TrimSpace(string(body))}
	var shape struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	}
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) && json.Unmarshal(body, &shape) == nil {
		e.code = shape.Code
		if shape.Message != "" {
			e.text = shape.Message
		}
		var data string
		if json.Unmarshal(shape.Data, &data) == nil && data != "" {
			e.text += ": " + data
		}
		// 410 carries a second JSON text inside its message.
		var inner struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		}
		if strings.HasPrefix(shape.Message, "{") && json.Unmarshal([]byte(shape.Message), &inner) == nil && inner.Message != "" {
			e.text = inner.Message
		}
	}
	if len(e.text) > 300 {
		e.text = strings.ToValidUTF8(e.text[:300], "") + "…"
	}
	return e
}

// unwrap reads {code, message, data} of a v2 or v3 answer into data.
func (a answer) unwrap(what string, data any) error {
	var shape struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(a.body, &shape); err != nil {
		return fmt.Errorf("%s: %w: the answer is not what Nacos sends: %w", what, ErrUnavailable, err)
	}
	if shape.Code != 0 && shape.Code != 200 {
		return refusal(what, http.StatusOK, a.body)
	}
	if err := json.Unmarshal(shape.Data, data); err != nil {
		return fmt.Errorf("%s: %w: the answer is not what Nacos sends: %w", what, ErrUnavailable, err)
	}
	return nil
}

// decode reads a bare JSON answer of v1.
func (a answer) decode(what string, data any) error {
	if err := json.Unmarshal(a.body, data); err != nil {
		return fmt.Errorf("%s: %w: the answer is not what Nacos sends: %w", what, ErrUnavailable, err)
	}
	return nil
}

// close gives the connections back.
func (c *client) close() { c.http.CloseIdleConnections() }
