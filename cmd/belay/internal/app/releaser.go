package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/belay-mq/belay/cmd/belay/internal/config"
	"github.com/belay-mq/belay/consumers/release"
)

const (
	releaseEvery = 3 * time.Second
	// cleanPause leaves a scanner time to see rows before they are cleaned away.
	cleanPause = 30 * time.Second
)

// demoKeys are the release messages of the demo.
var demoKeys = []release.Key{
	{AppID: "order-service", Cluster: "default", Namespace: "application"},
	{AppID: "order-service", Cluster: "default", Namespace: "rates"},
	{AppID: "settle-service", Cluster: "default", Namespace: "application"},
	{AppID: "settle-service", Cluster: "gray-1", Namespace: "application"},
	{AppID: "pay", Cluster: "default", Namespace: "db"},
	{AppID: "pay", Cluster: "shanghai", Namespace: "limits"},
}

// releaser publishes release messages: single ones, bursts of one key in a transaction,
// pairs of two keys, and ids that are skipped.
type releaser struct {
	db      *release.DB
	cleaner *release.Cleaner
	sender  *release.Sender
	speed   float64
	log     *slog.Logger
}

func newReleaser(ctx context.Context, dsn config.Secret, speed float64, log *slog.Logger) (*releaser, error) {
	db, err := release.Open(ctx, release.DSN(dsn.Reveal()))
	if err != nil {
		return nil, err
	}
	cleaner := release.NewCleaner(db, release.CleanerConfig{Logger: log, Pause: cleanPause})
	return &releaser{db: db, cleaner: cleaner, sender: release.NewSender(db, cleaner), speed: speed, log: log}, nil
}

func (r *releaser) run(ctx context.Context) error {
	cleaning := make(chan error, 1)
	go func() { cleaning <- guarded("cleaner", func() error { return r.cleaner.Run(ctx) }) }()
	for sleep(ctx, time.Duration(float64(releaseEvery)/r.speed*(0.3+rand.ExpFloat64()))) {
		if err := r.once(ctx); err != nil && ctx.Err() == nil {
			r.log.Warn("release publisher", "error", err)
		}
	}
	return errors.Join(<-cleaning, r.db.Close())
}

func (r *releaser) once(ctx context.Context) error {
	key := demoKeys[rand.IntN(len(demoKeys))]
	switch n := rand.IntN(10); {
	case n < 5:
		return r.burst(ctx, key, 1, 0)
	case n < 8:
		return r.burst(ctx, key, 2+rand.IntN(7), 0)
	case n < 9:
		// A gray release and the change of its rule: two rows of one key, one after
		// the other within the merge window.
		if err := r.burst(ctx, key, 1, 0); err != nil {
			return err
		}
		sleep(ctx, 150*time.Millisecond)
		return r.burst(ctx, key, 1, 0)
	}
	return r.burst(ctx, key, 1, 1+rand.IntN(5))
}

// burst writes n messages of one key in a transaction, after skipping some ids, as
// rolled-back inserts do on a real database.
func (r *releaser) burst(ctx context.Context, key release.Key, n, skip int) error {
	tx, err := r.db.SQL().BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // after a commit this does nothing
	if skip > 0 {
		const q = `INSERT INTO "ReleaseMessage" ("Id", "Message") SELECT COALESCE(MAX("Id"), 0) + ?, ? FROM "ReleaseMessage"`
		if _, err := tx.ExecContext(ctx, q, skip+1, key.Message()); err != nil {
			return fmt.Errorf("skip ids: %w", err)
		}
	}
	var sent []release.Sent
	for range n {
		s, err := r.sender.SendTx(ctx, tx, release.Topic, key.Message())
		if err != nil {
			return err
		}
		sent = append(sent, s)
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	r.sender.Committed(sent...)
	return nil
}
