// Package toggle is the toggle file: parse, lossless edit, diff.
package toggle

// Change is one difference between two files, by listener and field
// ("enable", "min", "max", "reason", …). An absent value is "".
type Change struct {
	ListenerID    string
	Field         string
	Before, After string
}

// Code names a fault; see the constants.
type Code string

// Refusal is why an edit must not be written.
type Refusal struct {
	Code Code
	Line int // in the input; 0 when the fault comes from the intent
	Text string
}

func (r *Refusal) Error() string { return r.Text }
