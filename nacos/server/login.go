package server

import (
	"net/http"
	"strings"
)

// loggedIn is the answer to a login.
type loggedIn struct {
	AccessToken string `json:"accessToken"`
	TokenTTL    int64  `json:"tokenTtl"` // seconds
	GlobalAdmin bool   `json:"globalAdmin"`
	Username    string `json:"username"`
}

// login answers with a token. While authorisation is off, everybody may log in.
func (s *Server) login(c *call) {
	name, password := c.param("username"), c.param("password")
	if s.auth == nil {
		c.json(loggedIn{AccessToken: "none", TokenTTL: int64(defaultTokenTTL.Seconds()), GlobalAdmin: true, Username: name})
		return
	}
	u, known := s.auth.user(name)
	if known && !s.faults.usersMissing() && u.passwordFits(password) {
		token := s.auth.token(name)
		c.Header().Set("Authorization", "Bearer "+token)
		c.json(loggedIn{AccessToken: token, TokenTTL: int64(s.auth.ttl.Seconds()), GlobalAdmin: u.Admin, Username: name})
		return
	}
	s.refuseLogin(c, name, known)
}

// refuseLogin answers a login that fails. Neither version lets clients tell it from a broken server by its status.
func (s *Server) refuseLogin(c *call, name string, known bool) {
	v3 := strings.Contains(c.req.URL.Path, "/v3/")
	switch {
	case s.cfg.Behaviour == Nacos3 && !v3:
		c.spring(http.StatusInternalServerError, "Handle API Compatibility failed, please see log for detail.")
	case v3 && known:
		c.spring(http.StatusInternalServerError, "No message available")
	case v3:
		c.spring(http.StatusForbidden, "Access Denied")
	case known:
		c.answer(http.StatusForbidden, typeText, errNoUser.Error())
	default:
		c.caused("User " + name + " not found")
	}
}

// adminName is the user that the first call to the admin path creates.
const adminName = "nacos"

type newAdmin struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

// firstAdmin creates the first administrator.
func (s *Server) firstAdmin(c *call) {
	v3 := strings.Contains(c.req.URL.Path, "/v3/")
	if s.auth == nil || s.auth.hasAdmin() {
		c.json(result{Code: http.StatusConflict, Message: "have admin user cannot use it"})
		return
	}
	password := c.param("password")
	s.auth.create(User{Name: adminName, Password: Secret(password), Admin: true})
	if v3 {
		c.ok(newAdmin{adminName, password})
		return
	}
	c.json(newAdmin{adminName, password})
}

// managed answers an administrator's change of users, roles or permissions.
func (s *Server) managed(c *call, message string) {
	if strings.Contains(c.req.URL.Path, "/v3/") {
		c.ok(message)
		return
	}
	c.json(v1Result{Code: http.StatusOK, Message: &message})
}

// addUser creates a user who may do nothing yet.
func (s *Server) addUser(c *call) {
	if s.auth != nil {
		s.auth.create(User{Name: c.param("username"), Password: Secret(c.param("password"))})
	}
	s.managed(c, "create user ok!")
}

// addRole gives a user a role.
func (s *Server) addRole(c *call) {
	if s.auth != nil {
		s.auth.addRole(c.param("username"), c.param("role"))
	}
	s.managed(c, "add role ok!")
}

// addPermission lets a role read or write a namespace. Of a resource only the namespace counts here.
func (s *Server) addPermission(c *call) {
	if s.auth != nil {
		tenant, _, _ := strings.Cut(c.param("resource"), ":")
		s.auth.addPermission(c.param("role"), Grant{Namespace: tenant, Write: strings.Contains(c.param("action"), "w")})
	}
	s.managed(c, "add permission ok!")
}
