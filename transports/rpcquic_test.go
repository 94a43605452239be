package transports

import (
	"bufio"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/transports/deadline"
	"github.com/hanzoai/pqgw/zapcodec"
)

// callService answers calls with their payload and method, 404 to method 9, opens streams for
// method 4 and gives their messages back, until the connection ends.
func callService(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			serveCalls(c)
		}
	}()
	t.Cleanup(func() {
		_ = ln.Close()
		<-done
	})
	return ln.Addr().String()
}

func serveCalls(c net.Conn) {
	defer func() { _ = c.Close() }()
	for r := bufio.NewReader(c); ; {
		f, err := zapcodec.FramingRPC.Read(r, nil, 0)
		if err != nil {
			return
		}
		var out []byte
		if f.Tag >= zapcodec.DirectionStreamMessage {
			id, payload, _ := zapcodec.ParseStreamFrame(f.Bytes)
			out, _ = zapcodec.AppendStreamFrame(nil, f.Tag, id, payload)
			_, _ = c.Write(out)
			continue
		}
		var q zapcodec.RPCRequest
		if zapcodec.ParseRPCRequest(f.Bytes, &q) != nil {
			return
		}
		p := zapcodec.RPCResponse{Status: 200, Promise: q.Promise, Body: fmt.Appendf(nil, "%d %s>%d", q.Method, q.Payload, q.Target)}
		if q.Method == 9 {
			p.Status, p.Body = 404, nil
		} else if f.Tag == zapcodec.DirectionStreamOpen {
			continue
		}
		out, _ = zapcodec.FramingRPC.AppendPrefix(nil, zapcodec.DirectionResponse, p.Size())
		out, _ = zapcodec.AppendRPCResponse(out, &p)
		_, _ = c.Write(out)
	}
}

// TestCallsAndStreamsCrossQUIC: a caller, two gateways with QUIC between them, a
// service.
func TestCallsAndStreamsCrossQUIC(t *testing.T) {
	w := deadline.New()
	defer w.Close()
	client, err := handshake.NewClient(handshake.ClientSettings{PQ: handshake.Require, Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	dial := RPCSettings{DialSettings: DialSettings{TLS: client, Watch: w}}
	last, err := NewRPCUpstream([]RPCEndpoint{{"zap-rpc", callService(t)}}, dial)
	if err != nil {
		t.Fatal(err)
	}
	defer last.Close()
	records := make(chan exchange.RPCRecord, 100)
	far, _, _ := listen(t, "127.0.0.1:0", Settings{
		Protocols: []string{ZAPRPC}, TLS: serverTLS(t, ZAPRPC), RPC: toOne{up: last, records: records},
		QUIC: &QUICSettings{TLS: serverTLS(t, ZAPRPC), RetryAbove: 1000},
	})
	over, err := NewRPCUpstream([]RPCEndpoint{{"zap-rpc+quic", far.Addr().String()}}, dial)
	if err != nil {
		t.Fatal(err)
	}
	defer over.Close()
	near, _, _ := listen(t, "127.0.0.1:0", Settings{Protocols: []string{ZAPRPC}, RPC: toOne{up: over, records: records}})

	c, err := net.Dial("tcp", near.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	r := bufio.NewReader(c)
	send := func(tag byte, q zapcodec.RPCRequest) {
		t.Helper()
		b, err := zapcodec.FramingRPC.AppendPrefix(nil, tag, q.Size())
		if err == nil {
			b, err = zapcodec.AppendRPCRequest(b, &q)
		}
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write(b)
	}
	stream := func(tag byte, id uint32, text string) {
		t.Helper()
		b, err := zapcodec.AppendStreamFrame(nil, tag, id, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write(b)
	}
	read := func() string {
		t.Helper()
		f, err := zapcodec.FramingRPC.Read(r, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		var got string
		if f.Tag == zapcodec.DirectionResponse {
			var p zapcodec.RPCResponse
			err = zapcodec.ParseRPCResponse(f.Bytes, &p)
			got = fmt.Sprintf("%d %d %s", p.Promise, p.Status, p.Body)
		} else {
			var id uint32
			var payload []byte
			id, payload, err = zapcodec.ParseStreamFrame(f.Bytes)
			got = fmt.Sprintf("%d tag %d %s", id, f.Tag, payload)
		}
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	expect := func(want string) {
		t.Helper()
		if got := read(); got != want {
			t.Fatalf("%q, want %q", got, want)
		}
	}
	for i := range uint32(20) {
		send(zapcodec.DirectionRequest, zapcodec.RPCRequest{Method: 1, Promise: 100 + i, Payload: []byte("x")})
		expect(fmt.Sprintf("%d 200 1 x>0", 100+i))
	}
	send(zapcodec.DirectionRequest, zapcodec.RPCRequest{Method: 9, Promise: 1})
	expect("1 404 ")
	send(zapcodec.DirectionRequest, zapcodec.RPCRequest{Method: 2, Promise: 2, Target: 119, Payload: []byte("y")})
	expect("2 200 2 y>20") // the number of promise 119 on the last connection
	send(zapcodec.DirectionRequest, zapcodec.RPCRequest{Method: 1, Promise: 50, Payload: []byte("p")})
	send(zapcodec.DirectionRequest, zapcodec.RPCRequest{Method: 2, Promise: 51, Target: 50, Payload: []byte("q")}) // may overtake it
	both := map[string]bool{read(): true, read(): true}                                                            // so may their answers
	if !both["50 200 1 p>0"] || !both["51 200 2 q>23"] {
		t.Fatalf("%v", both)
	}
	send(zapcodec.DirectionStreamOpen, zapcodec.RPCRequest{Method: 4, Promise: 7})
	for _, text := range []string{"one", "", "three"} {
		stream(zapcodec.DirectionStreamMessage, 7, text)
		expect("7 tag 4 " + text)
	}
	send(zapcodec.DirectionRequest, zapcodec.RPCRequest{Method: 1, Promise: 8, Payload: []byte("beside")})
	expect("8 200 1 beside>0")
	stream(zapcodec.DirectionStreamEnd, 7, "")
	expect("7 tag 5 ")
	send(zapcodec.DirectionStreamOpen, zapcodec.RPCRequest{Method: 9, Promise: 7})
	expect("7 404 ")
	send(zapcodec.DirectionRequest, zapcodec.RPCRequest{Method: 1, Promise: 7, Payload: []byte("again")})
	expect("7 200 1 again>0")
	seen := map[string]bool{}
	for len(records) > 0 {
		r := <-records
		seen[r.Upstream.ClientText] = true
	}
	if !seen["zap-rpc+quic://"+far.Addr().String()] || len(seen) != 2 {
		t.Errorf("calls went to %v", seen)
	}
}
