package server

import (
	"context"
	"maps"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// engine starts a dump on a database of its own; changed receives what it makes visible and when.
func engine(t *testing.T, tick time.Duration) (*database, *dump, *Faults, func() []time.Duration) {
	t.Helper()
	db, faults := newDatabase(10), newFaults()
	began := time.Now()
	var seen []time.Duration
	d := newDump(db, faults, tick, func(key, *entry) { seen = append(seen, time.Since(began)) })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); d.run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	synctest.Wait()
	return db, d, faults, func() []time.Duration { return seen }
}

func (d *dump) publish(t *testing.T, k key, content string) {
	t.Helper()
	if err := d.db.publish(write{key: k, content: content}, time.Now()); err != nil {
		t.Fatal(err)
	}
	d.note(k)
}

func TestDumpTick(t *testing.T) {
	k := key{group: "g", dataID: "d"}
	for _, c := range []struct {
		name    string
		tick    time.Duration
		changes map[time.Duration]string // when to publish what
		fault   func(*Faults)
		want    []time.Duration // when reads change
	}{
		{"at the next tick", 100 * time.Millisecond, map[time.Duration]string{30 * time.Millisecond: "a"}, nil, []time.Duration{100 * time.Millisecond}},
		{"a change on the tick waits for the next", 100 * time.Millisecond, map[time.Duration]string{100 * time.Millisecond: "a"}, nil, []time.Duration{200 * time.Millisecond}},
		{"what lies between is skipped", 100 * time.Millisecond, map[time.Duration]string{10 * time.Millisecond: "a", 20 * time.Millisecond: "b", 150 * time.Millisecond: "c"}, nil,
			[]time.Duration{100 * time.Millisecond, 200 * time.Millisecond}},
		{"the same content changes nothing", 100 * time.Millisecond, map[time.Duration]string{10 * time.Millisecond: "a", 150 * time.Millisecond: "a"}, nil, []time.Duration{100 * time.Millisecond}},
		{"off", -1, map[time.Duration]string{30 * time.Millisecond: "a", 31 * time.Millisecond: "b"}, nil, []time.Duration{30 * time.Millisecond, 31 * time.Millisecond}},
		{"one collision", 100 * time.Millisecond, map[time.Duration]string{30 * time.Millisecond: "a"}, func(f *Faults) { f.CollideDumps(1) }, []time.Duration{1200 * time.Millisecond}},
		{"two collisions", -1, map[time.Duration]string{30 * time.Millisecond: "a"}, func(f *Faults) { f.CollideDumps(2) }, []time.Duration{2030 * time.Millisecond}},
		{"delayed", -1, map[time.Duration]string{30 * time.Millisecond: "a"}, func(f *Faults) { f.DelayDumps(time.Second) }, []time.Duration{1030 * time.Millisecond}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, d, faults, seen := engine(t, c.tick)
				if c.fault != nil {
					c.fault(faults)
				}
				began := time.Now()
				for _, at := range slices.Sorted(maps.Keys(c.changes)) {
					time.Sleep(at - time.Since(began))
					d.publish(t, k, c.changes[at])
				}
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if got := seen(); !slices.Equal(got, c.want) {
					t.Errorf("visible after %v, want %v", got, c.want)
				}
			})
		})
	}
}

// A read that is in progress at the tick costs a second.
func TestReadsDelayDump(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, d, faults, seen := engine(t, 100*time.Millisecond)
		k := key{group: "g", dataID: "d"}
		faults.HoldReads(60 * time.Millisecond)
		d.publish(t, k, "a")
		time.Sleep(80 * time.Millisecond)
		if e := d.get(t.Context(), k); e != nil { // holds its lock from 80 to 140 ms
			t.Errorf("read %v before the dump", e)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := seen(); !slices.Equal(got, []time.Duration{1200 * time.Millisecond}) {
			t.Errorf("visible after %v", got)
		}
	})
}

// A hung client is asked after 20 s whether it lives and forgotten 5 s later, one that gives signs of life is not.
func TestDetectSilentClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cs := newConnections(newFaults())
		s := newSocket(nil, &gate{})
		hung := newConnection(&net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1}, s, 1)
		alive := newConnection(&net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 2}, s, 2)
		cs.add(hung)
		cs.add(alive)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); cs.detect(ctx) }()
		defer func() { cancel(); <-done }()
		for range 20 {
			time.Sleep(time.Second)
		}
		if !cs.registered(hung) || len(hung.takeOutbox()) != 0 {
			t.Error("asked or forgotten too early")
		}
		for range 10 {
			time.Sleep(time.Second)
			if len(alive.takeOutbox()) > 0 {
				alive.alive() // it answers
			}
		}
		if cs.registered(hung) || len(hung.outbox) != 1 {
			t.Error("a hung client was not asked, or is still there after 30 s")
		}
		if !cs.registered(alive) {
			t.Error("a client that answers was forgotten")
		}
	})
}

// The ports lie 1000 apart, as clients expect, and a taken one is named.
func TestListenPair(t *testing.T) {
	web, rpc, err := listenPair(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer web.Close()
	defer rpc.Close()
	_, a := splitAddr(web.Addr().String())
	_, b := splitAddr(rpc.Addr().String())
	if b != a+1000 {
		t.Errorf("ports %d and %d", a, b)
	}
	for _, addr := range []string{web.Addr().String(), rpc.Addr().String(), "127.0.0.1:65000", "127.0.0.1:x", "nowhere"} {
		if web, rpc, err := listenPair(t.Context(), addr); err == nil {
			_, _ = web.Close(), rpc.Close()
			t.Errorf("%s: no error", addr)
		}
	}
}
