package serial

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"github.com/hanzoai/pqgw/exchange"
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
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	nc, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	w := deadline.New()
	l := &lines{}
	s := &stream.Stream{Sock: stream.NewSocket(nc, portable, nil)}
	l.Init(l, s, &exchange.Conn{}, s.Sock.FD(), &Options{Handler: handler(echo), Watch: w, HeadTimeout: time.Minute, IdleTimeout: time.Minute, StreamIdle: time.Minute})
	served := make(chan error, 1)
	go func() { served <- l.Serve() }()
	t.Cleanup(func() {
		_ = client.Close()
		if err := <-served; err != nil {
			t.Errorf("serving ended with %v", err)
		}
		w.Close()
	})
	_ = client.SetDeadline(time.Now().Add(20 * time.Second))
	return l, client
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
		for end := time.Now().Add(10 * time.Second); ; {
			l.mu.Lock()
			idle := l.Turn == nil
			l.mu.Unlock()
			if idle {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("portable %v: the state of the exchange is kept", portable)
			}
		}
	}
}
