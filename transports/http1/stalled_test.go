package http1

import (
	"io"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/serial/serialtest"
)

// What the client sends is no sign that it takes what waits for it.
func TestAClientThatSendsAndTakesNothingIsCut(t *testing.T) {
	endless := func(w io.Writer) (err error) {
		for piece := make([]byte, 64<<10); err == nil; {
			_, err = w.Write(piece)
		}
		return err
	}
	serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
		for _, q := range []struct {
			name, request, more string
			serve               func(x *exchange.Exchange) (from io.Reader, to io.Writer)
		}{
			{"tunnel", upgrade, "x", func(x *exchange.Exchange) (io.Reader, io.Writer) {
				tn, err := x.Responder.Tunnel(&x.Response)
				if err != nil {
					t.Error(err)
				}
				return tn, tn
			}},
			{"upload", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n", func(x *exchange.Exchange) (io.Reader, io.Writer) {
				x.Response.Status = 200
				sink, err := x.Responder.Start(&x.Response, -1)
				if err != nil {
					t.Error(err)
				}
				return x.Body, sink
			}},
		} {
			cut := make(chan error, 1)
			s := start(t, m, func(x *exchange.Exchange) {
				x.Response.Reset(nil)
				from, to := q.serve(x)
				read := make(chan struct{})
				go func() {
					defer close(read)
					_, _ = io.Copy(io.Discard, struct{ io.Reader }{from})
				}()
				err := endless(to)
				x.Responder.Abort(err)
				<-read
				cut <- err
			}, func(o *Options) { o.WriteTimeout = 500 * time.Millisecond })
			c := s.Dial()
			_, _ = io.WriteString(c, q.request)
			more := time.NewTicker(100 * time.Millisecond)
			for waiting, late := true, time.After(15*time.Second); waiting; {
				select {
				case <-cut:
					waiting = false
				case <-late:
					t.Errorf("%s: the answer still waits for its client", q.name)
					waiting = false
				case <-more.C:
					_, _ = io.WriteString(c, q.more)
				}
			}
			more.Stop()
			_ = c.Close()
		}
	})
}
