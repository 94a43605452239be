package transports

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/transports/deadline"
	"github.com/hanzoai/pqgw/zapcodec"
)

// toOne routes all calls to one upstream, or none.
type toOne struct {
	up      exchange.RPCUpstream
	records chan exchange.RPCRecord
}

func (r toOne) RouteRPC(*exchange.Conn, uint32) (exchange.RPCRoute, uint32) {
	return exchange.RPCRoute{Upstream: r.up}, 404
}

func (r toOne) RPCDone(d *exchange.RPCRecord) { r.records <- *d }

// TestCallsCrossTwoGatewaysOverTLS: a public peer without ALPN calls a listener, whose
// upstream is another listener, by ALPN zap/1; that one knows no method.
func TestCallsCrossTwoGatewaysOverTLS(t *testing.T) {
	w := deadline.New()
	defer w.Close()
	far := toOne{records: make(chan exchange.RPCRecord, 1)}
	last, _, _ := listen(t, "127.0.0.1:0", Settings{Protocols: []string{ZAPRPC}, TLS: serverTLS(t, ZAPRPC), RPC: far})
	client, err := handshake.NewClient(handshake.ClientSettings{PQ: handshake.Require, Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	up, err := NewRPCUpstream([]RPCEndpoint{{"zap-rpc+tls", last.Addr().String()}}, RPCSettings{DialSettings: DialSettings{TLS: client, Watch: w}})
	if err != nil {
		t.Fatal(err)
	}
	defer up.Close()
	near := toOne{up: up, records: make(chan exchange.RPCRecord, 1)}
	first, _, _ := listen(t, "127.0.0.1:0", Settings{Protocols: []string{ZAPRPC}, TLS: serverTLS(t, ZAPRPC), RPC: near})

	c := tls.Client(dial(t, first), &tls.Config{InsecureSkipVerify: true, CurvePreferences: []tls.CurveID{tls.X25519MLKEM768}}) //nolint:gosec // the test's own
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	q := zapcodec.RPCRequest{Method: 3, Promise: 99, Payload: []byte{1, 2}}
	b, err := zapcodec.FramingRPC.AppendPrefix(nil, zapcodec.DirectionRequest, q.Size())
	if err == nil {
		b, err = zapcodec.AppendRPCRequest(b, &q)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, _ = c.Write(b)
	answer := make([]byte, 5+16+20+len("no upstream takes this method"))
	if _, err := io.ReadFull(c, answer); err != nil {
		t.Fatal(err)
	}
	var p zapcodec.RPCResponse
	if err := zapcodec.ParseRPCResponse(answer[5:], &p); err != nil || p.Status != 404 || p.Promise != 99 || !bytes.Contains(p.Body, []byte("no upstream")) {
		t.Fatalf("%+v, %v", p, err)
	}
	if r := <-far.records; r.Conn.Facts.ALPN != "zap/1" || r.Method != 3 || r.Status != 404 {
		t.Errorf("the second gateway saw %+v", r)
	}
	if r := <-near.records; r.Conn.Facts.ALPN != "" || r.Upstream.ClientText != "zap-rpc+tls://"+last.Addr().String() || r.Status != 404 || r.In != 2 {
		t.Errorf("the first gateway saw %+v", r)
	}
}

func TestRPCEndpointsAreChecked(t *testing.T) {
	if _, err := NewRPCUpstream([]RPCEndpoint{{"zap-rpc+tls", "a:1"}}, RPCSettings{}); err == nil {
		t.Error("without TLS settings")
	}
	if _, err := NewRPCUpstream([]RPCEndpoint{{"http", "a:1"}}, RPCSettings{}); !errors.Is(err, ErrScheme) {
		t.Error(err)
	}
	up, err := NewRPCUpstream([]RPCEndpoint{{"zap-rpc", "127.0.0.1:1"}}, RPCSettings{})
	if err != nil {
		t.Fatal(err)
	}
	defer up.Close()
	var e *exchange.UpstreamError
	if _, err := up.Lease(context.Background()); !errors.As(err, &e) {
		t.Error(err)
	}
}
