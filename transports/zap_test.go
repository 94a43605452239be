package transports

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/transports/deadline"
	"github.com/hanzoai/pqgw/zapcodec"
)

// callZAP asks an endpoint through its dialer.
func callZAP(t *testing.T, scheme, address string, portable bool) (string, exchange.Protocol) {
	t.Helper()
	w := deadline.New()
	defer w.Close()
	client, err := handshake.NewClient(handshake.ClientSettings{PQ: handshake.Require, Insecure: true, NextProtos: []string{"h2", "http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	d, err := NewDialer(scheme, address, DialSettings{TLS: client, Watch: w, Portable: portable})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	c, err := d.Dial(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	call, err := c.Call()
	if err != nil {
		t.Fatal(err)
	}
	var x exchange.Exchange
	x.Request.Reset(nil)
	x.Request.SetMethod([]byte("GET"))
	x.Request.SetTarget([]byte("/"))
	x.Request.SetAuthority([]byte("a"))
	if err := call.Send(&x, nil, exchange.Timeouts{FirstByte: 10 * time.Second}); err != nil {
		t.Fatal(err)
	}
	if err := call.ReadHead(&x.Response); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(call.Body())
	if err != nil || !call.Finish() {
		t.Fatal(err)
	}
	return string(b), c.Info().Protocol
}

func TestZAPIsServedInTheClearOnUnixSocketsAndOverTLS(t *testing.T) {
	unix := filepath.Join(t.TempDir(), "s")
	for _, portable := range []bool{false, true} {
		clearly, _, _ := listen(t, "127.0.0.1:0", Settings{Protocols: []string{ZAP}, Portable: portable})
		only, _, _ := listen(t, "127.0.0.1:0", Settings{Protocols: []string{ZAP}, Portable: portable, TLS: serverTLS(t, ZAP)})
		shared, _, _ := listen(t, "127.0.0.1:0", Settings{Protocols: []string{H1, H2, ZAP}, Portable: portable, TLS: serverTLS(t, H1, H2, ZAP)})
		local, _, _ := listen(t, "unix:"+unix, Settings{Protocols: []string{ZAP}, Portable: portable})
		for _, q := range []struct{ scheme, address, want string }{
			{"zap", clearly.Addr().String(), "zap 127.0.0.1 trusted=false secure=false alpn="},
			{"zap+unix", unix, "zap unix trusted=false secure=false alpn="},
			{"zap+tls", only.Addr().String(), "zap 127.0.0.1 trusted=false secure=true alpn=zap-http/1"},
			{"zap+tls", shared.Addr().String(), "zap 127.0.0.1 trusted=false secure=true alpn=zap-http/1"},
			{"https", shared.Addr().String(), "h2 127.0.0.1 trusted=false secure=true alpn=h2"},
		} {
			if got, p := callZAP(t, q.scheme, q.address, portable); got != q.want || (p == exchange.ZAP) != strings.HasPrefix(q.scheme, "zap") {
				t.Errorf("%s: %q by %s", q.scheme, got, p)
			}
		}
		publicPeer(t, dial(t, only))
		local.Close()
	}
}

// publicPeer speaks ZAP over TLS as those do who agree on no ALPN.
func publicPeer(t *testing.T, raw net.Conn) {
	t.Helper()
	c := tls.Client(raw, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the test's own
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	r := zapcodec.Request{Method: []byte("GET"), Target: []byte("/")}
	b, err := r.Append(nil, zapcodec.Prefix)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = c.Write(b)
	f, err := zapcodec.FramingHTTP.Read(bufio.NewReader(c), nil, 0)
	var v zapcodec.ResponseView
	if err == nil {
		err = v.Parse(f.Bytes)
	}
	if err != nil || string(v.Body()) != "zap 127.0.0.1 trusted=false secure=true alpn=" {
		t.Errorf("a public peer got %q, %v", v.Body(), err)
	}
}
