package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"time"

	"github.com/belay-mq/belay/cmd/belay/internal/config"
	"github.com/belay-mq/belay/consumers"
	"github.com/belay-mq/belay/nacos"
	"github.com/belay-mq/belay/registry"
)

// DemoContext is the context that the demo runs: everything embedded.
func DemoContext() *config.Context {
	return &config.Context{
		Name: "demo", Label: "DEMO",
		Nacos: &config.Nacos{Embedded: true, Applications: []config.Application{
			{Name: "settle-service"}, {Name: "order-service"},
		}},
		RabbitMQ: &config.RabbitMQ{Embedded: true},
		Releases: &config.Releases{Embedded: true},
	}
}

// DemoConfig is what a [Demo] needs.
type DemoConfig struct {
	// Dir holds the data and the config.yaml for other processes.
	Dir    string
	Logger *slog.Logger
	// Outages takes a server down now and then.
	Outages bool
	// Speed multiplies the rates of all publishers. Default 1.
	Speed float64
	// Timed are the options of what carries out planned windows in the simulated
	// instances.
	Timed Options
}

// Demo is a simulated production: servers, instances, publishers. Everything speaks to
// everything over sockets with the real clients, as under 'belay run'.
type Demo struct {
	*Embedded
	cfg      DemoConfig
	log      *slog.Logger
	hosts    []*Host
	releases *releaser
}

// demoListener is one listener of the demo and the traffic on its queue.
type demoListener struct {
	app, id, queue string
	min, max       int
	work           time.Duration // what a message takes
	rate           float64       // messages a second, on average
	swing          float64       // how far the rate swings around that, 0…1
	period         time.Duration // of the swing
	poison         bool          // now and then a message that always fails
	quorum         bool
}

var demoListeners = []demoListener{
	{app: "settle-service", id: "SettleConsumer", queue: "settle", min: 2, max: 8, work: 25 * time.Millisecond, rate: 220, swing: 0.9, period: 80 * time.Second},
	{app: "settle-service", id: "RefundConsumer", queue: "refund", min: 1, max: 4, work: 40 * time.Millisecond, rate: 12, swing: 0.3, period: 50 * time.Second},
	{app: "settle-service", id: "PayoutConsumer", queue: "payout", min: 2, max: 4, work: 300 * time.Millisecond, rate: 9, swing: 0.8, period: 60 * time.Second},
	{app: "settle-service", id: "LedgerConsumer", queue: "ledger", min: 1, max: 2, work: 5 * time.Millisecond, rate: 60, swing: 0.4, period: 120 * time.Second},
	{app: "settle-service", id: "FxRateConsumer", queue: "fx-rate", min: 1, max: 1, work: 2 * time.Millisecond, rate: 4, swing: 0.2, period: 30 * time.Second},
	{app: "order-service", id: "OrderConsumer", queue: "order", min: 2, max: 6, work: 30 * time.Millisecond, rate: 90, swing: 0.8, period: 100 * time.Second},
	{app: "order-service", id: "InvoiceConsumer", queue: "invoice", min: 1, max: 2, work: 60 * time.Millisecond, rate: 0.5, poison: true, quorum: true, period: time.Minute},
	{app: "order-service", id: "AuditConsumer", queue: "audit", min: 1, max: 2, work: 10 * time.Millisecond, rate: 30, swing: 0.5, period: 70 * time.Second},
	{app: "order-service", id: "ReportConsumer", queue: "report", min: 1, max: 1, work: 50 * time.Millisecond, rate: 0.05, period: time.Minute},
}

// demoHosts are the simulated instances, by application.
var demoHosts = map[string][]string{
	"settle-service": {"settle-a", "settle-b", "settle-c"},
	"order-service":  {"order-a", "order-b"},
}

// demoFiles are the toggle files that the demo begins with. FxRateConsumer has no entry:
// it runs unmanaged.
var demoFiles = map[string]string{
	"settle-service": `# Toggles of settle-service. Ask #settle before you touch SettleConsumer.
rabbitmq.toggle.consumers[0].listenerId=SettleConsumer
rabbitmq.toggle.consumers[0].enable=true
rabbitmq.toggle.consumers[0].concurrentConsumers=2
rabbitmq.toggle.consumers[0].maxConcurrentConsumers=8

# paused for the vendor: see the reason
rabbitmq.toggle.consumers[1].listenerId=RefundConsumer
rabbitmq.toggle.consumers[1].enable=false
rabbitmq.toggle.consumers[1].reason=vendor maintenance
rabbitmq.toggle.consumers[1].updatedBy=oncall

rabbitmq.toggle.consumers[2].listenerId=PayoutConsumer
rabbitmq.toggle.consumers[2].enable=true
rabbitmq.toggle.consumers[2].concurrentConsumers=2
rabbitmq.toggle.consumers[2].maxConcurrentConsumers=4

rabbitmq.toggle.consumers[3].listenerId=LedgerConsumer
rabbitmq.toggle.consumers[3].enable=true
`,
	"order-service": `rabbitmq.toggle.consumers[0].listenerId=OrderConsumer
rabbitmq.toggle.consumers[0].enable=true
rabbitmq.toggle.consumers[0].concurrentConsumers=2
rabbitmq.toggle.consumers[0].maxConcurrentConsumers=6
rabbitmq.toggle.consumers[1].listenerId=InvoiceConsumer
rabbitmq.toggle.consumers[1].enable=true
rabbitmq.toggle.consumers[2].listenerId=AuditConsumer
rabbitmq.toggle.consumers[2].enable=true
rabbitmq.toggle.consumers[3].listenerId=ReportConsumer
rabbitmq.toggle.consumers[3].enable=true
`,
}

// StartDemo starts the servers, writes the toggle files where there are none, and makes
// the instances. Run sets them going.
func StartDemo(ctx context.Context, cfg DemoConfig) (_ *Demo, err error) {
	if cfg.Speed <= 0 {
		cfg.Speed = 1
	}
	d := &Demo{cfg: cfg, log: cfg.Logger.With("component", "demo")}
	d.Embedded, err = StartEmbedded(ctx, DemoContext(), cfg.Dir, cfg.Logger)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close(context.WithoutCancel(ctx)))
		}
	}()
	if err := d.seed(ctx); err != nil {
		return nil, err
	}
	if err := d.declareQueues(ctx); err != nil {
		return nil, err
	}
	for app, names := range demoHosts {
		for i, name := range names {
			h, err := d.newHost(ctx, app, name, 4000+i)
			if err != nil {
				return nil, fmt.Errorf("demo instance %s: %w", name, err)
			}
			d.hosts = append(d.hosts, h)
		}
	}
	d.releases, err = newReleaser(ctx, d.Context.Releases.DSN, cfg.Speed, d.log)
	if err != nil {
		return nil, err
	}
	return d, nil
}

func (d *Demo) newHost(ctx context.Context, app, name string, pid int) (*Host, error) {
	cfg := HostConfig{
		App: app, Context: d.Context, Instance: fmt.Sprintf("%s:%d:%04x", name, pid, rand.IntN(1<<16)),
		Logger: d.cfg.Logger, StateDir: filepath.Join(d.cfg.Dir, "instances", name),
	}
	cfg.Timed = func(s *nacos.Store) registry.Timed { return NewTimed(d.Context, app, s, d.cfg.Timed) }
	for _, l := range demoListeners {
		if l.app != app {
			continue
		}
		cfg.Listeners = append(cfg.Listeners, Hosted{
			Config: consumers.Config{
				ListenerID: l.id, Queues: []string{l.queue}, Min: l.min, Max: l.max,
				Prefetch: 20, ShutdownTimeout: 5 * time.Second,
			},
			Handler: l.handle,
		})
	}
	return NewHost(ctx, cfg)
}

// handle takes as long as the listener's work does; a poison message fails each time.
func (l demoListener) handle(ctx context.Context, d *consumers.Delivery) error {
	took := time.Duration(float64(l.work) * (0.5 + rand.Float64()))
	if d.Type == poisonType {
		took = 400 * time.Millisecond
	}
	select {
	case <-time.After(took):
	case <-ctx.Done():
		return consumers.Requeue(ctx.Err())
	}
	if d.Type == poisonType {
		return consumers.Requeue(errors.New("invoice 4711 has no customer"))
	}
	return nil
}

// seed writes the toggle files of a first start.
func (d *Demo) seed(ctx context.Context) error {
	store, err := openStore(d.Context.Nacos, "demo", d.cfg.Logger)
	if err != nil {
		return err
	}
	defer store.Close(context.WithoutCancel(ctx))
	for app, text := range demoFiles {
		key := nacos.Key{DataID: defaultDataID, Group: app}
		_, err := store.Create(ctx, key, nacos.Content{Text: text, Type: "properties", Operator: "demo"})
		var conflict *nacos.ConflictError
		if err != nil && !errors.As(err, &conflict) {
			return fmt.Errorf("write the demo's toggle file of %s: %w", app, err)
		}
	}
	return nil
}

// Run simulates until ctx ends, then stops everything but the servers; Close stops
// those.
func (d *Demo) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	errs := make([]error, len(d.hosts))
	for i, h := range d.hosts {
		wg.Go(func() { errs[i] = guarded("instance", func() error { return h.Run(ctx) }) })
	}
	aside := []func(context.Context) error{d.publish, d.releases.run, d.serveCommands}
	if d.cfg.Outages {
		aside = append(aside, d.outages)
	}
	asideErrs := make([]error, len(aside))
	for i, f := range aside {
		wg.Go(func() { asideErrs[i] = guarded("demo", func() error { return f(ctx) }) })
	}
	wg.Wait()
	return errors.Join(append(errs, asideErrs...)...)
}

func guarded(what string, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s panicked: %v", what, p)
		}
	}()
	return f()
}

const (
	outageLasts  = 20 * time.Second
	outageEvery  = 70 * time.Second
	outageSpread = 40 * time.Second
)

// outages takes one server after the other down for a while.
func (d *Demo) outages(ctx context.Context) error {
	names := d.Names()
	for i := 0; ; i++ {
		if !sleep(ctx, outageEvery+rand.N(outageSpread)) {
			return nil
		}
		if err := d.Outage(ctx, names[i%len(names)], outageLasts); err != nil {
			d.log.Error("outage", "error", err)
		}
	}
}

// Outage takes a server down for a time and brings it back, also when ctx ends.
func (d *Demo) Outage(ctx context.Context, name string, lasts time.Duration) error {
	if err := d.SetDown(name, true); err != nil {
		return err
	}
	d.log.Info("outage begins", "server", name, "for", lasts)
	sleep(ctx, lasts)
	err := d.SetDown(name, false)
	d.log.Info("outage ends", "server", name, "error", err)
	return err
}

// sleep reports whether it slept the whole time.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
