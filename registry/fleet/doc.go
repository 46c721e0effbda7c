// Package fleet joins everything that is known of the listeners of a context into
// one [Snapshot]: what the toggle files want, what the instances report over
// presence, and what the broker shows of the queues.
//
// A [Fleet] has one owner goroutine, Run. Everybody else reads snapshots, which are
// immutable and never block:
//
//	f := fleet.New(fleet.Config{Context: "prod", Store: store, Apps: apps, Brokers: brokers})
//	go f.Run(ctx)
//	for _, row := range f.Snapshot().Rows { … }
//
// The state of a row follows from wanted, reported and broker by a fixed list in
// which the first match wins; see [State]. A number carries its age and its source. A
// source that was not read for three intervals makes the rows that rest on it stale,
// with since when; what was known stays shown.
package fleet
