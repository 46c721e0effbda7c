// Package proof holds programs that put belay to the test from outside: random
// publishers, simulations and chaos. Tests call them, and so can a person.
package proof

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/belay-mq/belay/consumers/release"
)

// PublishersConfig says how random publishers write and how a scanner reads.
type PublishersConfig struct {
	// Clean runs two cleaners beside the writers.
	Clean bool
	// DSN is a database of the run's own: its table is made if missing, and its
	// rows are taken for the run's.
	DSN release.DSN
	// Duration is how long writers write. 0 is 10 seconds.
	Duration time.Duration
	// Interval is the scanner's. 0 is 100 ms. Held transactions are held for 10
	// of it.
	Interval time.Duration
	// Seed makes the writers' choices.
	Seed uint64
	// Writers is the number of writers, 0 is 8.
	Writers int
}

// PublishersReport says what came of a run. Missed, Twice and Ghosts are to be
// empty.
type PublishersReport struct {
	Bulk       int
	Cleaned    uint64
	Committed  int // rows
	Database   string
	Delivered  int
	Failed     int // transactions that the database refused
	Ghosts     []uint64
	Held       int // transactions held open for 10 intervals
	Missed     []uint64
	Naive      int // committed rows that a plain cursor on the highest id missed
	RolledBack int // rows
	Scanner    release.Status
	Took       time.Duration
	Twice      []uint64
	WorstLate  time.Duration // from a commit to the delivery
}

// Err is nil where every committed row was delivered exactly once and no other.
func (r PublishersReport) Err() error {
	if len(r.Missed)+len(r.Twice)+len(r.Ghosts) == 0 {
		return nil
	}
	return fmt.Errorf("missed %d %v, twice %d %v, ghosts %d %v", len(r.Missed), first(r.Missed), len(r.Twice), first(r.Twice), len(r.Ghosts), first(r.Ghosts))
}

func first(ids []uint64) []uint64 { return ids[:min(len(ids), 10)] }

// String is the report in a few lines.
func (r PublishersReport) String() string {
	return fmt.Sprintf("%s: committed %d rows, rolled back %d, held %d transactions, bulk %d, refused %d, cleaned %d, in %s\n"+
		"%s  delivered %d (late %d), gaps dead %d open %d, pages %d, queries %d, worst from commit to delivery %s\n"+
		"%s  missed %d, twice %d, ghosts %d (a plain cursor missed %d)",
		r.Database, r.Committed, r.RolledBack, r.Held, r.Bulk, r.Failed, r.Cleaned, r.Took.Round(time.Millisecond),
		strings.Repeat(" ", len(r.Database)), r.Delivered, r.Scanner.Late, r.Scanner.Dead, r.Scanner.GapsOpen, r.Scanner.Pages, r.Scanner.Queries, r.WorstLate.Round(time.Millisecond),
		strings.Repeat(" ", len(r.Database)), len(r.Missed), len(r.Twice), len(r.Ghosts), r.Naive)
}

// Publishers runs random writers against one scanner and compares what was
// committed with what was delivered. Some transactions are held open, some are
// rolled back, some write many rows with one statement. An error is one of the
// set-up; what the scanner did wrong is in the report.
func Publishers(ctx context.Context, cfg PublishersConfig) (PublishersReport, error) {
	if cfg.Duration == 0 {
		cfg.Duration = 10 * time.Second
	}
	if cfg.Interval == 0 {
		cfg.Interval = 100 * time.Millisecond
	}
	if cfg.Writers == 0 {
		cfg.Writers = 8
	}
	began := time.Now()
	db, err := release.Open(ctx, cfg.DSN)
	if err != nil {
		return PublishersReport{}, err
	}
	defer db.Close()
	if err := db.Init(ctx); err != nil {
		return PublishersReport{}, err
	}
	p := &publishers{cfg: cfg, db: db, committed: map[uint64]commit{}, delivered: map[uint64][]delivery{}, plain: map[uint64]bool{}}
	scanner, err := release.NewScanner(db, release.ScannerConfig{Interval: cfg.Interval, Listeners: []release.Listener{p}})
	if err != nil {
		return PublishersReport{}, err
	}
	run, stop := context.WithCancel(ctx)
	var background sync.WaitGroup
	ends := make(chan error, 3) // of the scanner and the cleaners
	background.Go(func() { ends <- scanner.Run(run) })
	background.Go(func() { p.naive(run) })
	if cfg.Clean {
		for range 2 {
			c := release.NewCleaner(db, release.CleanerConfig{Pause: cfg.Interval})
			p.cleaners = append(p.cleaners, c)
			background.Go(func() { ends <- c.Run(run) })
		}
	}
	p.write(ctx)
	p.drain(ctx, scanner)
	stop()
	background.Wait()
	close(ends)
	report, err := p.judge(ctx)
	for end := range ends {
		err = errors.Join(err, end)
	}
	report.Scanner, report.Database, report.Took = scanner.Status(), p.kind(), time.Since(began)
	return report, errors.Join(err, ctx.Err())
}

type commit struct {
	message string
	at      time.Time
}

type delivery struct {
	message string
	at      time.Time
}

// publishers is one run.
type publishers struct {
	cfg      PublishersConfig
	db       *release.DB
	cleaners []*release.Cleaner

	mu        sync.Mutex
	committed map[uint64]commit
	delivered map[uint64][]delivery
	plain     map[uint64]bool // what the plain cursor saw
	report    PublishersReport
	doubtful  map[uint64]bool // ids of commits that were answered with an error
}

// HandleRow notes what the scanner delivers.
func (p *publishers) HandleRow(_ context.Context, r release.Row) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delivered[r.ID] = append(p.delivered[r.ID], delivery{message: r.Message, at: time.Now()})
	return nil
}

func (p *publishers) write(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Duration)
	defer cancel()
	var writers sync.WaitGroup
	for i := range p.cfg.Writers {
		random := rand.New(rand.NewPCG(p.cfg.Seed, uint64(i)))
		writers.Go(func() {
			// The first writers begin in different ways, so that a short run has them all.
			way, rollback := []int{held, bulk, plain}[min(i, 2)], i == 2
			for ctx.Err() == nil {
				p.transaction(ctx, random, way, rollback)
				way, rollback = random.IntN(100), random.IntN(5) == 0
			}
		})
	}
	writers.Wait()
}

// Of a hundred ways to write, those from held on keep a transaction open for long,
// those from bulk on insert many rows at once, and those from brief on wait a little.
const held, bulk, brief, plain = 0, 5, 10, 30

// transaction writes once, in one of a hundred ways in which publishers write.
func (p *publishers) transaction(ctx context.Context, random *rand.Rand, way int, rollback bool) {
	rows, hold, many := 1+random.IntN(3), time.Duration(0), false
	switch {
	case way < bulk:
		hold = 10 * p.cfg.Interval
	case way < brief:
		rows, many = 20+random.IntN(280), true
	case way < plain:
		hold = time.Duration(random.IntN(int(2 * p.cfg.Interval)))
	}
	// A transaction that has begun is carried through when the run ends.
	tx, err := p.db.SQL().BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		p.refused()
		return
	}
	defer func() { _ = tx.Rollback() }()
	sent, err := p.insert(context.WithoutCancel(ctx), tx, random, rows, many)
	if err != nil {
		p.refused()
		return
	}
	select {
	case <-time.After(hold + time.Duration(random.IntN(int(p.cfg.Interval)/4))):
	case <-ctx.Done():
	}
	p.mu.Lock()
	if hold == 10*p.cfg.Interval {
		p.report.Held++
	}
	if many {
		p.report.Bulk++
	}
	if rollback {
		p.report.RolledBack += len(sent)
	}
	p.mu.Unlock()
	if rollback {
		return
	}
	p.commit(tx, sent)
}

func (p *publishers) refused() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.report.Failed++
}

func (p *publishers) commit(tx *sql.Tx, sent []release.Sent) {
	err := tx.Commit()
	p.mu.Lock()
	for _, s := range sent {
		if err != nil {
			if p.doubtful == nil {
				p.doubtful = map[uint64]bool{}
			}
			p.doubtful[s.ID] = true
			continue
		}
		p.committed[s.ID] = commit{message: s.Message, at: time.Now()}
	}
	p.mu.Unlock()
	for i, s := range sent {
		if err == nil && len(p.cleaners) > 0 {
			p.cleaners[i%len(p.cleaners)].Offer(s)
		}
	}
}

func (p *publishers) insert(ctx context.Context, tx *sql.Tx, random *rand.Rand, n int, bulk bool) ([]release.Sent, error) {
	messages := make([]string, n)
	for i := range messages {
		messages[i] = fmt.Sprintf("app%d+default+application", random.IntN(50))
	}
	if bulk {
		return p.insertMany(ctx, tx, messages)
	}
	sender := release.NewSender(p.db, nil)
	var sent []release.Sent
	for _, m := range messages {
		s, err := sender.SendTx(ctx, tx, release.Topic, m)
		if err != nil {
			return nil, err
		}
		sent = append(sent, s)
	}
	return sent, nil
}

// insertMany writes all messages with one statement, so that the database hands
// out their ids in one go.
func (p *publishers) insertMany(ctx context.Context, tx *sql.Tx, messages []string) ([]release.Sent, error) {
	args := make([]any, len(messages))
	marks := make([]string, len(messages))
	for i, m := range messages {
		args[i], marks[i] = m, fmt.Sprintf("($%d)", i+1)
	}
	if p.kind() == "mysql" {
		res, err := tx.ExecContext(ctx, "INSERT INTO `ReleaseMessage` (`Message`) VALUES (?)"+strings.Repeat(", (?)", len(messages)-1), args...)
		if err != nil {
			return nil, err
		}
		// InnoDB reserves the ids of such a statement together.
		id, err := res.LastInsertId()
		sent := make([]release.Sent, len(messages))
		for i, m := range messages {
			sent[i] = release.Sent{ID: uint64(id) + uint64(i), Message: m}
		}
		return sent, err
	}
	rows, err := tx.QueryContext(ctx, `INSERT INTO "ReleaseMessage" ("Message") VALUES `+strings.Join(marks, ", ")+` RETURNING "Id", "Message"`, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var sent []release.Sent
	for rows.Next() {
		var s release.Sent
		if err := rows.Scan(&s.ID, &s.Message); err != nil {
			return nil, err
		}
		sent = append(sent, s)
	}
	return sent, rows.Err()
}

func (p *publishers) kind() string {
	kind, _, _ := strings.Cut(string(p.cfg.DSN), ":")
	return kind
}

// naive follows the table as one would at first: whatever is above the highest
// id that was seen. What it misses shows what a run has put to the test.
func (p *publishers) naive(ctx context.Context) {
	var seen uint64
	query := `SELECT "Id" FROM "ReleaseMessage" WHERE "Id" > %d ORDER BY "Id"`
	if p.kind() == "mysql" {
		query = strings.ReplaceAll(query, `"`, "`")
	}
	for {
		seen = p.naively(ctx, fmt.Sprintf(query, seen), seen)
		select {
		case <-ctx.Done():
			return
		case <-time.After(p.cfg.Interval):
		}
	}
}

// naively reads what is above seen and gives the highest id. What an error cuts off
// is read in the next round.
func (p *publishers) naively(ctx context.Context, query string, seen uint64) uint64 {
	rows, err := p.db.SQL().QueryContext(ctx, query)
	if err != nil {
		return seen
	}
	defer rows.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for rows.Next() {
		if rows.Scan(&seen) == nil {
			p.plain[seen] = true
		}
	}
	_ = rows.Err()
	return seen
}

// drain waits until the scanner has had every chance: all committed rows are
// delivered and no gap is open, or 200 intervals have passed. Then it waits ten
// more, in which anything that comes is a mistake.
func (p *publishers) drain(ctx context.Context, scanner *release.Scanner) {
	limit := time.After(200 * p.cfg.Interval)
	tick := time.NewTicker(p.cfg.Interval)
	defer tick.Stop()
	for calm := 0; calm < 10; {
		select {
		case <-ctx.Done():
			return
		case <-limit:
			return
		case <-tick.C:
		}
		if calm > 0 || len(p.missed(nil)) == 0 && scanner.Status().GapsOpen == 0 {
			calm++
		}
	}
}

// missed are the committed rows that were not delivered. A row that a cleaner
// deleted may be missing, if a newer one of its key was delivered. present are
// the rows that are in the table; nil where that is not known.
func (p *publishers) missed(present map[uint64]bool) []uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	newest := map[string]uint64{}
	for id, d := range p.delivered {
		newest[d[0].message] = max(newest[d[0].message], id)
	}
	var missed []uint64
	for id, c := range p.committed {
		replaced := len(p.cleaners) > 0 && newest[c.message] > id && !present[id]
		if len(p.delivered[id]) == 0 && !replaced {
			missed = append(missed, id)
		}
	}
	slices.Sort(missed)
	return missed
}

func (p *publishers) judge(ctx context.Context) (PublishersReport, error) {
	rows, err := p.db.Recent(ctx, time.Unix(1, 0), 10_000_000)
	if err != nil {
		return PublishersReport{}, err
	}
	present := map[uint64]bool{}
	for _, r := range rows {
		present[r.ID] = true
	}
	r := p.report
	r.Missed = p.missed(present)
	r.Committed = len(p.committed)
	for id := range p.committed {
		if !p.plain[id] && present[id] {
			r.Naive++
		}
	}
	for _, c := range p.cleaners {
		r.Cleaned += c.Status().Deleted
	}
	for id, d := range p.delivered {
		r.Delivered += len(d)
		if len(d) > 1 {
			r.Twice = append(r.Twice, id)
		}
		c, ok := p.committed[id]
		if (!ok || c.message != d[0].message) && !p.doubtful[id] {
			r.Ghosts = append(r.Ghosts, id)
		}
		if ok {
			r.WorstLate = max(r.WorstLate, d[0].at.Sub(c.at))
		}
	}
	slices.SortFunc(r.Twice, cmp.Compare)
	slices.SortFunc(r.Ghosts, cmp.Compare)
	return r, nil
}
