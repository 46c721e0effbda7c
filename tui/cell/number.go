package cell

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Count returns n rounded, with thousands separated: "1,204".
func Count(n float64) string {
	if math.IsNaN(n) || math.IsInf(n, 0) {
		return "-"
	}
	s := strconv.FormatInt(int64(math.Round(n)), 10)
	neg := strings.HasPrefix(s, "-")
	s = strings.TrimPrefix(s, "-")
	if len(s) > 3 {
		var b strings.Builder
		for i := range len(s) {
			if i > 0 && (len(s)-i)%3 == 0 {
				b.WriteByte(',')
			}
			b.WriteByte(s[i])
		}
		s = b.String()
	}
	if neg {
		return "-" + s
	}
	return s
}

// Rate returns a rate: whole numbers from 1 up, one digit below.
func Rate(n float64) string {
	if n > 0 && n < 0.95 {
		if n < 0.05 {
			return "<0.1"
		}
		return strconv.FormatFloat(n, 'f', 1, 64)
	}
	return Count(n)
}

// Age returns a length of time in one unit: "4s", "8m", "3h", "2d".
func Age(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Minute:
		return strconv.Itoa(int(d/time.Second)) + "s"
	case d < time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + "m"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d/time.Hour)) + "h"
	}
	return strconv.Itoa(int(d/(24*time.Hour))) + "d"
}

// Span returns a measured length of time with its unit: "320 ms", "0.8 s", "12 s", "4 min".
func Span(d time.Duration) string {
	switch {
	case d < 0:
		return "0 ms"
	case d < 600*time.Millisecond:
		return strconv.Itoa(int(d.Round(time.Millisecond)/time.Millisecond)) + " ms"
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 2*time.Minute:
		return strconv.Itoa(int(d/time.Second)) + " s"
	case d < 2*time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + " min"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d/time.Hour)) + " h"
	}
	return strconv.Itoa(int(d/(24*time.Hour))) + " days"
}

// bars are the eighths of a block, for [Spark].
var bars = []rune("▁▂▃▄▅▆▇█")

// Spark draws values, oldest first, as one line of w columns; each column shows
// the highest value of its share. NaN is no value and stays blank.
func Spark(values []float64, w int, top float64) string {
	if w <= 0 || len(values) == 0 {
		return Blank(w)
	}
	var b strings.Builder
	for i := range w {
		lo, hi := i*len(values)/w, (i+1)*len(values)/w
		if hi <= lo {
			hi = lo + 1
		}
		v := math.NaN()
		for _, x := range values[lo:min(hi, len(values))] {
			if !math.IsNaN(x) && (math.IsNaN(v) || x > v) {
				v = x
			}
		}
		switch {
		case math.IsNaN(v):
			b.WriteByte(' ')
		case top <= 0:
			b.WriteRune(bars[0])
		default:
			b.WriteRune(bars[min(len(bars)-1, max(0, int(v/top*float64(len(bars)-1)+0.5)))])
		}
	}
	return b.String()
}
