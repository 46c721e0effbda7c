package fleet

import (
	"sort"
	"time"

	"github.com/belay-mq/belay/nacos"
	"github.com/belay-mq/belay/registry/toggle"
)

// app follows one application's toggle file. Its fields are guarded by the fleet's
// lock.
type app struct {
	config AppConfig
	key    nacos.Key
	format toggle.Format

	state    nacos.State
	known    bool // state was read
	good     string
	goodMD5  string
	toggles  map[string]toggle.Toggle // of the last good text
	problems []Problem

	watchers []nacos.Watcher
	watchErr string

	// changed is when the wish for a listener last changed, as far as this process
	// saw; it starts the time in which instances may be behind.
	changed map[string]time.Time
	// since is when the file began to be followed.
	since time.Time
}

func newApp(c AppConfig) *app {
	return &app{
		config:  c,
		key:     nacos.Key{DataID: c.DataID, Group: c.Name},
		format:  toggle.FormatOf(c.DataID),
		toggles: map[string]toggle.Toggle{},
		changed: map[string]time.Time{},
		since:   time.Now(),
	}
}

// take keeps a newly read state. A text that cannot be read leaves the toggles of the
// last good one in force.
func (a *app) take(s nacos.State, now time.Time) {
	first := !a.known
	newer := s.Seq != 0 && s.Seq != a.state.Seq
	a.state = s
	if s.Seq == 0 {
		return
	}
	a.known = true
	if !newer && !first {
		return
	}
	f := toggle.Parse(a.format, []byte(s.Text))
	a.problems = problemsOf(a.config.Name, f)
	if f.Fatal != nil {
		return
	}
	old := a.toggles
	a.toggles = make(map[string]toggle.Toggle)
	for _, t := range f.InForce() {
		a.toggles[t.ListenerID] = t
		if before, had := old[t.ListenerID]; !first && (!had || !sameWish(before, t)) {
			a.changed[t.ListenerID] = now
		}
	}
	a.good, a.goodMD5 = s.Text, s.MD5
}

// sameWish holds when two toggles ask for the same thing; who and why do not count.
func sameWish(a, b toggle.Toggle) bool {
	return same(a.Enable, b.Enable) && same(a.Min, b.Min) && same(a.Max, b.Max) &&
		same(a.PauseAt, b.PauseAt) && same(a.ResumeAt, b.ResumeAt)
}

func same[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// staleSince is since when the file was not read; zero while that is lately. A file that
// was never read has no state that could be stale, and is so all the same.
func (a *app) staleSince(now time.Time) time.Time {
	if !a.known && now.Sub(a.since) > unreadAfter {
		return a.since
	}
	return a.state.Stale
}

// unreadAfter is three intervals of the store's poll.
const unreadAfter = 9 * time.Second

func (a *app) setWatchers(list []nacos.Watcher, err error) {
	if err != nil {
		a.watchErr = err.Error()
		return
	}
	a.watchers, a.watchErr = list, ""
}

// problemsOf lists a file's faults, those that stop services first.
func problemsOf(app string, f *toggle.File) []Problem {
	var out []Problem
	add := func(p toggle.Problem) {
		text := p.String()
		if p.Class().Loud() {
			text = p.Class().Sentence(app) + " (" + text + ")"
		}
		out = append(out, Problem{Code: string(p.Code), Line: p.Line, Text: text, Loud: p.Class().Loud(), Class: p.Class().String()})
	}
	if f.Fatal != nil {
		add(*f.Fatal)
	}
	for _, w := range f.Warnings {
		add(w)
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].Loud && !out[j].Loud })
	return out
}

// view is the application as a snapshot shows it.
func (a *app) view(writers int) *App {
	return &App{
		Name: a.config.Name, Key: a.key, File: a.state, InForce: a.goodMD5, Problems: a.problems,
		Writers: writers, Watchers: a.watchers, WatchErr: a.watchErr,
	}
}

// desired is what the file says of a listener.
func desired(t toggle.Toggle) Desired {
	d := Desired{Entry: true, Enable: t.Enable, Min: t.Min, Max: t.Max, Reason: text(t.Reason), UpdatedBy: text(t.UpdatedBy), Queue: text(t.Queue)}
	d.UpdatedAt, _ = t.UpdatedTime()
	d.PauseAt, _ = t.PauseTime()
	d.ResumeAt, _ = t.ResumeTime()
	return d
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
