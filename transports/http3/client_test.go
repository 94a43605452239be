package http3

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	qhttp3 "github.com/quic-go/quic-go/http3"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/deadline"
)

// theirs serves an http.Handler by quic-go's server.
func theirs(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	s := &qhttp3.Server{Handler: h, TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate()}}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(udp)
	}()
	t.Cleanup(func() {
		_ = s.Close()
		_ = udp.Close()
		<-done
	})
	return udp.LocalAddr().String()
}

func dialOurs(t testing.TB, addr string) *ClientConn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	qc, err := quic.DialAddr(ctx, addr, clientTLS(), &quic.Config{MaxIncomingStreams: -1})
	if err != nil {
		t.Fatal(err)
	}
	w := deadline.New()
	c, err := NewClientConn(qc, &exchange.Conn{Protocol: exchange.HTTP3}, &ClientOptions{
		Watch: w, Limits: exchange.Limits{HeadBytes: 32 << 10, Fields: 100},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); w.Close() })
	return c
}

// asked is a request to send.
func asked(method, target string, more ...string) *exchange.Exchange {
	x := new(exchange.Exchange)
	h := &x.Request
	h.Reset(nil)
	h.SetMethod([]byte(method))
	h.SetAuthority([]byte("localhost"))
	h.SetTarget([]byte(target))
	for i := 0; i < len(more); i += 2 {
		h.AddString(more[i], more[i+1])
	}
	return x
}

// answered is what came back.
type answered struct {
	status   int
	head     exchange.Head
	body     string
	trailers *exchange.Head
	interims []int
}

// whole makes one call from begin to end; the body is streamed beside the answer where it is not whole.
func whole(t *testing.T, c *ClientConn, x *exchange.Exchange, body exchange.Source, timeouts exchange.Timeouts) (a answered, err error) {
	t.Helper()
	k, err := c.Call()
	if err != nil {
		return a, err
	}
	var wg sync.WaitGroup
	defer func() {
		wg.Wait()
		k.Finish()
	}()
	if err := k.Send(x, body, timeouts); err != nil {
		return a, err
	}
	if body != nil {
		if _, ok := body.Whole(); !ok {
			wg.Go(func() { _ = k.SendBody(body) })
		}
	}
	for a.status < 200 {
		if err := k.ReadHead(&a.head); err != nil {
			body := body
			if body != nil {
				body.Close(err)
			}
			return a, err
		}
		if a.status = a.head.Status; a.status < 200 {
			a.interims = append(a.interims, a.status)
		}
	}
	src := k.Body()
	if src == nil {
		return a, nil
	}
	b, err := io.ReadAll(src)
	a.body, a.trailers = string(b), src.Trailers()
	if tr := a.trailers; tr != nil {
		copied := new(exchange.Head)
		copied.Reset(nil)
		copied.CopyFields(tr)
		a.trailers = copied
	}
	return a, err
}

// streamed is a source that is never whole.
type streamed struct {
	exchange.Source
	trailers *exchange.Head
	fail     error
}

func (s *streamed) Whole() ([]byte, bool)    { return nil, false }
func (s *streamed) Length() int64            { return -1 }
func (s *streamed) Trailers() *exchange.Head { return s.trailers }
func (s *streamed) Next() ([]byte, error) {
	if s.fail != nil {
		return nil, s.fail
	}
	return s.Source.Next()
}

func TestCallsAreAnswered(t *testing.T) {
	addr := theirs(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Seen", fmt.Sprintf("%s %s %s %d %s", r.Method, r.Host, r.RequestURI, r.ContentLength, "["+r.Header.Get("X-Mine")+"]"))
		switch r.URL.Path {
		case "/204":
			w.WriteHeader(204)
		case "/304":
			w.WriteHeader(304)
		case "/early":
			w.Header().Set("Link", "</a>")
			w.WriteHeader(103)
			_, _ = w.Write([]byte("after"))
		case "/trailers":
			w.Header().Set("Trailer", "X-Sum")
			_, _ = w.Write(b)
			w.Header().Set("X-Sum", r.Trailer.Get("X-Up"))
		default:
			_, _ = w.Write(b)
		}
	})
	c := dialOurs(t, addr)
	for _, size := range []int{0, 1, 1000, 70_000, 3 << 20} {
		want := strings.Repeat("x", size)
		for name, body := range map[string]exchange.Source{"whole": exchange.NewBytes([]byte(want)), "streamed": &streamed{Source: exchange.NewBytes([]byte(want))}} {
			a, err := whole(t, c, asked("POST", "/a?b", "X-Mine", "1"), body, exchange.Timeouts{})
			if err != nil || a.status != 200 || a.body != want {
				t.Errorf("%s, %d bytes: %d, %d bytes, %v", name, size, a.status, len(a.body), err)
			}
		}
	}
	a, err := whole(t, c, asked("GET", "/x", "X-Mine", "2"), nil, exchange.Timeouts{})
	if err != nil || string(a.head.Value(a.head.Find("x-seen", 0))) != "GET localhost /x -1 [2]" || a.body != "" {
		t.Errorf("%+v %v", a, err)
	}
	for path, status := range map[string]int{"/204": 204, "/304": 304} {
		if a, err := whole(t, c, asked("GET", path), nil, exchange.Timeouts{}); err != nil || a.status != status || a.body != "" {
			t.Errorf("%s: %+v %v", path, a, err)
		}
	}
	if a, err := whole(t, c, asked("HEAD", "/"), nil, exchange.Timeouts{}); err != nil || a.body != "" {
		t.Errorf("%+v %v", a, err)
	}
	if a, err := whole(t, c, asked("GET", "/early"), nil, exchange.Timeouts{}); err != nil || a.body != "after" || fmt.Sprint(a.interims) != "[103]" {
		t.Errorf("%+v %v", a, err)
	}
	var up exchange.Head
	up.Reset(nil)
	up.AddString("X-Up", "7")
	x := asked("POST", "/trailers", "Trailer", "X-Up")
	a, err = whole(t, c, x, &streamed{Source: exchange.NewBytes([]byte("body")), trailers: &up}, exchange.Timeouts{})
	if err != nil || a.body != "body" || a.trailers == nil || string(a.trailers.Value(0)) != "7" {
		t.Errorf("%+v %v", a, err)
	}
}

func TestManyCallsShareAConnection(t *testing.T) {
	s := serve(t, &Options{Handler: handlerFunc(echo)})
	c := dialOurs(t, s.addr)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			for range 20 {
				want := strings.Repeat(fmt.Sprint(i), 500)
				a, err := whole(t, c, asked("POST", "/"), exchange.NewBytes([]byte(want)), exchange.Timeouts{})
				for errors.Is(err, exchange.ErrConnBusy) { // the server's leave for more is on its way
					runtime.Gosched()
					a, err = whole(t, c, asked("POST", "/"), exchange.NewBytes([]byte(want)), exchange.Timeouts{})
				}
				if err != nil || a.body != want {
					t.Errorf("%d: %d bytes, %v", i, len(a.body), err)
				}
			}
		})
	}
	wg.Wait()
}

func TestCallsBeyondTheServersLimitFindItBusy(t *testing.T) {
	release := make(chan struct{})
	s := serveQUIC(t, &Options{Handler: handlerFunc(func(x *exchange.Exchange) { <-release; text(x, 200, "ok") })},
		&quic.Config{MaxIncomingStreams: 2, RequireStreamCreditRelease: true})
	c := dialOurs(t, s.addr)
	var wg sync.WaitGroup
	for range 2 {
		k, err := c.Call()
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			var h exchange.Head
			_ = k.Send(asked("GET", "/"), nil, exchange.Timeouts{})
			if err := k.ReadHead(&h); err != nil {
				t.Error(err)
			}
			k.Finish()
		})
	}
	if _, err := c.Call(); !errors.Is(err, exchange.ErrConnBusy) {
		t.Error(err)
	}
	if c.Capacity() != 2 || !c.Usable() {
		t.Error(c.Capacity(), c.Usable())
	}
	close(release)
	wg.Wait()
}

func TestACallThatIsCancelledEndsOnBothSides(t *testing.T) {
	entered, gone := make(chan struct{}, 1), make(chan error, 1)
	addr := theirs(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(200)
		_ = http.NewResponseController(w).Flush()
		entered <- struct{}{}
		<-r.Context().Done()
		gone <- r.Context().Err()
	})
	c := dialOurs(t, addr)
	k, err := c.Call()
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Send(asked("GET", "/"), nil, exchange.Timeouts{}); err != nil {
		t.Fatal(err)
	}
	var h exchange.Head
	if err := k.ReadHead(&h); err != nil {
		t.Fatal(err)
	}
	<-entered
	reason := errors.New("the client went away")
	go k.Canceller().Cancel(reason)
	if _, err := io.ReadAll(k.Body()); !errors.Is(err, reason) {
		t.Errorf("the body: %v", err)
	}
	select {
	case <-gone:
	case <-time.After(5 * time.Second):
		t.Error("the server was not told")
	}
	if !k.Finish() {
		t.Error("the connection is not usable any more")
	}
	k.Canceller().Cancel(reason) // late, and without effect
	if _, err := c.Call(); err != nil {
		t.Error(err)
	}
}

func TestTimeoutsOfACall(t *testing.T) {
	release := make(chan struct{})
	addr := theirs(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/body" {
			w.Header().Set("Content-Length", "10")
			_, _ = w.Write([]byte("half"))
			_ = http.NewResponseController(w).Flush()
		}
		<-release
	})
	defer close(release)
	c := dialOurs(t, addr)
	for _, path := range []string{"/head", "/body"} {
		_, err := whole(t, c, asked("GET", path), nil, exchange.Timeouts{FirstByte: time.Millisecond, Idle: time.Millisecond})
		var up *exchange.UpstreamError
		if !errors.Is(err, exchange.ErrTimeout) || !errors.As(err, &up) || up.Answered != (path == "/body") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// rawServer answers connections by hand.
func rawServer(t *testing.T, serve func(qc *quic.Conn, control *quic.SendStream)) string {
	t.Helper()
	l, err := quic.ListenAddr("127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate()}, NextProtos: []string{ALPN}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		qc, err := l.Accept(context.Background())
		if err != nil {
			return
		}
		control, _ := qc.OpenUniStream()
		_, _ = control.Write(emptySettings)
		serve(qc, control)
		<-qc.Context().Done()
	})
	t.Cleanup(func() { wg.Wait(); _ = l.Close() })
	return l.Addr().String()
}

func TestWhatTheServerDidNotProcessIsToldSo(t *testing.T) {
	for name, serve := range map[string]func(qc *quic.Conn, control *quic.SendStream){
		"rejected": func(qc *quic.Conn, _ *quic.SendStream) {
			str, _ := qc.AcceptStream(context.Background())
			str.CancelWrite(quic.StreamErrorCode(RequestRejected))
			str.CancelRead(quic.StreamErrorCode(RequestRejected))
		},
		"beyond GOAWAY": func(qc *quic.Conn, control *quic.SendStream) {
			_, _ = qc.AcceptStream(context.Background())
			_, _ = control.Write([]byte{frameGoAway, 1, 0})
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := dialOurs(t, rawServer(t, serve))
			_, err := whole(t, c, asked("POST", "/"), nil, exchange.Timeouts{})
			if !errors.Is(err, exchange.ErrNotSent) {
				t.Error(err)
			}
			if usable := c.Usable(); usable != (name == "rejected") {
				t.Errorf("usable: %v", usable)
			}
			c.Close()
		})
	}
}

func TestAnswersThatAreNotHTTP(t *testing.T) {
	for name, tt := range map[string]struct {
		sent []byte
		end  bool
		conn bool // the connection ends, too
	}{
		"no status":          {fields("a", "b"), true, false},
		"a bad status":       {fields(":status", "2000"), true, false},
		"an upper-case name": {fields(":status", "200", "A", "b"), true, false},
		"DATA first":         {data("x"), true, true},
		"nothing":            {nil, true, false},
		"a body too long":    {append(fields(":status", "200", "content-length", "1"), data("xyz")...), true, false},
		"a body too short":   {append(fields(":status", "200", "content-length", "9"), data("xyz")...), true, false},
		"PUSH_PROMISE":       {append(fields(":status", "200"), framePushPromise, 1, 0), true, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := dialOurs(t, rawServer(t, func(qc *quic.Conn, _ *quic.SendStream) {
				str, err := qc.AcceptStream(context.Background())
				if err != nil {
					return
				}
				_, _ = io.ReadAll(str)
				_, _ = str.Write(tt.sent)
				_ = str.Close()
			}))
			if a, err := whole(t, c, asked("GET", "/"), nil, exchange.Timeouts{}); err == nil {
				t.Errorf("taken for %+v", a)
			}
			if c.Usable() == tt.conn {
				t.Errorf("usable: %v", c.Usable())
			}
			c.Close()
		})
	}
}

func TestAWebSocketRidesExtendedCONNECT(t *testing.T) {
	s := serve(t, &Options{Handler: handlerFunc(func(x *exchange.Exchange) {
		if x.Request.Has(exchange.SecWebSocketKey) {
			t.Error("Sec-WebSocket-Key came along")
		}
		tun, err := x.Responder.Tunnel(&x.Response)
		if err != nil {
			t.Error(err)
			return
		}
		b, _ := io.ReadAll(tun)
		_, _ = tun.Write(bytes.ToUpper(b))
		_ = tun.CloseWrite()
		_ = tun.Close()
	})})
	c := dialOurs(t, s.addr)
	k, err := c.Call()
	if err != nil {
		t.Fatal(err)
	}
	defer k.Finish()
	x := asked("GET", "/chat", "Sec-WebSocket-Key", "abc")
	x.Request.SetProtocol([]byte("websocket"))
	if err := k.Send(x, nil, exchange.Timeouts{FirstByte: 5 * time.Second}); err != nil {
		t.Fatal(err)
	}
	var h exchange.Head
	if err := k.ReadHead(&h); err != nil || h.Status != 200 {
		t.Fatal(h.Status, err)
	}
	tun, err := k.Tunnel()
	if err != nil {
		t.Fatal(err)
	}
	_, _ = tun.Write([]byte("hello"))
	_ = tun.CloseWrite()
	if b, err := io.ReadAll(tun); err != nil || string(b) != "HELLO" {
		t.Errorf("%q %v", b, err)
	}
}

func TestATunnelThatTheServerDoesNotOffer(t *testing.T) {
	c := dialOurs(t, rawServer(t, func(*quic.Conn, *quic.SendStream) {}))
	k, err := c.Call()
	if err != nil {
		t.Fatal(err)
	}
	x := asked("GET", "/chat")
	x.Request.SetProtocol([]byte("websocket"))
	if err := k.Send(x, nil, exchange.Timeouts{FirstByte: 5 * time.Second}); !errors.Is(err, exchange.ErrTunnel) {
		t.Error(err)
	}
	k.Finish()
	c.Close()
}

func TestAnEarlyAnswerEndsAnUploadAndNoError(t *testing.T) {
	s := serve(t, &Options{Handler: handlerFunc(func(x *exchange.Exchange) { text(x, 413, "too much") })})
	c := dialOurs(t, s.addr)
	endless := &streamed{Source: new(forever)}
	a, err := whole(t, c, asked("POST", "/"), endless, exchange.Timeouts{})
	if err != nil || a.status != 413 || a.body != "too much" {
		t.Errorf("%+v %v", a, err)
	}
}

// forever is a body without end.
type forever struct{ exchange.Bytes }

func (*forever) Next() ([]byte, error) { return make([]byte, 10_000), nil }
func (*forever) Buffered() int         { return 1 }
func (*forever) Length() int64         { return -1 }

func TestABodyThatFailsResetsTheRequest(t *testing.T) {
	entered, got := make(chan struct{}), make(chan error, 1)
	s := serve(t, &Options{Handler: handlerFunc(func(x *exchange.Exchange) {
		close(entered)
		_, err := io.ReadAll(x.Body)
		got <- err
		x.Responder.Abort(err)
	})})
	c := dialOurs(t, s.addr)
	k, err := c.Call()
	if err != nil {
		t.Fatal(err)
	}
	defer k.Finish()
	gone := errors.New("gone")
	body := &streamed{Source: exchange.NewBytes(nil), fail: gone}
	if err := k.Send(asked("POST", "/"), body, exchange.Timeouts{}); err != nil {
		t.Fatal(err)
	}
	<-entered
	if err := k.SendBody(body); !errors.Is(err, gone) {
		t.Error(err)
	}
	if err := <-got; !errors.Is(err, exchange.ErrClientGone) {
		t.Errorf("the server took it for whole: %v", err)
	}
}
