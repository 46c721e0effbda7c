package release

import (
	"context"
	"fmt"
	"sync"
)

// page is one read of the next rows. It begins with the anchor, so that the
// anchor is checked by the same query.
type page struct {
	rows []Row
	err  error
}

// pagesAhead is how many pages are read before they are wanted.
const pagesAhead = 2

// readAhead reads page after page while the scanner hands rows over. Its pages
// are read early and judged late: what the proofs of gaps rest on is asked
// after a page was read, as for every page.
type readAhead struct {
	pages  chan page
	unused chan []Row // buffers to read into
	stop   context.CancelFunc
	done   sync.WaitGroup
}

// page reads the next rows, or takes those that were read ahead. They are valid
// until the next call.
func (s *Scanner) page(ctx context.Context) ([]Row, error) {
	p, ok := s.takeAhead()
	if !ok {
		p = readPage(ctx, s.db, s.cfg, s.anchor.ID, s.inHand[:0])
	}
	s.inHand = p.rows
	s.status.Queries++
	if p.err != nil {
		return nil, fmt.Errorf("release: read a page of %s: %w", s.db, p.err)
	}
	s.status.Pages++
	return p.rows, nil
}

func (s *Scanner) takeAhead() (page, bool) {
	if s.ahead == nil {
		return page{}, false
	}
	select {
	case s.ahead.unused <- s.inHand:
	default:
	}
	p, ok := <-s.ahead.pages
	return p, ok
}

// readAhead begins to read on after last, if that is not under way already.
func (s *Scanner) readAhead(ctx context.Context, last uint64) {
	if s.ahead != nil {
		return
	}
	ctx, stop := context.WithCancel(ctx)
	a := &readAhead{pages: make(chan page, pagesAhead), unused: make(chan []Row, pagesAhead+1), stop: stop}
	s.ahead = a
	db, cfg := s.db, s.cfg
	a.done.Go(func() { a.run(ctx, db, cfg, last) })
}

// dropAhead ends the reading ahead, and forgets what nobody wants any more.
func (s *Scanner) dropAhead() {
	if s.ahead != nil {
		s.ahead.stop()
		s.ahead.done.Wait()
		s.ahead = nil
	}
}

// run reads until a page is short or failed.
func (a *readAhead) run(ctx context.Context, db *DB, cfg ScannerConfig, last uint64) {
	defer close(a.pages)
	for {
		var buffer []Row
		select {
		case buffer = <-a.unused:
		default:
			buffer = make([]Row, 0, pageSize+1)
		}
		p := readPage(ctx, db, cfg, last, buffer[:0])
		end := p.err != nil || len(p.rows) < pageSize
		if !end {
			last = p.rows[len(p.rows)-1].ID
		}
		select {
		case a.pages <- p:
		case <-ctx.Done():
			return
		}
		if end {
			return
		}
	}
}

func readPage(ctx context.Context, db *DB, cfg ScannerConfig, anchor uint64, buffer []Row) (p page) {
	ctx, cancel := context.WithTimeout(ctx, cfg.QueryTimeout)
	defer cancel()
	n := pageSize
	if anchor > 0 {
		n++
	}
	p.err = guarded(func() (err error) {
		p.rows, err = db.read(ctx, buffer, db.q.page(n), db.q.arg(max(anchor, 1)))
		return err
	})
	return p
}
