package input

import (
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"
	"time"

	"github.com/muesli/cancelreader"
)

// Reader reads a terminal and gives out one whole key per Read. Read may be called
// by one goroutine at a time; the other methods by any.
type Reader struct {
	src  io.Reader
	keys chan []byte
	done chan struct{} // closed by Close

	mu     sync.Mutex
	cancel cancelreader.CancelReader // of the running loop; nil while paused
	ended  chan struct{}             // closed when that loop has ended
	closed bool
	gone   func(error)

	rest []byte // of the key that the newest Read did not take whole
}

// Panic is given to a reader's gone when reading its source panicked.
type Panic struct {
	Value any
	Stack []byte
}

func (p *Panic) Error() string { return fmt.Sprintf("reading keys: panic: %v", p.Value) }

// NewReader starts reading src. gone is called when src ends by itself: with why
// it did, io.EOF or another error of the terminal when it was closed, a *Panic
// when Read panicked. It is called by the reader's goroutine.
func NewReader(src io.Reader, gone func(error)) (*Reader, error) {
	r := &Reader{src: src, keys: make(chan []byte, 256), done: make(chan struct{}), gone: gone}
	if err := r.Resume(); err != nil {
		return nil, err
	}
	return r, nil
}

// Read gives out the next key, or io.EOF after Close.
func (r *Reader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		select {
		case r.rest = <-r.keys:
		case <-r.done:
			return 0, io.EOF
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// Pause stops reading, so that another program can have the terminal. It
// returns when no read is under way, or after half a second where a read cannot
// be broken off.
func (r *Reader) Pause() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stop()
}

// stop ends the loop; the caller holds mu.
func (r *Reader) stop() {
	if r.cancel == nil {
		return
	}
	r.cancel.Cancel()
	select {
	case <-r.ended:
		_ = r.cancel.Close()
	case <-time.After(500 * time.Millisecond):
	}
	r.cancel = nil
}

// Resume starts reading again after Pause.
func (r *Reader) Resume() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.cancel != nil {
		return nil
	}
	c, err := cancelreader.NewReader(r.src)
	if err != nil {
		return err
	}
	r.cancel, r.ended = c, make(chan struct{})
	go r.loop(c, r.ended)
	return nil
}

// Close stops reading and ends Read.
func (r *Reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.closed = true
		close(r.done)
		r.stop()
	}
	return nil
}

// loop reads until it is cancelled or the source ends, and splits.
func (r *Reader) loop(src cancelreader.CancelReader, ended chan struct{}) {
	chunks := make(chan []byte)
	errs := make(chan error, 1)
	stop, read := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(read)
		defer func() {
			if v := recover(); v != nil {
				errs <- &Panic{v, debug.Stack()}
			}
		}()
		buf := make([]byte, 4096)
		for {
			n, err := src.Read(buf)
			if n > 0 {
				select {
				case chunks <- append([]byte(nil), buf[:n]...):
				case <-stop:
					return
				}
			}
			if err != nil {
				errs <- err
				return
			}
		}
	}()
	defer func() { // ended means that nobody reads any more: then the source may be closed
		close(stop)
		<-read
		close(ended)
	}()
	var s Splitter
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		var wait <-chan time.Time
		if d := s.Wait(); d > 0 {
			timer.Reset(d)
			wait = timer.C
		}
		var keys [][]byte
		select {
		case b := <-chunks:
			keys = s.Feed(b)
		case <-wait:
			keys = s.Timeout()
		case err := <-errs:
			if !errors.Is(err, cancelreader.ErrCanceled) && r.gone != nil {
				r.gone(err)
			}
			return
		case <-r.done:
			return
		}
		for _, k := range keys {
			select {
			case r.keys <- k:
			case <-r.done:
				return
			}
		}
	}
}
