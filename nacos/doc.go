// Package nacos reads, watches and writes the configs of one namespace of a
// Nacos server or cluster.
package nacos
