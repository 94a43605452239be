package http2

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/exchange"
)

// TestAStreamThatEndsWhileTheClientReadsNothingLeavesTheDeadlines: the RST_STREAM of a stream that is late
// waits for the client, and the look at deadlines, that of this very write among them, does not.
func TestAStreamThatEndsWhileTheClientReadsNothingLeavesTheDeadlines(t *testing.T) {
	ours, theirs := net.Pipe()
	t.Cleanup(func() { _ = theirs.Close() })
	c := NewConn(ours, &exchange.Conn{Protocol: exchange.HTTP2}, &Options{
		Handler: handlerFunc(func(x *exchange.Exchange) {
			x.Response.Reset(nil)
			x.Response.Status = 200
			tun, err := x.Responder.Tunnel(&x.Response)
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = tun.Read(make([]byte, 1))
		}),
		Limits:     exchange.Limits{HeadBytes: 32 << 10, Fields: 128},
		StreamIdle: 100 * time.Millisecond, WriteTimeout: 200 * time.Millisecond,
	}, nil)
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = c.Serve()
	}()
	go func() {
		p := peer{t: t, nc: theirs}
		p.write(appendFrameHeader([]byte(preface), 0, frameSettings, 0, 0))
		p.head(1, false, ":method", "CONNECT", ":protocol", "websocket", ":scheme", "https", ":authority", "localhost", ":path", "/")
	}()
	for f := (frameHeader{}); f.typ != frameHeaders; {
		var b [frameHeaderLen]byte
		if _, err := io.ReadFull(theirs, b[:]); err != nil {
			t.Fatal(err)
		}
		f = parseFrameHeader(b[:])
		if _, err := io.CopyN(io.Discard, theirs, int64(f.length)); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-over:
	case <-time.After(10 * time.Second):
		t.Error("the connection did not end, though its client reads nothing")
	}
}

func TestNoStreamIsServedThatGoAwayGaveUp(t *testing.T) {
	ours, theirs := net.Pipe()
	t.Cleanup(func() {
		_ = ours.Close()
		_ = theirs.Close()
	})
	c := NewConn(ours, &exchange.Conn{Protocol: exchange.HTTP2}, &Options{}, nil)
	s := c.newStream(1)
	c.drain = drainFinal // since its head was looked at
	if code := c.admit(s, false); code != RefusedStream || c.last != 0 || c.open != 0 {
		t.Errorf("%v, last %d, %d open", code, c.last, c.open)
	}
	s.unref()
}
