package broker

import (
	"sync"
	"time"
)

// queueStats are a queue's counters since it was declared.
type queueStats struct {
	published, acked             uint64
	deliveredAck, deliveredNoAck uint64
	gotAck, gotNoAck, gotEmpty   uint64
	redelivered                  uint64
}

func (s *queueStats) delivered(it *item, noAck bool) {
	if noAck {
		s.deliveredNoAck++
	} else {
		s.deliveredAck++
	}
	if it.redelivered {
		s.redelivered++
	}
}

func (s *queueStats) got(it *item, noAck bool) {
	if noAck {
		s.gotNoAck++
	} else {
		s.gotAck++
	}
	if it.redelivered {
		s.redelivered++
	}
}

// sample is what the management API knew of a queue at one moment.
type sample struct {
	at             time.Time
	ready, unacked int
	bytes          int64
	stats          queueStats
	consumers      []consumerInfo // only in the newest sample
	idleSince      time.Time
}

// Samples are kept as RabbitMQ keeps them for a queue: ten minutes in steps
// of five seconds and an hour in steps of a minute.
const (
	fineSamples   = 121
	coarseSamples = 61
	coarseStep    = time.Minute
	maxSampled    = 2000 // queues with samples; more have none
)

// series are a queue's samples, oldest first.
type series struct {
	fine   []sample
	coarse []sample
}

func (s *series) add(now sample) {
	if n := len(s.fine); n > 0 {
		s.fine[n-1].consumers = nil
	}
	s.fine = keepLast(append(s.fine, now), fineSamples)
	if n := len(s.coarse); n == 0 || now.at.Truncate(coarseStep).After(s.coarse[n-1].at) {
		now.consumers = nil
		now.at = now.at.Truncate(coarseStep)
		s.coarse = keepLast(append(s.coarse, now), coarseSamples)
	}
}

func keepLast(s []sample, n int) []sample {
	if len(s) <= n {
		return s
	}
	copy(s, s[len(s)-n:])
	return s[:n]
}

// at is the newest sample not after t; the zero sample when there is none.
func (s *series) at(t time.Time) sample {
	for _, from := range [][]sample{s.fine, s.coarse} {
		for i := len(from) - 1; i >= 0; i-- {
			if !from[i].at.After(t) {
				return from[i]
			}
		}
	}
	return sample{}
}

func (s *series) last() sample { return s.fine[len(s.fine)-1] }

// before is the sample before the last, for rates.
func (s *series) before() (sample, bool) {
	if len(s.fine) < 2 {
		return sample{}, false
	}
	return s.fine[len(s.fine)-2], true
}

// sampler holds the samples of all queues; the management API reads them.
type sampler struct {
	mu     sync.Mutex
	queues map[*queue]*series
}

// sampleAll takes one sample of every queue.
func (b *Broker) sampleAll() {
	b.sampler.mu.Lock()
	defer b.sampler.mu.Unlock()
	now := time.Now()
	alive := make(map[*queue]*series)
	for _, v := range b.allVhosts() {
		v.mu.Lock()
		for _, q := range v.queues {
			s := b.sampler.queues[q]
			if s == nil {
				s = &series{}
			}
			if len(alive) >= maxSampled {
				break
			}
			s.add(q.sample(now))
			alive[q] = s
		}
		v.mu.Unlock()
	}
	b.sampler.queues = alive
}

// sample is the queue as it is now, under the vhost's lock.
func (q *queue) sample(now time.Time) sample {
	s := sample{at: now, ready: q.ready.n, unacked: q.unacked, bytes: q.ready.bytes, stats: q.stats, idleSince: q.idleSince}
	for _, c := range q.consumers {
		s.consumers = append(s.consumers, c.info())
	}
	return s
}

// sampling takes samples until stop is closed.
func (b *Broker) sampling(stop <-chan struct{}) {
	defer b.rescue("sampling")
	tick := time.NewTicker(b.cfg.StatsInterval)
	defer tick.Stop()
	b.sampleAll()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			b.sampleAll()
		}
	}
}
