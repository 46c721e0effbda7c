package nacos

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// pushBeat is the time between two health checks of the connection, which
	// find a silent cut.
	pushBeat = 5 * time.Second
	// setupPause leaves the server time to register a new connection; it sends
	// no word when it has. The SDK waits as long.
	setupPause = 100 * time.Millisecond
	// listenBatch bounds the configs of one listen request.
	listenBatch = 1000
)

// push is the gRPC side of the watch: one connection for all configs, on which
// the server names those that changed. What it says is a hint to read.
type push struct {
	store *Store

	mu      sync.Mutex
	conn    *pushConn      // nil while there is none
	pending map[*cell]bool // to be listened to (true) or no more (false)
	on      map[*cell]bool // what this connection listens to; flush's own
	failed  int            // attempts in a row: the next server's turn
	wake    chan struct{}  // pending is not empty
	again   bool           // the next connection is not the first
}

func newPush(s *Store) *push {
	return &push{store: s, pending: map[*cell]bool{}, wake: make(chan struct{}, 1)}
}

// relisten tells the server what we have of a config: after the first read and
// after every change, so that its list of listeners shows the md5 that was
// fetched.
func (s *Store) relisten(c *cell) { s.push.enqueue(c, true); s.sdk.poke() }

func (s *Store) unlisten(c *cell) { s.push.enqueue(c, false); s.sdk.poke() }

func (p *push) enqueue(c *cell, listen bool) {
	p.mu.Lock()
	if p.conn != nil {
		p.pending[c] = listen
	}
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *push) current() *pushConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conn
}

// pushLoop keeps the connection while the store lives. Where gRPC cannot be
// reached the HTTP long poll stands in between two attempts.
func (s *Store) pushLoop() {
	if s.cfg.DisablePush {
		s.longPoll(s.ctx)
		return
	}
	sdkLogs.join(s)
	defer sdkLogs.leave(s)
	s.spawn(s.sdk.loop)
	pause := 200 * time.Millisecond
	for s.ctx.Err() == nil {
		began := time.Now()
		err := s.push.run(s.ctx)
		if s.ctx.Err() != nil {
			return
		}
		if time.Since(began) > 2*pushBeat {
			pause = 200 * time.Millisecond
		}
		s.cfg.log.Debug("push connection ended", "err", err, "next", pause)
		ctx, cancel := context.WithTimeout(s.ctx, pause)
		s.longPoll(ctx)
		<-ctx.Done()
		cancel()
		pause = min(2*pause, 30*time.Second)
	}
}

// run connects and serves until the connection breaks.
func (p *push) run(ctx context.Context) (err error) {
	s := p.store
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("push: panic: %v", r)
		}
	}()
	d, err := s.detector.get(ctx)
	if err != nil {
		return err
	}
	if d.major() == "1" {
		return errors.New("a 1.x server has no gRPC")
	}
	c, err := dialPush(ctx, s, d, s.client.endpoint(p.failed))
	if err != nil {
		p.failed++
		return err
	}
	p.failed = 0
	defer c.close()
	if sleep(ctx, setupPause) != nil {
		return ctx.Err()
	}
	p.mu.Lock()
	p.conn = c
	p.pending = map[*cell]bool{}
	p.mu.Unlock()
	p.on = map[*cell]bool{}
	s.sdk.doubt()
	defer func() {
		p.mu.Lock()
		p.conn = nil
		p.mu.Unlock()
		s.stats.use("poll")
		s.stats.doubt()
	}()
	// The server forgot us with the old connection: everything anew.
	for _, cell := range s.watched() {
		p.enqueue(cell, true)
	}
	s.stats.use("push")
	s.sdk.poke()
	if p.again {
		s.stats.doubt()
	}
	p.again = true
	s.cfg.log.Debug("push connection up", "server", c.target)
	return p.serve(ctx, c)
}

// serve sends listen requests and health checks until the stream ends.
func (p *push) serve(ctx context.Context, c *pushConn) error {
	beat := time.NewTicker(pushBeat)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.ended:
			return c.failure
		case <-beat.C:
			var reply pushReply
			if err := c.request(ctx, "HealthCheckRequest", &pushHeader{Module: "internal"}, &reply); err != nil {
				return err
			}
		case <-p.wake:
			if err := p.flush(ctx, c); err != nil {
				return err
			}
		}
	}
}

// flush sends what is pending. A refusal ends the connection; the next one begins anew.
func (p *push) flush(ctx context.Context, c *pushConn) error {
	p.mu.Lock()
	pending := p.pending
	p.pending = map[*cell]bool{}
	p.mu.Unlock()
	var on, off []listened
	for cell, listen := range pending {
		held, _ := cell.snapshot()
		wanted := cell.isWatched() && !p.store.sdk.covers(cell)
		if wanted && (listen || !p.on[cell]) {
			on = append(on, listened{cell: cell, md5: held.MD5})
			p.on[cell] = true
		} else if !wanted && (p.on[cell] || !cell.isWatched()) { // the poll may have registered it
			off = append(off, listened{cell: cell, md5: held.MD5})
			delete(p.on, cell)
		}
	}
	if len(off) > 0 {
		if _, err := c.listen(ctx, off, false); err != nil {
			return err
		}
	}
	for len(on) > 0 {
		n := min(len(on), listenBatch)
		changed, err := c.listen(ctx, on[:n], true)
		if err != nil {
			return err
		}
		for _, l := range on[:n] {
			// Nothing is known of some yet; their first read runs anyway.
			if changed[l.cell.key] && l.md5 != "" {
				l.cell.refresh()
			}
		}
		on = on[n:]
	}
	return nil
}

// compare asks over gRPC which configs differ; an error where there is no
// connection.
func (p *push) compare(ctx context.Context, asked []listened) (map[Key]bool, error) {
	c := p.current()
	if c == nil {
		return nil, fmt.Errorf("compare configs: %w: no gRPC connection", ErrUnavailable)
	}
	return c.listen(ctx, asked, true)
}
