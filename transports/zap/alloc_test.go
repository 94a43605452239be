//go:build !race

package zap

import (
	"bytes"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/serial/serialtest"
)

// TestAWarmConnectionCostsNoAllocation counts both sides of an exchange.
func TestAWarmConnectionCostsNoAllocation(t *testing.T) {
	for _, n := range []int{0, 16, 1 << 10, 64 << 10} {
		body := bytes.Repeat([]byte("a"), n)
		for _, m := range serialtest.Modes[:2] {
			var src exchange.Bytes
			s := start(t, m, func(x *exchange.Exchange) {
				h := &x.Response
				h.Reset(nil)
				h.Status = 200
				h.AddKnownString(exchange.ContentType, "application/json")
				src.Reset(body)
				_ = x.Responder.Respond(h, &src)
			}, nil)
			c := s.client(t, nil)
			x := serialtest.NewExchange("POST", "/v1/x", "Accept: application/json")
			up := exchange.NewBytes(body)
			run := func() {
				if err := c.Send(x, up, exchange.Timeouts{FirstByte: time.Minute, Idle: time.Minute}); err != nil {
					t.Fatal(err)
				}
				if err := c.ReadHead(&x.Response); err != nil {
					t.Fatal(err)
				}
				for b := c.Body(); b != nil; {
					if _, err := b.Next(); err != nil {
						break
					}
				}
				if !c.Finish() {
					t.Fatal("lost")
				}
			}
			for range 100 {
				run()
			}
			if a := testing.AllocsPerRun(500, run); a >= 1 {
				t.Errorf("%s, %d bytes: %.1f allocations an exchange", m.Name, n, a)
			}
		}
	}
}

// TestDoCostsNoAllocation counts both sides of a fasthttp call, handler included.
func TestDoCostsNoAllocation(t *testing.T) {
	addr, _ := service(t, FastHTTP(func(ctx *fasthttp.RequestCtx) { ctx.SetBody(ctx.PostBody()) }), nil)
	c := &Client{Timeouts: exchange.Timeouts{FirstByte: time.Minute, Idle: time.Minute}}
	t.Cleanup(c.Close)
	var req fasthttp.Request
	var resp fasthttp.Response
	req.SetRequestURI("zap://" + addr + "/v1/x")
	req.Header.SetMethod("POST")
	for _, n := range []int{16, 1 << 10, 60 << 10} {
		req.SetBody(bytes.Repeat([]byte("a"), n))
		run := func() {
			if err := c.Do(&req, &resp); err != nil || len(resp.Body()) != n {
				t.Fatal(err)
			}
		}
		for range 100 {
			run()
		}
		if a := testing.AllocsPerRun(500, run); a >= 1 {
			t.Errorf("%d bytes: %.1f allocations a call", n, a)
		}
	}
}
