package zapcodec

import (
	"fmt"
	"testing"
)

// benchPairs are header fields such as an API call carries.
var benchPairs = []Pair{
	{[]byte("Host"), []byte("api.example.com")},
	{[]byte("Accept"), []byte("application/json")},
	{[]byte("Content-Type"), []byte("application/json")},
	{[]byte("Authorization"), []byte("Bearer sk-test-0123456789abcdef")},
	{[]byte("User-Agent"), []byte("pqgw-bench/1.0 (linux)")},
	{[]byte("Accept-Encoding"), []byte("gzip, br, zstd")},
	{[]byte("Accept-Language"), []byte("en-GB,en;q=0.9")},
	{[]byte("X-Request-Id"), []byte("6f1c2d3e4a5b6c7d8e9f")},
	{[]byte("X-Forwarded-For"), []byte("203.0.113.7")},
	{[]byte("X-Forwarded-Proto"), []byte("https")},
	{[]byte("Cache-Control"), []byte("no-cache")},
	{[]byte("Traceparent"), []byte("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")},
}

func benchRequest(n int) Request {
	return Request{
		Method: []byte("POST"), Target: []byte("/v1/chat/completions"), Proto: []byte("HTTP/1.1"),
		Headers: benchPairs[:n], Body: []byte(`{"model":"m","stream":false}`),
	}
}

func benchResponse(n int) Response {
	return Response{
		Status: 200, Reason: []byte("OK"), Proto: []byte("HTTP/1.1"),
		Headers: benchPairs[len(benchPairs)-n:], Body: []byte(`{"id":"1","object":"chat.completion"}`),
	}
}

func BenchmarkHTTP(b *testing.B) {
	for _, n := range []int{2, 12} {
		req, resp := benchRequest(n), benchResponse(n)
		buf := make([]byte, 0, 4096)
		b.Run(fmt.Sprintf("request/append/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				if _, err := req.Append(buf, Prefix); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("response/append/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				if _, err := resp.Append(buf, Prefix); err != nil {
					b.Fatal(err)
				}
			}
		})
		reqFrame, _ := req.Append(nil, 0)
		respFrame, _ := resp.Append(nil, 0)
		var rv RequestView
		b.Run(fmt.Sprintf("request/parse/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				if err := rv.Parse(reqFrame); err != nil {
					b.Fatal(err)
				}
			}
		})
		var sv ResponseView
		b.Run(fmt.Sprintf("response/parse/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				if err := sv.Parse(respFrame); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("request/walk/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				total := 0
				p := rv.Headers()
				for p.Next() {
					total += len(p.Name()) + len(p.Value())
				}
				if total == 0 {
					b.Fatal("nothing walked")
				}
			}
		})
	}
}

func BenchmarkSplit(b *testing.B) {
	for _, size := range []int{1 << 10, 1 << 20} {
		r := benchResponse(12)
		r.Body = make([]byte, size)
		buf := make([]byte, 0, 4096)
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				if _, _, err := r.Split(buf, Prefix); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
