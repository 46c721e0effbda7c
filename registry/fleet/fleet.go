package fleet

import (
	"context"
	"log/slog"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belay-mq/belay/consumers/observe"
	"github.com/belay-mq/belay/nacos"
	"github.com/belay-mq/belay/registry/presence"
)

const (
	// minGap bounds the snapshots to ten a second.
	minGap = 100 * time.Millisecond
	// lookAgain is how often every row is joined anew although nothing changed: for
	// ages, deadlines and rates.
	lookAgain = time.Second
	// settleTime is how long wanted and actual may differ before it is drift.
	settleTime = 10 * time.Second
	// watchersEvery is how often Nacos is asked who listens to a file.
	watchersEvery = 10 * time.Second
	// discoverEvery is how often applications are searched by data id.
	discoverEvery = 30 * time.Second
	// maxReported bounds the applications that are followed because instances report
	// them, though Nacos has no file of theirs: reports are outside text.
	maxReported   = 100
	reportedEvery = 100 * time.Millisecond
	// askTimeout bounds one question to Nacos.
	askTimeout = 5 * time.Second
)

// ConfigStore is where toggle files are read; *nacos.Store is one.
type ConfigStore interface {
	Watch(context.Context, nacos.Key) <-chan nacos.State
	// Watchers lists the clients that listen to a config.
	Watchers(context.Context, nacos.Key) ([]nacos.Watcher, error)
	// Search finds the configs of the given data ids in all groups.
	Search(ctx context.Context, dataIDs ...string) ([]nacos.Key, error)
}

// Presence is where reports come from; *presence.Presence is one.
type Presence interface {
	Instances() []presence.Seen
	// Gone reports whether an instance said bye lately.
	Gone(instance string) bool
	Health() presence.Health
	// OnChange registers a function that must not block.
	OnChange(func())
}

// Observer shows queues; *observe.Observer is one.
type Observer interface {
	Want([]observe.QueueID)
	Queues() map[observe.QueueID]*observe.Queue
	Refresh()
}

// Broker is one virtual host with its reports and queues.
type Broker struct {
	VHost    string
	Presence Presence // nil: no reports
	Observer Observer // nil: queues are not observed
}

// AppConfig names an application of the context.
type AppConfig struct {
	Name   string
	DataID string // of its toggle file
	VHost  string // where its queues are; empty: that of the first broker
}

// Config is what a [Fleet] needs.
type Config struct {
	// Apps are the applications. Empty: found in Nacos by DataIDs, again every 30 s, and
	// those of the instances that report listeners, which may not have a file yet.
	Apps []AppConfig
	// Brokers are the virtual hosts; the first is the default one.
	Brokers []Broker
	// Context and Label name the environment on every screen.
	Context, Label string
	// DataIDs are searched where Apps is empty. Default rabbitmq-toggle.properties.
	DataIDs []string
	// Health tells how the parts of the backend fare. It must not block.
	Health func() []Health
	// Logger receives what goes wrong; nil discards it.
	Logger *slog.Logger
	// Only shows rows and instances of this application only; empty: of all.
	Only string
	// ReadOnly is shown; writes are refused by control.
	ReadOnly bool
	// Store is where the files are; nil: no files, only what runs is shown.
	Store ConfigStore
}

// Fleet is all listeners of a context. Snapshot, SetEffect and Refresh may be called
// from any goroutine.
type Fleet struct {
	cfg  Config
	log  *slog.Logger
	snap atomic.Pointer[Snapshot]
	wake chan struct{}

	mu      sync.Mutex // guards what other goroutines hand in
	apps    map[string]*app
	effects map[ID]Effect
	// searched is set once the applications are known as far as Nacos knows them;
	// searchErr is why not yet.
	searched  bool
	searchErr string

	// Owned by Run.
	rows    map[ID]*rowState
	version uint64
}

// New returns a fleet with an empty snapshot. It does nothing until Run.
func New(cfg Config) *Fleet {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if len(cfg.DataIDs) == 0 {
		cfg.DataIDs = []string{"rabbitmq-toggle.properties"}
	}
	f := &Fleet{
		cfg:     cfg,
		log:     cfg.Logger.With("component", "fleet"),
		wake:    make(chan struct{}, 1),
		apps:    make(map[string]*app),
		effects: make(map[ID]Effect),
		rows:    make(map[ID]*rowState),

		searched: cfg.Store == nil || len(cfg.Apps) > 0,
	}
	f.snap.Store(&Snapshot{At: time.Now(), Context: cfg.Context, Label: cfg.Label, ReadOnly: cfg.ReadOnly})
	return f
}

// Snapshot returns the newest snapshot. It never blocks.
func (f *Fleet) Snapshot() *Snapshot { return f.snap.Load() }

// SetEffect shows the progress of a write on a listener. A later write's effect
// replaces an earlier one's; an ended one is shown for a while.
func (f *Fleet) SetEffect(id ID, e Effect) {
	f.mu.Lock()
	old, ok := f.effects[id]
	if !ok || e.Ticket >= old.Ticket {
		f.effects[id] = e
	}
	f.mu.Unlock()
	if e.Phase == Applied && old.Phase != Applied {
		f.Refresh() // only the broker is waited for now
		return
	}
	f.Wake()
}

// Wake asks for a new snapshot soon. It never blocks.
func (f *Fleet) Wake() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Refresh reads the queues again soon. It never blocks.
func (f *Fleet) Refresh() {
	for _, b := range f.cfg.Brokers {
		if b.Observer != nil {
			b.Observer.Refresh()
		}
	}
	f.Wake()
}

// Run keeps the snapshot up to date until ctx ends.
func (f *Fleet) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, b := range f.cfg.Brokers {
		if b.Presence != nil {
			b.Presence.OnChange(f.Wake)
		}
	}
	if f.cfg.Store != nil {
		for _, a := range f.cfg.Apps {
			f.addApp(ctx, &wg, a)
		}
		if len(f.cfg.Apps) == 0 {
			wg.Go(func() { f.guard("discover", func() { f.discover(ctx, &wg) }) })
		} else if f.cfg.Only == "" {
			// An application that is not configured but reports is shown, and so must
			// its file be: without it a paused listener would be called unmanaged.
			wg.Go(func() {
				f.guard("reported applications", func() {
					for ctx.Err() == nil {
						f.followReported(ctx, &wg, discoverEvery)
					}
				})
			})
		}
		wg.Go(func() { f.guard("watchers", func() { f.askWatchers(ctx) }) })
	}
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		began := time.Now()
		f.guard("snapshot", func() { f.rebuild(began) })
		// However large the fleet, joining it takes about a twentieth of a core.
		gap := time.NewTimer(max(minGap, min(19*time.Since(began), 2*lookAgain)))
		select {
		case <-ctx.Done():
			gap.Stop()
			return nil
		case <-gap.C:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-f.wake:
		case <-tick.C:
		}
	}
}

// discover finds applications by data id, and by the reports of their instances.
func (f *Fleet) discover(ctx context.Context, wg *sync.WaitGroup) {
	for {
		keys, err := f.search(ctx)
		f.noteSearch(err)
		if err != nil && ctx.Err() == nil {
			f.log.Warn("applications could not be searched in Nacos", "error", err)
		}
		for _, k := range keys {
			f.addApp(ctx, wg, AppConfig{Name: k.Group, DataID: k.DataID})
		}
		wait := discoverEvery
		if err != nil {
			wait = time.Second
		}
		f.followReported(ctx, wg, wait)
		if ctx.Err() != nil {
			return
		}
	}
}

func (f *Fleet) noteSearch(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.searchErr = ""
	if err != nil {
		f.searchErr = err.Error()
		return
	}
	f.searched = true
	f.Wake()
}

// followReported adds, for a time, the applications whose instances report listeners: one
// that has no toggle file yet gets its first by a write, which must be followed at once.
func (f *Fleet) followReported(ctx context.Context, wg *sync.WaitGroup, lasts time.Duration) {
	end := time.NewTimer(lasts)
	defer end.Stop()
	look := time.NewTicker(reportedEvery)
	defer look.Stop()
	for {
		for _, name := range f.unfollowed() {
			f.addApp(ctx, wg, AppConfig{Name: name})
		}
		select {
		case <-ctx.Done():
			return
		case <-end.C:
			return
		case <-look.C:
		}
	}
}

// unfollowed are the applications of reports that are not followed yet, as far as the
// bound allows.
func (f *Fleet) unfollowed() []string {
	var names []string
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, i := range f.Snapshot().Instances {
		if i.App != "" && i.Listeners > 0 && f.apps[i.App] == nil && len(f.apps)+len(names) < maxReported && !slices.Contains(names, i.App) {
			names = append(names, i.App)
		}
	}
	return names
}

func (f *Fleet) search(ctx context.Context) ([]nacos.Key, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return f.cfg.Store.Search(ctx, f.cfg.DataIDs...)
}

// addApp follows an application's file, unless it is followed already.
func (f *Fleet) addApp(ctx context.Context, wg *sync.WaitGroup, c AppConfig) {
	if c.DataID == "" {
		c.DataID = f.cfg.DataIDs[0]
	}
	f.mu.Lock()
	_, known := f.apps[c.Name]
	if !known {
		f.apps[c.Name] = newApp(c)
	}
	a := f.apps[c.Name]
	f.mu.Unlock()
	if known {
		return
	}
	f.Wake()
	states := f.cfg.Store.Watch(ctx, a.key)
	wg.Go(func() {
		for s := range states {
			f.guard("toggle file of "+c.Name, func() { f.take(a, s) })
			f.Wake()
		}
	})
}

func (f *Fleet) take(a *app, s nacos.State) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a.take(s, time.Now())
}

// guard reports a panic of one part, so that it neither ends the process nor the others.
func (f *Fleet) guard(what string, do func()) {
	defer func() {
		if p := recover(); p != nil {
			f.log.Error("a part of the fleet panicked", "part", what, "panic", p)
		}
	}()
	do()
}

// askWatchers keeps the list of clients that listen in Nacos.
func (f *Fleet) askWatchers(ctx context.Context) {
	for {
		f.mu.Lock()
		apps := make([]*app, 0, len(f.apps))
		for _, a := range f.apps {
			apps = append(apps, a)
		}
		f.mu.Unlock()
		for _, a := range apps {
			ask, cancel := context.WithTimeout(ctx, askTimeout)
			list, err := f.cfg.Store.Watchers(ask, a.key)
			cancel()
			if ctx.Err() != nil {
				return
			}
			f.mu.Lock()
			a.setWatchers(list, err)
			f.mu.Unlock()
		}
		wait := watchersEvery
		if len(apps) == 0 {
			wait = lookAgain
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// rebuild makes the next snapshot. It is called by Run only.
func (f *Fleet) rebuild(now time.Time) {
	in := f.gather(now)
	s := &Snapshot{
		At: now, Context: f.cfg.Context, Label: f.cfg.Label, ReadOnly: f.cfg.ReadOnly,
		Blocked: in.blocked, Apps: in.apps, Instances: in.instances,
	}
	f.mu.Lock()
	s.Searched, s.SearchErr = f.searched, f.searchErr
	f.mu.Unlock()
	if f.cfg.Health != nil {
		s.Health = f.cfg.Health()
	}
	f.version++
	s.Version = f.version
	s.Rows = f.join(in, now)
	if only := f.cfg.Only; only != "" {
		s.Rows = slices.DeleteFunc(s.Rows, func(r *Row) bool { return r.ID.App != only })
		s.Instances = slices.DeleteFunc(s.Instances, func(i *Instance) bool { return i.App != only })
	}
	f.want(in, s.Rows)
	f.snap.Store(s)
}

// want tells the observers which queues matter.
func (f *Fleet) want(in *inputs, rows []*Row) {
	byHost := make(map[string]map[observe.QueueID]bool)
	for _, r := range rows {
		vhost := in.vhost(r.ID.App)
		for _, q := range f.rows[r.ID].queues {
			if byHost[vhost] == nil {
				byHost[vhost] = make(map[observe.QueueID]bool)
			}
			byHost[vhost][observe.QueueID{VHost: vhost, Name: q}] = true
		}
	}
	for _, b := range f.cfg.Brokers {
		if b.Observer == nil {
			continue
		}
		ids := make([]observe.QueueID, 0, len(byHost[b.VHost]))
		for id := range byHost[b.VHost] {
			ids = append(ids, id)
		}
		sort.Slice(ids, func(i, j int) bool { return ids[i].Name < ids[j].Name })
		b.Observer.Want(ids)
	}
}
