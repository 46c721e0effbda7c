package change_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/belay-mq/belay/registry/change"
)

// Three changes of one key within the window are one delivery with the last content.
func Example() {
	center, err := change.New(change.Config{
		Window: change.Window{Max: 20 * time.Millisecond},
		Observe: func(d change.Delivery) {
			fmt.Printf("%s %s merged=%d content=%q\n", d.Key, d.Outcome, d.Merged, d.Now.Items[0].Content)
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	key := change.Key{DataCenter: "ApolloConfigDB", DataInfoID: "order+default+application"}
	for id, content := range []string{"a", "b", "c"} {
		_, err := center.Offer(context.Background(), change.Event{
			Key: key, Items: []change.Item{{ID: "row", Content: content, Version: int64(4709 + id)}},
		})
		if err != nil {
			fmt.Println(err)
		}
	}
	if _, err := center.Close(context.Background()); err != nil { // delivers what is pending
		fmt.Println(err)
	}
	// Output: ApolloConfigDB/order+default+application delivered merged=2 content="c"
}

// A notifier hears of the sources that it listens to. Errors are retried; this one succeeds at once.
func ExampleNotifier() {
	center, err := change.New(change.Config{
		Notifiers: []change.Notifier{{
			Name:    "session",
			Sources: change.Subscribers,
			Notify: func(_ context.Context, d change.Delivery) error {
				fmt.Println("session hears of", d.Key.DataInfoID, "from", d.Reasons)
				return nil
			},
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	item := []change.Item{{ID: "r1", Content: "10.0.0.1:12200"}}
	center.Offer(ctx, change.Event{Key: change.Key{DataInfoID: "registered"}, Items: item})
	center.Offer(ctx, change.Event{Key: change.Key{DataInfoID: "restored"}, Items: item, Source: change.Backup, Version: 7})
	center.Close(ctx)
	// Output: session hears of registered from pub
}

// An instance that is lost and back within the window changes nothing: nobody is told.
func ExampleCenter_ClientOff() {
	center, err := change.New(change.Config{
		Window:  change.Window{Max: 20 * time.Millisecond},
		Observe: func(d change.Delivery) { fmt.Println(d.Outcome, "after", d.Merged+1, "events") },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	alive := change.Event{
		Key:   change.Key{DataInfoID: "settle-service/host-c:811"},
		Items: []change.Item{{ID: "host-c:811", Conn: "host-c:811", Content: "up"}},
	}
	center.Offer(ctx, alive)
	time.Sleep(200 * time.Millisecond)
	center.ClientOff(ctx, "host-c:811")
	center.Offer(ctx, alive)
	center.Close(ctx)
	// Output:
	// delivered after 1 events
	// suppressed after 2 events
}

// TryOffer never waits: a full center says so.
func ExampleCenter_TryOffer() {
	center, err := change.New(change.Config{Shards: 1, MaxPending: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	item := []change.Item{{ID: "r1"}}
	_, first := center.TryOffer(change.Event{Key: change.Key{DataInfoID: "a"}, Items: item})
	_, again := center.TryOffer(change.Event{Key: change.Key{DataInfoID: "a"}, Items: item})
	_, other := center.TryOffer(change.Event{Key: change.Key{DataInfoID: "b"}, Items: item})
	fmt.Println(first, again, errors.Is(other, change.ErrFull))
	center.Close(context.Background())
	// Output: <nil> <nil> true
}
