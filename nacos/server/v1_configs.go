package server

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// v1Key reads the names of a config. It answers itself and reports false if one is missing or illegal.
func (s *Server) v1Key(c *call) (key, bool) {
	for _, name := range []string{"dataId", "group"} {
		if _, ok := c.params[name]; !ok && s.traits.checkNames {
			s.missing(c, name)
			return key{}, false
		}
	}
	k := key{tenant: c.param("tenant"), group: c.param("group"), dataID: c.param("dataId")}
	if s.cfg.Behaviour != Nacos2 {
		k.tenant = canonical(k.tenant)
	}
	return k, s.v1Check(c, k)
}

// v1Check answers 400 and reports false if a name is illegal.
func (s *Server) v1Check(c *call, k key) bool {
	if !s.traits.checkNames {
		return true
	}
	if err := checkKey(k); err != nil {
		c.answer(http.StatusBadRequest, typeText, err.Error()+"\n")
		return false
	}
	return true
}

// missing answers a call that lacks a parameter.
func (s *Server) missing(c *call, name string) {
	if s.cfg.Behaviour == Nacos3 {
		c.fail(http.StatusBadRequest, codeMissing, "parameter missing", "Required parameter '"+name+"' type String is not present")
		return
	}
	c.caused("Required request parameter '" + name + "' for method parameter type String is not present")
}

// contentTypes are the types under which plain reads are served.
var contentTypes = map[string]string{"json": typeJSON, "html": typeHTML, "xml": "application/xml;charset=UTF-8"}

// v1Get answers the content as reads see it.
func (s *Server) v1Get(c *call) {
	k, ok := s.v1Key(c)
	if !ok {
		return
	}
	e := s.dump.get(c.req.Context(), k)
	if e == nil {
		c.answer(http.StatusNotFound, typeText, "config data not exist\n")
		return
	}
	contentType := contentTypes[e.typ]
	if contentType == "" {
		contentType = typeText
	}
	h := c.Header()
	h.Set("Config-Type", e.typ)
	h.Set("Content-MD5", e.md5)
	h.Set("Last-Modified", time.UnixMilli(e.modified).UTC().Format(http.TimeFormat))
	h.Set("Cache-Control", "no-cache,no-store")
	h.Set("Pragma", "no-cache")
	c.answer(http.StatusOK, contentType, e.content)
}

// writeOf reads what a publish over HTTP sends besides the names; v1 and v3 call some of it differently.
func (c *call) writeOf(k key, tags, user string) write {
	return write{key: k, content: c.param("content"), casMD5: c.req.Header.Get("casMd5"), typ: c.param("type"),
		appName: c.sentParam("appName"), tags: sent(c.param(tags)), desc: c.sentParam("desc"), use: c.sentParam("use"),
		effect: c.sentParam("effect"), schema: c.sentParam("schema"), dataKey: c.param("encryptedDataKey"),
		srcUser: c.writer(user), srcIP: c.sourceIP(), keepUnsent: true}
}

// writer is the user whom the history names: the one that the call names, else the one that is logged in.
func (c *call) writer(param string) *string {
	if name := c.param(param); name != "" {
		return &name
	}
	return sent(c.user.Name)
}

// v1Publish stores a config.
func (s *Server) v1Publish(c *call) {
	k, ok := s.v1Key(c)
	if !ok {
		return
	}
	if _, ok := c.params["content"]; !ok && s.traits.checkNames {
		s.missing(c, "content")
		return
	}
	k.tenant = canonical(k.tenant)
	err := s.publish(c.req.Context(), c.writeOf(k, "config_tags", "src_user"))
	var illegal *illegalParam
	switch {
	case err == nil:
		c.answer(http.StatusOK, typeJSON, "true")
	case errors.Is(err, errConflict) && s.cfg.Behaviour == Nacos3:
		c.answer(http.StatusInternalServerError, typeJSON, "false")
	case errors.As(err, &illegal):
		c.causedStatus(http.StatusBadRequest, err.Error())
	default:
		c.caused(err.Error())
	}
}

// v1Remove removes a config.
func (s *Server) v1Remove(c *call) {
	k, ok := s.v1Key(c)
	if !ok {
		return
	}
	k.tenant = canonical(k.tenant)
	if err := s.remove(c.req.Context(), k, c.sourceIP(), sent(c.user.Name)); err != nil {
		c.caused(err.Error())
		return
	}
	c.answer(http.StatusOK, typeJSON, "true")
}

// Long polls are answered a little before their time is over, so that the answer is there in time.
const (
	pollEarly   = 500 * time.Millisecond
	pollDefault = 30 * time.Second
	pollLongest = time.Hour
)

// v1Poll answers which configs differ from what a 1.x client has, at once or as soon as one does.
func (s *Server) v1Poll(c *call) {
	field := c.param("Listening-Configs")
	if field == "" {
		s.badProbe(c, http.StatusBadRequest)
		return
	}
	list, err := parseListening(field)
	if err != nil {
		s.badProbe(c, http.StatusInternalServerError)
		return
	}
	keys := make(map[key]string, len(list))
	for i, p := range list {
		if !s.v1Check(c, p.key) {
			return
		}
		keys[s.polledKey(list[i])] = p.md5
	}
	if changed := s.differing(list); len(changed) > 0 || s.noHangup(c) {
		s.answerPoll(c, changed)
		return
	}
	held := s.polls.hold(c.remoteIP(), keys)
	defer s.polls.end(held)
	// A change between the first comparison and the hold would be missed otherwise.
	changed := s.differing(list)
	timer := time.NewTimer(s.holdFor(c))
	defer timer.Stop()
	for len(changed) == 0 {
		select {
		case <-held.wake:
			changed = s.differing(list)
			continue
		case <-timer.C:
		case <-c.req.Context().Done():
		}
		break
	}
	s.answerPoll(c, changed)
}

func (s *Server) polledKey(p polled) key {
	k := p.key
	if s.cfg.Behaviour != Nacos2 {
		k.tenant = canonical(k.tenant)
	}
	return k
}

// differing returns the configs of which the client has another content.
func (s *Server) differing(list []polled) []polled {
	var changed []polled
	for _, p := range list {
		if s.dump.md5(s.polledKey(p)) != p.md5 {
			changed = append(changed, p)
		}
	}
	return changed
}

func (s *Server) noHangup(c *call) bool {
	return s.traits.noHangup && strings.EqualFold(c.req.Header.Get("Long-Pulling-Timeout-No-Hangup"), "true")
}

// holdFor is how long a poll is held at most.
func (s *Server) holdFor(c *call) time.Duration {
	hold := pollDefault
	if ms, err := strconv.Atoi(c.req.Header.Get("Long-Pulling-Timeout")); err == nil && ms >= 0 {
		hold = time.Duration(min(ms, int(pollLongest.Milliseconds()))) * time.Millisecond
	}
	return max(s.traits.shortHold, hold-pollEarly)
}

func (s *Server) answerPoll(c *call, changed []polled) {
	h := c.Header()
	h.Set("Cache-Control", "no-cache,no-store")
	h.Set("Pragma", "no-cache")
	c.answer(http.StatusOK, typeJSON, changedText(changed, s.cfg.Behaviour == RNacos))
}

// badProbe answers a poll that cannot be read.
func (s *Server) badProbe(c *call, status int) {
	switch {
	case s.cfg.Behaviour == RNacos:
		c.WriteHeader(http.StatusNoContent)
	case status == http.StatusBadRequest:
		c.causedStatus(status, errProbe.Error())
	case s.cfg.Behaviour == Nacos3:
		c.spring(status, "Handle API Compatibility failed, please see log for detail.")
	default:
		c.spring(status, errProbe.Error())
	}
}
