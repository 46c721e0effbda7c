package cell

import (
	"math"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                   "plain",
		"\x1b[2Jgone":             "gone",
		"\x1b]0;title\x07x":       "x",
		"a\r\nb\tc":               "a  b c",
		"\u202Etxt.exe":           "txt.exe",
		"z\u200bw":                "zw",
		"\xffbad":                 "bad",
		"bell\x07":                "bell",
		"漢字":                      "漢字",
		"é":                       "é",
		"line\u2028sep":           "linesep",
		"private\ue000":           "private",
		"\x1b[31mred\x1b[0m":      "red",
		"half \x1b[31":            "half ",
		"\u009b31mC1":             "31mC1",
		"tag\U000E0041characters": "tagcharacters",
	} {
		if got := Clean(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func FuzzClean(f *testing.F) {
	f.Add("\x1b[2J\u202Ex\xff漢\x9b1m")
	f.Add("\x1b\x1b]0;\x07[A")
	f.Add("\x1b%G\x1b\\x")
	f.Fuzz(func(t *testing.T, s string) {
		got := Clean(s)
		if !utf8.ValidString(got) {
			t.Errorf("%q gives invalid UTF-8 %q", s, got)
		}
		for _, r := range got {
			if unicode.IsControl(r) || unicode.In(r, unicode.Cf) {
				t.Errorf("%q keeps %U", s, r)
			}
		}
		for w := range 8 {
			if n := ansi.StringWidth(Left(got, w)); n != w {
				t.Errorf("%q in %d columns is %d wide", got, w, n)
			}
			if n := ansi.StringWidth(Right(got, w)); n != w {
				t.Errorf("%q at the right in %d columns is %d wide", got, w, n)
			}
		}
		if a := ASCII(got); ansi.StringWidth(a) != ansi.StringWidth(got) && !strings.ContainsFunc(got, unicode.IsMark) {
			for _, r := range got { // clusters may be narrower than their runes
				if r > unicode.MaxLatin1 {
					return
				}
			}
			t.Errorf("%q is %d wide, in ASCII %d", got, ansi.StringWidth(got), ansi.StringWidth(a))
		}
	})
}

func TestNumbers(t *testing.T) {
	for n, want := range map[float64]string{0: "0", 7: "7", 999: "999", 1204: "1,204", 1234567: "1,234,567", -1204: "-1,204", 0.4: "0", 999.6: "1,000"} {
		if got := Count(n); got != want {
			t.Errorf("%v: %q, want %q", n, got, want)
		}
	}
	if Count(math.NaN()) != "-" || Count(math.Inf(1)) != "-" {
		t.Error("not a number is a number")
	}
	for n, want := range map[float64]string{0: "0", 0.01: "<0.1", 0.3: "0.3", 0.95: "1", 4.4: "4", 3100: "3,100"} {
		if got := Rate(n); got != want {
			t.Errorf("%v: %q, want %q", n, got, want)
		}
	}
	for d, want := range map[time.Duration]string{-1: "0s", 0: "0s", 59 * time.Second: "59s", 8 * time.Minute: "8m", 26 * time.Hour: "26h", 50 * time.Hour: "2d"} {
		if got := Age(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
	for d, want := range map[time.Duration]string{-1: "0 ms", 320 * time.Millisecond: "320 ms", 800 * time.Millisecond: "0.8 s", 12 * time.Second: "12 s", 4 * time.Minute: "4 min", 5 * time.Hour: "5 h", 72 * time.Hour: "3 days"} {
		if got := Span(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

func TestOver(t *testing.T) {
	lines := []string{"0123456789", "漢字漢字漢", "\x1b[31mabcdefghij\x1b[m"}
	Over(lines, []string{"[x]", "[y]", "[z]", "[below]"}, 3, 0, 10)
	for i, want := range []string{"012[x]6789", "漢 [y]漢漢", "abc[z]ghij"} {
		got := ansi.Strip(lines[i])
		if i == 1 { // a wide sign that is cut in two leaves a blank
			if ansi.StringWidth(got) > 10 || !strings.Contains(got, "[y]") {
				t.Errorf("got %q", got)
			}
			continue
		}
		if got != want {
			t.Errorf("line %d: %q, want %q", i, got, want)
		}
	}
}

func TestASCII(t *testing.T) {
	if got := ASCII("● running → 漢 ▓░ é"); got != "* running > ?? #. ?" {
		t.Errorf("got %q", got)
	}
}
