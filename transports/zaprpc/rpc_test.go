package zaprpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/deadline"
	"github.com/hanzoai/pqgw/transports/stream"
	"github.com/hanzoai/pqgw/zapcodec"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The methods of the services in these tests.
const (
	echoes    = 1 // the payload; of a target its payload and ours
	waits     = 2 // answers when it is told to
	notFound  = 3
	streams   = 4 // gives each message back, and ends when the caller does
	elsewhere = 5 // goes to another upstream
	nowhere   = 6 // has no upstream
	hangsUp   = 7 // the service closes the connection
)

// service is a peer that takes calls; each of its connections numbers nothing itself.
type service struct {
	ln   net.Listener
	wg   sync.WaitGroup
	goOn chan struct{} // lets the calls that wait be answered

	mu    sync.Mutex
	conns map[net.Conn]bool
	seen  int // connections in all
	ids   []uint32
	ends  int // of streams, by the caller
}

func newService(t testing.TB) *service {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &service{ln: ln, goOn: make(chan struct{}), conns: map[net.Conn]bool{}}
	s.wg.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns[nc] = true
			s.seen++
			s.mu.Unlock()
			s.wg.Go(func() { s.serve(nc) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		s.mu.Lock()
		for nc := range s.conns {
			_ = nc.Close()
		}
		s.mu.Unlock()
		s.wg.Wait()
	})
	return s
}

func (s *service) serve(nc net.Conn) {
	defer func() { _ = nc.Close() }()
	w := newWire(&stream.Stream{Sock: stream.NewSocket(nc, false, nil)}, 0)
	results := map[uint32]string{}
	var f exchange.RPCFrame
	for w.read(&f) == nil {
		s.mu.Lock()
		s.ids = append(s.ids, f.Promise)
		if f.Kind == exchange.RPCEnd {
			s.ends++
		}
		s.mu.Unlock()
		answer := exchange.RPCFrame{Kind: exchange.RPCResponse, Promise: f.Promise, Status: 200}
		switch {
		case f.Kind == exchange.RPCMessage || f.Kind == exchange.RPCEnd:
			answer = f
		case f.Method == hangsUp:
			return
		case f.Method == notFound:
			answer.Status = 404
		case f.Method == streams:
			continue
		case f.Method == waits:
			promise := f.Promise
			s.wg.Go(func() {
				<-s.goOn
				_ = w.send(&exchange.RPCFrame{Kind: exchange.RPCResponse, Promise: promise, Status: 200, Payload: []byte("at last")})
			})
			continue
		default:
			text := string(f.Payload)
			if f.Target != 0 {
				text = results[f.Target] + "+" + text
			}
			results[f.Promise] = text
			answer.Payload = []byte(text + "|" + string(f.Cap))
		}
		if w.send(&answer) != nil {
			return
		}
	}
}

// dial is a Dial to the service.
func (s *service) dial(ctx context.Context, release func(*ClientConn, bool)) (*ClientConn, error) {
	nc, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.ln.Addr().String())
	if err != nil {
		return nil, &exchange.UpstreamError{Op: "dial", Err: err}
	}
	return NewClientConn(&stream.Stream{Sock: stream.NewSocket(nc, false, nil)}, &exchange.Conn{ClientText: "service"}, 0, release), nil
}

var settings = UpstreamSettings{MaxIdle: 16}

// router sends calls to two upstreams.
type router struct {
	one, two *Upstream
	timeouts exchange.Timeouts
	mu       sync.Mutex
	records  []exchange.RPCRecord
}

func (r *router) RouteRPC(_ *exchange.Conn, method uint32) (exchange.RPCRoute, uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch method {
	case nowhere:
		return exchange.RPCRoute{}, 404
	case elsewhere:
		return exchange.RPCRoute{Upstream: r.two, Timeouts: r.timeouts}, 0
	}
	return exchange.RPCRoute{Upstream: r.one, Timeouts: r.timeouts}, 0
}

func (r *router) RPCDone(d *exchange.RPCRecord) {
	r.mu.Lock()
	r.records = append(r.records, *d)
	r.mu.Unlock()
}

// give puts timeouts in force for the calls to come.
func (r *router) give(t exchange.Timeouts) {
	r.mu.Lock()
	r.timeouts = t
	r.mu.Unlock()
}

// relay is a listener that forwards.
type relay struct {
	ln     net.Listener
	router *router
	wg     sync.WaitGroup
	mu     sync.Mutex
	conns  map[*Conn]bool
}

func newRelay(t testing.TB, one, two *service, change func(*Options)) *relay {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := deadline.New()
	r := &relay{ln: ln, router: &router{one: NewUpstream(settings, one.dial), two: NewUpstream(settings, two.dial)}, conns: map[*Conn]bool{}}
	o := &Options{Router: r.router, Watch: w, IdleTimeout: time.Minute, StreamIdle: time.Minute}
	if change != nil {
		change(o)
	}
	r.wg.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			c := NewConn(&stream.Stream{Sock: stream.NewSocket(nc, false, nil)}, &exchange.Conn{}, o)
			r.mu.Lock()
			r.conns[c] = true
			r.mu.Unlock()
			r.wg.Go(func() { _ = c.Serve() })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		r.mu.Lock()
		for c := range r.conns {
			c.Close()
		}
		r.mu.Unlock()
		r.wg.Wait()
		r.router.one.Close()
		r.router.two.Close()
		w.Close()
	})
	return r
}

// caller is a client of the relay.
type caller struct {
	t testing.TB
	w *wire
}

func (r *relay) dial(t testing.TB) *caller {
	t.Helper()
	nc, err := net.Dial("tcp", r.ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = nc.SetDeadline(time.Now().Add(20 * time.Second))
	t.Cleanup(func() { _ = nc.Close() })
	return &caller{t, newWire(&stream.Stream{Sock: stream.NewSocket(nc, false, nil)}, 0)}
}

func (c *caller) send(kind exchange.RPCKind, method, promise, target uint32, payload string) {
	c.t.Helper()
	if err := c.w.send(&exchange.RPCFrame{Kind: kind, Method: method, Promise: promise, Target: target, Cap: []byte("cap"), Payload: []byte(payload)}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *caller) read() string {
	c.t.Helper()
	var f exchange.RPCFrame
	if err := c.w.read(&f); err != nil {
		c.t.Fatal(err)
	}
	return fmt.Sprintf("%d %d %d %s", f.Kind, f.Promise, f.Status, f.Payload)
}

func (c *caller) expect(want string) {
	c.t.Helper()
	if got := c.read(); got != want {
		c.t.Fatalf("got %q, want %q", got, want)
	}
}

func TestCallsAreForwardedByMethodAndAnsweredByPromise(t *testing.T) {
	one, two := newService(t), newService(t)
	r := newRelay(t, one, two, nil)
	c := r.dial(t)
	c.send(exchange.RPCRequest, waits, 70, 0, "")
	c.send(exchange.RPCRequest, echoes, 71, 0, "hello")
	c.expect("2 71 200 hello|cap") // overtakes
	c.send(exchange.RPCRequest, elsewhere, 72, 0, "two")
	c.expect("2 72 200 two|cap")
	c.send(exchange.RPCRequest, notFound, 73, 0, "")
	c.expect("2 73 404 ")
	c.send(exchange.RPCRequest, nowhere, 74, 0, "")
	if got := c.read(); !strings.HasPrefix(got, "2 74 404 ") {
		t.Fatal(got)
	}
	close(one.goOn)
	c.expect("2 70 200 at last")
	big := strings.Repeat("b", 3<<20)
	c.send(exchange.RPCRequest, echoes, 70, 0, big) // the promise is free again
	c.expect("2 70 200 " + big + "|cap")
	one.mu.Lock()
	defer one.mu.Unlock()
	if fmt.Sprint(one.ids) != "[1 2 3 4]" || one.seen != 1 {
		t.Errorf("the service saw promises %v on %d connections", one.ids, one.seen)
	}
}

func TestPipelinedTargetsFollowTheirCall(t *testing.T) {
	one, two := newService(t), newService(t)
	r := newRelay(t, one, two, nil)
	c := r.dial(t)
	c.send(exchange.RPCRequest, echoes, 500, 0, "a")
	c.send(exchange.RPCRequest, echoes, 9, 500, "b")
	c.send(exchange.RPCRequest, echoes, 10, 9, "c")
	c.expect("2 500 200 a|cap")
	c.expect("2 9 200 a+b|cap")
	c.expect("2 10 200 a+b+c|cap")
	c.send(exchange.RPCRequest, echoes, 11, 500, "late") // its target was answered before
	c.expect("2 11 200 a+late|cap")
	c.send(exchange.RPCRequest, echoes, 12, 4711, "")
	if got := c.read(); !strings.HasPrefix(got, "2 12 400 ") {
		t.Fatalf("an unknown target: %s", got)
	}
	c.send(exchange.RPCRequest, elsewhere, 13, 9, "")
	if got := c.read(); !strings.HasPrefix(got, "2 13 400 ") {
		t.Fatalf("a target at another service: %s", got)
	}
}

func TestStreamsRunBothWaysUntilBothEnd(t *testing.T) {
	one := newService(t)
	r := newRelay(t, one, one, nil)
	c := r.dial(t)
	c.send(exchange.RPCOpen, streams, 5, 0, "")
	c.send(exchange.RPCOpen, streams, 6, 0, "")
	for _, id := range []uint32{5, 6, 5} {
		c.send(exchange.RPCMessage, 0, id, 0, "m")
		c.expect(fmt.Sprintf("4 %d 0 m", id))
	}
	c.send(exchange.RPCRequest, echoes, 7, 0, "between")
	c.expect("2 7 200 between|cap")
	c.send(exchange.RPCEnd, 0, 5, 0, "bye")
	c.expect("5 5 0 bye")
	c.send(exchange.RPCOpen, streams, 5, 0, "") // the id is free again
	c.send(exchange.RPCMessage, 0, 5, 0, "again")
	c.expect("4 5 0 again")
	c.send(exchange.RPCOpen, notFound, 8, 0, "")
	c.expect("2 8 404 ")
	c.send(exchange.RPCMessage, 0, 8, 0, "too late") // is dropped
	c.send(exchange.RPCRequest, echoes, 9, 0, "x")
	c.expect("2 9 200 x|cap")
}

func TestCallsOfALostServiceFail(t *testing.T) {
	one := newService(t)
	r := newRelay(t, one, one, nil)
	c := r.dial(t)
	c.send(exchange.RPCRequest, waits, 1, 0, "")
	c.send(exchange.RPCRequest, hangsUp, 2, 0, "")
	for range 2 {
		if got := c.read(); !strings.Contains(got, " 500 the connection to the service was lost") {
			t.Fatal(got)
		}
	}
	c.send(exchange.RPCRequest, echoes, 3, 0, "on") // by a new connection
	c.expect("2 3 200 on|cap")
	c.send(exchange.RPCRequest, echoes, 4, 1, "")
	if got := c.read(); !strings.HasPrefix(got, "2 4 400 ") {
		t.Fatalf("a target that is lost: %s", got)
	}
	close(one.goOn)
}

func TestAServiceThatCannotBeReachedIsA500(t *testing.T) {
	one := newService(t)
	r := newRelay(t, one, one, nil)
	_ = one.ln.Close()
	c := r.dial(t)
	c.send(exchange.RPCRequest, echoes, 1, 0, "")
	c.expect("2 1 500 the service could not be reached")
}

func TestLimitsHold(t *testing.T) {
	one := newService(t)
	r := newRelay(t, one, one, func(o *Options) { o.Calls, o.FrameBytes = 2, 1<<10 })
	c := r.dial(t)
	c.send(exchange.RPCRequest, waits, 1, 0, "")
	c.send(exchange.RPCRequest, waits, 1, 0, "")
	c.expect("2 1 400 a call with this promise is in flight")
	c.send(exchange.RPCOpen, streams, 2, 0, "")
	c.send(exchange.RPCRequest, echoes, 3, 0, "")
	c.expect("2 3 500 too many calls in flight on this connection")
	close(one.goOn)
	c.expect("2 1 200 at last")
	c.send(exchange.RPCRequest, echoes, 4, 0, "room")
	c.expect("2 4 200 room|cap")
	c.send(exchange.RPCRequest, echoes, 5, 0, strings.Repeat("x", 2<<10))
	var f exchange.RPCFrame
	if err := c.w.read(&f); !errors.Is(err, io.EOF) {
		t.Fatalf("a frame over the limit: %v %v", f, err)
	}
}

func TestMalformedEnvelopesGet400OrEndTheConnection(t *testing.T) {
	one := newService(t)
	r := newRelay(t, one, one, nil)
	envelope := func(change func(b []byte)) []byte {
		q := zapcodec.RPCRequest{Method: echoes, Promise: 7, Payload: []byte("pay")}
		b, err := zapcodec.FramingRPC.AppendPrefix(nil, zapcodec.DirectionRequest, q.Size())
		if err == nil {
			b, err = zapcodec.AppendRPCRequest(b, &q)
		}
		if err != nil {
			t.Fatal(err)
		}
		change(b)
		return b
	}
	for _, q := range []struct {
		name string
		send []byte
		want string // "" for the connection's end
	}{
		{"sound", envelope(func([]byte) {}), "2 7 200 pay|"},
		{"a payload outside the message", envelope(func(b []byte) { b[5+16+20] = 0xff }), "2 7 400 the envelope is malformed"},
		{"a direction that does not exist", envelope(func(b []byte) { b[4] = 9 }), ""},
		{"an answer from a caller", envelope(func(b []byte) { b[4] = zapcodec.DirectionResponse }), ""},
		{"no ZAP", envelope(func(b []byte) { b[5] = 'X' }), ""},
		{"another protocol", []byte("GET / HTTP/1.1\r\n\r\n"), ""},
	} {
		c := r.dial(t)
		_, _ = c.w.s.Write(q.send)
		if q.want != "" {
			c.expect(q.want)
			c.send(exchange.RPCRequest, echoes, 8, 0, "next")
			c.expect("2 8 200 next|cap")
			continue
		}
		var f exchange.RPCFrame
		if err := c.w.read(&f); err == nil || f.Kind != 0 {
			t.Errorf("%s: %v, %v", q.name, f, err)
		}
	}
}

func TestConnectionsToServicesAreUsedAgainWhenNothingIsInFlight(t *testing.T) {
	one := newService(t)
	r := newRelay(t, one, one, nil)
	ended := func(n int) {
		t.Helper()
		for until := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			r.router.one.mu.Lock()
			idle := len(r.router.one.idle[0])
			r.router.one.mu.Unlock()
			if idle == n {
				return
			}
			if time.Now().After(until) {
				t.Fatalf("%d idle connections, want %d", idle, n)
			}
		}
	}
	for range 3 {
		c := r.dial(t)
		c.send(exchange.RPCRequest, echoes, 1, 0, "x")
		c.expect("2 1 200 x|cap")
		c.w.close()
		ended(1)
	}
	if one.seen != 1 {
		t.Errorf("%d connections", one.seen)
	}
	c := r.dial(t)
	c.send(exchange.RPCRequest, waits, 1, 0, "x")
	c.send(exchange.RPCRequest, echoes, 2, 0, "x")
	c.expect("2 2 200 x|cap")
	c.w.close() // with a call in flight: its answer must reach nobody else
	ended(0)
	close(one.goOn)
}

func TestDrainingWaitsForCallsInFlight(t *testing.T) {
	one := newService(t)
	r := newRelay(t, one, one, nil)
	c := r.dial(t)
	c.send(exchange.RPCRequest, waits, 1, 0, "")
	c.send(exchange.RPCRequest, echoes, 2, 0, "")
	c.expect("2 2 200 |cap")
	r.mu.Lock()
	for c := range r.conns {
		c.Shutdown()
	}
	r.mu.Unlock()
	close(one.goOn)
	c.expect("2 1 200 at last")
	var f exchange.RPCFrame
	if err := c.w.read(&f); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
}

func TestACallThatComesWhileDrainingGetsItsTime(t *testing.T) {
	one := newService(t)
	r := newRelay(t, one, newService(t), nil)
	c := r.dial(t)
	c.send(exchange.RPCRequest, echoes, 1, 0, "")
	c.expect("2 1 200 |cap")
	r.mu.Lock()
	for c := range r.conns {
		c.Shutdown()
	}
	r.mu.Unlock()
	c.send(exchange.RPCRequest, waits, 2, 0, "")
	time.AfterFunc(graceWhileDraining+graceWhileDraining/2, func() { close(one.goOn) })
	c.expect("2 2 200 at last")
	var f exchange.RPCFrame
	if err := c.w.read(&f); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
}

func TestManyCallersAtOnce(t *testing.T) {
	one, two := newService(t), newService(t)
	r := newRelay(t, one, two, nil)
	var wg sync.WaitGroup
	for i := range 8 {
		c := r.dial(t)
		wg.Go(func() {
			const calls = 200
			go func() {
				for k := range uint32(calls) {
					method := uint32(echoes)
					if k%3 == 0 {
						method = elsewhere
					}
					_ = c.w.send(&exchange.RPCFrame{Kind: exchange.RPCRequest, Method: method, Promise: k, Payload: []byte(fmt.Sprint(i, k))})
				}
			}()
			seen := map[uint32]bool{}
			var f exchange.RPCFrame
			for range calls {
				if err := c.w.read(&f); err != nil {
					t.Error(err)
					return
				}
				if seen[f.Promise] || f.Status != 200 || string(f.Payload) != fmt.Sprint(i, f.Promise)+"|" {
					t.Errorf("caller %d: promise %d, %d %q", i, f.Promise, f.Status, f.Payload)
					return
				}
				seen[f.Promise] = true
			}
		})
	}
	wg.Wait()
}

// FuzzConn feeds bytes of a stranger to the server's side: whatever they are, it ends, and
// what it answers are sound frames.
func FuzzConn(f *testing.F) {
	one := newService(f)
	up := NewUpstream(settings, one.dial)
	w := deadline.New()
	f.Cleanup(func() {
		up.Close()
		w.Close()
	})
	q := zapcodec.RPCRequest{Method: echoes, Promise: 7, Payload: []byte("pay")}
	b, _ := zapcodec.FramingRPC.AppendPrefix(nil, zapcodec.DirectionRequest, q.Size())
	b, _ = zapcodec.AppendRPCRequest(b, &q)
	f.Add(b)
	s, _ := zapcodec.AppendStreamFrame(nil, zapcodec.DirectionStreamMessage, 7, []byte("m"))
	f.Add(append(b, s...))
	f.Fuzz(func(t *testing.T, in []byte) {
		ours, theirs := net.Pipe()
		o := &Options{Router: &router{one: up, two: up}, Watch: w, Calls: 4, FrameBytes: 1 << 12, IdleTimeout: time.Minute, StreamIdle: time.Minute}
		served := make(chan struct{})
		go func() {
			defer close(served)
			_ = NewConn(&stream.Stream{Sock: stream.NewSocket(theirs, true, nil)}, &exchange.Conn{}, o).Serve()
		}()
		read := make(chan error, 1)
		go func() {
			c := newWire(&stream.Stream{Sock: stream.NewSocket(ours, true, nil)}, 0)
			var f exchange.RPCFrame
			err := error(nil)
			for err == nil {
				err = c.read(&f)
			}
			read <- err
		}()
		_, _ = ours.Write(in)
		_ = ours.SetReadDeadline(time.Now().Add(time.Millisecond))
		err := <-read
		_ = ours.Close()
		<-served
		var bad *MalformedError
		if errors.As(err, &bad) {
			t.Fatal(err)
		}
	})
}
