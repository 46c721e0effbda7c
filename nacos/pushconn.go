package nacos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	anypb "github.com/golang/protobuf/ptypes/any"
	wire "github.com/nacos-group/nacos-sdk-go/v2/api/grpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

const (
	// pushVersion is how clients of this protocol introduce themselves; servers
	// decide by it what they may send.
	pushVersion = "Nacos-Go-Client:v2.2.7"
	pushWindow  = 10 << 20 // the largest message
)

// pushConn is one connection with its stream.
type pushConn struct {
	store   *Store
	tenant  string
	target  string
	localIP atomic.Pointer[string]
	conn    *grpc.ClientConn
	unary   wire.RequestClient
	stream  wire.BiRequestStream_RequestBiStreamClient
	cancel  context.CancelFunc
	ended   chan struct{} // closed when the stream ended
	failure error         // set before ended closes
	sendMu  sync.Mutex
}

// The messages of the protocol, as JSON in the wire's payload, with the fields
// that the SDK sends, also where they are empty: servers are used to them.
type pushHeader struct {
	RequestID string `json:"requestId"`
	Module    string `json:"module"`
}

type setupRequest struct {
	pushHeader
	ClientVersion string            `json:"clientVersion"`
	Tenant        string            `json:"tenant"`
	Labels        map[string]string `json:"labels"`
	Abilities     struct{}          `json:"clientAbilities"`
}

type listenContext struct {
	Group  string `json:"group"`
	MD5    string `json:"md5"`
	DataID string `json:"dataId"`
	Tenant string `json:"tenant"`
}

type listenRequest struct {
	pushHeader
	listenContext                 // empty: the configs stand in the list
	Listen        bool            `json:"listen"`
	Contexts      []listenContext `json:"configListenContexts"`
}

type publishRequest struct {
	pushHeader
	Group      string            `json:"group"`
	DataID     string            `json:"dataId"`
	Tenant     string            `json:"tenant"`
	Content    string            `json:"content"`
	CASMD5     string            `json:"casMd5"`
	Additional map[string]string `json:"additionMap"`
}

type pushReply struct {
	ResultCode int             `json:"resultCode"`
	ErrorCode  int             `json:"errorCode"`
	Success    bool            `json:"success"`
	Message    string          `json:"message"`
	RequestID  string          `json:"requestId"`
	Changed    []listenContext `json:"changedConfigs,omitempty"`
}

// dialPush connects, introduces this client and starts the reader.
func dialPush(ctx context.Context, s *Store, d dialect, e endpoint) (*pushConn, error) {
	c := &pushConn{store: s, tenant: d.tenant(s.cfg.Namespace), target: e.grpc, ended: make(chan struct{})}
	creds := insecure.NewCredentials()
	if s.cfg.tls != nil {
		t := s.cfg.tls.Clone()
		if t.ServerName == "" {
			t.ServerName = e.host
		}
		t.NextProtos = nil
		creds = credentials.NewTLS(t)
	}
	dialer := &net.Dialer{Timeout: s.cfg.CallTimeout}
	conn, err := grpc.DialContext(ctx, "passthrough:///"+e.grpc,
		grpc.WithTransportCredentials(creds),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			nc, err := dialer.DialContext(ctx, "tcp", addr)
			if err == nil {
				if host, _, err := net.SplitHostPort(nc.LocalAddr().String()); err == nil {
					c.localIP.Store(&host)
				}
			}
			return nc, err
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(pushWindow)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: time.Minute, Timeout: 20 * time.Second, PermitWithoutStream: true}),
		grpc.WithDisableServiceConfig(), grpc.WithNoProxy())
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", e.grpc, err)
	}
	c.conn, c.unary = conn, wire.NewRequestClient(conn)
	var check pushReply
	if err := c.request(ctx, "ServerCheckRequest", &pushHeader{Module: "internal"}, &check); err != nil {
		_ = conn.Close()
		return nil, err
	}
	streamCtx, cancel := context.WithCancel(ctx)
	c.cancel = cancel
	c.stream, err = wire.NewBiRequestStreamClient(conn).RequestBiStream(streamCtx)
	if err == nil {
		err = c.send("ConnectionSetupRequest", &setupRequest{
			pushHeader: pushHeader{Module: "internal"}, ClientVersion: pushVersion, Tenant: c.tenant,
			Labels: map[string]string{"source": "sdk", "module": "config", "AppName": s.cfg.App, "taskId": "0"},
		})
	}
	if err != nil {
		c.cancel()
		_ = conn.Close()
		return nil, fmt.Errorf("connect to %s: %w", e.grpc, err)
	}
	if !s.spawn(c.receive) {
		c.cancel()
		_ = conn.Close()
		return nil, ErrClosed
	}
	return c, nil
}

// close ends the connection and waits for the reader.
func (c *pushConn) close() {
	c.cancel()
	_ = c.conn.Close()
	<-c.ended
}

// receive handles what the server sends: names of changed configs and
// questions whether we live. It owns the receiving side of the stream.
func (c *pushConn) receive() {
	defer close(c.ended)
	defer func() {
		if r := recover(); r != nil {
			c.failure = fmt.Errorf("push: panic: %v", r)
		}
	}()
	for {
		p, err := c.stream.Recv()
		if err != nil {
			c.failure = fmt.Errorf("push stream: %w", err)
			return
		}
		var m struct {
			RequestID string `json:"requestId"`
			DataID    string `json:"dataId"`
			Group     string `json:"group"`
		}
		if json.Unmarshal(p.GetBody().GetValue(), &m) != nil {
			continue
		}
		switch p.GetMetadata().GetType() {
		case "ConfigChangeNotifyRequest":
			c.store.stats.pushes.Add(1)
			c.reply("NotifySubscriberResponse", m.RequestID) // what the SDK answers
			c.store.hinted(Key{DataID: m.DataID, Group: m.Group})
		case "ClientDetectionRequest":
			c.reply("ClientDetectionResponse", m.RequestID)
		case "ConnectResetRequest":
			c.reply("ConnectResetResponse", m.RequestID)
			c.failure = errors.New("the server asked to connect anew")
			return
		}
	}
}

// hinted reads a config that somebody watches.
func (s *Store) hinted(key Key) {
	s.mu.Lock()
	c := s.cells[key]
	s.mu.Unlock()
	if c != nil && c.isWatched() {
		c.refresh()
	}
}

func (c *pushConn) reply(kind, id string) {
	_ = c.send(kind, &pushReply{ResultCode: 200, Success: true, RequestID: id}) // a broken stream ends receive
}

func (c *pushConn) send(kind string, body any) error {
	p, err := c.payload(kind, body, "")
	if err != nil {
		return err
	}
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	return c.stream.Send(p)
}

func (c *pushConn) payload(kind string, body any, token string) (*wire.Payload, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	headers := map[string]string{
		"Client-AppName": c.store.cfg.App, "Client-RequestTS": strconv.FormatInt(time.Now().UnixMilli(), 10),
		"exConfigInfo": "true", "charset": "utf-8",
	}
	if token != "" {
		headers["accessToken"] = token
	}
	ip := "127.0.0.1"
	if p := c.localIP.Load(); p != nil {
		ip = *p
	}
	return &wire.Payload{Metadata: &wire.Metadata{Type: kind, ClientIp: ip, Headers: headers}, Body: &anypb.Any{Value: text}}, nil
}

// request sends one unary request. The server takes a moment to register a new
// connection and carries nothing out before.
func (c *pushConn) request(ctx context.Context, kind string, body any, reply *pushReply) error {
	err := c.requestOnce(ctx, kind, body, reply)
	for i := 0; i < 10 && isUnregistered(err); i++ {
		if err := sleep(ctx, 20*time.Millisecond<<min(i, 4)); err != nil {
			return context.Cause(ctx)
		}
		err = c.requestOnce(ctx, kind, body, reply)
	}
	return err
}

// requestOnce sends the request. A refused token is renewed once.
func (c *pushConn) requestOnce(ctx context.Context, kind string, body any, reply *pushReply) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.store.cfg.CallTimeout, fmt.Errorf("no answer within %v", c.store.cfg.CallTimeout))
	defer cancel()
	auth, token := c.store.client.auth, ""
	var err error
	if c.store.cfg.Username != "" {
		if token, err = auth.token(ctx, ""); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
	}
	for again := true; ; again = false {
		p, err := c.payload(kind, body, token)
		if err != nil {
			return err
		}
		got, err := c.unary.Request(ctx, p)
		if err != nil {
			return fmt.Errorf("%s to %s: %w: %w", kind, c.target, ErrUnavailable, err)
		}
		*reply = pushReply{}
		if err := json.Unmarshal(got.GetBody().GetValue(), reply); err != nil {
			return fmt.Errorf("%s to %s: %w: %w", kind, c.target, ErrUnavailable, err)
		}
		if reply.Success || reply.ResultCode == 200 && reply.ErrorCode == 0 {
			return nil
		}
		refused := &answerError{what: kind, status: reply.ErrorCode, text: reply.Message}
		if !again || !errors.Is(refused, ErrForbidden) || c.store.cfg.Username == "" {
			return refused
		}
		if token, err = auth.token(ctx, token); err != nil {
			return fmt.Errorf("%w; logging in again: %w", refused, err)
		}
	}
}

// listen registers or removes configs and returns those that differ.
func (c *pushConn) listen(ctx context.Context, list []listened, on bool) (map[Key]bool, error) {
	r := listenRequest{pushHeader: pushHeader{Module: "config"}, Listen: on}
	for _, l := range list {
		r.Contexts = append(r.Contexts, listenContext{Group: l.cell.key.Group, DataID: l.cell.key.DataID, MD5: l.md5, Tenant: c.tenant})
	}
	var reply pushReply
	if err := c.request(ctx, "ConfigBatchListenRequest", &r, &reply); err != nil {
		return nil, err
	}
	changed := map[Key]bool{}
	for _, k := range reply.Changed {
		changed[Key{DataID: k.DataID, Group: k.Group}] = true
	}
	return changed, nil
}

// isUnregistered recognises Nacos's answer on a connection that it does not
// know (yet).
func isUnregistered(err error) bool {
	var refused *answerError
	return errors.As(err, &refused) && (refused.status == 301 || strings.Contains(refused.text, "unregistered"))
}
