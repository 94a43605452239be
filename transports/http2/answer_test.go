package http2

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/exchange"
	socket "github.com/hanzoai/pqgw/transports/stream"
)

func TestAnswersWithoutABody(t *testing.T) {
	for _, c := range []struct {
		name   string
		method string
		status int
		length int64
		want   string // Content-Length that the client sees
	}{
		{"HEAD keeps the length that GET would have", http.MethodHead, 200, 1234, "1234"},
		{"HEAD without a length", http.MethodHead, 200, -1, ""},
		{"204 has none", http.MethodGet, 204, -1, ""},
		{"304 keeps it", http.MethodGet, 304, 77, "77"},
		{"an empty answer", http.MethodGet, 200, 0, "0"},
		{"an answer of nothing but a head", http.MethodGet, 200, -1, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := fakeClient(t, &Options{Handler: handlerFunc(func(x *exchange.Exchange) {
				x.Response.Status, x.Response.Length = c.status, c.length
				var body exchange.Source
				if c.method == http.MethodHead {
					body = exchange.NewBytes([]byte("must not be sent"))
				}
				if err := x.Responder.Respond(&x.Response, body); err != nil {
					t.Error(err)
				}
				if x.Responder.Respond(&x.Response, nil) == nil {
					t.Error("a second answer was taken")
				}
			})})
			p.head(1, true, ":method", c.method, ":scheme", "http", ":authority", "a", ":path", "/")
			f := p.await(frameHeaders)
			got, err := decodeOurs(newDecoder(), f.payload)
			if err != nil || !f.has(flagEndStream) || got[0] != fmt.Sprintf(":status: %d", c.status) {
				t.Fatalf("%q, %v, flags %x", got, err, f.flags)
			}
			length := ""
			if len(got) > 1 {
				length = strings.TrimPrefix(got[1], "content-length: ")
			}
			if length != c.want {
				t.Errorf("length %q, want %q", length, c.want)
			}
		})
	}
}

func TestInterimAnswersComeFirst(t *testing.T) {
	s := serve(t, &Options{Handler: handlerFunc(func(x *exchange.Exchange) {
		var h exchange.Head
		h.Reset(nil)
		h.AddString("Link", "</style.css>")
		for _, h.Status = range []int{103, 101, 103} {
			if err := x.Responder.Interim(&h); err != nil {
				t.Error(err)
			}
		}
		text(x, 200, "done")
		if x.Responder.Interim(&h) == nil {
			t.Error("an interim answer after the final one")
		}
	})})
	var got []string
	req := mustRequest("http://" + s.addr + "/")
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			got = append(got, fmt.Sprint(code, h.Get("Link")))
			return nil
		},
	}))
	if a := do(t, transport(t), req); a.body != "done" || strings.Join(got, " ") != "103</style.css> 103</style.css>" {
		t.Errorf("%q, interim %q", a.body, got)
	}
}

func TestAClientThatHoldsItsBodyBackIsAskedForIt(t *testing.T) {
	for _, c := range []struct {
		name  string
		reads bool
		want  string
	}{
		{"when the handler wants the body", true, "continue 200 held back"},
		{"and not when it does not", false, "417 "},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, &Options{Handler: handlerFunc(func(x *exchange.Exchange) {
				if !c.reads {
					text(x, 417, "")
					return
				}
				b, err := io.ReadAll(x.Body)
				if err != nil {
					t.Error(err)
				}
				text(x, 200, string(b))
			})})
			got := ""
			req, _ := http.NewRequest(http.MethodPost, "http://"+s.addr+"/", strings.NewReader("held back"))
			req.Header.Set("Expect", "100-continue")
			req = req.WithContext(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
				Got100Continue: func() { got += "continue " },
			}))
			tr := transport(t)
			tr.ExpectContinueTimeout = time.Minute
			a := do(t, tr, req)
			if got += fmt.Sprint(a.status, " ", a.body); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestASinkSendsWhatIsPushed(t *testing.T) {
	step := make(chan struct{})
	s := serve(t, &Options{Handler: handlerFunc(func(x *exchange.Exchange) {
		x.Response.Status = 200
		sink, err := x.Responder.Start(&x.Response, -1)
		if err != nil {
			t.Error(err)
			return
		}
		if err := sink.Flush(); err != nil {
			t.Error(err)
		}
		<-step // the head must be there without a byte of body
		for i := range 1000 {
			if _, err := fmt.Fprintf(sink, "event %d\n", i); err != nil {
				t.Error(err)
			}
		}
		var tr exchange.Head
		tr.AddString("X-Sum", "1")
		if err := sink.Finish(&tr); err != nil {
			t.Error(err)
		}
	})})
	res, err := transport(t).RoundTrip(mustRequest("http://" + s.addr + "/"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	close(step)
	b, err := io.ReadAll(res.Body)
	if err != nil || strings.Count(string(b), "\n") != 1000 || res.Trailer.Get("X-Sum") != "1" {
		t.Errorf("%d bytes, trailers %v, %v", len(b), res.Trailer, err)
	}
}

func TestAnAnswerThatIsNotWholeIsReset(t *testing.T) {
	broken := errors.New("the upstream broke off")
	for _, c := range []struct {
		name    string
		handler handlerFunc
		want    ErrCode
	}{
		{"no answer at all", func(*exchange.Exchange) {}, InternalError},
		{"aborted", func(x *exchange.Exchange) { x.Responder.Abort(nil) }, InternalError},
		{"a sink that is not finished", func(x *exchange.Exchange) {
			x.Response.Status = 200
			sink, _ := x.Responder.Start(&x.Response, -1)
			_, _ = sink.Write([]byte("x"))
			_ = sink.Flush()
		}, InternalError},
		{"a sink that falls short of its length", func(x *exchange.Exchange) {
			x.Response.Status = 200
			sink, _ := x.Responder.Start(&x.Response, 10)
			_, _ = sink.Write([]byte("x"))
			if sink.Finish(nil) == nil {
				t.Error("a short body was taken")
			}
		}, InternalError},
		{"a body that fails", func(x *exchange.Exchange) {
			x.Response.Status = 200
			if err := x.Responder.Respond(&x.Response, &failing{err: broken}); !errors.Is(err, broken) {
				t.Errorf("Respond: %v", err)
			}
		}, InternalError},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := fakeClient(t, &Options{Handler: c.handler})
			p.head(1, true, requestFields...)
			if f := p.await(frameReset); ErrCode(be32(f.payload)) != c.want {
				t.Errorf("reset with %v", ErrCode(be32(f.payload)))
			}
		})
	}
}

// failing is a body that gives a little and then fails.
type failing struct {
	exchange.Bytes
	gave bool
	err  error
}

func (f *failing) Length() int64         { return 100 }
func (f *failing) Whole() ([]byte, bool) { return nil, false }
func (f *failing) Next() ([]byte, error) {
	if f.gave {
		return nil, f.err
	}
	f.gave = true
	return []byte("a little"), nil
}

func TestWindowsAreKept(t *testing.T) {
	body := strings.Repeat("x", 10_000)
	p := fakeClient(t, &Options{Handler: handlerFunc(func(x *exchange.Exchange) { text(x, 200, body) })})
	p.write(appendSetting(appendFrameHeader(nil, settingLen, frameSettings, 0, 0), settingInitialWindow, 1000))
	p.head(1, true, requestFields...)
	got := 0
	take := func(n int) {
		t.Helper()
		for n > 0 {
			f := p.await(frameData)
			if n -= f.length; n < 0 {
				t.Fatalf("%d bytes more than the window", -n)
			}
			got += f.length
		}
	}
	take(1000)
	p.write(appendWindowUpdate(nil, 1, 500))
	take(500)
	// A smaller initial window makes that of the stream negative first.
	p.write(appendSetting(appendFrameHeader(nil, settingLen, frameSettings, 0, 0), settingInitialWindow, 200))
	p.write(appendWindowUpdate(nil, 1, 1000))
	take(200)
	p.write(appendWindowUpdate(nil, 1, 100_000))
	take(10_000 - got)
}

func TestStreamsShareTheConnectionsWindowInTurn(t *testing.T) {
	const streams, size = 5, 200_000
	p := fakeClient(t, &Options{Handler: handlerFunc(func(x *exchange.Exchange) {
		x.Response.Status = 200
		var src streamed
		src.Reset(make([]byte, size))
		if err := x.Responder.Respond(&x.Response, &src); err != nil {
			t.Error(err)
		}
	})})
	p.write(appendSetting(appendFrameHeader(nil, settingLen, frameSettings, 0, 0), settingInitialWindow, maxWindow))
	for i := range uint32(streams) {
		p.head(2*i+1, true, requestFields...)
	}
	got, ended := map[uint32]int{}, 0
	for ended < streams {
		f := p.await(frameData)
		if got[f.stream] += f.length; f.has(flagEndStream) {
			ended++
		}
		if f.length > 0 {
			p.write(appendWindowUpdate(nil, 0, uint32(f.length)))
		}
	}
	for id, n := range got {
		if n != size {
			t.Errorf("stream %d: %d bytes", id, n)
		}
	}
}

// counting counts the writes that reach the network.
type counting struct {
	net.Conn
	writes atomic.Int64
}

func (c *counting) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

func TestSeveralRecordsLeaveInOneWrite(t *testing.T) {
	ours, theirs := tcpPair(t)
	count := &counting{Conn: ours}
	server := tls.Server(socket.NewSocket(count, true, nil), &tls.Config{
		Certificates: []tls.Certificate{certificate(t)}, MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"},
	})
	const size = 4 << 20
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = Serve(server, &exchange.Conn{Protocol: exchange.HTTP2, Secure: true}, &Options{
			Handler: &streaming{make([]byte, size)}, Limits: exchange.Limits{HeadBytes: 32 << 10, Fields: 128},
		})
	})
	client := tls.Client(theirs, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}) //nolint:gosec // the certificate is made for the test
	c := NewClientConn(client, &exchange.Conn{Protocol: exchange.HTTP2, Secure: true}, &ClientOptions{
		Limits: clientLimits, StreamWindow: size, ConnWindow: size,
	})
	k := newCallOn(t, c)
	x := newRequest("GET", "/")
	if err := k.Send(x, nil, exchange.Timeouts{}); err != nil {
		t.Fatal(err)
	}
	if err := k.ReadHead(&x.Response); err != nil {
		t.Fatal(err)
	}
	if n := len(readAll(t, k.Body())); n != size {
		t.Errorf("%d bytes", n)
	}
	k.Finish()
	c.Close()
	wg.Wait()
	// 256 records of 16 KiB, eight to a write, and a few for the handshake.
	if n := count.writes.Load(); n > 256/8+40 {
		t.Errorf("%d writes for %d records", n, size/minMaxFrame)
	}
}
