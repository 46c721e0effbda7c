package release_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/belay-mq/belay/consumers/release"
)

// open makes a database with an empty table in a temporary directory.
func open() (db *release.DB, done func()) {
	dir, err := os.MkdirTemp("", "release")
	if err != nil {
		log.Fatal(err)
	}
	db, err = release.Open(context.Background(), release.DSN("sqlite:"+filepath.Join(dir, "apollo.db")))
	if err != nil {
		log.Fatal(err)
	}
	if err := db.Init(context.Background()); err != nil {
		log.Fatal(err)
	}
	return db, func() {
		db.Close()
		os.RemoveAll(dir)
	}
}

// A scanner hands every new row to its listeners.
func ExampleScanner() {
	db, done := open()
	defer done()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	scanner, err := release.NewScanner(db, release.ScannerConfig{
		Interval: 100 * time.Millisecond,
		Listeners: []release.Listener{release.ListenerFunc(func(_ context.Context, r release.Row) error {
			key, ok := release.ParseKey(r.Message)
			fmt.Println(r.ID, key.Namespace, ok)
			if r.ID == 2 {
				stop()
			}
			return nil
		})},
	})
	if err != nil {
		log.Fatal(err)
	}
	sender := release.NewSender(db, nil)
	for _, namespace := range []string{"application", "redis.properties"} {
		key, err := release.NewKey("settle-service", "default", namespace)
		if err != nil {
			log.Fatal(err)
		}
		if _, err := sender.Send(ctx, release.Topic, key.Message()); err != nil {
			log.Fatal(err)
		}
	}
	if err := scanner.Run(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("position", scanner.Status().Position.ID)
	// Output:
	// 1 application true
	// 2 redis.properties true
	// position 2
}

// A message goes into the caller's transaction together with what it announces;
// the cleaner is told after the commit.
func ExampleSender_SendTx() {
	db, done := open()
	defer done()
	ctx := context.Background()
	cleaner := release.NewCleaner(db, release.CleanerConfig{})
	sender := release.NewSender(db, cleaner)

	tx, err := db.SQL().BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer tx.Rollback()
	// … the caller's own writes …
	sent, err := sender.SendTx(ctx, tx, release.Topic, "settle-service+default+application")
	if err != nil {
		log.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		log.Fatal(err)
	}
	sender.Committed(sent)
	fmt.Println(sent.ID, sent.Message, cleaner.Status().Pending)
	// Output: 1 settle-service+default+application 1
}

// A cleaner deletes what a newer message of the same key has replaced.
func ExampleCleaner_Clean() {
	db, done := open()
	defer done()
	ctx := context.Background()
	sender := release.NewSender(db, nil)
	var last release.Sent
	for range 3 {
		last, _ = sender.Send(ctx, release.Topic, "settle-service+default+application")
	}
	deleted, err := release.NewCleaner(db, release.CleanerConfig{}).Clean(ctx, last)
	if err != nil {
		log.Fatal(err)
	}
	left, err := db.Recent(ctx, time.Now().Add(-time.Hour), 10)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("deleted", deleted, "left", len(left), "newest", left[0].ID)
	// Output: deleted 2 left 1 newest 3
}

// A caller waits until a key moves on.
func ExampleLatest_Wait() {
	db, done := open()
	defer done()
	ctx, stop := context.WithCancel(context.Background())
	latest := release.NewLatest()
	scanner, err := release.NewScanner(db, release.ScannerConfig{Interval: 100 * time.Millisecond, Latest: latest})
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- scanner.Run(ctx) }()

	const message = "settle-service+default+application"
	if _, err := release.NewSender(db, nil).Send(ctx, release.Topic, message); err != nil {
		log.Fatal(err)
	}
	row, err := latest.Wait(ctx, message, release.Position{})
	fmt.Println(row.ID, row.Message, err)

	stop()
	fmt.Println(<-ended)
	latest.Close()
	// Output:
	// 1 settle-service+default+application <nil>
	// <nil>
}

// A DSN prints without its password.
func ExampleDSN() {
	fmt.Println(release.DSN("mysql://belay:secret@db:3306/ApolloConfigDB?tls=true"))
	// Output: mysql://belay:***@db:3306/ApolloConfigDB?***
}

// Messages are keys of three parts; others are shown, but not understood.
func ExampleParseKey() {
	for _, message := range []string{"app+default+application", "app++application"} {
		key, ok := release.ParseKey(message)
		fmt.Printf("%q %t\n", key, ok)
	}
	// Output:
	// {"app" "default" "application"} true
	// {"" "" ""} false
}
