package broker

import (
	"fmt"
	"time"
)

// settings are a queue's limits as they hold: its arguments and the policy
// that matches it, the lower of two numbers.
type settings struct {
	ttl           time.Duration // negative: none
	expires       time.Duration // 0: never
	maxLength     int64         // negative: none
	maxBytes      int64         // negative: none
	overflow      string
	deadLetters   bool
	deadExchange  string
	deadKey       string
	hasDeadKey    bool
	deliveryLimit int64 // negative: none
	singleActive  bool
	priorities    int
}

const (
	overflowDropHead  = "drop-head"
	overflowReject    = "reject-publish"
	overflowRejectDLX = "reject-publish-dlx"
)

func (s *settings) rejects() bool {
	return s.overflow == overflowReject || s.overflow == overflowRejectDLX
}

// settingsOf joins a queue's arguments with its effective policy.
func settingsOf(args Table, policy Table, defaultLimit int64) settings {
	number := func(arg, key string) int64 {
		a, okA := integer(args[arg])
		p, okP := integer(policy[key])
		switch {
		case okA && okP:
			return min(a, p)
		case okA:
			return a
		case okP:
			return p
		}
		return -1
	}
	text := func(arg, key string) (string, bool) {
		if s, ok := args[arg].(string); ok {
			return s, true
		}
		s, ok := policy[key].(string)
		return s, ok
	}
	s := settings{ttl: -1, overflow: overflowDropHead}
	if ms := number("x-message-ttl", "message-ttl"); ms >= 0 {
		s.ttl = time.Duration(ms) * time.Millisecond
	}
	if ms := number("x-expires", "expires"); ms > 0 {
		s.expires = time.Duration(ms) * time.Millisecond
	}
	s.maxLength = number("x-max-length", "max-length")
	s.maxBytes = number("x-max-length-bytes", "max-length-bytes")
	if how, ok := text("x-overflow", "overflow"); ok {
		s.overflow = how
	}
	s.deadExchange, s.deadLetters = text("x-dead-letter-exchange", "dead-letter-exchange")
	s.deadKey, s.hasDeadKey = text("x-dead-letter-routing-key", "dead-letter-routing-key")
	s.deliveryLimit = number("x-delivery-limit", "delivery-limit")
	if s.deliveryLimit < 0 {
		s.deliveryLimit = defaultLimit
	}
	s.singleActive, _ = args["x-single-active-consumer"].(bool)
	if n, ok := integer(args["x-max-priority"]); ok {
		s.priorities = int(n)
	}
	return s
}

// checkArgs refuses queue arguments that RabbitMQ refuses.
func (v *vhost) checkArgs(name string, args Table) *replyError {
	for key, limit := range map[string]int64{
		"x-message-ttl": maxTTL, "x-expires": maxTTL, "x-max-length": 0, "x-max-length-bytes": 0, "x-delivery-limit": 0, "x-max-priority": 255,
	} {
		value, ok := args[key]
		if !ok {
			continue
		}
		refuse := func(why string) *replyError {
			return channelError(406, "invalid arg '%s' for queue '%s' in vhost '%s': %s", key, name, v.name, why)
		}
		n, isNumber := integer(value)
		switch {
		case !isNumber:
			return refuse(expectedInteger(value))
		case n == 0 && key == "x-expires":
			return refuse("{value_zero,0}")
		case n < 0:
			return refuse(fmt.Sprintf("{value_negative,%d}", n))
		case limit > 0 && n > limit:
			return refuse(fmt.Sprintf("{max_value_exceeded,%d}", n))
		}
	}
	if how, ok := args["x-overflow"]; ok {
		switch how {
		case overflowDropHead, overflowReject, overflowRejectDLX:
		default:
			return channelError(406, "invalid arg 'x-overflow' for queue '%s' in vhost '%s': invalid_overflow", name, v.name)
		}
	}
	return nil
}

func erlangType(v any) string {
	switch v.(type) {
	case string:
		return "longstr"
	case bool:
		return "bool"
	case float32, float64:
		return "double"
	case Table:
		return "table"
	case []any:
		return "array"
	}
	return "void"
}

func expectedInteger(v any) string { return "\"expected integer, got " + erlangType(v) + "\"" }
