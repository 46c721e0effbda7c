package app

import "github.com/belay-mq/belay/registry/feed"

func (b *Backend) Feed(after uint64, max int) ([]feed.Line, uint64) { return nil, 0 }
func (b *Backend) Pending() []feed.Line                             { return nil }
func (b *Backend) Steps(key string) []feed.Line                     { return nil }
