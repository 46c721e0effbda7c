package app

import (
	"context"
	"errors"

	"github.com/belay-mq/belay/registry/control"
	"github.com/belay-mq/belay/registry/feed"
)

var errNoWrites = errors.New("writes are not wired")

func (b *Backend) Feed(after uint64, max int) ([]feed.Line, uint64) { return nil, 0 }
func (b *Backend) Pending() []feed.Line                             { return nil }
func (b *Backend) Steps(key string) []feed.Line                     { return nil }
func (b *Backend) Plan(context.Context, ...control.Intent) (*control.Plan, error) {
	return nil, errNoWrites
}
func (b *Backend) Apply(context.Context, *control.Plan) (control.Ticket, error) {
	return control.Ticket{}, errNoWrites
}
func (b *Backend) UndoPlan(context.Context) (*control.Plan, error) { return nil, errNoWrites }
func (b *Backend) History(context.Context, string) ([]control.Version, error) {
	return nil, errNoWrites
}
func (b *Backend) Refresh() { b.fleet.Refresh() }
