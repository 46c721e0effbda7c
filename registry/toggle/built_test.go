package toggle

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// builder makes odd but well-formed files of parts, which byte mutations hardly
// find.
type builder struct {
	*rand.Rand
}

func (b builder) pick(from ...string) string { return from[b.IntN(len(from))] }

func (b builder) chance(percent int) bool { return b.IntN(100) < percent }

var builtKeys = [...][]string{
	{"listenerId", "listener-id", "listener_id", "LISTENERID", "ListenerId", "LISTENER-ID", "LISTENER_ID", "listenerid", "Listener.Id"},
	{"enable", "ENABLE", "Enable", "enable."},
	{"concurrentConsumers", "concurrent-consumers", "concurrent_consumers", "CONCURRENTCONSUMERS"},
	{"maxConcurrentConsumers", "max-concurrent-consumers", "MAX_CONCURRENT_CONSUMERS"},
	{"reason", "Reason"},
	{"updatedBy", "updated-by"},
	{"updatedAt", "updated_at"},
	{"resumeAt", "resume-at"},
	{"pauseAt", "pause-at"},
	{"queue"},
	{"prefetch", "labels"},
}

var builtValues = [...][]string{
	{"SettleConsumer", "RefundConsumer", "PayoutConsumer", "L3"},
	{"true", "false", "on", "NO", "", "off "},
	{"1", "2", "0x2", "03", ""},
	{"4", "8", "#A", "010", ""},
	{"late", "vendor", "", "a=b", "x: y", "it's", "供应商", "C", "- 1", "#no"},
	{"oncall", "me"},
	{"2026-01-02T03:04:05Z", ""},
	{"2026-01-02T05:00:00Z", "tomorrow"},
	{"2026-01-02T04:00:00+08:00", ""},
	{"settle", "refund"},
	{"5", "x"},
}

// properties builds a properties file.
func (b builder) properties() string {
	eol := b.pick("\n", "\n", "\r\n", "\r")
	var out strings.Builder
	if b.chance(5) {
		out.WriteString("\ufeff")
	}
	entries := b.IntN(4)
	path := b.pick("rabbitmq.toggle.consumers", "rabbitmq.toggle.consumers", "RABBITMQ.toggle.Consumers", "rabbitmq.toggle\\\n  .consumers")
	dotted := b.chance(15)
	for range 3 + b.IntN(5*entries+1) {
		switch b.IntN(8) {
		case 0:
			out.WriteString(b.pick("# note", "! x\\", "", "  ", "other.key=1", "\\", "  # x", "a\\") + eol)
			continue
		case 1:
			if b.chance(10) {
				eol = b.pick("\n", "\r\n")
			}
		}
		if entries == 0 {
			continue
		}
		i, f := b.IntN(entries), b.IntN(len(builtKeys))
		out.WriteString(b.line(path, dotted, i, f, eol))
	}
	for i := range entries {
		if b.chance(85) {
			out.WriteString(b.line(path, dotted, i, 0, eol))
		}
	}
	text := out.String()
	if b.chance(25) {
		text = strings.TrimRight(text, "\r\n")
	}
	return text
}

func (b builder) line(path string, dotted bool, index, f int, eol string) string {
	at := fmt.Sprintf("[%d].", index)
	if dotted {
		at = fmt.Sprintf(".%d.", index)
	}
	value := b.pick(builtValues[f]...)
	if b.chance(15) && len(value) > 2 {
		value = value[:1] + "\\" + eol + b.pick("", "   ") + value[1:]
	}
	if b.chance(3) {
		value += "\\" + eol // continued by a blank line
	}
	separator := b.pick("=", "=", " = ", ":", " ", "\t", " : ", "= ")
	if value == "" {
		separator = b.pick("", "=", " ")
	}
	return b.pick("", "", "  ", "\t") + path + at + b.pick(builtKeys[f]...) + separator + value + eol
}

// yaml builds a YAML file.
func (b builder) yaml() string {
	eol := b.pick("\n", "\n", "\r\n")
	step := b.pick("  ", "    ")
	var out strings.Builder
	line := func(parts ...string) {
		out.WriteString(strings.Join(parts, ""))
		if b.chance(10) {
			out.WriteString(b.pick(" # note", "   # x: y"))
		}
		out.WriteString(eol)
		if b.chance(8) {
			out.WriteString(b.pick("", "# between", step+"# indented") + eol)
		}
	}
	defaults := b.chance(25)
	if defaults {
		line("defaults: &d")
		line(step, "enable: ", b.pick("true", "false"))
		line(step, "concurrentConsumers: 2")
	}
	before := out.Len()
	switch b.IntN(10) {
	case 0:
		line("spring: {a: 1}")
	case 1:
		line(b.pick("rabbitmq:", "rabbitmq: ~", "rabbitmq: {}", "rabbitmq: {toggle: {}}", "rabbitmq: {host: x}"))
		return out.String()
	case 2:
		line("rabbitmq:")
		line(step, b.pick("toggle:", "toggle: {}", "toggle: {consumers: }", "host: x"))
		return out.String()
	case 3:
		line("rabbitmq:")
		line(step, "toggle:")
		line(step, step, b.pick("consumers:", "consumers: []", "consumers: ~", "consumers: {}", "consumers: null # c"))
		return out.String()
	case 4:
		b.flat(line)
		return b.end(out.String(), eol)
	}
	_ = before
	line("rabbitmq:")
	line(step, "toggle:")
	switch b.IntN(4) {
	case 0:
		b.flowList(line, step)
	case 1:
		line(step, step, "consumers:")
		for i := range 1 + b.IntN(3) {
			line(step, step, step, fmt.Sprint(i), ":")
			b.members(line, step+step+step+step, step+step+step+step, defaults)
		}
	default:
		line(step, step, "consumers:")
		indent := step + step + b.pick("", step)
		for range 1 + b.IntN(3) {
			dash := b.pick("- ", "-   ", "- ")
			switch {
			case b.chance(20):
				line(indent, "- ", b.flowEntry())
			case b.chance(10):
				line(indent, "-")
				b.members(line, indent+"  ", indent+"  ", defaults)
			default:
				b.members(line, indent+dash, indent+strings.Repeat(" ", len(dash)), defaults)
			}
		}
	}
	if b.chance(30) {
		line("spring:")
		line(step, "x: 1")
	}
	return b.end(out.String(), eol)
}

func (b builder) end(text, eol string) string {
	if b.chance(25) {
		return strings.TrimRight(text, "\r\n")
	}
	if b.chance(10) {
		return text + eol + "# end" + eol
	}
	return text
}

// fields returns the fields of one entry in any order, each once.
func (b builder) fields() []int {
	var list []int
	for _, f := range b.Perm(len(builtKeys)) {
		if f == 0 || b.chance(35) {
			list = append(list, f)
		}
	}
	return list
}

func (b builder) scalar(f int, flow bool) string {
	v := b.pick(builtValues[f]...)
	switch {
	case v == "" && b.chance(50):
		return ""
	case !plainSafe(v, flow) && f > 3 || b.chance(15):
		if b.chance(50) {
			return "'" + strings.ReplaceAll(v, "'", "''") + "'"
		}
		return quoteYAML(v)
	case v == "#A" || v == "":
		return "~"
	}
	return strings.TrimSpace(v)
}

func (b builder) members(line func(...string), first, rest string, defaults bool) {
	indent := first
	if defaults && b.chance(40) {
		line(indent, "<<: *d")
		indent = rest
	}
	for _, f := range b.fields() {
		key := b.pick(builtKeys[f]...)
		switch {
		case f == 4 && b.chance(25):
			line(indent, key, ": ", b.pick("|", ">-", "|+", ">"))
			line(rest, "  one")
			line(rest, "  two")
		case f == 4 && b.chance(10):
			line(indent, key, ": one")
			line(rest, "  two")
		case f == 10 && b.chance(40):
			line(indent, key, ":")
			line(rest, b.pick("  ", " ", "  "), "- a")
		default:
			line(strings.TrimRight(indent+key+": "+b.scalar(f, false), " "))
		}
		indent = rest
	}
}

func (b builder) flowEntry() string {
	var parts []string
	for _, f := range b.fields() {
		parts = append(parts, b.pick(builtKeys[f]...)+": "+b.scalar(f, true))
	}
	return "{" + b.pick("", " ") + strings.Join(parts, b.pick(", ", " , ")) + b.pick("}", " }", ",}")
}

func (b builder) flowList(line func(...string), step string) {
	line(step, step, "consumers: [")
	n := 1 + b.IntN(3)
	for i := range n {
		comma := ","
		if i == n-1 && b.chance(70) {
			comma = ""
		}
		line(step, step, step, b.flowEntry(), comma)
	}
	line(step, step, "]")
}

func (b builder) flat(line func(...string)) {
	n := 1 + b.IntN(3)
	for i := range n {
		for _, f := range b.fields() {
			line(strings.TrimRight(fmt.Sprintf("rabbitmq.toggle.consumers[%d].%s: %s", i, b.pick(builtKeys[f]...), b.scalar(f, false)), " "))
		}
	}
}

// FuzzEditBuilt is [FuzzEdit] on files that are built of parts.
func FuzzEditBuilt(f *testing.F) {
	for seed := range uint64(800) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		b := builder{rand.New(rand.NewPCG(seed, 1))}
		yaml := b.chance(50)
		var text string
		if yaml {
			text = b.yaml()
		} else {
			text = b.properties()
		}
		for range 3 {
			if yaml && !strings.ContainsAny(text, "|>") {
				checkComments(t, text, b.Uint32(), b.pick(builtValues[0]...))
			}
			checkEdit(t, yaml, []byte(text), b.Uint32(), b.pick(builtValues[0]...), b.pick("late", "", " x ", "a: b", "[x]", "yes", "C:\\u"))
		}
	})
}

// checkComments makes one edit of a YAML file without block scalars, where each
// line that begins with a # is a comment, and checks that all of them stay.
func checkComments(t *testing.T, text string, bits uint32, listener string) {
	t.Helper()
	got, err := Edit(YAML, []byte(text), true, fuzzIntent(bits, listener, "late"))
	if err != nil {
		return
	}
	list := func(text string) (found []string) {
		for _, line := range strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
			if strings.HasPrefix(strings.TrimSpace(line), "#") {
				found = append(found, line)
			}
		}
		return found
	}
	if a, b := list(text), list(string(got)); !slices.Equal(a, b) {
		t.Fatalf("comments %q became %q\n%s\n---\n%s", a, b, text, got)
	}
}
