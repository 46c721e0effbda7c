package release

import (
	"fmt"
	"strconv"
	"time"
)

// Row is one row of the table, as it is handed to listeners. It is a value;
// keeping it is safe.
type Row struct {
	// ChangedAt is the row's DataChange_LastTime, in UTC. MySQL's and MariaDB's
	// stamps have whole seconds.
	ChangedAt time.Time
	// Database is [DB.Name].
	Database string
	// Epoch counts the lives of the table from 1: a table that was truncated or
	// restored from a backup begins a new one, and its ids begin anew.
	Epoch int
	// History marks a row that was there before the scanner began.
	History bool
	// ID is the row's id, 1 or more.
	ID uint64
	// Lag is the time from ChangedAt to the hand-over, both by the database's
	// clock. It is negative where that clock was set back: see Skewed.
	Lag time.Duration
	// Late marks a row that became visible after a row with a higher id.
	Late bool
	// Message is the exact content of the column, usually
	// appId+cluster+namespace: see [ParseKey]. Two messages that differ in case
	// are two keys, whatever the database's collation says.
	Message string
	// Replay marks a row that may have been handed over before: by a process
	// that ended before it wrote its checkpoint, or, in a new epoch, so long ago
	// that it is no longer remembered.
	Replay bool
	// Skewed says that Lag is negative.
	Skewed bool
}

// Position is where the row stands.
func (r Row) Position() Position { return Position{Epoch: r.Epoch, ID: r.ID} }

// Position orders rows over the lives of a table. The zero Position is before
// every row.
type Position struct {
	Epoch int    `json:"epoch"`
	ID    uint64 `json:"id"`
}

// After says whether p comes after q.
func (p Position) After(q Position) bool {
	if p.Epoch != q.Epoch {
		return p.Epoch > q.Epoch
	}
	return p.ID > q.ID
}

// asID turns what a driver returns for an id into one.
func asID(v any) (uint64, error) {
	switch v := v.(type) {
	case int64:
		return uint64(max(v, 0)), nil
	case uint64:
		return v, nil
	case uint32:
		return uint64(v), nil
	case int32:
		return uint64(max(v, 0)), nil
	case []byte:
		return strconv.ParseUint(string(v), 10, 64)
	case string:
		return strconv.ParseUint(v, 10, 64)
	}
	return 0, fmt.Errorf("the column Id has the type %T; want an integer", v)
}

// asTime turns what a driver returns for a time stamp into one. SQLite keeps
// stamps as text in UTC.
func asTime(v any) (time.Time, error) {
	switch v := v.(type) {
	case time.Time:
		return v.UTC(), nil
	case []byte:
		return parseTime(string(v))
	case string:
		return parseTime(v)
	case nil:
		return time.Time{}, nil
	}
	return time.Time{}, fmt.Errorf("the column DataChange_LastTime has the type %T; want a time stamp", v)
}

// parseTime reads what SQLite's date functions write, which is on the path of
// every row, and else what people write.
func parseTime(s string) (time.Time, error) {
	if t, ok := plainTime(s); ok {
		return t, nil
	}
	for _, layout := range []string{"2006-01-02 15:04:05", "2006-01-02T15:04:05Z07:00", "2006-01-02 15:04:05Z07:00"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("the column DataChange_LastTime holds %.40q; want a time stamp", s)
}

// plainTime reads "2006-01-02 15:04:05.000", with any number of decimals or none.
func plainTime(s string) (time.Time, bool) {
	const layout = "2006-01-02 15:04:05"
	if len(s) < len(layout) || s[4] != '-' || s[7] != '-' || s[10] != ' ' || s[13] != ':' || s[16] != ':' {
		return time.Time{}, false
	}
	ok := true
	number := func(digits string) (n int) {
		for i := range len(digits) {
			d := digits[i] - '0'
			ok = ok && d <= 9
			n = 10*n + int(d)
		}
		return n
	}
	year, month, day := number(s[:4]), number(s[5:7]), number(s[8:10])
	hour, minute, second := number(s[11:13]), number(s[14:16]), number(s[17:19])
	nanos := 0
	if rest := s[len(layout):]; rest != "" {
		if rest[0] != '.' || len(rest) < 2 || len(rest) > 10 {
			return time.Time{}, false
		}
		nanos = number(rest[1:])
		for range 10 - len(rest) {
			nanos *= 10
		}
	}
	// A day that the month has not is for time.Parse to refuse.
	ok = ok && month >= 1 && month <= 12 && day >= 1 && day <= 28 && hour < 24 && minute < 60 && second < 60
	return time.Date(year, time.Month(month), day, hour, minute, second, nanos, time.UTC), ok
}
