package http1

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/deadline"
	"github.com/hanzoai/pqgw/transports/serial"
	"github.com/hanzoai/pqgw/transports/serial/serialtest"
	"github.com/hanzoai/pqgw/transports/stream"
)

// upstream runs script on the one connection made to it, and gives our side.
func upstream(t testing.TB, m serialtest.Mode, script func(c net.Conn, r *bufio.Reader)) *ClientConn {
	t.Helper()
	w := deadline.New()
	t.Cleanup(w.Close)
	s, info := serialtest.Connect(t, m, serialtest.Upstream(t, m, script))
	c := NewClientConn(s, info, &ClientOptions{Watch: w, Limits: exchange.Limits{HeadBytes: 32 << 10, Fields: 128}})
	t.Cleanup(c.Close)
	return c
}

// readRequest takes one request off the wire, body by Content-Length included.
func readRequest(r *bufio.Reader) string {
	var b strings.Builder
	length := 0
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return b.String()
		}
		b.WriteString(line)
		_, _ = fmt.Sscanf(line, "Content-Length: %d", &length)
		if line == "\r\n" {
			break
		}
	}
	body := make([]byte, length)
	_, _ = io.ReadFull(r, body)
	return b.String() + string(body)
}

func TestAnswersAreReadByTheirFraming(t *testing.T) {
	big := strings.Repeat("y", 600<<10)
	serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
		for _, q := range []struct {
			name, method, answer, want string
			status                     int
			reusable                   bool
		}{
			{"by length", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", "abc", 200, true},
			{"by length, much", "GET", fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(big), big), big, 200, true},
			{"by chunks", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n", "abcd", 200, true},
			{"by chunks, much", "GET", fmt.Sprintf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\nX-T: 1\r\n\r\n", len(big), big), big, 200, true},
			{"by the connection's end", "GET", "HTTP/1.1 200 OK\r\n\r\nabc", "abc", 200, false},
			{"without a reason", "GET", "HTTP/1.1 299\r\nContent-Length: 0\r\n\r\n", "", 299, true},
			{"to HEAD", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 300\r\n\r\n", "", 200, true},
			{"204", "GET", "HTTP/1.1 204 No Content\r\n\r\n", "", 204, true},
			{"304 with a length", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", "", 304, true},
			{"that closes", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\na", "a", 200, false},
			{"HTTP/1.0", "GET", "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", "a", 200, false},
			{"with bytes too many", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab", "a", 200, false},
		} {
			t.Run(q.name, func(t *testing.T) {
				c := upstream(t, m, func(c net.Conn, r *bufio.Reader) {
					readRequest(r)
					_, _ = io.WriteString(c, q.answer)
					if !q.reusable {
						return
					}
					readRequest(r)
				})
				status, body, err := serialtest.RoundTrip(t, c, serialtest.NewExchange(q.method, "/"), nil)
				if err != nil || status != q.status || body != q.want {
					t.Fatalf("%d %.40q %v", status, body, err)
				}
				if got := c.Finish(); got != q.reusable {
					t.Errorf("reusable %v, want %v", got, q.reusable)
				}
				c.Close()
			})
		}
	})
}

func TestBadAnswersAreErrors(t *testing.T) {
	serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
		for _, q := range []struct {
			name, answer string
			want         error
			answered     bool
		}{
			{"nothing", "", io.EOF, false},
			{"half a head", "HTTP/1.1 200 OK\r\nA: ", io.EOF, true},
			{"not HTTP", "SSH-2.0-x\r\n\r\n", exchange.RefuseStatus, true},
			{"bare LF", "HTTP/1.1 200 OK\nA: b\n\n", exchange.RefuseLineEnd, true},
			{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\na", exchange.RefuseLength, true},
			{"length and chunks", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", exchange.RefuseLengthAndTE, true},
			{"101 unasked", "HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n", exchange.RefuseSwitch, true},
			{"a head without end", "HTTP/1.1 200 OK\r\nA: " + strings.Repeat("a", 70<<10), exchange.RefuseHeadSize, true},
			{"too many fields", "HTTP/1.1 200 OK\r\n" + strings.Repeat("A: a\r\n", 200) + "\r\n", exchange.RefuseFieldCount, true},
		} {
			t.Run(q.name, func(t *testing.T) {
				c := upstream(t, m, func(c net.Conn, r *bufio.Reader) {
					readRequest(r)
					_, _ = io.WriteString(c, q.answer)
				})
				_, _, err := serialtest.RoundTrip(t, c, serialtest.NewExchange("GET", "/"), nil)
				var ue *exchange.UpstreamError
				if !errors.As(err, &ue) || !errors.Is(err, q.want) || ue.Answered != q.answered {
					t.Errorf("%v, want %v", err, q.want)
				}
				if c.Finish() {
					t.Error("the connection would be used again")
				}
			})
		}
	})
}

func TestATruncatedBodyIsAnError(t *testing.T) {
	serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
		for _, answer := range []string{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"} {
			c := upstream(t, m, func(c net.Conn, r *bufio.Reader) {
				readRequest(r)
				_, _ = io.WriteString(c, answer)
			})
			_, body, err := serialtest.RoundTrip(t, c, serialtest.NewExchange("GET", "/"), nil)
			if !errors.Is(err, serial.ErrTruncated) || body != "abc" || c.Finish() {
				t.Errorf("%q: %q %v", answer, body, err)
			}
		}
	})
}

func TestRequestsAreWrittenOnceAndWhole(t *testing.T) {
	big := strings.Repeat("z", 40<<10)
	serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
		for _, q := range []struct {
			name string
			x    *exchange.Exchange
			body exchange.Source
			want string
		}{
			{"GET", serialtest.NewExchange("GET", "/a?b", "X-A: 1", "x-b: 2"), nil, "GET /a?b HTTP/1.1\r\nHost: up.example\r\nX-A: 1\r\nx-b: 2\r\n\r\n"},
			{"POST without a body", serialtest.NewExchange("POST", "/"), nil, "POST / HTTP/1.1\r\nHost: up.example\r\nContent-Length: 0\r\n\r\n"},
			{"a small body", serialtest.NewExchange("POST", "/"), exchange.NewBytes([]byte("abc")), "POST / HTTP/1.1\r\nHost: up.example\r\nContent-Length: 3\r\n\r\nabc"},
			{"a larger body", serialtest.NewExchange("PUT", "/"), exchange.NewBytes([]byte(big)), "PUT / HTTP/1.1\r\nHost: up.example\r\nContent-Length: 40960\r\n\r\n" + big},
		} {
			t.Run(q.name, func(t *testing.T) {
				got := make(chan string, 2)
				c := upstream(t, m, func(c net.Conn, r *bufio.Reader) {
					for range 2 {
						got <- readRequest(r)
						_, _ = io.WriteString(c, "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
					}
				})
				for range 2 {
					call, err := c.Call()
					if err != nil {
						t.Fatal(err)
					}
					if err := call.Send(q.x, q.body, exchange.Timeouts{}); err != nil {
						t.Fatal(err)
					}
					var h exchange.Head
					for h.Status < 200 {
						if err := call.ReadHead(&h); err != nil {
							t.Fatal(err)
						}
					}
					if s := <-got; s != q.want {
						t.Errorf("sent %.200q", s)
					}
					if b, ok := call.Body().Whole(); !ok || string(b) != "ok" {
						t.Errorf("body %q, whole %v", b, ok)
					}
					if !call.Finish() {
						t.Fatal("not reusable")
					}
				}
				c.Close()
			})
		}
	})
}

func TestASilentUpstreamTimesOutAndCancelEndsTheWait(t *testing.T) {
	serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
		silent := func(_ net.Conn, r *bufio.Reader) { _, _ = io.Copy(io.Discard, r) }
		c := upstream(t, m, silent)
		call, _ := c.Call()
		x := serialtest.NewExchange("GET", "/")
		_ = call.Send(x, nil, exchange.Timeouts{FirstByte: 300 * time.Millisecond})
		if err := call.ReadHead(&x.Response); !errors.Is(err, exchange.ErrTimeout) || call.Finish() {
			t.Errorf("timeout: %v", err)
		}
		c = upstream(t, m, silent)
		call, _ = c.Call()
		_ = call.Send(x, nil, exchange.Timeouts{})
		time.AfterFunc(50*time.Millisecond, func() { call.Canceller().Cancel(exchange.ErrClientGone) })
		if err := call.ReadHead(&x.Response); !errors.Is(err, exchange.ErrClientGone) || call.Finish() {
			t.Errorf("cancel: %v", err)
		}
	})
}

func TestAStreamedRequestAndItsAnswerCross(t *testing.T) {
	serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
		c := upstream(t, m, func(c net.Conn, r *bufio.Reader) {
			head := readRequest(r)
			if !strings.Contains(head, "Transfer-Encoding: chunked\r\n") {
				return
			}
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			for {
				size, err := r.ReadString('\n')
				if err != nil {
					return
				}
				_, _ = io.WriteString(c, size)
				data, _ := r.ReadString('\n')
				_, _ = io.WriteString(c, data)
				if size == "0\r\n" {
					return
				}
			}
		})
		pr, pw := io.Pipe()
		x := serialtest.NewExchange("POST", "/")
		call, _ := c.Call()
		src := &pipeSource{r: pr}
		if err := call.Send(x, src, exchange.Timeouts{}); err != nil {
			t.Fatal(err)
		}
		sent := make(chan error, 1)
		go func() { sent <- call.SendBody(src) }()
		if err := call.ReadHead(&x.Response); err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"ping", "pong"} {
			_, _ = io.WriteString(pw, word)
			b := make([]byte, 4)
			if _, err := io.ReadFull(call.Body(), b); err != nil || string(b) != word {
				t.Fatalf("%q %v", b, err)
			}
		}
		_ = pw.Close()
		if rest, err := io.ReadAll(call.Body()); err != nil || len(rest) != 0 {
			t.Errorf("%q %v", rest, err)
		}
		if err := <-sent; err != nil || !call.Finish() {
			t.Errorf("sent %v", err)
		}
	})
}

// pipeSource is a body of unknown length that comes through a pipe.
type pipeSource struct {
	r   *io.PipeReader
	buf [64]byte
}

func (p *pipeSource) Length() int64              { return -1 }
func (p *pipeSource) Whole() ([]byte, bool)      { return nil, false }
func (p *pipeSource) Buffered() int              { return 0 }
func (p *pipeSource) Trailers() *exchange.Head   { return nil }
func (p *pipeSource) Close(error)                {}
func (p *pipeSource) Read(b []byte) (int, error) { return p.r.Read(b) }
func (p *pipeSource) Next() (b []byte, err error) {
	n, err := p.r.Read(p.buf[:])
	return p.buf[:n], err
}

func TestAnUpgradeBecomesATunnel(t *testing.T) {
	serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
		c := upstream(t, m, func(c net.Conn, r *bufio.Reader) {
			if !strings.Contains(readRequest(r), "Connection: Upgrade\r\nUpgrade: websocket\r\n") {
				return
			}
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nhi")
			_, _ = io.Copy(c, r)
		})
		x := serialtest.NewExchange("GET", "/")
		x.Request.SetProtocol([]byte("WebSocket"))
		status, _, err := serialtest.RoundTrip(t, c, x, nil)
		if err != nil || status != 101 {
			t.Fatal(status, err)
		}
		tn, err := c.Tunnel()
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(tn, " there")
		b := make([]byte, 8)
		if _, err := io.ReadFull(tn, b); err != nil || string(b) != "hi there" {
			t.Errorf("%q %v", b, err)
		}
		_ = tn.Close()
		if c.Finish() {
			t.Error("a tunnel is not used again")
		}
	})
}

// What follows an answer that had no body is never the next one's.
func TestBytesBehindAnAnswerWithoutABodyEndTheConnection(t *testing.T) {
	const forged = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nEVIL"
	serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
		for _, q := range []struct{ name, method, head string }{
			{"to HEAD", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 42\r\n\r\n"},
			{"204", "GET", "HTTP/1.1 204 No Content\r\n\r\n"},
			{"204 that announces a body", "GET", "HTTP/1.1 204 No Content\r\nContent-Length: 42\r\n\r\n"},
			{"304", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 42\r\n\r\n"},
			{"empty", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"},
		} {
			for _, late := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, late %v", q.name, late), func(t *testing.T) {
					read, sent := make(chan struct{}), make(chan struct{})
					c := upstream(t, m, func(c net.Conn, r *bufio.Reader) {
						readRequest(r)
						if late {
							_, _ = io.WriteString(c, q.head)
							<-read
							_, _ = io.WriteString(c, forged)
						} else {
							_, _ = io.WriteString(c, q.head+forged)
						}
						close(sent)
						readRequest(r)
					})
					if _, _, err := serialtest.RoundTrip(t, c, serialtest.NewExchange(q.method, "/"), nil); err != nil {
						t.Fatal(err)
					}
					kept := c.Finish()
					close(read)
					<-sent
					if !late && kept {
						t.Error("the connection is kept")
					}
					for end := time.Now().Add(5 * time.Second); c.Usable(); {
						if time.Now().After(end) {
							t.Fatal("the connection is still used")
						}
					}
				})
			}
		}
	})
}

// Records that come together are all taken from the socket, also those that are not looked at.
func TestARecordBehindAnAnswerWithoutABodyEndsTheConnection(t *testing.T) {
	for _, m := range serialtest.Modes {
		if !m.TLS {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			address := serialtest.Upstream(t, serialtest.Mode{}, func(nc net.Conn, _ *bufio.Reader) {
				st := &stream.Stream{Sock: stream.NewSocket(nc, true, nil)}
				st.TLS = tls.Server(st.Sock, serialtest.Config())
				r := bufio.NewReader(st.TLS)
				readRequest(r)
				st.Sock.Cork()
				_, _ = io.WriteString(st.TLS, "HTTP/1.1 200 OK\r\nContent-Length: 42\r\n\r\n")
				_, _ = io.WriteString(st.TLS, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nEVIL")
				_ = st.Sock.Uncork()
				readRequest(r)
			})
			w := deadline.New()
			t.Cleanup(w.Close)
			s, info := serialtest.Connect(t, m, address)
			c := NewClientConn(s, info, &ClientOptions{Watch: w, Limits: exchange.Limits{HeadBytes: 32 << 10}})
			t.Cleanup(c.Close)
			if _, _, err := serialtest.RoundTrip(t, c, serialtest.NewExchange("HEAD", "/"), nil); err != nil {
				t.Fatal(err)
			}
			if c.Finish() && c.Usable() {
				t.Error("the connection is still used")
			}
		})
	}
}
