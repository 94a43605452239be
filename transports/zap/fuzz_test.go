package zap

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/deadline"
	"github.com/hanzoai/pqgw/transports/serial"
	"github.com/hanzoai/pqgw/transports/serial/serialtest"
	"github.com/hanzoai/pqgw/transports/stream"
	"github.com/hanzoai/pqgw/zapcodec"
)

// memory is a connection whose peer has said all it will, in pieces.
type memory struct {
	in    []byte
	piece int
	out   bytes.Buffer
}

func (m *memory) Read(p []byte) (int, error) {
	if len(m.in) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), m.piece)], m.in)
	m.in = m.in[n:]
	return n, nil
}

func (m *memory) Write(p []byte) (int, error)      { return m.out.Write(p) }
func (m *memory) Close() error                     { return nil }
func (m *memory) CloseWrite() error                { return nil }
func (m *memory) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (m *memory) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (m *memory) SetDeadline(time.Time) error      { return nil }
func (m *memory) SetReadDeadline(time.Time) error  { return nil }
func (m *memory) SetWriteDeadline(time.Time) error { return nil }

var fuzzLimits = exchange.Limits{HeadBytes: 4 << 10, Fields: 16, BodyBytes: 1 << 20}

// FuzzServer feeds bytes of a stranger to a server: whatever they are, each answer is
// a sound message, a body that ended well is no longer than was sent, and
// cutting the stream into other pieces changes nothing.
func FuzzServer(f *testing.F) {
	f.Add(request(f, "GET", "/", ""))
	f.Add(request(f, "POST", "/", "body", "Content-Length: 4"))
	f.Add(append(request(f, "POST", "/", string(make([]byte, 70<<10))), request(f, "GET", "/b", "")...))
	f.Add(streamed(f, []string{"a", "bc"}, []string{"X-T: 1"}, "Zap-Body-Length: 3"))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	w := deadline.New()
	f.Cleanup(w.Close)
	f.Fuzz(func(t *testing.T, in []byte) {
		first := serveBytes(t, w, in, 1<<20)
		if second := serveBytes(t, w, in, 7); !bytes.Equal(first, second) {
			t.Fatalf("in one piece:\n%q\nin pieces:\n%q", first, second)
		}
	})
}

func serveBytes(t *testing.T, w *deadline.Watch, in []byte, piece int) []byte {
	m := &memory{in: in, piece: piece}
	o := Options{Options: serial.Options{Watch: w, Limits: fuzzLimits, Handler: serialtest.HandlerFunc(func(x *exchange.Exchange) {
		if x.Refusal == nil && x.Body != nil {
			b, err := io.ReadAll(readerOf{x.Body})
			if err == nil && len(b) > len(in) {
				t.Error("a body of more than was sent")
			}
			x.Body = nil
			if err != nil {
				x.Responder.Abort(err)
				return
			}
			x.Response.Reset(nil)
			x.Response.Status = 200
			_ = x.Responder.Respond(&x.Response, exchange.NewBytes(b))
			return
		}
		serialtest.Echo(x)
	})}}
	s := &stream.Stream{Sock: stream.NewSocket(m, true, nil)}
	_ = NewConn(s, &exchange.Conn{}, -1, &o).Serve()
	out := bytes.Clone(m.out.Bytes())
	for r := bufio.NewReader(bytes.NewReader(out)); ; {
		if _, err := tryReadAnswer(r); err != nil {
			if err != io.EOF {
				t.Fatalf("not an answer: %v", err)
			}
			return out
		}
	}
}

// FuzzClient feeds the bytes of a strange upstream to a client.
func FuzzClient(f *testing.F) {
	head := zapcodec.Response{Status: 200, Streamed: true, Headers: pairs([]string{"Zap-Body-Length: 4"})}
	framed, _ := head.Append(nil, zapcodec.Prefix|zapcodec.Extended)
	framed, _ = zapcodec.AppendData(framed, zapcodec.Prefix, []byte("part"))
	framed, _ = zapcodec.AppendEnd(framed, zapcodec.Prefix, pairs([]string{"X-T: 1"}))
	f.Add(framed)
	f.Add(answer200("hello"))
	f.Add(answer200(string(make([]byte, 70<<10))))
	w := deadline.New()
	f.Cleanup(w.Close)
	f.Fuzz(func(t *testing.T, in []byte) {
		b1, e1 := callBytes(w, in, 1<<20)
		b2, e2 := callBytes(w, in, 5)
		if (e1 == nil) != (e2 == nil) || e1 == nil && b1 != b2 {
			t.Fatalf("in one piece %q, %v; in pieces %q, %v", b1, e1, b2, e2)
		}
	})
}

func callBytes(w *deadline.Watch, in []byte, piece int) (string, error) {
	m := &memory{in: in, piece: piece}
	c := NewClientConn(&stream.Stream{Sock: stream.NewSocket(m, true, nil)}, &exchange.Conn{}, &ClientOptions{ClientOptions: serial.ClientOptions{Watch: w, Limits: fuzzLimits}})
	defer c.Close()
	x := serialtest.NewExchange("GET", "/")
	if err := c.Send(x, nil, exchange.Timeouts{}); err != nil {
		return "", err
	}
	for range 4 {
		if err := c.ReadHead(&x.Response); err != nil {
			return "", err
		}
		if x.Response.Status >= 200 {
			break
		}
	}
	if c.Body() == nil {
		return "", nil
	}
	b, err := io.ReadAll(readerOf{c.Body()})
	c.Finish()
	return string(b), err
}
