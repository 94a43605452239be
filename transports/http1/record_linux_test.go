package http1

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hanzoai/pqgw/transports/serial/serialtest"
)

// An upstream that dies in the middle of a TLS record is noticed although its end
// came together with the part of the record.
func TestAnEndInTheMiddleOfARecordIsNoticed(t *testing.T) {
	for _, q := range []struct{ name, before string }{
		{"of the head", ""},
		{"of the body", "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"},
	} {
		t.Run(q.name, func(t *testing.T) {
			stopped, goOn := make(chan struct{}), make(chan struct{})
			c := upstream(t, serialtest.Mode{TLS: true}, func(c net.Conn, r *bufio.Reader) {
				readRequest(r)
				_, _ = io.WriteString(c, q.before)
				close(stopped)
				<-goOn
				raw := c.(*tls.Conn).NetConn().(*net.TCPConn)
				_ = raw.SetNoDelay(false)
				cork(t, raw) // one segment with the FIN, so that one edge tells of both
				_, _ = raw.Write([]byte{23, 3, 3, 0x40, 0, 1, 2, 3})
				_ = raw.CloseWrite()
				_, _ = io.Copy(io.Discard, raw)
			})
			ended := make(chan error, 1)
			go func() {
				_, _, err := serialtest.RoundTrip(t, c, serialtest.NewExchange("GET", "/"), nil)
				ended <- err
			}()
			<-stopped
			time.Sleep(50 * time.Millisecond) // for the reader to wait
			close(goOn)
			select {
			case err := <-ended:
				if err == nil {
					t.Error("no error")
				}
			case <-time.After(5 * time.Second):
				t.Error("nobody noticed")
			}
		})
	}
}

// cork lets the kernel send nothing until the stream's end or a full segment.
func cork(t *testing.T, c *net.TCPConn) {
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_CORK, 1) }); err != nil {
		t.Fatal(err)
	}
}
