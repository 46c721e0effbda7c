// Package server is an embedded config server that speaks Nacos: the unmodified nacos-sdk-go (gRPC) and 1.x clients
// (HTTP with long polling) connect to it, read, publish, compare-and-publish, remove, listen and are pushed to.
//
//	s, err := server.Start(ctx, server.Config{})   // Nacos 2.5.1 on free loopback ports, in memory
//	defer s.Close(ctx)
//	// configure clients with s.Addr()
//
// It imitates one of three real servers (Config.Behaviour) down to what their clients suffer from: changes become
// visible only at the next tick of the dump, every 100 ms, so that the first read after a publish is old;
// compare-and-publish compares with the database and not with what reads show; one illegal name refuses a whole batch
// listen; the default namespace has other names on other versions.
//
// Faults returns knobs with which tests break it further: lost pushes, replies that are late or never come although
// the call was applied, dumps that collide with reads, configs that look missing, refused calls, rotated token keys,
// frozen and restarted servers.
package server
