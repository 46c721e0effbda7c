package server

import (
	"net/http"
	"strconv"
	"time"
)

// v1Detail is a config with everything that is known of it.
type v1Detail struct {
	ID               string  `json:"id"`
	DataID           string  `json:"dataId"`
	Group            string  `json:"group"`
	Content          string  `json:"content"`
	MD5              string  `json:"md5"`
	EncryptedDataKey string  `json:"encryptedDataKey"`
	Tenant           string  `json:"tenant"`
	AppName          string  `json:"appName"`
	Type             string  `json:"type"`
	CreateTime       int64   `json:"createTime"` // of the last write, as real servers have it
	ModifyTime       int64   `json:"modifyTime"`
	CreateUser       *string `json:"createUser"`
	CreateIP         string  `json:"createIp"`
	Desc             *string `json:"desc"`
	Use              *string `json:"use"`
	Effect           *string `json:"effect"`
	Schema           *string `json:"schema"`
	ConfigTags       *string `json:"configTags"`
}

// v1Show answers a config as the database has it; unlike plain reads it is never old.
func (s *Server) v1Show(c *call) {
	k, ok := s.v1Key(c)
	if !ok {
		return
	}
	r := s.db.get(k)
	if r == nil {
		c.answer(http.StatusNotFound, typeText, "config data not exist\n")
		return
	}
	c.json(v1Detail{ID: strconv.FormatInt(r.ID, 10), DataID: r.DataID, Group: r.Group, Content: r.Content, MD5: r.MD5,
		EncryptedDataKey: r.EncryptedDataKey, Tenant: s.traits.show(r.Tenant), AppName: r.AppName, Type: r.Type,
		CreateTime: r.Modified, ModifyTime: r.Modified, CreateUser: r.SrcUser, CreateIP: r.SrcIP, Desc: r.Desc,
		Use: r.Use, Effect: r.Effect, Schema: r.Schema, ConfigTags: r.Tags})
}

// v1Item is a config in a search: with content, without md5.
type v1Item struct {
	ID               string  `json:"id"`
	DataID           string  `json:"dataId"`
	Group            string  `json:"group"`
	Content          string  `json:"content"`
	MD5              *string `json:"md5"`
	EncryptedDataKey *string `json:"encryptedDataKey"`
	Tenant           string  `json:"tenant"`
	AppName          string  `json:"appName"`
	Type             string  `json:"type"`
}

// rnacosItem is a config in a search of r-nacos.
type rnacosItem struct {
	Tenant  string  `json:"tenant"`
	Group   string  `json:"group"`
	DataID  string  `json:"dataId"`
	Content string  `json:"content"`
	MD5     string  `json:"md5"`
	Desc    *string `json:"desc"`
}

// v1Search answers a page of configs, from the database.
func (s *Server) v1Search(c *call) {
	for _, name := range []string{"dataId", "group", "pageNo", "pageSize"} {
		if _, ok := c.params[name]; !ok && s.traits.checkNames {
			s.missing(c, name)
			return
		}
	}
	tenant := c.param("tenant")
	if s.cfg.Behaviour != Nacos2 {
		tenant = canonical(tenant)
	}
	found := s.db.search(s.queryOf(c, tenant, "group", "config_tags"))
	number, size := c.number("pageNo", 1), c.number("pageSize", defaultPage)
	if s.cfg.Behaviour == RNacos {
		c.json(paged(found, number, size, func(r *record) rnacosItem {
			return rnacosItem{Tenant: s.traits.show(r.Tenant), Group: r.Group, DataID: r.DataID, Content: r.Content, MD5: r.MD5, Desc: r.Desc}
		}))
		return
	}
	c.json(paged(found, number, size, func(r *record) v1Item {
		return v1Item{ID: strconv.FormatInt(r.ID, 10), DataID: r.DataID, Group: r.Group, Content: r.Content,
			Tenant: s.traits.show(r.Tenant), AppName: r.AppName, Type: r.Type}
	}))
}

// Times as 2.x writes them.
const isoTime = "2006-01-02T15:04:05.000-07:00"

// rowCreated is what real servers show as the creation time of every history row; the time that counts is the other.
var rowCreated = time.Date(2010, time.May, 5, 0, 0, 0, 0, time.UTC)

// v1Row is a history row. In lists content, md5 and data key are null.
type v1Row struct {
	ID               string  `json:"id"`
	LastID           int     `json:"lastId"`
	DataID           string  `json:"dataId"`
	Group            string  `json:"group"`
	Tenant           string  `json:"tenant"`
	AppName          string  `json:"appName"`
	MD5              *string `json:"md5"`
	Content          *string `json:"content"`
	SrcIP            string  `json:"srcIp"`
	SrcUser          *string `json:"srcUser"`
	OpType           string  `json:"opType"`
	PublishType      string  `json:"publishType"`
	GrayName         string  `json:"grayName"`
	ExtInfo          string  `json:"extInfo"`
	CreatedTime      string  `json:"createdTime"`
	LastModifiedTime string  `json:"lastModifiedTime"`
	EncryptedDataKey *string `json:"encryptedDataKey"`
}

// opType pads the operation to the width of its database column, as real servers send it.
func (v *version) opType() string { return v.Op + "         " }

func (s *Server) v1Row(v *version) v1Row {
	return v1Row{ID: strconv.FormatInt(v.NID, 10), LastID: -1, DataID: v.DataID, Group: v.Group, Tenant: s.traits.show(v.Tenant),
		AppName: v.AppName, SrcIP: v.SrcIP, SrcUser: v.SrcUser, OpType: v.opType(), PublishType: "formal", ExtInfo: v.ExtInfo,
		CreatedTime: rowCreated.Format(isoTime), LastModifiedTime: time.UnixMilli(v.Modified).UTC().Format(isoTime)}
}

func (s *Server) v1FullRow(v *version) v1Row {
	row := s.v1Row(v)
	row.MD5, row.Content, row.EncryptedDataKey = &v.MD5, &v.Content, &v.DataKey
	return row
}

// v1History answers a page of versions, or one version if the call names its number.
func (s *Server) v1History(c *call) {
	if _, one := c.params["nid"]; one {
		nid, _ := strconv.ParseInt(c.param("nid"), 10, 64)
		s.v1Version(c, s.db.row(nid))
		return
	}
	if k, ok := s.v1Key(c); ok {
		c.json(s.v1Versions(c, k))
	}
}

// v1Versions returns the page of versions that the call asks for.
func (s *Server) v1Versions(c *call, k key) page {
	size := min(c.number("pageSize", defaultPage), maxHistoryPage)
	return paged(s.db.history(k), c.number("pageNo", 1), size, s.v1Row)
}

// v1Previous answers the newest version of the config with the given id.
func (s *Server) v1Previous(c *call) {
	id, _ := strconv.ParseInt(c.param("id"), 10, 64)
	s.v1Version(c, s.db.previous(id))
}

// v1Version answers a version, nil for one that is not there.
func (s *Server) v1Version(c *call, v *version) {
	k, ok := s.v1Key(c)
	switch {
	case !ok:
	case v == nil:
		c.answer(http.StatusOK, typeJSON, "")
	case v.key() != k:
		c.malformedStatus()
	default:
		c.json(s.v1FullRow(v))
	}
}

// malformedStatus answers as 2.x does to somebody who asks for a version of another config: with a number that is not
// an HTTP status.
func (c *call) malformedStatus() {
	conn, _, err := http.NewResponseController(c.ResponseWriter).Hijack()
	if err != nil {
		c.caused(err.Error())
		return
	}
	_, _ = conn.Write([]byte("HTTP/1.1 10001 \r\nContent-Length: 0\r\nConnection: close\r\n\r\n")) // a client that has left hears nothing
	_ = conn.Close()
}
