//go:build unix

package transports

import (
	"slices"
	"syscall"
	"testing"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/handshake"
)

// BenchmarkZAPOverQUICBesideHTTP3 tells what an exchange costs by ZAP over QUIC and by HTTP/3,
// both ends ours: the CPU time of the whole process. They run in turns, so that what else
// the machine does meets both; of the turns' ratios the median counts. `-benchtime 100x` is a
// hundred turns.
func BenchmarkZAPOverQUICBesideHTTP3(b *testing.B) {
	for _, size := range []struct {
		name     string
		n, batch int
	}{{"1k", 1 << 10, 300}, {"1m", 1 << 20, 10}} {
		b.Run(size.name, func(b *testing.B) {
			arms := [2]*quicArm{newQUICArm(b, "zap+quic", size.n), newQUICArm(b, "h3", size.n)}
			var ratios []float64
			for turn := 0; b.Loop(); turn++ {
				for i := range arms {
					arms[(i+turn)%2].turn(b, size.batch)
				}
				ratios = append(ratios, arms[0].last()/arms[1].last())
			}
			b.ReportMetric(median(arms[0].costs), "zap-cpu-µs/op")
			b.ReportMetric(median(arms[1].costs), "h3-cpu-µs/op")
			b.ReportMetric(median(ratios), "ratio")
		})
	}
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// quicArm is one of the protocols, with a connection to a listener of its own.
type quicArm struct {
	c     exchange.ClientConn
	x     *exchange.Exchange
	size  int
	costs []float64 // of each turn, µs of CPU for an exchange
}

func newQUICArm(b *testing.B, scheme string, size int) *quicArm {
	body := make([]byte, size)
	r := newRig(b, handshake.Prefer, func(x *exchange.Exchange) {
		x.Response.Reset(nil)
		x.Response.Status = 200
		x.Response.AddKnownString(exchange.ContentType, "application/json")
		_ = x.Responder.Respond(&x.Response, exchange.NewBytes(body))
	}, nil)
	a := &quicArm{c: dialRig(b, r, scheme), x: new(exchange.Exchange), size: size}
	a.x.Request.Reset(nil)
	a.x.Request.SetMethod([]byte("GET"))
	a.x.Request.SetAuthority([]byte("localhost"))
	a.x.Request.SetTarget([]byte("/v1/models"))
	for range 20 {
		a.exchange(b)
	}
	return a
}

func (a *quicArm) turn(b *testing.B, n int) {
	before := cpuTime()
	for range n {
		a.exchange(b)
	}
	a.costs = append(a.costs, float64(cpuTime()-before)/1e3/float64(n))
}

func (a *quicArm) last() float64 { return a.costs[len(a.costs)-1] }

func (a *quicArm) exchange(b *testing.B) {
	k, err := a.c.Call()
	if err != nil {
		b.Fatal(err)
	}
	defer k.Finish()
	if err := k.Send(a.x, nil, exchange.Timeouts{}); err != nil {
		b.Fatal(err)
	}
	var h exchange.Head
	if err := k.ReadHead(&h); err != nil {
		b.Fatal(err)
	}
	got := 0
	for src, err := k.Body(), error(nil); err == nil; {
		var p []byte
		p, err = src.Next()
		got += len(p)
	}
	if got != a.size {
		b.Fatal(got)
	}
}

// cpuTime is what the process has used, in nanoseconds.
func cpuTime() int64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
