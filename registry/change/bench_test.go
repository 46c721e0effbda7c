package change

import (
	"container/heap"
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// plain is the version that one writes first: per shard a map of pending keys, a container/heap by due time, one
// mutex and one timer. It takes the same events, copies the same items, applies them in order with the same item
// order, and hands the same snapshot to one function. It knows no statistics, sources, tombstones or bounds.
type plain struct {
	shards []*plainShard
	notify func(Delivery)
}

type plainShard struct {
	p     *plain
	mu    sync.Mutex
	pend  map[Key]*plainPending
	cache map[Key]*plainDatum
	heap  plainHeap
	timer *time.Timer
	stop  bool
}

type plainDatum struct {
	version int64
	items   map[string]Item
}

type plainPending struct {
	key    Key
	first  time.Time
	due    time.Time
	events []Event
	pos    int
}

type plainHeap []*plainPending

func (h plainHeap) Len() int           { return len(h) }
func (h plainHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h plainHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].pos, h[j].pos = i, j }
func (h *plainHeap) Push(x any)        { x.(*plainPending).pos = len(*h); *h = append(*h, x.(*plainPending)) }
func (h *plainHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

func newPlain(shards int, notify func(Delivery)) *plain {
	p := &plain{notify: notify}
	for range shards {
		s := &plainShard{p: p, pend: map[Key]*plainPending{}, cache: map[Key]*plainDatum{}}
		s.timer = time.AfterFunc(time.Hour, s.fire)
		p.shards = append(p.shards, s)
	}
	return p
}

func (p *plain) offer(e Event) {
	h := uint32(2166136261)
	for _, s := range []string{e.Key.DataCenter, e.Key.DataInfoID} {
		for i := range len(s) {
			h = (h ^ uint32(s[i])) * 16777619
		}
	}
	s := p.shards[int(h)%len(p.shards)]
	e.Items = slices.Clone(e.Items)
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.pend[e.Key]
	if q == nil {
		now := time.Now()
		q = &plainPending{key: e.Key, first: now, due: now.Add(DefaultWindow)}
		s.pend[e.Key] = q
		heap.Push(&s.heap, q)
		if s.heap[0] == q {
			s.timer.Reset(DefaultWindow)
		}
	}
	q.events = append(q.events, e)
}

func (s *plainShard) fire() {
	s.mu.Lock()
	var out []Delivery
	now := time.Now()
	for len(s.heap) > 0 && (!s.heap[0].due.After(now) || s.stop) {
		q := heap.Pop(&s.heap).(*plainPending)
		delete(s.pend, q.key)
		out = append(out, s.apply(q, now))
	}
	if len(s.heap) > 0 {
		s.timer.Reset(time.Until(s.heap[0].due))
	}
	s.mu.Unlock()
	for _, d := range out {
		s.p.notify(d)
	}
}

func (s *plainShard) apply(q *plainPending, now time.Time) Delivery {
	datum := s.cache[q.key]
	if datum == nil {
		datum = &plainDatum{items: map[string]Item{}}
		s.cache[q.key] = datum
	}
	for _, e := range q.events {
		for _, x := range e.Items {
			if cur, ok := datum.items[x.ID]; ok && !x.newer(&cur) {
				continue
			}
			if x.Unpub {
				delete(datum.items, x.ID)
			} else {
				datum.items[x.ID] = x
			}
		}
	}
	prev := datum.version
	datum.version = max(now.UnixMicro(), datum.version+1)
	items := slices.SortedFunc(maps.Values(datum.items), func(a, b Item) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return Delivery{Key: q.key, Merged: len(q.events) - 1, Prev: Datum{Version: prev},
		Now: Datum{datum.version, items}, At: now, Delay: now.Sub(q.first), Overdue: now.Sub(q.due)}
}

func (p *plain) close() {
	for _, s := range p.shards {
		s.mu.Lock()
		s.stop = true
		s.mu.Unlock()
		s.fire()
	}
}

func benchKeys(n int) []Key {
	keys := make([]Key, n)
	for i := range keys {
		keys[i] = Key{"ApolloConfigDB", fmt.Sprintf("app-%d+default+application", i)}
	}
	return keys
}

// BenchmarkOffer offers b.N events from two goroutines as fast as they are taken, one item each, every event a
// change, and counts the time until the last is delivered. Compare ours with plain in the same run; on a busy machine
// by the processor time that an event costs, of which there are two seconds a second on two cores.
func BenchmarkOffer(b *testing.B) {
	for _, shards := range []int{1, 4} {
		for _, n := range []int{1000, 100_000} {
			keys := benchKeys(n)
			b.Run(fmt.Sprintf("shards=%d/keys=%d/ours", shards, n), func(b *testing.B) {
				var got atomic.Int64
				c, err := New(Config{Shards: shards, MaxPending: 1 << 20, Observe: func(d Delivery) {
					got.Add(int64(1 + d.Merged))
				}})
				if err != nil {
					b.Fatal(err)
				}
				spread(b, keys, func(e Event) {
					if _, err := c.Offer(b.Context(), e); err != nil {
						b.Error(err)
					}
				}, func() {
					if _, err := c.Close(context.Background()); err != nil {
						b.Error(err)
					}
				})
				if got.Load() != int64(b.N) {
					b.Errorf("delivered %d of %d events", got.Load(), b.N)
				}
			})
			b.Run(fmt.Sprintf("shards=%d/keys=%d/plain", shards, n), func(b *testing.B) {
				var got atomic.Int64
				p := newPlain(shards, func(d Delivery) { got.Add(int64(1 + d.Merged)) })
				spread(b, keys, p.offer, p.close)
				if got.Load() != int64(b.N) {
					b.Errorf("delivered %d of %d events", got.Load(), b.N)
				}
			})
		}
	}
}

func spread(b *testing.B, keys []Key, offer func(Event), end func()) {
	const producers = 2
	runtime.GC()
	b.ReportAllocs()
	used := cpuTime()
	b.ResetTimer()
	var all sync.WaitGroup
	for p := range producers {
		all.Go(func() {
			rng := uint64(p)*0x9E3779B97F4A7C15 + 1
			item := []Item{{ID: "row", Conn: "scanner"}}
			for i := p; i < b.N; i += producers {
				rng = rng*6364136223846793005 + 1442695040888963407
				item[0].Content = contents[i&1023]
				offer(Event{Key: keys[(rng>>33)%uint64(len(keys))], Items: item})
			}
		})
	}
	all.Wait()
	end()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mevents/s")
	b.ReportMetric(float64(cpuTime()-used)/float64(b.N), "cpu-ns/event")
}

var contents = func() (out [1024]string) {
	for i := range out {
		out[i] = fmt.Sprintf("content %d", i)
	}
	return
}()

// BenchmarkLateness offers 20k events/s over 100k keys for a while and reports how far beyond their window keys are
// delivered.
func BenchmarkLateness(b *testing.B) {
	keys := benchKeys(100_000)
	for b.Loop() {
		var mu sync.Mutex
		var late []time.Duration
		c, err := New(Config{Observe: func(d Delivery) {
			mu.Lock()
			late = append(late, d.Overdue)
			mu.Unlock()
		}})
		if err != nil {
			b.Fatal(err)
		}
		start := time.Now()
		const rate, length = 20_000, 2 * time.Second
		for i := 0; ; {
			since := time.Since(start)
			if since > length {
				break
			}
			for ; i < int(since.Seconds()*rate); i++ {
				e := Event{Key: keys[i*7919%len(keys)], Items: []Item{{ID: "row", Version: int64(i), Content: contents[i&1023]}}}
				if _, err := c.Offer(b.Context(), e); err != nil {
					b.Fatal(err)
				}
			}
			time.Sleep(time.Millisecond)
		}
		time.Sleep(DefaultWindow + 100*time.Millisecond) // let windows end by themselves, not by Close
		c.Close(context.Background())
		sort.Slice(late, func(i, j int) bool { return late[i] < late[j] })
		b.ReportMetric(float64(late[len(late)/2].Microseconds())/1000, "p50-ms")
		b.ReportMetric(float64(late[len(late)*99/100].Microseconds())/1000, "p99-ms")
		b.ReportMetric(float64(late[len(late)-1].Microseconds())/1000, "max-ms")
	}
}

// BenchmarkPendingBytes reports the memory that a pending key costs, its record and statistics included, the bytes
// of its strings not (they are the caller's).
func BenchmarkPendingBytes(b *testing.B) {
	keys := benchKeys(100_000)
	for b.Loop() {
		c, err := New(Config{Window: Window{Max: time.Hour}})
		if err != nil {
			b.Fatal(err)
		}
		before := heapBytes()
		for i, k := range keys {
			if _, err := c.Offer(b.Context(), Event{Key: k, Items: []Item{{ID: "row", Content: contents[i&1023]}}}); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(heapBytes()-before)/float64(len(keys)), "B/key")
		c.Close(context.Background())
	}
}

func heapBytes() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
