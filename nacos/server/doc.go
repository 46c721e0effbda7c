// Package server is an embedded config server that speaks Nacos: the unmodified nacos-sdk-go (gRPC) and 1.x clients
// (HTTP with long polling) connect to it, read, publish, compare-and-publish, remove, listen and are pushed to; tools find
// details, history, searches, who listens, namespaces, users and logins where they expect them.
//
//	s, err := server.Start(ctx, server.Config{}) // Nacos 2.5.1 on free loopback ports, in memory
//	if err != nil {
//		return err
//	}
//	defer s.Close(ctx)
//	// configure clients with s.Addr(), or the console of 3.x with s.ConsoleAddr()
//
// # What it imitates
//
// Config.Behaviour selects a real server; the imitation goes down to what its clients suffer from.
//
//   - Reads lag. A publish changes the database; reads, listens, long polls and pushes work on a copy of it, the dump,
//     which follows at the next tick, every 100 ms (Config.DumpTick). The first read after a publish is therefore old.
//     A dump that meets a read in progress waits for another second. Details (show=all, the v3 admin path), searches
//     and the history read the database and are fresh at once.
//   - Compare-and-publish compares with the database, not with what reads show. A config that is not there is inserted,
//     whatever md5 the call names. RNacos does not compare at all.
//   - A push says only that something changed; changes that come together are one push, and a client sees the last.
//   - A history row of an update holds what was there before it, and the writer of what came after.
//   - One illegal name makes the server refuse the whole batch listen. The default namespace is "" on 2.x, where a listen
//     under "public" is deaf or asks in circles, and "public" on 3.x, where one client that says "" takes the pushes from
//     all that say "public".
//   - Nacos3 answers 410 on most paths of 2.x (Config.LegacyAPIs gives them back) and serves its console on a port of its
//     own.
//
// A gRPC push goes to every connection that listens, once; it is not repeated if the client does not confirm it, because
// a TCP connection that stands loses nothing. A client that is silent for 20 s is asked whether it lives, and cut 5 s
// later if it does not say so. Beta and tag publishing, naming, clusters and encryption are not there.
//
// # Data
//
// With Config.Dir set, configs, history and namespaces are kept there, written so that a crash at any moment leaves what
// was before or after a change and never half of it; one server at a time has the directory. Otherwise everything is in
// memory and survives Stop and Restart, but not Close. Users and token keys are always in memory.
//
// The history is bounded (Config.HistoryLimit per config), as are names, tags, HTTP forms (2 MB) and gRPC messages
// (10 MiB). Without Config.Auth everybody may do everything: keep the server on loopback, which is the default.
//
// # Breaking it
//
// Server.Faults returns knobs for tests:
//
//	s.Faults().LosePushes(1)                                      // the change is there, nobody is told
//	s.Faults().CutReplies(server.OpPublish, 1)                    // applied, and the client never hears of it
//	s.Faults().SlowReplies(server.OpPublish, 1, 5*time.Second)    // applied, and the client hears of it too late
//	s.Faults().CollideDumps(2)                                    // reads are old for 2 s
//	s.Faults().HideConfigs(2 * time.Second)                       // reads say that nothing exists
//	s.Faults().Deny(server.OpAny, server.Always)                  // 403
//	s.Faults().RotateTokenKey()                                   // "Invalid signature" for every token so far
//	s.Faults().RemoveAPIs("/nacos/v1/")                           // as later versions do
//	s.Faults().Freeze()                                           // the ports are silent until Thaw
//	s.Stop(); s.Restart(ctx)                                      // a crash; the same ports, the same data
//	s.Faults().Reset()                                            // all is well again
package server
