package tui

import (
	"fmt"
	"strings"

	"github.com/belay-mq/belay/registry/fleet"
	"github.com/belay-mq/belay/tui/cell"
	"github.com/belay-mq/belay/tui/filter"
	"github.com/belay-mq/belay/tui/keys"
	"github.com/belay-mq/belay/tui/style"
	"github.com/belay-mq/belay/tui/table"
)

// process is one line of the instances' screen: an instance that reports, or a client
// that only listens in Nacos.
type process struct {
	in      *fleet.Instance // nil for a client of Nacos alone
	app     string
	address string
	md5     string
}

func (p process) id() string {
	if p.in != nil {
		return p.in.ID
	}
	return p.app + "\x00" + p.address
}

// instances is the screen of processes.
type instances struct {
	v       *view
	t       *table.Table[process, string]
	f       listFilter
	match   filter.Filter
	version uint64
	notes   []string
	lost    int
	h       int
	w       int
}

func newInstances(v *view) *instances {
	s := &instances{v: v}
	word := func(p process) string {
		switch {
		case p.in == nil:
			return "○ listens in Nacos"
		case p.in.Lost:
			return "✗ lost"
		case p.in.App == "":
			return "○ dashboard"
		}
		return "● reports"
	}
	s.t = table.New(v.st, process.id,
		table.Column[process]{Title: "APP", Min: 3, Max: 18, Fit: true, Priority: 80, Text: func(p process) string { return cell.Clean(p.app) }},
		table.Column[process]{Title: "INSTANCE", Min: 10, Max: 34, Fit: true, Keep: true, Text: func(p process) string {
			if p.in == nil {
				return cell.Clean(p.address)
			}
			return cell.Clean(p.in.ID)
		}},
		table.Column[process]{Title: "STATE", Min: 9, Max: 24, Fit: true, Keep: true, Text: word, Style: func(p process) style.Style {
			switch {
			case p.in == nil || p.in.App == "":
				return v.st.Dim
			case p.in.Lost:
				return v.st.Bad
			}
			return v.st.OK
		}},
		table.Column[process]{Title: "LISTENERS", Max: 9, Right: true, Priority: 60, Text: func(p process) string {
			if p.in == nil {
				return "-"
			}
			return cell.Count(float64(p.in.Listeners))
		}},
		table.Column[process]{Title: "FILE", Min: 14, Max: 30, Fit: true, Priority: 90, Text: s.file, Style: func(p process) style.Style {
			if a := s.v.snap.App(p.app); a != nil && p.md5 != "" && p.md5 != a.File.MD5 {
				return v.st.Warn
			}
			return v.st.Plain
		}},
		table.Column[process]{Title: "APPLIED", Max: 9, Priority: 50, Text: func(p process) string {
			if p.in == nil || p.in.AppliedAt.IsZero() {
				return "-"
			}
			return v.ago(p.in.AppliedAt) + " ago"
		}},
		table.Column[process]{Title: "REPORT", Max: 8, Right: true, Priority: 70, Text: func(p process) string {
			if p.in == nil {
				return "-"
			}
			return v.ago(p.in.At) + " ago"
		}},
		table.Column[process]{Title: "UP", Max: 5, Right: true, Priority: 40, Text: func(p process) string {
			if p.in == nil || p.in.Started.IsZero() {
				return "-"
			}
			return v.ago(p.in.Started)
		}},
		table.Column[process]{Title: "TIMED", Max: 9, Priority: 30, Text: func(p process) string {
			if p.in != nil && p.in.CanWrite {
				return "can write"
			}
			return "-"
		}},
	)
	s.f.changed = func() {
		s.match = filter.Parse(s.f.text)
		s.version = 0
		s.refresh()
	}
	return s
}

// short is the begin of an md5, enough to tell versions apart.
func short(md5 string) string { return fmt.Sprintf("%.6s", cell.Clean(md5)) }

// file says which version of the file a process has.
func (s *instances) file(p process) string {
	switch a := s.v.snap.App(p.app); {
	case p.md5 == "":
		return "none"
	case a == nil || a.File.MD5 == "":
		return short(p.md5)
	case p.md5 != a.File.MD5:
		return short(p.md5) + ", not the newest"
	case p.in == nil:
		return short(p.md5) + " fetched"
	}
	return short(p.md5) + " newest"
}

func (s *instances) setSize(w, h int) {
	s.w, s.h = w, h
	s.t.SetSize(w, max(0, h-len(s.notes)))
}

func (s *instances) refresh() {
	if s.version == s.v.snap.Version && s.version != 0 {
		return
	}
	s.version = s.v.snap.Version
	s.lost = 0
	var rows []process
	for _, in := range s.v.snap.Instances {
		app := in.App
		if app == "" {
			app = "-"
		}
		if in.Lost {
			s.lost++
		}
		if s.match.Match(app, in.ID, in.Host) {
			rows = append(rows, process{in: in, app: app, md5: in.FileMD5})
		}
	}
	s.notes = nil
	for _, a := range s.v.snap.Apps {
		if a.WatchErr != "" {
			s.notes = append(s.notes, " who listens in Nacos to "+cell.Clean(a.Name)+" is not known: "+cell.Clean(a.WatchErr))
		}
		for _, w := range a.Watchers {
			if s.match.Match(a.Name, w.Address) {
				rows = append(rows, process{app: a.Name, address: w.Address, md5: w.MD5})
			}
		}
	}
	if len(s.notes) > 3 {
		s.notes = append(s.notes[:2], fmt.Sprintf(" … and %d more applications", len(s.notes)-2))
	}
	s.t.Measure(rows)
	s.t.SetRows(rows)
}

func (s *instances) render() []string {
	if s.t.Len() == 0 {
		return []string{"", s.v.st.Dim.Paint("   No process reports and none listens in Nacos, or the filter hides them.")}
	}
	lines := s.t.Render()
	for _, n := range s.notes {
		lines = append(lines, s.v.st.Dim.Paint(cell.Cut(n, s.w)))
	}
	return lines
}

func (s *instances) status() (left, right string) {
	var l []string
	if s.f.text != "" {
		l = append(l, s.v.st.Bold.Paint("filter ")+cell.Clean(s.f.text))
	}
	if s.lost > 0 {
		l = append(l, s.v.st.Bad.Paint(fmt.Sprintf("%d lost", s.lost)))
	}
	return strings.Join(l, "  "), s.v.st.Dim.Paint(cell.Count(float64(s.t.Len())) + " processes")
}

func (s *instances) do(a keys.Action) (bool, string) {
	if a == keys.Escape && s.f.text != "" {
		s.f.set("")
		return true, ""
	}
	return move(s.t, a), ""
}

func (s *instances) hints() []keys.Action {
	return []keys.Action{keys.Filter, keys.ShowConsumer, keys.ShowFeed, keys.ShowHealth, keys.Palette, keys.Back, keys.Help}
}

func (s *instances) filtering() *listFilter { return &s.f }
