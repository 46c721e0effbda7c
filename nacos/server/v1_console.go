package server

import (
	"net/http"
	"strconv"
)

// v1Listeners answers who listens, keyed by what the query was not about.
type v1Listeners struct {
	CollectStatus int               `json:"collectStatus"`
	Listeners     map[string]string `json:"lisentersGroupkeyStatus"` // spelled as the server spells it
}

// v1Listeners answers which clients listen to a config, and with which md5.
func (s *Server) v1Listeners(c *call) {
	if k, ok := s.v1Key(c); ok {
		c.json(v1Listeners{http.StatusOK, s.listenersOf(k)})
	}
}

// v1ListenedBy answers what the clients at an address listen to.
func (s *Server) v1ListenedBy(c *call) {
	if c.param("ip") == "" {
		s.missing(c, "ip")
		return
	}
	c.json(v1Listeners{http.StatusOK, s.listenedText(c, "tenant")})
}

// listenedText returns what the clients at an address listen to, as dataId+group+tenant, all of it or that of one
// namespace.
func (s *Server) listenedText(c *call, tenantParam string) map[string]string {
	tenant, all := c.param(tenantParam), c.param("all") == "true"
	found := make(map[string]string)
	for k, md5 := range s.listenedBy(c.param("ip")) {
		k.tenant = s.traits.show(k.tenant)
		if all || k.tenant == tenant {
			found[k.String()] = md5
		}
	}
	return found
}

// namespaceQuota is how many configs a namespace may have, as real servers claim.
const namespaceQuota = 200

type namespaceItem struct {
	Namespace   string `json:"namespace"`
	ShowName    string `json:"namespaceShowName"`
	Desc        string `json:"namespaceDesc"`
	Quota       int    `json:"quota"`
	ConfigCount int    `json:"configCount"`
	Type        int    `json:"type"`
}

func (s *Server) namespaceItems() []namespaceItem {
	items := []namespaceItem{{Namespace: s.traits.publicID, ShowName: publicNamespace, Desc: "Default Namespace", Quota: namespaceQuota}}
	if s.cfg.Behaviour == RNacos {
		return items
	}
	items[0].ConfigCount = s.db.count("")
	kind := 2
	if s.cfg.Behaviour == Nacos3 {
		kind = 1
	}
	for _, n := range s.db.listNamespaces() {
		items = append(items, namespaceItem{Namespace: n.ID, ShowName: n.Name, Desc: n.Desc, Quota: namespaceQuota,
			ConfigCount: s.db.count(n.ID), Type: kind})
	}
	return items
}

// v1Result is the envelope of the old console; its code is an HTTP status.
type v1Result struct {
	Code    int     `json:"code"`
	Message *string `json:"message"`
	Data    any     `json:"data"`
}

func (s *Server) v1Namespaces(c *call) {
	c.json(v1Result{Code: http.StatusOK, Data: s.namespaceItems()})
}

// addNamespace creates a namespace; it answers itself and reports false if it cannot.
func (s *Server) addNamespace(c *call) (bool, bool) {
	n := namespace{ID: c.param("customNamespaceId"), Name: c.param("namespaceName"), Desc: c.param("namespaceDesc")}
	if n.ID == "" {
		n.ID = c.param("namespaceId")
	}
	if n.Name == "" {
		s.missing(c, "namespaceName")
		return false, false
	}
	if n.ID == "" {
		n.ID = contentMD5(n.Name)
	}
	if err := checkKey(key{tenant: n.ID}); err != nil || canonical(n.ID) == "" {
		return false, true
	}
	added, err := s.db.addNamespace(n)
	if err != nil {
		c.caused(err.Error())
		return false, false
	}
	return added, true
}

func (s *Server) v1AddNamespace(c *call) {
	if added, ok := s.addNamespace(c); ok {
		c.answer(http.StatusOK, typeJSON, strconv.FormatBool(added))
	}
}

// serverState is what a server says of itself.
func (s *Server) serverState() map[string]any {
	return map[string]any{
		"version": s.traits.version, "standalone_mode": "standalone", "function_mode": nil,
		"auth_enabled": strconv.FormatBool(s.auth != nil), "startup_mode": "standalone",
	}
}

func (s *Server) v1State(c *call) { c.json(s.serverState()) }

func (s *Server) v1Health(c *call) { c.answer(http.StatusOK, typeText, "OK") }

// connectionInfo is a gRPC connection as the loader shows it.
type connectionInfo struct {
	Traced    bool           `json:"traced"`
	Connected bool           `json:"connected"`
	Meta      connectionMeta `json:"metaInfo"`
}

type connectionMeta struct {
	ConnectType    string            `json:"connectType"`
	ClientIP       string            `json:"clientIp"`
	RemoteIP       string            `json:"remoteIp"`
	RemotePort     int               `json:"remotePort"`
	LocalPort      int               `json:"localPort"`
	Version        string            `json:"version"`
	ConnectionID   string            `json:"connectionId"`
	CreateTime     string            `json:"createTime"`
	LastActiveTime int64             `json:"lastActiveTime"`
	AppName        string            `json:"appName"`
	Labels         map[string]string `json:"labels"`
	SDKSource      bool              `json:"sdkSource"`
}

// currentConnections returns the gRPC connections by id.
func (s *Server) currentConnections() map[string]connectionInfo {
	found := make(map[string]connectionInfo)
	_, localPort := splitAddr(s.grpcAddr)
	for _, c := range s.conns.list() {
		ip, port := splitAddr(c.remote.String())
		found[c.id] = connectionInfo{Connected: true, Meta: connectionMeta{ConnectType: "GRPC", ClientIP: c.clientIP, RemoteIP: ip,
			RemotePort: port, LocalPort: localPort, Version: c.version, ConnectionID: c.id, CreateTime: c.created.UTC().Format(isoTime),
			LastActiveTime: c.active.Load(), AppName: c.app, Labels: c.labels, SDKSource: c.labels["source"] == "sdk"}}
	}
	return found
}

func (s *Server) v1Connections(c *call) { c.json(s.currentConnections()) }
