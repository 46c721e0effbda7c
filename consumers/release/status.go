package release

import "time"

// Phase is what a scanner is doing.
type Phase string

// The phases of a scanner.
const (
	PhaseIdle     Phase = "idle"     // not running
	PhaseStarting Phase = "starting" // has not read its first row yet
	PhaseReading  Phase = "reading"  // behind: the last page was full
	PhaseWaiting  Phase = "waiting"  // caught up
	PhaseFailing  Phase = "failing"  // the last try failed; see NextTry
	PhaseHolding  Phase = "holding"  // waits for proof because MaxGaps gaps are open
)

// Gap is an open gap in a [Status].
type Gap struct {
	Lo, Hi uint64
	Since  time.Time
}

// Status is what a scanner shows of itself at one moment; a copy.
type Status struct {
	Alarms         uint64
	Attempts       int // failed tries in a row
	Database       string
	Dead           uint64 // gaps that ended by proof
	Epoch          int
	ErrorSince     time.Time // of the present run of errors
	Gaps           []Gap     // the oldest, at most 100
	GapsOpen       int
	History        uint64 // rows handed over as history
	Ignored        int64  // rows with an id of 0 or less, which are never handed over
	Lag            time.Duration
	LastError      error     // nil when the last try succeeded
	LastRow        time.Time // stamp of the last row that is no history
	Late           uint64    // rows handed over late
	ListenerErrors uint64
	Malformed      uint64 // rows handed over whose message has not three parts
	Method         string // how gaps are proven dead
	Newest         uint64 // the highest id at the last survey
	NextTry        time.Time
	Overflown      uint64 // gaps given up for room
	Pages          uint64
	Phase          Phase
	Position       Position  // everything up to it was handed over, but for gaps
	Queries        uint64    // pages, range reads, surveys and checks; lock reads are not counted
	ReadAt         time.Time // when a page was read last; zero before the first
	Replayed       uint64
	Rows           uint64 // rows handed over, of all kinds
	Skewed         bool   // Lag is negative: the database's clock was set back
	TickTook       time.Duration
	Ticks          uint64
	Unproven       uint64 // gaps given up by age
	UpdatedAt      time.Time
}

// Behind is how many ids the scanner is behind the newest id it knows of.
func (s Status) Behind() uint64 {
	if s.Newest > s.Position.ID {
		return s.Newest - s.Position.ID
	}
	return 0
}

// Status is the scanner's status at its last step. It never blocks, and may be
// called by any goroutine.
func (s *Scanner) Status() Status { return *s.published.Load() }

const statusGaps = 100

func (s *Scanner) publish() {
	st := s.status
	st.Position = Position{Epoch: s.epoch, ID: s.cursor}
	st.Epoch = s.epoch
	st.Database = s.db.name
	st.GapsOpen = len(s.gaps.gaps)
	st.Newest = max(st.Newest, s.cursor)
	if s.prover != nil {
		st.Method = s.prover.method()
	}
	st.UpdatedAt = time.Now()
	// Gaps are kept by id, which is nearly by age.
	for _, g := range s.gaps.gaps[:min(statusGaps, len(s.gaps.gaps))] {
		st.Gaps = append(st.Gaps, Gap{Lo: g.lo, Hi: g.hi, Since: g.firstSeen})
	}
	s.published.Store(&st)
}
