package gateway

import (
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/config"
	"github.com/hanzoai/pqgw/exchange"
)

var errReset = errors.New("connection reset by peer")

func TestAnswerIsPassedOn(t *testing.T) {
	u := &fakeUpstream{serve: func(c *fakeCall) error {
		c.body = exchange.NewBytes([]byte("hello"))
		c.answer(200, "Content-Type", "text/plain", "Alt-Svc", `h3=":443"`, "X-App", "1")
		return nil
	}}
	g := newGateway(t, treeTo(1), u)
	for range 3 {
		c := request("GET", "/v1/x?q=1")
		g.Serve(&c.x)
		if c.r.status != 200 || c.r.body.String() != "hello" {
			t.Fatalf("%d %q", c.r.status, c.r.body.String())
		}
		if got := fields(&c.r.head); got != "Content-Type: text/plain\nX-App: 1\n" {
			t.Errorf("fields:\n%s", got)
		}
		if c.x.Log.Route != "all" || c.x.Log.Upstream != "http://10.0.0.1:80" || c.x.Log.Status != 200 || c.x.Log.Err != nil {
			t.Errorf("notes: %+v", c.x.Log)
		}
	}
	if n := u.dials.Load(); n != 1 {
		t.Errorf("%d dials for three requests in turn", n)
	}
}

// failures is an upstream that fails in one way until it has done so n times.
func failures(n int32, how func(*fakeCall) error) *fakeUpstream {
	var left atomic.Int32
	left.Store(n)
	good := ok("fine")
	return &fakeUpstream{serve: func(c *fakeCall) error {
		if left.Add(-1) >= 0 {
			return how(c)
		}
		return good(c)
	}}
}

func readFails(err error) func(*fakeCall) error {
	return func(c *fakeCall) error { c.fail(err); return nil }
}

func TestRetries(t *testing.T) {
	closed := readFails(&exchange.UpstreamError{Op: "read head", Err: io.EOF})
	for _, c := range []struct {
		name   string
		method string
		how    func(*fakeCall) error
		times  int32
		status int
		reason string
	}{
		{"a safe request whose connection closed is sent again", "GET", closed, 1, 200, ""},
		{"an idempotent one as well", "DELETE", closed, 1, 200, ""},
		{"one that may have acted is not", "POST", closed, 1, 502, "upstream_closed"},
		{"one that was not processed is, whatever its method", "POST", readFails(&exchange.UpstreamError{Op: "send", Err: exchange.ErrNotSent}), 1, 200, ""},
		{"but only once", "GET", closed, 2, 502, "upstream_closed"},
		{"nothing once an answer has begun", "GET", readFails(&exchange.UpstreamError{Op: "read head", Answered: true, Err: errReset}), 1, 502, "upstream_closed"},
		{"nothing after a timeout", "GET", readFails(&exchange.UpstreamError{Op: "read head", Err: exchange.ErrTimeout}), 1, 504, "upstream_timeout"},
		{"nothing after an answer that is not HTTP", "GET", readFails(&exchange.UpstreamError{Op: "read head", Err: exchange.RefuseFieldName}), 1, 502, "upstream_bad_field_name"},
		{"an upgrade that the protocol cannot do is not tried again", "GET", func(*fakeCall) error { return exchange.ErrTunnel }, 1, 501, "upgrade_not_possible"},
	} {
		for _, endpoints := range []int{1, 2} {
			t.Run(c.name, func(t *testing.T) {
				u := failures(c.times, c.how)
				ups := []*fakeUpstream{u}
				if endpoints == 2 {
					ups = append(ups, &fakeUpstream{serve: u.serve})
				}
				g := newGateway(t, treeTo(endpoints), ups...)
				r := request(c.method, "/")
				g.Serve(&r.x)
				if r.r.status != c.status {
					t.Errorf("status %d, want %d: %s", r.r.status, c.status, r.r.body.String())
				}
				if c.status == 200 && r.x.Log.Err != nil || c.status != 200 && r.x.Log.Err == nil {
					t.Errorf("error noted: %v", r.x.Log.Err)
				}
			})
		}
	}
}

func TestWholeBodyIsSentAgain(t *testing.T) {
	var bodies []string
	good := ok("fine")
	u := &fakeUpstream{serve: func(c *fakeCall) error {
		bodies = append(bodies, c.uploaded.String())
		if len(bodies) == 1 {
			return readFails(&exchange.UpstreamError{Op: "read head", Err: io.EOF})(c)
		}
		return good(c)
	}}
	g := newGateway(t, treeTo(1), u)
	r := request("PUT", "/")
	r.x.Body = exchange.NewBytes([]byte("data"))
	g.Serve(&r.x)
	if r.r.status != 200 || strings.Join(bodies, " ") != "data data" {
		t.Errorf("%d after %q", r.r.status, bodies)
	}
}

func TestRefusedEndpointGivesWayToAnother(t *testing.T) {
	down := errors.New("connection refused")
	a, b := &fakeUpstream{serve: ok("a")}, &fakeUpstream{serve: ok("b")}
	a.refuse.Store(&down)
	g := newGateway(t, treeTo(2), a, b)
	for range 20 {
		r := request("POST", "/")
		g.Serve(&r.x)
		if r.r.status != 200 || r.r.body.String() != "b" {
			t.Fatalf("%d %q", r.r.status, r.r.body.String())
		}
	}
	if n := a.dials.Load(); n > 1 {
		t.Errorf("the endpoint that is down was dialled %d times", n)
	}
	if s := g.Status().Upstreams[0]; s.Endpoints[0].State != "ejected" && a.dials.Load() > 0 || s.Endpoints[1].State != "up" {
		t.Errorf("status: %+v", s.Endpoints)
	}
}

func TestNobodyReachable(t *testing.T) {
	down := errors.New("connection refused")
	a := &fakeUpstream{serve: ok("a")}
	a.refuse.Store(&down)
	g := newGateway(t, treeTo(1), a)
	for range 3 { // each is tried, the endpoint being the only one
		r := request("GET", "/", "Accept", "application/json")
		g.Serve(&r.x)
		if r.r.status != 502 || !strings.Contains(r.r.body.String(), `"error":"upstream_unreachable"`) {
			t.Errorf("%d %s", r.r.status, r.r.body.String())
		}
		if strings.Contains(r.r.body.String(), "refused") || strings.Contains(r.r.body.String(), "10.0.0") {
			t.Errorf("the client learns of the inside: %s", r.r.body.String())
		}
	}
	if n := a.dials.Load(); n != 3 {
		t.Errorf("%d dials", n)
	}
}

func TestStreamedUpload(t *testing.T) {
	u := &fakeUpstream{serve: func(c *fakeCall) error { return nil }}
	g := newGateway(t, treeTo(1), u)
	up := newPipe()
	r := request("POST", "/")
	r.x.Body = up
	var call *fakeCall
	up.feed <- []byte("one ")
	up.feed <- []byte("two")
	close(up.feed)
	u.serve = func(c *fakeCall) error {
		call = c
		c.body = exchange.NewBytes([]byte("got it"))
		c.onUploaded = func() { c.answer(200) }
		return nil
	}
	within(t, func() { g.Serve(&r.x) })
	if r.r.status != 200 || call.uploaded.String() != "one two" || r.r.body.String() != "got it" {
		t.Errorf("%d, uploaded %q", r.r.status, call.uploaded.String())
	}
}

// The client is still uploading, and will not stop by itself.
func TestEarlyAnswerReachesUploadingClient(t *testing.T) {
	u := &fakeUpstream{serve: func(c *fakeCall) error {
		c.body = exchange.NewBytes([]byte("too large"))
		c.answer(413)
		return nil
	}}
	g := newGateway(t, treeTo(1), u)
	up := newPipe()
	up.feed <- []byte("begin")
	r := request("POST", "/")
	r.x.Body = up
	within(t, func() { g.Serve(&r.x) })
	if r.r.status != 413 || r.r.body.String() != "too large" {
		t.Errorf("%d %q", r.r.status, r.r.body.String())
	}
	select {
	case <-up.closed:
	default:
		t.Error("the rest of the upload was not given up")
	}
}

func TestUploadThatBreaksOffIsTheClientsFault(t *testing.T) {
	for _, c := range []struct {
		name   string
		err    error
		status int
	}{
		{"a chunk that is not one", exchange.RefuseChunk, 400},
		{"a body larger than allowed", exchange.RefuseBodySize, 413},
		{"a client that is gone", io.ErrUnexpectedEOF, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := &fakeUpstream{serve: func(*fakeCall) error { return nil }} // waits for the body
			g := newGateway(t, treeTo(1), u)
			r := request("PUT", "/")
			r.x.Body = &failSource{pipeSource: newPipe(), first: []byte("x"), err: c.err}
			within(t, func() { g.Serve(&r.x) })
			if r.r.status != c.status || c.status == 0 && r.r.aborted == nil {
				t.Errorf("status %d, aborted %v", r.r.status, r.r.aborted)
			}
		})
	}
}

func TestExpectContinue(t *testing.T) {
	for _, c := range []struct {
		name     string
		upstream func(*fakeCall)
		status   int
		interims int
		uploaded string
	}{
		{"the upstream's 100 is passed on and the body follows", func(c *fakeCall) { c.answer(100) }, 200, 1, "data"},
		{"without a word the client is asked after a second", func(*fakeCall) {}, 200, 1, "data"},
		{"a final answer leaves the body where it is", func(c *fakeCall) { c.answer(401) }, 401, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			up := newPipe()
			var call *fakeCall
			u := &fakeUpstream{}
			u.serve = func(k *fakeCall) error {
				call = k
				k.onUploaded = func() { k.answer(200) }
				c.upstream(k)
				return nil
			}
			g := newGateway(t, treeTo(1), u)
			r := request("POST", "/")
			r.x.Request.ExpectContinue = true
			r.x.Body = up
			r.r.onInter = func(int) { // the client sends what it was asked for
				up.feed <- []byte("data")
				close(up.feed)
			}
			within(t, func() { g.Serve(&r.x) })
			if r.r.status != c.status || len(r.r.interims) != c.interims || call.uploaded.String() != c.uploaded {
				t.Errorf("status %d, interims %v, uploaded %q", r.r.status, r.r.interims, call.uploaded.String())
			}
		})
	}
}

func TestInterimHeadsArePassedOn(t *testing.T) {
	u := &fakeUpstream{serve: func(c *fakeCall) error {
		c.answer(100) // nobody asked
		c.answer(103, "Link", "</a.css>", "Alt-Svc", "x")
		c.answer(200)
		return nil
	}}
	g := newGateway(t, treeTo(1), u)
	r := request("GET", "/")
	g.Serve(&r.x)
	if r.r.status != 200 || len(r.r.interims) != 1 || r.r.interims[0] != 103 {
		t.Errorf("%d after %v", r.r.status, r.r.interims)
	}
}

func TestEndlessInterimHeadsEnd(t *testing.T) {
	u := &fakeUpstream{serve: func(c *fakeCall) error {
		go func() {
			for {
				select {
				case c.heads <- func(h *exchange.Head) error { h.Reset(nil); h.Status = 103; return nil }:
				case <-c.over:
					return
				}
			}
		}()
		return nil
	}}
	g := newGateway(t, treeTo(1), u)
	r := request("GET", "/")
	var call *fakeCall
	inner := u.serve
	u.serve = func(c *fakeCall) error { call = c; return inner(c) }
	within(t, func() { g.Serve(&r.x) })
	call.cancel(io.EOF)
	if r.r.status != 502 || len(r.r.interims) != maxInterim {
		t.Errorf("%d after %d", r.r.status, len(r.r.interims))
	}
}

func TestClientGoneCancelsUpstream(t *testing.T) {
	for _, where := range []string{"while the upstream thinks", "while a connection is made"} {
		t.Run(where, func(t *testing.T) {
			u := &fakeUpstream{serve: func(*fakeCall) error { return nil }}
			if where != "while the upstream thinks" {
				u.hold = make(chan struct{})
			}
			g := newGateway(t, treeTo(1), u)
			r := request("GET", "/")
			go func() {
				for u.dials.Load() == 0 {
					time.Sleep(time.Millisecond)
				}
				r.x.Cancel(exchange.ErrClientGone)
			}()
			within(t, func() { g.Serve(&r.x) })
			if r.r.status != 0 || !errors.Is(r.r.aborted, exchange.ErrClientGone) {
				t.Errorf("status %d, aborted %v", r.r.status, r.r.aborted)
			}
			if u.hold != nil {
				close(u.hold)
			}
		})
	}
}

func TestACancelledCallLeavesASharedConnectionAsItWas(t *testing.T) {
	begun := make(chan struct{}, 1)
	u := &fakeUpstream{protocol: exchange.HTTP2, capacity: 10, serve: func(c *fakeCall) error {
		if string(c.x.Request.Path()) == "/hangs" {
			begun <- struct{}{}
		} else {
			c.answer(204)
		}
		return nil
	}}
	g := newGateway(t, treeTo(1), u)
	within(t, func() { g.Serve(&request("GET", "/").x) })
	r := request("GET", "/hangs")
	go func() {
		<-begun
		r.x.Cancel(exchange.ErrClientGone)
	}()
	within(t, func() { g.Serve(&r.x) })
	within(t, func() { g.Serve(&request("GET", "/").x) })
	if n := u.dials.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

func TestUpstreamFailingMidBodyIsSeen(t *testing.T) {
	u := &fakeUpstream{serve: func(c *fakeCall) error {
		c.broken.Store(true)
		c.body = &failSource{pipeSource: newPipe(), first: []byte("half"), err: &exchange.UpstreamError{Op: "read body", Answered: true, Err: errReset}}
		c.answer(200)
		return nil
	}}
	g := newGateway(t, treeTo(1), u)
	r := request("GET", "/")
	g.Serve(&r.x)
	if r.r.body.String() != "half" || r.r.cut == nil || !errors.Is(r.x.Log.Err, errReset) {
		t.Errorf("body %q, cut %v, noted %v", r.r.body.String(), r.r.cut, r.x.Log.Err)
	}
}

func TestRefusedRequestIsAnsweredAndRecorded(t *testing.T) {
	g := newGateway(t, treeTo(1), &fakeUpstream{serve: ok("never")})
	r := request("GET", "/", "Accept", "application/json")
	r.x.Refusal = exchange.RefuseHost
	g.Serve(&r.x)
	if r.r.status != 400 || !strings.Contains(r.r.body.String(), `"error":"bad_host"`) || r.x.Log.Err != exchange.RefuseHost {
		t.Errorf("%d %s %v", r.r.status, r.r.body.String(), r.x.Log.Err)
	}
}

func TestUnroutedIs404(t *testing.T) {
	tree := treeTo(1)
	tree.Routes = []*config.Route{{Match: config.Match{Host: []string{"other.test"}}, To: "app"}}
	g := newGateway(t, tree, &fakeUpstream{serve: ok("never")})
	r := request("GET", "/")
	g.Serve(&r.x)
	if r.r.status != 404 || !strings.HasPrefix(r.r.body.String(), "404 no_route: ") || !strings.Contains(r.r.body.String(), "\nrequest id: ") {
		t.Errorf("%d %s", r.r.status, r.r.body.String())
	}
}
