package broker

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
)

const (
	frameMethod    = 1
	frameHeader    = 2
	frameBody      = 3
	frameHeartbeat = 8
	frameEnd       = 0xCE

	frameOverhead = 8
	frameMinSize  = 4096
)

// frame is one frame as read; its payload is valid until the next read.
type frame struct {
	kind    byte
	channel uint16
	payload []byte
}

// frameError is a frame that breaks the protocol; it ends the connection with
// reply code 501.
type frameError struct{ msg string }

func (e *frameError) Error() string { return e.msg }

// frameReader reads frames of at most max bytes of payload from a connection.
// It holds one payload at a time, which grows only as far as bytes really
// arrive.
type frameReader struct {
	r   *bufio.Reader
	buf []byte
	max uint32
}

func newFrameReader(r io.Reader, max uint32) *frameReader {
	return &frameReader{r: bufio.NewReaderSize(r, 32<<10), max: max}
}

// buffered says whether a whole frame header is at hand without reading from
// the socket.
func (f *frameReader) buffered() bool { return f.r.Buffered() >= 7 }

// readGrain is how much of a payload is made room for before any of it came.
const readGrain = 64 << 10

func (f *frameReader) next() (frame, error) {
	head, err := f.r.Peek(7)
	if err != nil {
		if len(head) > 0 && err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return frame{}, err
	}
	out := frame{kind: head[0], channel: binary.BigEndian.Uint16(head[1:])}
	size := binary.BigEndian.Uint32(head[3:])
	switch out.kind {
	case frameMethod, frameHeader, frameBody, frameHeartbeat:
	default:
		return frame{}, &frameError{fmt.Sprintf("unknown frame type %d", out.kind)}
	}
	if size > f.max {
		return frame{}, &frameError{fmt.Sprintf("type %d, payload of %d bytes is larger than the negotiated %d", out.kind, size, f.max)}
	}
	f.r.Discard(7) //nolint:errcheck // the 7 bytes are there: Peek has just shown them
	if whole := int(size) + 1; whole <= f.r.Buffered() {
		p, err := f.r.Peek(whole)
		if err != nil {
			return frame{}, err
		}
		f.r.Discard(whole) //nolint:errcheck // as above
		out.payload = p[:size]
		return out, checkEnd(p[size])
	}
	for f.buf = f.buf[:0]; uint32(len(f.buf)) < size; {
		at := len(f.buf)
		n := min(int(size)-at, readGrain)
		if cap(f.buf) < at+n {
			f.buf = append(make([]byte, 0, min(int(size), max(2*cap(f.buf), at+n))), f.buf...)
		}
		f.buf = f.buf[:at+n]
		if _, err := io.ReadFull(f.r, f.buf[at:]); err != nil {
			return frame{}, err
		}
	}
	end, err := f.r.ReadByte()
	if err != nil {
		return frame{}, err
	}
	out.payload = f.buf
	return out, checkEnd(end)
}

func checkEnd(b byte) error {
	if b != frameEnd {
		return &frameError{fmt.Sprintf("frame ends with 0x%02x, not 0xce", b)}
	}
	return nil
}

// beginFrame appends a frame's head and returns where it began, for endFrame.
func beginFrame(b []byte, kind byte, channel uint16) ([]byte, int) {
	at := len(b)
	return append(b, kind, byte(channel>>8), byte(channel), 0, 0, 0, 0), at
}

func endFrame(b []byte, at int) []byte {
	binary.BigEndian.PutUint32(b[at+3:], uint32(len(b)-at-7))
	return append(b, frameEnd)
}

// appendContent appends the header and body frames of a message, cut to the
// connection's frame size.
func appendContent(b []byte, channel uint16, header, body []byte, frameMax uint32) []byte {
	b, at := beginFrame(b, frameHeader, channel)
	b = endFrame(append(b, header...), at)
	room := len(body)
	if frameMax > 0 {
		room = int(frameMax) - frameOverhead
	}
	for len(body) > 0 {
		n := min(room, len(body))
		b, at = beginFrame(b, frameBody, channel)
		b = endFrame(append(b, body[:n]...), at)
		body = body[n:]
	}
	return b
}
