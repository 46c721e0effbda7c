package nacos

import (
	"context"
	"errors"
	"time"
)

const (
	// holdTime is what 1.x clients ask for.
	holdTime = 30 * time.Second
	// holdPause keeps a server that answers at once, because its copy lags
	// behind what we know, from being asked in a loop.
	holdPause = 150 * time.Millisecond
)

// longPoll is the second watcher: the HTTP long poll of 1.x, until ctx ends or
// the server turns out not to have it.
func (s *Store) longPoll(ctx context.Context) {
	for ctx.Err() == nil {
		s.stats.use("long-poll")
		err := s.holdOnce(ctx)
		if err == nil {
			continue
		}
		s.stats.use("poll")
		if errors.Is(err, ErrRemovedAPI) {
			return
		}
		if ctx.Err() == nil {
			s.cfg.log.Debug("long poll failed", "err", err)
		}
		if sleep(ctx, time.Second) != nil {
			return
		}
	}
}

// holdOnce makes one long poll of all watched configs. It ends early when the
// set of configs or what is known of them changes.
func (s *Store) holdOnce(ctx context.Context) error {
	d, err := s.detector.get(ctx)
	if err != nil {
		return err
	}
	var asked []listened
	for _, c := range s.watched() {
		if held, due := c.snapshot(); !due {
			asked = append(asked, listened{cell: c, md5: held.MD5})
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	restart := make(chan struct{})
	s.spawn(func() {
		select {
		case <-s.push.wake:
			close(restart)
			cancel()
		case <-ctx.Done():
		}
	})
	if len(asked) == 0 {
		<-ctx.Done()
		select {
		case <-restart:
			return nil
		default:
			return ctx.Err()
		}
	}
	changed, err := s.listenHTTP(ctx, d, asked, holdTime)
	select {
	case <-restart:
		return nil
	default:
	}
	if err != nil {
		return err
	}
	for _, l := range asked {
		if changed[l.cell.key] {
			s.stats.pushes.Add(1)
			l.cell.refresh()
		}
	}
	_ = sleep(ctx, holdPause) // cut short where more became known
	return nil
}
