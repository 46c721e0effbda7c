package release

import (
	"testing"
	"time"
)

func TestParseTime(t *testing.T) {
	for s, want := range map[string]string{
		"2026-03-04 05:06:07":       "2026-03-04T05:06:07Z",
		"2026-03-04 05:06:07.5":     "2026-03-04T05:06:07.5Z",
		"2026-03-04 05:06:07.123":   "2026-03-04T05:06:07.123Z",
		"2026-03-31 05:06:07.123":   "2026-03-31T05:06:07.123Z",
		"2026-03-04T05:06:07+08:00": "2026-03-03T21:06:07Z",
		"2026-03-04 05:06:07+00:00": "2026-03-04T05:06:07Z",
		"2026-02-30 05:06:07":       "",
		"2026-13-04 05:06:07":       "",
		"2026-03-04":                "",
		"1772600767":                "",
		"":                          "",
	} {
		got, err := parseTime(s)
		if want == "" {
			if err == nil {
				t.Errorf("%q is read as %s", s, got)
			}
			continue
		}
		if err != nil || got.Format(time.RFC3339Nano) != want || got.Location() != time.UTC {
			t.Errorf("%q: %s, %v; want %s", s, got.Format(time.RFC3339Nano), err, want)
		}
	}
}

// The quick reader agrees with the package time wherever it reads at all.
func FuzzPlainTime(f *testing.F) {
	for _, s := range []string{"2026-03-04 05:06:07", "2026-03-04 05:06:07.123456789", "0000-01-01 00:00:00.", "2026-03-04 05:06:60", "2026-03-04 05:06:0-"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := plainTime(s)
		if !ok {
			return
		}
		if want, err := time.Parse("2006-01-02 15:04:05", s); err != nil || !want.Equal(got) {
			t.Fatalf("%q: %s, want %s, %v", s, got, want, err)
		}
	})
}

func TestPositions(t *testing.T) {
	ordered := []Position{{}, {0, 1}, {1, 0}, {1, 5}, {2, 1}, {2, 4}}
	for i, p := range ordered {
		for j, q := range ordered {
			if p.After(q) != (i > j) {
				t.Errorf("%v after %v: %t", p, q, p.After(q))
			}
		}
	}
}
