// Package release reads and writes Apollo's release messages: the rows of the
// table ReleaseMessage, by which one config service tells the others that a
// namespace was published. It works on MySQL, MariaDB, PostgreSQL and SQLite
// with Apollo's own table.
//
// A [Scanner] hands every row to its listeners exactly once. Ids are not enough
// for that: they are given out before the transaction commits, so a row may
// become visible after rows with higher ids, and a missing id may be one that
// was rolled back. The scanner keeps missing ids as open gaps, reads them
// again on each tick, and closes a gap only when the database proves that no
// insert is left that could fill it:
//
//   - MySQL and MariaDB: a share-lock read of the gap succeeds without waiting;
//   - PostgreSQL: none of the transactions is left that held the table's insert
//     lock when the gap was seen;
//   - SQLite: there is one writer at a time, so ids become visible in order;
//   - a replica, or a server that shows no locks: the gap is given up after ten
//     minutes, and shown as unproven.
//
// The right to SELECT from the table is enough for all of them.
//
// It also notices when the table is truncated or restored from a backup (a new
// epoch), goes on after errors of the database, and can keep its position in a
// file. See [ScannerConfig].
//
//	db, err := release.Open(ctx, "mysql://belay:secret@db:3306/ApolloConfigDB")
//	scanner, err := release.NewScanner(db, release.ScannerConfig{Listeners: []release.Listener{feed}})
//	err = scanner.Run(ctx)
//
// [Latest] keeps the newest row of each key and lets callers wait for the next
// one. [Sender] writes messages, inside the caller's transaction where there is
// one, and [Cleaner] deletes the rows that newer ones of the same key have replaced.
//
// # Promises and their limits
//
// Within a process each row is delivered once. Over a crash a row is delivered
// at least once: those that may come again are marked [Row.Replay]. A row that
// the cleaner deletes before it was read is not delivered, but a newer one of
// its key is. Not seen are: a truncation after which the same ids come back
// with the same messages and the same stamps, which have whole seconds on MySQL;
// there also a newest row that was deleted and written again by hand, which looks
// like an update; on
// PostgreSQL an id that a client took with nextval before its transaction
// inserts; on SQLite an explicit id below the newest. A stamp without a time zone
// on PostgreSQL is taken for UTC.
package release
