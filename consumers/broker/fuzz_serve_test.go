package broker

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"
)

// failOnError fails the test on every record of level error: a panic that was
// recovered, above all.
type failOnError struct {
	slog.Handler
	t *testing.T
}

func (h failOnError) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelError }
func (h failOnError) WithAttrs([]slog.Attr) slog.Handler           { return h }
func (h failOnError) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool { h.t.Errorf("%s: %s", r.Message, a); return true })
	return nil
}

// FuzzServe sends whatever bytes after a good handshake. The broker must not
// panic, must end the connection when the client does, and must hold no
// memory afterwards.
func FuzzServe(f *testing.F) {
	hello := []byte("AMQP\x00\x00\x09\x01")
	method := func(channel byte, class, id byte, args ...byte) []byte {
		b, at := beginFrame(nil, frameMethod, uint16(channel))
		return endFrame(append(append(b, 0, class, 0, id), args...), at)
	}
	hello = append(hello, method(0, 10, 11, append([]byte{0, 0, 0, 0, 5, 'P', 'L', 'A', 'I', 'N', 0, 0, 0, 12}, append([]byte("\x00guest\x00guest"), 0)...)...)...)
	hello = append(hello, method(0, 10, 31, 7, 255, 0, 2, 0, 0, 0, 0)...)
	hello = append(hello, method(0, 10, 40, 1, '/', 0, 0)...)
	hello = append(hello, method(1, 20, 10, 0)...)
	declare := method(1, 50, 10, 0, 0, 1, 'q', 0, 0, 0, 0, 0)
	publish := method(1, 60, 40, 0, 0, 0, 1, 'q', 0)
	header, at := beginFrame(nil, frameHeader, 1)
	header = endFrame(append(header, 0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0), at)
	body, at := beginFrame(nil, frameBody, 1)
	body = endFrame(append(body, 'x'), at)
	consume := method(1, 60, 20, 0, 0, 1, 'q', 1, 't', 0, 0, 0, 0, 0)
	join := func(parts ...[]byte) (out []byte) {
		for _, p := range parts {
			out = append(out, p...)
		}
		return out
	}
	f.Add(join(declare, publish, header, body, consume))
	f.Add(join(declare, consume, publish, header, body, method(1, 60, 80, 0, 0, 0, 0, 0, 0, 0, 1, 0)))
	f.Add(join(declare, publish, header, body, method(1, 60, 70, 0, 0, 1, 'q', 0), method(1, 60, 120, 0, 0, 0, 0, 0, 0, 0, 1, 2), method(1, 20, 40, 0, 200, 0, 0, 0, 0, 0)))
	f.Add(join(method(1, 40, 10, 0, 0, 1, 'x', 5, 't', 'o', 'p', 'i', 'c', 0, 0, 0, 0, 0), declare, method(1, 50, 20, 0, 0, 1, 'q', 1, 'x', 1, '#', 0, 0, 0, 0, 0)))
	f.Add(join(method(1, 85, 10, 0), method(1, 60, 10, 0, 0, 0, 0, 0, 1, 1), declare, consume, method(1, 60, 30, 1, 't', 0), method(1, 60, 110, 1)))
	f.Fuzz(func(t *testing.T, in []byte) {
		b, err := New(Config{Logger: slog.New(failOnError{slog.DiscardHandler, t}), MaxMessage: 1 << 16})
		if err != nil {
			t.Fatal(err)
		}
		c, err := b.Dial("", "")
		if err != nil {
			t.Fatal(err)
		}
		go io.Copy(io.Discard, c)
		c.SetWriteDeadline(time.Now().Add(time.Second))
		if _, err := c.Write(hello); err != nil {
			t.Fatal(err)
		}
		c.Write(in) // the broker may have closed by then
		c.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := b.Close(ctx); err != nil {
			t.Fatal(err)
		}
		if used := b.Memory(); used != 0 {
			t.Fatalf("%d bytes are held by nothing", used)
		}
	})
}
