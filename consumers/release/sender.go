package release

import (
	"context"
	"database/sql"
	"fmt"
)

// Sender writes release messages. Its methods may be called by any number of
// goroutines.
type Sender struct {
	db      *DB
	cleaner *Cleaner
}

// NewSender makes a sender into db's table. cleaner, which may be nil, is
// offered what was sent.
func NewSender(db *DB, cleaner *Cleaner) *Sender { return &Sender{db: db, cleaner: cleaner} }

// Sent is a message that was written: its row's id, where the transaction
// commits.
type Sent struct {
	ID      uint64
	Message string
}

// Send writes a message in a transaction of its own and offers it to the
// cleaner. An error wraps [ErrTopic] where topic is not [Topic].
//
// After an error of the database the row may have been written all the same,
// as after every lost answer to a commit. Sending again then makes a second row
// of the same key, which is harmless: readers merge by key.
func (s *Sender) Send(ctx context.Context, topic, message string) (Sent, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	sent, err := s.send(ctx, s.db.pool, topic, message)
	if err == nil {
		s.Committed(sent)
	}
	return sent, err
}

// SendTx writes a message inside the caller's transaction, which must be one of
// the same database. It takes no longer than ctx allows. After its commit the caller hands the result to
// [Sender.Committed].
func (s *Sender) SendTx(ctx context.Context, tx *sql.Tx, topic, message string) (Sent, error) {
	return s.send(ctx, tx, topic, message)
}

// Committed offers messages to the cleaner. It must not be called before their
// transaction has committed: older rows would be deleted although the newer
// one may yet be rolled back.
func (s *Sender) Committed(sent ...Sent) {
	if s.cleaner == nil {
		return
	}
	for _, m := range sent {
		s.cleaner.Offer(m)
	}
}

func (s *Sender) send(ctx context.Context, x execer, topic, message string) (Sent, error) {
	if topic != Topic {
		return Sent{}, fmt.Errorf("%w %q: only %q can be sent", ErrTopic, topic, Topic)
	}
	id, err := s.db.engine.insert(ctx, s.db.q, x, message)
	if err != nil {
		return Sent{}, fmt.Errorf("release: send %.200q to %s: %w", message, s.db, err)
	}
	return Sent{ID: id, Message: message}, nil
}
