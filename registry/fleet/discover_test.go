package fleet_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belay-mq/belay/registry/fleet"
)

// An application without a toggle file is found by its instances, and its file is
// followed from its first write on.
func TestReportedApplicationIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOf(t)
		synctest.Wait()
		time.Sleep(time.Second)
		if s := w.fleet.Snapshot(); !s.Searched || len(s.Apps) != 0 {
			t.Fatalf("searched %t, applications %d; want true and none", s.Searched, len(s.Apps))
		}
		w.report("a", running)
		time.Sleep(time.Second)
		if w.fleet.Snapshot().App("settle") == nil {
			t.Fatal("the application of an instance is not followed")
		}
		w.text("")
		w.expect(fleet.Unmanaged, "")
		w.file("enable=false")
		w.report("a", stopped)
		w.expect(fleet.Paused, "")
	})
}

// Nobody takes a search that failed for one that found nothing.
func TestFailedSearchIsNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOf(t)
		w.mu.Lock()
		w.noSearch = errors.New("403: no right to search")
		w.mu.Unlock()
		time.Sleep(31 * time.Second) // a search that had found nothing is done again
		if s := w.fleet.Snapshot(); s.SearchErr != "403: no right to search" {
			t.Errorf("the search's error is %q", s.SearchErr)
		}
		w.mu.Lock()
		w.noSearch = nil
		w.mu.Unlock()
		time.Sleep(2 * time.Second)
		if s := w.fleet.Snapshot(); !s.Searched || s.SearchErr != "" {
			t.Errorf("searched %t, error %q after one that went well", s.Searched, s.SearchErr)
		}
	})
}

// A fleet of one application shows nobody else's listeners, though they report too.
func TestOnlyOneApplication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOnly(t, "order", fleet.AppConfig{Name: "order"})
		synctest.Wait()
		w.report("a", running) // of settle
		time.Sleep(time.Second)
		if s := w.fleet.Snapshot(); len(s.Rows) != 0 || len(s.Instances) != 0 {
			t.Errorf("%d rows, %d instances of another application", len(s.Rows), len(s.Instances))
		}
	})
}
