// Package registry keeps the listeners of one process under their toggle file.
//
// A [Registry] is keyed by listenerId. It reads the application's toggle file
// through a [ConfigStore], follows every change, and starts, stops and scales its
// listeners so that they are as the file says. A listener that the file has no
// opinion about is left alone:
//
//	reg := registry.New(registry.Config{App: "settle-service", Store: store, Presence: presence.Over(rmq)})
//	if err := reg.Register(container); err != nil { … }
//	err = reg.Run(ctx) // first the toggles, then the start; returns after a clean stop
//
// What absent means: a missing enable or concurrency, an entry that disappears, an
// empty or deleted file change nothing. A file that cannot be read changes nothing
// either; the last good one stays in force.
//
// At start no listener runs before the file was read once. Where Nacos does not
// answer within Config.FirstRead, the last file kept in Config.StateDir is in force,
// and without one Config.WithoutToggles decides. So a listener that was paused before
// a restart is paused after it.
//
// Each listener has one goroutine that applies what is wanted of it, the newest wish
// first: a stop that drains for seconds delays no other listener.
package registry
