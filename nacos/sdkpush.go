package nacos

import (
	"maps"
	"slices"
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
	// sdkRetryMin and sdkRetryMax bound the pause after a client that could not be
	// opened.
	sdkRetryMin = 2 * time.Second
	sdkRetryMax = time.Hour
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
	ending  int             // clients that are being shut
	tries   map[*cell]retry // of configs whose client could not be opened
}

// retry says when a client is tried again. Each try may leave an entry in the SDK's
// table, so the pause grows to an hour.
type retry struct {
	next  time.Time
	pause time.Duration
}

func newSDKPush(s *Store) *sdkPush {
	p := &sdkPush{store: s, wake: make(chan struct{}, 1), clients: map[*cell]*sdkClient{}, tries: map[*cell]retry{}}
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
	return k != nil && k.delivers()
}

// working counts the clients that are known to deliver.
func (p *sdkPush) working() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.clients {
		if k.ready && k.delivers() {
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

// missed notes that the poll found a change that no client announced, as where the
// SDK has lost its server: the own connection listens until the client calls back.
func (p *sdkPush) missed(c *cell) {
	p.mu.Lock()
	k := p.clients[c]
	p.mu.Unlock()
	if k != nil && k.confirmed.Swap(false) {
		p.store.push.enqueue(c, true)
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
		busy   int // clients that connect
		timer  = time.NewTimer(0)
	)
	defer timer.Stop()
	for {
		for _, k := range p.unwanted() {
			p.store.push.enqueue(k.cell, true) // where it is still watched
			all.Go(func() { p.end(k) })
		}
		list, wait := p.wanted(sdkOpenings - busy)
		for _, c := range list {
			busy++
			k := p.add(c)
			all.Go(func() { k.begin(opened, failed) })
		}
		timer.Stop()
		if wait > 0 {
			timer.Reset(wait)
		}
		select {
		case <-p.store.ctx.Done():
			p.closeAll(&all)
			return
		case k := <-opened:
			busy--
			p.keep(k)
		case k := <-failed:
			busy--
			p.forget(k)
		case <-p.wake:
		case <-timer.C:
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

// end shuts a client that unwanted took out.
func (p *sdkPush) end(k *sdkClient) {
	k.shut()
	p.mu.Lock()
	p.ending--
	p.mu.Unlock()
	p.poke() // there may be room for another one
}

// keep takes a client that was opened.
func (p *sdkPush) keep(k *sdkClient) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k.ready = true
	delete(p.tries, k.cell)
}

// forget drops a client that could not be opened.
func (p *sdkPush) forget(k *sdkClient) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.clients, k.cell)
	pause := min(max(2*p.tries[k.cell].pause, sdkRetryMin), sdkRetryMax)
	p.tries[k.cell] = retry{next: time.Now().Add(pause), pause: pause}
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
	p.ending += len(list)
	maps.DeleteFunc(p.tries, func(c *cell, _ retry) bool { return !c.isWatched() })
	return list
}

// wanted names up to n configs that are to have a client and have none, those that
// are watched longest first, and the time until the next one may. Only the own
// connection tells that the port answers.
func (p *sdkPush) wanted(n int) (list []*cell, wait time.Duration) {
	// The SDK cannot check a certificate of another name, and ends the process
	// where it cannot read a client certificate, on any reconnect.
	if t := p.store.cfg.TLS; t.ServerName != "" || t.CertFile != "" || p.store.push.current() == nil {
		return nil, 0
	}
	type candidate struct {
		cell *cell
		at   time.Time
	}
	var queue []candidate
	watched, patience := p.store.watched(), time.Duration(p.patience.Load())
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range watched {
		since, ok := c.watchedSince()
		if !ok || p.clients[c] != nil {
			continue
		}
		at := since.Add(patience)
		if next := p.tries[c].next; next.After(at) {
			at = next
		}
		queue = append(queue, candidate{c, at})
	}
	slices.SortFunc(queue, func(a, b candidate) int { return a.at.Compare(b.at) })
	n = min(n, int(p.limit.Load())-len(p.clients)-p.ending, int(sdkBudget-sdkMade.Load()))
	for _, q := range queue {
		if len(list) >= n {
			break
		}
		if wait = time.Until(q.at); wait > 0 {
			return list, wait
		}
		list = append(list, q.cell)
	}
	return list, 0
}

func (p *sdkPush) tenant() string { return p.store.detector.known().tenant(p.store.cfg.Namespace) }
