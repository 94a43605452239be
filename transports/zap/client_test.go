package zap

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/serial"
	"github.com/hanzoai/pqgw/transports/serial/serialtest"
	"github.com/hanzoai/pqgw/zapcodec"
)

func TestClientAndServerCarryEveryShapeOfExchange(t *testing.T) {
	sizes := []int{0, 1, 1 << 10, 9 << 10, 60 << 10, 70 << 10, 1 << 20, 5 << 20}
	serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
		s := start(t, m, serialtest.Echo, nil)
		c := s.client(t, nil)
		for _, n := range sizes {
			body := strings.Repeat("0123456789abcdef", n/16+1)[:n]
			for _, q := range []struct {
				name string
				src  exchange.Source
			}{
				{"whole", exchange.NewBytes([]byte(body))},
				{"of known length", &serialtest.Pieces{List: split(body), Announced: int64(n)}},
				{"of unknown length", &serialtest.Pieces{List: split(body), Announced: -1}},
			} {
				x := serialtest.NewExchange("POST", "/up")
				status, got, err := serialtest.RoundTrip(t, c, x, q.src)
				if want := body; err != nil || status != 200 || got != want && (n > 0 || got != "/up") {
					t.Fatalf("%d bytes %s: %d, %d bytes, %v", n, q.name, status, len(got), err)
				}
				if !c.Finish() {
					t.Fatalf("%d bytes %s: the connection is lost", n, q.name)
				}
			}
		}
	})
}

// split makes pieces of 50,000 bytes.
func split(s string) (list []string) {
	for len(s) > 50_000 {
		list, s = append(list, s[:50_000]), s[50_000:]
	}
	if s != "" {
		list = append(list, s)
	}
	return list
}

func TestLengthAndTrailersOfStreamedBodiesArrive(t *testing.T) {
	limit := func(o *Options) { o.MessageBytes = 1 << 20 }
	body := strings.Repeat("b", 2<<20)
	serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
		type heard struct {
			length int64
			sum    string
		}
		told := make(chan heard, 1)
		s := start(t, m, func(x *exchange.Exchange) {
			if x.Body == nil {
				serialtest.Echo(x) // our side asks what the peer speaks
				return
			}
			got := heard{length: x.Request.Length}
			if _, err := io.Copy(io.Discard, readerOf{x.Body}); err != nil {
				t.Error(err)
			}
			if tr := x.Body.Trailers(); tr != nil {
				got.sum = string(tr.Value(0))
			}
			told <- got
			h := &x.Response
			h.Reset(nil)
			h.Status = 200
			_ = x.Responder.Respond(h, &serialtest.Pieces{List: split(body), Announced: int64(len(body)), Trailer: trailer("X-Down", "2")})
		}, limit)
		c := s.client(t, &ClientOptions{MessageBytes: 1 << 20})
		x := serialtest.NewExchange("PUT", "/")
		_, got, err := serialtest.RoundTrip(t, c, x, &serialtest.Pieces{List: split(body), Announced: int64(len(body)), Trailer: trailer("X-Up", "1")})
		if err != nil || got != body {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
		up := <-told
		if up.length != int64(len(body)) || x.Response.Length != int64(len(body)) {
			t.Errorf("announced up %d, down %d, want %d", up.length, x.Response.Length, len(body))
		}
		if down := c.Body().Trailers(); up.sum != "1" || down == nil || string(down.Value(0)) != "2" {
			t.Errorf("trailers up %q, down %v", up.sum, down)
		}
		if x.Response.Live() != 0 {
			t.Errorf("the answer has a field %s", x.Response.Name(0))
		}
		if !c.Finish() {
			t.Error("the connection is lost")
		}
	})
}

func trailer(n, v string) *exchange.Head {
	h := &exchange.Head{}
	h.Reset(nil)
	h.AddString(n, v)
	return h
}

func TestAnswersWithoutBodyKeepTheirLength(t *testing.T) {
	serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
		s := start(t, m, func(x *exchange.Exchange) {
			h := &x.Response
			h.Reset(nil)
			h.Status, h.Length = 200, 1234
			_ = x.Responder.Respond(h, exchange.NewBytes([]byte("not sent")))
		}, nil)
		c := s.client(t, nil)
		for range 2 {
			x := serialtest.NewExchange("HEAD", "/")
			if _, body, err := serialtest.RoundTrip(t, c, x, nil); err != nil || body != "" || x.Response.Length != 1234 || !c.Finish() {
				t.Fatalf("%q, %v, length %d", body, err, x.Response.Length)
			}
		}
	})
}

// public runs script on the connections made to it, as a peer that does not know of
// our extension, and gives our side of one.
func public(t *testing.T, m serialtest.Mode, o *ClientOptions, script func(c net.Conn, r *bufio.Reader)) *ClientConn {
	t.Helper()
	return newClient(t, m, serialtest.Upstream(t, m, script), o)
}

func answer200(body string) []byte {
	r := zapcodec.Response{Status: 200, Reason: []byte("OK"), Body: []byte(body)}
	b, _ := r.Append(nil, zapcodec.Prefix)
	return b
}

func TestAPublicPeerSeesThePublicFormatAlone(t *testing.T) {
	serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
		var seen []string
		c := public(t, m, &ClientOptions{MessageBytes: 1 << 20}, func(c net.Conn, r *bufio.Reader) {
			for {
				f, err := readFrame(r)
				if err != nil {
					return
				}
				var v zapcodec.RequestView
				if err := v.Parse(f); err != nil || v.Streamed() {
					t.Errorf("not a public request: %v", err)
					return
				}
				seen = append(seen, string(v.Method())+" "+string(v.Target())+" "+text(v.Headers()))
				_, _ = c.Write(answer200(string(v.Body())))
			}
		})
		body := strings.Repeat("u", 300<<10)
		for range 2 {
			status, got, err := serialtest.RoundTrip(t, c, serialtest.NewExchange("POST", "/up"), &serialtest.Pieces{List: split(body), Announced: -1})
			if err != nil || status != 200 || got != body || !c.Finish() {
				t.Fatalf("%d, %d bytes, %v", status, len(got), err)
			}
		}
		want := []string{"OPTIONS * Host: up.example\n", "POST /up Host: up.example\n", "POST /up Host: up.example\n"}
		if strings.Join(seen, "|") != strings.Join(want, "|") {
			t.Fatalf("the peer saw %q", seen)
		}
		// What is too long for a message is refused, before it is sent where that can be.
		x := serialtest.NewExchange("POST", "/up")
		if _, _, err := serialtest.RoundTrip(t, c, x, &serialtest.Pieces{List: []string{"x"}, Announced: 2 << 20}); !errors.Is(err, RefuseUnstreamable) || !c.Finish() {
			t.Fatalf("a length beyond the limit: %v", err)
		}
		big := strings.Repeat("u", 2<<20)
		if _, _, err := serialtest.RoundTrip(t, c, x, &serialtest.Pieces{List: split(big), Announced: -1}); !errors.Is(err, RefuseUnstreamable) {
			t.Fatalf("a body beyond the limit: %v", err)
		}
		if c.Finish() {
			t.Fatal("the connection would be used again")
		}
	})
}

func TestAnUpgradeIsRefusedAndTheConnectionKept(t *testing.T) {
	s := start(t, serialtest.Modes[0], serialtest.Echo, nil)
	c := s.client(t, nil)
	x := serialtest.NewExchange("GET", "/ws")
	x.Request.SetProtocol([]byte("websocket"))
	if _, _, err := serialtest.RoundTrip(t, c, x, nil); !errors.Is(err, exchange.ErrTunnel) || !c.Finish() {
		t.Fatal(err)
	}
	if status, _, err := serialtest.RoundTrip(t, c, serialtest.NewExchange("GET", "/"), nil); err != nil || status != 200 {
		t.Fatal(status, err)
	}
}

func TestA100IsGivenToThoseWhoWaitForIt(t *testing.T) {
	s := start(t, serialtest.Modes[0], serialtest.Echo, nil)
	c := s.client(t, nil)
	x := serialtest.NewExchange("POST", "/")
	x.Request.ExpectContinue = true
	call, err := c.Call()
	if err != nil {
		t.Fatal(err)
	}
	if err := call.Send(x, &serialtest.Pieces{List: []string{"abc"}, Announced: 3}, exchange.Timeouts{}); err != nil {
		t.Fatal(err)
	}
	if err := call.ReadHead(&x.Response); err != nil || x.Response.Status != 100 {
		t.Fatal(x.Response.Status, err)
	}
	if err := call.SendBody(&serialtest.Pieces{List: []string{"abc"}}); err != nil {
		t.Fatal(err)
	}
	if err := call.ReadHead(&x.Response); err != nil || x.Response.Status != 200 {
		t.Fatal(x.Response.Status, err)
	}
}

func TestAnEarlyAnswerArrivesWhileTheUploadGoesOn(t *testing.T) {
	serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
		s := start(t, m, func(x *exchange.Exchange) {
			h := &x.Response
			h.Reset(nil)
			h.Status = 413
			_ = x.Responder.Respond(h, exchange.NewBytes([]byte("too much")))
			x.Body.Close(nil)
		}, nil)
		c := s.client(t, nil)
		x := serialtest.NewExchange("POST", "/")
		stop := make(chan struct{})
		src := &endless{stop: stop, length: 1 << 20}
		if err := c.Send(x, src, exchange.Timeouts{FirstByte: 10 * time.Second}); err == nil {
			_, err := c.Call()
			if !errors.Is(err, exchange.ErrConnBusy) {
				t.Fatalf("a second call: %v", err)
			}
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = c.SendBody(src)
		}()
		if err := c.ReadHead(&x.Response); err != nil || x.Response.Status != 413 {
			t.Fatal(x.Response.Status, err)
		}
		if b, err := io.ReadAll(c.Body()); err != nil || string(b) != "too much" {
			t.Fatal(string(b), err)
		}
		close(stop)
		<-done
		if c.Finish() {
			t.Fatal("the connection would be used again")
		}
	})
}

// endless is a body that never gives all that it announced.
type endless struct {
	serialtest.Pieces
	stop   chan struct{}
	length int64
	begun  bool
}

func (e *endless) Length() int64 { return e.length }

func (e *endless) Next() ([]byte, error) {
	if !e.begun {
		e.begun = true
		return []byte("begun"), nil
	}
	<-e.stop
	return nil, serial.ErrGivenUp
}

func TestCallsEndWhenCancelledOrLate(t *testing.T) {
	serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
		hang := func(c net.Conn, r *bufio.Reader) {
			_, _ = readFrame(r)
			_, _ = io.Copy(io.Discard, r)
		}
		c := public(t, m, nil, hang)
		x := serialtest.NewExchange("GET", "/")
		_ = c.Send(x, nil, exchange.Timeouts{FirstByte: 300 * time.Millisecond})
		if err := c.ReadHead(&x.Response); !errors.Is(err, exchange.ErrTimeout) || c.Finish() {
			t.Fatal(err)
		}
		c = public(t, m, nil, hang)
		_ = c.Send(x, nil, exchange.Timeouts{})
		reason := errors.New("the client went away")
		timer := time.AfterFunc(20*time.Millisecond, func() { c.Canceller().Cancel(reason) })
		defer timer.Stop()
		if err := c.ReadHead(&x.Response); !errors.Is(err, reason) || c.Finish() {
			t.Fatal(err)
		}
	})
}

func TestMalformedAnswersAreRefused(t *testing.T) {
	bad := func(change func(b []byte)) []byte {
		b := answer200("hello")
		change(b)
		return b
	}
	for _, q := range []struct {
		name string
		send []byte
	}{
		{"no ZAP", []byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")},
		{"a request", request(t, "GET", "/", "")},
		{"status 42", bad(func(b []byte) { b[20], b[21] = 42, 0 })},
		{"status 101", bad(func(b []byte) { b[20], b[21] = 101, 0 })},
		{"a pointer outside", bad(func(b []byte) { b[52] = 0xff })},
		{"cut short", answer200("hello")[:40]},
		{"nothing", nil},
	} {
		t.Run(q.name, func(t *testing.T) {
			serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
				c := public(t, m, nil, func(c net.Conn, r *bufio.Reader) {
					_, _ = readFrame(r)
					_, _ = c.Write(q.send)
				})
				x := serialtest.NewExchange("GET", "/")
				_, _, err := serialtest.RoundTrip(t, c, x, nil)
				var up *exchange.UpstreamError
				if !errors.As(err, &up) || up.Answered != (q.send != nil) || c.Finish() {
					t.Fatalf("%v", err)
				}
			})
		})
	}
}

func TestABodyCutShortIsNotTakenForWhole(t *testing.T) {
	head := zapcodec.Response{Status: 200, Streamed: true}
	framed, _ := head.Append(nil, zapcodec.Prefix)
	framed, _ = zapcodec.AppendData(framed, zapcodec.Prefix, []byte("part"))
	long := answer200(strings.Repeat("l", 200<<10))
	serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
		for _, send := range [][]byte{framed, long[:100<<10]} {
			c := public(t, m, nil, func(c net.Conn, r *bufio.Reader) {
				_, _ = readFrame(r)
				_, _ = c.Write(send)
			})
			x := serialtest.NewExchange("GET", "/")
			if _, _, err := serialtest.RoundTrip(t, c, x, nil); !errors.Is(err, serial.ErrTruncated) || c.Finish() {
				t.Fatal(err)
			}
		}
	})
}

func TestBytesThatNothingAskedForEndTheConnection(t *testing.T) {
	serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
		c := public(t, m, nil, func(c net.Conn, r *bufio.Reader) {
			_, _ = readFrame(r)
			_, _ = c.Write(append(answer200("one"), answer200("two")...))
			_, _ = io.Copy(io.Discard, r)
		})
		x := serialtest.NewExchange("GET", "/")
		if _, body, err := serialtest.RoundTrip(t, c, x, nil); err != nil || body != "one" || c.Finish() {
			t.Fatal(body, err)
		}
	})
}
