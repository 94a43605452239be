package http1

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/deadline"
	"github.com/hanzoai/pqgw/transports/serial/serialtest"
)

// An upstream that lingers reads the request and answers none: that is no matter of time-outs, and
// the gateway may ask another.
func TestAnUpstreamThatHadEndedItsDirectionIsNotAwaited(t *testing.T) {
	serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
		c := upstream(t, m, func(c net.Conn, r *bufio.Reader) {
			readRequest(r)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc")
			_ = c.(interface{ CloseWrite() error }).CloseWrite()
			if tc, ok := c.(*tls.Conn); ok { // close_notify is no FIN
				_ = tc.NetConn().(*net.TCPConn).CloseWrite()
			}
			readRequest(r)
			readRequest(r) // lingers until the client has closed
		})
		if _, _, err := serialtest.RoundTrip(t, c, serialtest.NewExchange("GET", "/"), nil); err != nil {
			t.Fatal(err)
		}
		if !c.Finish() {
			t.Fatal("the connection is not kept")
		}
		for end := time.Now().Add(5 * time.Second); c.Stream.Quiet(); { // the end has come, too
			if time.Now().After(end) {
				t.Fatal("the connection does not end")
			}
		}
		_, _, err := serialtest.RoundTrip(t, c, serialtest.NewExchange("GET", "/"), nil)
		if !errors.Is(err, io.EOF) || errors.Is(err, exchange.ErrTimeout) {
			t.Errorf("%v, want the connection's end", err)
		}
		if c.Finish() {
			t.Error("the connection is kept")
		}
		c.Close()
	})
}

// The wait for the head is over by then, and that for the next bytes has a limit of its own.
func TestAnUploadThatEndsBehindTheHeadStartsNoWaitForIt(t *testing.T) {
	const firstByte = 300 * time.Millisecond
	serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
		c := upstream(t, m, func(c net.Conn, r *bufio.Reader) {
			readRequest(r)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n")
			for line := ""; line != "0\r\n"; {
				line, _ = r.ReadString('\n')
			}
			time.Sleep(firstByte + 4*deadline.Tick) // a service that takes its time
			_, _ = io.WriteString(c, "late")
			readRequest(r)
		})
		head, body := make(chan struct{}), make(chan string)
		src := &serialtest.Pieces{List: []string{"a"}, Announced: -1}
		x := serialtest.NewExchange("POST", "/")
		if err := c.Send(x, src, exchange.Timeouts{FirstByte: firstByte, Idle: time.Minute}); err != nil {
			t.Fatal(err)
		}
		go func() {
			defer close(body)
			err := c.ReadHead(&x.Response)
			close(head)
			if err == nil {
				var b []byte
				b, err = io.ReadAll(c.Body())
				body <- string(b)
			}
			if err != nil {
				t.Error(err)
			}
		}()
		<-head
		if err := c.SendBody(src); err != nil {
			t.Error(err)
		}
		if got := <-body; got != "late" {
			t.Errorf("%q", got)
		}
		<-body
		c.Finish()
		c.Close()
	})
}
