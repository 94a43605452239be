package mount_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
	"go.uber.org/goleak"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/exchange/mount"
	"github.com/hanzoai/pqgw/telemetry"
	"github.com/hanzoai/pqgw/transports"
	"github.com/hanzoai/pqgw/transports/deadline"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // handlers panic here on purpose
	// fasthttp keeps the time of day in a goroutine for the life of the process.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"))
}

// serve lets a handler answer on a real listener in the clear, HTTP/1.1 and
// HTTP/2, and returns its address.
func serve(t *testing.T, h exchange.Handler) (addr string) {
	t.Helper()
	watch := deadline.New()
	l, err := transports.Listen("edge", "127.0.0.1:0", transports.Settings{
		Protocols: []string{transports.H1, transports.H2C}, Handler: h,
		Limits:     exchange.Limits{HeadBytes: 32 << 10, Fields: 128, BodyBytes: 64 << 20},
		StreamIdle: time.Minute, IdleTimeout: time.Minute, HeadTimeout: time.Minute, Streams: 100,
	}, transports.Environment{Watch: watch, Metrics: telemetry.NewMetrics(telemetry.Build{}), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	l.Serve()
	t.Cleanup(func() {
		l.Close()
		watch.Close()
	})
	return l.Addr().String()
}

// each runs a test over HTTP/1.1 and HTTP/2, with net/http's client.
func each(t *testing.T, h exchange.Handler, f func(t *testing.T, c *http.Client, url string)) {
	t.Helper()
	addr := serve(t, h)
	for _, name := range []string{"h1", "h2c"} {
		t.Run(name, func(t *testing.T) {
			p := new(http.Protocols)
			p.SetHTTP1(name == "h1")
			p.SetUnencryptedHTTP2(name == "h2c")
			tr := &http.Transport{Protocols: p, ExpectContinueTimeout: 5 * time.Second}
			t.Cleanup(tr.CloseIdleConnections)
			f(t, &http.Client{Transport: tr, Timeout: 20 * time.Second}, "http://"+addr)
		})
	}
}

func httpFunc(f http.HandlerFunc) exchange.Handler { return mount.HTTP(f) }

func body(t *testing.T, res *http.Response, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func get(t *testing.T, c *http.Client, url string) (*http.Response, string) {
	t.Helper()
	res, err := c.Get(url)
	text := body(t, res, err)
	return res, text
}

func TestHTTPAnswersInOnePieceWithItsLength(t *testing.T) {
	h := httpFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Seen", r.Header.Get("X-Sent")+" "+r.Method+" "+r.Host+" "+r.URL.Query().Get("q"))
		w.Header().Set("Connection", "close") // the transport's business
		fmt.Fprint(w, "<html>hello")
	})
	each(t, h, func(t *testing.T, c *http.Client, url string) {
		req, _ := http.NewRequest("GET", url+"/a?q=1", nil)
		req.Host, req.Header = "api.test", http.Header{"X-Sent": {"v"}}
		res, err := c.Do(req)
		if got := body(t, res, err); got != "<html>hello" || res.ContentLength != 11 {
			t.Errorf("%q, length %d", got, res.ContentLength)
		}
		if res.Header.Get("X-Seen") != "v GET api.test 1" || res.Header.Get("Content-Type") != "text/html; charset=utf-8" || res.Close {
			t.Errorf("%v, close %v", res.Header, res.Close)
		}
	})
}

func TestHTTPHeadHasTheLengthAndNoBody(t *testing.T) {
	h := httpFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "12345") })
	each(t, h, func(t *testing.T, c *http.Client, url string) {
		res, err := c.Head(url)
		if got := body(t, res, err); got != "" || res.ContentLength != 5 {
			t.Errorf("%q, length %d", got, res.ContentLength)
		}
	})
}

// events writes an event, and the next once it has been told that the first arrived.
func TestHTTPFlushesEvents(t *testing.T) {
	arrived := make(chan bool)
	h := httpFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		for range 3 {
			<-arrived
			fmt.Fprint(w, "data: x\n\n")
			w.(http.Flusher).Flush()
		}
	})
	each(t, h, func(t *testing.T, c *http.Client, url string) {
		res, err := c.Get(url) // returns with the head alone
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		r := bufio.NewReader(res.Body)
		for range 3 {
			arrived <- true
			if line, err := r.ReadString('\n'); line != "data: x\n" || err != nil {
				t.Fatalf("%q %v", line, err)
			}
			_, _ = r.ReadString('\n')
		}
		if rest, err := io.ReadAll(r); len(rest) != 0 || err != nil {
			t.Errorf("%q %v", rest, err)
		}
	})
}

func TestHTTPEchoesLargeBodiesWithTrailers(t *testing.T) {
	h := httpFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		n, err := io.Copy(w, r.Body)
		w.Header().Set("X-Sum", fmt.Sprint(n, err, r.Trailer.Get("X-Up")))
		w.Header().Set(http.TrailerPrefix+"X-More", "yes")
	})
	each(t, h, func(t *testing.T, c *http.Client, url string) {
		data := bytes.Repeat([]byte("0123456789abcdef"), 64<<10)
		req, _ := http.NewRequest("POST", url, io.MultiReader(bytes.NewReader(data))) // of unknown length
		req.Trailer = http.Header{"X-Up": {"t"}}
		res, err := c.Do(req)
		if got := body(t, res, err); got != string(data) {
			t.Errorf("%d bytes of %d", len(got), len(data))
		}
		if want := fmt.Sprint(len(data), nil, "t"); res.Trailer.Get("X-Sum") != want || res.Trailer.Get("X-More") != "yes" {
			t.Errorf("trailers %v, want %s", res.Trailer, want)
		}
	})
}

func TestHTTPContinuesOnFirstRead(t *testing.T) {
	h := httpFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/no" {
			w.WriteHeader(401)
			return
		}
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s", b)
	})
	each(t, h, func(t *testing.T, c *http.Client, url string) {
		for _, path := range []string{"/yes", "/no"} {
			req, _ := http.NewRequest("PUT", url+path, strings.NewReader("data"))
			req.Header.Set("Expect", "100-continue")
			res, err := c.Do(req)
			if got := body(t, res, err); path == "/yes" && got != "data" || path == "/no" && res.StatusCode != 401 {
				t.Errorf("%s: %d %q", path, res.StatusCode, got)
			}
		}
	})
}

func TestHTTPPanics(t *testing.T) {
	h := httpFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/late":
			fmt.Fprint(w, "half")
			w.(http.Flusher).Flush()
			panic("late")
		case "/abort":
			panic(http.ErrAbortHandler)
		case "/short":
			w.Header().Set("Content-Length", "10")
			fmt.Fprint(w, "1234")
			w.(http.Flusher).Flush()
			return
		}
		w.Header().Set("X-Secret", "1")
		fmt.Fprint(w, "begun")
		panic("early")
	})
	each(t, h, func(t *testing.T, c *http.Client, url string) {
		res, text := get(t, c, url+"/early")
		if res.StatusCode != 500 || strings.Contains(text, "begun") || res.Header.Get("X-Secret") != "" {
			t.Errorf("%d %q", res.StatusCode, text)
		}
		for _, path := range []string{"/late", "/short"} {
			res, err := c.Get(url + path)
			if err != nil {
				t.Fatal(err)
			}
			if b, err := io.ReadAll(res.Body); err == nil {
				t.Errorf("%s: the cut answer %q passes for whole", path, b)
			}
			_ = res.Body.Close()
		}
		if res, err := c.Post(url+"/abort", "text/plain", nil); err == nil {
			_ = res.Body.Close()
			t.Errorf("an aborted exchange was answered: %d", res.StatusCode)
		}
	})
}

func TestHTTPContextEndsWithTheClient(t *testing.T) {
	begun, ended := make(chan bool), make(chan error)
	h := httpFunc(func(w http.ResponseWriter, r *http.Request) {
		begun <- true
		<-r.Context().Done()
		ended <- context.Cause(r.Context())
	})
	each(t, h, func(t *testing.T, c *http.Client, url string) {
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			<-begun
			cancel()
		}()
		req, _ := http.NewRequestWithContext(ctx, "GET", url, nil)
		if res, err := c.Do(req); err == nil {
			_ = res.Body.Close()
			t.Error("answered")
		}
		select {
		case err := <-ended:
			if err == nil {
				t.Error("no cause")
			}
		case <-time.After(15 * time.Second):
			t.Fatal("the handler was not told")
		}
	})
}

func TestHTTPUselessAfterReturn(t *testing.T) {
	leaked := make(chan func() (error, error), 1)
	h := httpFunc(func(w http.ResponseWriter, r *http.Request) {
		leaked <- func() (error, error) {
			_, werr := w.Write([]byte("late"))
			_, rerr := r.Body.Read(make([]byte, 8))
			return werr, rerr
		}
	})
	each(t, h, func(t *testing.T, c *http.Client, url string) {
		res, err := c.Post(url, "text/plain", strings.NewReader("body"))
		_ = body(t, res, err)
		if werr, rerr := (<-leaked)(); werr == nil || rerr == nil {
			t.Errorf("write: %v, read: %v", werr, rerr)
		}
	})
}

// webSocket makes the opening handshake of RFC 6455 by hand, and returns the
// connection after the 101.
func webSocket(t *testing.T, addr string) (net.Conn, *bufio.Reader, *http.Response) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprintf(c, "GET /ws HTTP/1.1\r\nHost: api.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: chat\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	r := bufio.NewReader(c)
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c, r, res
}

const opening = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Protocol: chat\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"

func TestHTTPHijackIsATunnel(t *testing.T) {
	ended := make(chan bool, 1)
	addr := serve(t, httpFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != "GET" || r.Header.Get("Upgrade") != "websocket" || r.Header.Get("Connection") != "Upgrade" || r.Header.Get("Sec-WebSocket-Key") == "" {
			t.Errorf("%s %v", r.Method, r.Header)
		}
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = rw.WriteString(opening)
		_ = rw.Flush()
		go func() { // as libraries do: the handler returns, the connection lives
			_, _ = io.Copy(c, rw)
			_ = c.Close()
			ended <- true
		}()
	}))
	checkEcho(t, addr)
	select {
	case <-ended:
	case <-time.After(15 * time.Second):
		t.Fatal("the handler's end was not closed")
	}
}

func checkEcho(t *testing.T, addr string) {
	t.Helper()
	c, r, res := webSocket(t, addr)
	if res.StatusCode != 101 || res.Header.Get("Sec-WebSocket-Accept") != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" || res.Header.Get("Sec-WebSocket-Protocol") != "chat" {
		t.Fatalf("%d %v", res.StatusCode, res.Header)
	}
	for range 3 {
		fmt.Fprint(c, "ping")
		b := make([]byte, 4)
		if _, err := io.ReadFull(r, b); err != nil || string(b) != "ping" {
			t.Fatalf("%q %v", b, err)
		}
	}
	_ = c.Close()
}

func TestHTTPDeclinesUpgrade(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"as any answer": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(403)
			fmt.Fprint(w, "not here")
		},
		"by hand": func(w http.ResponseWriter, _ *http.Request) {
			c, rw, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = rw.WriteString("HTTP/1.1 403 Forbidden\r\nTransfer-Encoding: chunked\r\n\r\n8\r\nnot here\r\n0\r\n\r\n")
			_ = rw.Flush()
			_ = c.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, res := webSocket(t, serve(t, mount.HTTP(h)))
			if got := body(t, res, nil); res.StatusCode != 403 || got != "not here" {
				t.Errorf("%d %q", res.StatusCode, got)
			}
		})
	}
}

func TestHTTPHijackWithoutUpgradeIsRefused(t *testing.T) {
	h := httpFunc(func(w http.ResponseWriter, _ *http.Request) {
		if _, _, err := w.(http.Hijacker).Hijack(); !errors.Is(err, mount.ErrNotUpgrade) {
			t.Errorf("%v", err)
		}
		fmt.Fprint(w, "still here")
	})
	each(t, h, func(t *testing.T, c *http.Client, url string) {
		if _, text := get(t, c, url); text != "still here" {
			t.Errorf("%q", text)
		}
	})
}

func TestFastHTTPAnswers(t *testing.T) {
	h := mount.FastHTTP(func(ctx *fasthttp.RequestCtx) {
		ctx.Response.Header.Set("X-Seen", fmt.Sprintf("%s %s %s %s %v", ctx.Method(), ctx.Host(), ctx.Path(), ctx.QueryArgs().Peek("q"), ctx.RemoteIP()))
		ctx.Response.Header.SetCookie(func() *fasthttp.Cookie {
			c := &fasthttp.Cookie{}
			c.SetKey("k")
			c.SetValue("v")
			return c
		}())
		ctx.SetContentType("application/json")
		ctx.SetStatusCode(201)
		_, _ = ctx.Write(ctx.PostBody())
	})
	each(t, h, func(t *testing.T, c *http.Client, url string) {
		for _, size := range []int{0, 10, 1 << 20} {
			data := strings.Repeat("x", size)
			req, _ := http.NewRequest("POST", url+"/p?q=1", strings.NewReader(data))
			req.Host = "api.test"
			res, err := c.Do(req)
			if got := body(t, res, err); got != data || res.StatusCode != 201 || res.ContentLength != int64(size) {
				t.Errorf("%d: %d bytes, status %d, length %d", size, len(got), res.StatusCode, res.ContentLength)
			}
			if res.Header.Get("X-Seen") != "POST api.test /p 1 127.0.0.1" || res.Header.Get("Content-Type") != "application/json" || !strings.HasPrefix(res.Header.Get("Set-Cookie"), "k=v") {
				t.Errorf("%v", res.Header)
			}
		}
	})
}

func TestFastHTTPStreamsBothWays(t *testing.T) {
	arrived := make(chan bool)
	h := mount.FastHTTP(func(ctx *fasthttp.RequestCtx) {
		if in := ctx.RequestBodyStream(); in != nil {
			n, err := io.Copy(io.Discard, in)
			fmt.Fprintf(ctx, "%d %v", n, err)
			return
		}
		_ = ctx.Response.Header.SetTrailer("X-End")
		ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
			for range 3 {
				<-arrived
				fmt.Fprint(w, "data: x\n")
				_ = w.Flush()
			}
		})
		ctx.Response.Header.Set("X-End", "done")
	})
	each(t, h, func(t *testing.T, c *http.Client, url string) {
		res, err := c.Post(url, "text/plain", bytes.NewReader(make([]byte, 5<<20)))
		if got := body(t, res, err); got != fmt.Sprint(5<<20, " <nil>") {
			t.Errorf("%q", got)
		}
		res, err = c.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		r := bufio.NewReader(res.Body)
		for range 3 {
			arrived <- true
			if line, err := r.ReadString('\n'); line != "data: x\n" || err != nil {
				t.Fatalf("%q %v", line, err)
			}
		}
		if _, err := io.ReadAll(r); err != nil || res.Trailer.Get("X-End") != "done" {
			t.Errorf("%v, trailers %v", err, res.Trailer)
		}
	})
}

func TestFastHTTPWriterEndsWithTheClient(t *testing.T) {
	ended := make(chan bool)
	h := mount.FastHTTP(func(ctx *fasthttp.RequestCtx) {
		run := mount.Context(ctx)
		ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
			defer func() { ended <- true }()
			for {
				if _, err := fmt.Fprint(w, "tick\n"); err != nil || w.Flush() != nil {
					return
				}
				select {
				case <-run.Done():
					return
				case <-time.After(time.Millisecond):
				}
			}
		})
	})
	each(t, h, func(t *testing.T, c *http.Client, url string) {
		ctx, cancel := context.WithCancel(context.Background())
		req, _ := http.NewRequestWithContext(ctx, "GET", url, nil)
		res, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = res.Body.Read(make([]byte, 4))
		cancel()
		_ = res.Body.Close()
		select {
		case <-ended:
		case <-time.After(15 * time.Second):
			t.Fatal("the writer was not ended")
		}
	})
}

func TestFastHTTPPanicsAndTimesOut(t *testing.T) {
	release := make(chan bool)
	h := mount.FastHTTP(func(ctx *fasthttp.RequestCtx) {
		if string(ctx.Path()) == "/slow" {
			go func() { // goes on after the timeout, with the context in hand
				<-release
				_, _ = ctx.WriteString("late")
				release <- true
			}()
			ctx.TimeoutErrorWithCode("too slow", 503)
			return
		}
		panic("no")
	})
	each(t, h, func(t *testing.T, c *http.Client, url string) {
		if res, text := get(t, c, url+"/panic"); res.StatusCode != 500 || strings.Contains(text, "no\n") {
			t.Errorf("%d %q", res.StatusCode, text)
		}
		if res, text := get(t, c, url+"/slow"); res.StatusCode != 503 || text != "too slow" {
			t.Errorf("%d %q", res.StatusCode, text)
		}
		release <- true
		<-release
	})
}

func TestFastHTTPHijackIsATunnel(t *testing.T) {
	addr := serve(t, mount.FastHTTP(func(ctx *fasthttp.RequestCtx) {
		ctx.Response.SetStatusCode(101)
		ctx.Response.Header.Set("Connection", "Upgrade")
		ctx.Response.Header.Set("Upgrade", "websocket")
		ctx.Response.Header.Set("Sec-WebSocket-Protocol", "chat")
		ctx.Response.Header.Set("Sec-WebSocket-Accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
		ctx.Hijack(func(c net.Conn) { _, _ = io.Copy(c, c) })
	}))
	checkEcho(t, addr)
}

func TestFastHTTPDeclinesUpgrade(t *testing.T) {
	addr := serve(t, mount.FastHTTP(func(ctx *fasthttp.RequestCtx) { ctx.Error("not here", 403) }))
	_, _, res := webSocket(t, addr)
	if got := body(t, res, nil); res.StatusCode != 403 || got != "not here" {
		t.Errorf("%d %q", res.StatusCode, got)
	}
}

func TestTrace(t *testing.T) {
	each(t, mount.Trace(), func(t *testing.T, c *http.Client, url string) {
		res, text := get(t, c, url+"/x?secret=1")
		var got map[string]any
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatal(err)
		}
		if got["post_quantum"] != false || got["tls"] != nil || got["method"] != "GET" || got["path"] != "/x" || !strings.HasPrefix(fmt.Sprint(got["client"]), "127.0.0.1:") {
			t.Errorf("%v", got)
		}
		if res.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%v", res.Header)
		}
		req, _ := http.NewRequest("GET", url+"/%3Cscript%3E", nil)
		req.Header.Set("Accept", "text/html,application/xhtml+xml")
		req.Header.Set("User-Agent", "<script>alert(1)</script>")
		res, err := c.Do(req)
		page := body(t, res, err)
		if !strings.Contains(page, "post-quantum: no") || strings.Contains(page, "<script>") || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/html") {
			t.Errorf("%s", page)
		}
	})
}
