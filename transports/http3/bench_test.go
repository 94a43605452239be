package http3

import (
	"testing"

	"github.com/hanzoai/pqgw/exchange"
)

// benchmarkGet makes calls over one connection, both ends ours; what is counted
// is that of both, and of quic-go below.
func benchmarkGet(b *testing.B, size int) {
	body := make([]byte, size)
	s := serve(b, &Options{Handler: handlerFunc(func(x *exchange.Exchange) {
		x.Response.Status = 200
		x.Response.AddKnownString(exchange.ContentType, "application/json")
		_ = x.Responder.Respond(&x.Response, exchange.NewBytes(body))
	})})
	c := dialOurs(b, s.addr)
	x := asked("GET", "/v1/models?limit=10", "User-Agent", "bench", "Accept", "*/*")
	var h exchange.Head
	b.SetBytes(int64(size))
	b.ReportAllocs()
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
}

func BenchmarkHTTP3Get1K(b *testing.B) { benchmarkGet(b, 1<<10) }
func BenchmarkHTTP3Get1M(b *testing.B) { benchmarkGet(b, 1<<20) }

// BenchmarkReadRequest reads a request's head as a browser sends it.
func BenchmarkReadRequest(b *testing.B) {
	block := request("user-agent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36", "accept", "text/html,application/xhtml+xml",
		"accept-encoding", "gzip, deflate, br, zstd", "accept-language", "en-US,en;q=0.9", "cookie", "session=0123456789abcdef")[3:]
	var d decoder
	var h exchange.Head
	lim := exchange.Limits{HeadBytes: 32 << 10, Fields: 128}
	b.ReportAllocs()
	for b.Loop() {
		if r, err := readRequest(&d, &h, block, &lim); r != nil || err != nil {
			b.Fatal(r, err)
		}
	}
}

// BenchmarkAppendAnswer writes an answer's head.
func BenchmarkAppendAnswer(b *testing.B) {
	var h exchange.Head
	h.Reset(nil)
	h.Status = 200
	h.AddString("Content-Type", "application/json")
	h.AddString("Cache-Control", "no-store")
	h.AddString("X-Request-Id", "0123456789abcdef0123456789abcdef")
	out := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		out = appendAnswer(out[:0], &h, 1024)
	}
}
