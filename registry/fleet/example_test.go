package fleet_test

import (
	"fmt"
	"time"

	"github.com/belay-mq/belay/registry/fleet"
	"github.com/belay-mq/belay/registry/presence"
)

// Matches says whether what an instance reports is what the file wants.
func ExampleMatches() {
	on, off, two := true, false, 2
	report := presence.ListenerReport{State: "running", Consumers: 2, Min: 2, Max: 8}
	fmt.Println("wanted on:", fleet.Matches(report, &on, &two, nil))
	fmt.Println("wanted off:", fleet.Matches(report, &off, nil, nil))
	fmt.Println("no opinion:", fleet.Matches(report, nil, nil, nil))
	// Output:
	// wanted on: true
	// wanted off: false
	// no opinion: true
}

func ExampleShort() {
	for _, d := range []time.Duration{310 * time.Millisecond, 4 * time.Second, 41 * time.Minute, 50 * time.Hour} {
		fmt.Println(fleet.Short(d))
	}
	// Output:
	// 310 ms
	// 4 s
	// 41 min
	// 2 d
}
