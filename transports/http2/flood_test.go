package http2

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/exchange"
)

var requestFields = []string{":method", "GET", ":scheme", "http", ":authority", "a.example", ":path", "/"}

// refusedBy are refusals as a handler sees them.
func answerAll() handlerFunc {
	return refusing(func(x *exchange.Exchange) { text(x, 200, "ok") })
}

func TestFloodsEndTheConnection(t *testing.T) {
	repeat := func(n int, f []byte) []byte { return []byte(strings.Repeat(string(f), n)) }
	blockOf := func(fields ...string) []byte { return block(append(requestFields, fields...)...) }
	for _, c := range []struct {
		name string
		send func(p *peer)
		want ErrCode
	}{
		{"PING", func(p *peer) { p.write(repeat(6000, appendPing(nil, 0, healthPing))) }, EnhanceYourCalm},
		{"SETTINGS", func(p *peer) { p.write(repeat(6000, appendFrameHeader(nil, 0, frameSettings, 0, 0))) }, EnhanceYourCalm},
		{"PRIORITY", func(p *peer) {
			p.write(repeat(6000, append(appendFrameHeader(nil, 5, framePriority, 0, 3), 0, 0, 0, 0, 0)))
		}, EnhanceYourCalm},
		{"unknown frames", func(p *peer) { p.write(repeat(6000, appendFrameHeader(nil, 0, 99, 0, 3))) }, EnhanceYourCalm},
		{"WINDOW_UPDATE", func(p *peer) { p.write(repeat(6000, appendWindowUpdate(nil, 0, 1))) }, EnhanceYourCalm},
		{"empty DATA", func(p *peer) {
			p.head(1, false, requestFields...)
			p.write(repeat(6000, appendData(nil, 1, nil, false)))
		}, EnhanceYourCalm},
		{"CONTINUATION", func(p *peer) {
			p.write(appendFrameHeader(nil, 0, frameHeaders, 0, 1))
			p.write(repeat(3000, appendFrameHeader(nil, 0, frameContinuation, 0, 1)))
		}, EnhanceYourCalm},
		{"CONTINUATION with a head that is far too long", func(p *peer) {
			p.write(appendFrameHeader(nil, 0, frameHeaders, 0, 1))
			p.write(repeat(7, append(appendFrameHeader(nil, minMaxFrame, frameContinuation, 0, 1), make([]byte, minMaxFrame)...)))
		}, EnhanceYourCalm},
		{"rapid reset", func(p *peer) {
			for i := range uint32(400) {
				b := blockOf()
				b = append(appendFrameHeader(nil, len(b), frameHeaders, flagEndHeaders|flagEndStream, 2*i+1), b...)
				p.write(appendReset(b, 2*i+1, Cancel))
			}
		}, EnhanceYourCalm},
		{"made-you-reset by empty WINDOW_UPDATE", func(p *peer) {
			for i := range uint32(400) {
				b := blockOf()
				b = append(appendFrameHeader(nil, len(b), frameHeaders, flagEndHeaders, 2*i+1), b...)
				p.write(appendWindowUpdate(b, 2*i+1, 0))
			}
		}, EnhanceYourCalm},
		{"made-you-reset by malformed requests", func(p *peer) {
			for i := range uint32(400) {
				p.head(2*i+1, true, append([]string{"x", "before"}, requestFields...)...)
			}
		}, EnhanceYourCalm},
		{"a window too large", func(p *peer) { p.write(appendWindowUpdate(nil, 0, maxWindow)) }, FlowControlError},
		{"SETTINGS_MAX_FRAME_SIZE 0", func(p *peer) {
			p.write(appendSetting(appendFrameHeader(nil, settingLen, frameSettings, 0, 0), settingMaxFrameSize, 0))
		}, ProtocolError},
		{"more than the connection's window", func(p *peer) {
			p.head(1, false, append(requestFields, "expect", "100-continue")...)
			p.write(repeat(5, appendData(nil, 1, make([]byte, minMaxFrame), false)))
		}, FlowControlError},
	} {
		t.Run(c.name, func(t *testing.T) {
			block := make(chan struct{})
			handler := answerAll()
			if strings.HasPrefix(c.name, "more than") || strings.HasPrefix(c.name, "empty") {
				// The body is not read, so no window is given back.
				handler = func(x *exchange.Exchange) { <-block; x.Responder.Abort(nil) }
			}
			p := fakeClient(t, &Options{Handler: handler, StreamWindow: 1 << 20, ConnWindow: initialWindow})
			go c.send(p)
			time.AfterFunc(100*time.Millisecond, func() { close(block) })
			if code := p.awaitGoAway(); code != c.want {
				t.Errorf("GOAWAY with %v, want %v", code, c.want)
			}
		})
	}
}

func TestOrdinaryWorkRefillsTheBudgets(t *testing.T) {
	p := fakeClient(t, &Options{Handler: answerAll(), MaxResets: 10})
	for i := range uint32(300) {
		id := 4*i + 1
		p.head(id, true, requestFields...)
		p.next("answer", func(f frame) bool { return f.stream == id && f.typ == frameData && f.has(flagEndStream) })
		p.head(id+2, false, requestFields...)
		p.write(appendReset(nil, id+2, Cancel))
		for range 10 {
			p.write(appendPing(nil, 0, healthPing))
		}
		p.next("PING's answer", func(f frame) bool { return f.typ == framePing })
	}
}

func TestConnectionCreditComesBackForWhatNobodyReads(t *testing.T) {
	for _, c := range []struct {
		name    string
		handler handlerFunc
		pad     int
		status  string
	}{
		{"a body that is read", func(x *exchange.Exchange) {
			for {
				if _, err := x.Body.Next(); err != nil {
					break
				}
			}
			text(x, 200, "")
		}, 0, "200"},
		{"a body that the handler does not read", func(x *exchange.Exchange) { text(x, 401, "") }, 0, "401"},
		{"a body that the handler closes", func(x *exchange.Exchange) { x.Body.Close(nil); text(x, 403, "") }, 0, "403"},
		{"a padded body", func(x *exchange.Exchange) {
			for {
				if _, err := x.Body.Next(); err != nil {
					break
				}
			}
			text(x, 200, "")
		}, 255, "200"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := fakeClient(t, &Options{Handler: refusing(c.handler), ConnWindow: initialWindow, StreamWindow: initialWindow})
			window := initialWindow
			credit := func(f frame) bool {
				if f.typ == frameWindowUpdate && f.stream == 0 {
					window += int(be32(f.payload))
				}
				return f.typ == frameWindowUpdate && f.stream == 0
			}
			for i := range uint32(60) { // 60 bodies of 8 KiB are seven windows
				id := 2*i + 1
				p.head(id, false, append([]string{}, requestFields...)...)
				for n := range 4 {
					f := appendFrameHeader(nil, 1+2048+c.pad, frameData, flagPadded, id)
					if n == 3 {
						f[4] |= flagEndStream
					}
					f = append(f, byte(c.pad))
					for window < 1+2048+c.pad {
						p.next("credit", credit)
					}
					window -= 1 + 2048 + c.pad
					p.write(append(f, make([]byte, 2048+c.pad)...))
				}
			}
		})
	}
}

func TestTooLargeABodyIsAnsweredWhileItComes(t *testing.T) {
	for _, c := range []struct {
		name   string
		fields []string
	}{
		{"by its length", []string{"content-length", "150000"}},
		{"by its bytes", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := &Options{Limits: exchange.Limits{HeadBytes: 32 << 10, Fields: 100, BodyBytes: 100_000}}
			o.Handler = refusing(func(x *exchange.Exchange) {
				for x.Body != nil {
					if _, err := x.Body.Next(); err != nil {
						text(x, 413, err.Error())
						return
					}
				}
				text(x, 200, "")
			})
			p := fakeClient(t, o)
			p.head(1, false, append(requestFields, c.fields...)...)
			stop := make(chan struct{})
			go func() {
				for range 30 {
					p.write(appendData(nil, 1, make([]byte, 5000), false))
				}
				close(stop)
			}()
			head := p.await(frameHeaders)
			if got, err := decodeOurs(newDecoder(), head.payload); err != nil || got[0] != ":status: 413" {
				t.Errorf("head %q, %v", got, err)
			}
			if f := p.await(frameReset); ErrCode(be32(f.payload)) != NoError {
				t.Errorf("reset with %v", ErrCode(be32(f.payload)))
			}
			<-stop
			p.head(3, true, requestFields...)
			p.next("second answer", func(f frame) bool { return f.stream == 3 && f.typ == frameHeaders })
		})
	}
}

func TestRefusalsAreAnsweredAndMalformedOnesReset(t *testing.T) {
	with := func(fields ...string) []string { return append(append([]string{}, requestFields...), fields...) }
	for _, c := range []struct {
		name   string
		fields []string
		status string
		reset  ErrCode
	}{
		{"served", with(), "200", noReset},
		{"te: trailers", with("te", "trailers"), "200", noReset},
		{"host equal to the authority", with("host", "a.example"), "200", noReset},
		{"host other than the authority", with("host", "b.example"), "400", ProtocolError},
		{"no authority", []string{":method", "GET", ":scheme", "http", ":path", "/"}, "400", ProtocolError},
		{"host instead of the authority", []string{":method", "GET", ":scheme", "http", ":path", "/", "host", "a"}, "200", noReset},
		{"authority with user information", []string{":method", "GET", ":scheme", "http", ":path", "/", ":authority", "u@a"}, "400", ProtocolError},
		{"another scheme", []string{":method", "GET", ":scheme", "ftp", ":path", "/", ":authority", "a"}, "400", ProtocolError},
		{"a path without its slash", []string{":method", "GET", ":scheme", "http", ":path", "x", ":authority", "a"}, "400", ProtocolError},
		{"an empty field name", with("", "x"), "400", ProtocolError},
		{"a space in a field name", with("a b", "x"), "400", ProtocolError},
		{"a NUL in a value", with("a", "x\x00"), "400", ProtocolError},
		{"a line end in a value", with("a", "x\r\ny: z"), "400", ProtocolError},
		{"a space around a value", with("a", " x"), "400", ProtocolError},
		{"transfer-encoding", with("transfer-encoding", "chunked"), "400", ProtocolError},
		{"te: gzip", with("te", "gzip"), "400", ProtocolError},
		{"unequal lengths", with("content-length", "0", "content-length", "1"), "400", ProtocolError},
		{"a length without a body", with("content-length", "5"), "400", ProtocolError},
		{"CONNECT", []string{":method", "CONNECT", ":authority", "a:1"}, "501", noReset},
		{"CONNECT with another protocol", []string{":method", "CONNECT", ":protocol", "x", ":scheme", "http", ":path", "/", ":authority", "a"}, "501", noReset},
		{":protocol without CONNECT", with2(":protocol", "websocket"), "400", ProtocolError},
		{"an expectation", with("expect", "x"), "417", noReset},
		{"too many fields", with(strings.Split(strings.Repeat("a,b,", 200)+"c,d", ",")...), "431", noReset},
		{"too long a head", with("a", strings.Repeat("x", 40_000)), "431", noReset},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := fakeClient(t, &Options{Handler: answerAll()})
			p.head(1, true, c.fields...)
			f := p.await(frameHeaders)
			got, err := decodeOurs(newDecoder(), f.payload)
			if err != nil || got[0] != ":status: "+c.status {
				t.Fatalf("%q, %v; want %s", got, err, c.status)
			}
			if c.reset != noReset {
				if f := p.await(frameReset); ErrCode(be32(f.payload)) != c.reset {
					t.Errorf("reset with %v", ErrCode(be32(f.payload)))
				}
			}
			p.head(3, true, requestFields...)
			p.next("second answer", func(f frame) bool {
				if f.typ == frameReset {
					t.Errorf("reset with %v", ErrCode(be32(f.payload)))
				}
				return f.stream == 3 && f.typ == frameHeaders
			})
		})
	}
}

func with2(fields ...string) []string { return append(fields, requestFields...) }

func TestCookieCrumbsAreJoined(t *testing.T) {
	got := make(chan string, 1)
	p := fakeClient(t, &Options{Handler: handlerFunc(func(x *exchange.Exchange) {
		got <- fmt.Sprintf("%s, then %d", x.Request.Get(exchange.Cookie), x.Request.Next(exchange.Cookie, x.Request.Len()))
		text(x, 200, "")
	})})
	p.head(1, true, append(requestFields, "cookie", "a=b", "x", "y", "cookie", "c=d", "cookie", "e")...)
	if s := <-got; s != "a=b; c=d; e, then -1" {
		t.Errorf("cookie %q", s)
	}
}

func TestTimeLimits(t *testing.T) {
	short := 60 * time.Millisecond
	for _, c := range []struct {
		name string
		o    Options
		send func(p *peer)
		want func(p *peer) string
	}{
		{"a connection without a preface", Options{HeadTimeout: short}, nil, goAway(EnhanceYourCalm)},
		{"a head that does not end", Options{HeadTimeout: short}, func(p *peer) {
			p.write(appendFrameHeader(nil, 0, frameHeaders, 0, 1))
		}, goAway(EnhanceYourCalm)},
		{"a frame that does not end", Options{HeadTimeout: short}, func(p *peer) {
			p.write(append(appendFrameHeader(nil, 8, framePing, 0, 0), 1, 2, 3))
		}, goAway(EnhanceYourCalm)},
		{"no request", Options{IdleTimeout: short}, func(*peer) {}, goAway(NoError)},
		{"no request after one", Options{IdleTimeout: short}, func(p *peer) { p.head(1, true, requestFields...) }, goAway(NoError)},
		{"a small body that does not come", Options{StreamIdle: short}, func(p *peer) {
			p.head(1, false, append(requestFields, "content-length", "5")...)
		}, status("408")},
		{"a large body that stands still", Options{StreamIdle: short}, func(p *peer) {
			p.head(1, false, append(requestFields, "content-length", "500000")...)
		}, status("408")},
		{"a window that stays shut", Options{WriteTimeout: short}, func(p *peer) {
			p.write(appendSetting(appendFrameHeader(nil, settingLen, frameSettings, 0, 0), settingInitialWindow, 0))
			p.head(1, true, requestFields...)
		}, func(p *peer) string { return ErrCode(be32(p.await(frameReset).payload)).String() + " CANCEL" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.o.Handler = refusing(func(x *exchange.Exchange) {
				if x.Body != nil {
					for {
						_, err := x.Body.Next()
						if err == exchange.RefuseSlowBody {
							text(x, 408, "")
							return
						}
						if err != nil {
							break
						}
					}
				}
				text(x, 200, "ok")
			})
			var p *peer
			if c.send == nil {
				p = newPeer(t, dialRaw(t, serve(t, &c.o).addr), 0)
			} else {
				p = fakeClient(t, &c.o)
				c.send(p)
			}
			got := c.want(p)
			if a, b, _ := strings.Cut(got, " "); a != b {
				t.Errorf("got and want: %s", got)
			}
		})
	}
}

func goAway(want ErrCode) func(p *peer) string {
	return func(p *peer) string { return p.awaitGoAway().String() + " " + want.String() }
}

func status(want string) func(p *peer) string {
	return func(p *peer) string {
		got, err := decodeOurs(newDecoder(), p.await(frameHeaders).payload)
		if err != nil {
			return err.Error()
		}
		return strings.TrimPrefix(got[0], ":status: ") + " " + want
	}
}

func TestMoreStreamsThanAllowedAreRefused(t *testing.T) {
	release := make(chan struct{})
	p := fakeClient(t, &Options{MaxStreams: 3, Handler: handlerFunc(func(x *exchange.Exchange) {
		<-release
		text(x, 200, "")
	})})
	for i := range uint32(4) {
		p.head(2*i+1, true, requestFields...)
	}
	if f := p.await(frameReset); f.stream != 7 || ErrCode(be32(f.payload)) != RefusedStream {
		t.Errorf("reset of %d with %v", f.stream, ErrCode(be32(f.payload)))
	}
	close(release)
	for range 3 {
		p.await(frameHeaders)
	}
	p.head(9, true, requestFields...)
	p.next("an answer again", func(f frame) bool { return f.stream == 9 && f.typ == frameHeaders })
}

func TestAConnectionEndsInGoodOrderAfterItsLastRequest(t *testing.T) {
	p := fakeClient(t, &Options{MaxRequests: 2, Handler: answerAll()})
	p.head(1, true, requestFields...)
	p.head(3, true, requestFields...)
	if f := p.await(frameGoAway); be32(f.payload) != maxStreamID {
		t.Errorf("first GOAWAY up to %d", be32(f.payload))
	}
	ping := p.await(framePing)
	p.head(5, true, requestFields...) // was on its way
	p.write(appendPing(nil, flagAck, ping.payload))
	answered, last := false, uint32(0)
	p.next("the answer and the second GOAWAY", func(f frame) bool {
		answered = answered || f.stream == 5 && f.typ == frameHeaders
		if f.typ == frameGoAway {
			last = be32(f.payload)
		}
		return answered && last != 0
	})
	if last != 5 {
		t.Errorf("second GOAWAY up to %d", last)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.err == nil {
		p.change.Wait()
	}
	if !errors.Is(p.err, io.EOF) {
		t.Errorf("the connection ended with %v", p.err)
	}
}

func TestBodiesThatWaitForTheirRestGetIt(t *testing.T) {
	const streams, size = 20, 60_000 // gathered, they would need far more than the connection's window
	o := &Options{ConnWindow: 100_000, Handler: handlerFunc(func(x *exchange.Exchange) {
		n := 0
		for {
			p, err := x.Body.Next()
			n += len(p)
			if err != nil {
				break
			}
		}
		text(x, 200, fmt.Sprint(n))
	})}
	p := fakeClient(t, o)
	window := initialWindow
	for i := range uint32(streams) {
		p.head(2*i+1, false, append(requestFields, "content-length", fmt.Sprint(size))...)
	}
	for sent := 0; sent < size; sent += 6000 { // all of them at the same pace
		for i := range uint32(streams) {
			for window < 6000 {
				p.next("credit", func(f frame) bool {
					if f.typ == frameWindowUpdate && f.stream == 0 {
						window += int(be32(f.payload))
						return true
					}
					return false
				})
			}
			window -= 6000
			p.write(appendData(nil, 2*i+1, make([]byte, 6000), sent+6000 == size))
		}
	}
}
