package registry_test

import (
	"context"
	"fmt"
	"time"

	"github.com/belay-mq/belay/consumers"
	"github.com/belay-mq/belay/consumers/broker"
	"github.com/belay-mq/belay/nacos"
	"github.com/belay-mq/belay/nacos/server"
	"github.com/belay-mq/belay/registry"
	"github.com/belay-mq/belay/registry/presence"
)

// A service whose consumer is paused and resumed through its toggle file. The servers
// are embedded here; a real service names real ones.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	rabbit, err := broker.Listen(ctx, broker.Config{})
	if err != nil {
		panic(err)
	}
	defer rabbit.Close(ctx)
	config, err := server.Start(ctx, server.Config{})
	if err != nil {
		panic(err)
	}
	defer config.Close(ctx)

	rmq, err := consumers.Dial(ctx, consumers.ConnConfig{URL: rabbit.URL(), App: "settle-service"})
	if err != nil {
		panic(err)
	}
	defer rmq.Close(ctx)
	declare(ctx, rmq, "settle")
	c, err := consumers.New(rmq, consumers.Config{ListenerID: "SettleConsumer", Queues: []string{"settle"}}, func(context.Context, *consumers.Delivery) error {
		return nil
	})
	if err != nil {
		panic(err)
	}
	store, err := nacos.New(nacos.Config{Servers: []string{config.Addr()}})
	if err != nil {
		panic(err)
	}
	defer store.Close(ctx)

	// The file says that the listener is off, so it is never started.
	key := nacos.Key{Group: "settle-service", DataID: "rabbitmq-toggle.properties"}
	const entry = "rabbitmq.toggle.consumers[0].listenerId=SettleConsumer\nrabbitmq.toggle.consumers[0].enable="
	written, err := store.Create(ctx, key, nacos.Content{Text: entry + "false\n"})
	if err != nil {
		panic(err)
	}

	reg := registry.New(registry.Config{App: "settle-service", Store: store, Presence: presence.Over(rmq)})
	if err := reg.Register(c); err != nil {
		panic(err)
	}
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- reg.Run(running) }()

	await(reg, func(s *registry.Snapshot) bool { return s.File.MD5 != "" && s.Listeners[0].Applied })
	fmt.Println("first read:", c.Status().State)

	if _, err := store.Update(ctx, key, nacos.Content{Text: entry + "true\n"}, written.MD5); err != nil {
		panic(err)
	}
	await(reg, func(s *registry.Snapshot) bool { return s.Listeners[0].Status.State == consumers.Running })
	fmt.Println("enabled:", c.Status().State)

	stop()
	fmt.Println("stopped:", <-done, c.Status().State)
	// Output:
	// first read: stopped
	// enabled: running
	// stopped: <nil> stopped
}

func declare(ctx context.Context, rmq *consumers.Conn, queue string) {
	ch, err := rmq.PublishChannel(ctx)
	if err != nil {
		panic(err)
	}
	defer ch.Close()
	if _, err := ch.QueueDeclare(queue, true, false, false, false, nil); err != nil {
		panic(err)
	}
}

func await(reg *registry.Registry, ok func(*registry.Snapshot) bool) {
	for !ok(reg.Snapshot()) {
		time.Sleep(5 * time.Millisecond)
	}
}
