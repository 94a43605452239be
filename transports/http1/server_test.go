package http1

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/deadline"
	"github.com/hanzoai/pqgw/transports/serial/serialtest"
	"github.com/hanzoai/pqgw/transports/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start serves until the test ends.
func start(t testing.TB, m serialtest.Mode, h serialtest.HandlerFunc, change func(*Options)) *serialtest.Server {
	t.Helper()
	w := deadline.New()
	t.Cleanup(w.Close)
	o := Options{Options: serialtest.Options(w, h)}
	if change != nil {
		change(&o)
	}
	return serialtest.Start(t, m, func(s *stream.Stream, info *exchange.Conn) serialtest.Conn { return NewConn(s, info, s.Sock.FD(), &o) })
}

// serve is start with the usual options.
func serve(t testing.TB, m serialtest.Mode, h serialtest.HandlerFunc) *serialtest.Server {
	return start(t, m, h, nil)
}

func TestRequestsAreAnsweredInOrderOnOneConnection(t *testing.T) {
	big := strings.Repeat("x", 300<<10)
	serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
		s := start(t, m, serialtest.Echo, nil)
		c := s.Dial()
		r := bufio.NewReader(c)
		for i, q := range []struct{ send, want string }{
			{"GET /one HTTP/1.1\r\nHost: a\r\n\r\n", "/one"},
			{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", "hello"},
			{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4;ext=1\r\ndefg\r\n0\r\n\r\n", "abcdefg"},
			{fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", len(big), big), big},
			{"\r\nGET /after HTTP/1.1\r\nHost: a\r\n\r\n", "/after"},
			{"GET /two HTTP/1.1\r\nHost: a\r\n\r\nGET /three HTTP/1.1\r\nHost: a\r\n\r\n", "/two"},
			{"", "/three"},
		} {
			go func() { _, _ = io.WriteString(c, q.send) }()
			if got := readAnswer(t, r, "GET"); got != q.want {
				t.Fatalf("answer %d is %.80q, want %.80q", i, got, q.want)
			}
		}
	})
}

func readAnswer(t *testing.T, r *bufio.Reader, method string) string {
	t.Helper()
	resp, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestAHeadMayArriveByteByByte(t *testing.T) {
	serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
		s := start(t, m, serialtest.Echo, nil)
		c := s.Dial()
		for _, b := range []byte("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc") {
			if _, err := c.Write([]byte{b}); err != nil {
				t.Fatal(err)
			}
		}
		if got := readAnswer(t, bufio.NewReader(c), "GET"); got != "abc" {
			t.Errorf("answer %q", got)
		}
	})
}

func TestMalformedMessagesAreRefusedAndTheConnectionCloses(t *testing.T) {
	cases := []struct{ name, send, want string }{
		{"bare LF in the head", "GET / HTTP/1.1\nHost: a\n\n", "400 bad_line_end"},
		{"bare LF behind a field", "GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", "400 bad_line_end"},
		{"a space before the colon", "GET / HTTP/1.1\r\nHost : a\r\n\r\n", "400 bad_field_name"},
		{"an empty field name", "GET / HTTP/1.1\r\nHost: a\r\n: x\r\n\r\n", "400 bad_field_name"},
		{"no colon", "GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n", "400 bad_field_name"},
		{"a folded field", "GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n", "400 obsolete_folding"},
		{"a NUL in a value", "GET / HTTP/1.1\r\nHost: a\r\nX: a\x00b\r\n\r\n", "400 bad_field_value"},
		{"a CR in a value", "GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n", "400 bad_field_value"},
		{"two spaces in the request line", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", "400 bad_request_line"},
		{"two spaces before the version", "GET /  HTTP/1.1\r\nHost: a\r\n\r\n", "400 bad_request_line"},
		{"a leading space", " GET / HTTP/1.1\r\nHost: a\r\n\r\n", "400 bad_request_line"},
		{"HTTP/0.9", "GET /\r\n\r\n", "400 bad_request_line"},
		{"HTTP/2.0", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", "505 bad_version"},
		{"no host", "GET / HTTP/1.1\r\n\r\n", "400 bad_host"},
		{"length and chunked", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400 length_and_encoding"},
		{"chunked on HTTP/1.0", "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400 bad_transfer_encoding"},
		{"CONNECT", "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", "501 connect"},
		{"a head past its limit", "GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("a", 33<<10) + "\r\n\r\n", "431 head_too_large"},
		{"too many fields", "GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("A: b\r\n", 130) + "\r\n", "431 too_many_fields"},
		{"a body past its limit", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1073741825\r\n\r\n", "413 body_too_large"},
	}
	serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
		s := start(t, m, serialtest.Echo, nil)
		for _, q := range cases {
			t.Run(q.name, func(t *testing.T) {
				c := s.Dial()
				_, _ = io.WriteString(c, q.send)
				r := bufio.NewReader(c)
				resp, err := http.ReadResponse(r, nil)
				if err != nil {
					t.Fatal(err)
				}
				b, _ := io.ReadAll(resp.Body)
				if got := fmt.Sprintf("%d %s", resp.StatusCode, b); got != q.want {
					t.Errorf("got %q, want %q", got, q.want)
				}
				if !resp.Close {
					t.Error("the answer does not say that the connection closes")
				}
				if _, err := r.ReadByte(); err == nil {
					t.Error("the connection goes on")
				}
			})
		}
	})
}

func TestABadChunkCutsTheExchange(t *testing.T) {
	serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
		for _, chunks := range []string{
			"3\nabc\r\n0\r\n\r\n", "3;a\nb\r\nabc\r\n0\r\n\r\n", "3\r\nabcd\r\n0\r\n\r\n", "-3\r\nabc\r\n0\r\n\r\n", "0x3\r\nabc\r\n0\r\n\r\n",
			" 3\r\nabc\r\n0\r\n\r\n", "3 \r\nabc\r\n0\r\n\r\n", "\r\n\r\n", "fffffffffffffffff\r\n", "0\r\nX: a\nY: b\r\n\r\n", "0\r\nX : a\r\n\r\n",
		} {
			var got error
			done := make(chan struct{})
			s := start(t, m, func(x *exchange.Exchange) {
				defer close(done)
				for got == nil {
					_, got = x.Body.Next()
				}
				x.Responder.Abort(got)
			}, nil)
			c := s.Dial()
			_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"+chunks)
			<-done
			if _, ok := got.(*exchange.Refusal); !ok { //nolint:errorlint // the refusal itself
				t.Errorf("chunks %q end with %v, want a refusal", chunks, got)
			}
		}
	})
}

func TestTrailersArriveAndOwnFieldsInThemDoNot(t *testing.T) {
	serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
		s := start(t, m, serialtest.Echo, nil)
		c := s.Dial()
		_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-Sum: 1\r\nX-PQ: 1\r\nHost: b\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		if len(resp.Trailer) != 1 || resp.Trailer.Get("X-Sum") != "1" {
			t.Errorf("trailers %v", resp.Trailer)
		}
	})
}

func TestAnEarlyAnswerReachesAClientThatStillUploads(t *testing.T) {
	serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
		s := start(t, m, func(x *exchange.Exchange) {
			x.Response.Reset(nil)
			x.Response.Status = 413
			_ = x.Responder.Respond(&x.Response, exchange.NewBytes([]byte("too much")))
		}, nil)
		c := s.Dial()
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 50000000\r\n\r\n")
			_, _ = c.Write(make([]byte, 20<<20))
		}()
		if got := readAnswer(t, bufio.NewReader(c), "POST"); got != "too much" {
			t.Errorf("answer %q", got)
		}
		_ = c.Close()
		<-sent
	})
}

func TestContinueIsSentOnceTheBodyIsWanted(t *testing.T) {
	serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
		s := start(t, m, serialtest.Echo, nil)
		c := s.Dial()
		_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
		r := bufio.NewReader(c)
		line, err := r.ReadString('\n')
		if err != nil || line != "HTTP/1.1 100 Continue\r\n" {
			// The echo sends its head before it reads; then the body comes unasked for.
			if !strings.HasPrefix(line, "HTTP/1.1 200") {
				t.Fatalf("%q %v", line, err)
			}
		}
	})
}

func TestSlowHeadsGet408AndIdleConnectionsClose(t *testing.T) {
	serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
		s := start(t, m, serialtest.Echo, func(o *Options) { o.HeadTimeout, o.IdleTimeout = 300*time.Millisecond, 300*time.Millisecond })
		c := s.Dial()
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHo")
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || resp.StatusCode != 408 || !resp.Close {
			t.Errorf("slow head: %v %v", resp, err)
		}
		idle := s.Dial()
		if _, err := idle.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("idle connection: %v, want EOF", err)
		}
	})
}

func TestASlowBodyIsGivenUp(t *testing.T) {
	serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
		got := make(chan error, 1)
		s := start(t, m, func(x *exchange.Exchange) {
			if x.Refusal != nil {
				got <- x.Refusal
				serialtest.Echo(x)
				return
			}
			var err error
			for err == nil {
				_, err = x.Body.Next()
			}
			got <- err
			x.Response.Reset(nil)
			x.Response.Status = 408
			_ = x.Responder.Respond(&x.Response, nil)
		}, func(o *Options) { o.BodyMinRate, o.StreamIdle = 0, 300*time.Millisecond })
		for _, length := range []int{100, 100 << 10} {
			c := s.Dial()
			_, _ = fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\nabc", length)
			if err := <-got; err != error(exchange.RefuseSlowBody) { //nolint:errorlint // identity
				t.Errorf("body of %d ends with %v", length, err)
			}
			if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || resp.StatusCode != 408 {
				t.Errorf("answer %v %v", resp, err)
			}
		}
	})
}

func TestAClientThatGoesAwayCancelsTheExchange(t *testing.T) {
	serialtest.AClientThatGoesAwayCancelsTheExchange(t, serve, []byte("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /pipelined HTTP/1.1\r\nHost: a\r\n\r\n"))
}

func TestAClientThatTakesNothingIsCut(t *testing.T) {
	starter := func(t testing.TB, m serialtest.Mode, h serialtest.HandlerFunc) *serialtest.Server {
		return start(t, m, h, func(o *Options) { o.WriteTimeout = 300 * time.Millisecond })
	}
	request := []byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	serialtest.AClientThatTakesNothingIsCut(t, starter, request)
	serialtest.AClientThatTakesItsTimeIsNot(t, starter, request, func(r io.Reader) (int64, error) {
		resp, err := http.ReadResponse(bufio.NewReader(r), nil)
		if err != nil {
			return 0, err
		}
		return io.Copy(io.Discard, resp.Body)
	})
}

func TestShutdownAnswersWhatIsUnderWayAndClosesIdleConnections(t *testing.T) {
	serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
		begun, release := make(chan struct{}), make(chan struct{})
		s := start(t, m, func(x *exchange.Exchange) {
			close(begun)
			<-release
			serialtest.Echo(x)
		}, nil)
		busy, idle := s.Dial(), s.Dial()
		_, _ = io.WriteString(busy, "GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
		if m.TLS {
			_ = idle.(*tls.Conn).Handshake()
		}
		<-begun
		deadlineAt := time.Now().Add(10 * time.Second)
		for n := 0; n < 2 && time.Now().Before(deadlineAt); {
			n = s.Len()
		}
		s.Shutdown()
		if _, err := idle.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("idle connection: %v, want EOF", err)
		}
		close(release)
		resp, err := http.ReadResponse(bufio.NewReader(busy), nil)
		if err != nil || resp.StatusCode != 200 || !resp.Close {
			t.Errorf("busy connection: %v %v", resp, err)
		}
	})
}

func TestATunnelCarriesBytesBothWaysWithTheEarlyOnes(t *testing.T) {
	serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
		s := start(t, m, func(x *exchange.Exchange) {
			x.Response.Reset(nil)
			tn, err := x.Responder.Tunnel(&x.Response)
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.Copy(tn, tn)
			_ = tn.Close()
		}, nil)
		c := s.Dial()
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\nearly")
		r := bufio.NewReader(c)
		resp, err := http.ReadResponse(r, nil)
		if err != nil || resp.StatusCode != 101 || resp.Header.Get("Sec-WebSocket-Accept") != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" {
			t.Fatalf("%v %v", resp, err)
		}
		_, _ = io.WriteString(c, " and late")
		b := make([]byte, len("early and late"))
		if _, err := io.ReadFull(r, b); err != nil || string(b) != "early and late" {
			t.Errorf("%q %v", b, err)
		}
	})
}

func TestThePrefaceOfHTTP2IsHandedOver(t *testing.T) {
	a, b := net.Pipe()
	w := deadline.New()
	defer w.Close()
	st := &stream.Stream{Sock: stream.NewSocket(a, true, nil)}
	c := NewConn(st, &exchange.Conn{}, -1, &Options{Options: serialtest.Options(w, serialtest.HandlerFunc(serialtest.Echo)), H2C: true})
	go func() { _, _ = io.WriteString(b, preface) }()
	if err := c.Serve(); err != ErrPreface || !bytes.HasPrefix([]byte(preface), c.Pending()) { //nolint:errorlint // identity
		t.Errorf("%v %q", err, c.Pending())
	}
	_, _ = a.Close(), b.Close()
}
