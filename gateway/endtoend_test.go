package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/config"
	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/gateway"
	"github.com/hanzoai/pqgw/telemetry"
	"github.com/hanzoai/pqgw/transports"
	"github.com/hanzoai/pqgw/transports/deadline"
)

// These tests run the gateway between real transports: net/http's client, our
// listener, the gateway, our client, net/http's server; HTTP/1.1 and HTTP/2 on
// either side.

// edge is a gateway before origins, and its address.
type edge struct {
	addr    string
	metrics *telemetry.Metrics
	gateway *gateway.Gateway
	log     *lockedBuffer
}

func newEdge(t *testing.T, change func(*config.Tree), origins ...string) *edge {
	t.Helper()
	tree := config.New()
	tree.Listeners = []*config.Listener{{Name: "edge"}}
	u := config.Default[config.Upstream]()
	for _, o := range origins {
		e, err := config.ParseEndpoint(o)
		if err != nil {
			t.Fatal(err)
		}
		u.Endpoints = append(u.Endpoints, e)
	}
	tree.Upstreams["app"] = u
	tree.Routes = []*config.Route{{Name: "all", To: "app"}}
	if change != nil {
		change(tree)
	}
	twin := *u // the same origins over HTTP/2, for requests that ask for it
	twin.Endpoints = nil
	for _, e := range u.Endpoints {
		p, _ := config.ParseEndpoint("h2c://" + e.Address.Addr)
		twin.Endpoints = append(twin.Endpoints, p)
	}
	tree.Upstreams["app2"] = &twin
	tree.Routes = append(tree.Routes, &config.Route{
		Name: "h2", To: "app2", Match: config.Match{Header: config.Fields{{Name: "X-Upstream", Value: "h2c"}}},
	})
	watch := deadline.New()
	e := &edge{metrics: telemetry.NewMetrics(telemetry.Build{}), log: &lockedBuffer{}}
	access := telemetry.NewAccessLog(e.log, nil)
	g, err := gateway.New(tree, gateway.Options{
		Metrics: e.metrics, AccessLog: access,
		Dial: func(_ *config.Tree, _ *config.Upstream, p config.Endpoint) (exchange.Dialer, error) {
			return transports.NewDialer(string(p.Scheme), p.Address.Addr, transports.DialSettings{
				Watch: watch, Limits: exchange.Limits{HeadBytes: 32 << 10, Fields: 128},
			})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := transports.Listen("edge", "127.0.0.1:0", transports.Settings{
		Protocols: []string{transports.H1, transports.H2C}, Handler: g,
		Limits:     exchange.Limits{HeadBytes: 32 << 10, Fields: 128, BodyBytes: 64 << 20},
		StreamIdle: time.Minute, IdleTimeout: time.Minute, HeadTimeout: time.Minute, Streams: 100,
	}, transports.Environment{Watch: watch, Metrics: e.metrics, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	l.Serve()
	e.addr, e.gateway = l.Addr().String(), g
	t.Cleanup(func() {
		l.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := g.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		_ = access.Close()
		watch.Close()
	})
	return e
}

type lockedBuffer struct {
	atomic.Pointer[[]byte]
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	for {
		old := b.Load()
		next := bytes.Clone(p)
		if old != nil {
			next = append(bytes.Clone(*old), p...)
		}
		if b.CompareAndSwap(old, &next) {
			return len(p), nil
		}
	}
}

func (b *lockedBuffer) String() string {
	if p := b.Load(); p != nil {
		return string(*p)
	}
	return ""
}

func origin(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Config.Protocols = bothProtocols()
	s.Start()
	t.Cleanup(s.Close)
	return s.URL
}

func bothProtocols() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	return p
}

// combinations are how many runs each makes.
const combinations = 4

// each runs a test with a client of HTTP/1.1 and one of HTTP/2, towards an
// origin that is spoken to in either.
func each(t *testing.T, f func(t *testing.T, c *http.Client)) {
	t.Helper()
	for _, down := range []string{"h1", "h2c"} {
		for _, up := range []string{"h1", "h2c"} {
			t.Run(down+" to "+up, func(t *testing.T) {
				p := new(http.Protocols)
				p.SetHTTP1(down == "h1")
				p.SetUnencryptedHTTP2(down == "h2c")
				tr := &http.Transport{Protocols: p, ExpectContinueTimeout: 10 * time.Second, DisableCompression: true}
				t.Cleanup(tr.CloseIdleConnections)
				f(t, &http.Client{Transport: steer{tr, up}, Timeout: 30 * time.Second})
			})
		}
	}
}

// steer asks the edge for the origin over one protocol.
type steer struct {
	http.RoundTripper
	up string
}

func (s steer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-Upstream", s.up)
	return s.RoundTripper.RoundTrip(r)
}

func read(t *testing.T, res *http.Response, err error) string {
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

func TestBodiesOfAllSizesBothWays(t *testing.T) {
	o := origin(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		if r.ContentLength >= 0 {
			w.Header().Set("Content-Length", fmt.Sprint(r.ContentLength))
		}
		w.Header().Set("X-Length", fmt.Sprint(r.ContentLength))
		_, _ = io.Copy(w, r.Body)
	})
	e := newEdge(t, nil, o)
	each(t, func(t *testing.T, c *http.Client) {
		for _, size := range []int{0, 1, 1000, 16 << 10, 64 << 10, 64<<10 + 1, 3 << 20} {
			for _, known := range []bool{true, false} {
				data := bytes.Repeat([]byte("abcdefgh"), size/8+1)[:size]
				var body io.Reader = bytes.NewReader(data)
				if !known {
					body = io.MultiReader(body)
				}
				res, err := c.Post("http://"+e.addr, "text/plain", body)
				if got := read(t, res, err); got != string(data) {
					t.Errorf("%d bytes, known %v: %d came back", size, known, len(got))
				}
				if known && size > 0 && res.ContentLength != int64(size) {
					t.Errorf("%d bytes: length %d", size, res.ContentLength)
				}
			}
		}
	})
}

func TestEventsArriveOneByOne(t *testing.T) {
	next := make(chan bool)
	o := origin(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		for range 3 {
			<-next
			fmt.Fprint(w, "data: x\n")
			w.(http.Flusher).Flush()
		}
	})
	e := newEdge(t, nil, o)
	each(t, func(t *testing.T, c *http.Client) {
		res, err := c.Get("http://" + e.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		r := bufio.NewReader(res.Body)
		for range 3 {
			next <- true
			if line, err := r.ReadString('\n'); line != "data: x\n" || err != nil {
				t.Fatalf("%q %v", line, err)
			}
		}
	})
}

func TestTrailersAndInterimsGoThrough(t *testing.T) {
	o := origin(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</a.css>")
		w.WriteHeader(103)
		w.Header().Del("Link")
		w.Header().Set("Trailer", "X-Sum")
		_, _ = io.Copy(w, r.Body)
		w.Header().Set("X-Sum", "s"+r.Trailer.Get("X-Up"))
	})
	e := newEdge(t, nil, o)
	each(t, func(t *testing.T, c *http.Client) {
		var hints atomic.Int32
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			if code == 103 && h.Get("Link") == "</a.css>" {
				hints.Add(1)
			}
			return nil
		}})
		req, _ := http.NewRequestWithContext(ctx, "POST", "http://"+e.addr, io.MultiReader(strings.NewReader("data")))
		req.Trailer = http.Header{"X-Up": {"1"}}
		res, err := c.Do(req)
		if got := read(t, res, err); got != "data" || res.Trailer.Get("X-Sum") != "s1" || hints.Load() != 1 {
			t.Errorf("%q, trailers %v, %d hints", got, res.Trailer, hints.Load())
		}
	})
}

// The origin says 413 to the head, and the client, which has gigabytes to send,
// hears of it.
func TestEarlyAnswerStopsTheUpload(t *testing.T) {
	o := origin(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(413)
		fmt.Fprint(w, "too much")
	})
	e := newEdge(t, nil, o)
	each(t, func(t *testing.T, c *http.Client) {
		res, err := c.Post("http://"+e.addr, "text/plain", endless{})
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode != 413 {
			t.Errorf("%d", res.StatusCode)
		}
	})
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestExpectationGoesEndToEnd(t *testing.T) {
	o := origin(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/no" {
			w.WriteHeader(401)
			return
		}
		_, _ = io.Copy(w, r.Body)
	})
	e := newEdge(t, nil, o)
	each(t, func(t *testing.T, c *http.Client) {
		for _, path := range []string{"/yes", "/no", "/yes"} {
			var sent atomic.Bool
			req, _ := http.NewRequest("PUT", "http://"+e.addr+path, io.MultiReader(readFunc(func(p []byte) (int, error) {
				sent.Store(true)
				return 0, io.EOF
			}), strings.NewReader("data")))
			req.Header.Set("Expect", "100-continue")
			res, err := c.Do(req)
			got := read(t, res, err)
			if path == "/yes" && got != "data" || path == "/no" && (res.StatusCode != 401 || sent.Load()) {
				t.Errorf("%s: %d %q, body sent: %v", path, res.StatusCode, got, sent.Load())
			}
		}
	})
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

func TestClientGoneEndsTheOriginsWork(t *testing.T) {
	begun, ended := make(chan bool), make(chan bool)
	o := origin(t, func(w http.ResponseWriter, r *http.Request) {
		begun <- true
		<-r.Context().Done()
		ended <- true
	})
	e := newEdge(t, nil, o)
	each(t, func(t *testing.T, c *http.Client) {
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			<-begun
			cancel()
		}()
		req, _ := http.NewRequestWithContext(ctx, "GET", "http://"+e.addr, nil)
		if res, err := c.Do(req); err == nil {
			_ = res.Body.Close()
			t.Error("answered")
		}
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Fatal("the origin goes on")
		}
	})
}

func TestOriginDyingMidBodyIsSeen(t *testing.T) {
	o := origin(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/length" {
			w.Header().Set("Content-Length", "1000")
		}
		fmt.Fprint(w, "half")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	e := newEdge(t, nil, o)
	each(t, func(t *testing.T, c *http.Client) {
		for _, path := range []string{"/chunked", "/length"} {
			res, err := c.Get("http://" + e.addr + path)
			if err != nil {
				t.Fatal(err)
			}
			if b, err := io.ReadAll(res.Body); err == nil {
				t.Errorf("%s: %q passes for whole", path, b)
			}
			_ = res.Body.Close()
		}
	})
	until(t, "the log says so", func() bool { return strings.Count(e.log.String(), `"error":"upstream_cut"`) == 2*combinations })
}

// An origin that closes each connection after its answer, and one that was
// restarted, cost the client nothing.
func TestStaleConnectionsAreNotNoticed(t *testing.T) {
	serve := func(l net.Listener) *http.Server {
		s := &http.Server{Protocols: bothProtocols(), Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })}
		go s.Serve(l)
		return s
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	s := serve(l)
	e := newEdge(t, nil, "http://"+addr)
	each(t, func(t *testing.T, c *http.Client) {
		for range 5 {
			for range 3 {
				res, err := c.Get("http://" + e.addr)
				if got := read(t, res, err); got != "ok" {
					t.Fatalf("%d %q", res.StatusCode, got)
				}
			}
			_ = s.Close() // all its connections die at once
			if l, err = net.Listen("tcp", addr); err != nil {
				t.Fatal(err)
			}
			s = serve(l)
		}
	})
	_ = s.Close()
}

func TestUnreachableAndSilentOrigins(t *testing.T) {
	hold := make(chan bool)
	silent := origin(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hold:
		case <-r.Context().Done():
		}
	})
	defer close(hold)
	down, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = down.Close()
	for _, k := range []struct {
		origin, reason string
		status         int
	}{{"http://" + down.Addr().String(), "upstream_refused", 502}, {silent, "upstream_timeout", 504}} {
		e := newEdge(t, func(tree *config.Tree) { tree.Upstreams["app"].Timeouts.FirstByte = 50 * time.Millisecond }, k.origin)
		each(t, func(t *testing.T, c *http.Client) {
			res, err := c.Get("http://" + e.addr)
			if got := read(t, res, err); res.StatusCode != k.status || !strings.Contains(got, "request id: ") {
				t.Errorf("%d %q", res.StatusCode, got)
			}
		})
		until(t, "the reason is logged", func() bool { return strings.Count(e.log.String(), `"error":"`+k.reason+`"`) == combinations })
	}
}

// A WebSocket's bytes go both ways, and each side's end reaches the other.
func TestWebSocketThrough(t *testing.T) {
	o := origin(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "websocket" {
			t.Errorf("%v", r.Header)
		}
		c, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Protocol: chat\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\nhello")
		_ = rw.Flush()
		_, _ = io.Copy(c, rw) // until the client's end
		fmt.Fprint(c, "bye")
	})
	e := newEdge(t, nil, o)
	c, err := net.Dial("tcp", e.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprint(c, "GET /ws HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: chat\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	r := bufio.NewReader(c)
	res, err := http.ReadResponse(r, nil)
	if err != nil || res.StatusCode != 101 || res.Header.Get("Sec-WebSocket-Protocol") != "chat" || res.Header.Get("Sec-WebSocket-Accept") != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" {
		t.Fatalf("%v %v", res, err)
	}
	big := strings.Repeat("0123456789", 50_000)
	go func() {
		fmt.Fprint(c, big)
		_ = c.(*net.TCPConn).CloseWrite()
	}()
	got, err := io.ReadAll(r)
	if want := "hello" + big + "bye"; err != nil || string(got) != want {
		t.Errorf("%d bytes of %d, %v", len(got), len(want), err)
	}
	until(t, "it is logged", func() bool { return strings.Contains(e.log.String(), `"status":101`) })
	if line := e.log.String(); !strings.Contains(line, `"bytes_in":500000`) || !strings.Contains(line, `"bytes_out":500008`) {
		t.Error(line)
	}
}

// What a gRPC call of both directions needs: each side's messages arrive while
// the other still sends, over HTTP/2 on both sides, and trailers end it.
func TestFullDuplex(t *testing.T) {
	o := origin(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status")
		if r.Header.Get("Te") != "trailers" {
			t.Errorf("te: %q", r.Header.Get("Te"))
		}
		w.(http.Flusher).Flush()
		b := make([]byte, 4)
		for {
			if _, err := io.ReadFull(r.Body, b); err != nil || string(b) == "stop" {
				break
			}
			_, _ = w.Write(b)
			w.(http.Flusher).Flush()
		}
		w.Header().Set("Grpc-Status", "0")
	})
	e := newEdge(t, nil, o)
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	tr := &http.Transport{Protocols: p}
	defer tr.CloseIdleConnections()
	for _, end := range []string{"close", "stop"} { // the client's end, or the server's while the client could go on
		t.Run(end, func(t *testing.T) {
			in, out := io.Pipe()
			req, _ := http.NewRequest("POST", "http://"+e.addr, in)
			req.Header.Set("Te", "trailers")
			res, err := (&http.Client{Transport: steer{tr, "h2c"}, Timeout: 20 * time.Second}).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			b := make([]byte, 4)
			for range 5 {
				fmt.Fprint(out, "ping")
				if _, err := io.ReadFull(res.Body, b); err != nil || string(b) != "ping" {
					t.Fatalf("%q %v", b, err)
				}
			}
			if end == "close" {
				_ = out.Close()
			} else {
				fmt.Fprint(out, "stop")
				defer out.Close()
			}
			if rest, err := io.ReadAll(res.Body); err != nil || len(rest) > 0 || res.Trailer.Get("Grpc-Status") != "0" {
				t.Errorf("%q %v, trailers %v", rest, err, res.Trailer)
			}
		})
	}
}

func TestQuietTunnelEnds(t *testing.T) {
	ended := make(chan error, 1)
	o := origin(t, func(w http.ResponseWriter, _ *http.Request) {
		c, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_ = rw.Flush()
		_, err = rw.ReadByte()
		ended <- err
	})
	e := newEdge(t, func(tree *config.Tree) { tree.Upstreams["app"].Timeouts.IdleStream = 100 * time.Millisecond }, o)
	c, err := net.Dial("tcp", e.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	select {
	case err := <-ended:
		if err == nil {
			t.Error("a byte out of nothing")
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it is still there")
	}
	until(t, "it is logged", func() bool { return strings.Contains(e.log.String(), `"error":"tunnel_idle"`) })
}

// Reloads while requests run lose none, and upgraded connections live on.
func TestReloadUnderLoadLosesNothing(t *testing.T) {
	a := origin(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	b := origin(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	e := newEdge(t, nil, a, b)
	tree := func(origins ...string) *config.Tree {
		t := config.New()
		t.Listeners = []*config.Listener{{Name: "edge"}}
		u := config.Default[config.Upstream]()
		for _, o := range origins {
			p, _ := config.ParseEndpoint(o)
			u.Endpoints = append(u.Endpoints, p)
		}
		t.Upstreams["app"] = u
		t.Routes = []*config.Route{{Name: "all", To: "app"}}
		return t
	}
	stop := make(chan bool)
	failed := make(chan error, 8)
	for range 4 {
		go func() {
			tr := &http.Transport{}
			defer tr.CloseIdleConnections()
			for {
				select {
				case <-stop:
					failed <- nil
					return
				default:
				}
				res, err := (&http.Client{Transport: tr}).Post("http://"+e.addr, "text/plain", strings.NewReader("x"))
				if err == nil {
					var got []byte
					got, err = io.ReadAll(res.Body)
					_ = res.Body.Close()
					if err == nil && (res.StatusCode != 200 || string(got) != "x") {
						err = fmt.Errorf("%d %q", res.StatusCode, got)
					}
				}
				if err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	for i := range 60 {
		next := [][]string{{a}, {b}, {a, b}}[i%3]
		if err := e.gateway.Swap(tree(next...)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Millisecond) // load goes on between reloads
	}
	close(stop)
	var all error
	for range 4 {
		all = errors.Join(all, <-failed)
	}
	if all != nil {
		t.Error(all)
	}
}

func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}
