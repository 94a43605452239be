package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hanzoai/pqgw/config"
	"github.com/hanzoai/pqgw/exchange"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The fakes stand for transports where a test must decide when each step of an
// exchange happens; real transports are tested with the gateway elsewhere.

// fakeUpstream dials fakeConns and answers their calls by its script.
type fakeUpstream struct {
	url      string
	protocol exchange.Protocol
	capacity int
	refuse   atomic.Pointer[error] // dials fail with it
	hold     chan struct{}         // dials wait for it when not nil
	serve    func(*fakeCall) error // what becomes of a call, run by its Send
	dials    atomic.Int32
	open     atomic.Int32
}

func (u *fakeUpstream) Dial(ctx context.Context) (exchange.ClientConn, error) {
	u.dials.Add(1)
	if u.hold != nil {
		select {
		case <-u.hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if err := u.refuse.Load(); err != nil {
		return nil, *err
	}
	u.open.Add(1)
	c := &fakeConn{up: u, info: exchange.Conn{Protocol: u.protocol}}
	return c, nil
}

type fakeConn struct {
	up     *fakeUpstream
	info   exchange.Conn
	dead   atomic.Bool
	closed atomic.Bool
	calls  atomic.Int32
}

func (c *fakeConn) Call() (exchange.Call, error) {
	if c.closed.Load() {
		return nil, exchange.ErrConnClosed
	}
	call := &fakeCall{conn: c, heads: make(chan func(*exchange.Head) error, 16), over: make(chan struct{})}
	call.canceller.Cancel = call.cancel
	c.calls.Add(1)
	return call, nil
}

func (c *fakeConn) Capacity() int        { return max(c.up.capacity, 1) }
func (c *fakeConn) Usable() bool         { return !c.dead.Load() && !c.closed.Load() }
func (c *fakeConn) Info() *exchange.Conn { return &c.info }
func (c *fakeConn) Close() {
	if !c.closed.Swap(true) {
		c.up.open.Add(-1)
	}
}

// fakeCall is steered by the script: answer queues heads, body is what follows
// the final one.
type fakeCall struct {
	conn     *fakeConn
	x        *exchange.Exchange
	sent     exchange.Source // the body, as Send got it
	uploaded bytes.Buffer
	heads    chan func(*exchange.Head) error
	body     exchange.Source
	tun      exchange.Tunnel
	broken   atomic.Bool
	// onUploaded is called when SendBody has come to the body's end.
	onUploaded func()
	canceller  exchange.Canceller
	once       sync.Once
	over       chan struct{}
	reason     error
}

func (c *fakeCall) cancel(reason error) {
	c.once.Do(func() { c.reason = reason; close(c.over) })
}

func (c *fakeCall) Send(x *exchange.Exchange, body exchange.Source, _ exchange.Timeouts) error {
	c.x, c.sent = x, body
	if body != nil {
		if whole, ok := body.Whole(); ok {
			c.uploaded.Write(whole)
		}
	}
	return c.conn.up.serve(c)
}

func (c *fakeCall) SendBody(body exchange.Source) error {
	for {
		p, err := body.Next()
		c.uploaded.Write(p)
		if errors.Is(err, io.EOF) {
			if c.onUploaded != nil {
				c.onUploaded()
			}
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-c.over:
			return c.reason
		default:
		}
	}
}

func (c *fakeCall) ReadHead(h *exchange.Head) error {
	select {
	case f := <-c.heads:
		return f(h)
	case <-c.over:
		return &exchange.UpstreamError{Op: "read head", Err: c.reason}
	}
}

// answer queues a head: "200", then names and values.
func (c *fakeCall) answer(status int, fields ...string) {
	c.heads <- func(h *exchange.Head) error {
		h.Reset(nil)
		h.Status = status
		for i := 0; i < len(fields); i += 2 {
			h.AddString(fields[i], fields[i+1])
		}
		return nil
	}
}

// fail queues a failure of reading.
func (c *fakeCall) fail(err error) {
	c.broken.Store(true)
	c.heads <- func(*exchange.Head) error { return err }
}

func (c *fakeCall) Body() exchange.Source { return c.body }
func (c *fakeCall) Tunnel() (exchange.Tunnel, error) {
	if c.tun == nil {
		return nil, exchange.ErrTunnel
	}
	return c.tun, nil
}
func (c *fakeCall) Canceller() *exchange.Canceller { return &c.canceller }
func (c *fakeCall) Finish() bool {
	select {
	case <-c.over:
		return c.conn.Capacity() > 1 // a connection that others share outlives a call
	default:
		return !c.broken.Load() && !c.conn.dead.Load()
	}
}

// pipeSource is a body whose bytes a test feeds.
type pipeSource struct {
	feed   chan []byte
	closed chan struct{}
	once   sync.Once
	reason error
}

func newPipe() *pipeSource {
	return &pipeSource{feed: make(chan []byte, 16), closed: make(chan struct{})}
}

func (*pipeSource) Length() int64            { return -1 }
func (*pipeSource) Whole() ([]byte, bool)    { return nil, false }
func (*pipeSource) Buffered() int            { return 0 }
func (*pipeSource) Trailers() *exchange.Head { return nil }
func (p *pipeSource) Close(reason error) {
	p.once.Do(func() { p.reason = reason; close(p.closed) })
}

func (p *pipeSource) Next() ([]byte, error) {
	select {
	case b, ok := <-p.feed:
		if !ok {
			return nil, io.EOF
		}
		return b, nil
	case <-p.closed:
		return nil, p.reason
	}
}

func (p *pipeSource) Read(b []byte) (int, error) {
	got, err := p.Next()
	return copy(b, got), err
}

// failSource gives some bytes and then fails.
type failSource struct {
	*pipeSource
	first []byte
	err   error
}

func (s *failSource) Next() ([]byte, error) {
	if b := s.first; b != nil {
		s.first = nil
		return b, nil
	}
	return nil, s.err
}

// fakeResponder is a client that keeps what it gets.
type fakeResponder struct {
	mu       sync.Mutex
	interims []int
	status   int
	head     exchange.Head
	body     bytes.Buffer
	cut      error // the answer was cut
	aborted  error
	started  bool
	fail     error // every write fails with it
	onInter  func(int)
	tunnel   exchange.Tunnel
}

func (r *fakeResponder) Interim(h *exchange.Head) error {
	r.mu.Lock()
	r.interims = append(r.interims, h.Status)
	r.mu.Unlock()
	if r.onInter != nil {
		r.onInter(h.Status)
	}
	return r.fail
}

func (r *fakeResponder) Respond(h *exchange.Head, body exchange.Source) error {
	r.mu.Lock()
	r.started, r.status = true, h.Status
	r.head.Reset(nil)
	r.head.CopyFields(h)
	r.head.Length = h.Length
	r.mu.Unlock()
	if r.fail != nil {
		return &exchange.ClientError{Err: r.fail}
	}
	for body != nil {
		p, err := body.Next()
		r.mu.Lock()
		r.body.Write(p)
		r.mu.Unlock()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			r.cut = err
			return err
		}
	}
	return nil
}

func (r *fakeResponder) Start(h *exchange.Head, _ int64) (exchange.Sink, error) {
	if err := r.Respond(h, nil); err != nil {
		return nil, err
	}
	return &fakeSink{r: r}, nil
}

func (r *fakeResponder) Tunnel(h *exchange.Head) (exchange.Tunnel, error) {
	r.started, r.status = true, h.Status
	return r.tunnel, nil
}

func (r *fakeResponder) Abort(reason error) { r.aborted = reason }
func (r *fakeResponder) Started() bool      { return r.started }

type fakeSink struct{ r *fakeResponder }

func (s *fakeSink) Write(p []byte) (int, error) { return s.r.body.Write(p) }
func (s *fakeSink) Flush() error                { return nil }
func (s *fakeSink) Finish(*exchange.Head) error { return nil }
func (s *fakeSink) Reset(reason error)          { s.r.cut = reason }

// client is one exchange as a test makes it.
type client struct {
	x exchange.Exchange
	r fakeResponder
}

func request(method, target string, fields ...string) *client {
	c := &client{}
	conn := &exchange.Conn{
		Listener: "edge", ClientText: "192.0.2.7", Client: netip.MustParseAddrPort("192.0.2.7:5000"),
	}
	c.x.Reset(conn)
	c.x.Start = time.Now()
	c.x.Request.Reset(nil)
	c.x.Request.SetMethod([]byte(method))
	c.x.Request.SetTarget([]byte(target))
	c.x.Request.SetAuthority([]byte("api.test"))
	for i := 0; i < len(fields); i += 2 {
		c.x.Request.AddString(fields[i], fields[i+1])
	}
	c.x.Responder = &c.r
	return c
}

// fields are the live fields of a head as "Name: value" lines.
func fields(h *exchange.Head) string {
	var b strings.Builder
	for i := range h.Len() {
		if !h.Dropped(i) {
			fmt.Fprintf(&b, "%s: %s\n", h.Name(i), h.Value(i))
		}
	}
	return b.String()
}

// treeTo is a configuration with one upstream "app" of these endpoints, behind
// every path, and routes before that.
func treeTo(n int, routes ...*config.Route) *config.Tree {
	t := config.New()
	t.Listeners = []*config.Listener{{Name: "edge"}}
	u := config.Default[config.Upstream]()
	for i := range n {
		e, err := config.ParseEndpoint(fmt.Sprintf("http://10.0.0.%d:80", i+1))
		if err != nil {
			panic(err)
		}
		u.Endpoints = append(u.Endpoints, e)
	}
	t.Upstreams["app"] = u
	t.Routes = append(routes, &config.Route{Name: "all", To: "app"})
	return t
}

// newGateway serves a tree whose endpoints are, in order, ups.
func newGateway(t testing.TB, tree *config.Tree, ups ...*fakeUpstream) *Gateway {
	t.Helper()
	for i, u := range ups {
		u.url = fmt.Sprintf("http://10.0.0.%d:80", i+1)
	}
	g, err := New(tree, Options{Dial: dialer(ups...)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := g.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		for _, u := range ups {
			if n := u.open.Load(); n != 0 {
				t.Errorf("%s: %d connections left open", u.url, n)
			}
		}
	})
	return g
}

func dialer(ups ...*fakeUpstream) func(*config.Tree, *config.Upstream, config.Endpoint) (exchange.Dialer, error) {
	return func(_ *config.Tree, _ *config.Upstream, e config.Endpoint) (exchange.Dialer, error) {
		for _, u := range ups {
			if u.url == e.String() {
				return u, nil
			}
		}
		return nil, fmt.Errorf("no fake for %s", e)
	}
}

// within fails the test when f does not end in time.
func within(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("did not end")
	}
}

// ok answers every call with 200 and a body.
func ok(body string) func(*fakeCall) error {
	return func(c *fakeCall) error {
		c.body = exchange.NewBytes([]byte(body))
		c.answer(200, "Content-Type", "text/plain")
		return nil
	}
}

func anyDialer(d exchange.Dialer) func(*config.Tree, *config.Upstream, config.Endpoint) (exchange.Dialer, error) {
	return func(*config.Tree, *config.Upstream, config.Endpoint) (exchange.Dialer, error) { return d, nil }
}
