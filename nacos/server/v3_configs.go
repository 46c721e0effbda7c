package server

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
)

// groupKey reads the names of a config where v2 and v3 have them. It answers itself and reports false if one is
// missing or illegal.
func (s *Server) groupKey(c *call, groupParam string) (key, bool) {
	for _, name := range []string{"dataId", groupParam} {
		if c.param(name) == "" {
			s.missingInEnvelope(c, name)
			return key{}, false
		}
	}
	k := key{tenant: canonical(c.param("namespaceId")), group: c.param(groupParam), dataID: c.param("dataId")}
	return k, s.v1Check(c, k)
}

// keyed makes a handler of one that needs the names of a config, as v2 or v3 send them.
func keyed(names func(*Server, *call) (key, bool), handle func(*Server, *call, key)) func(*Server, *call) {
	return func(s *Server, c *call) {
		if k, ok := names(s, c); ok {
			handle(s, c, k)
		}
	}
}

func (s *Server) v2Key(c *call) (key, bool) { return s.groupKey(c, "group") }

func (s *Server) v3Key(c *call) (key, bool) { return s.groupKey(c, "groupName") }

func (s *Server) missingInEnvelope(c *call, name string) {
	c.fail(http.StatusBadRequest, codeMissing, "parameter missing", "Required parameter '"+name+"' type String is not present")
}

// v2Get answers the content as reads see it.
func (s *Server) v2Get(c *call, k key) {
	if e := s.dump.get(c.req.Context(), k); e != nil {
		c.ok(e.content)
		return
	}
	c.fail(http.StatusNotFound, codeNotFound, "resource not found", "config data not exist")
}

// v3ClientConfig is a config as a client of 3.x reads it.
type v3ClientConfig struct {
	ResultCode       int     `json:"resultCode"`
	ErrorCode        int     `json:"errorCode"`
	Message          *string `json:"message"`
	RequestID        *string `json:"requestId"`
	Content          string  `json:"content"`
	EncryptedDataKey string  `json:"encryptedDataKey"`
	ContentType      string  `json:"contentType"`
	MD5              string  `json:"md5"`
	LastModified     int64   `json:"lastModified"`
	Tag              *string `json:"tag"`
	Beta             bool    `json:"beta"`
	Success          bool    `json:"success"`
}

// v3ClientGet answers the content as reads see it. A missing config is not an HTTP error here.
func (s *Server) v3ClientGet(c *call, k key) {
	e := s.dump.get(c.req.Context(), k)
	if e == nil {
		c.fail(http.StatusOK, codeNotFound, "resource not found", "config data not exist")
		return
	}
	c.ok(v3ClientConfig{ResultCode: rpcSuccess, Content: e.content, EncryptedDataKey: e.dataKey, ContentType: e.typ, MD5: e.md5,
		LastModified: e.modified, Success: true})
}

// publishInEnvelope stores a config and answers as v2 and v3 do.
func (s *Server) publishInEnvelope(c *call, k key) {
	if strings.TrimSpace(c.param("content")) == "" {
		s.missingInEnvelope(c, "content")
		return
	}
	err := s.publish(c.req.Context(), c.writeOf(k, "configTags", "srcUser"))
	switch {
	case err == nil:
		c.ok(true)
	case errors.Is(err, errConflict):
		c.fail(http.StatusInternalServerError, codeConflict, "resource conflict", err.Error())
	default:
		c.fail(http.StatusInternalServerError, codeServerBad, "server error", err.Error())
	}
}

// removeInEnvelope removes a config and answers as v2 and v3 do.
func (s *Server) removeInEnvelope(c *call, k key) {
	if err := s.remove(c.req.Context(), k, c.sourceIP(), sent(c.user.Name)); err != nil {
		c.fail(http.StatusInternalServerError, codeServerBad, "server error", err.Error())
		return
	}
	c.ok(true)
}

// v3Detail is a config with everything that 3.x tells of it: no use, effect and schema.
type v3Detail struct {
	ID               string  `json:"id"`
	NamespaceID      string  `json:"namespaceId"`
	GroupName        string  `json:"groupName"`
	DataID           string  `json:"dataId"`
	MD5              string  `json:"md5"`
	Type             string  `json:"type"`
	AppName          string  `json:"appName"`
	CreateTime       int64   `json:"createTime"` // of the last write, as real servers have it
	ModifyTime       int64   `json:"modifyTime"`
	Content          string  `json:"content"`
	Desc             *string `json:"desc"`
	EncryptedDataKey string  `json:"encryptedDataKey"`
	CreateUser       *string `json:"createUser"`
	CreateIP         string  `json:"createIp"`
	ConfigTags       *string `json:"configTags"`
}

// v3Show answers a config as the database has it; unlike the client's read it is never old.
func (s *Server) v3Show(c *call, k key) {
	r := s.db.get(k)
	if r == nil {
		c.fail(http.StatusNotFound, codeNotFound, "resource not found", "Config not exist, please publish Config first.")
		return
	}
	c.ok(v3Detail{ID: strconv.FormatInt(r.ID, 10), NamespaceID: s.traits.show(r.Tenant), GroupName: r.Group, DataID: r.DataID,
		MD5: r.MD5, Type: r.Type, AppName: r.AppName, CreateTime: r.Modified, ModifyTime: r.Modified, Content: r.Content,
		Desc: r.Desc, EncryptedDataKey: r.EncryptedDataKey, CreateUser: r.SrcUser, CreateIP: r.SrcIP, ConfigTags: r.Tags})
}

// v3Item is a config in a list: with md5, without content and times.
type v3Item struct {
	ID          string `json:"id"`
	NamespaceID string `json:"namespaceId"`
	GroupName   string `json:"groupName"`
	DataID      string `json:"dataId"`
	MD5         string `json:"md5"`
	Type        string `json:"type"`
	AppName     string `json:"appName"`
	CreateTime  int64  `json:"createTime"`
	ModifyTime  int64  `json:"modifyTime"`
}

// v3Page reads which page is asked for. It answers itself and reports false if there can be no such page.
func (s *Server) v3Page(c *call) (number, size int, ok bool) {
	number, size = c.number("pageNo", 1), c.number("pageSize", defaultPage)
	if number < 1 || size < 1 {
		c.fail(http.StatusBadRequest, codeIllegal, "parameter validate error", "Required parameter 'pageNo' and 'pageSize' should be positive integer")
		return 0, 0, false
	}
	return number, size, true
}

// v3List answers a page of configs, from the database.
func (s *Server) v3List(c *call) {
	number, size, ok := s.v3Page(c)
	if !ok {
		return
	}
	found := s.db.search(s.queryOf(c, canonical(c.param("namespaceId")), "groupName", "configTags"))
	c.ok(paged(found, number, size, func(r *record) v3Item {
		return v3Item{ID: strconv.FormatInt(r.ID, 10), NamespaceID: s.traits.show(r.Tenant), GroupName: r.Group, DataID: r.DataID,
			MD5: r.MD5, Type: r.Type, AppName: r.AppName}
	}))
}

// v3Row is a history row in a list.
type v3Row struct {
	ID          string  `json:"id"`
	NamespaceID string  `json:"namespaceId"`
	GroupName   string  `json:"groupName"`
	DataID      string  `json:"dataId"`
	MD5         *string `json:"md5"`
	Type        *string `json:"type"`
	AppName     string  `json:"appName"`
	CreateTime  int64   `json:"createTime"`
	ModifyTime  int64   `json:"modifyTime"`
	SrcIP       string  `json:"srcIp"`
	SrcUser     *string `json:"srcUser"`
	OpType      string  `json:"opType"`
	PublishType string  `json:"publishType"`
}

// v3FullRow is a history row by itself.
type v3FullRow struct {
	v3Row
	Content          string `json:"content"`
	EncryptedDataKey string `json:"encryptedDataKey"`
	GrayName         string `json:"grayName"`
	ExtInfo          string `json:"extInfo"`
}

func (s *Server) v3Row(v *version) v3Row {
	return v3Row{ID: strconv.FormatInt(v.NID, 10), NamespaceID: s.traits.show(v.Tenant), GroupName: v.Group, DataID: v.DataID,
		AppName: v.AppName, CreateTime: rowCreated.UnixMilli(), ModifyTime: v.Modified, SrcIP: v.SrcIP, SrcUser: v.SrcUser,
		OpType: v.opType(), PublishType: "formal"}
}

func (s *Server) v3History(c *call, k key) {
	if number, size, ok := s.v3Page(c); ok {
		c.ok(paged(s.db.history(k), number, min(size, maxHistoryPage), s.v3Row))
	}
}

func (s *Server) v3Version(c *call) {
	nid, _ := strconv.ParseInt(c.param("nid"), 10, 64)
	s.v3OneVersion(c, s.db.row(nid))
}

func (s *Server) v3Previous(c *call) {
	id, _ := strconv.ParseInt(c.param("id"), 10, 64)
	s.v3OneVersion(c, s.db.previous(id))
}

// v3OneVersion answers a version, nil for one that is not there.
func (s *Server) v3OneVersion(c *call, v *version) {
	k, ok := s.v3Key(c)
	switch {
	case !ok:
	case v == nil:
		c.fail(http.StatusBadRequest, codeIllegal, "parameter validate error", "Source must not be null")
	case v.key() != k:
		c.fail(http.StatusForbidden, codeDenied, "access denied", "Please check dataId, group or namespaceId.")
	default:
		row := v3FullRow{v3Row: s.v3Row(v), Content: v.Content, EncryptedDataKey: v.DataKey, ExtInfo: v.ExtInfo}
		row.MD5 = &v.MD5
		c.ok(row)
	}
}

// v2History answers as v1 does, in the envelope of v2.
func (s *Server) v2History(c *call, k key) { c.ok(s.v1Versions(c, k)) }

// v3Listeners are the answers to who listens.
type v3Listeners struct {
	QueryType string            `json:"queryType"`
	Listeners map[string]string `json:"listenersStatus"`
}

func (s *Server) v3ConfigListeners(c *call, k key) {
	c.ok(v3Listeners{"config", s.listenersOf(k)})
}

func (s *Server) v3ListenedBy(c *call) {
	if c.param("ip") == "" {
		s.missingInEnvelope(c, "ip")
		return
	}
	c.ok(v3Listeners{"ip", s.listenedText(c, "namespaceId")})
}

func (s *Server) v3Namespaces(c *call) { c.ok(s.namespaceItems()) }

func (s *Server) v3AddNamespace(c *call) {
	if added, ok := s.addNamespace(c); ok {
		c.ok(added)
	}
}

func (s *Server) v3State(c *call) { c.ok(s.serverState()) }

func (s *Server) v3Health(c *call) { c.ok("ok") }

func (s *Server) v3Connections(c *call) { c.ok(s.currentConnections()) }
