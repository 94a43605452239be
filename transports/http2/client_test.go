package http2

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/hanzoai/pqgw/exchange"
)

var clientLimits = exchange.Limits{HeadBytes: 64 << 10, Fields: 256}

// upstream is Go's own server, h2c with prior knowledge.
func upstream(t testing.TB, h http.Handler) string {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func dial(t testing.TB, addr string, o *ClientOptions) *ClientConn {
	t.Helper()
	if o == nil {
		o = &ClientOptions{}
	}
	o.Limits = clientLimits
	d := &Dialer{Options: o, Connect: func(ctx context.Context) (net.Conn, *exchange.Conn, error) {
		nc, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		return nc, &exchange.Conn{Protocol: exchange.HTTP2}, err
	}}
	c, err := d.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c.(*ClientConn)
}

// newRequest makes an exchange whose request is of that method and path.
func newRequest(method, target string) *exchange.Exchange {
	x := &exchange.Exchange{}
	x.Request.Reset(nil)
	x.Request.SetMethod([]byte(method))
	x.Request.SetTarget([]byte(target))
	x.Request.SetAuthority([]byte("up.example"))
	x.Response.Reset(nil)
	return x
}

func newCallOn(t testing.TB, c *ClientConn) exchange.Call {
	t.Helper()
	k, err := c.Call()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func readAll(t testing.TB, src exchange.Source) string {
	t.Helper()
	if src == nil {
		return ""
	}
	b, err := io.ReadAll(src)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestACallIsAnswered(t *testing.T) {
	addr := upstream(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Seen", fmt.Sprintf("%s %s %s %d %s", r.Method, r.Host, r.RequestURI, r.ContentLength, r.Header.Get("X-A")))
		fmt.Fprintf(w, "%d", len(b))
	}))
	c := dial(t, addr, nil)
	for i, size := range []int{-1, 0, 10, 16375, 65536, 300_000, 1 << 20} {
		x := newRequest("GET", "/p?q")
		x.Request.AddString("X-A", "b")
		var body exchange.Source
		want := "GET up.example /p?q 0 b"
		if size >= 0 {
			x.Request.SetMethod([]byte("POST"))
			body = exchange.NewBytes(make([]byte, size))
			want = fmt.Sprintf("POST up.example /p?q %d b", size)
		}
		k := newCallOn(t, c)
		if err := k.Send(x, body, exchange.Timeouts{}); err != nil {
			t.Fatal(err)
		}
		if err := k.ReadHead(&x.Response); err != nil {
			t.Fatal(err)
		}
		if got := string(x.Response.Value(x.Response.Find("X-Seen", 0))); x.Response.Status != 200 || got != want {
			t.Errorf("%d: status %d, %q", i, x.Response.Status, got)
		}
		if got := readAll(t, k.Body()); got != fmt.Sprint(max(size, 0)) {
			t.Errorf("%d: body %q", i, got)
		}
		if !k.Finish() {
			t.Error("the connection is not reusable")
		}
	}
	if c.conn.open() != 0 {
		t.Errorf("%d streams are left", c.conn.open())
	}
}

func (c *conn) open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.streams)
}

func TestInterimAnswersAndTrailersPass(t *testing.T) {
	addr := upstream(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</a>")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Trailer", "X-End")
		b, _ := io.ReadAll(r.Body)
		w.Write(b)
		w.Header().Set("X-End", r.Trailer.Get("X-Sum"))
	}))
	c := dial(t, addr, nil)
	k := newCallOn(t, c)
	defer k.Finish()
	x := newRequest("POST", "/")
	x.Request.TETrailers = true
	x.Request.AddString("Trailer", "X-Sum")
	trailers := &exchange.Head{}
	trailers.AddString("X-Sum", "7")
	src := &trailed{Bytes: exchange.NewBytes([]byte("hello")), t: trailers}
	if err := k.Send(x, src, exchange.Timeouts{}); err != nil {
		t.Fatal(err)
	}
	if err := k.SendBody(src); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{103, 200} {
		if err := k.ReadHead(&x.Response); err != nil || x.Response.Status != want {
			t.Fatalf("status %d, %v; want %d", x.Response.Status, err, want)
		}
	}
	if b := readAll(t, k.Body()); b != "hello" {
		t.Errorf("body %q", b)
	}
	if tr := k.Body().Trailers(); tr == nil || string(tr.Value(tr.Find("X-End", 0))) != "7" {
		t.Errorf("trailers %v", tr)
	}
}

// trailed is a body that ends in trailers.
type trailed struct {
	*exchange.Bytes
	t *exchange.Head
}

func (s *trailed) Length() int64            { return -1 }
func (s *trailed) Whole() ([]byte, bool)    { return nil, false }
func (s *trailed) Trailers() *exchange.Head { return s.t }

func TestBothWaysAtTheSameTime(t *testing.T) {
	s := serve(t, &Options{Handler: handlerFunc(func(x *exchange.Exchange) {
		x.Response.Status = 200
		if err := x.Responder.Respond(&x.Response, x.Body); err != nil {
			t.Error(err)
		}
	})})
	c := dial(t, s.addr, nil)
	k := newCallOn(t, c)
	defer k.Finish()
	x := newRequest("POST", "/bidi")
	in := newPipe()
	if err := k.Send(x, in, exchange.Timeouts{}); err != nil {
		t.Fatal(err)
	}
	sent := make(chan error)
	go func() { sent <- k.SendBody(in) }()
	in.ch <- []byte("first")
	if err := k.ReadHead(&x.Response); err != nil || x.Response.Status != 200 {
		t.Fatal(x.Response.Status, err)
	}
	for i := range 50 {
		want := "first"
		if i > 0 {
			want = fmt.Sprint("message ", i)
			in.ch <- []byte(want)
		}
		got := make([]byte, len(want))
		if _, err := io.ReadFull(k.Body(), got); err != nil || string(got) != want {
			t.Fatalf("%q, %v; want %q", got, err, want)
		}
	}
	close(in.ch)
	if err := <-sent; err != nil {
		t.Error(err)
	}
	if rest := readAll(t, k.Body()); rest != "" {
		t.Errorf("rest %q", rest)
	}
}

// pipe is a body that a test feeds.
type pipe struct{ ch chan []byte }

func newPipe() *pipe { return &pipe{ch: make(chan []byte)} }

func (p *pipe) Length() int64            { return -1 }
func (p *pipe) Whole() ([]byte, bool)    { return nil, false }
func (p *pipe) Buffered() int            { return 0 }
func (p *pipe) Trailers() *exchange.Head { return nil }
func (p *pipe) Close(error)              {}
func (p *pipe) Read([]byte) (int, error) { panic("not used") }
func (p *pipe) Next() ([]byte, error) {
	b, ok := <-p.ch
	if !ok {
		return nil, io.EOF
	}
	return b, nil
}

func TestManyCallsAtOnce(t *testing.T) {
	addr := upstream(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}))
	c := dial(t, addr, nil)
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			for j := range 20 {
				sent := strings.Repeat(fmt.Sprintf("%d.%d;", i, j), 1+i*j*20)
				x := newRequest("PUT", "/")
				k, err := c.Call()
				if err != nil {
					t.Error(err)
					return
				}
				if err := k.Send(x, exchange.NewBytes([]byte(sent)), exchange.Timeouts{}); err != nil {
					t.Error(err)
				}
				if err := k.ReadHead(&x.Response); err != nil {
					t.Error(err)
					return
				}
				if b, err := io.ReadAll(k.Body()); err != nil || string(b) != sent {
					t.Errorf("%d of %d bytes, %v", len(b), len(sent), err)
				}
				k.Finish()
			}
		})
	}
	wg.Wait()
}

func TestAWebSocketRunsThroughExtendedConnect(t *testing.T) {
	s := serve(t, &Options{Handler: handlerFunc(func(x *exchange.Exchange) {
		if string(x.Request.Protocol()) != "websocket" || x.Body != nil || x.Request.Has(exchange.SecWebSocketKey) {
			t.Errorf("protocol %q, body %v", x.Request.Protocol(), x.Body)
		}
		tun, err := x.Responder.Tunnel(&x.Response)
		if err != nil {
			t.Error(err)
			return
		}
		b := make([]byte, 100)
		for {
			n, err := tun.Read(b)
			if _, werr := tun.Write(b[:n]); werr != nil {
				t.Error(werr)
			}
			if err != nil {
				break
			}
		}
		_ = tun.CloseWrite()
		tun.Close()
	})})
	c := dial(t, s.addr, nil)
	k := newCallOn(t, c)
	defer k.Finish()
	x := newRequest("GET", "/ws")
	x.Request.SetProtocol([]byte("websocket"))
	x.Request.AddString("Sec-WebSocket-Key", "x")
	if err := k.Send(x, nil, exchange.Timeouts{}); err != nil {
		t.Fatal(err)
	}
	if err := k.ReadHead(&x.Response); err != nil || x.Response.Status != 200 {
		t.Fatal(x.Response.Status, err)
	}
	tun, err := k.Tunnel()
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		tun.Write([]byte("ping"))
		got := make([]byte, 4)
		if _, err := io.ReadFull(tun, got); err != nil || string(got) != "ping" {
			t.Fatalf("%q, %v", got, err)
		}
	}
	_ = tun.CloseWrite()
	if _, err := tun.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("end: %v", err)
	}
}

func TestAnUpstreamWithoutExtendedConnectGivesErrTunnel(t *testing.T) {
	_, conn := fakeUpstream(t, nil)
	k := newCallOn(t, conn)
	defer k.Finish()
	x := newRequest("GET", "/ws")
	x.Request.SetProtocol([]byte("websocket"))
	if err := k.Send(x, nil, exchange.Timeouts{}); !errors.Is(err, exchange.ErrTunnel) {
		t.Errorf("error %v", err)
	}
}
