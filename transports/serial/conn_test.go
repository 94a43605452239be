package serial

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/buffer"
	"github.com/hanzoai/pqgw/transports/deadline"
	"github.com/hanzoai/pqgw/transports/stream"
)

// lines is the least of a protocol: a request is a line, the target; an answer the
// length of its body on a line, then the body.
type lines struct {
	Conn
	turn *lineTurn
}

type lineTurn struct{ Turn }

func (l *lines) Begin() *Turn {
	l.turn = &lineTurn{}
	l.turn.Bind(&l.Conn, l.turn, nil)
	return &l.turn.Turn
}

func (l *lines) Rest() {
	l.turn.Drop()
	l.turn = nil
}

func (l *lines) Parse() (bool, error) {
	l.AwaitHead()
	end := bytes.IndexByte(l.Pending(), '\n')
	if end < 0 {
		return false, nil
	}
	l.Size = end + 1
	x := l.turn.Renew()
	x.Request.Reset(nil)
	x.Request.SetTarget(l.Pending()[:end])
	return true, nil
}

func (l *lines) Refuse(r *exchange.Refusal) { l.turn.Refuse(r) }
func (l *lines) Plain() bool                { return true }
func (l *lines) SetBody() int               { return l.Size }

func (t *lineTurn) Interim(*exchange.Head) error                   { return nil }
func (t *lineTurn) Tunnel(*exchange.Head) (exchange.Tunnel, error) { return nil, exchange.ErrTunnel }
func (t *lineTurn) MostWhole() int                                 { return 1 << 20 }
func (t *lineTurn) AppendHead(out []byte, _ *exchange.Head, _ Shape, length int64) ([]byte, bool, error) {
	return append(strconv.AppendInt(out, length, 10), '\n'), false, nil
}

type handler func(x *exchange.Exchange)

func (h handler) Serve(x *exchange.Exchange) { h(x) }

func echo(x *exchange.Exchange) {
	x.Response.Reset(nil)
	x.Response.Status = 200
	_ = x.Responder.Respond(&x.Response, exchange.NewBytes(x.Request.Target()))
}

// serveLines serves one connection and gives its other end.
func serveLines(t *testing.T, portable bool) (*lines, net.Conn) {
	t.Helper()
	client, nc := connect(t)
	s := &stream.Stream{Sock: stream.NewSocket(nc, portable, nil)}
	return start(t, s, client, 0), client
}

// connect gives the two ends of a connection.
func connect(t *testing.T) (client, server net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	if client, err = net.Dial("tcp", ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if server, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	_ = client.SetDeadline(time.Now().Add(20 * time.Second))
	return client, server
}

// start serves s, whose other end is client, for so many requests at most, 0 being any number.
func start(t *testing.T, s *stream.Stream, client net.Conn, most int) *lines {
	t.Helper()
	w := deadline.New()
	l := &lines{}
	l.Init(l, s, &exchange.Conn{}, s.Sock.FD(), &Options{
		Handler: handler(echo), Watch: w, MaxRequests: most, HeadTimeout: time.Minute, IdleTimeout: time.Minute, StreamIdle: time.Minute,
	})
	served := make(chan error, 1)
	go func() { served <- l.Serve() }()
	t.Cleanup(func() {
		_ = client.Close()
		if err := <-served; err != nil {
			t.Errorf("serving ended with %v", err)
		}
		w.Close()
	})
	return l
}

func TestRequestsAreServedInTurn(t *testing.T) {
	for _, portable := range []bool{false, true} {
		_, c := serveLines(t, portable)
		_, _ = io.WriteString(c, "one\ntwo\nthr")
		_, _ = io.WriteString(c, "ee\n")
		want := "3\none3\ntwo5\nthree"
		got := make([]byte, len(want))
		if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
			t.Errorf("portable %v: %q, %v", portable, got, err)
		}
	}
}

// idleBytes is the most that a connection may take by itself while it is idle: many
// thousands are.
const idleBytes = 512

func TestAnIdleConnectionKeepsNoExchange(t *testing.T) {
	if n := unsafe.Sizeof(Conn{}); n > idleBytes {
		t.Errorf("a connection takes %d bytes, want %d at most", n, idleBytes)
	}
	for _, portable := range []bool{false, true} {
		l, c := serveLines(t, portable)
		_, _ = io.WriteString(c, "one\n")
		if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || line != "3\n" {
			t.Fatalf("%q, %v", line, err)
		}
		whenIdle(t, l)
	}
}

func TestAnIdleConnectionKeepsNoLongMessage(t *testing.T) {
	client, nc := connect(t)
	o := &offered{Conn: nc}
	start(t, &stream.Stream{Sock: stream.NewSocket(o, true, nil)}, client, 0)
	const long = 1 << 20
	go func() { _, _ = client.Write(append(bytes.Repeat([]byte("x"), long), '\n')) }()
	if n, err := io.CopyN(io.Discard, client, long+int64(len("1048576\n"))); err != nil {
		t.Fatalf("%d bytes, %v", n, err)
	}
	for end := time.Now().Add(10 * time.Second); o.last.Load() > buffer.Medium; {
		if time.Now().After(end) {
			t.Fatalf("%d bytes wait for the next request", o.last.Load())
		}
	}
}

// offered knows how much memory the last read had.
type offered struct {
	net.Conn
	last atomic.Int64
}

func (o *offered) Read(p []byte) (int, error) {
	o.last.Store(int64(len(p)))
	return o.Conn.Read(p)
}

// whenIdle waits until a connection has given its exchange back.
func whenIdle(t *testing.T, l *lines) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; {
		l.mu.Lock()
		idle := l.Turn == nil
		l.mu.Unlock()
		if idle {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the state of the exchange is kept")
		}
	}
}

// counting counts the writes.
type counting struct {
	net.Conn
	writes atomic.Int32
}

func (c *counting) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// The client finds the end of the connection behind the answer, without being woken twice.
func TestTheLastAnswerLeavesWithItsCloseNotify(t *testing.T) {
	client, nc := connect(t)
	counted := &counting{Conn: nc}
	s := &stream.Stream{Sock: stream.NewSocket(counted, true, nil)}
	s.TLS = tls.Server(s.Sock, selfSigned(t))
	tc := tls.Client(client, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the test's own server
	shaken := make(chan error, 1)
	go func() { shaken <- s.TLS.Handshake() }()
	if err := tc.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := <-shaken; err != nil {
		t.Fatal(err)
	}
	counted.writes.Store(0)
	start(t, s, client, 1)
	_, _ = io.WriteString(tc, "one\n")
	if got, err := io.ReadAll(tc); err != nil || string(got) != "3\none" {
		t.Fatalf("%q, %v", got, err)
	}
	if n := counted.writes.Load(); n != 1 {
		t.Errorf("%d writes, want 1", n)
	}
}

func selfSigned(t *testing.T) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
}
