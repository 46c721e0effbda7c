package nacos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// loginPause is the least time between two logins: a new user works only after
// up to 15 s, and a server that refuses must not be hammered.
const loginPause = 5 * time.Second

// auth holds the access token of a client. One login runs at a time.
type auth struct {
	client *client

	turn    chan struct{} // guards the rest; a context can end the wait for it
	current string
	expires time.Time
	tried   time.Time // the newest login
	refused error     // why the newest login failed
	path    string    // the login path that this server has
}

// token returns a token that is not bad, logging in where needed. bad is a
// token that was just refused, "" for none. Where the newest login is younger
// than loginPause its outcome is returned again.
func (a *auth) token(ctx context.Context, bad string) (string, error) {
	select {
	case a.turn <- struct{}{}:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	defer func() { <-a.turn }()
	if a.current != "" && a.current != bad && time.Now().Before(a.expires) {
		return a.current, nil
	}
	if !a.tried.IsZero() && time.Since(a.tried) < loginPause {
		return a.current, a.refused
	}
	token, ttl, err := a.login(ctx)
	if errors.Is(err, context.Canceled) {
		return "", err
	}
	a.tried = time.Now()
	a.refused = err
	if err != nil {
		return "", err
	}
	a.current, a.expires = token, a.tried.Add(ttl*8/10)
	return token, nil
}

// worthRetry tells whether a new login can help after the refusal err: a missing
// right stays missing, so there a new token is tried once a minute only.
func (a *auth) worthRetry(err error) bool {
	a.turn <- struct{}{}
	defer func() { <-a.turn }()
	return !strings.Contains(err.Error(), "authorization failed") || time.Since(a.tried) > time.Minute
}

// login asks the paths of 3.x and of 1.x and 2.x; which one a server has is
// remembered. Any answer but 200 means refused: neither server tells a wrong
// password from an error of its own by the status.
func (a *auth) login(ctx context.Context) (string, time.Duration, error) {
	paths := []string{a.path}
	if a.path == "" {
		paths = []string{"/v3/auth/user/login", "/v1/auth/users/login"}
	}
	var err error
	for i, path := range paths {
		what := fmt.Sprintf("log in as %s", a.client.cfg.Username)
		var got answer
		got, err = a.client.send(ctx, call{
			what: what, method: http.MethodPost, path: path, noLogin: true,
			form: url.Values{"username": {a.client.cfg.Username}, "password": {a.client.cfg.Password.Reveal()}},
		}, "")
		if ae := (*answerError)(nil); errors.As(err, &ae) {
			if ae.removed() && i+1 < len(paths) {
				continue
			}
			return "", 0, fmt.Errorf("%w: login of user %s refused (%d): %s", ErrForbidden, a.client.cfg.Username, ae.status, ae.text)
		}
		if err != nil {
			return "", 0, err
		}
		var body struct {
			AccessToken string `json:"accessToken"`
			TokenTTL    int64  `json:"tokenTtl"`
		}
		if err = got.decode(what, &body); err != nil {
			return "", 0, err
		}
		if body.AccessToken == "" {
			// Servers without authentication answer without a token.
			return "", 0, fmt.Errorf("%w: login of user %s: the server gave no token", ErrForbidden, a.client.cfg.Username)
		}
		if body.TokenTTL <= 0 {
			body.TokenTTL = 18000
		}
		a.path = path
		return body.AccessToken, time.Duration(body.TokenTTL) * time.Second, nil
	}
	return "", 0, err
}
