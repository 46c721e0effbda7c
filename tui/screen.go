package tui

import (
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/belay-mq/belay/registry/fleet"
	"github.com/belay-mq/belay/tui/keys"
	"github.com/belay-mq/belay/tui/style"
)

// view is what all screens read: the newest snapshot and feed, the time of this
// frame, the looks. Screens never change it.
type view struct {
	ascii  bool
	ending string // that all applications' names share; left out in the narrow column
	feed   *feedLog
	keys   *keys.Map
	label  string
	loc    *time.Location
	now    time.Time
	snap   *fleet.Snapshot
	st     *style.Set
	wide   int // width of the window
}

// age is how old a reading is. While snapshots keep coming it is measured at the
// newest one, so that a quiet fleet makes a quiet screen; when they stop, it grows.
func (v *view) age(t time.Time) time.Duration {
	at := v.snap.At
	if v.now.Sub(at) > snapshotLate {
		at = v.now
	}
	return max(0, at.Sub(t))
}

// late reports whether snapshots have stopped coming.
func (v *view) late() bool { return v.snap.Version > 0 && v.now.Sub(v.snap.At) > snapshotLate }

// snapshotLate is how old a snapshot may be before the screens say so.
const snapshotLate = 3 * time.Second

// readOnly says whether nothing can be written here.
func (m *Model) readOnly() bool {
	return m.cfg.ReadOnly || m.v.snap.ReadOnly
}

// screen is one of the five screens. It is a plain struct: the model calls its
// methods, it calls nobody.
type screen interface {
	// setSize gives the room for the body, without header and footer.
	setSize(w, h int)
	// refresh takes the view's newest snapshot and feed.
	refresh()
	// render draws the body: at most h lines of at most w columns.
	render() []string
	// status is the line below the header: what is chosen (left), how much there is (right).
	status() (left, right string)
	// do carries out an action that concerns the screen alone. why says, in words,
	// why it does nothing; both false and empty where the action is not the screen's.
	do(a keys.Action) (done bool, why string)
	// hints are the actions of the line of hints.
	hints() []keys.Action
	// filtering is the screen's filter; nil where it has none.
	filtering() *listFilter
}

// listFilter is the filter of a list while it is typed and after.
type listFilter struct {
	text    string
	changed func()
}

func (f *listFilter) set(text string) {
	if f.text != text {
		f.text = text
		f.changed()
	}
}

// dialog is something that lies over the screen and sees keys first.
type dialog interface {
	// key takes a key; closed says that the dialog is done.
	key(m *Model, k tea.KeyMsg) (closed bool, cmd tea.Cmd)
	// message takes an answer of a command that the dialog started.
	message(m *Model, msg tea.Msg) (closed bool, cmd tea.Cmd)
	// hint is the line of hints while it is open.
	hint() string
	// render draws the dialog's box for a window of this size.
	render(m *Model, w, h int) []string
}

// mover is a table that actions move about in.
type mover interface {
	Move(int)
	Go(int)
	Page(float64)
	Len() int
}

// move carries out the actions that move a cursor.
func move(t mover, a keys.Action) bool {
	switch a {
	case keys.Down:
		t.Move(1)
	case keys.Up:
		t.Move(-1)
	case keys.Top:
		t.Go(0)
	case keys.Bottom:
		t.Go(t.Len() - 1)
	case keys.HalfDown:
		t.Page(0.5)
	case keys.HalfUp:
		t.Page(-0.5)
	case keys.PageDown:
		t.Page(1)
	case keys.PageUp:
		t.Page(-1)
	default:
		return false
	}
	return true
}
