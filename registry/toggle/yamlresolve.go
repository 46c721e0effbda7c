package toggle

import (
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
)

// The implicit types of YAML 1.1 as SnakeYAML knows them, without timestamps.
var (
	yamlBool  = regexp.MustCompile(`^(?:yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)$`)
	yamlInt   = regexp.MustCompile(`^(?:[-+]?0b_*[0-1][0-1_]*|[-+]?0_*[0-7][0-7_]*|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x_*[0-9a-fA-F][0-9a-fA-F_]*|[-+]?[1-9][0-9_]*(?::[0-5]?[0-9])+)$`)
	yamlFloat = regexp.MustCompile(`^(?:[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+|\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$`)
)

const yamlTags = "tag:yaml.org,2002:"

// mergeKey says whether a key is the merge key.
func mergeKey(n *node) bool {
	n = n.resolve()
	return n.kind == nodeScalar && (n.tag == yamlTags+"merge" || n.tag == "" && n.style == 0 && n.text == "<<")
}

// scalarValue reads a scalar. It reports false for a tag that the text does not
// fit, or that Spring's loader does not know.
func scalarValue(n *node) (value, bool) {
	text := validText(n.text)
	plain := n.style == 0
	tag := strings.TrimPrefix(n.tag, yamlTags)
	switch {
	case n.tag == "" && plain:
		return plainValue(text), true
	case n.tag == "", n.tag == "!", tag == "str", tag == "binary", tag == "timestamp":
		return textValue(text), true
	}
	var v value
	switch tag {
	case "null":
		return value{kind: kindNull, written: text}, true
	case "bool":
		v = boolValue(text)
	case "int":
		v = intValue(text)
	case "float":
		if v = floatValue(text); v.kind != kindFloat {
			v = intValue(text)
			v = value{kind: kindFloat, written: text, float: float64(v.int), text: javaDouble(float64(v.int))}
		}
	default:
		return value{}, false
	}
	return v, v.kind != kindText
}

// plainValue finds the type of a plain scalar.
func plainValue(text string) value {
	if text == "" {
		return value{kind: kindNull}
	}
	switch text[0] {
	case '~', 'n', 'N':
		if text == "~" || text == "null" || text == "Null" || text == "NULL" {
			return value{kind: kindNull, written: text}
		}
	case '-', '+', '.', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		if v := intValue(text); v.kind == kindInt {
			return v
		}
		return floatValue(text)
	}
	return boolValue(text)
}

func boolValue(text string) value {
	if len(text) > 5 || !yamlBool.MatchString(text) {
		return textValue(text)
	}
	switch strings.ToLower(text) {
	case "yes", "true", "on":
		return value{kind: kindBool, bool: true, text: "true", written: text}
	}
	return value{kind: kindBool, text: "false", written: text}
}

func intValue(text string) value {
	if !yamlInt.MatchString(text) {
		return textValue(text)
	}
	digits := strings.ReplaceAll(text, "_", "")
	negative := digits[0] == '-'
	digits = strings.TrimLeft(digits, "+-")
	const longest = 400 // digits; more are no number that anybody means
	if len(digits) > longest {
		return value{kind: kindInt, text: text, written: text, int: math.MaxInt64}
	}
	n := new(big.Int)
	switch {
	case strings.Contains(digits, ":"):
		for _, part := range strings.Split(digits, ":") {
			digit, _ := new(big.Int).SetString(part, 10)
			n.Add(n.Mul(n, big.NewInt(60)), digit)
		}
	case strings.HasPrefix(digits, "0b"):
		n.SetString(digits[2:], 2)
	case strings.HasPrefix(digits, "0x"):
		n.SetString(digits[2:], 16)
	case len(digits) > 1 && digits[0] == '0':
		n.SetString(digits[1:], 8)
	default:
		n.SetString(digits, 10)
	}
	if negative {
		n.Neg(n)
	}
	v := value{kind: kindInt, text: n.String(), written: text, int: math.MaxInt64}
	if n.IsInt64() {
		v.int = n.Int64()
	}
	return v
}

func floatValue(text string) value {
	if !yamlFloat.MatchString(text) {
		return textValue(text)
	}
	digits := strings.ToLower(strings.ReplaceAll(text, "_", ""))
	sign := 1.0
	if digits[0] == '-' {
		sign = -1
	}
	digits = strings.TrimLeft(digits, "+-")
	var f float64
	switch {
	case digits == ".inf":
		f = math.Inf(1)
	case digits == ".nan":
		f = math.NaN()
	case strings.Contains(digits, ":"):
		for _, part := range strings.Split(digits, ":") {
			digit, _ := strconv.ParseFloat(part, 64)
			f = f*60 + digit
		}
	default:
		f, _ = strconv.ParseFloat(digits, 64) // out of range is infinite, as in Java
	}
	f *= sign
	return value{kind: kindFloat, float: f, text: javaDouble(f), written: text}
}

// javaDouble prints a number as Java's Double.toString does.
func javaDouble(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 0):
		return strings.TrimPrefix(strconv.FormatFloat(f, 'f', -1, 64), "+") + "inity"
	case f == 0 || math.Abs(f) >= 1e-3 && math.Abs(f) < 1e7:
		text := strconv.FormatFloat(f, 'f', -1, 64)
		if !strings.Contains(text, ".") {
			text += ".0"
		}
		return text
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, 64), "e")
	if !strings.Contains(mantissa, ".") {
		mantissa += ".0"
	}
	n, _ := strconv.Atoi(exponent)
	return mantissa + "E" + strconv.Itoa(n)
}
