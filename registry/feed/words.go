package feed

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/belay-mq/belay/consumers"
	"github.com/belay-mq/belay/registry/change"
	"github.com/belay-mq/belay/registry/fleet"
	"github.com/belay-mq/belay/registry/toggle"
)

// wish is what a toggle file wants of a listener, as far as it makes a difference: who wrote it, and when, does not.
type wish struct {
	Enable   *bool  `json:"enable,omitempty"`
	Min      *int   `json:"min,omitempty"`
	Max      *int   `json:"max,omitempty"`
	Reason   string `json:"reason,omitempty"`
	PauseAt  string `json:"pauseAt,omitempty"`
	ResumeAt string `json:"resumeAt,omitempty"`
	Queue    string `json:"queue,omitempty"`
}

func wishOf(t toggle.Toggle) wish {
	return wish{t.Enable, t.Min, t.Max, text(t.Reason), text(t.PauseAt), text(t.ResumeAt), text(t.Queue)}
}

// content is the wish as the center keeps it; equal wishes have equal contents.
func (w wish) content() string {
	b, err := json.Marshal(w)
	if err != nil { // there is nothing in a wish that cannot be written
		return ""
	}
	return string(b)
}

func wishIn(items []change.Item) (w wish, ok bool) {
	if len(items) == 0 || json.Unmarshal([]byte(items[0].Content), &w) != nil {
		return wish{}, false
	}
	return w, true
}

// word is how a wish for a listener's running is said.
func (w wish) word() string {
	switch {
	case w.Enable == nil:
		return "no opinion"
	case *w.Enable:
		return "running"
	}
	return "paused"
}

// told says what changed from one wish to the next: "running → paused".
func told(before, after wish) string {
	var parts []string
	if before.word() != after.word() {
		parts = append(parts, before.word()+" → "+after.word())
	}
	if b, a := before.pair(), after.pair(); b != a {
		parts = append(parts, "consumers "+b+" → "+a)
	}
	for _, planned := range []struct{ name, before, after string }{
		{"pauses", before.PauseAt, after.PauseAt}, {"resumes", before.ResumeAt, after.ResumeAt},
	} {
		switch {
		case planned.before == planned.after:
		case planned.after != "":
			parts = append(parts, planned.name+" "+moment(planned.after))
		case before.word() == after.word():
			parts = append(parts, planned.name+" no more at "+moment(planned.before))
		}
	}
	if before.Queue != after.Queue {
		parts = append(parts, "queue "+after.Queue)
	}
	if len(parts) == 0 && before.Reason != after.Reason {
		parts = append(parts, "reason changed")
	}
	return strings.Join(parts, ", ")
}

// moment shortens a time of the file to what a line has room for, in UTC.
func moment(text string) string {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return text
	}
	return t.UTC().Format("2006-01-02 15:04Z")
}

func (w wish) pair() string {
	n := func(p *int) string {
		if p == nil {
			return "-"
		}
		return fmt.Sprint(*p)
	}
	return n(w.Min) + "-" + n(w.Max)
}

func cut(s string) (before, after string) {
	before, after, _ = strings.Cut(s, "\x00")
	return
}

// seeToggle makes a line of a change of the file.
func (f *Feed) seeToggle(d change.Delivery) {
	if d.Outcome == change.Replayed {
		return // it was there before
	}
	id := idOf(d.Key)
	l := f.base(&d, Toggle)
	l.Key, l.App, l.Listener = id.String(), id.App, id.Listener
	before, was := wishIn(d.Prev.Items)
	after, is := wishIn(d.Now.Items)
	if is {
		l.By, l.Version = cut(strings.TrimPrefix(d.Now.Items[0].Conn, byPrefix))
	}
	switch {
	case !is:
		l.Text = "no longer in the file"
		if s := f.snap.Load(); s != nil {
			if a := s.App(id.App); a != nil {
				l.Version = versionOf(a.File.MD5)
			}
		}
	case d.Outcome == change.Suppressed:
		l.Text = "changed and changed back"
	default:
		switch l.Text = told(before, after); {
		case !was && d.Reasons.Has(change.Backup): // first seen and changed within one window
			l.Text = "→ " + after.word()
		case !was:
			l.Text = "new in the file: " + after.word()
		}
	}
	if l.By != "" && is {
		l.Text += " by " + l.By
	}
	if is && after.Reason != "" && before.Reason != after.Reason {
		l.Text += ": " + after.Reason
	}
	f.addToggle(l, id)
}

// seeConsumer makes a line of what instances say of a listener.
func (f *Feed) seeConsumer(d change.Delivery) {
	if d.Outcome == change.Replayed || d.Outcome == change.Cleaned {
		return
	}
	if d.Reasons.Has(change.Off) && (d.Reasons == change.SourcesOf(change.Off) || d.Outcome == change.Suppressed) {
		return // the instance has a line of its own
	}
	id := idOf(d.Key)
	l := f.base(&d, Consumer)
	l.Key, l.App, l.Listener = id.String(), id.App, id.Listener
	if d.Outcome == change.Suppressed {
		if d.Merged == 0 {
			return
		}
		l.Text = "changed and changed back"
	} else if l.Text = moved(d.Prev.Items, d.Now.Items); l.Text == "" {
		return
	}
	if s := f.snap.Load(); s != nil {
		if row := s.Row(id); row != nil {
			l.By = row.By
			if strings.Contains(l.Text, "drift") && row.State == fleet.Drift && row.Note != "" {
				l.Text += ": " + row.Note
			}
		}
	}
	f.add(l)
}

// normal are the states in which an instance that is new to a listener is no news.
var normal = map[string]bool{
	string(consumers.Running): true, string(consumers.Starting): true, string(consumers.Stopped): true,
}

// moved says which instances went from which state to which: "running → recovering on host-c:811".
func moved(prev, now []change.Item) string {
	was := map[string]string{}
	for _, x := range prev {
		was[x.ID] = x.Content
	}
	var order []string
	groups := map[string][]string{}
	add := func(id, from, to string) {
		if from == to {
			return
		}
		move := from + " → " + to
		if _, ok := groups[move]; !ok {
			order = append(order, move)
		}
		groups[move] = append(groups[move], short(id))
	}
	drift := ""
	for _, x := range now {
		from, known := was[x.ID]
		delete(was, x.ID)
		switch {
		case x.ID == driftItem && from != x.Content && x.Content == string(fleet.Drift):
			drift = "drift"
		case x.ID == driftItem && known && from != x.Content:
			drift = "no more drift"
		case x.ID == driftItem:
		case !known && normal[x.Content]:
		case !known:
			add(x.ID, "new", x.Content)
		default:
			add(x.ID, from, x.Content)
		}
	}
	delete(was, driftItem)
	for id, from := range was {
		add(id, from, "gone")
	}
	slices.Sort(order)
	var parts []string
	for _, move := range order {
		switch hosts := groups[move]; {
		case len(hosts) == 1:
			parts = append(parts, move+" on "+hosts[0])
		default:
			parts = append(parts, fmt.Sprintf("%s on %d instances", move, len(hosts)))
		}
	}
	if drift != "" {
		parts = append(parts, drift)
	}
	return strings.Join(parts, ", ")
}

// seeInstance makes a line of an instance that came, went or came back.
func (f *Feed) seeInstance(d change.Delivery) {
	if d.Outcome == change.Replayed || d.Outcome == change.Cleaned {
		return
	}
	id := d.Key.DataInfoID
	l := f.base(&d, Instance)
	l.Key = short(id)
	var started time.Time
	if s := f.snap.Load(); s != nil {
		for _, i := range s.Instances {
			if i.ID == id {
				l.App, started = i.App, i.Started
			}
		}
	}
	f.mu.Lock()
	how := f.gone[id]
	f.mu.Unlock()
	back := len(d.Now.Items) > 0
	if back && len(d.Prev.Items) == 0 && d.Reasons.Has(change.Backup) { // first seen and gone within one window
		l.Status = Suppressed
	}
	switch {
	case l.Status == Suppressed:
		l.Text = fmt.Sprintf("gone and back after %d ms", d.Delay.Milliseconds())
	case !back:
		l.Text = how
	case how != "":
		l.Text = "is back"
	case !started.IsZero() && d.At.Sub(started) > time.Minute:
		l.Text = "appeared, running since " + started.UTC().Format("2006-01-02 15:04Z")
	default:
		l.Text = "started"
	}
	if back {
		f.mu.Lock()
		delete(f.gone, id)
		f.mu.Unlock()
	}
	f.add(l)
}

// seeHealth makes a line of a part of the backend that failed or recovered.
func (f *Feed) seeHealth(d change.Delivery) {
	if d.Outcome != change.Delivered || len(d.Now.Items) == 0 {
		return
	}
	name := d.Key.DataInfoID
	l := f.base(&d, Broker)
	if name == alarm {
		if l.Key, l.Text = "rabbit", "an alarm holds publishers back"; d.Now.Items[0].Content == "false" {
			l.Text = "the alarm is over"
		}
		f.add(l)
		return
	}
	if len(d.Prev.Items) == 0 {
		return
	}
	switch name {
	case "scanner", "apollo":
		l.Source = Scanner
	case "nacos":
		l.Source = Toggle
	}
	l.Key = name
	l.Text = d.Prev.Items[0].Content + " → " + d.Now.Items[0].Content
	if s := f.snap.Load(); s != nil {
		for _, h := range s.Health {
			if h.Name == name && h.Err != "" && h.State != fleet.HealthOK {
				l.Text += ": " + h.Err
			}
		}
	}
	f.add(l)
}
