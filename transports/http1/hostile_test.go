package http1

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/hanzoai/pqgw/exchange"
)

func TestAnAnnouncedLengthCostsNoMemory(t *testing.T) {
	eachMode(t, func(t *testing.T, m mode) {
		s := start(t, m, func(x *exchange.Exchange) {
			x.Response.Reset(nil)
			x.Response.Status = 413
			_ = x.Responder.Respond(&x.Response, nil)
		}, nil)
		for _, length := range []int64{1 << 31, 1 << 62} {
			c := s.dial()
			// As much as fills the buffer that the head came in.
			_, _ = fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", length, strings.Repeat("x", 5000))
			r := bufio.NewReader(c)
			if resp, err := http.ReadResponse(r, nil); err != nil || resp.StatusCode != 413 {
				t.Fatalf("%v %v", resp, err)
			}
			if _, err := r.ReadByte(); err != io.EOF {
				t.Errorf("after the answer: %v, want EOF", err)
			}
			_ = c.Close()
		}
	})
}

func TestARequestBehindAChunkedBodyIsKept(t *testing.T) {
	eachMode(t, func(t *testing.T, m mode) {
		s := start(t, m, func(x *exchange.Exchange) {
			if x.Body != nil {
				_, _ = io.Copy(io.Discard, x.Body)
			}
			x.Response.Reset(nil)
			x.Response.Status = 200
			_ = x.Responder.Respond(&x.Response, exchange.NewBytes(append([]byte(nil), x.Request.Target()...)))
		}, nil)
		c := s.dial()
		r := bufio.NewReader(c)
		_, _ = io.WriteString(c, "POST /one HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n")
		if line, err := r.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
			t.Fatalf("%q %v", line, err)
		}
		_, _ = r.ReadString('\n')
		// The body and what is behind it come in one piece, after the head has been read.
		_, _ = io.WriteString(c, "3\r\nabc\r\n0\r\n\r\nGET /two HTTP/1.1\r\nHost: a\r\n\r\n")
		for _, want := range []string{"/one", "/two"} {
			if got := readAnswer(t, r, "GET"); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
	})
}
