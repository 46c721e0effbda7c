package toggle

import (
	"fmt"
	"strings"
	"testing"
)

// bigFile makes a file of about two megabytes.
func bigFile(format Format) []byte {
	const size = 2 << 20
	var b strings.Builder
	if format == YAML {
		b.WriteString("rabbitmq:\n  toggle:\n    consumers:\n")
	}
	for i := 0; b.Len() < size; i++ {
		if format == YAML {
			fmt.Fprintf(&b, "      - listenerId: Consumer%d # one of many\n        enable: true\n        concurrentConsumers: 2\n        maxConcurrentConsumers: 8\n        reason: \"vendor maintenance\"\n\n", i)
			continue
		}
		fmt.Fprintf(&b, "# one of many\nrabbitmq.toggle.consumers[%d].listenerId=Consumer%d\nrabbitmq.toggle.consumers[%[1]d].enable=true\n", i, i)
		fmt.Fprintf(&b, "rabbitmq.toggle.consumers[%d].concurrentConsumers=2\nrabbitmq.toggle.consumers[%[1]d].maxConcurrentConsumers=8\n", i)
		fmt.Fprintf(&b, "rabbitmq.toggle.consumers[%d].reason=vendor \\\n    maintenance\n\n", i)
	}
	return []byte(b.String())
}

func BenchmarkParse(b *testing.B) {
	for _, format := range []Format{Properties, YAML} {
		b.Run(format.String(), func(b *testing.B) {
			text := bigFile(format)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if f := Parse(format, text); f.Fatal != nil || len(f.Entries) < 1000 {
					b.Fatal("not read")
				}
			}
		})
	}
}

func BenchmarkEdit(b *testing.B) {
	in := Intent{Op: Set, ListenerID: "Consumer500", Enable: To(false), Reason: To("late"), UpdatedBy: To("oncall"),
		UpdatedAt: To("2026-01-02T03:04:05Z"), ResumeAt: To("2026-01-02T05:00:00Z"), PauseAt: Null[string]()}
	for _, format := range []Format{Properties, YAML} {
		b.Run(format.String(), func(b *testing.B) {
			text := bigFile(format)
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, err := Edit(format, text, false, in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkUnified(b *testing.B) {
	text := bigFile(Properties)
	after, err := Edit(Properties, text, false, Intent{Op: Set, ListenerID: "Consumer500", Enable: To(false)})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if Unified(text, after, 3) == "" {
			b.Fatal("no difference")
		}
	}
}
