package feed_test

import (
	"context"
	"fmt"
	"time"

	"github.com/belay-mq/belay/consumers/release"
	"github.com/belay-mq/belay/registry/feed"
	"github.com/belay-mq/belay/registry/fleet"
)

// Three release messages of one key come within the window: one line.
func Example() {
	ctx := context.Background()
	f, err := feed.New(feed.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for id := uint64(4709); id <= 4711; id++ {
		row := release.Row{Database: "ApolloConfigDB", Epoch: 1, ID: id, Message: "order+default+application"}
		if err := f.HandleRow(ctx, row); err != nil { // the scanner does this
			fmt.Println(err)
		}
	}
	for _, l := range f.Pending() {
		fmt.Printf("%s %s→%s %s\n", l.Key, l.FromVersion, l.Version, l.Status)
	}
	if err := f.Close(ctx); err != nil { // delivers what waits
		fmt.Println(err)
	}
	lines, dropped := f.Lines(0, 100)
	for _, l := range lines {
		fmt.Printf("%d %s %s→%s %s ×%d\n", l.Seq, l.Key, l.FromVersion, l.Version, l.Status, l.Merged+1)
	}
	fmt.Println("dropped", dropped)
	// Output:
	// order+default+application 4709→4711 waiting
	// 1 order+default+application 4709→4711 delivered ×3
	// dropped 0
}

// What changed from one snapshot of the fleet to the next becomes lines.
func ExampleFeed_Compare() {
	ctx := context.Background()
	f, err := feed.New(feed.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	snapshot := func(version uint64, lost bool) *fleet.Snapshot {
		return &fleet.Snapshot{Version: version, Instances: []*fleet.Instance{{ID: "host-c:811:f3a9", App: "settle-service", Lost: lost}}}
	}
	for version, lost := range []bool{false, true, false} { // gone for a moment
		if err := f.Compare(ctx, snapshot(uint64(version), lost)); err != nil {
			fmt.Println(err)
		}
	}
	f.Close(ctx)
	lines, _ := f.Lines(0, 100)
	for _, l := range lines {
		fmt.Println(l.Source, l.Key, l.Status)
	}
	// Output: instance host-c:811 suppressed
}

// Encode writes a line as belay feed -o json does.
func ExampleEncode() {
	l := feed.Line{
		At: time.Date(2026, 11, 30, 21, 14, 5, 0, time.UTC), Source: feed.Release, Key: "pay+default+db", Version: "4712",
		Status: feed.Delivered, Delay: 502 * time.Millisecond, OK: 4,
	}
	fmt.Println(string(feed.Encode(l)))
	// Output: {"at":"2026-11-30T21:14:05Z","source":"release","key":"pay+default+db","version":"4712","fromVersion":"","status":"delivered","merged":0,"delayMs":502,"remainingMs":0,"late":false,"listeners":{"ok":4,"failed":0},"text":""}
}
