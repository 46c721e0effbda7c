package feed

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/belay-mq/belay/registry/change"
	"github.com/belay-mq/belay/registry/fleet"
	"github.com/belay-mq/belay/registry/toggle"
)

// lookout remembers the last snapshot, to find what changed since.
type lookout struct {
	mu        sync.Mutex // of Compare
	apps      map[string]*appSeen
	rows      map[fleet.ID]*rowSeen
	instances map[string]*instanceSeen
	health    map[string]fleet.HealthState
	blocked   bool
	quiet     time.Time // until then instances that are seen for the first time were there before
}

// quietFor is how long after the start, and after a connection to the broker came back, instances are merely found.
const quietFor = 30 * time.Second

type appSeen struct {
	md5    string
	absent bool
	wishes map[string]wished // by listener
}

// wished is what the file said of a listener.
type wished struct {
	content string // of its wish
	stamp   string // who wrote it, and when
}

type rowSeen struct {
	row   *fleet.Row
	hosts map[string]string // instance → state; "" while the instance is lost
	drift bool
}

type instanceSeen struct {
	lost    bool
	present bool
	left    time.Time // when it was listed last, where it is not
}

// forgetAfter is how long an instance that is no longer listed is remembered, so that it may come back.
const forgetAfter = time.Minute

func (o *lookout) reset() {
	o.apps, o.rows = map[string]*appSeen{}, map[fleet.ID]*rowSeen{}
	o.instances, o.health = map[string]*instanceSeen{}, map[string]fleet.HealthState{}
}

// Compare hands to the center what changed since the snapshot before. What is seen for the first time was there
// before, and makes no line. It waits only while the center is full.
func (f *Feed) Compare(ctx context.Context, s *fleet.Snapshot) error {
	f.look.mu.Lock()
	defer f.look.mu.Unlock()
	f.snap.Store(s)
	for _, step := range []func(context.Context, *fleet.Snapshot) error{
		f.compareFiles, f.compareInstances, f.compareRows, f.compareHealth,
	} {
		if err := step(ctx, s); err != nil {
			return err
		}
	}
	f.lookForApplied(s)
	return nil
}

func (f *Feed) offer(ctx context.Context, e change.Event) error {
	_, err := f.center.Offer(ctx, e)
	return err
}

// seed tells the center what was there before; seeds make no lines.
func seed(e change.Event) change.Event {
	e.Source, e.Version = change.Backup, 1
	return e
}

func (f *Feed) compareFiles(ctx context.Context, s *fleet.Snapshot) error {
	for _, a := range s.Apps {
		if a.File.Seq == 0 {
			continue
		}
		seen := f.look.apps[a.Name]
		if seen != nil && seen.md5 == a.File.MD5 && seen.absent == a.File.Absent {
			continue
		}
		file := &toggle.File{}
		if !a.File.Absent {
			file = toggle.Parse(toggle.FormatOf(a.Key.DataID), []byte(a.File.Text))
		}
		if err := f.compareFile(ctx, a, seen, file); err != nil {
			return err
		}
	}
	return nil
}

func (f *Feed) compareFile(ctx context.Context, a *fleet.App, seen *appSeen, file *toggle.File) error {
	first := seen == nil
	if first {
		seen = &appSeen{wishes: map[string]wished{}}
		f.look.apps[a.Name] = seen
	}
	seen.md5, seen.absent = a.File.MD5, a.File.Absent
	if file.Fatal != nil { // the last good one stays in force
		l := unreadable(a.Name, a.File.MD5, file)
		l.Window = f.window
		f.add(l)
		return nil
	}
	if p := file.Worst(); !first && p != nil && p.Class().Loud() {
		f.add(Line{Source: Toggle, Key: a.Name, App: a.Name, Version: versionOf(a.File.MD5), Status: Failed, Window: f.window,
			Text: "line " + strconv.Itoa(p.Line) + ": " + p.Text + "; " + p.Class().Sentence(a.Name)})
	}
	there := map[string]bool{}
	for _, t := range file.InForce() {
		there[t.ListenerID] = true
		id := fleet.ID{App: a.Name, Listener: t.ListenerID}
		now := wished{wishOf(t).content(), text(t.UpdatedBy) + " " + text(t.UpdatedAt)}
		old, known := seen.wishes[t.ListenerID]
		seen.wishes[t.ListenerID] = now
		if known && old.content == now.content {
			continue
		}
		by := text(t.UpdatedBy)
		if known && old.stamp == now.stamp {
			by = "" // written by somebody who left the name of the one before
		}
		e := change.Event{Key: toggles.listener(id), Kind: change.Cover, Items: []change.Item{{
			ID: "toggle", Conn: byPrefix + by + "\x00" + versionOf(a.File.MD5), Content: now.content,
		}}}
		if first {
			e = seed(e)
		} else {
			f.accept(id.String(), Toggle, versionOf(a.File.MD5))
		}
		if err := f.offer(ctx, e); err != nil {
			return err
		}
	}
	for listener := range seen.wishes {
		if there[listener] {
			continue
		}
		delete(seen.wishes, listener)
		id := fleet.ID{App: a.Name, Listener: listener}
		f.accept(id.String(), Toggle, versionOf(a.File.MD5))
		if err := f.offer(ctx, change.Event{Key: toggles.listener(id), Source: change.Clean}); err != nil {
			return err
		}
	}
	return nil
}

// byPrefix begins an item's connection where it names an operator; instances' ids hold no NUL byte.
const byPrefix = "\x00by:"

func text(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

// versionOf is how a file's version is shown.
func versionOf(md5 string) string {
	if md5 == "" {
		return ""
	}
	return "v" + md5[:min(8, len(md5))]
}

// compareInstances takes goodbyes and losses as client-offs, and reports after one as snapshots.
func (f *Feed) compareInstances(ctx context.Context, s *fleet.Snapshot) error {
	for _, seen := range f.look.instances {
		seen.present = false
	}
	for _, i := range s.Instances {
		seen := f.look.instances[i.ID]
		up := change.Event{Key: instance.key(i.ID), Items: []change.Item{{ID: i.ID, Conn: i.ID, Content: "up"}}}
		switch {
		case seen == nil:
			seen = &instanceSeen{lost: i.Lost}
			f.look.instances[i.ID] = seen
			if i.Lost {
				break
			}
			if !i.Started.After(f.start) && time.Now().Before(f.look.quiet) {
				up = seed(up)
			}
			if err := f.offer(ctx, up); err != nil {
				return err
			}
		case i.Lost && !seen.lost:
			seen.lost = true
			if err := f.off(ctx, i.ID, "lost: three reports were missed"); err != nil {
				return err
			}
		case !i.Lost && seen.lost:
			seen.lost = false
			up.Scope, up.Source = change.ScopeSnapshot, change.Snapshot
			f.accept(short(i.ID), Instance, "")
			if err := f.offer(ctx, up); err != nil {
				return err
			}
		}
		seen.present, seen.left = true, time.Time{}
	}
	for id, seen := range f.look.instances {
		if seen.present {
			continue
		}
		if seen.left.IsZero() {
			seen.left = time.Now()
		}
		if !seen.lost {
			seen.lost = true
			if err := f.off(ctx, id, "said goodbye"); err != nil {
				return err
			}
			continue
		}
		if time.Since(seen.left) < forgetAfter {
			continue
		}
		if err := f.forget(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// off ends an instance.
func (f *Feed) off(ctx context.Context, id, how string) error {
	f.mu.Lock()
	f.gone[id] = how
	f.mu.Unlock()
	f.accept(short(id), Instance, "")
	for _, row := range f.look.rows {
		if _, ok := row.hosts[id]; ok {
			row.hosts[id] = ""
		}
	}
	_, err := f.center.ClientOff(ctx, id)
	return err
}

// forget drops what was remembered of an instance that is no longer listed.
func (f *Feed) forget(ctx context.Context, id string) error {
	delete(f.look.instances, id)
	for _, row := range f.look.rows {
		delete(row.hosts, id)
	}
	f.mu.Lock()
	delete(f.gone, id)
	f.mu.Unlock()
	return f.offer(ctx, change.Event{Key: instance.key(id), Source: change.Clean})
}

// compareRows takes what instances say of their listeners.
func (f *Feed) compareRows(ctx context.Context, s *fleet.Snapshot) error {
	for _, r := range s.Rows {
		seen := f.look.rows[r.ID]
		if seen == nil {
			seen = &rowSeen{hosts: map[string]string{}, drift: r.State == fleet.Drift}
			f.look.rows[r.ID] = seen
		}
		if seen.row == r {
			continue
		}
		if err := f.compareHosts(ctx, r, seen); err != nil {
			return err
		}
		seen.row = r
		if drift := r.State == fleet.Drift; drift != seen.drift {
			seen.drift = drift
			note := "ok"
			if drift {
				note = string(fleet.Drift)
			}
			if err := f.changed(ctx, r.ID, change.Item{ID: driftItem, Content: note}); err != nil {
				return err
			}
		}
	}
	if len(f.look.rows) == len(s.Rows) {
		return nil
	}
	for id := range f.look.rows { // rows that are no longer shown
		if s.Row(id) == nil {
			delete(f.look.rows, id)
			if err := f.offer(ctx, change.Event{Key: consumer.listener(id), Source: change.Clean}); err != nil {
				return err
			}
		}
	}
	return nil
}

// driftItem stands beside the instances of a listener for whether wanted and actual differ.
const driftItem = "\x00drift"

func (f *Feed) compareHosts(ctx context.Context, r *fleet.Row, seen *rowSeen) error {
	listed := 0
	var before []fleet.Host
	if seen.row != nil {
		before = seen.row.Hosts
	}
	for i := range r.Hosts {
		h := &r.Hosts[i]
		if i < len(before) && !h.Lost && !before[i].Lost && before[i].Instance == h.Instance &&
			before[i].Report.State == h.Report.State { // nearly always; no look into the map
			listed++
			continue
		}
		if h.Lost {
			if _, ok := seen.hosts[h.Instance]; ok {
				listed++
			}
			continue
		}
		listed++
		state := h.Report.State
		old, known := seen.hosts[h.Instance]
		if known && old == state {
			continue
		}
		seen.hosts[h.Instance] = state
		x := change.Item{ID: h.Instance, Conn: h.Instance, Content: state}
		var err error
		if known {
			err = f.changed(ctx, r.ID, x)
		} else {
			err = f.offer(ctx, seed(change.Event{Key: consumer.listener(r.ID), Items: []change.Item{x}}))
		}
		if err != nil {
			return err
		}
	}
	if listed == len(seen.hosts) {
		return nil
	}
	there := map[string]bool{}
	for i := range r.Hosts {
		there[r.Hosts[i].Instance] = true
	}
	for inst, state := range seen.hosts {
		if there[inst] || state == "" {
			continue
		}
		delete(seen.hosts, inst)
		if err := f.changed(ctx, r.ID, change.Item{ID: inst, Conn: inst, Unpub: true}); err != nil {
			return err
		}
	}
	return nil
}

func (f *Feed) changed(ctx context.Context, id fleet.ID, x change.Item) error {
	f.accept(id.String(), Consumer, "")
	return f.offer(ctx, change.Event{Key: consumer.listener(id), Items: []change.Item{x}})
}

// compareHealth takes how the parts of the backend fare.
func (f *Feed) compareHealth(ctx context.Context, s *fleet.Snapshot) error {
	for _, h := range s.Health {
		old, known := f.look.health[h.Name]
		if known && old == h.State {
			continue
		}
		f.look.health[h.Name] = h.State
		if h.Name == "rabbit" || h.Name == "presence" {
			f.look.quiet = time.Now().Add(quietFor)
		}
		e := change.Event{Key: health.key(h.Name), Items: []change.Item{{ID: "state", Content: string(h.State)}}}
		if !known {
			e = seed(e)
		}
		if err := f.offer(ctx, e); err != nil {
			return err
		}
	}
	if s.Blocked == f.look.blocked {
		return nil
	}
	f.look.blocked = s.Blocked
	return f.offer(ctx, change.Event{Key: health.key(alarm), Items: []change.Item{{ID: "state", Content: strconv.FormatBool(s.Blocked)}}})
}

// alarm is the key of the broker's alarms, which hold publishers back.
const alarm = "broker alarm"
