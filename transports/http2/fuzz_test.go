package http2

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/exchange"
)

// script is a connection that gives what it was made of, and then the end.
type script struct {
	net.Conn
	r   *bytes.Reader
	out bytes.Buffer
}

func (s *script) Read(p []byte) (int, error)       { return s.r.Read(p[:min(len(p), 1+len(p)/2)]) }
func (s *script) Write(p []byte) (int, error)      { return s.out.Write(p) }
func (s *script) Close() error                     { return nil }
func (s *script) SetReadDeadline(time.Time) error  { return nil }
func (s *script) SetWriteDeadline(time.Time) error { return nil }

// checkFrames sees that what we wrote is whole frames, none of them on a stream
// after its end.
func checkFrames(t *testing.T, b []byte) {
	t.Helper()
	ended := map[uint32]bool{}
	for len(b) > 0 {
		if len(b) < frameHeaderLen {
			t.Fatal("output ends within a frame header")
		}
		f := parseFrameHeader(b)
		if len(b) < frameHeaderLen+f.length || f.length > minMaxFrame {
			t.Fatalf("frame of %d bytes, %d are there", f.length, len(b)-frameHeaderLen)
		}
		b = b[frameHeaderLen+f.length:]
		switch f.typ {
		case frameHeaders, frameData:
			if ended[f.stream] {
				t.Fatalf("frame of type %d on stream %d after its end", f.typ, f.stream)
			}
			ended[f.stream] = f.has(flagEndStream)
		case frameReset:
			ended[f.stream] = true
		}
	}
}

// FuzzServer feeds a server what may be frames. It must come to an end, and
// what it writes must be in order.
func FuzzServer(f *testing.F) {
	hello := appendFrameHeader([]byte(preface), 0, frameSettings, 0, 0)
	head := func(b []byte, id uint32, flags uint8, fields ...string) []byte {
		p := block(fields...)
		return append(appendFrameHeader(b, len(p), frameHeaders, flags, id), p...)
	}
	get := head(bytes.Clone(hello), 1, flagEndHeaders|flagEndStream, requestFields...)
	post := head(bytes.Clone(hello), 1, flagEndHeaders, append(requestFields, "content-length", "3", "cookie", "a", "cookie", "b")...)
	post = appendData(post, 1, []byte("abc"), true)
	f.Add(get)
	f.Add(post)
	f.Add(appendReset(bytes.Clone(get), 1, Cancel))
	f.Add(appendWindowUpdate(appendSetting(appendFrameHeader(bytes.Clone(hello), 6, frameSettings, 0, 0), settingInitialWindow, 0), 0, 5))
	f.Add(appendPing(appendGoAway(bytes.Clone(post), 0, NoError, "x"), 0, healthPing))
	f.Add(head(bytes.Clone(hello), 1, 0, requestFields...))
	f.Add(head(head(bytes.Clone(hello), 1, flagEndHeaders, requestFields...), 1, flagEndHeaders|flagEndStream, "x-trailer", "1"))
	o := &Options{
		Handler: refusing(func(x *exchange.Exchange) {
			if len(x.Request.Protocol()) > 0 {
				if tun, err := x.Responder.Tunnel(&x.Response); err == nil {
					_, _ = io.Copy(tun, tun)
					_ = tun.Close()
				}
				return
			}
			x.Response.Status = 200
			_ = x.Responder.Respond(&x.Response, x.Body)
		}),
		Limits: exchange.Limits{HeadBytes: 4 << 10, Fields: 20, BodyBytes: 10_000}, MaxStreams: 5,
		HeadTimeout: time.Second, StreamIdle: time.Second, IdleTimeout: time.Second,
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if !bytes.HasPrefix(b, hello[:10]) {
			b = append(bytes.Clone(hello), b...)
		}
		s := &script{r: bytes.NewReader(b)}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = Serve(s, &exchange.Conn{Protocol: exchange.HTTP2}, o)
		}()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Fatal("the server does not end")
		}
		checkFrames(t, s.out.Bytes())
	})
}

// FuzzClient feeds a client what may be an answer.
func FuzzClient(f *testing.F) {
	p := block(":status", "200", "content-length", "3")
	answer := appendFrameHeader(nil, 0, frameSettings, 0, 0)
	answer = append(appendFrameHeader(answer, len(p), frameHeaders, flagEndHeaders, 1), p...)
	f.Add(appendData(bytes.Clone(answer), 1, []byte("abc"), true))
	f.Add(appendReset(bytes.Clone(answer), 1, NoError))
	f.Add(appendGoAway(bytes.Clone(answer), 0, NoError, ""))
	p = block(":status", "103", "link", "x")
	f.Add(append(appendFrameHeader(appendFrameHeader(nil, 0, frameSettings, 0, 0), len(p), frameHeaders, flagEndHeaders, 1), p...))
	o := &ClientOptions{Limits: exchange.Limits{HeadBytes: 4 << 10, Fields: 20}}
	f.Fuzz(func(t *testing.T, b []byte) {
		start := make(chan struct{})
		s := &gated{script: script{r: bytes.NewReader(b)}, start: start}
		c := NewClientConn(s, &exchange.Conn{Protocol: exchange.HTTP2}, o)
		defer c.Close()
		k, err := c.Call()
		if err != nil {
			t.Fatal(err)
		}
		x := newRequest("POST", "/")
		err = k.Send(x, exchange.NewBytes([]byte("body")), exchange.Timeouts{})
		close(start)
		for err == nil && x.Response.Status < 200 {
			err = k.ReadHead(&x.Response)
		}
		if err == nil && k.Body() != nil {
			n, err := io.Copy(io.Discard, k.Body())
			if err == nil && x.Response.Length >= 0 && n != x.Response.Length {
				t.Fatalf("%d bytes of %d passed for the whole", n, x.Response.Length)
			}
		}
		k.Finish()
	})
}

// gated gives nothing before start.
type gated struct {
	script
	start chan struct{}
}

func (g *gated) Read(p []byte) (int, error) {
	<-g.start
	return g.script.Read(p)
}
