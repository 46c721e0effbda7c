package server

import (
	"context"
	"errors"
	"strings"
	"time"
)

// rpcCall is how a request type is answered.
type rpcCall struct {
	op       Op
	write    bool
	response string
	refuse   func(rpcStatus) rpcResponse
	handle   func(*Server, context.Context, *connection, *rpcRequest) rpcResponse
}

func refusePlain(s rpcStatus) rpcResponse { return &plainResponse{s} }

var rpcCalls = map[string]rpcCall{
	"HealthCheckRequest": {op: OpAny, response: "HealthCheckResponse", refuse: refusePlain,
		handle: func(*Server, context.Context, *connection, *rpcRequest) rpcResponse { return &plainResponse{rpcOK()} }},
	"ConfigQueryRequest": {op: OpRead, response: "ConfigQueryResponse",
		refuse: func(s rpcStatus) rpcResponse { return &queryResponse{rpcStatus: s} }, handle: (*Server).rpcQuery},
	"ConfigPublishRequest": {op: OpPublish, write: true, response: "ConfigPublishResponse", refuse: refusePlain, handle: (*Server).rpcPublish},
	"ConfigRemoveRequest":  {op: OpRemove, write: true, response: "ConfigRemoveResponse", refuse: refusePlain, handle: (*Server).rpcRemove},
	"ConfigBatchListenRequest": {op: OpListen, response: "ConfigChangeBatchListenResponse",
		refuse: func(s rpcStatus) rpcResponse { return &listenResponse{rpcStatus: s} }, handle: (*Server).rpcListen},
}

// checkRPC returns the refusal of an illegal name.
func (s *Server) checkRPC(k key) (rpcStatus, bool) {
	if !s.traits.checkNames {
		return rpcStatus{}, true
	}
	if err := checkKey(k); err != nil {
		return rpcFailed(rpcIllegal, "Param check invalid:"+err.Error()), false
	}
	return rpcStatus{}, true
}

func (s *Server) rpcQuery(ctx context.Context, _ *connection, req *rpcRequest) rpcResponse {
	k := req.key()
	if refusal, ok := s.checkRPC(k); !ok {
		return &queryResponse{rpcStatus: refusal}
	}
	e := s.dump.get(ctx, k)
	if e == nil {
		return &queryResponse{rpcStatus: rpcFailed(rpcNoConfig, "config data not exist")}
	}
	return &queryResponse{rpcStatus: rpcOK(), Content: e.content, EncryptedDataKey: e.dataKey, ContentType: e.typ,
		MD5: e.md5, LastModified: e.modified}
}

func (s *Server) rpcPublish(ctx context.Context, c *connection, req *rpcRequest) rpcResponse {
	k := req.key()
	if refusal, ok := s.checkRPC(k); !ok {
		return &plainResponse{refusal}
	}
	more := req.AdditionMap
	appName := more["appName"]
	user := more["src_user"]
	w := write{key: k, content: req.Content, casMD5: req.CASMD5, typ: more["type"], appName: &appName,
		tags: sent(more["config_tags"]), dataKey: more["encryptedDataKey"], srcUser: &user, srcIP: req.sourceIP(c)}
	if err := s.publish(ctx, w); err != nil {
		return &plainResponse{rpcFailed(publishCode(err), err.Error())}
	}
	return &plainResponse{rpcOK()}
}

// publishCode is the error code of a refused publish.
func publishCode(err error) int {
	var illegal *illegalParam
	if errors.As(err, &illegal) {
		return rpcIllegal
	}
	return rpcFail
}

// sourceIP is whom the history names as the writer: the address that the client claims.
func (r *rpcRequest) sourceIP(c *connection) string {
	if r.clientIP != "" {
		return r.clientIP
	}
	return c.clientIP
}

// sent returns nil for a parameter that was left empty.
func sent(value string) *string {
	if value == "" {
		return nil
	}
	return &value
}

func (s *Server) rpcRemove(ctx context.Context, c *connection, req *rpcRequest) rpcResponse {
	k := req.key()
	if refusal, ok := s.checkRPC(k); !ok {
		return &plainResponse{refusal}
	}
	if err := s.remove(ctx, k, req.sourceIP(c), nil); err != nil {
		return &plainResponse{rpcFailed(rpcFail, err.Error())}
	}
	return &plainResponse{rpcOK()}
}

// rpcListen notes what a client listens to and returns those configs of which it has another content. One illegal
// name makes the server refuse the whole batch.
func (s *Server) rpcListen(_ context.Context, c *connection, req *rpcRequest) rpcResponse {
	for _, l := range req.Contexts {
		if refusal, ok := s.checkRPC(key{tenant: l.Tenant, group: l.Group, dataID: l.DataID}); !ok {
			return &listenResponse{rpcStatus: refusal}
		}
	}
	resp := &listenResponse{rpcStatus: rpcOK(), ChangedConfigs: []configContext{}}
	on := req.Listen == nil || *req.Listen
	for _, l := range req.Contexts {
		k := key{tenant: s.listenTenant(l.Tenant), group: l.Group, dataID: l.DataID}
		c.listen(k, listened{md5: l.MD5, tenant: l.Tenant}, on)
		if on && s.dump.md5(k) != l.MD5 {
			resp.ChangedConfigs = append(resp.ChangedConfigs, configContext{Group: l.Group, DataID: l.DataID, Tenant: l.Tenant})
		}
	}
	return resp
}

// listenTenant is the namespace under which a listen is looked up. 2.x knows the default namespace as "public" in
// reads and writes but not in listens: such a client hears nothing, or asks in an endless circle.
func (s *Server) listenTenant(tenant string) string {
	if s.cfg.Behaviour == Nacos2 {
		return tenant
	}
	return canonical(tenant)
}

// publish stores a config and lets the dump know. The checks are those that gRPC and HTTP share.
func (s *Server) publish(ctx context.Context, w write) error {
	if err := s.faults.gate.settled(ctx); err != nil {
		return err
	}
	if s.traits.checkNames {
		if strings.TrimSpace(w.content) == "" {
			return &illegalParam{"content is blank : " + w.content}
		}
		if w.tags != nil {
			if err := checkTags(*w.tags); err != nil {
				return err
			}
		}
	}
	if s.traits.ignoreCAS || s.faults.ignoresCAS() {
		w.casMD5 = ""
	}
	if err := s.db.publish(w, time.Now()); err != nil {
		return err
	}
	s.dump.note(w.key)
	return nil
}

// remove deletes a config and lets the dump know.
func (s *Server) remove(ctx context.Context, k key, srcIP string, srcUser *string) error {
	if err := s.faults.gate.settled(ctx); err != nil {
		return err
	}
	if err := s.db.remove(k, srcIP, srcUser, time.Now()); err != nil {
		return err
	}
	s.dump.note(k)
	return nil
}
