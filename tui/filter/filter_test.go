package filter

import (
	"fmt"
	"strings"
	"testing"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		filter string
		fields []string
		want   bool
	}{
		{"", []string{"x"}, true},
		{"   ", []string{"x"}, true},
		{"!", []string{"x"}, true},
		{"refund", []string{"settle", "RefundConsumer"}, true},
		{"REFUND", []string{"RefundConsumer"}, true},
		{"refund", []string{"settle"}, false},
		{"!refund", []string{"settle", "RefundConsumer"}, false},
		{"!refund", []string{"settle"}, true},
		{"~rfcn", []string{"RefundConsumer"}, true},
		{"~ncfr", []string{"RefundConsumer"}, false},
		{"!~rfcn", []string{"RefundConsumer"}, false},
		{"vendor maint", []string{"oncall: vendor maintenance"}, true},
		{"ä", []string{"KÄSE"}, true},
		{"漢", []string{"x漢y"}, true},
		{"longer than", []string{"short"}, false},
	} {
		if got := Parse(c.filter).Match(c.fields...); got != c.want {
			t.Errorf("%q on %q: %v", c.filter, c.fields, got)
		}
	}
}

func FuzzContainsFold(f *testing.F) {
	f.Add("RefundConsumer", "fundc")
	f.Add("KÄSE", "ä")
	f.Fuzz(func(t *testing.T, s, sub string) {
		lower := strings.ToLower(sub)
		if got, want := containsFold(s, lower), strings.Contains(strings.ToLower(s), lower); got != want {
			t.Errorf("%q in %q: %v, want %v", lower, s, got, want)
		}
	})
}

func ExampleFilter_Match() {
	rows := []string{"RefundConsumer", "SettleConsumer", "PayoutConsumer"}
	for _, text := range []string{"settle", "!settle", "~pyt"} {
		f := Parse(text)
		for _, r := range rows {
			if f.Match(r) {
				fmt.Println(text, "shows", r)
			}
		}
	}
	// Output:
	// settle shows SettleConsumer
	// !settle shows RefundConsumer
	// !settle shows PayoutConsumer
	// ~pyt shows PayoutConsumer
}
