package zaprpc

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"os"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/deadline"
	"github.com/hanzoai/pqgw/zapcodec"
)

// quicPair is a connection over the loopback, both its sides.
func quicPair(t *testing.T, client *quic.Config) (server, caller *quic.Conn) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := quic.ListenAddr("127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, NextProtos: []string{ALPN},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	caller, err = quic.DialAddr(ctx, ln.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{ALPN}}, client) //nolint:gosec // of this test alone
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = caller.CloseWithError(0, "") })
	if server, err = ln.Accept(ctx); err != nil {
		t.Fatal(err)
	}
	return server, caller
}

// TestAQUICStreamWhoseCallerTakesNothingIsReset: it alone, though it is sent to all the while.
func TestAQUICStreamWhoseCallerTakesNothingIsReset(t *testing.T) {
	const window = 64 << 10
	one := newService(t)
	u, w := NewUpstream(settings, one.dial), deadline.New()
	server, caller := quicPair(t, &quic.Config{InitialStreamReceiveWindow: window, MaxStreamReceiveWindow: window})
	c := NewQUICConn(server, &exchange.Conn{}, &Options{Router: &router{one: u}, Watch: w, WriteTimeout: 200 * time.Millisecond})
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = c.Serve()
	}()
	t.Cleanup(func() {
		c.Close()
		<-over
		u.Close()
		w.Close()
	})
	still := openCall(t, caller, zapcodec.TagStream, streams, 1)
	var err error
	for err == nil {
		var b []byte
		if b, err = zapcodec.FramingRPCNext.AppendPrefix(nil, 0, 16<<10); err == nil {
			_, err = still.Write(append(b, make([]byte, 16<<10)...))
		}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("the stream stands still, and was not cut")
	}
	other := openCall(t, caller, zapcodec.TagCall, echoes, 2)
	frame, err := zapcodec.FramingRPCNext.Read(bufio.NewReader(other), nil, DefaultFrameBytes)
	var r zapcodec.RPCResponse
	if err == nil {
		err = zapcodec.ParseRPCResponse(frame.Bytes, &r)
	}
	if err != nil || r.Status != zapcodec.RPCOK {
		t.Errorf("another call: %d, %v", r.Status, err)
	}
}

// openCall opens a call, or a stream, on a QUIC stream of its own.
func openCall(t *testing.T, qc *quic.Conn, tag byte, method, promise uint32) *quic.Stream {
	t.Helper()
	str, err := qc.OpenStream()
	if err != nil {
		t.Fatal(err)
	}
	_ = str.SetDeadline(time.Now().Add(10 * time.Second))
	q := zapcodec.RPCRequest{Method: method, Promise: promise}
	b, err := zapcodec.FramingRPCOpen.AppendPrefix(nil, tag, q.Size())
	if err == nil {
		b, err = zapcodec.AppendRPCRequest(b, &q)
	}
	if err == nil {
		_, err = str.Write(b)
	}
	if err != nil {
		t.Fatal(err)
	}
	return str
}
