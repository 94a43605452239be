package http1

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"testing"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/serial/serialtest"
)

// A handler that pushes may tell the length of no body, too (RFC 9110, section 8.6).
func TestAnAnswerWithoutABodySaysItsLengthWhereItMay(t *testing.T) {
	for _, q := range []struct {
		method string
		status int
		length int64
		want   string
	}{
		{"GET", 204, 0, ""},
		{"HEAD", 204, 3, ""},
		{"HEAD", 200, 3, "3"},
		{"GET", 304, 3, "3"},
		{"GET", 200, 0, "0"},
	} {
		s := serve(t, serialtest.Modes[0], func(x *exchange.Exchange) {
			x.Response.Reset(nil)
			x.Response.Status = q.status
			sink, err := x.Responder.Start(&x.Response, q.length)
			if err == nil {
				err = sink.Finish(nil)
			}
			if err != nil {
				t.Error(err)
			}
		})
		c := s.Dial()
		_, _ = io.WriteString(c, q.method+" / HTTP/1.1\r\nHost: a\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: q.method})
		if err != nil {
			t.Fatal(err)
		}
		if got := resp.Header.Get("Content-Length"); got != q.want {
			t.Errorf("%s, %d: length %q, want %q", q.method, q.status, got, q.want)
		}
	}
}

// What comes next on the connection would be taken for the rest of the body.
func TestAnAnswerThatItsHandlerDoesNotEndIsCut(t *testing.T) {
	serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
		s := serve(t, m, func(x *exchange.Exchange) {
			x.Response.Reset(nil)
			x.Response.Status = 200
			sink, err := x.Responder.Start(&x.Response, 10)
			if err == nil {
				_, err = sink.Write([]byte("half"))
			}
			if err == nil {
				err = sink.Flush()
			}
			if err != nil {
				t.Error(err)
			}
		})
		c := s.Dial()
		request := "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
		_, _ = io.WriteString(c, request+request)
		b, err := io.ReadAll(c)
		if n := bytes.Count(b, []byte("HTTP/1.1")); n > 1 || err == nil {
			t.Errorf("%q, %v, want one answer that is cut", b, err)
		}
	})
}
