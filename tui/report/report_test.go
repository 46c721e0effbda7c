package report_test

import (
	"strings"
	"testing"
	"time"

	"github.com/belay-mq/belay/registry/feed"
	"github.com/belay-mq/belay/registry/fleet"
	"github.com/belay-mq/belay/tui/internal/fake"
	"github.com/belay-mq/belay/tui/report"
)

func TestText(t *testing.T) {
	now := time.Date(2026, 11, 30, 21, 14, 5, 0, time.UTC)
	var lines []*feed.Line
	for _, l := range fake.Lines(now) {
		lines = append(lines, &l)
	}
	got := report.Text(report.Input{Feed: lines, ID: fleet.ID{App: "settle-service", Listener: "RefundConsumer"}, Label: "PROD", Location: time.FixedZone("CET", 3600), Now: now, Snapshot: fake.Snapshot(now)})
	for _, want := range []string{
		"settle-service/RefundConsumer in PROD",
		"state: paused, since 2026-11-30 22:06:05 CET (21:06:05 UTC) (8m)",
		"who: oncall", "why: vendor maintenance", "when: 2026-11-30 22:06:05 CET",
		"resumes: 2026-11-30 22:42:00 CET (21:42:00 UTC)",
		"ready       8,310 (declare, 0s old)",
		"depth of refund:", "60 before the change", "8,310 now",
		"instances: 3 of 3 as wanted", "host-a:810:f3a0: stopped, 0 consumers",
		"running → paused by oncall", "no consumer left",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "PayoutConsumer") {
		t.Errorf("tells of another listener:\n%s", got)
	}
}

func TestUnknownListener(t *testing.T) {
	now := time.Now()
	got := report.Text(report.Input{ID: fleet.ID{App: "x", Listener: "Y\x1b[2J"}, Now: now, Snapshot: fake.Snapshot(now)})
	if !strings.Contains(got, "not known") || strings.Contains(got, "\x1b") {
		t.Errorf("%q", got)
	}
}

// A process that began to look only after the change says that it does not know the depth
// from before, instead of leaving it out.
func TestDepthBeforeIsNotKnown(t *testing.T) {
	now := time.Date(2026, 11, 30, 21, 14, 5, 0, time.UTC)
	s := fake.Snapshot(now)
	id := fleet.ID{App: "settle-service", Listener: "RefundConsumer"}
	r := s.Row(id)
	for i, q := range r.Queues {
		late := *q
		late.History = q.History[len(q.History)-1:]
		r.Queues[i] = &late
	}
	got := report.Text(report.Input{ID: id, Now: now, Snapshot: s, Location: time.UTC})
	if want := "depth of refund: not known before the change, 8,310 now"; !strings.Contains(got, want) {
		t.Errorf("no %q in\n%s", want, got)
	}
}
