package server

import (
	"encoding/json"
	"errors"
	"fmt"

	pb "github.com/nacos-group/nacos-sdk-go/v2/api/grpc"
	"google.golang.org/protobuf/types/known/anypb"
)

// rpcRequest is the body of any request that a config client sends: the union of their fields.
type rpcRequest struct {
	kind     string
	clientIP string
	headers  map[string]string

	RequestID   string            `json:"requestId"`
	DataID      string            `json:"dataId"`
	Group       string            `json:"group"`
	Tenant      string            `json:"tenant"`
	Content     string            `json:"content"`
	CASMD5      string            `json:"casMd5"`
	AdditionMap map[string]string `json:"additionMap"`

	Listen   *bool           `json:"listen"`
	Contexts []listenContext `json:"configListenContexts"`

	ClientVersion string            `json:"clientVersion"`
	Labels        map[string]string `json:"labels"`
}

// listenContext is one config in a batch listen.
type listenContext struct {
	Group  string `json:"group"`
	MD5    string `json:"md5"`
	DataID string `json:"dataId"`
	Tenant string `json:"tenant"`
}

func (r *rpcRequest) key() key {
	k := key{tenant: canonical(r.Tenant), group: r.Group, dataID: r.DataID}
	if k.group == "" {
		k.group = defaultGroup
	}
	return k
}

var errNoMetadata = errors.New("payload without metadata")

// decodeRequest reads what a client sent. Unknown fields are ignored, as clients of all ages are served.
func decodeRequest(p *pb.Payload) (*rpcRequest, error) {
	meta := p.GetMetadata()
	if meta == nil || meta.GetType() == "" {
		return nil, errNoMetadata
	}
	r := new(rpcRequest)
	if body := p.GetBody().GetValue(); len(body) > 0 {
		if err := json.Unmarshal(body, r); err != nil {
			return nil, fmt.Errorf("%s: %w", meta.GetType(), err)
		}
	}
	r.kind, r.clientIP, r.headers = meta.GetType(), meta.GetClientIp(), meta.GetHeaders()
	return r, nil
}

// rpcStatus is what all responses have.
type rpcStatus struct {
	ResultCode int    `json:"resultCode"`
	ErrorCode  int    `json:"errorCode"`
	Message    string `json:"message,omitempty"`
	RequestID  string `json:"requestId,omitempty"`
	Success    bool   `json:"success"`
}

func (s *rpcStatus) status() *rpcStatus { return s }

// rpcResponse is any response: its JSON form is the body of the payload.
type rpcResponse interface{ status() *rpcStatus }

// Result and error codes of gRPC responses.
const (
	rpcSuccess      = 200
	rpcFail         = 500
	rpcNoConfig     = 300
	rpcUnregistered = 301
	rpcNoHandler    = 302
	rpcIllegal      = 400
	rpcForbidden    = 403
	rpcOverLimit    = 503
)

func rpcOK() rpcStatus { return rpcStatus{ResultCode: rpcSuccess, Success: true} }

func rpcFailed(code int, message string) rpcStatus {
	return rpcStatus{ResultCode: rpcFail, ErrorCode: code, Message: message}
}

// plainResponse is a response without fields of its own.
type plainResponse struct{ rpcStatus }

// checkResponse answers ServerCheckRequest.
type checkResponse struct {
	rpcStatus
	ConnectionID              string `json:"connectionId"`
	SupportAbilityNegotiation bool   `json:"supportAbilityNegotiation"`
}

// queryResponse answers ConfigQueryRequest.
type queryResponse struct {
	Content          string `json:"content,omitempty"`
	EncryptedDataKey string `json:"encryptedDataKey"`
	ContentType      string `json:"contentType,omitempty"`
	MD5              string `json:"md5,omitempty"`
	LastModified     int64  `json:"lastModified"`
	Beta             bool   `json:"beta"`
	rpcStatus
}

// listenResponse answers ConfigBatchListenRequest.
type listenResponse struct {
	ChangedConfigs []configContext `json:"changedConfigs"`
	rpcStatus
}

// configContext names a config towards a client, under the tenant that the client uses.
type configContext struct {
	Group  string `json:"group"`
	DataID string `json:"dataId"`
	Tenant string `json:"tenant"`
}

// notifyRequest is the push: something about this config has changed.
type notifyRequest struct {
	RequestID string `json:"requestId"`
	configContext
	Module string `json:"module"`
}

// detectRequest asks a silent client whether it lives.
type detectRequest struct {
	RequestID string `json:"requestId"`
	Module    string `json:"module"`
}

// encodePayload wraps a response or a server's request.
func encodePayload(kind string, body any) (*pb.Payload, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", kind, err)
	}
	return &pb.Payload{Metadata: &pb.Metadata{Type: kind}, Body: &anypb.Any{Value: text}}, nil
}
