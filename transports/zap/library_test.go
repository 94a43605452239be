package zap

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/serial/serialtest"
)

// service serves a handler until the end of the test, and gives its address.
func service(t testing.TB, h exchange.Handler, cfg *tls.Config) (string, *Server) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Handler: h, TLS: cfg}
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-done; !errors.Is(err, ErrServerClosed) {
			t.Errorf("Serve: %v", err)
		}
	})
	return ln.Addr().String(), s
}

func fastEcho(ctx *fasthttp.RequestCtx) {
	ctx.Response.Header.Set("X-Path", string(ctx.Path()))
	ctx.Response.Header.Set("X-Query", string(ctx.QueryArgs().Peek("q")))
	ctx.Response.Header.Set("X-Remote", ctx.RemoteIP().String())
	ctx.SetContentType("text/x-echo")
	if string(ctx.Path()) == "/missing" {
		ctx.SetStatusCode(404)
	}
	if string(ctx.Path()) == "/panic" {
		panic("as asked")
	}
	ctx.SetBody(ctx.PostBody())
}

func TestDoHasTheShapeOfFasthttp(t *testing.T) {
	for _, secure := range []bool{false, true} {
		var cfg *tls.Config
		scheme := "zap"
		if secure {
			cfg, scheme = serialtest.Config(ALPN), "zap+tls"
		}
		addr, _ := service(t, FastHTTP(fastEcho), cfg)
		c := &Client{TLS: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // the test's own server
		t.Cleanup(c.Close)
		var req fasthttp.Request
		var resp fasthttp.Response
		for _, n := range []int{0, 5, 20 << 10, 200 << 10, 3 << 20} {
			body := bytes.Repeat([]byte("d"), n)
			req.SetRequestURI(scheme + "://" + addr + "/a?q=" + fmt.Sprint(n))
			req.Header.SetMethod("POST")
			req.SetBody(body)
			if err := c.Do(&req, &resp); err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode() != 200 || !bytes.Equal(resp.Body(), body) || string(resp.Header.Peek("X-Query")) != fmt.Sprint(n) ||
				string(resp.Header.ContentType()) != "text/x-echo" || string(resp.Header.Peek("X-Remote")) != "127.0.0.1" {
				t.Fatalf("%d bytes: %d, %d bytes\n%s", n, resp.StatusCode(), len(resp.Body()), &resp.Header)
			}
		}
		req.SetRequestURI(scheme + "://" + addr + "/panic")
		if err := c.DoTimeout(&req, &resp, 10*time.Second); err != nil || resp.StatusCode() != 500 {
			t.Fatalf("%d %v", resp.StatusCode(), err)
		}
		req.SetRequestURI("ftp://" + addr)
		if err := c.Do(&req, &resp); err == nil || !strings.Contains(err.Error(), "none of zap") {
			t.Fatal(err)
		}
	}
}

func TestAnHTTPClientCallsAZAPService(t *testing.T) {
	var mu sync.Mutex
	var seen http.Header
	addr, _ := service(t, HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		mu.Lock()
		seen = r.Header.Clone()
		mu.Unlock()
		switch r.URL.Path {
		case "/stream":
			w.Header().Set("Content-Type", "text/event-stream")
			for i := range 3 {
				fmt.Fprintf(w, "data: %d\n\n", i)
				w.(http.Flusher).Flush() //nolint:forcetypeassert // the test's point
			}
		case "/redirect":
			http.Redirect(w, r, "/end", http.StatusFound)
		default:
			w.Header().Set("X-Host", r.Host)
			fmt.Fprintf(w, "%s %s %d", r.Method, r.URL.RequestURI(), len(b))
		}
	})), serialtest.Config(ALPN))
	zc := &Client{TLS: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // the test's own server
	t.Cleanup(zc.Close)
	c := http.Client{Transport: zc}
	get := func(method, url string, body io.Reader) (*http.Response, string) {
		t.Helper()
		req, err := http.NewRequest(method, url, body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Mine", "1")
		req.Header.Set("Connection", "close")
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(b)
	}
	base := "zap+tls://" + addr
	if resp, b := get("GET", base+"/a?b", nil); b != "GET /a?b 0" || resp.Header.Get("X-Host") != addr || resp.TLS == nil || resp.ContentLength != 10 {
		t.Errorf("%q %v", b, resp)
	}
	mu.Lock()
	if seen.Get("X-Mine") != "1" || seen.Get("Connection") != "" {
		t.Errorf("the service saw %v", seen)
	}
	mu.Unlock()
	if _, b := get("PUT", base+"/", strings.NewReader(strings.Repeat("p", 300_000))); b != "PUT / 300000" {
		t.Errorf("%q", b)
	}
	if _, b := get("POST", base+"/", io.MultiReader(strings.NewReader("abc"), strings.NewReader("de"))); b != "POST / 5" {
		t.Errorf("%q", b)
	}
	if _, b := get("GET", base+"/stream", nil); b != "data: 0\n\ndata: 1\n\ndata: 2\n\n" {
		t.Errorf("%q", b)
	}
	if _, b := get("GET", base+"/redirect", nil); b != "GET /end 0" {
		t.Errorf("%q", b)
	}
	if resp, b := get("HEAD", base+"/a", nil); b != "" || resp.ContentLength != 9 {
		t.Errorf("HEAD: %q, length %d", b, resp.ContentLength)
	}
	if n := len(zc.endpoints["zap+tls://"+addr].idle); n != 1 {
		t.Errorf("%d connections are kept, where one would do", n)
	}
}

func TestTrailersOfNetHTTPTravelBothWays(t *testing.T) {
	addr, _ := service(t, serialtest.HandlerFunc(func(x *exchange.Exchange) {
		_, _ = io.Copy(io.Discard, readerOf{x.Body})
		h := &x.Response
		h.Reset(nil)
		h.Status = 200
		var up string
		if tr := x.Body.Trailers(); tr != nil {
			up = string(tr.Value(0))
		}
		_ = x.Responder.Respond(h, &serialtest.Pieces{List: []string{"up: " + up}, Announced: -1, Trailer: trailer("X-Down", "2")})
	}), serialtest.Config(ALPN))
	zc := &Client{TLS: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // the test's own server
	t.Cleanup(zc.Close)
	req, err := http.NewRequest("POST", "https://"+addr+"/", io.MultiReader(strings.NewReader("body")))
	if err != nil {
		t.Fatal(err)
	}
	req.Trailer = http.Header{"X-Up": {"1"}}
	resp, err := (&http.Client{Transport: zc}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil || string(b) != "up: 1" || resp.Trailer.Get("X-Down") != "2" {
		t.Fatalf("%q, trailer %v, %v", b, resp.Trailer, err)
	}
}

func TestAClosedIdleConnectionIsReplacedUnseen(t *testing.T) {
	addr, s := service(t, FastHTTP(fastEcho), nil)
	c := &Client{}
	t.Cleanup(c.Close)
	h := http.Client{Transport: c}
	for range 3 {
		resp, err := h.Get("zap://" + addr + "/")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		s.mu.Lock()
		for c := range s.conns {
			c.Close()
		}
		s.mu.Unlock()
		for deadline := time.Now().Add(5 * time.Second); ; {
			s.mu.Lock()
			n := len(s.conns)
			s.mu.Unlock()
			if n == 0 || time.Now().After(deadline) {
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
}

func TestAContextEndsACallAndItsBody(t *testing.T) {
	begun := make(chan struct{}, 1)
	addr, _ := service(t, serialtest.HandlerFunc(func(x *exchange.Exchange) {
		h := &x.Response
		h.Reset(nil)
		h.Status = 200
		gone := make(chan struct{})
		c := exchange.Canceller{Cancel: func(error) { close(gone) }}
		_ = x.OnCancel(&c)
		if string(x.Request.Target()) == "/body" {
			if s, err := x.Responder.Start(h, -1); err == nil {
				_, _ = io.WriteString(s, "first")
				_ = s.Flush()
			}
		}
		begun <- struct{}{}
		<-gone
		x.Responder.Abort(nil)
	}), nil)
	c := &Client{}
	t.Cleanup(c.Close)
	for _, path := range []string{"/head", "/body"} {
		ctx, stop := context.WithCancel(context.Background())
		req, err := http.NewRequestWithContext(ctx, "GET", "zap://"+addr+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		cancelled := make(chan struct{})
		go func() {
			defer close(cancelled)
			<-begun
			stop()
		}()
		resp, err := c.RoundTrip(req)
		if path == "/body" && err == nil {
			_, err = io.ReadAll(resp.Body)
			_ = resp.Body.Close()
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", path, err)
		}
		<-cancelled
	}
}

func TestAStreamedAnswerMayBeClosedInTheMiddle(t *testing.T) {
	addr, _ := service(t, serialtest.HandlerFunc(func(x *exchange.Exchange) {
		h := &x.Response
		h.Reset(nil)
		h.Status = 200
		s, err := x.Responder.Start(h, -1)
		for err == nil {
			if _, err = s.Write(make([]byte, 64<<10)); err == nil {
				err = s.Flush()
			}
		}
	}), nil)
	c := &Client{}
	t.Cleanup(c.Close)
	var req fasthttp.Request
	resp := fasthttp.Response{StreamBody: true}
	req.SetRequestURI("zap://" + addr + "/")
	if err := c.Do(&req, &resp); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(resp.BodyStream(), make([]byte, 100_000)); err != nil {
		t.Fatal(err)
	}
	if err := resp.CloseBodyStream(); err != nil {
		t.Fatal(err)
	}
}

func TestAClientReachesAUnixSocketByItsDialer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Handler: FastHTTP(func(ctx *fasthttp.RequestCtx) { ctx.SetBodyString(ctx.RemoteAddr().Network()) })}
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	c := &Client{Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}
	resp, err := (&http.Client{Transport: c}).Get("zap://local/")
	if err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if string(b) != "unix" {
		t.Errorf("%q", b)
	}
	c.Close()
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if err := <-done; !errors.Is(err, ErrServerClosed) {
		t.Error(err)
	}
	if _, err := c.RoundTrip(&http.Request{URL: resp.Request.URL}); !errors.Is(err, ErrClientClosed) {
		t.Error(err)
	}
}

func TestManyCallsAtOnceShareTheClient(t *testing.T) {
	addr, _ := service(t, FastHTTP(fastEcho), nil)
	c := &Client{IdleConns: 4}
	t.Cleanup(c.Close)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			var req fasthttp.Request
			var resp fasthttp.Response
			for k := range 50 {
				body := fmt.Sprintf("%d-%d", i, k)
				req.SetRequestURI("zap://" + addr + "/")
				req.Header.SetMethod("POST")
				req.SetBodyString(body)
				if err := c.Do(&req, &resp); err != nil || string(resp.Body()) != body {
					t.Errorf("%q, %v", resp.Body(), err)
					return
				}
			}
		})
	}
	wg.Wait()
}
