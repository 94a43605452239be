package http1

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/deadline"
	"github.com/hanzoai/pqgw/transports/serial"
	"github.com/hanzoai/pqgw/transports/serial/serialtest"
)

func TestAnAnnouncedLengthCostsNoMemory(t *testing.T) {
	serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
		s := start(t, m, func(x *exchange.Exchange) {
			x.Response.Reset(nil)
			x.Response.Status = 413
			_ = x.Responder.Respond(&x.Response, nil)
		}, nil)
		for _, length := range []int64{1 << 31, 1 << 62} {
			c := s.Dial()
			// As much as fills the buffer that the head came in.
			_, _ = fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", length, strings.Repeat("x", 5000))
			r := bufio.NewReader(c)
			if resp, err := http.ReadResponse(r, nil); err != nil || resp.StatusCode != 413 {
				t.Fatalf("%v %v", resp, err)
			}
			if _, err := r.ReadByte(); err != io.EOF {
				t.Errorf("after the answer: %v, want EOF", err)
			}
			_ = c.Close()
		}
	})
}

func TestARequestBehindAChunkedBodyIsKept(t *testing.T) {
	serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
		s := start(t, m, func(x *exchange.Exchange) {
			if x.Body != nil {
				_, _ = io.Copy(io.Discard, x.Body)
			}
			x.Response.Reset(nil)
			x.Response.Status = 200
			_ = x.Responder.Respond(&x.Response, exchange.NewBytes(append([]byte(nil), x.Request.Target()...)))
		}, nil)
		c := s.Dial()
		r := bufio.NewReader(c)
		_, _ = io.WriteString(c, "POST /one HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n")
		if line, err := r.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
			t.Fatalf("%q %v", line, err)
		}
		_, _ = r.ReadString('\n')
		// The body and what is behind it come in one piece, after the head has been read.
		_, _ = io.WriteString(c, "3\r\nabc\r\n0\r\n\r\nGET /two HTTP/1.1\r\nHost: a\r\n\r\n")
		for _, want := range []string{"/one", "/two"} {
			if got := readAnswer(t, r, "GET"); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
	})
}

// tunnelling serves upgrades: what comes is gathered until its end, and then
// sent back once release is closed.
func tunnelling(t *testing.T, release <-chan struct{}) serialtest.HandlerFunc {
	return func(x *exchange.Exchange) {
		x.Response.Reset(nil)
		tn, err := x.Responder.Tunnel(&x.Response)
		if err != nil {
			t.Error(err)
			return
		}
		b, err := io.ReadAll(tn)
		if err != nil {
			t.Errorf("reading: %v", err)
		}
		<-release
		if reason := x.Cancelled(); reason != nil {
			t.Errorf("cancelled: %v", reason)
		}
		_, _ = tn.Write(b)
		_ = tn.Close()
	}
}

const upgrade = "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"

func TestATunnelOutlivesTheEndOfOneDirection(t *testing.T) {
	serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
		release := make(chan struct{})
		s := start(t, m, tunnelling(t, release), nil)
		c := s.Dial()
		_, _ = io.WriteString(c, upgrade+"all of it")
		r := bufio.NewReader(c)
		if resp, err := http.ReadResponse(r, nil); err != nil || resp.StatusCode != 101 {
			t.Fatalf("%v %v", resp, err)
		}
		if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if tc, ok := c.(*tls.Conn); ok { // close_notify is no FIN, which is what is looked for
			_ = tc.NetConn().(*net.TCPConn).CloseWrite()
		}
		time.AfterFunc(4*deadline.Tick, func() { close(release) })
		if got, err := io.ReadAll(r); err != nil || string(got) != "all of it" {
			t.Errorf("%q %v", got, err)
		}
	})
}

func TestATunnelGoesOnWhileDraining(t *testing.T) {
	serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
		release := make(chan struct{})
		close(release)
		s := start(t, m, tunnelling(t, release), nil)
		c := s.Dial()
		_, _ = io.WriteString(c, upgrade)
		r := bufio.NewReader(c)
		if resp, err := http.ReadResponse(r, nil); err != nil || resp.StatusCode != 101 {
			t.Fatalf("%v %v", resp, err)
		}
		s.Shutdown()
		time.AfterFunc(serial.GraceWhileDraining+2*deadline.Tick, func() {
			_, _ = io.WriteString(c, "late")
			_ = c.(interface{ CloseWrite() error }).CloseWrite()
		})
		if got, err := io.ReadAll(r); err != nil || string(got) != "late" {
			t.Errorf("%q %v", got, err)
		}
	})
}

func TestClosingABodyEndsItsReadingWhileDraining(t *testing.T) {
	serialtest.ClosingABodyEndsItsReadingWhileDraining(t, serve, []byte("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n"),
		func(r io.Reader) (int, error) {
			resp, err := http.ReadResponse(bufio.NewReader(r), nil)
			if err != nil {
				return 0, err
			}
			return resp.StatusCode, nil
		})
}

func TestHTTP10IsNotToldToContinue(t *testing.T) {
	serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
		s := start(t, m, func(x *exchange.Exchange) {
			_, _ = io.Copy(io.Discard, x.Body)
			x.Response.Reset(nil)
			x.Response.Status = 200
			_ = x.Responder.Respond(&x.Response, nil)
		}, nil)
		c := s.Dial()
		_, _ = io.WriteString(c, "POST / HTTP/1.0\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
		time.AfterFunc(50*time.Millisecond, func() { _, _ = io.WriteString(c, "abc") })
		if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || line != "HTTP/1.1 200 OK\r\n" {
			t.Errorf("%q %v", line, err)
		}
	})
}

func TestAnEmptyLineBeforeARequestMayComeInPieces(t *testing.T) {
	serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
		s := start(t, m, serialtest.Echo, nil)
		c := s.Dial()
		for _, piece := range []string{"\r", "\nGET / HTTP/1.1\r\n", "Host: a\r\n\r\n"} {
			_, _ = io.WriteString(c, piece)
			time.Sleep(20 * time.Millisecond) // so that they are read apart
		}
		if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || line != "HTTP/1.1 200 OK\r\n" {
			t.Errorf("%q %v", line, err)
		}
	})
}

// Once it was skipped nothing has begun that could be refused.
func TestAConnectionBehindAnEmptyLineInPiecesIsIdle(t *testing.T) {
	serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
		s := start(t, m, serialtest.Echo, func(o *Options) { o.HeadTimeout = 300 * time.Millisecond })
		c := s.Dial()
		for _, piece := range []string{"\r", "\n"} {
			_, _ = io.WriteString(c, piece)
			time.Sleep(20 * time.Millisecond) // so that they are read apart
		}
		if got, err := io.ReadAll(c); err != nil || len(got) > 0 {
			t.Errorf("%q, %v, want the connection's end", got, err)
		}
	})
}
