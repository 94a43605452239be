//go:build unix

package transports

import (
	"syscall"
	"testing"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/handshake"
)

// BenchmarkQUIC compares HTTP/3 with ZAP over QUIC, both ends ours: the CPU time of
// the whole process per exchange holds where the machine is busy.
func BenchmarkQUIC(b *testing.B) {
	for _, size := range []struct {
		name string
		n    int
	}{{"1k", 1 << 10}, {"1m", 1 << 20}} {
		for _, scheme := range []string{"h3", "zap+quic"} {
			b.Run(scheme+"-"+size.name, func(b *testing.B) { benchmarkQUIC(b, scheme, size.n) })
		}
	}
}

func benchmarkQUIC(b *testing.B, scheme string, size int) {
	body := make([]byte, size)
	r := newRig(b, handshake.Prefer, func(x *exchange.Exchange) {
		x.Response.Reset(nil)
		x.Response.Status = 200
		x.Response.AddKnownString(exchange.ContentType, "application/json")
		_ = x.Responder.Respond(&x.Response, exchange.NewBytes(body))
	}, nil)
	c := dialRig(b, r, scheme)
	x := new(exchange.Exchange)
	x.Request.Reset(nil)
	x.Request.SetMethod([]byte("GET"))
	x.Request.SetAuthority([]byte("localhost"))
	x.Request.SetTarget([]byte("/v1/models"))
	var h exchange.Head
	b.ReportAllocs()
	before := cpuTime()
	for b.Loop() {
		k, err := c.Call()
		if err != nil {
			b.Fatal(err)
		}
		if err := k.Send(x, nil, exchange.Timeouts{}); err != nil {
			b.Fatal(err)
		}
		if err := k.ReadHead(&h); err != nil {
			b.Fatal(err)
		}
		got := 0
		for src, err := k.Body(), error(nil); err == nil; {
			var p []byte
			p, err = src.Next()
			got += len(p)
		}
		if got != size {
			b.Fatal(got)
		}
		k.Finish()
	}
	b.ReportMetric(float64(cpuTime()-before)/1e3/float64(b.N), "cpu-µs/op")
}

// cpuTime is what the process has used, in nanoseconds.
func cpuTime() int64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
