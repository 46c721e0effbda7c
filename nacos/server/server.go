package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"time"
)

// Config says what kind of server to start. The zero value imitates Nacos 2.5.1 on free loopback ports, in memory,
// without authorisation.
type Config struct {
	// Addr is the host and port of HTTP; gRPC is served 1000 above it, where clients look for it. Port 0 picks a free
	// pair of ports. Default: "127.0.0.1:0".
	Addr string
	// Auth turns authorisation on. Default: nil, everybody may do everything.
	Auth *Auth
	// Behaviour selects the real server to imitate. Default: Nacos2.
	Behaviour Behaviour
	// Dir is the directory in which configs, their history and the namespaces are kept across restarts; it is created.
	// Default: "", in memory only.
	Dir string
	// DumpTick is the period at which changes become visible to reads, listens and pushes. Negative: at once, before
	// the publish returns. Default: 100 ms, and at once for RNacos.
	DumpTick time.Duration
	// HistoryLimit is how many versions are kept per config. Default: 1000.
	HistoryLimit int
	// LegacyAPIs makes Nacos3 answer the old console and admin paths (v1, v2) that it otherwise answers with 410.
	LegacyAPIs bool
	// Logger receives what goes wrong inside the server, at debug level also what clients do wrong. Default: nothing
	// is logged.
	Logger *slog.Logger
}

const (
	defaultAddr         = "127.0.0.1:0"
	defaultHistoryLimit = 1000
)

// Server is a running config server. All methods are safe for concurrent use.
type Server struct {
	cfg    Config
	traits traits
	log    *slog.Logger

	auth   *authority // nil: off
	conns  *connections
	db     *database
	disk   *disk // nil: in memory
	dump   *dump
	faults *Faults
	polls  *polls

	addr, grpcAddr, consoleAddr string

	mu     sync.Mutex // guards starting and stopping
	run    *run       // nil while stopped
	closed bool
}

// Start starts a server. ctx bounds only the start; the server runs until Close. It fails if the ports are taken or
// Dir cannot be read.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	if cfg.Addr == "" {
		cfg.Addr = defaultAddr
	}
	if cfg.HistoryLimit <= 0 {
		cfg.HistoryLimit = defaultHistoryLimit
	}
	s := &Server{cfg: cfg, traits: cfg.Behaviour.traits(), log: cfg.Logger, auth: newAuthority(cfg.Auth),
		faults: newFaults(), polls: newPolls(), db: newDatabase(cfg.HistoryLimit)}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if cfg.Dir != "" {
		disk, err := openDisk(cfg.Dir, s.db)
		if err != nil {
			return nil, fmt.Errorf("start the config server on %s: %w", cfg.Dir, err)
		}
		s.disk = disk
	}
	if cfg.DumpTick == 0 {
		cfg.DumpTick = s.traits.dumpTick
	}
	if s.auth != nil {
		s.faults.rotate = s.auth.rotate
	}
	s.conns = newConnections(s.faults)
	s.dump = newDump(s.db, s.faults, cfg.DumpTick, s.changed)
	s.faults.wake = s.dump.signal
	if err := s.start(ctx, cfg.Addr); err != nil {
		return nil, fmt.Errorf("start the config server: %w", errors.Join(err, s.closeDisk()))
	}
	return s, nil
}

// changed tells everybody who listens that reads of k now give something else.
func (s *Server) changed(k key, _ *entry) {
	s.conns.push(k, s.cfg.Behaviour == Nacos3)
	s.polls.changed(k, s.faults)
}

// Addr returns "host:port" of HTTP: what clients are configured with.
func (s *Server) Addr() string { return s.addr }

// GRPCAddr returns "host:port" of gRPC, 1000 above Addr.
func (s *Server) GRPCAddr() string { return s.grpcAddr }

// ConsoleAddr returns "host:port" of the console that Nacos3 has on a port of its own, "" for the others.
func (s *Server) ConsoleAddr() string { return s.consoleAddr }

// Behaviour returns which real server this one imitates.
func (s *Server) Behaviour() Behaviour { return s.cfg.Behaviour }

// Faults returns the knobs with which tests break the server.
func (s *Server) Faults() *Faults { return s.faults }

// run is what exists between a start and a stop.
type run struct {
	cancel  context.CancelFunc
	rpc     *rpcService
	webs    []*webService
	workers sync.WaitGroup
	errs    chan error // has room for every worker
}

func (s *Server) start(ctx context.Context, addr string) error {
	web, rpc, err := listenPair(ctx, addr)
	if err != nil {
		return err
	}
	listeners := map[net.Listener]http.Handler{web: s.routes()}
	if s.cfg.Behaviour == Nacos3 {
		host, _, _ := net.SplitHostPort(web.Addr().String())
		consoleAddr := s.consoleAddr
		if consoleAddr == "" {
			consoleAddr = net.JoinHostPort(host, "0")
		}
		var config net.ListenConfig
		console, err := config.Listen(ctx, "tcp", consoleAddr)
		if err != nil {
			return errors.Join(err, web.Close(), rpc.Close())
		}
		s.consoleAddr = console.Addr().String()
		listeners[console] = s.consoleRoutes()
	}
	s.addr, s.grpcAddr = web.Addr().String(), rpc.Addr().String()
	s.dump.load()

	runCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &run{cancel: cancel, rpc: newRPCService(s, rpc), errs: make(chan error, 3+len(listeners))}
	for l, handler := range listeners {
		r.webs = append(r.webs, newWebService(runCtx, s, l, handler))
	}
	r.work(s.log, func() error { s.dump.run(runCtx); return nil })
	r.work(s.log, func() error { s.conns.detect(runCtx); return nil })
	r.work(s.log, r.rpc.serve)
	for _, w := range r.webs {
		r.work(s.log, w.serve)
	}
	s.run = r
	return nil
}

// work starts a worker; what it fails with, or panics with, is logged and returned by stop.
func (r *run) work(log *slog.Logger, do func() error) {
	r.workers.Go(func() {
		err := func() (err error) {
			defer func() {
				if p := recover(); p != nil {
					err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
				}
			}()
			return do()
		}()
		if err != nil {
			log.Error("a part of the config server has stopped", slog.Any("error", err))
			r.errs <- err
		}
	})
}

// stop ends a run at once, as kill -9 does, and returns what had gone wrong in it.
func (r *run) stop() error {
	errs := []error{r.rpc.socket.Close()} // first of all, so that nothing that ends is answered
	for _, w := range r.webs {
		errs = append(errs, w.socket.Close())
	}
	r.cancel()
	r.rpc.stop()
	for _, w := range r.webs {
		errs = append(errs, w.stop())
	}
	r.workers.Wait()
	close(r.errs)
	for err := range r.errs {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// ErrClosed is returned by Restart after Close.
var ErrClosed = errors.New("the config server is closed")

// Stop ends the server as a crash does: all connections break, calls in progress get no answer, the ports are free.
// What was published stays. Stopping a stopped server does nothing.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stop()
}

// closeDisk gives the directory back, once.
func (s *Server) closeDisk() error {
	if s.disk == nil {
		return nil
	}
	disk := s.disk
	s.disk = nil
	return disk.close()
}

func (s *Server) stop() error {
	if s.run == nil {
		return nil
	}
	r := s.run
	s.run = nil
	return r.stop()
}

// Restart starts a stopped server on the same ports with what was published; it stops a running one first. It fails
// if somebody else has taken a port in the meantime. ctx bounds only the start.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	if err := s.stop(); err != nil {
		return fmt.Errorf("stop before the restart: %w", err)
	}
	s.faults.restarted()
	if err := s.start(ctx, s.addr); err != nil {
		return fmt.Errorf("restart the config server: %w", err)
	}
	return nil
}

// Close stops the server for good and waits until nothing of it runs any more, or ctx ends. Closing twice does nothing.
func (s *Server) Close(ctx context.Context) error {
	done := make(chan error, 1)
	go func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.closed = true
		done <- errors.Join(s.stop(), s.closeDisk())
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("close the config server: %w", ctx.Err())
	}
}
