package nacos_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/belay-mq/belay/nacos"
	"github.com/belay-mq/belay/nacos/server"
)

// embedded starts a server and a store for an example.
func embedded(ctx context.Context) (*nacos.Store, func()) {
	srv, err := server.Start(ctx, server.Config{})
	if err != nil {
		panic(err)
	}
	store, err := nacos.New(nacos.Config{Servers: []string{srv.Addr()}, Operator: "anna"})
	if err != nil {
		panic(err)
	}
	return store, func() {
		_ = store.Close(ctx)
		_ = srv.Close(ctx)
	}
}

func ExampleStore_Watch() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	store, closeAll := embedded(ctx)
	defer closeAll()

	key := nacos.Key{DataID: "rabbitmq-toggle.properties", Group: "settle-service"}
	states := store.Watch(ctx, key)
	fmt.Println("absent:", (<-states).Absent)

	if _, err := store.Create(ctx, key, nacos.Content{Text: "rabbitmq.toggle.consumers[0].listenerId=Settle\n"}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print((<-states).Text)
	// Output:
	// absent: true
	// rabbitmq.toggle.consumers[0].listenerId=Settle
}

// Two people change one config. The second one's update is refused, and
// repeated on what the first one wrote.
func ExampleStore_Update() {
	ctx := context.Background()
	store, closeAll := embedded(ctx)
	defer closeAll()

	key := nacos.Key{DataID: "rabbitmq-toggle.properties", Group: "settle-service"}
	state, err := store.Create(ctx, key, nacos.Content{Text: "enable=true\nmax=2\n"})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := store.Update(ctx, key, nacos.Content{Text: "enable=true\nmax=8\n"}, state.MD5); err != nil {
		fmt.Println(err)
		return
	}

	pause := func(text string) nacos.Content {
		return nacos.Content{Text: strings.Replace(text, "enable=true", "enable=false", 1), Operator: "anna"}
	}
	_, err = store.Update(ctx, key, pause(state.Text), state.MD5)
	var conflict *nacos.ConflictError
	if errors.As(err, &conflict) {
		fmt.Println("somebody else was faster")
		state, err = store.Update(ctx, key, pause(conflict.Actual.Text), conflict.Actual.MD5)
	}
	fmt.Print(state.Text, err)
	// Output:
	// somebody else was faster
	// enable=false
	// max=8
	// <nil>
}

// A server that cannot be reached is an error, never an old content.
func ExampleStore_Get_unavailable() {
	store, err := nacos.New(nacos.Config{Servers: []string{"127.0.0.1:1"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = store.Close(context.Background()) }()

	_, err = store.Get(context.Background(), nacos.Key{DataID: "rabbitmq-toggle.properties", Group: "settle-service"})
	fmt.Println(errors.Is(err, nacos.ErrUnavailable), store.Health().Connected)
	// Output:
	// true false
}
