package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// StatsMode says what the management API tells of queues.
type StatsMode int32

// The modes of statistics.
const (
	StatsOn      StatsMode = iota
	StatsBare              // as RabbitMQ 3.10 with statistics disabled: a queue without numbers, no consumers
	StatsRefused           // every question for statistics is answered 400
)

// SetStats changes what the management API tells.
func (b *Broker) SetStats(mode StatsMode) { b.stats.Store(int32(mode)) }

// ManagementURL is the address of the management API, without a user; empty
// where Config.ManagementAddr is.
func (b *Broker) ManagementURL() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.managementAddr == "" {
		return ""
	}
	return "http://" + b.managementAddr
}

// manage serves the management API until the broker stops.
func (b *Broker) manage(ctx context.Context, addr string) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("listening for the management API on %s: %w", addr, err)
	}
	server := &http.Server{
		Handler: b.ManagementHandler(), ReadTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second,
		MaxHeaderBytes: 64 << 10,
	}
	b.mu.Lock()
	b.management, b.managementAddr = server, l.Addr().String()
	stop := b.halt
	b.mu.Unlock()
	b.running.Go(func() { b.sampling(stop) })
	b.running.Go(func() {
		defer b.rescue("management API")
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			b.log.Error("serving the management API", "error", err)
		}
	})
	return nil
}

// ManagementHandler serves the management API: the part of RabbitMQ's that
// tells of queues, consumers and policies. Numbers are as old as
// Config.StatsInterval, and are only taken while the broker listens for the
// API.
func (b *Broker) ManagementHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out, refused := b.route(r)
		switch {
		case refused != nil:
			refused.write(w)
		case out == nil:
			w.WriteHeader(http.StatusNoContent)
		default:
			writeJSON(w, http.StatusOK, out)
		}
	})
}

// endpoint answers one path of the API. Parts in braces become path values.
type endpoint struct {
	method, path string
	stats        bool // it has nothing to say without statistics
	answer       func(*Broker, *user, *http.Request) (any, *apiError)
}

var endpoints = []endpoint{
	{"GET", "/api/whoami", false, (*Broker).apiWhoami},
	{"GET", "/api/overview", false, (*Broker).apiOverview},
	{"GET", "/api/queues", true, (*Broker).apiQueues},
	{"GET", "/api/queues/{vhost}", true, (*Broker).apiQueues},
	{"GET", "/api/queues/{vhost}/{name}", true, (*Broker).apiQueue},
	{"GET", "/api/consumers", true, (*Broker).apiConsumers},
	{"GET", "/api/consumers/{vhost}", true, (*Broker).apiConsumers},
	{"GET", "/api/connections", false, (*Broker).apiConnections},
	{"GET", "/api/connections/{name}", false, (*Broker).apiConnection},
	{"GET", "/api/policies", false, (*Broker).apiPolicies},
	{"GET", "/api/policies/{vhost}", false, (*Broker).apiPolicies},
	{"PUT", "/api/policies/{vhost}/{name}", false, (*Broker).apiPutPolicy},
	{"DELETE", "/api/policies/{vhost}/{name}", false, (*Broker).apiDeletePolicy},
}

// route finds the endpoint by the escaped path: http.ServeMux would take the
// vhost "/" for an empty part of the path and redirect.
func (b *Broker) route(r *http.Request) (any, *apiError) {
	for i := range endpoints {
		if e := &endpoints[i]; e.method == r.Method && e.match(r) {
			return b.ask(e, r)
		}
	}
	return nil, errNotFound
}

func (e *endpoint) match(r *http.Request) bool {
	want, got := strings.Split(e.path, "/"), strings.Split(r.URL.EscapedPath(), "/")
	if len(want) != len(got) {
		return false
	}
	for i, part := range want {
		value, err := url.PathUnescape(got[i])
		if err != nil {
			return false
		}
		if name, ok := strings.CutPrefix(part, "{"); ok {
			r.SetPathValue(strings.TrimSuffix(name, "}"), value)
		} else if part != value {
			return false
		}
	}
	return true
}

// apiError is an answer of the management API that is not 200.
type apiError struct {
	status int
	Error  string `json:"error"`
	Reason string `json:"reason"`
}

var (
	errNotFound    = &apiError{http.StatusNotFound, "Object Not Found", "Not Found"}
	errLogin       = &apiError{http.StatusUnauthorized, "not_authorized", "Login failed"}
	errNoManager   = &apiError{http.StatusUnauthorized, "not_authorised", "Not management user"}
	errNoVhost     = &apiError{http.StatusUnauthorized, "not_authorised", "User not authorised to access virtual host"}
	errNotYours    = &apiError{http.StatusUnauthorized, "not_authorised", "User not authorised to access object"}
	errNoPolicies  = &apiError{http.StatusUnauthorized, "not_authorised", "Not policymaker user"}
	errStatsHidden = &apiError{http.StatusBadRequest, "bad_request", "Stats in management UI are disabled on this node"}
)

func (e *apiError) write(w http.ResponseWriter) {
	if e.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Basic realm="RabbitMQ Management"`)
	}
	writeJSON(w, e.status, e)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil { // such as a NaN in a client's properties
		status, text = http.StatusInternalServerError, []byte(`{"error":"internal_server_error","reason":"not representable"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(text) //nolint:errcheck // the client has gone, then
}

// ask checks who asks and whether it may.
func (b *Broker) ask(e *endpoint, r *http.Request) (any, *apiError) {
	if err := b.faults.pass(r.Context().Done()); err != nil {
		return nil, errNotFound
	}
	b.faults.pause(r.Context().Done())
	name, password, _ := r.BasicAuth()
	u := b.login(name, password)
	switch {
	case u == nil:
		return nil, errLogin
	case !u.has("management", "monitoring", "policymaker", "administrator"):
		return nil, errNoManager
	case e.stats && StatsMode(b.stats.Load()) == StatsRefused:
		return nil, errStatsHidden
	}
	if vhost := r.PathValue("vhost"); vhost != "" {
		if b.vhost(vhost) == nil {
			return nil, errNotFound
		}
		if !u.mayEnter(vhost) && !u.seesAll() {
			return nil, errNoVhost
		}
	}
	return e.answer(b, u, r)
}

// seesAll says whether the user sees what belongs to others.
func (u *user) seesAll() bool { return u.has("monitoring", "administrator") }

func (b *Broker) apiWhoami(u *user, _ *http.Request) (any, *apiError) {
	return map[string]any{"name": u.name, "tags": u.tags}, nil
}

func (b *Broker) apiOverview(*user, *http.Request) (any, *apiError) {
	return map[string]any{
		"management_version": b.cfg.Version, "rabbitmq_version": b.cfg.Version, "product_name": "RabbitMQ", "product_version": b.cfg.Version,
		"cluster_name": "belay@embedded", "rates_mode": "basic",
		"disable_stats": StatsMode(b.stats.Load()) != StatsOn, "enable_queue_totals": false,
		"sample_retention_policies": map[string]any{"basic": []int{600, 3600}},
		"object_totals":             map[string]any{"connections": len(b.conns())},
	}, nil
}

// vhostsFor are the vhosts that a question is about.
func (b *Broker) vhostsFor(u *user, r *http.Request) []*vhost {
	if name := r.PathValue("vhost"); name != "" {
		return []*vhost{b.vhost(name)}
	}
	var out []*vhost
	for _, v := range b.allVhosts() {
		if u.seesAll() || u.mayEnter(v.name) {
			out = append(out, v)
		}
	}
	return out
}

func (b *Broker) apiConnections(u *user, _ *http.Request) (any, *apiError) {
	out := []any{}
	for _, c := range b.Connections() {
		if u.seesAll() || c.User == u.name {
			out = append(out, c.json())
		}
	}
	return out, nil
}

func (b *Broker) apiConnection(u *user, r *http.Request) (any, *apiError) {
	for _, c := range b.Connections() {
		switch {
		case c.path != r.PathValue("name"):
		case u.seesAll() || c.User == u.name:
			return c.json(), nil
		default:
			return nil, errNotYours
		}
	}
	return nil, errNotFound
}

func (c *Connection) json() map[string]any {
	return map[string]any{
		"name": c.path, "user": c.User, "vhost": c.Vhost, "channels": c.Channels,
		"client_properties": orEmpty(c.Properties), "user_provided_name": c.Name, "connected_at": c.Since.UnixMilli(),
	}
}

// apiPolicy is a policy as the API writes it.
type apiPolicy struct {
	ApplyTo    string         `json:"apply-to"`
	Definition map[string]any `json:"definition"`
	Name       string         `json:"name"`
	Pattern    string         `json:"pattern"`
	Priority   int            `json:"priority"`
	Vhost      string         `json:"vhost"`
}

func (b *Broker) apiPolicies(u *user, r *http.Request) (any, *apiError) {
	out := []apiPolicy{}
	for _, v := range b.vhostsFor(u, r) {
		v.mu.Lock()
		for _, p := range v.policies {
			applyTo := p.ApplyTo
			if applyTo == "" {
				applyTo = "all"
			}
			out = append(out, apiPolicy{applyTo, orEmpty(p.Definition), p.Name, p.Pattern, p.Priority, v.name})
		}
		v.mu.Unlock()
	}
	return out, nil
}

func orEmpty(t Table) Table {
	if t == nil {
		return Table{}
	}
	return t
}

func (b *Broker) apiPutPolicy(u *user, r *http.Request) (any, *apiError) {
	if !u.has("policymaker", "administrator") {
		return nil, errNoPolicies
	}
	var in apiPolicy
	if err := json.NewDecoder(http.MaxBytesReader(nil, r.Body, 64<<10)).Decode(&in); err != nil {
		return nil, &apiError{http.StatusBadRequest, "not_json", err.Error()}
	}
	definition := Table{}
	for k, v := range in.Definition {
		if n, ok := v.(float64); ok {
			v = int64(n)
		}
		definition[k] = v
	}
	err := b.SetPolicy(r.PathValue("vhost"), Policy{
		ApplyTo: in.ApplyTo, Definition: definition, Name: r.PathValue("name"), Pattern: in.Pattern, Priority: in.Priority,
	})
	if err != nil {
		return nil, &apiError{http.StatusBadRequest, "bad_request", err.Error()}
	}
	return nil, nil
}

func (b *Broker) apiDeletePolicy(u *user, r *http.Request) (any, *apiError) {
	if !u.has("policymaker", "administrator") {
		return nil, errNoPolicies
	}
	if !b.DeletePolicy(r.PathValue("vhost"), r.PathValue("name")) {
		return nil, errNotFound
	}
	return nil, nil
}

// remoteName is what the API calls a connection.
func (c *conn) remoteName() string {
	return strings.TrimPrefix(c.nc.RemoteAddr().String()+" -> "+c.nc.LocalAddr().String(), "pipe -> ")
}
