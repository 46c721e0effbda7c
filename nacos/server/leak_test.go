package server_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/belay-mq/belay/nacos/server"
)

// Close leaves nothing, whatever clients are doing and however the server is broken at that moment.
func TestCloseLeavesNothing(t *testing.T) {
	before := goleak.IgnoreCurrent()
	for _, behaviour := range []server.Behaviour{server.Nacos2, server.Nacos3, server.RNacos} {
		for _, frozen := range []bool{false, true} {
			t.Run("", func(t *testing.T) {
				s, tg := embedded(t, server.Config{Behaviour: behaviour, Dir: t.TempDir(), DumpTick: 50 * time.Millisecond})
				k := newKey()
				r := tg.connect(t, true)
				r.expect("ConfigBatchListenRequest", listening(k, ""), "ConfigChangeBatchListenResponse", map[string]any{"success": true})
				polled, slow := make(chan int), make(chan int)
				go func() {
					status, _, _ := tg.http(t, "POST", v1Configs+"/listener", form{"Listening-Configs": "x\x02y\x02\x01", "@Long-Pulling-Timeout": "30000"})
					polled <- status
				}()
				s.Faults().SlowReplies(server.OpPublish, server.Always, time.Hour)
				go func() {
					status, _, _ := tg.http(t, "POST", v1Configs, k.with("content", "a=1"))
					slow <- status
				}()
				tg.awaitRead(t, k, "a=1")
				if frozen {
					s.Faults().Freeze()
				}
				if err := s.Close(t.Context()); err != nil {
					t.Error(err)
				}
				if a, b := <-polled, <-slow; a != 0 || b != 0 {
					t.Errorf("calls in progress were answered with %d and %d", a, b)
				}
				if err := s.Close(t.Context()); err != nil {
					t.Error("the second Close:", err)
				}
			})
		}
	}
	oneCall.CloseIdleConnections()
	goleak.VerifyNone(t, before)
}
