package http1

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/serial"
)

// accepted is what a parser made of a request, for comparison.
type accepted struct {
	method, target, host string
	length               int64
	chunked              bool
	fields               []string
}

// ours parses one head; ok is false where we refuse it or it is not whole.
func ours(b []byte) (a accepted, n int, ok bool) {
	end, _, r := scanHead(b, 0)
	if r != nil || end == 0 {
		return a, 0, false
	}
	var h exchange.Head
	lim := exchange.Limits{HeadBytes: 32 << 10, Fields: 128}
	minor, r := parseRequest(b[:end:end], &h, lim.Fields)
	if r == nil {
		r = exchange.CheckRequest(&h, exchange.HTTP1, minor, &lim)
	}
	if r != nil {
		return a, 0, false
	}
	a = accepted{method: string(h.MethodName()), target: string(h.Target()), host: string(h.Authority()), length: h.Length, chunked: h.Chunked}
	for i := range h.Len() {
		if !h.Dropped(i) {
			a.fields = append(a.fields, strings.ToLower(string(h.Name(i)))+": "+string(h.Value(i)))
		}
	}
	return a, end, true
}

// theirs tells what net/http makes of it.
func theirs(b []byte) (*http.Request, bool) {
	q, err := http.ReadRequest(bufio.NewReaderSize(bytes.NewReader(b), 64<<10))
	return q, err == nil
}

var requestSeeds = []string{
	"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET /a?b=c HTTP/1.1\r\nHost: a:80\r\nX: 1\r\nX: 2\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
	"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"GET http://b/x HTTP/1.1\r\nHost: a\r\n\r\n",
	"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET / HTTP/1.0\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nConnection: close, X\r\nX: 1\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: [::1]:8\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
	"GET / HTTP/1.1\nHost: a\n\n", "GET / HTTP/1.1\r\nHost : a\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\n X: b\r\n\r\n",
}

// FuzzRequestHead: what both we and net/http accept must mean the same.
func FuzzRequestHead(f *testing.F) {
	for _, s := range requestSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		a, end, ok := ours(b)
		if !ok {
			return
		}
		q, ok := theirs(b[:end])
		if !ok {
			// Refused by net/http alone: it wants targets to be URLs with good escapes and hosts to be
			// of a narrower set; nothing that changes where a message ends.
			return
		}
		if q.Method != a.method {
			t.Errorf("method %q, net/http %q", a.method, q.Method)
		}
		if chunked := len(q.TransferEncoding) > 0; chunked != a.chunked {
			t.Errorf("chunked %v, net/http %v", a.chunked, chunked)
		}
		if !a.chunked && max(0, a.length) != max(0, q.ContentLength) {
			t.Errorf("length %d, net/http %d", a.length, q.ContentLength)
		}
		if a.host != q.Host {
			t.Errorf("host %q, net/http %q", a.host, q.Host)
		}
		for _, f := range a.fields {
			name, value, _ := strings.Cut(f, ": ")
			if !hasValue(q.Header, name, value) {
				t.Errorf("field %q is not among net/http's %v", f, q.Header)
			}
		}
	})
}

func hasValue(h http.Header, name, value string) bool {
	for k, vs := range h {
		if !strings.EqualFold(k, name) {
			continue
		}
		for _, v := range vs {
			if v == value {
				return true
			}
		}
	}
	return false
}

// FuzzChunked: what both decoders accept must be the same bytes, however the
// input is cut.
func FuzzChunked(f *testing.F) {
	for _, s := range []string{"0\r\n\r\n", "3\r\nabc\r\n0\r\n\r\n", "3;x=y\r\nabc\r\n0\r\nA: b\r\n\r\n", "3\nabc\n0\n\n", "10\r\n0123456789abcdef\r\n0\r\n\r\n"} {
		f.Add([]byte(s), uint8(1))
	}
	f.Fuzz(func(t *testing.T, in []byte, step uint8) {
		got, err := decode(in, int(step))
		if again, err2 := decode(in, len(in)); string(again) != string(got) || (err == nil) != (err2 == nil) {
			t.Fatalf("cut by %d: %q %v; whole: %q %v", step, got, err, again, err2)
		}
		if err != nil {
			return
		}
		req := append([]byte("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"), in...)
		q, e := http.ReadRequest(bufio.NewReader(bytes.NewReader(req)))
		if e != nil {
			t.Fatal(e)
		}
		want, e := io.ReadAll(q.Body)
		if e == nil && !bytes.Equal(want, got) {
			t.Errorf("we read %q, net/http %q", got, want)
		}
	})
}

// decode runs in through a body that is read step bytes at a time.
func decode(in []byte, step int) ([]byte, error) {
	lim := &exchange.Limits{HeadBytes: 1 << 10, Fields: 16}
	var b serial.Body
	var c chunks
	c.reset(lim)
	rest := in
	b.Use(func(p []byte) (int, error) {
		if len(rest) == 0 {
			return 0, io.EOF
		}
		n := copy(p[:min(len(p), max(1, step))], rest)
		rest = rest[n:]
		return n, nil
	}, nil)
	b.StartFramed(nil, &c, 0, -1)
	defer b.Free()
	out, err := io.ReadAll(&b)
	if err == nil && !b.Done() {
		err = errors.New("the end came before the end")
	}
	return out, err
}

// FuzzResponseHead: no input may panic or be taken for more than it is.
func FuzzResponseHead(f *testing.F) {
	for _, s := range []string{"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n", "HTTP/1.0 304\r\n\r\n", "HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		end, _, r := scanHead(b, 0)
		if r != nil || end == 0 {
			return
		}
		var h, req exchange.Head
		req.Reset(nil)
		lim := exchange.Limits{HeadBytes: 32 << 10, Fields: 128}
		minor, r := parseResponse(b[:end:end], &h, lim.Fields)
		if r == nil {
			r = exchange.CheckResponse(&h, &req, exchange.HTTP1, minor, &lim)
		}
		if r != nil {
			return
		}
		if h.Status < 100 || h.Status > 999 {
			t.Errorf("status %d", h.Status)
		}
		resp, err := http.ReadResponse(bufio.NewReaderSize(bytes.NewReader(b[:end]), 64<<10), nil)
		if err == nil && resp.StatusCode != h.Status {
			t.Errorf("status %d, net/http %d", h.Status, resp.StatusCode)
		}
	})
}
