package transports

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/transports/deadline"
)

// TestACallThatNobodyWaitsForResetsItsStream: so the service learns of it, and the
// client may open another.
func TestACallThatNobodyWaitsForResetsItsStream(t *testing.T) {
	w := deadline.New()
	defer w.Close()
	ln, err := quic.ListenAddr("127.0.0.1:0", serverTLS(t, ZAPRPC).Config(), &quic.Config{MaxIncomingStreams: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	client, err := handshake.NewClient(handshake.ClientSettings{PQ: handshake.Require, Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	up, err := NewRPCUpstream([]RPCEndpoint{{"zap-rpc+quic", ln.Addr().String()}}, RPCSettings{DialSettings: DialSettings{TLS: client, Watch: w}})
	if err != nil {
		t.Fatal(err)
	}
	defer up.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	c, err := up.Lease(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release(false)
	c.Attach(func(*exchange.RPCFrame) {}, func(error) {})
	qc, err := ln.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []exchange.RPCKind{exchange.RPCRequest, exchange.RPCOpen, exchange.RPCRequest} {
		id := c.NextPromise()
		if err := c.Send(&exchange.RPCFrame{Kind: kind, Method: 1, Promise: id}); err != nil {
			t.Fatal(err)
		}
		s, err := qc.AcceptStream(ctx)
		if err != nil {
			t.Fatal(err)
		}
		c.Abandon(id, kind == exchange.RPCOpen)
		select {
		case <-s.Context().Done():
		case <-ctx.Done():
			t.Fatalf("the stream of a frame of kind %d goes on", kind)
		}
		var reset *quic.StreamError
		if err := context.Cause(s.Context()); !errors.As(err, &reset) || !reset.Remote {
			t.Errorf("the stream of a frame of kind %d ended by %v", kind, err)
		}
		s.CancelRead(0)
		s.CancelWrite(0) // makes room for the next
	}
}
