//go:build unix

package server_test

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nacos-group/nacos-sdk-go/v2/vo"

	"github.com/belay-mq/belay/nacos/server"
)

// quantiles reports the median and the tail of what was measured.
func quantiles(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	ms := func(q float64) float64 {
		return float64(took[int(q*float64(len(took)-1))].Microseconds()) / 1000
	}
	b.ReportMetric(ms(0.5), "p50-ms")
	b.ReportMetric(ms(0.9), "p90-ms")
	b.ReportMetric(ms(0.99), "p99-ms")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkPublishToCallback measures from the start of a publish to the SDK's callback, one change at a time.
func BenchmarkPublishToCallback(b *testing.B) {
	for name, tick := range map[string]time.Duration{"tick=off": -1, "tick=100ms": 100 * time.Millisecond} {
		b.Run(name, func(b *testing.B) {
			s := start(b, server.Config{DumpTick: tick})
			k := vo.ConfigParam{DataId: toggleFile, Group: uniqueGroup()}
			c := sdkClient(b, s.Addr(), nil)
			seen := listen(b, c, k.Group)
			eventually(b, "the client listens", func() bool {
				_, body, _ := (target{addr: s.Addr()}).http(b, "GET", v1Configs+"/listener", form{"dataId": toggleFile, "group": k.Group})
				return !strings.Contains(body, "{}")
			})
			var took []time.Duration
			lost := 0
			for b.Loop() {
				time.Sleep(250 * time.Millisecond) // the SDK reads a config at most 5 times a second
				k.Content = fmt.Sprint("a=", len(took)+lost)
				began := time.Now()
				if _, err := c.PublishConfig(k); err != nil {
					b.Fatal(err)
				}
				select {
				case <-seen:
					took = append(took, time.Since(began))
				case <-time.After(2 * time.Second): // the SDK has lost the push
					lost++
				}
			}
			b.ReportMetric(float64(lost), "lost")
			quantiles(b, took)
		})
	}
}

// BenchmarkPublish measures a publish over gRPC alone, in memory and in a directory.
func BenchmarkPublish(b *testing.B) {
	for name, dir := range map[string]string{"memory": "", "directory": b.TempDir()} {
		b.Run(name, func(b *testing.B) {
			_, tg := embedded(b, server.Config{Dir: dir})
			r, k, n := tg.connect(b, true), newKey(), 0
			for b.Loop() {
				n++
				if kind, body := r.call("ConfigPublishRequest", k.with("content", fmt.Sprint("a=", n)).json()); kind != "ConfigPublishResponse" {
					b.Fatal(kind, body)
				}
			}
		})
	}
}

// BenchmarkIdle measures what a process spends on a server and 20 applications that watch it while nothing changes.
func BenchmarkIdle(b *testing.B) {
	for _, applications := range []int{0, 20} {
		b.Run(fmt.Sprint("applications=", applications), func(b *testing.B) {
			s := start(b, server.Config{})
			for range applications {
				listen(b, sdkClient(b, s.Addr(), nil), uniqueGroup())
			}
			time.Sleep(6 * time.Second) // until all of them listen
			before, began := cpuTime(b), time.Now()
			time.Sleep(10 * time.Second)
			b.ReportMetric(100*float64(cpuTime(b)-before)/float64(time.Since(began)), "%core")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func cpuTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
