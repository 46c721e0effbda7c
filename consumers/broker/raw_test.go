package broker_test

import (
	"encoding/binary"
	"io"
	"net"
	"strconv"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/belay-mq/belay/consumers/broker"
)

// Frames built by hand, for clients that do not behave.

func frameOf(kind byte, channel uint16, payload []byte) []byte {
	b := []byte{kind, byte(channel >> 8), byte(channel)}
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload)))
	b = append(b, payload...)
	return append(b, 0xCE)
}

func methodFrame(channel, class, method uint16, args ...byte) []byte {
	p := binary.BigEndian.AppendUint16(nil, class)
	p = binary.BigEndian.AppendUint16(p, method)
	return frameOf(1, channel, append(p, args...))
}

func short(s string) []byte { return append([]byte{byte(len(s))}, s...) }

func join(parts ...[]byte) []byte {
	var out []byte
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

// readFrame reads one frame, whatever it is.
func readFrame(t testing.TB, c net.Conn) (kind byte, channel uint16, payload []byte) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(patience))
	var head [7]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		t.Fatalf("reading a frame: %v", err)
	}
	payload = make([]byte, binary.BigEndian.Uint32(head[3:])+1)
	if _, err := io.ReadFull(c, payload); err != nil {
		t.Fatalf("reading a frame: %v", err)
	}
	return head[0], binary.BigEndian.Uint16(head[1:]), payload[:len(payload)-1]
}

func expectMethod(t testing.TB, c net.Conn, class, method uint16) []byte {
	t.Helper()
	for {
		kind, _, p := readFrame(t, c)
		if kind == 8 {
			continue
		}
		if kind != 1 || binary.BigEndian.Uint16(p) != class || binary.BigEndian.Uint16(p[2:]) != method {
			t.Fatalf("frame %d %x, want method %d.%d", kind, p, class, method)
		}
		return p[4:]
	}
}

func write(t testing.TB, c net.Conn, parts ...[]byte) {
	t.Helper()
	c.SetWriteDeadline(time.Now().Add(patience))
	if _, err := c.Write(join(parts...)); err != nil {
		t.Fatalf("writing: %v", err)
	}
}

// rawConnect goes through the handshake by hand and opens channel 1.
func rawConnect(t testing.TB, b *broker.Broker, heartbeat byte) net.Conn {
	t.Helper()
	var c net.Conn
	var err error
	if b.Addr() == "" {
		c, err = b.Dial("", "")
	} else {
		c, err = net.Dial("tcp", b.Addr())
	}
	if err != nil {
		t.Fatal(err)
	}
	shakeHands(t, c, "guest", "guest", 2047, heartbeat)
	return c
}

// rawConnectMax agrees on fewer channels.
func rawConnectMax(t testing.TB, b *broker.Broker, channels uint16) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", b.Addr())
	if err != nil {
		t.Fatal(err)
	}
	shakeHands(t, c, "guest", "guest", channels, 0)
	return c
}

func rawHandshake(t testing.TB, addr, user, password string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	shakeHands(t, c, user, password, 2047, 0)
	return c
}

func shakeHands(t testing.TB, c net.Conn, user, password string, channels uint16, heartbeat byte) {
	t.Helper()
	t.Cleanup(func() { c.Close() })
	login := "\x00" + user + "\x00" + password
	write(t, c, []byte("AMQP\x00\x00\x09\x01"))
	expectMethod(t, c, 10, 10)
	write(t, c, methodFrame(0, 10, 11, join(make([]byte, 4), short("PLAIN"), []byte{0, 0, 0, byte(len(login))}, []byte(login), short("en_US"))...))
	expectMethod(t, c, 10, 30)
	write(t, c, methodFrame(0, 10, 31, byte(channels>>8), byte(channels), 0, 2, 0, 0, 0, heartbeat), methodFrame(0, 10, 40, join(short("/"), short(""), []byte{0})...))
	expectMethod(t, c, 10, 41)
	write(t, c, methodFrame(1, 20, 10, 0))
	expectMethod(t, c, 20, 11)
}

func declareRaw(channel uint16, name string) []byte {
	return methodFrame(channel, 50, 10, join([]byte{0, 0}, short(name), []byte{0}, make([]byte, 4))...)
}

func publishRaw(channel uint16, key string, size uint64, body []byte) []byte {
	out := methodFrame(channel, 60, 40, join([]byte{0, 0}, short(""), short(key), []byte{0})...)
	h := binary.BigEndian.AppendUint64([]byte{0, 60, 0, 0}, size)
	out = append(out, frameOf(2, channel, append(h, 0, 0))...)
	if body != nil {
		out = append(out, frameOf(3, channel, body)...)
	}
	return out
}

// expectClose reads until connection.close and returns its code.
func expectClose(t testing.TB, c net.Conn) uint16 {
	t.Helper()
	for {
		kind, channel, p := readFrame(t, c)
		if kind == 1 && channel == 0 && binary.BigEndian.Uint32(p) == 10<<16|50 {
			return binary.BigEndian.Uint16(p[4:])
		}
	}
}

func TestBadFrames(t *testing.T) {
	cases := []struct {
		name string
		send []byte
		code uint16
	}{
		{"unknown frame type", frameOf(7, 0, nil), 501},
		{"bad frame end", append(methodFrame(1, 20, 20, 1)[:12], 0), 501},
		{"frame larger than agreed", frameOf(3, 1, make([]byte, 200_000)), 501},
		{"channel never opened", declareRaw(9, "q"), 504},
		{"channel opened twice", methodFrame(1, 20, 10, 0), 504},
		{"method cut short", methodFrame(1, 50, 10, 0, 0, 5), 501},
		{"channel method on channel 0", declareRaw(0, "q"), 504},
		{"body without a publish", frameOf(3, 1, []byte("x")), 505},
		{"header without a publish", frameOf(2, 1, make([]byte, 14)), 505},
		{"method inside a content", join(publishRaw(1, "q", 10, nil), declareRaw(1, "q")), 505},
		{"header of another class", join(methodFrame(1, 60, 40, join([]byte{0, 0}, short(""), short("q"), []byte{0})...), frameOf(2, 1, append([]byte{0, 50}, make([]byte, 12)...))), 505},
	}
	check := func(t *testing.T, conn net.Conn, send []byte, code uint16) {
		go func() { // the broker may stop reading before all is sent
			conn.SetWriteDeadline(time.Now().Add(patience))
			conn.Write(send)
		}()
		if got := expectClose(t, conn); got != code {
			t.Fatalf("closed with %d, want %d", got, code)
		}
	}
	onEachRaw(t, func(t *testing.T, b *broker.Broker, dial func(testing.TB) net.Conn) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				check(t, dial(t), c.send, c.code)
			})
		}
	})
	// Where RabbitMQ says nothing and resets the connection, or waits for
	// ever, the embedded broker says what is wrong.
	b := listen(t, broker.Config{})
	check(t, rawConnect(t, b, 0), methodFrame(1, 77, 1), 503)
	check(t, rawConnect(t, b, 0), methodFrame(1, 60, 60), 503)
	check(t, rawConnect(t, b, 0), publishRaw(1, "q", 2, []byte("xyz")), 501)
}

// onEachRaw runs a test with hand-made frames on the embedded broker and on
// RabbitMQ.
func onEachRaw(t *testing.T, f func(t *testing.T, b *broker.Broker, dial func(testing.TB) net.Conn)) {
	t.Run("embedded", func(t *testing.T) {
		b := listen(t, broker.Config{})
		f(t, b, func(t testing.TB) net.Conn { return rawConnect(t, b, 0) })
	})
	t.Run("rabbitmq", func(t *testing.T) {
		uri, err := amqp.ParseURI(realURL(t))
		if err != nil {
			t.Fatal(err)
		}
		f(t, nil, func(t testing.TB) net.Conn {
			return rawHandshake(t, net.JoinHostPort(uri.Host, strconv.Itoa(uri.Port)), uri.Username, uri.Password)
		})
	})
}
