package observe

import (
	"fmt"
	"log/slog"
)

// Secret is a text that holds a password. Printing, logging or marshalling it
// gives ***.
type Secret string

// String hides the text.
func (Secret) String() string { return "***" }

// Format hides the text whatever the verb is.
func (Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, "***") }

// LogValue hides the text from slog.
func (Secret) LogValue() slog.Value { return slog.StringValue("***") }

// MarshalText hides the text from encoders.
func (Secret) MarshalText() ([]byte, error) { return []byte("***"), nil }
