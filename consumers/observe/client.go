package observe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// client asks the management API.
type client struct {
	base           string
	user, password string
	http           *http.Client
}

// maxAnswer is the largest answer that is read; that for a queue has some
// 600 bytes for each of its consumers.
const maxAnswer = 16 << 20

func newClient(cfg Config) (*client, error) {
	u, err := url.Parse(string(cfg.Management))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		// The parser's message quotes the address, so it is not passed on.
		return nil, errors.New("observe: Config.Management is not an address of the form https://user:password@host:port")
	}
	c := &client{base: u.Scheme + "://" + u.Host + strings.TrimSuffix(u.Path, "/"), user: u.User.Username()}
	c.password, _ = u.User.Password()
	c.http = &http.Client{
		Transport: &http.Transport{
			TLSClientConfig: cfg.TLS, MaxConnsPerHost: cfg.Parallel, MaxIdleConnsPerHost: cfg.Parallel,
			IdleConnTimeout: 30 * time.Second, Proxy: http.ProxyFromEnvironment, ResponseHeaderTimeout: cfg.Timeout,
		},
		// The password is for this host alone.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

// statusError is an answer other than 200.
type statusError struct {
	status int
	reason string
}

func (e *statusError) Error() string {
	if e.reason == "" {
		return fmt.Sprintf("%d %s", e.status, http.StatusText(e.status))
	}
	return fmt.Sprintf("%d %s", e.status, e.reason)
}

// get asks for a path and decodes the answer.
func (c *client) get(ctx context.Context, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return fmt.Errorf("asking the management API for %s: %w", path, err)
	}
	req.SetBasicAuth(c.user, c.password)
	res, err := c.http.Do(req)
	if err != nil {
		var with *url.Error
		if errors.As(err, &with) {
			err = with.Err // without the address, which says nothing new
		}
		return fmt.Errorf("asking the management API: %w", err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("reading the management API's answer: %w", err)
	case len(body) > maxAnswer:
		return fmt.Errorf("the management API's answer is larger than %d bytes", maxAnswer)
	case res.StatusCode != http.StatusOK:
		var said struct{ Reason string }
		_ = json.Unmarshal(body, &said) // proxies answer in HTML; the status says enough
		return &statusError{res.StatusCode, said.Reason}
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("the management API's answer: %w", err)
	}
	return nil
}

// advise says what to do about an error of the API.
func (c *client) advise(err error) string {
	var status *statusError
	if !errors.As(err, &status) {
		return "check the management address; until then numbers come from passive declare"
	}
	switch status.status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Sprintf("check the password of user %q and give it the tag monitoring (rabbitmqctl set_user_tags %s monitoring) and access to the virtual host", c.user, c.user)
	case http.StatusBadRequest:
		return "statistics are disabled on the broker; numbers come from passive declare"
	case http.StatusNotFound:
		return "check that the address is that of the management API, with its path prefix"
	}
	return "until it answers numbers come from passive declare"
}

// probe is what the API says of itself.
type probe struct {
	version       string
	statsDisabled bool
	tags          []string
}

func (c *client) probe(ctx context.Context) (probe, error) {
	var who struct{ Tags json.RawMessage }
	if err := c.get(ctx, "/api/whoami", &who); err != nil {
		return probe{}, err
	}
	var overview struct {
		Version  string `json:"rabbitmq_version"`
		Disabled bool   `json:"disable_stats"`
	}
	if err := c.get(ctx, "/api/overview?columns=rabbitmq_version,disable_stats", &overview); err != nil {
		return probe{}, err
	}
	return probe{overview.Version, overview.Disabled, tagsOf(who.Tags)}, nil
}

// tagsOf reads tags, which old servers write as one text with commas.
func tagsOf(raw json.RawMessage) []string {
	var list []string
	if json.Unmarshal(raw, &list) == nil {
		return list
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return strings.Split(text, ",")
	}
	return nil
}

func (p *probe) seesAll() bool {
	return slices.Contains(p.tags, "monitoring") || slices.Contains(p.tags, "administrator")
}

// connection is who a consumer's connection belongs to.
type connection struct{ name, app, instance string }

func (c *client) connection(ctx context.Context, name string) (connection, error) {
	var got struct {
		Name       string `json:"user_provided_name"`
		Properties struct {
			App      any    `json:"belay-app"`
			Instance any    `json:"belay-instance"`
			Name     string `json:"connection_name"`
		} `json:"client_properties"`
	}
	if err := c.get(ctx, "/api/connections/"+url.PathEscape(name)+"?columns=user_provided_name,client_properties", &got); err != nil {
		return connection{}, err
	}
	out := connection{name: got.Name}
	out.app, _ = got.Properties.App.(string)
	out.instance, _ = got.Properties.Instance.(string)
	if out.name == "" {
		out.name = got.Properties.Name
	}
	return out, nil
}
