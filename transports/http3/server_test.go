package http3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/serial/serialtest"
)

func TestARequestIsServed(t *testing.T) {
	s := serve(t, &Options{Handler: handlerFunc(func(x *exchange.Exchange) {
		q := &x.Request
		if x.Body != nil {
			t.Error("a GET has a body")
		}
		text(x, 200, fmt.Sprintf("%s %s %s %s", q.MethodName(), q.Authority(), q.Target(), q.Scheme()))
	})})
	tr := transport(t)
	for range 3 {
		res, body := get(t, tr, s.url+"/a?b=c")
		if res.StatusCode != 200 || body != "GET "+s.addr+" /a?b=c https" || res.Header.Get("Content-Type") != "text/plain" ||
			res.ContentLength != int64(len(body)) {
			t.Fatalf("%d %q %v", res.StatusCode, body, res.Header)
		}
	}
}

// echo sends the body back.
func echo(x *exchange.Exchange) {
	x.Response.Status = 200
	x.Response.AddString("X-Length", fmt.Sprint(x.Request.Length))
	whole := false
	if x.Body != nil {
		_, whole = x.Body.Whole()
	}
	x.Response.AddString("X-Whole", fmt.Sprint(whole))
	if err := x.Responder.Respond(&x.Response, x.Body); err != nil {
		x.Responder.Abort(err)
	}
}

func TestBodiesArriveWholeBothWays(t *testing.T) {
	s := serve(t, &Options{Handler: handlerFunc(echo)})
	tr := transport(t)
	for _, size := range []int{0, 1, 1000, 5000, 64 << 10, 64<<10 + 1, 1 << 20, 20 << 20} {
		for _, known := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d bytes, length known: %v", size, known), func(t *testing.T) {
				want := bytes.Repeat([]byte("0123456789abcdef!"), size/17+1)[:size]
				var body io.Reader = bytes.NewReader(want)
				if !known {
					body = io.MultiReader(body)
				}
				req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url, body)
				res, got := do(t, tr, req)
				if res.StatusCode != 200 || got != string(want) {
					t.Fatalf("%d, %d bytes of %d", res.StatusCode, len(got), size)
				}
				if whole := res.Header.Get("X-Whole") == "true"; whole != (known && size > 0 && size <= wholeBody) && size > 0 {
					t.Errorf("whole: %v", whole)
				}
			})
		}
	}
}

func TestAnswersWithoutBodyEndAtTheirHead(t *testing.T) {
	s := serve(t, &Options{Handler: handlerFunc(func(x *exchange.Exchange) {
		h := &x.Response
		h.Status = 200
		switch string(x.Request.Target()) {
		case "/204":
			h.Status = 204
		case "/304":
			h.Status, h.Length = 304, 77
		case "/head":
			h.Length = 99
		}
		if err := x.Responder.Respond(h, exchange.NewBytes([]byte("never seen"))); err != nil {
			t.Error(err)
		}
	})})
	tr := transport(t)
	for _, tt := range []struct {
		method, path string
		status       int
		length       string
	}{{"GET", "/204", 204, ""}, {"GET", "/304", 304, "77"}, {"HEAD", "/head", 200, "99"}} {
		req, _ := http.NewRequestWithContext(t.Context(), tt.method, s.url+tt.path, nil)
		res, body := do(t, tr, req)
		if res.StatusCode != tt.status || body != "" || res.Header.Get("Content-Length") != tt.length {
			t.Errorf("%s %s: %d %q %v", tt.method, tt.path, res.StatusCode, body, res.Header)
		}
	}
}

func TestTrailersPassBothWays(t *testing.T) {
	s := serve(t, &Options{Handler: handlerFunc(func(x *exchange.Exchange) {
		b, err := io.ReadAll(x.Body)
		if err != nil {
			t.Error(err)
		}
		x.Response.Status = 200
		x.Response.AddString("Trailer", "X-Sum")
		sink, err := x.Responder.Start(&x.Response, -1)
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = sink.Write(b)
		var tr exchange.Head
		tr.Reset(nil)
		tr.AddString("X-Sum", string(x.Body.Trailers().Value(0)))
		if err := sink.Finish(&tr); err != nil {
			t.Error(err)
		}
	})})
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url, io.MultiReader(strings.NewReader("body")))
	req.Trailer = http.Header{"X-Up": {"42"}}
	res, body := do(t, transport(t), req)
	if body != "body" || res.Trailer.Get("X-Sum") != "42" {
		t.Errorf("%q %v", body, res.Trailer)
	}
}

func TestInterimAnswersPrecedeTheFinalOne(t *testing.T) {
	s := serve(t, &Options{Handler: handlerFunc(func(x *exchange.Exchange) {
		x.Response.Status = 103
		x.Response.AddString("Link", "</a.css>")
		if err := x.Responder.Interim(&x.Response); err != nil {
			t.Error(err)
		}
		text(x, 200, "done")
	})})
	var hints []string
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		hints = append(hints, fmt.Sprint(code, h.Get("Link")))
		return nil
	}})
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if _, body := do(t, transport(t), req); body != "done" || len(hints) != 1 || hints[0] != "103</a.css>" {
		t.Errorf("%q %q", body, hints)
	}
}

func TestTheClientIsAskedForTheBodyItHoldsBack(t *testing.T) {
	s := serve(t, &Options{Handler: handlerFunc(func(x *exchange.Exchange) {
		b, err := io.ReadAll(x.Body)
		if err != nil {
			t.Error(err)
		}
		text(x, 200, string(b))
	})})
	r := dialRaw(t, s, emptySettings)
	str := r.open(fields(":method", "POST", ":scheme", "https", ":authority", "localhost", ":path", "/",
		"content-length", "4", "expect", "100-continue"), false)
	first := reader{str: str}
	defer first.free()
	frame, n, err := first.header()
	if err != nil || frame != frameHeaders {
		t.Fatal(frame, err)
	}
	p, _ := first.payload(int(n))
	var h exchange.Head
	if _, err := readResponse(new(decoder), &h, &h, p, &exchange.Limits{}); err != nil || h.Status != 100 {
		t.Fatal(h.Status, err)
	}
	_, _ = str.Write(data("body"))
	_ = str.Close()
	if h, body := readAnswer(t, str); h.Status != 200 || body != "body" {
		t.Errorf("%d %q", h.Status, body)
	}
}

func TestAnAnswerBeforeTheRequestsEndReachesTheClient(t *testing.T) {
	s := serve(t, &Options{Handler: handlerFunc(func(x *exchange.Exchange) { text(x, 413, "too much") })})
	r := dialRaw(t, s, emptySettings)
	str := r.open(fields(":method", "POST", ":scheme", "https", ":authority", "localhost", ":path", "/"), false)
	if h, body := readAnswer(t, str); h.Status != 413 || body != "too much" {
		t.Errorf("%d %q", h.Status, body)
	}
	err := error(nil)
	for end := time.Now().Add(5 * time.Second); err == nil && time.Now().Before(end); {
		_, err = str.Write(data(strings.Repeat("x", 1000)))
	}
	var e *quic.StreamError
	if !errors.As(err, &e) || ErrCode(e.ErrorCode) != NoError || !e.Remote {
		t.Errorf("the client is not asked to stop: %v", err)
	}
}

func TestAClientThatGivesUpCancels(t *testing.T) {
	entered, cancelled := make(chan struct{}, 2), make(chan error, 2)
	s := serve(t, &Options{Handler: handlerFunc(func(x *exchange.Exchange) {
		reasons := make(chan error, 1)
		c := &exchange.Canceller{Cancel: func(reason error) { reasons <- reason }}
		if err := x.OnCancel(c); err != nil {
			reasons <- err
		}
		entered <- struct{}{}
		reason := <-reasons
		cancelled <- reason
		x.Responder.Abort(reason)
	})})
	for _, way := range []string{"stream", "connection"} {
		t.Run(way, func(t *testing.T) {
			r := dialRaw(t, s, emptySettings)
			str := r.open(request(), true)
			<-entered
			if way == "stream" {
				str.CancelRead(quic.StreamErrorCode(RequestCancelled))
			} else {
				_ = r.qc.CloseWithError(0x100, "")
			}
			select {
			case err := <-cancelled:
				if !errors.Is(err, exchange.ErrClientGone) {
					t.Error(err)
				}
			case <-time.After(5 * time.Second):
				t.Fatal("the handler was not told")
			}
		})
	}
}

func TestAnAnswerIsCutWhereItsBodyIs(t *testing.T) {
	s := serve(t, &Options{Handler: handlerFunc(func(x *exchange.Exchange) {
		x.Response.Status = 200
		sink, _ := x.Responder.Start(&x.Response, 100)
		_, _ = sink.Write([]byte("some"))
		_ = sink.Flush()
		if string(x.Request.Target()) == "/forget" {
			return
		}
		sink.Reset(errors.New("upstream gone"))
	})})
	tr := transport(t)
	for _, path := range []string{"/reset", "/forget"} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+path, nil)
		res, err := tr.RoundTrip(req)
		if err == nil {
			_, err = io.ReadAll(res.Body)
			_ = res.Body.Close()
		}
		if err == nil {
			t.Errorf("%s: the answer looks whole", path)
		}
	}
}

func TestATunnelCarriesBytesBothWays(t *testing.T) {
	s := serve(t, &Options{Handler: refusing(func(x *exchange.Exchange) {
		if string(x.Request.Protocol()) != "websocket" {
			text(x, 400, "no upgrade")
			return
		}
		x.Response.AddString("Sec-WebSocket-Protocol", "chat")
		tun, err := x.Responder.Tunnel(&x.Response)
		if err != nil {
			t.Error(err)
			return
		}
		b, err := io.ReadAll(tun)
		if err != nil {
			t.Error(err)
		}
		_, _ = tun.Write(bytes.ToUpper(b))
		_ = tun.CloseWrite()
		_ = tun.Close()
	})})
	r := dialRaw(t, s, emptySettings)
	str := r.open(fields(":method", "CONNECT", ":protocol", "websocket", ":scheme", "https", ":authority", "localhost", ":path", "/chat"), false)
	for _, p := range []string{"hello ", "", "tunnel"} {
		_, _ = str.Write(data(p))
	}
	_ = str.Close()
	if h, body := readAnswer(t, str); h.Status != 200 || body != "HELLO TUNNEL" || h.Find("sec-websocket-protocol", 0) < 0 {
		t.Errorf("%d %q", h.Status, body)
	}
}

func TestShutdownServesWhatRunsAndRejectsTheRest(t *testing.T) {
	entered, release := make(chan struct{}, 10), make(chan struct{})
	s := serve(t, &Options{Handler: handlerFunc(func(x *exchange.Exchange) {
		entered <- struct{}{}
		<-release
		text(x, 200, strings.Repeat("served ", 10_000))
	})})
	r := dialRaw(t, s, emptySettings)
	running := r.open(request(), true)
	<-entered
	c := s.conn(t)
	c.Shutdown()
	c.Shutdown()
	control, err := r.qc.AcceptUniStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = control.SetReadDeadline(time.Now().Add(5 * time.Second))
	var ids []uint64
	cr := reader{str: control}
	defer cr.free()
	if kind, err := cr.integer(); err != nil || kind != streamControl {
		t.Fatal(kind, err)
	}
	for len(ids) < 2 {
		frame, n, err := cr.header()
		if err != nil {
			t.Fatal(err)
		}
		p, _ := cr.payload(int(n))
		if frame == frameGoAway {
			id := reader{str: bytes.NewReader(p)}
			v, _ := id.integer()
			id.free()
			ids = append(ids, v)
		}
	}
	if ids[0] != uint64(noLimit) || ids[1] != 4 {
		t.Errorf("GOAWAY %d", ids)
	}
	late := r.open(request(), true)
	_, err = late.Read(make([]byte, 1))
	var e *quic.StreamError
	if !errors.As(err, &e) || ErrCode(e.ErrorCode) != RequestRejected {
		t.Errorf("a late request: %v", err)
	}
	close(release)
	if h, body := readAnswer(t, running); h.Status != 200 || len(body) != 70_000 {
		t.Errorf("%d, %d bytes", h.Status, len(body))
	}
	if code := r.closed(); code != NoError {
		t.Error(code)
	}
	<-s.told
	if s.errs[0] != nil {
		t.Error(s.errs[0])
	}
}

func TestAConnectionEndsAfterSoManyRequests(t *testing.T) {
	s := serve(t, &Options{MaxRequests: 3, Handler: handlerFunc(func(x *exchange.Exchange) { text(x, 200, "ok") })})
	tr := transport(t)
	for range 10 {
		if _, body := get(t, tr, s.url); body != "ok" {
			t.Fatal(body)
		}
		time.Sleep(30 * time.Millisecond) //nolint:forbidigo // the client's pace, not a wait for a state
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) < 2 {
		t.Errorf("%d connections", len(s.all))
	}
}

func TestAnIdleConnectionEndsInGoodOrder(t *testing.T) {
	s := serve(t, &Options{IdleTimeout: time.Millisecond, Handler: handlerFunc(echo)})
	r := dialRaw(t, s, emptySettings)
	if code := r.closed(); code != NoError {
		t.Error(code)
	}
}

func TestSlowClientsAreToldSo(t *testing.T) {
	s := serve(t, &Options{HeadTimeout: time.Millisecond, StreamIdle: time.Millisecond, Handler: refusing(func(x *exchange.Exchange) {
		_, err := io.ReadAll(x.Body)
		var r *exchange.Refusal
		if !errors.As(err, &r) {
			t.Error(err)
			return
		}
		text(x, r.Status, r.Reason)
	})})
	r := dialRaw(t, s, emptySettings)
	post := fields(":method", "POST", ":scheme", "https", ":authority", "localhost", ":path", "/", "content-length", "10")
	for name, tt := range map[string]struct {
		sent []byte
		want string
	}{
		"a head that stops":          {post[:10], "head_timeout"},
		"a GET that does not end":    {request(), "head_timeout"},
		"a small body that stops":    {append(post, data("12345")...), "body_timeout"},
		"a long body that stops":     {append(fields(":method", "POST", ":scheme", "https", ":authority", "l", ":path", "/"), data("1")...), "body_timeout"},
		"a frame of body that stops": {append(post, 0, 10, 'a'), "body_timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			if h, body := readAnswer(t, r.open(tt.sent, false)); h.Status != 408 || body != tt.want {
				t.Errorf("%d %q", h.Status, body)
			}
		})
	}
}

func TestAClientThatMakesNoRoomIsCut(t *testing.T) {
	for name, body := range map[string]func() exchange.Source{
		"whole": func() exchange.Source { return exchange.NewBytes(make([]byte, 64<<20)) },
		"in pieces": func() exchange.Source {
			return &serialtest.Pieces{List: slices.Repeat([]string{string(make([]byte, 64<<10))}, 1000), Announced: -1}
		},
	} {
		t.Run(name, func(t *testing.T) {
			failed := make(chan error, 1)
			s := serve(t, &Options{StreamIdle: time.Hour, WriteTimeout: 100 * time.Millisecond, Handler: refusing(func(x *exchange.Exchange) {
				x.Response.Reset(nil)
				x.Response.Status = 200
				failed <- x.Responder.Respond(&x.Response, body())
			})})
			dialRaw(t, s, emptySettings).open(request(), true) // and read nothing
			var client *exchange.ClientError
			select {
			case err := <-failed:
				if !errors.As(err, &client) {
					t.Errorf("the answer ended with %v, want the client's fault", err)
				}
			case <-time.After(20 * time.Second):
				t.Error("the answer still waits for its client")
			}
		})
	}
}

// What the client sends is no sign that it takes what waits for it.
func TestAClientThatSendsAndMakesNoRoomIsCut(t *testing.T) {
	failed := make(chan error, 1)
	s := serve(t, &Options{StreamIdle: time.Hour, WriteTimeout: 300 * time.Millisecond, Handler: refusing(func(x *exchange.Exchange) {
		read := make(chan struct{})
		go func() {
			defer close(read)
			_, _ = io.Copy(io.Discard, struct{ io.Reader }{x.Body})
		}()
		x.Response.Reset(nil)
		x.Response.Status = 200
		err := x.Responder.Respond(&x.Response, exchange.NewBytes(make([]byte, 64<<20)))
		x.Body.Close(err)
		<-read
		failed <- err
	})})
	str := dialRaw(t, s, emptySettings).open(fields(":method", "POST", ":scheme", "https", ":authority", "localhost", ":path", "/"), false)
	more := time.NewTicker(50 * time.Millisecond)
	defer more.Stop()
	for late := time.After(15 * time.Second); ; {
		select {
		case <-failed:
			return
		case <-late:
			t.Fatal("the answer still waits for its client")
		case <-more.C:
			_, _ = str.Write(data("x"))
		}
	}
}

func TestHandlersOfResetStreamsAreBounded(t *testing.T) {
	var mu sync.Mutex
	now, most := 0, 0
	s := serveQUIC(t, &Options{Handler: handlerFunc(func(x *exchange.Exchange) {
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		time.Sleep(20 * time.Millisecond) //nolint:forbidigo // a handler that takes its time
		mu.Lock()
		now--
		mu.Unlock()
		text(x, 200, "late")
	})}, &quic.Config{MaxIncomingStreams: 8, RequireStreamCreditRelease: true})
	r := dialRaw(t, s, emptySettings)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for range 100 {
		str, err := r.qc.OpenStreamSync(ctx)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = str.Write(request())
		str.CancelRead(quic.StreamErrorCode(RequestCancelled))
		str.CancelWrite(quic.StreamErrorCode(RequestCancelled))
	}
	mu.Lock()
	defer mu.Unlock()
	if most > 8 {
		t.Errorf("%d handlers at a time", most)
	}
}
