// Package feed is the timeline of a context: release messages, toggle changes, what listeners and instances do, and
// what the scanner found, each with its merge and delay status.
//
// Everything goes through one [change.Center]. Rows of the release table come from a scanner, whose listener a
// [Feed] is ([Feed.HandleRow], [Feed.HandleEvent]); toggles, listeners, instances and the parts of the backend are
// found by comparing successive snapshots of the fleet ([Feed.Run], or [Feed.Compare] for one). What the center
// delivers, suppresses or finds stale becomes a [Line], numbered from 1, in a ring of 10,000; the oldest are dropped
// first, and counted.
//
//	f, err := feed.New(feed.Config{Snapshot: fleet.Snapshot, Scanner: scanner.Status})
//	go f.LoadPast(ctx, feed.Past{Releases: db, History: store, Apps: keys, Peers: peers})
//	go f.Run(ctx)
//	lines, dropped := f.Lines(after, 1000)   // what is new; never blocks
//	waiting := f.Pending()                   // what waits in the center, with its remaining time
//	steps := f.Steps("order+default+application")
//
// # What is merged
//
// Fifty release messages of one key in one transaction are one line ×50 with the highest id. A toggle that is
// changed and changed back within the window is one suppressed line; so is an instance that is lost and back. What
// an instance says when it is seen for the first time was there before: it makes no line.
//
// Lines never change. A line of a release message waits up to 0.3 s for what its listeners (Config.Listeners) say of
// it; a toggle change that is not applied everywhere when its line is made has a second line, "applied", when it is.
//
// # The past
//
// [Feed.LoadPast] fills a new feed from the release table, the history of the toggle files, and the lines of other
// processes, each change once. [Feed.Since] is what this process hands to others. [Encode] and [Decode] are the form
// of a line on the command line and between processes.
package feed
