package zap

import (
	"bufio"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/deadline"
	"github.com/hanzoai/pqgw/transports/serial/serialtest"
	"github.com/hanzoai/pqgw/transports/stream"
	"github.com/hanzoai/pqgw/zapcodec"
)

func TestMain(m *testing.M) {
	if kind := os.Getenv("PQGW_ZAP_BENCH_SERVER"); kind != "" {
		runBenchServer(kind)
	}
	goleak.VerifyTestMain(m)
}

// server is a listener of ours.
type server struct{ *serialtest.Server }

func start(t testing.TB, m serialtest.Mode, h serialtest.HandlerFunc, change func(*Options)) *server {
	t.Helper()
	w := deadline.New()
	t.Cleanup(w.Close)
	o := Options{Options: serialtest.Options(w, h)}
	if change != nil {
		change(&o)
	}
	return &server{serialtest.Start(t, m, func(s *stream.Stream, info *exchange.Conn) serialtest.Conn { return NewConn(s, info, s.Sock.FD(), &o) }, ALPN)}
}

// serve is start with the usual options.
func serve(t testing.TB, m serialtest.Mode, h serialtest.HandlerFunc) *serialtest.Server {
	return start(t, m, h, nil).Server
}

// client connects our own client's side.
func (s *server) client(t testing.TB, o *ClientOptions) *ClientConn {
	t.Helper()
	return newClient(t, s.Mode(), s.Address(), o, ALPN)
}

func newClient(t testing.TB, m serialtest.Mode, address string, o *ClientOptions, alpn ...string) *ClientConn {
	t.Helper()
	s, info := serialtest.Connect(t, m, address, alpn...)
	if o == nil {
		o = &ClientOptions{}
	}
	if o.Watch == nil {
		w := deadline.New()
		t.Cleanup(w.Close)
		o.Watch, o.Limits = w, exchange.Limits{HeadBytes: 32 << 10, Fields: 128}
	}
	c := NewClientConn(s, info, o)
	t.Cleanup(c.Close)
	return c
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
