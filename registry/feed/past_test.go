package feed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	releases "github.com/belay-mq/belay/consumers/release"
	"github.com/belay-mq/belay/nacos"
)

type pastRowsOf []releases.Row

func (p pastRowsOf) Recent(context.Context, time.Time, int) ([]releases.Row, error) { return p, nil }

type historyOf []nacos.Change

func (h historyOf) History(context.Context, nacos.Key, int) ([]nacos.Change, error) { return h, nil }

type broken struct{}

func (broken) History(context.Context, nacos.Key, int) ([]nacos.Change, error) {
	return nil, nacos.ErrRemovedAPI
}

type peer struct {
	lines [][]byte
	err   error
}

func (p peer) AskFeed(_ context.Context, _ time.Time, wait time.Duration) ([][]byte, error) {
	time.Sleep(wait)
	return p.lines, p.err
}

type peers = Peers

func TestLoadPast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		ago := func(d time.Duration) time.Time { return w.start.Add(-d) }
		past := func(id uint64, message string, d time.Duration) releases.Row {
			r := row(id, message)
			r.ChangedAt, r.History = ago(d), true
			return r
		}
		on, off := entry(0, "A", true), entry(0, "A", false, "updatedBy=oncall", "updatedAt=2026-11-30T21:13:58Z")
		lines := func(list ...Line) (out [][]byte) {
			for _, l := range list {
				out = append(out, Encode(l))
			}
			return append(out, []byte("{nonsense"))
		}
		merged := Line{At: ago(50 * time.Second), Source: Release, Key: "a+b+c", Version: "11", FromVersion: "9", Merged: 2, Status: Delivered, OK: 4}
		gone := Line{At: ago(20 * time.Second), Source: Instance, Key: "host-c:811", Status: Delivered, Text: "said goodbye"}
		applied := Line{At: ago(39 * time.Second), Source: Toggle, Key: "app/A", Version: versionOf("9f3cabcd"), Status: Applied, OK: 3, Text: "running → paused by oncall"}
		waiting := Line{At: ago(time.Second), Source: Release, Key: "w+w+w", Version: "12", Status: Waiting}
		later := Line{At: w.start.Add(time.Second), Source: Release, Key: "l+l+l", Version: "14", Status: Delivered}
		var loaded error
		done := make(chan struct{})
		go func() {
			loaded = w.LoadPast(t.Context(), Past{
				Releases: pastRowsOf{past(8, "a+b+c", 5*time.Minute), past(9, "a+b+c", 51*time.Second), past(10, "a+b+c", 51*time.Second),
					past(11, "a+b+c", 51*time.Second), past(12, "d+e+f", 30*time.Second), past(13, "now+b+c", 0)},
				Apps: []nacos.Key{{DataID: "rabbitmq-toggle.properties", Group: "app"}},
				History: historyOf{
					{At: ago(40 * time.Second), Op: "update", Known: true, Text: off, Previous: on, MD5: "9f3cabcd"},
					{At: ago(2 * time.Minute), Op: "insert", Known: true, Text: on, MD5: "11112222", By: "nacos"},
				},
				Peers: peers{peer{lines: lines(merged, gone, applied, waiting, later)}, peer{lines: lines(gone, merged)}},
			})
			close(done)
		}()
		w.rest(10 * time.Millisecond)
		// What comes meanwhile: a row that the table shows too, and one of the scanner's look back.
		w.rows(row(13, "now+b+c"), past(12, "d+e+f", 30*time.Second), past(2, "old+b+c", 2*time.Hour))
		w.rest(10 * time.Second)
		<-done
		if loaded != nil {
			t.Error(loaded)
		}
		w.expect(
			"release a+b+c 8 delivered",
			"toggle app/A "+versionOf("11112222")+" delivered: new in the file: running by nacos",
			"release a+b+c 9→11 delivered ×3 ok 4/4",
			"toggle app/A "+versionOf("9f3cabcd")+" applied ok 3/3: running → paused by oncall",
			"release d+e+f 12 delivered",
			"instance host-c:811 delivered: said goodbye",
			"release now+b+c 13 delivered",
		)
		w.rows(row(11, "a+b+c"), row(15, "a+b+c")) // the first is known
		w.rest(time.Second)
		w.expect("release a+b+c 15 delivered")
		if c, _ := w.Counters(); c.Refused != 2 || c.Known == 0 {
			t.Errorf("%+v", c)
		}
	})
}

// What cannot be read is left out and named; the rest is loaded.
func TestLoadPastWithoutParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		deaf := errors.New("no connection")
		r := row(1, "a+b+c")
		r.ChangedAt = r.ChangedAt.Add(-time.Minute)
		err := w.LoadPast(t.Context(), Past{Releases: pastRowsOf{r}, History: broken{}, Apps: []nacos.Key{{Group: "app"}}, Peers: peers{peer{err: deaf}}})
		if !errors.Is(err, nacos.ErrRemovedAPI) || !errors.Is(err, deaf) {
			t.Errorf("error %v, want both causes", err)
		}
		w.expect("release a+b+c 1 delivered")
	})
}

// A thousand lines of a hostile process take no more room than lines may.
func TestHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		var list [][]byte
		for i := range 1000 {
			list = append(list, Encode(Line{At: w.start.Add(-time.Duration(i+1) * time.Second), Source: Release, Key: fmt.Sprint("k", i), Version: "1", Status: Delivered}))
		}
		if err := w.LoadPast(t.Context(), Past{Peers: peers{peer{lines: list}, peer{lines: list}}}); err != nil {
			t.Error(err)
		}
		lines, _ := w.Lines(0, 2000)
		if len(lines) != 1000 {
			t.Fatalf("%d lines, want 1000", len(lines))
		}
		for i := 1; i < len(lines); i++ {
			if lines[i].At.Before(lines[i-1].At) {
				t.Fatalf("line %d is older than the one before", i)
			}
		}
		w.rest(time.Minute)
		w.seen = lines[len(lines)-1].Seq
		w.expect()
		handed := w.Since(w.start.Add(-10 * time.Second))
		if len(handed) != 10 {
			t.Errorf("hands over %d lines, want the 10 of the last seconds", len(handed))
		}
	})
}

// A text that cannot be read takes nothing out of force.
func TestHistoryOfAnUnreadableText(t *testing.T) {
	const (
		on  = "rabbitmq.toggle.consumers[0].listenerId=A\nrabbitmq.toggle.consumers[0].enable=true\n"
		off = "rabbitmq.toggle.consumers[0].listenerId=A\nrabbitmq.toggle.consumers[0].enable=false\n"
		bad = on + "x=\\u1\n"
	)
	key := nacos.Key{DataID: "rabbitmq-toggle.properties", Group: "app"}
	at := time.Date(2026, 12, 1, 3, 0, 0, 0, time.UTC)
	lines := historyLines(key, []nacos.Change{
		{At: at.Add(4 * time.Minute), Op: "update", Known: true, Text: off, Previous: bad},
		{At: at.Add(3 * time.Minute), Op: "update", Known: true, Text: bad, Previous: bad + "#"},
		{At: at.Add(2 * time.Minute), Op: "update", Known: true, Text: bad + "#", Previous: on},
		{At: at, Op: "insert", Known: true, Text: on},
	})
	var got []string
	for _, l := range lines {
		got = append(got, l.At.Format("04 ")+l.Key+" "+string(l.Status)+" "+l.Text)
	}
	want := []string{
		"00 app/A delivered new in the file: running",
		"02 app failed the file cannot be read, line 3: \\u without four hex digits in \"x\"",
		"03 app failed the file cannot be read, line 3: \\u without four hex digits in \"x\"",
		"04 app/A delivered running → paused",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
