package broker

import (
	"encoding/binary"
	"fmt"
)

// replyError is an error that a client is told: as channel.close, or as
// connection.close where connection is set.
type replyError struct {
	code       uint16
	text       string
	method     methodID
	connection bool
}

var replyNames = map[uint16]string{
	311: "CONTENT_TOO_LARGE", 312: "NO_ROUTE", 313: "NO_CONSUMERS", 320: "CONNECTION_FORCED",
	402: "INVALID_PATH", 403: "ACCESS_REFUSED", 404: "NOT_FOUND", 405: "RESOURCE_LOCKED", 406: "PRECONDITION_FAILED",
	501: "FRAME_ERROR", 502: "SYNTAX_ERROR", 503: "COMMAND_INVALID", 504: "CHANNEL_ERROR", 505: "UNEXPECTED_FRAME",
	506: "RESOURCE_ERROR", 530: "NOT_ALLOWED", 540: "NOT_IMPLEMENTED", 541: "INTERNAL_ERROR",
}

// Error is the reply text as RabbitMQ words it: the code's name and what was
// wrong.
func (e *replyError) Error() string {
	return replyNames[e.code] + " - " + e.text
}

// appendClose encodes the arguments of channel.close and connection.close. A
// text that is too long for its field is cut as RabbitMQ cuts it.
func (e *replyError) appendClose(b []byte) []byte {
	text := e.Error()
	if len(text) > 255 {
		text = text[:252] + "..."
	}
	b = appendShortstr(binary.BigEndian.AppendUint16(b, e.code), text)
	b = binary.BigEndian.AppendUint16(b, e.method.class())
	return binary.BigEndian.AppendUint16(b, e.method.method())
}

func channelError(code uint16, format string, args ...any) *replyError {
	return &replyError{code: code, text: fmt.Sprintf(format, args...)}
}

func connectionError(code uint16, format string, args ...any) *replyError {
	return &replyError{code: code, text: fmt.Sprintf(format, args...), connection: true}
}
