package server

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

// Secret is a password. It prints as ***.
type Secret string

// String hides the secret.
func (Secret) String() string { return "***" }

// GoString hides the secret from %#v.
func (Secret) GoString() string { return "***" }

// LogValue hides the secret from slog.
func (Secret) LogValue() slog.Value { return slog.StringValue("***") }

// Auth turns authorisation on. Without it (Config.Auth nil) every call is allowed.
type Auth struct {
	// TokenTTL is how long a token is good for. Default: 5 hours.
	TokenTTL time.Duration
	// UserDelay is how long a user that was created over HTTP cannot log in yet: real servers load their users every
	// 15 s. Default: 0, at once.
	UserDelay time.Duration
	// Users are the users that are there from the start. Without an administrator among them, one is created by the
	// first POST to .../auth/users/admin (2.x) or .../auth/user/admin (3.x).
	Users []User
}

// User may log in.
type User struct {
	// Admin may do everything, whatever Grants says.
	Admin bool
	// Grants are what the user may do. None: log in, and nothing else.
	Grants []Grant
	// Name is what the user logs in as.
	Name string
	// Password is what the user logs in with.
	Password Secret
}

// Grant is a permission on the configs of a namespace.
type Grant struct {
	// Namespace is the namespace's id, "" or "public" for the default one, "*" for all.
	Namespace string
	// Write allows publishing and removing, too; reading is always part of a grant.
	Write bool
}

// need is what a call asks of its caller.
type need int

const (
	needNothing need = iota // open without a token
	needUser                // any valid token
	needRead                // read the namespace of the call
	needWrite               // write the namespace of the call
	needAdmin
)

// What the server says to those whom it refuses, in Nacos's words.
//
//nolint:staticcheck // hence the capital and the exclamation marks
var (
	errNoUser    = errors.New("user not found!")
	errForbidden = errors.New("authorization failed!")
	errBadToken  = errors.New("token invalid!")
	errSignature = errors.New("Invalid signature")
	errExpired   = errors.New("token expired!")
)

const defaultTokenTTL = 18000 * time.Second

// authority knows the users and signs tokens. It is safe for concurrent use.
type authority struct {
	ttl   time.Duration
	delay time.Duration

	mu          sync.RWMutex
	key         []byte
	users       map[string]*account
	permissions map[string][]Grant // by role
}

type account struct {
	User
	roles  []string
	usable time.Time
}

// newAuthority returns nil if authorisation is off.
func newAuthority(cfg *Auth) *authority {
	if cfg == nil {
		return nil
	}
	a := &authority{ttl: cfg.TokenTTL, delay: cfg.UserDelay, users: make(map[string]*account), permissions: make(map[string][]Grant)}
	if a.ttl <= 0 {
		a.ttl = defaultTokenTTL
	}
	for _, u := range cfg.Users {
		a.users[u.Name] = &account{User: u}
	}
	a.rotate()
	return a
}

func (a *authority) rotate() {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	a.mu.Lock()
	defer a.mu.Unlock()
	a.key = key
}

// user returns a user that can log in by now.
func (a *authority) user(name string) (User, bool) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	u, ok := a.users[name]
	if !ok || time.Now().Before(u.usable) {
		return User{}, false
	}
	found := u.User
	found.Grants = slices.Clone(u.Grants)
	for _, role := range u.roles {
		found.Grants = append(found.Grants, a.permissions[role]...)
	}
	return found, true
}

// hasAdmin reports whether there is an administrator, usable or not.
func (a *authority) hasAdmin() bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	for _, u := range a.users {
		if u.Admin {
			return true
		}
	}
	return false
}

func (a *authority) create(u User) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.users[u.Name] = &account{User: u, usable: time.Now().Add(a.delay)}
}

func (a *authority) addRole(name, role string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if u := a.users[name]; u != nil {
		u.roles = append(u.roles, role)
	}
}

func (a *authority) addPermission(role string, g Grant) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.permissions[role] = append(a.permissions[role], g)
}

// passwordFits compares in constant time.
func (u User) passwordFits(password string) bool {
	have, want := sha256.Sum256([]byte(password)), sha256.Sum256([]byte(u.Password))
	return subtle.ConstantTimeCompare(have[:], want[:]) == 1
}

type claims struct {
	Subject string `json:"sub"`
	Expires int64  `json:"exp"`
}

var tokenHeader = base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256"}`))

// token signs a JSON web token for a user.
func (a *authority) token(name string) string {
	body, err := json.Marshal(claims{Subject: name, Expires: time.Now().Add(a.ttl).Unix()})
	if err != nil { // a string and a number always marshal
		return ""
	}
	text := tokenHeader + "." + base64.RawURLEncoding.EncodeToString(body)
	return text + "." + a.sign(text)
}

func (a *authority) sign(text string) string {
	a.mu.RLock()
	defer a.mu.RUnlock()
	mac := hmac.New(sha256.New, a.key)
	mac.Write([]byte(text))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// verify returns the user whom a token speaks for.
func (a *authority) verify(token string) (User, error) {
	if token == "" {
		return User{}, errNoUser
	}
	text, signature, ok := cutLast(token, ".")
	if !ok || strings.Count(text, ".") != 1 {
		return User{}, errBadToken
	}
	_, encoded, _ := strings.Cut(text, ".")
	body, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return User{}, errBadToken
	}
	var c claims
	if err := json.Unmarshal(body, &c); err != nil {
		return User{}, errBadToken
	}
	if !hmac.Equal([]byte(signature), []byte(a.sign(text))) {
		return User{}, errSignature
	}
	if time.Now().Unix() >= c.Expires {
		return User{}, errExpired
	}
	u, ok := a.user(c.Subject)
	if !ok {
		return User{}, errNoUser
	}
	return u, nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// allow decides whether a user may do what a call needs in a namespace.
func (u User) allow(n need, tenant string) error {
	if u.Admin || n <= needUser {
		return nil
	}
	for _, g := range u.Grants {
		if (g.Namespace == "*" || canonical(g.Namespace) == canonical(tenant)) && (n == needRead || n == needWrite && g.Write) {
			return nil
		}
	}
	return errForbidden
}

// authorizeRPC decides on a gRPC call, which carries its token in a header.
func (s *Server) authorizeRPC(req *rpcRequest, call rpcCall) error {
	if s.faults.take(faultDeny, call.op) != nil {
		return errForbidden
	}
	if s.auth == nil {
		return nil
	}
	u, err := s.auth.verify(req.headers["accessToken"])
	if err != nil {
		return s.wordRefusal(err)
	}
	n := needRead
	if call.write {
		n = needWrite
	}
	if call.op == OpListen {
		for _, l := range req.Contexts {
			if err := u.allow(n, l.Tenant); err != nil {
				return s.wordRefusal(err)
			}
		}
		return nil
	}
	return s.wordRefusal(u.allow(n, req.Tenant))
}

// wordRefusal puts a refusal into the words of the imitated server.
func (s *Server) wordRefusal(err error) error {
	if err == nil || s.cfg.Behaviour != Nacos3 {
		return err
	}
	switch {
	case errors.Is(err, errNoUser):
		return errors.New("Code: 401, Message: User not found! Please check user exist or password is right!.") //nolint:staticcheck // the server's wording
	case errors.Is(err, errForbidden):
		return errors.New("Code: 403, Message: " + err.Error() + ".")
	default:
		return errors.New("Code: 401, Message: " + err.Error() + ".")
	}
}
