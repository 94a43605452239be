package http2

import (
	"bufio"
	"crypto/tls"
	"io"
	"sync"
	"testing"

	"github.com/hanzoai/pqgw/exchange"
)

// fixed answers every request with the same body.
type fixed struct{ body []byte }

var sources = sync.Pool{New: func() any { return exchange.NewBytes(nil) }}

func (f *fixed) Serve(x *exchange.Exchange) {
	h := &x.Response
	h.Reset(nil)
	h.Status = 200
	h.AddKnownString(exchange.ContentType, "application/json")
	h.AddKnownString(exchange.Server, "origin")
	src := sources.Get().(*exchange.Bytes)
	src.Reset(f.body)
	_ = x.Responder.Respond(h, src)
	sources.Put(src)
}

// streamed hides that its bytes are whole already.
type streamed struct{ exchange.Bytes }

func (s *streamed) Whole() ([]byte, bool) { return nil, false }

type streaming struct{ body []byte }

func (f *streaming) Serve(x *exchange.Exchange) {
	x.Response.Status = 200
	var src streamed
	src.Reset(f.body)
	_ = x.Responder.Respond(&x.Response, &src)
}

// benchServe drives one connection with width requests at a time, by a client
// that allocates nothing.
func benchServe(b *testing.B, secure bool, width, size int, h exchange.Handler) {
	o := &Options{Handler: h, Limits: exchange.Limits{HeadBytes: 32 << 10, Fields: 128}}
	theirs, ours := tcpPair(b)
	client := theirs
	if secure {
		ours = tls.Server(ours, &tls.Config{Certificates: []tls.Certificate{certificate(b)}, MinVersion: tls.VersionTLS13})
		client = tls.Client(theirs, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the certificate is made for the test
	}
	done := make(chan error)
	go func() { done <- Serve(ours, &exchange.Conn{Protocol: exchange.HTTP2}, o) }()
	defer func() {
		theirs.Close()
		if err := <-done; err != nil {
			b.Log(err)
		}
	}()
	fields := block(append(requestFields, "user-agent", "bench/1", "accept", "*/*", "authorization", "Bearer abcdefghijklmnopqrstuvwxyz")...)
	hello := appendFrameHeader([]byte(preface), settingLen, frameSettings, 0, 0)
	hello = appendSetting(hello, settingInitialWindow, 1<<30)
	hello = appendWindowUpdate(hello, 0, 1<<30)
	if _, err := client.Write(hello); err != nil {
		b.Fatal(err)
	}
	r := bufio.NewReaderSize(client, 64<<10)
	id, out := uint32(1), []byte(nil)
	add := func() {
		out = appendFrameHeader(out, len(fields), frameHeaders, flagEndHeaders|flagEndStream, id)
		out = append(out, fields...)
		id += 2
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	b.ResetTimer()
	for range min(width, b.N) {
		add()
	}
	credit := 0
	var head [frameHeaderLen]byte
	for left, sent := b.N, min(width, b.N); left > 0; {
		if len(out) > 0 && r.Buffered() == 0 {
			if _, err := client.Write(out); err != nil {
				b.Fatal(err)
			}
			out = out[:0]
		}
		if _, err := io.ReadFull(r, head[:]); err != nil {
			b.Fatal(err)
		}
		f := parseFrameHeader(head[:])
		if _, err := r.Discard(f.length); err != nil {
			b.Fatal(err)
		}
		if f.typ != frameData {
			continue
		}
		if credit += f.length; credit > 1<<28 {
			out = appendWindowUpdate(out, 0, uint32(credit))
			credit = 0
		}
		if f.has(flagEndStream) {
			left--
			if sent < b.N {
				sent++
				add()
			}
		}
	}
	b.StopTimer()
}

func BenchmarkServe1k(b *testing.B) { benchServe(b, false, 32, 1024, &fixed{make([]byte, 1024)}) }

func BenchmarkServe1kOneAtATime(b *testing.B) {
	benchServe(b, false, 1, 1024, &fixed{make([]byte, 1024)})
}

func BenchmarkServe1kTLS(b *testing.B) { benchServe(b, true, 32, 1024, &fixed{make([]byte, 1024)}) }

func BenchmarkServe64kTLS(b *testing.B) {
	benchServe(b, true, 8, 64<<10, &fixed{make([]byte, 64<<10)})
}

func BenchmarkServe1mTLS(b *testing.B) {
	benchServe(b, true, 4, 1<<20, &streaming{make([]byte, 1<<20)})
}

// BenchmarkCall1k counts both ends: a call of ours to a server of ours.
func BenchmarkCall1k(b *testing.B) {
	s := serve(b, &Options{Handler: &fixed{make([]byte, 1024)}})
	c := dial(b, s.addr, nil)
	x := newRequest("GET", "/")
	b.ReportAllocs()
	for b.Loop() {
		k, err := c.Call()
		if err != nil {
			b.Fatal(err)
		}
		if err := k.Send(x, nil, exchange.Timeouts{}); err != nil {
			b.Fatal(err)
		}
		if err := k.ReadHead(&x.Response); err != nil {
			b.Fatal(err)
		}
		for {
			if _, err := k.Body().Next(); err != nil {
				break
			}
		}
		k.Finish()
	}
}
