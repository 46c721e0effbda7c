package tui

import (
	"github.com/belay-mq/belay/registry/feed"
	"github.com/belay-mq/belay/tui/cell"
)

// feedKeep is how many lines of the feed the dashboard keeps.
const feedKeep = 10_000

// feedLog is the dashboard's own tail of the feed. Lines in it never change.
type feedLog struct {
	lines   []*feed.Line
	pending []*feed.Line
	after   uint64
	lost    uint64 // dropped before the dashboard could read them
	version uint64 // rises with every change
}

// read takes what is new. It reads bounded steps, so that a flood cannot hold up
// a frame; what is left comes with the next one.
func (f *feedLog) read(be Backend) {
	for range 4 {
		lines, lost := be.Feed(f.after, 1000)
		f.lost += lost
		if len(lines) == 0 {
			break
		}
		f.version++
		for i := range lines {
			l := clean(lines[i])
			f.lines = append(f.lines, &l)
			f.after = max(f.after, l.Seq)
		}
		if len(lines) < 1000 {
			break
		}
	}
	if len(f.lines) > 2*feedKeep {
		f.lines = append([]*feed.Line(nil), f.lines[len(f.lines)-feedKeep:]...)
	}
	pending := be.Pending()
	if len(pending) > 0 || len(f.pending) > 0 {
		f.version++
	}
	f.pending = f.pending[:0:0]
	for i := range pending {
		l := clean(pending[i])
		f.pending = append(f.pending, &l)
	}
}

// clean strips what must not reach the terminal from a line's texts.
func clean(l feed.Line) feed.Line {
	l.Key, l.App, l.Listener = cell.Clean(l.Key), cell.Clean(l.App), cell.Clean(l.Listener)
	l.Version, l.FromVersion = cell.Clean(l.Version), cell.Clean(l.FromVersion)
	l.Text, l.By = cell.Clean(l.Text), cell.Clean(l.By)
	return l
}
