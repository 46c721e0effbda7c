package nacos

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// sdkBudget bounds the SDK clients of a process's life: the SDK keeps a
	// closed one in a global table for ever. Beyond, the own connection serves.
	sdkBudget = 4096
	// sdkOpenings bounds the clients that connect at a time, and thereby the
	// goroutines that a port which accepts and says nothing can hold (the SDK
	// gives up after some ten seconds).
	sdkOpenings = 4
	// sdkPatience is how long a config is watched before it gets a client, so
	// that short commands make none.
	sdkPatience = time.Second
	// sdkSettle is the time between two looks at a client that is to end.
	sdkSettle = 10 * time.Millisecond
	// sdkLinger bounds the wait for a client to be idle: the longest that a
	// request of the SDK waits for a silent server (10 s, and 3 s for the next).
	sdkLinger = 14 * time.Second
	// sdkReconnect bounds the wait for a closed client's goroutines: the longest
	// pause between two tries to connect is five seconds, and a try may take
	// three.
	sdkReconnect = 10 * time.Second
	// sdkCloseLimit bounds the wait for all clients in Close.
	sdkCloseLimit = 700 * time.Millisecond
)

var sdkMade atomic.Int64

// sdkPush owns the SDK clients of a store: one for each of the first configs
// that are watched. Their callbacks are hints to read.
type sdkPush struct {
	store *Store
	wake  chan struct{}

	limit    atomic.Int64 // sdkKeys, or what a test wants
	patience atomic.Int64 // sdkPatience, likewise

	mu      sync.Mutex
	clients map[*cell]*sdkClient
}

func newSDKPush(s *Store) *sdkPush {
	p := &sdkPush{store: s, wake: make(chan struct{}, 1), clients: map[*cell]*sdkClient{}}
	if sdkSafe {
		p.limit.Store(sdkKeys)
	}
	p.patience.Store(int64(sdkPatience))
	return p
}

// covers tells that an SDK client is known to deliver the config's changes.
func (p *sdkPush) covers(c *cell) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.clients[c]
	return k != nil && k.confirmed.Load() && !k.dead.Load()
}

// working counts the clients that are known to deliver.
func (p *sdkPush) working() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.clients {
		if k.ready && k.confirmed.Load() {
			n++
		}
	}
	return n
}

// doubt lets the own connection listen again until the SDK clients have called
// back anew: they do not tell whether they are connected.
func (p *sdkPush) doubt() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.clients {
		k.confirmed.Store(false)
	}
}

func (p *sdkPush) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// loop opens and closes clients as configs are watched, until the store ends.
func (p *sdkPush) loop() {
	var (
		all    sync.WaitGroup
		opened = make(chan *sdkClient)
		failed = make(chan *sdkClient)
		busy   int              // clients that connect
		pause  = p.pause()      // doubled by failures
		due    <-chan time.Time // set while more are wanted
	)
	for {
		delay := pause
		select {
		case <-p.store.ctx.Done():
			p.closeAll(&all)
			return
		case k := <-opened:
			busy, pause, delay = busy-1, p.pause(), 0
			p.keep(k)
		case k := <-failed:
			pause = min(2*max(pause, sdkPatience), time.Minute)
			busy, delay = busy-1, pause
			p.forget(k)
		case <-p.wake:
		case <-due:
			due = nil
			for _, c := range p.wanted(sdkOpenings - busy) {
				busy++
				k := p.add(c)
				all.Go(func() { k.begin(opened, failed) })
			}
		}
		for _, k := range p.unwanted() {
			all.Go(k.shut)
		}
		if due == nil && len(p.wanted(sdkOpenings-busy)) > 0 {
			due = time.After(delay)
		}
	}
}

// closeAll ends what is ready and waits for it, and for clients that connect
// (they end themselves), for a bounded time.
func (p *sdkPush) closeAll(all *sync.WaitGroup) {
	p.mu.Lock()
	for c, k := range p.clients {
		if k.ready {
			all.Go(k.shut)
		}
		delete(p.clients, c)
	}
	p.mu.Unlock()
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(sdkCloseLimit):
	}
}

func (p *sdkPush) pause() time.Duration { return time.Duration(p.patience.Load()) }

// add makes the client of a config.
func (p *sdkPush) add(c *cell) *sdkClient {
	sdkLiving.Add(1)
	n := sdkMade.Add(1)
	k := &sdkClient{cell: c, label: strconv.FormatInt(n, 10), tenant: p.tenant()}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clients[c] = k
	return k
}

func (p *sdkPush) keep(k *sdkClient) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k.ready = true
}

func (p *sdkPush) forget(k *sdkClient) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.clients, k.cell)
}

// unwanted takes out the ready clients of configs that nobody watches, and those
// that were opened on a server that named the namespace otherwise.
func (p *sdkPush) unwanted() (list []*sdkClient) {
	tenant := p.tenant()
	p.mu.Lock()
	defer p.mu.Unlock()
	for c, k := range p.clients {
		if k.ready && (!c.isWatched() || k.tenant != tenant) {
			delete(p.clients, c)
			list = append(list, k)
		}
	}
	return list
}

// wanted names up to n configs that are to have a client and have none. Only
// the own connection tells that the port answers.
func (p *sdkPush) wanted(n int) (list []*cell) {
	// The SDK cannot check a certificate of another name, and ends the process
	// where it cannot read a client certificate, on any reconnect.
	if t := p.store.cfg.TLS; t.ServerName != "" || t.CertFile != "" || p.store.push.current() == nil {
		return nil
	}
	watched := p.store.watched()
	p.mu.Lock()
	defer p.mu.Unlock()
	n = min(n, int(p.limit.Load())-len(p.clients), int(sdkBudget-sdkMade.Load()))
	for _, c := range watched {
		if len(list) >= n {
			break
		}
		if p.clients[c] == nil {
			list = append(list, c)
		}
	}
	return list
}

func (p *sdkPush) tenant() string { return p.store.detector.known().tenant(p.store.cfg.Namespace) }
