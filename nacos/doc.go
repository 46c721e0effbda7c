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
//   - push: a client of nacos-sdk-go for each of the first 32 configs that are
//     watched, and one gRPC connection of the store's own for the rest. What
//     they say is a hint; the content is always read.
//   - long poll: the HTTP call of 1.x, for 1.x servers and where gRPC cannot be
//     reached.
//   - The safety poll compares the md5s of all watched configs in one request,
//     every 3 seconds. It bounds how long a change stays unseen whose push was
//     lost.
//
// The SDK is used as it is published, and kept where its faults do no harm.
// One of its clients loses changes of several configs that come together, so
// every config has a client of its own; that costs a connection, some ten
// goroutines and a health check every five seconds, so there are 32 at most.
// The own connection speaks the same protocol; it tells whether the port
// answers at all, takes the configs beyond 32, and stands in for a client
// until it has called back: from its opening, after a reconnect, and where the
// safety poll found a change that it did not announce. Where the safety poll
// itself goes over gRPC the own connection listens to every config. What is
// watched for less than a second gets no client, and one that cannot be opened
// is tried again after pauses of up to an hour. The SDK reads a config five
// times a second at most before it calls back: changes that come faster are
// seen some 300 ms late. It logs in through the store, writes only into
// private directories that Close removes, and its logger (one for the process)
// is replaced: format strings of its warnings go to [Config].Logger, their
// arguments nowhere. Its answers from disk and its reads are not used.
//
// A client that is closed with a request under way or a push waiting inside
// would leave goroutines for ever, so it is closed when its goroutines' stacks
// show that it is idle. With a silent server that takes up to 24 seconds,
// which Close does not wait for. What cannot be taken back: a failure that one
// client reports in the microseconds in which another one is made and has its
// own file logger in place leaves that logger's goroutine behind; an SDK
// client whose reconnect breaks half-way, in an outage, does not close that
// connection; and the SDK keeps every closed client in a global table. After
// 4096 clients in a process's life there are no new ones, and the own
// connection serves alone. So it does where TLS.ServerName or TLS.CertFile is
// set (the SDK would check the certificate against the host, and end the
// process where it cannot read a client certificate on a reconnect), with
// newer versions of the SDK than v2.3.2 (from v2.3.4 on, closing a client may
// end the process), and in a build with the race detector (the SDK replaces a
// broken connection without a lock).
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
