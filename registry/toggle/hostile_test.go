package toggle

import (
	"strings"
	"testing"
	"time"
)

// TestHostile reads inputs that make careless readers slow, deep or large. A
// quadratic step takes a hundred times as long as all of them together.
func TestHostile(t *testing.T) {
	const size = 1 << 17
	parts := []string{"[", "{", "]", "- ", "? ", ": ", "\n", "\r", " ", "\t", "a: ", "a:\n", "a: {", "&a ", "*a ", "'", "\"", "\\", "\\\n", "\\u0041", "[0].",
		"a: &a [*a]\n", "!", "!!str ", "|\n", "> ", "#", "%\n", "---\n", "...\n", "- [", "<<: ", "a\n", "1:1", "0x1", ",", "\"\\\n", "- - ", "-\n", "a: |\n\n",
		"rabbitmq.toggle.consumers[0].enable=true\n", "rabbitmq.toggle.consumers[0].enable: true\n", "rabbitmq.toggle.consumers[1].a=\n", ".", "a.", "\xff", "\u2028", "${"}
	for _, format := range []Format{Properties, YAML} {
		for _, part := range parts {
			for _, head := range []string{"", "a: ", "rabbitmq:\n  toggle:\n    consumers:\n      - "} {
				text := []byte(head + strings.Repeat(part, size/len(part)))
				began := time.Now()
				Parse(format, text)
				if took := time.Since(began); took > 20*time.Second {
					t.Errorf("%s: %q and then %q many times took %s", format, head, part, took)
				}
			}
		}
	}
}

// TestAliasesMultiply reads a file whose aliases stand for very many keys.
func TestAliasesMultiply(t *testing.T) {
	var b strings.Builder
	b.WriteString("a0: &a0 {x: 1, y: 2, z: 3}\n")
	for i := 1; i < 30; i++ {
		before := string(rune('0'+(i-1)/10)) + string(rune('0'+(i-1)%10))
		name := string(rune('0'+i/10)) + string(rune('0'+i%10))
		if i == 1 {
			before = "0"
		}
		b.WriteString("a" + name + ": &a" + name + " [*a" + before + ", *a" + before + ", *a" + before + "]\n")
	}
	f := Parse(YAML, []byte(b.String()))
	if f.Fatal == nil || f.Fatal.Code != YAMLSyntax {
		t.Errorf("got %v, want a fatal problem", f.Fatal)
	}
	merges := "a0: &a0 {x0: 1}\n"
	for i := 1; i < 40; i++ {
		merges += strings.NewReplacer("N", string(rune('A'+i)), "M", string(rune('A'+i-1))).Replace("aN: &aN {<<: [*aM, *aM, *aM], xN: 1}\n")
	}
	merges = strings.ReplaceAll(merges, "a0: &a0", "aA: &aA")
	if f := Parse(YAML, []byte(merges)); f.Fatal == nil {
		t.Error("merges that multiply were read")
	}
}
