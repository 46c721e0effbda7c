package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"time"

	pb "github.com/nacos-group/nacos-sdk-go/v2/api/grpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
)

// hardMessage is where gRPC itself stops reading; messages between the server's limit and this one are refused with
// the server's words.
const hardMessage = maxMessage + 4<<20

// rpcService serves the gRPC port of one run of the server.
type rpcService struct {
	pb.UnimplementedRequestServer // later SDKs insist on these
	pb.UnimplementedBiRequestStreamServer

	server *Server
	socket *socket
	grpc   *grpc.Server
	calls  calls
}

func newRPCService(s *Server, l net.Listener) *rpcService {
	r := &rpcService{server: s, socket: newSocket(l, &s.faults.gate)}
	r.grpc = grpc.NewServer(
		grpc.StatsHandler(r),
		grpc.MaxRecvMsgSize(hardMessage),
		grpc.MaxSendMsgSize(hardMessage),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.UnaryInterceptor(r.intercept),
		grpc.StreamInterceptor(r.interceptStream),
	)
	pb.RegisterRequestServer(r.grpc, r)
	pb.RegisterBiRequestStreamServer(r.grpc, r)
	return r
}

func (r *rpcService) serve() error {
	if err := r.grpc.Serve(r.socket); err != nil && !errors.Is(err, grpc.ErrServerStopped) && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("serve gRPC: %w", err)
	}
	return nil
}

// stop waits for the calls in progress; their connections are cut already.
func (r *rpcService) stop() {
	r.grpc.Stop()
	r.calls.stop()
}

var errStopped = status.Error(codes.Unavailable, "the server has stopped")

type connectionKey struct{}

func connectionOf(ctx context.Context) *connection {
	c, _ := ctx.Value(connectionKey{}).(*connection)
	return c
}

// TagConn gives every connection its identity; requests find it in their context.
func (r *rpcService) TagConn(ctx context.Context, info *stats.ConnTagInfo) context.Context {
	return context.WithValue(ctx, connectionKey{}, newConnection(info.RemoteAddr, r.socket, r.server.conns.serial.Add(1)))
}

// HandleConn forgets a connection that has ended.
func (r *rpcService) HandleConn(ctx context.Context, s stats.ConnStats) {
	if _, ended := s.(*stats.ConnEnd); ended {
		r.server.conns.drop(connectionOf(ctx))
	}
}

// TagRPC does nothing; it is part of stats.Handler.
func (r *rpcService) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC does nothing; it is part of stats.Handler.
func (r *rpcService) HandleRPC(context.Context, stats.RPCStats) {}

// intercept counts the call, limits its size and turns a panic into an error.
func (r *rpcService) intercept(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
	if !r.calls.enter() {
		return nil, errStopped
	}
	defer r.calls.leave()
	defer r.recovered(&err)
	if p, ok := req.(*pb.Payload); ok && r.server.traits.checkNames {
		if size := proto.Size(protoadapt.MessageV2Of(p)); size > maxMessage {
			return nil, status.Errorf(codes.ResourceExhausted, "gRPC message exceeds maximum size %d: %d", maxMessage, size)
		}
	}
	return next(ctx, req)
}

func (r *rpcService) interceptStream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	if !r.calls.enter() {
		return errStopped
	}
	defer r.calls.leave()
	defer r.recovered(&err)
	return next(srv, stream)
}

func (r *rpcService) recovered(err *error) {
	if p := recover(); p != nil {
		r.server.log.Error("panic in a gRPC call", slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
		*err = status.Errorf(codes.Internal, "panic: %v", p)
	}
}

// RequestBiStream is the stream over which a client introduces itself and is pushed to. It lasts as long as the
// connection; one goroutine sends, this one receives.
func (r *rpcService) RequestBiStream(stream pb.BiRequestStream_RequestBiStreamServer) error {
	c := connectionOf(stream.Context())
	if c == nil {
		return status.Error(codes.Internal, "connection without identity")
	}
	ctx, cancel := context.WithCancel(stream.Context())
	var sender sync.WaitGroup
	sender.Go(func() {
		if err := c.send(ctx, stream); err != nil {
			r.server.log.Debug("push failed", slog.Any("error", err))
			c.cut()
		}
	})
	defer sender.Wait()
	defer cancel()
	defer r.server.conns.drop(c)
	for {
		payload, err := stream.Recv()
		if err != nil {
			return nil //nolint:nilerr // the client has left
		}
		c.alive()
		req, err := decodeRequest(payload)
		if err != nil {
			r.server.log.Debug("unreadable message on a stream", slog.String("connection", c.id), slog.Any("error", err))
			continue
		}
		if req.kind == "ConnectionSetupRequest" {
			c.introduce(req)
			r.server.conns.add(c)
		}
	}
}

// introduce takes over what a client says about itself.
func (c *connection) introduce(req *rpcRequest) {
	c.clientIP, c.version, c.labels = req.clientIP, req.ClientVersion, req.Labels
	c.app = req.Labels["AppName"]
	if c.app == "" {
		c.app = "unknown"
	}
}

// Request answers every other call. The type of the response depends on that of the request.
func (r *rpcService) Request(ctx context.Context, payload *pb.Payload) (*pb.Payload, error) {
	req, err := decodeRequest(payload)
	if err != nil {
		return errorPayload(rpcIllegal, err.Error(), "")
	}
	if err := r.server.faults.gate.settled(ctx); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	c := connectionOf(ctx)
	if req.kind == "ServerCheckRequest" {
		return encodePayload("ServerCheckResponse", &checkResponse{rpcStatus: rpcOK(), ConnectionID: c.id})
	}
	if !r.server.conns.registered(c) {
		return errorPayload(rpcUnregistered, "Connection is unregistered.", req.RequestID)
	}
	c.alive()
	call, ok := rpcCalls[req.kind]
	if !ok {
		return errorPayload(rpcNoHandler, "RequestHandler Not Found", req.RequestID)
	}
	resp, refused := r.admit(req, call)
	if !refused {
		resp = call.handle(r.server, ctx, c, req)
		if r.server.faults.reply(ctx, call.op) {
			c.cut()
			return nil, status.Error(codes.Unavailable, "connection cut")
		}
	}
	resp.status().RequestID = req.RequestID
	return encodePayload(call.response, resp)
}

// admit refuses a call that a fault or the authorisation stands against, with the response type of the call.
func (r *rpcService) admit(req *rpcRequest, call rpcCall) (rpcResponse, bool) {
	if r.server.faults.take(faultLimit, call.op) != nil {
		return call.refuse(rpcFailed(rpcOverLimit, "Tps Flow restricted:deny by fault")), true
	}
	if call.op == OpAny { // health
		return nil, false
	}
	if err := r.server.authorizeRPC(req, call); err != nil {
		return call.refuse(rpcFailed(rpcForbidden, err.Error())), true
	}
	return nil, false
}

func errorPayload(code int, message, id string) (*pb.Payload, error) {
	s := rpcFailed(code, message)
	s.RequestID = id
	return encodePayload("ErrorResponse", &plainResponse{s})
}
