// Package nacos reads, watches and writes the configs of one namespace of a
// Nacos server or cluster: versions 1.x, 2.x and 3.x, and r-nacos.
//
//	store, err := nacos.New(nacos.Config{Servers: []string{"nacos-1:8848", "nacos-2:8848"}, Username: "belay", Password: "…"})
//	key := nacos.Key{DataID: "rabbitmq-toggle.properties", Group: "settle-service"}
//	for state := range store.Watch(ctx, key) {
//		apply(state.Text)
//	}
//
// # States, not edges
//
// [Store.Watch] hands out what the config is, not what happened to it. The
// newest value replaces one that was not taken yet, so a slow receiver skips
// values and never misses the last; what lies between stands in
// [Store.History]. A [State] may be absent, which is something else than empty,
// and stale: then it is what was last known, since when nothing could be read.
// [Store.Get] returns only what the server says now, or an error.
//
// md5s have no order; [State.Seq] has. Reads of one config run one after the
// other, so a state with a higher Seq was read later.
//
// # Writing
//
// [Store.Create] and [Store.Update] are compare-and-publish: Update names the
// md5 of the text that it replaces and fails with a [*ConflictError] where the
// server holds something else. Read, edit, update; on a conflict do it again
// with the text that the error carries:
//
//	state, err := store.Get(ctx, key)
//	_, err = store.Update(ctx, key, nacos.Content{Text: edit(state.Text), Operator: "anna"}, state.MD5)
//
// A publish whose answer is lost may have been applied: Update reads again and
// reports success or failure as it is, and [ErrUnknownOutcome] only where
// neither can be found out within [Config].WriteTimeout.
//
// # How changes are noticed
//
// Two watchers stand behind Watch, and a safety net under both; [Store.Health]
// says which is in use.
//
//   - push: one gRPC connection carries the names of changed configs. What it
//     says is a hint; the content is always read.
//   - long poll: the HTTP call of 1.x, for 1.x servers and where gRPC cannot be
//     reached.
//   - The safety poll compares the md5s of all watched configs in one request,
//     every 3 seconds. It bounds how long a change stays unseen whose push was
//     lost.
//
// The push speaks the protocol of nacos-sdk-go, with its gRPC service
// definition, on a connection of its own: the SDK's config client loses changes
// of several configs that come together until a full comparison five minutes
// later, answers from disk when the server is down, limits reads to five per
// second, and leaves goroutines and files behind. None of that happens here,
// and one connection serves any number of configs.
//
// # What servers do
//
// Some behaviour of real servers shows through, and the store is built around
// it. Reads are served from a copy of the database that lags by up to 100 ms,
// at worst two seconds, while the md5 of a publish is compared with the database
// itself: the store reads the database where it may (the detail call), and
// elsewhere never lets an older content replace what it wrote itself. r-nacos
// compares nothing: a change that is overwritten there is reported with an
// [*OverwroteError] where it can be found out. A config that looks absent is
// believed to be so after a second read. The default namespace is "" to 2.x and
// "public" to 3.x. One name that Nacos does not allow would make it refuse a
// whole request, so names are checked here first.
package nacos
