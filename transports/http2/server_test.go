package http2

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hanzoai/pqgw/exchange"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// handlerFunc serves exchanges by a function.
type handlerFunc func(x *exchange.Exchange)

func (f handlerFunc) Serve(x *exchange.Exchange) { f(x) }

// text answers with a status and a text.
func text(x *exchange.Exchange, status int, s string) {
	x.Response.Reset(nil)
	x.Response.Status = status
	x.Response.AddString("Content-Type", "text/plain")
	_ = x.Responder.Respond(&x.Response, exchange.NewBytes([]byte(s)))
}

// refusing answers refused requests as the gateway does, and lets h serve the others.
func refusing(h handlerFunc) handlerFunc {
	return func(x *exchange.Exchange) {
		if x.Refusal != nil {
			text(x, x.Refusal.Status, x.Refusal.Reason)
			return
		}
		h(x)
	}
}

// server serves a loopback listener until the test ends.
type server struct {
	addr string
	mu   sync.Mutex
	all  []*Conn
	errs []error
}

func serve(t testing.TB, o *Options) *server {
	t.Helper()
	if o.Limits.HeadBytes == 0 {
		o.Limits = exchange.Limits{HeadBytes: 32 << 10, Fields: 128, BodyBytes: 1 << 30}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{addr: l.Addr().String()}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			c := NewConn(nc, &exchange.Conn{Protocol: exchange.HTTP2}, o, nil)
			s.mu.Lock()
			s.all = append(s.all, c)
			s.mu.Unlock()
			wg.Go(func() {
				err := c.Serve()
				s.mu.Lock()
				s.errs = append(s.errs, err)
				s.mu.Unlock()
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		s.mu.Lock()
		for _, c := range s.all {
			c.Close()
		}
		s.mu.Unlock()
		wg.Wait()
	})
	return s
}

// transport is Go's own client with prior knowledge.
func transport(t testing.TB) *http.Transport {
	tr := &http.Transport{Protocols: new(http.Protocols), DisableCompression: true}
	tr.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// seen is an answer as a client has read it.
type seen struct {
	status          int
	header, trailer http.Header
	body            string
}

func get(t *testing.T, tr http.RoundTripper, url string) seen {
	t.Helper()
	return do(t, tr, mustRequest(url))
}

func do(t *testing.T, tr http.RoundTripper, req *http.Request) seen {
	t.Helper()
	res, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return seen{res.StatusCode, res.Header, res.Trailer, string(b)}
}

func TestARequestIsServed(t *testing.T) {
	s := serve(t, &Options{Handler: handlerFunc(func(x *exchange.Exchange) {
		q := &x.Request
		text(x, 200, fmt.Sprintf("%s %s %s %s", q.MethodName(), q.Authority(), q.Target(), q.Scheme()))
	})})
	tr := transport(t)
	for range 3 {
		a := get(t, tr, "http://"+s.addr+"/a?b=c")
		if a.status != 200 || a.body != "GET "+s.addr+" /a?b=c http" || a.header.Get("Content-Type") != "text/plain" {
			t.Fatalf("%+v", a)
		}
	}
}

func TestBodiesArriveWholeBothWays(t *testing.T) {
	s := serve(t, &Options{StreamWindow: 70_000, Handler: handlerFunc(func(x *exchange.Exchange) {
		x.Response.Status = 200
		x.Response.AddString("X-Length", fmt.Sprint(x.Request.Length))
		_, whole := x.Body.Whole()
		x.Response.AddString("X-Whole", fmt.Sprint(whole))
		if err := x.Responder.Respond(&x.Response, x.Body); err != nil {
			t.Error(err)
		}
		if x.BytesIn != x.BytesOut || x.BytesIn == 0 {
			t.Errorf("%d in, %d out", x.BytesIn, x.BytesOut)
		}
	})})
	tr := transport(t)
	for _, size := range []int{1, 100, 16375, 16384, 16385, 65536, 65537, 1 << 20, 5 << 20} {
		for _, declared := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d bytes, length declared %v", size, declared), func(t *testing.T) {
				sent := strings.Repeat("0123456789abcdef", size/16+1)[:size]
				req, _ := http.NewRequest(http.MethodPost, "http://"+s.addr+"/", strings.NewReader(sent))
				if !declared {
					req.Body = io.NopCloser(io.MultiReader(strings.NewReader(sent)))
					req.ContentLength = -1
				}
				a := do(t, tr, req)
				if a.body != sent {
					t.Fatalf("%d bytes came back", len(a.body))
				}
				if whole := a.header.Get("X-Whole") == "true"; declared && size <= wholeBody && !whole {
					t.Error("a small body was not gathered")
				}
			})
		}
	}
}

func TestTrailersPassBothWays(t *testing.T) {
	s := serve(t, &Options{Handler: handlerFunc(func(x *exchange.Exchange) {
		if !x.Request.TETrailers {
			t.Error("te: trailers was lost")
		}
		x.Response.Status = 200
		if err := x.Responder.Respond(&x.Response, x.Body); err != nil {
			t.Error(err)
		}
	})})
	req, _ := http.NewRequest(http.MethodPost, "http://"+s.addr+"/", io.MultiReader(strings.NewReader("body")))
	req.Header.Set("Te", "trailers")
	req.Trailer = http.Header{"X-Sum": {"42"}}
	a := do(t, transport(t), req)
	if a.body != "body" || a.trailer.Get("X-Sum") != "42" {
		t.Errorf("body %q, trailers %v", a.body, a.trailer)
	}
}

func TestManyStreamsShareAConnection(t *testing.T) {
	s := serve(t, &Options{Handler: handlerFunc(func(x *exchange.Exchange) {
		text(x, 200, strings.Repeat(string(x.Request.Target()), 5000))
	})})
	tr := transport(t)
	get(t, tr, "http://"+s.addr+"/") // so that there is a connection to share
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			path := fmt.Sprintf("/%d", i)
			res, err := tr.RoundTrip(mustRequest("http://" + s.addr + path))
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			if b, err := io.ReadAll(res.Body); err != nil || string(b) != strings.Repeat(path, 5000) {
				t.Errorf("%s: %d bytes, %v", path, len(b), err)
			}
		})
	}
	wg.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) != 1 {
		t.Errorf("%d connections", len(s.all))
	}
}

func mustRequest(url string) *http.Request {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		panic(err)
	}
	return req
}

func TestShutdownFinishesWhatRuns(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	s := serve(t, &Options{Handler: handlerFunc(func(x *exchange.Exchange) {
		close(started)
		<-release
		text(x, 200, "done")
	})})
	got := make(chan string)
	tr := transport(t)
	go func() {
		res, err := tr.RoundTrip(mustRequest("http://" + s.addr + "/"))
		if err != nil {
			got <- err.Error()
			return
		}
		b, _ := io.ReadAll(res.Body)
		res.Body.Close()
		got <- string(b)
	}()
	<-started
	s.mu.Lock()
	c := s.all[0]
	s.mu.Unlock()
	c.Shutdown()
	close(release)
	if body := <-got; body != "done" {
		t.Errorf("got %q", body)
	}
	eventually(t, "the connection ends", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.errs) == 1
	})
	if s.errs[0] != nil {
		t.Errorf("Serve: %v", s.errs[0])
	}
}

// eventually polls until ok, for at most five seconds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("not so in time: %s", what)
}

func TestTheHandlerLearnsThatTheClientIsGone(t *testing.T) {
	cancelled := make(chan error, 1)
	started := make(chan struct{})
	s := serve(t, &Options{Handler: handlerFunc(func(x *exchange.Exchange) {
		done := make(chan struct{})
		c := &exchange.Canceller{Cancel: func(error) { close(done) }}
		if err := x.OnCancel(c); err != nil {
			t.Error(err)
		}
		close(started)
		<-done
		cancelled <- x.Cancelled()
		x.Responder.Abort(nil)
	})})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-started
		cancel()
	}()
	_, err := transport(t).RoundTrip(mustRequest("http://" + s.addr + "/").WithContext(ctx))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("client: %v", err)
	}
	if err := <-cancelled; !errors.Is(err, exchange.ErrClientGone) {
		t.Errorf("reason %v", err)
	}
}
