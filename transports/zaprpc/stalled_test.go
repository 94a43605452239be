package zaprpc

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/deadline"
	"github.com/hanzoai/pqgw/transports/stream"
)

// TestACallerThatTakesNoAnswersIsCut: though it goes on to call, which puts off what bounds silence.
func TestACallerThatTakesNoAnswersIsCut(t *testing.T) {
	one := newService(t)
	r := newRelay(t, one, one, func(o *Options) { o.WriteTimeout = 200 * time.Millisecond })
	c := r.dial(t)
	payload := strings.Repeat("x", 1<<20)
	for promise := uint32(1); ; promise++ {
		err := c.w.send(&exchange.RPCFrame{Kind: exchange.RPCRequest, Method: echoes, Promise: promise, Payload: []byte(payload)})
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("the connection stands still, and was not cut")
		}
		if err != nil {
			break
		}
	}
}

// TestCloseEndsAConnectionWhoseServiceTakesNothing: its reader waits for the service, not for the caller.
func TestCloseEndsAConnectionWhoseServiceTakesNothing(t *testing.T) {
	deaf, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = deaf.Close() })
	u := NewUpstream(settings, func(ctx context.Context, release func(*ClientConn, bool)) (*ClientConn, error) {
		nc, err := (&net.Dialer{}).DialContext(ctx, "tcp", deaf.Addr().String())
		if err != nil {
			return nil, err
		}
		return NewClientConn(&stream.Stream{Sock: stream.NewSocket(nc, false, nil)}, &exchange.Conn{}, 0, release), nil
	})
	w := deadline.New()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	ours, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = ln.Close()
	c := NewConn(&stream.Stream{Sock: stream.NewSocket(ours, false, nil)}, &exchange.Conn{}, &Options{Router: &router{one: u}, Watch: w})
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = c.Serve()
	}()
	t.Cleanup(func() {
		_ = theirs.Close()
		u.Close()
		<-over
		w.Close()
	})
	caller := newWire(&stream.Stream{Sock: stream.NewSocket(theirs, false, nil)}, 0)
	for promise := uint32(1); err == nil; promise++ {
		_ = theirs.SetWriteDeadline(time.Now().Add(time.Second))
		err = caller.send(&exchange.RPCFrame{Kind: exchange.RPCRequest, Method: echoes, Promise: promise, Payload: make([]byte, 1<<20)})
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	c.Close()
	select {
	case <-over:
	case <-time.After(10 * time.Second):
		t.Error("Serve still waits for the service")
	}
}
