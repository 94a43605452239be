package serialtest

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/stream"
)

// Connect is the client's end of a new connection.
func Connect(t testing.TB, m Mode, address string, alpn ...string) (*stream.Stream, *exchange.Conn) {
	t.Helper()
	nc, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	st := &stream.Stream{Sock: stream.NewSocket(nc, m.Portable, nil)}
	info := &exchange.Conn{}
	if m.TLS {
		st.TLS = tls.Client(st.Sock, &tls.Config{InsecureSkipVerify: true, NextProtos: alpn}) //nolint:gosec // the test's own server
		if err := st.TLS.Handshake(); err != nil {
			t.Fatal(err)
		}
		info.Facts.ALPN = st.TLS.ConnectionState().NegotiatedProtocol
	}
	return st, info
}

// Upstream runs script on the one connection that is made to it, and tells its
// address. The test's end awaits that of the script, whose connection must have been
// closed by then.
func Upstream(t testing.TB, m Mode, script func(c net.Conn, r *bufio.Reader)) (address string) {
	t.Helper()
	ln := listen(t)
	var cfg *tls.Config
	if m.TLS {
		cfg = Config()
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := ln.Accept()
		if err != nil {
			return
		}
		if m.TLS {
			c = tls.Server(c, cfg)
		}
		defer func() { _ = c.Close() }()
		script(c, bufio.NewReader(c))
	}()
	t.Cleanup(func() {
		_ = ln.Close()
		<-done
	})
	return ln.Addr().String()
}

// RoundTrip carries one exchange as the gateway does: a body that is not whole is
// sent beside the wait for the answer.
func RoundTrip(t testing.TB, c exchange.ClientConn, x *exchange.Exchange, src exchange.Source) (status int, body string, err error) {
	t.Helper()
	call, err := c.Call()
	if err != nil {
		t.Fatal(err)
	}
	if err := call.Send(x, src, exchange.Timeouts{FirstByte: 10 * time.Second, Idle: 10 * time.Second}); err != nil {
		return 0, "", err
	}
	whole := src == nil
	if !whole {
		_, whole = src.Whole()
	}
	sent := make(chan struct{})
	if whole {
		close(sent)
	} else {
		go func() {
			defer close(sent)
			_ = call.SendBody(src)
		}()
	}
	if err := finalHead(call, &x.Response); err != nil {
		call.Canceller().Cancel(err)
		<-sent
		return 0, "", err
	}
	if b := call.Body(); b != nil {
		var p []byte
		p, err = io.ReadAll(b)
		body = string(p)
	}
	<-sent
	return x.Response.Status, body, err
}

// finalHead reads heads up to the first that is not interim; 101 ends the wait too.
func finalHead(call exchange.Call, h *exchange.Head) error {
	for {
		if err := call.ReadHead(h); err != nil || h.Status >= 200 || h.Status == 101 {
			return err
		}
	}
}
