package zap

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/deadline"
	"github.com/hanzoai/pqgw/transports/stream"
	"github.com/hanzoai/pqgw/zapcodec"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if kind := os.Getenv("PQGW_ZAP_BENCH_SERVER"); kind != "" {
		runBenchServer(kind)
	}
	goleak.VerifyTestMain(m)
}

// handlerFunc is an exchange.Handler.
type handlerFunc func(x *exchange.Exchange)

func (f handlerFunc) Serve(x *exchange.Exchange) { f(x) }

// mode is one way to drive the same two sides.
type mode struct {
	name     string
	portable bool
	tls      bool
}

var modes = []mode{{"callback in the clear", false, false}, {"portable in the clear", true, false}, {"callback over TLS", false, true}, {"portable over TLS", true, true}}

func eachMode(t *testing.T, f func(t *testing.T, m mode)) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			f(t, m)
		})
	}
}

// server is a listener whose connections run the loop under test.
type server struct {
	t    testing.TB
	ln   net.Listener
	o    Options
	mode mode
	cfg  *tls.Config
	wg   sync.WaitGroup
	mu   sync.Mutex
	live map[*Conn]bool
}

func testConfig(testing.TB) *tls.Config {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"a"}}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, NextProtos: []string{ALPN}}
}

func start(t testing.TB, m mode, h handlerFunc, change func(*Options)) *server {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := deadline.New()
	s := &server{t: t, ln: ln, mode: m, live: map[*Conn]bool{}}
	s.o = Options{
		Handler: h, Watch: w, Limits: exchange.Limits{HeadBytes: 32 << 10, Fields: 128, BodyBytes: 1 << 30},
		HeadTimeout: 10 * time.Second, IdleTimeout: time.Minute, StreamIdle: time.Minute,
	}
	if change != nil {
		change(&s.o)
	}
	if m.tls {
		s.cfg = testConfig(t)
	}
	s.wg.Go(s.accept)
	t.Cleanup(func() {
		_ = ln.Close()
		s.mu.Lock()
		for c := range s.live {
			c.Close()
		}
		s.mu.Unlock()
		s.wg.Wait()
		w.Close()
	})
	return s
}

func (s *server) accept() {
	for {
		nc, err := s.ln.Accept()
		if err != nil {
			return
		}
		s.wg.Go(func() { s.serve(nc) })
	}
}

func (s *server) serve(nc net.Conn) {
	st := &stream.Stream{Sock: stream.NewSocket(nc, s.mode.portable, nil)}
	info := &exchange.Conn{ClientText: "127.0.0.1"}
	if s.mode.tls {
		st.TLS = tls.Server(st.Sock, s.cfg)
		if st.TLS.Handshake() != nil {
			_ = nc.Close()
			return
		}
		info.Facts.ALPN = st.TLS.ConnectionState().NegotiatedProtocol
	}
	c := NewConn(st, info, st.Sock.FD(), &s.o)
	s.mu.Lock()
	s.live[c] = true
	s.mu.Unlock()
	_ = c.Serve()
	s.mu.Lock()
	delete(s.live, c)
	s.mu.Unlock()
}

// each calls f for every connection there is.
func (s *server) each(f func(c *Conn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.live {
		f(c)
	}
}

// dial connects as a public peer does: without ALPN on TLS.
func (s *server) dial() net.Conn {
	s.t.Helper()
	c, err := net.Dial("tcp", s.ln.Addr().String())
	if err != nil {
		s.t.Fatal(err)
	}
	if s.mode.tls {
		c = tls.Client(c, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the test's own server
	}
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// client connects our own client's side.
func (s *server) client(o *ClientOptions) *ClientConn {
	s.t.Helper()
	return newClient(s.t, s.mode, s.ln.Addr().String(), o)
}

func newClient(t testing.TB, m mode, address string, o *ClientOptions) *ClientConn {
	t.Helper()
	nc, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	st := &stream.Stream{Sock: stream.NewSocket(nc, m.portable, nil)}
	info := &exchange.Conn{}
	if m.tls {
		st.TLS = tls.Client(st.Sock, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{ALPN}}) //nolint:gosec // the test's own server
		if err := st.TLS.Handshake(); err != nil {
			t.Fatal(err)
		}
		info.Facts.ALPN = st.TLS.ConnectionState().NegotiatedProtocol
	}
	if o == nil {
		o = &ClientOptions{}
	}
	if o.Watch == nil {
		w := deadline.New()
		t.Cleanup(w.Close)
		o.Watch, o.Limits = w, exchange.Limits{HeadBytes: 32 << 10, Fields: 128}
	}
	c := NewClientConn(st, info, o)
	t.Cleanup(c.Close)
	return c
}

// echo answers with the request's body, or with its target where it has none.
func echo(x *exchange.Exchange) {
	h := &x.Response
	h.Reset(nil)
	h.Status = 200
	if r := x.Refusal; r != nil {
		h.Status = r.Status
		_ = x.Responder.Respond(h, exchange.NewBytes([]byte(r.Reason)))
		return
	}
	if x.Body != nil {
		_ = x.Responder.Respond(h, x.Body)
		return
	}
	_ = x.Responder.Respond(h, exchange.NewBytes(x.Request.Target()))
}

// request is a message of the public form.
func request(t testing.TB, method, target, body string, fields ...string) []byte {
	t.Helper()
	r := zapcodec.Request{Method: []byte(method), Target: []byte(target), Headers: pairs(append([]string{"Host: a"}, fields...)), Body: []byte(body)}
	b, err := r.Append(nil, zapcodec.Prefix)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func pairs(fields []string) (p []zapcodec.Pair) {
	for _, f := range fields {
		n, v, _ := strings.Cut(f, ": ")
		p = append(p, zapcodec.Pair{Name: []byte(n), Value: []byte(v)})
	}
	return p
}

// got is an answer as a public peer reads it.
type got struct {
	status   int
	fields   string
	body     string
	trailers string
	frames   []int // lengths of the data frames; nil for a message of type 2
	flags    uint8
}

func text(p zapcodec.Pairs) string {
	var b strings.Builder
	for n, v := range p.All() {
		b.WriteString(string(n) + ": " + string(v) + "\n")
	}
	return b.String()
}

func readFrame(r *bufio.Reader) ([]byte, error) {
	f, err := zapcodec.FramingHTTP.Read(r, nil, 0)
	return f.Bytes, err
}

func readAnswer(t testing.TB, r *bufio.Reader) got {
	t.Helper()
	g, err := tryReadAnswer(r)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func tryReadAnswer(r *bufio.Reader) (got, error) {
	var g got
	f, err := readFrame(r)
	if err != nil {
		return g, err
	}
	var v zapcodec.ResponseView
	if err := v.Parse(f); err != nil {
		return g, err
	}
	g = got{status: v.Status(), fields: text(v.Headers()), flags: f[6]}
	if !v.Streamed() {
		g.body, g.trailers = string(v.Body()), text(v.Trailers())
		return g, nil
	}
	g.frames = []int{}
	for {
		f, err := readFrame(r)
		if err != nil {
			return g, err
		}
		if f[7] == zapcodec.TypeEnd {
			var e zapcodec.EndView
			err := e.Parse(f)
			g.trailers = text(e.Trailers())
			return g, err
		}
		s, err := zapcodec.ParseData(f)
		if err != nil {
			return g, err
		}
		g.body += string(s.Of(f))
		g.frames = append(g.frames, int(s.Len))
	}
}

func newExchange(method, target string, fields ...string) *exchange.Exchange {
	x := &exchange.Exchange{}
	x.Reset(&exchange.Conn{})
	x.Request.Reset(nil)
	x.Request.SetMethod([]byte(method))
	x.Request.SetTarget([]byte(target))
	x.Request.SetAuthority([]byte("up.example"))
	for _, f := range fields {
		n, v, _ := strings.Cut(f, ": ")
		x.Request.AddString(n, v)
	}
	return x
}

// pieces is a Source that gives its pieces one by one and has no length, or says one.
type pieces struct {
	list     []string
	length   int64
	trailers *exchange.Head
	err      error // after the pieces, instead of the end
}

func (p *pieces) Length() int64         { return p.length }
func (p *pieces) Whole() ([]byte, bool) { return nil, false }
func (p *pieces) Buffered() int         { return 0 }
func (p *pieces) Close(error)           {}
func (p *pieces) Trailers() *exchange.Head {
	return p.trailers
}

func (p *pieces) Next() ([]byte, error) {
	if len(p.list) == 0 {
		if p.err != nil {
			return nil, p.err
		}
		return nil, io.EOF
	}
	s := p.list[0]
	p.list = p.list[1:]
	return []byte(s), nil
}

func (p *pieces) Read(b []byte) (int, error) {
	s, err := p.Next()
	return copy(b, s), err
}

// roundTrip carries one exchange as the gateway does.
func roundTrip(t testing.TB, c *ClientConn, x *exchange.Exchange, src exchange.Source) (status int, body string, err error) {
	t.Helper()
	call, err := c.Call()
	if err != nil {
		t.Fatal(err)
	}
	if err := call.Send(x, src, exchange.Timeouts{FirstByte: 10 * time.Second, Idle: 10 * time.Second}); err != nil {
		return 0, "", err
	}
	whole := src == nil
	if !whole {
		_, whole = src.Whole()
	}
	sent := make(chan struct{})
	if whole {
		close(sent)
	} else {
		go func() {
			defer close(sent)
			_ = call.SendBody(src)
		}()
	}
	for status < 200 {
		if err := call.ReadHead(&x.Response); err != nil {
			call.Canceller().Cancel(err)
			<-sent
			return 0, "", err
		}
		status = x.Response.Status
	}
	if b := call.Body(); b != nil {
		p, e := io.ReadAll(b)
		body, err = string(p), e
	}
	<-sent
	return status, body, err
}
