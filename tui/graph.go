package tui

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/belay-mq/belay/consumers/observe"
	"github.com/belay-mq/belay/registry/feed"
	"github.com/belay-mq/belay/registry/fleet"
	"github.com/belay-mq/belay/tui/cell"
)

// graphHigh is the height of a queue's graph, in lines.
const graphHigh = 4

// queue shows the listener's queues: numbers, hazards, and the last hour.
func (d *detail) queue() []string {
	st := d.v.st
	if len(d.row.Queues) == 0 {
		return []string{st.Dim.Paint("   no queue is known: no instance reports one and the toggle file names none")}
	}
	var out []string
	for _, q := range d.row.Queues {
		name := cell.Clean(q.ID.Name)
		if q.ID.VHost != "" && q.ID.VHost != "/" {
			name = cell.Clean(q.ID.VHost) + "/" + name
		}
		line := "   " + st.Bold.Paint(name) + "  "
		if q.Missing {
			out = append(out, cell.Cut(line+st.Bad.Paint("does not exist"), d.w))
			continue
		}
		for _, n := range []string{
			d.queueNumber("ready", q.Ready, cell.Count), d.queueNumber("unacked", q.Unacked, cell.Count),
			d.queueNumber("in/s", q.InRate, cell.Rate), d.queueNumber("out/s", q.OutRate, cell.Rate),
			d.queueNumber("consumers", q.Consumers, cell.Count)} {
			if cell.Width(line)+cell.Width(n) > d.w {
				out = append(out, line)
				line = cell.Blank(5 + cell.Width(name))
			}
			line += n + "  "
		}
		out = append(out, cell.Cut(line, d.w))
		if q.Disagree && q.ManagementConsumers.Known {
			out = append(out, cell.Cut("   "+st.Warn.Paint(fmt.Sprintf("the broker counts %s consumers, the management API %s", cell.Count(q.Consumers.Value), cell.Count(q.ManagementConsumers.Value))), d.w))
		}
		if q.Forecast != "" {
			out = append(out, cell.Cut("   "+cell.Clean(q.Forecast), d.w))
		}
		for _, h := range q.Hazards {
			out = append(out, cell.Cut("   "+st.Warn.Paint("! "+cell.Clean(h.Text)), d.w))
		}
		if q.Err != "" {
			out = append(out, cell.Cut("   "+st.Bad.Paint(cell.Clean(q.Err)), d.w))
		}
		out = append(out, d.graph(q)...)
	}
	return out
}

// graph draws the ready messages of the last hour, and below it marks for what
// happened to the listener meanwhile.
func (d *detail) graph(q *observe.Queue) []string {
	st := d.v.st
	if len(q.History) < 2 {
		return []string{"   " + st.Dim.Paint("no samples of the last hour yet")}
	}
	const left = 11
	w := d.w - left - 2
	end := d.v.now
	begin := end.Add(-time.Hour)
	col := func(t time.Time) int { return int(float64(w) * t.Sub(begin).Seconds() / time.Hour.Seconds()) }
	cols := make([]float64, w)
	for i := range cols {
		cols[i] = math.NaN()
	}
	top := 0.0
	last, lastCol := math.NaN(), -1
	for _, s := range q.History {
		c := col(s.At)
		if c < 0 || c >= w {
			continue
		}
		// Fill between samples, so that few samples make a line and no dots.
		if lastCol >= 0 && c-lastCol > 1 && c-lastCol <= max(2, w/12) {
			for k := lastCol + 1; k < c; k++ {
				cols[k] = last
			}
		}
		if math.IsNaN(cols[c]) || s.Ready > cols[c] {
			cols[c] = s.Ready
		}
		last, lastCol = s.Ready, c
		top = math.Max(top, s.Ready)
	}
	bars := []rune(" ▁▂▃▄▅▆▇█")
	var out []string
	for row := graphHigh - 1; row >= 0; row-- {
		label := ""
		switch row {
		case graphHigh - 1:
			label = cell.Count(top)
		case 0:
			label = "0"
		}
		var b strings.Builder
		for _, v := range cols {
			if math.IsNaN(v) {
				b.WriteByte(' ')
				continue
			}
			level := 0.0
			if top > 0 {
				level = v/top*graphHigh - float64(row)
			}
			n := int(math.Max(0, math.Min(8, math.Round(level*8))))
			if row == 0 && n == 0 {
				n = 1
			}
			b.WriteRune(bars[n])
		}
		out = append(out, st.Dim.Paint(cell.Right(label, left-2)+" │")+st.Info.Paint(b.String()))
	}
	marks := d.marks(begin, w, col)
	out = append(out, cell.Blank(left-1)+st.Dim.Paint("└")+marks)
	from, to := begin.In(d.v.loc).Format("15:04"), "now"
	out = append(out, cell.Blank(left)+st.Dim.Paint(cell.Spread(from, to, w)))
	return out
}

// marks is the line below a graph: t toggles, r releases, i instances.
func (d *detail) marks(begin time.Time, w int, col func(time.Time) int) string {
	signs := make([]rune, w)
	for i := range signs {
		signs[i] = '─'
	}
	legend := map[rune]bool{}
	for i := len(d.v.feed.lines) - 1; i >= 0; i-- {
		l := d.v.feed.lines[i]
		if l.At.Before(begin) {
			break
		}
		c := col(l.At)
		if c < 0 || c >= w {
			continue
		}
		var sign rune
		switch {
		case l.Source == feed.Toggle && l.App == d.row.ID.App && (l.Listener == d.row.ID.Listener || l.Listener == ""):
			sign = 't'
		case l.Source == feed.Release:
			sign = 'r'
		case l.Source == feed.Instance && (l.App == "" || l.App == d.row.ID.App):
			sign = 'i'
		default:
			continue
		}
		if signs[c] == '─' || sign == 't' {
			signs[c] = sign
		}
		legend[sign] = true
	}
	s := d.v.st.Dim.Paint(string(signs))
	if len(legend) > 0 {
		var parts []string
		for _, x := range []struct {
			sign rune
			text string
		}{{'t', "t toggle"}, {'r', "r release"}, {'i', "i instance"}} {
			if legend[x.sign] {
				parts = append(parts, x.text)
			}
		}
		text := " " + strings.Join(parts, ", ") + " "
		if cut := w - cell.Width(text); cut > 0 {
			s = d.v.st.Dim.Paint(string(signs[:cut]) + text)
			if signsIn(signs[cut:]) {
				s = d.v.st.Dim.Paint(text + string(signs[cell.Width(text):]))
			}
		}
	}
	return s
}

func signsIn(rs []rune) bool {
	for _, r := range rs {
		if r != '─' {
			return true
		}
	}
	return false
}

// riseAtLeast is how much a queue must have grown for the detail to say since when.
const riseAtLeast = 50

// risingSince says since when the ready messages grow, and what happened just
// before: "rising since 02:41:10, 4 s after enable → false by li".
func risingSince(v *view, r *fleet.Row) string {
	for _, q := range r.Queues {
		from, ok := riseBegin(q.History)
		if !ok {
			continue
		}
		s := "rising since " + v.moment(from)
		if l := lastChange(v, r.ID, from); l != nil {
			text := or(l.Text, string(l.Status))
			if l.By != "" && !strings.Contains(text, l.By) {
				text += " by " + l.By
			}
			if l.Source == feed.Release {
				text = "release " + l.Key
			}
			s += ", " + cell.Span(from.Sub(l.At)) + " after " + text
		}
		return s
	}
	return ""
}

// riseBegin finds when the newest rise of the samples began. It goes back to the
// lowest sample before which the queue was clearly higher, takes the last sample
// near that low, and follows the line of the rise back to it.
func riseBegin(h []observe.Sample) (time.Time, bool) {
	n := len(h)
	if n < 3 {
		return time.Time{}, false
	}
	now := h[n-1].Ready
	low := now
	from := 0
	for i := n - 2; i >= 0; i-- {
		if h[i].Ready > low+math.Max(riseAtLeast/2, 0.1*(now-low)) {
			from = i + 1
			break
		}
		low = math.Min(low, h[i].Ready)
	}
	if now-low < riseAtLeast || now < 1.2*low {
		return time.Time{}, false
	}
	flat := low + 0.02*(now-low)
	at := from
	for i := from; i < n; i++ {
		if h[i].Ready <= flat {
			at = i
		}
	}
	if at+2 < n {
		a, b := h[at+1], h[at+2]
		if slope := (b.Ready - a.Ready) / b.At.Sub(a.At).Seconds(); slope > 0 {
			t := a.At.Add(-time.Duration((a.Ready - h[at].Ready) / slope * float64(time.Second)))
			if t.After(h[at].At) && t.Before(a.At) {
				return t, true
			}
		}
	}
	return h[at].At, true
}

// lastChange is the newest line of the feed about the listener, or a release, in
// the minutes before a moment.
func lastChange(v *view, id fleet.ID, before time.Time) *feed.Line {
	lines := v.feed.lines
	for i := len(lines) - 1; i >= 0; i-- {
		l := lines[i]
		if l.At.After(before) {
			continue
		}
		if before.Sub(l.At) > 2*time.Minute {
			break
		}
		mine := l.App == id.App && (l.Listener == id.Listener || l.Listener == "")
		if mine && l.Source != feed.Consumer || l.Source == feed.Release && l.Status == feed.Delivered {
			return l
		}
	}
	return nil
}
