package http1

import (
	"bufio"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/deadline"
	"github.com/hanzoai/pqgw/transports/serial"
	"github.com/hanzoai/pqgw/transports/serial/serialtest"
)

// An answer that had begun could not say that it is the last.
func TestAnExchangeThatOutlivesTheGraceIsTheLast(t *testing.T) {
	serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
		s := start(t, m, func(x *exchange.Exchange) {
			x.Response.Reset(nil)
			x.Response.Status = 200
			sink, err := x.Responder.Start(&x.Response, -1)
			if err != nil {
				t.Error(err)
				return
			}
			_ = sink.Flush()
			_, _ = io.Copy(sink, struct{ io.Reader }{x.Body})
			_ = sink.Finish(nil)
		}, nil)
		c := s.Dial()
		_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
		r := bufio.NewReader(c)
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		s.Shutdown()
		time.AfterFunc(serial.GraceWhileDraining+2*deadline.Tick, func() { _, _ = io.WriteString(c, "4\r\nlate\r\n0\r\n\r\n") })
		if got, err := io.ReadAll(resp.Body); err != nil || string(got) != "late" {
			t.Errorf("%q, %v", got, err)
		}
		_ = c.SetReadDeadline(time.Now().Add(5 * serial.GraceWhileDraining))
		if _, err := r.ReadByte(); err != io.EOF {
			t.Errorf("behind the answer: %v, want EOF", err)
		}
	})
}
