package server

import (
	"cmp"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// record is a config as the database holds it. Pointers are columns that may be null.
type record struct {
	ID               int64   `json:"id"`
	NID              int64   `json:"nid"` // of the version that the last write left
	Tenant           string  `json:"tenant"`
	Group            string  `json:"group"`
	DataID           string  `json:"dataId"`
	Content          string  `json:"content"`
	MD5              string  `json:"md5"`
	Type             string  `json:"type"`
	AppName          string  `json:"appName"`
	Tags             *string `json:"tags"`
	Desc             *string `json:"desc"`
	Use              *string `json:"use"`
	Effect           *string `json:"effect"`
	Schema           *string `json:"schema"`
	EncryptedDataKey string  `json:"encryptedDataKey"`
	SrcUser          *string `json:"srcUser"`
	SrcIP            string  `json:"srcIp"`
	Modified         int64   `json:"modified"` // Unix milliseconds
}

func (r *record) key() key { return key{r.Tenant, r.Group, r.DataID} }

// version is one row of the history. An update keeps what was there before and who wrote what came after.
type version struct {
	NID      int64   `json:"nid"`
	ConfigID int64   `json:"configId"` // 0 for an insert, as real servers have it
	Tenant   string  `json:"tenant"`
	Group    string  `json:"group"`
	DataID   string  `json:"dataId"`
	AppName  string  `json:"appName"`
	Content  string  `json:"content"`
	MD5      string  `json:"md5"`
	SrcIP    string  `json:"srcIp"`
	SrcUser  *string `json:"srcUser"`
	Op       string  `json:"op"` // I, U or D
	ExtInfo  string  `json:"extInfo"`
	Modified int64   `json:"modified"` // Unix milliseconds
	DataKey  string  `json:"encryptedDataKey"`
}

func (v *version) key() key { return key{v.Tenant, v.Group, v.DataID} }

// write is one publish. Nil pointers were not sent; keepUnsent says whether tags and appName then survive, as they
// do over HTTP, or are cleared, as they are over gRPC.
type write struct {
	key        key
	content    string
	casMD5     string
	typ        string
	appName    *string
	tags       *string
	desc       *string
	use        *string
	effect     *string
	schema     *string
	dataKey    string
	srcUser    *string
	srcIP      string
	keepUnsent bool
}

// errConflict is a compare-and-publish that lost.
var errConflict = errors.New("Cas publish fail, server md5 may have changed.") //nolint:staticcheck // the server's wording

// journal keeps a database across restarts. Its methods are called with the database locked, before the change is
// visible; an error refuses the change.
type journal interface {
	putConfig(*record) error
	dropConfig(*record) error
	putVersion(*version) error
	dropVersion(*version) error
	putNamespaces([]namespace) error
}

// namespace is a named tenant.
type namespace struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Desc string `json:"desc"`
}

// database is what publishes change and details read. It is safe for concurrent use.
type database struct {
	historyLimit int
	journal      journal // nil in memory

	mu         sync.RWMutex
	configs    map[key]*record    // the records are never changed in place
	versions   map[key][]*version // oldest first
	namespaces []namespace
	lastID     int64
	lastNID    int64
}

// firstID is where config ids start: as long as real ones, so that clients that squeeze them into 32 bits or a
// float64 are found out.
const firstID = 1101611565171347456

func newDatabase(historyLimit int) *database {
	return &database{
		historyLimit: historyLimit,
		configs:      make(map[key]*record),
		versions:     make(map[key][]*version),
		lastID:       firstID,
	}
}

func contentMD5(content string) string {
	sum := md5.Sum([]byte(content))
	return hex.EncodeToString(sum[:])
}

// get returns the record of k, nil if there is none. The record must not be changed.
func (d *database) get(k key) *record {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.configs[k]
}

// keys returns the keys of all configs.
func (d *database) keys() []key {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return slices.Collect(maps.Keys(d.configs))
}

// publish inserts or updates a config. It returns errConflict if w names an md5 and another one is stored.
func (d *database) publish(w write, now time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	old := d.configs[w.key]
	if old != nil && w.casMD5 != "" && w.casMD5 != old.MD5 {
		return errConflict
	}
	next := &record{
		Tenant: w.key.tenant, Group: w.key.group, DataID: w.key.dataID,
		Content: w.content, MD5: contentMD5(w.content), Type: configType(w.typ),
		Tags: w.tags, Desc: w.desc, Use: w.use, Effect: w.effect, Schema: w.schema,
		EncryptedDataKey: w.dataKey, SrcUser: w.srcUser, SrcIP: w.srcIP, Modified: now.UnixMilli(),
	}
	if w.appName != nil {
		next.AppName = *w.appName
	}
	row := &version{Op: "I", SrcIP: w.srcIP, SrcUser: w.srcUser, Modified: next.Modified}
	if old == nil {
		next.ID = d.lastID + 1
		row.keep(next)
	} else {
		next.ID = old.ID
		if w.keepUnsent && w.tags == nil {
			next.Tags = old.Tags
		}
		if w.keepUnsent && w.appName == nil {
			next.AppName = old.AppName
		}
		row.Op, row.ConfigID = "U", old.ID
		row.keep(old)
	}
	row.NID = d.lastNID + 1
	next.NID = row.NID
	if d.journal != nil {
		if err := d.store(row, func() error { return d.journal.putConfig(next) }); err != nil {
			return fmt.Errorf("store config %s: %w", w.key, err)
		}
	}
	d.lastID = max(d.lastID, next.ID)
	d.configs[w.key] = next
	d.addVersion(row)
	return nil
}

// store keeps a version and then the change that it describes, or neither. d.mu is held.
func (d *database) store(row *version, change func() error) error {
	if err := d.journal.putVersion(row); err != nil {
		return err
	}
	if err := change(); err != nil {
		return errors.Join(err, d.journal.dropVersion(row))
	}
	return nil
}

// remove deletes a config; removing what is not there succeeds and leaves no row.
func (d *database) remove(k key, srcIP string, srcUser *string, now time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	old := d.configs[k]
	if old == nil {
		return nil
	}
	row := &version{Op: "D", ConfigID: old.ID, SrcIP: srcIP, SrcUser: srcUser, Modified: now.UnixMilli()}
	row.keep(old)
	row.NID = d.lastNID + 1
	if d.journal != nil {
		if err := d.store(row, func() error { return d.journal.dropConfig(old) }); err != nil {
			return fmt.Errorf("remove config %s: %w", k, err)
		}
	}
	delete(d.configs, k)
	d.addVersion(row)
	return nil
}

// keep copies what a history row remembers of a config.
func (v *version) keep(r *record) {
	v.Tenant, v.Group, v.DataID = r.Tenant, r.Group, r.DataID
	v.AppName, v.Content, v.MD5, v.DataKey = r.AppName, r.Content, r.MD5, r.EncryptedDataKey
	v.ExtInfo = extInfo(r)
}

// extInfo is the JSON text in which history rows keep the columns that they have no field for.
func extInfo(r *record) string {
	text, err := json.Marshal(struct {
		Type   string  `json:"type,omitempty"`
		Tags   *string `json:"config_tags,omitempty"`
		User   *string `json:"src_user,omitempty"`
		Desc   *string `json:"c_desc,omitempty"`
		Use    *string `json:"c_use,omitempty"`
		Effect *string `json:"effect,omitempty"`
		Schema *string `json:"c_schema,omitempty"`
	}{r.Type, r.Tags, r.SrcUser, r.Desc, r.Use, r.Effect, r.Schema})
	if err != nil { // strings always marshal
		return "{}"
	}
	return string(text)
}

// addVersion appends a row that is stored and lets go of the oldest beyond the limit. d.mu is held.
func (d *database) addVersion(v *version) {
	d.lastNID = v.NID
	rows := append(d.versions[v.key()], v)
	for len(rows) > d.historyLimit {
		if d.journal != nil && d.journal.dropVersion(rows[0]) != nil {
			break // it is tried again with the next version; until then there is one more
		}
		rows = slices.Delete(rows, 0, 1)
	}
	d.versions[v.key()] = rows
}

// history returns the rows of k, newest first.
func (d *database) history(k key) []*version {
	d.mu.RLock()
	defer d.mu.RUnlock()
	rows := slices.Clone(d.versions[k])
	slices.Reverse(rows)
	return rows
}

// row returns the history row with the given number, nil if there is none.
func (d *database) row(nid int64) *version {
	return d.newest(func(v *version) bool { return v.NID == nid })
}

// previous returns the newest history row of the config with the given id, nil if there is none.
func (d *database) previous(configID int64) *version {
	return d.newest(func(v *version) bool { return v.ConfigID == configID })
}

func (d *database) newest(match func(*version) bool) *version {
	d.mu.RLock()
	defer d.mu.RUnlock()
	var found *version
	for _, rows := range d.versions {
		for _, v := range rows {
			if match(v) && (found == nil || v.NID > found.NID) {
				found = v
			}
		}
	}
	return found
}

// query selects configs.
type query struct {
	tenant                 string
	dataID, group, appName func(string) bool
	content                string   // part of the content
	tags                   []string // any of them; empty: all
}

// search returns the selected configs in the order in which they were inserted.
func (d *database) search(q query) []*record {
	d.mu.RLock()
	defer d.mu.RUnlock()
	var found []*record
	for k, r := range d.configs {
		if k.tenant == q.tenant && q.dataID(k.dataID) && q.group(k.group) && q.appName(r.AppName) &&
			strings.Contains(r.Content, q.content) && r.tagged(q.tags) {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b *record) int { return cmp.Compare(a.ID, b.ID) })
	return found
}

// tagged reports whether r has one of the tags, or tags is empty.
func (r *record) tagged(tags []string) bool {
	if len(tags) == 0 {
		return true
	}
	if r.Tags == nil {
		return false
	}
	return slices.ContainsFunc(strings.Split(*r.Tags, ","), func(tag string) bool { return slices.Contains(tags, tag) })
}

// count returns how many configs a namespace has.
func (d *database) count(tenant string) int {
	d.mu.RLock()
	defer d.mu.RUnlock()
	n := 0
	for k := range d.configs {
		if k.tenant == tenant {
			n++
		}
	}
	return n
}

// listNamespaces returns the namespaces that were created, in that order; the default one is not among them.
func (d *database) listNamespaces() []namespace {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return slices.Clone(d.namespaces)
}

// addNamespace reports whether the namespace was added; it is not if its id is taken.
func (d *database) addNamespace(n namespace) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if slices.ContainsFunc(d.namespaces, func(have namespace) bool { return have.ID == n.ID }) {
		return false, nil
	}
	next := append(slices.Clone(d.namespaces), n)
	if d.journal != nil {
		if err := d.journal.putNamespaces(next); err != nil {
			return false, fmt.Errorf("store namespaces: %w", err)
		}
	}
	d.namespaces = next
	return true, nil
}
