package nacos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A listen request of 1.x and 2.x is the list of (data id, group, md5, tenant)
// with these separators; the answer has the changed ones in the same shape.
const (
	fieldEnd = "\x02"
	keyEnd   = "\x01"
)

// staleAfter is how many poll intervals without a successful read make a state
// stale.
const staleAfter = 3

// startWatching starts the safety poll and the push with the first watch.
func (s *Store) startWatching() {
	s.mu.Lock()
	start := !s.watching && !s.closed
	s.watching = true
	s.mu.Unlock()
	if start {
		s.spawn(s.pollLoop)
		s.spawn(s.pushLoop)
	}
}

func (s *Store) kickPoll() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// pollLoop is the safety net under the pushes: one request for all configs each
// interval. It also repeats reads that failed and marks stale states.
func (s *Store) pollLoop() {
	for {
		// A little jitter keeps many processes from asking in step.
		wait := s.cfg.PollInterval + time.Duration((rand.Float64()-0.5)*0.1*float64(s.cfg.PollInterval))
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-s.kick:
			t.Stop()
		case <-s.ctx.Done():
			t.Stop()
			return
		}
		s.pollOnce()
	}
}

func (s *Store) pollOnce() {
	cells := s.watched()
	if len(cells) == 0 {
		return
	}
	defer func() {
		now := time.Now()
		for _, c := range cells {
			c.age(now, staleAfter*s.cfg.PollInterval)
		}
	}()
	began := time.Now()
	asked := make([]listened, 0, len(cells))
	for _, c := range cells {
		held, due := c.snapshot()
		if due {
			c.refresh() // never read, or the newest read failed
			continue
		}
		asked = append(asked, listened{cell: c, md5: held.MD5})
	}
	if len(asked) == 0 {
		return
	}
	s.stats.polls.Add(1)
	changed, err := s.compare(s.ctx, asked)
	if err != nil {
		if s.ctx.Err() == nil {
			s.cfg.log.Debug("safety poll failed", "err", err)
		}
		for _, l := range asked {
			l.cell.failed(err)
		}
		return
	}
	for _, l := range asked {
		if changed[l.cell.key] {
			s.sdk.missed(l.cell)
			l.cell.refresh()
		} else {
			l.cell.confirmed(began)
		}
	}
}

// listened is a config with the md5 that we have of it.
type listened struct {
	cell *cell
	md5  string
}

// compare asks which configs differ from what we have: over HTTP in one
// request, where that is missing over gRPC in one request, else by reading.
func (s *Store) compare(ctx context.Context, asked []listened) (map[Key]bool, error) {
	d, err := s.detector.get(ctx)
	if err != nil {
		return nil, err
	}
	if d.kind != kindOther && !s.pollRemoved.Load() {
		changed, err := s.listenHTTP(ctx, d, asked, 0)
		if !errors.Is(err, ErrRemovedAPI) {
			return changed, err
		}
		s.pollRemoved.Store(true)
	}
	if changed, err := s.push.compare(ctx, asked); err == nil {
		return changed, nil
	}
	return s.compareByReading(ctx, asked)
}

// listenHTTP is the listen call of 1.x. With hold 0 the server answers at once;
// otherwise it waits up to hold for a change.
func (s *Store) listenHTTP(ctx context.Context, d dialect, asked []listened, hold time.Duration) (map[Key]bool, error) {
	var list strings.Builder
	tenant := d.tenant(s.cfg.Namespace)
	for _, l := range asked {
		list.WriteString(l.cell.key.DataID + fieldEnd + l.cell.key.Group + fieldEnd + l.md5)
		if tenant != "" {
			list.WriteString(fieldEnd + tenant)
		}
		list.WriteString(keyEnd)
	}
	r := call{
		what: fmt.Sprintf("compare %d configs", len(asked)), method: http.MethodPost, path: "/v1/cs/configs/listener",
		form:   url.Values{"Listening-Configs": {list.String()}},
		header: http.Header{"Long-Pulling-Timeout": {"30000"}},
	}
	if hold > 0 {
		r.header.Set("Long-Pulling-Timeout", strconv.FormatInt(hold.Milliseconds(), 10))
		r.timeout = hold + s.cfg.CallTimeout
	} else {
		r.header.Set("Long-Pulling-Timeout-No-Hangup", "true")
	}
	a, err := s.client.do(ctx, r)
	if err != nil {
		return nil, err
	}
	return parseListened(string(a.body))
}

// parseListened reads the answer of a listen call, URL-encoded text.
func parseListened(body string) (map[Key]bool, error) {
	text, err := url.QueryUnescape(strings.TrimSpace(body))
	if err != nil {
		return nil, fmt.Errorf("compare configs: %w: the answer is not what Nacos sends: %w", ErrUnavailable, err)
	}
	changed := map[Key]bool{}
	for entry := range strings.SplitSeq(text, keyEnd) {
		if fields := strings.Split(entry, fieldEnd); len(fields) >= 2 {
			changed[Key{DataID: fields[0], Group: fields[1]}] = true
		}
	}
	return changed, nil
}

// compareByReading is the last resort: one read per config, a few at a time.
func (s *Store) compareByReading(ctx context.Context, asked []listened) (map[Key]bool, error) {
	var (
		mu      sync.Mutex
		wg      sync.WaitGroup
		failure error
		changed = map[Key]bool{}
		slots   = make(chan struct{}, 8)
	)
	for _, l := range asked {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			r, err := s.read(ctx, l.cell.key)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failure = err
			} else if r.md5() != l.md5 {
				changed[l.cell.key] = true
			}
		})
	}
	wg.Wait()
	return changed, failure
}
