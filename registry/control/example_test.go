package control_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/belay-mq/belay/nacos"
	"github.com/belay-mq/belay/nacos/server"
	"github.com/belay-mq/belay/registry/control"
	"github.com/belay-mq/belay/registry/fleet"
)

// Example pauses a listener, and undoes it.
func Example() {
	ctx := context.Background()
	srv, err := server.Start(ctx, server.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close(ctx)
	store, err := nacos.New(nacos.Config{Servers: []string{srv.Addr()}})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close(ctx)
	key := nacos.Key{DataID: "rabbitmq-toggle.properties", Group: "settle-service"}
	const text = "# refunds go to the vendor\nrabbitmq.toggle.consumers[0].listenerId=RefundConsumer\nrabbitmq.toggle.consumers[0].enable=true\n"
	if _, err := store.Create(ctx, key, nacos.Content{Text: text}); err != nil {
		log.Fatal(err)
	}

	ctl := control.New(control.Config{Store: store, Operator: "oncall"})
	defer ctl.Close(ctx)
	refund := fleet.ID{App: "settle-service", Listener: "RefundConsumer"}
	plan, err := ctl.Plan(ctx, control.Intent{Op: control.Pause, ID: refund, Reason: "vendor maintenance"})
	if err != nil {
		log.Fatal(err)
	}
	for _, change := range plan.Files[0].Changes {
		if change.Field != "updatedAt" {
			fmt.Println(change)
		}
	}
	ticket, err := ctl.Apply(ctx, plan)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ticket.Files[0].Phase, ticket.Files[0].Err)

	undo, err := ctl.UndoPlan(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := ctl.Apply(ctx, undo); err != nil {
		log.Fatal(err)
	}
	state, err := store.Get(ctx, key)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(strings.Contains(state.Text, "enable=true"), strings.HasPrefix(state.Text, "# refunds"))
	// Output:
	// RefundConsumer: enable true → false
	// RefundConsumer: reason absent → vendor maintenance
	// RefundConsumer: updatedBy absent → oncall
	// written <nil>
	// true true
}
