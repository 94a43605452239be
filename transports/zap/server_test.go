package zap

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/serial/serialtest"
	"github.com/hanzoai/pqgw/zapcodec"
)

func TestRequestsAreAnsweredInOrderOnOneConnection(t *testing.T) {
	big := strings.Repeat("x", 3<<20)
	middle := strings.Repeat("y", 60<<10)
	serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
		s := start(t, m, serialtest.Echo, nil)
		c := s.Dial()
		r := bufio.NewReader(c)
		for i, q := range []struct {
			send []byte
			want string
		}{
			{request(t, "GET", "/one", ""), "/one"},
			{request(t, "POST", "/", "hello"), "hello"},
			{request(t, "POST", "/", middle), middle},
			{request(t, "POST", "/", big), big},
			{append(request(t, "GET", "/two", ""), request(t, "GET", "/three", "")...), "/two"},
			{nil, "/three"},
			{append(request(t, "POST", "/", big), request(t, "GET", "/behind", "")...), big},
			{nil, "/behind"},
		} {
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = c.Write(q.send)
			}()
			if got := readAnswer(t, r); got.body != q.want || got.status != 200 {
				t.Fatalf("answer %d is %d %.80q, want %.80q", i, got.status, got.body, q.want)
			}
			<-done
		}
	})
}

func TestARequestMayArriveByteByByte(t *testing.T) {
	serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
		s := start(t, m, serialtest.Echo, nil)
		c := s.Dial()
		go func() {
			for _, b := range append(request(t, "POST", "/", "body"), request(t, "GET", "/x", "")...) {
				if _, err := c.Write([]byte{b}); err != nil {
					return
				}
			}
		}()
		r := bufio.NewReader(c)
		for _, want := range []string{"body", "/x"} {
			if got := readAnswer(t, r); got.body != want {
				t.Fatalf("answer %q, want %q", got.body, want)
			}
		}
	})
}

// streamed is the extension's form of a request, in its frames.
func streamed(t testing.TB, chunks []string, trailers []string, fields ...string) []byte {
	t.Helper()
	r := zapcodec.Request{Method: []byte("POST"), Target: []byte("/up"), Headers: pairs(append([]string{"Host: a"}, fields...)), Streamed: true}
	b, err := r.Append(nil, zapcodec.Prefix|zapcodec.Extended)
	for _, p := range chunks {
		if err == nil {
			b, err = zapcodec.AppendData(b, zapcodec.Prefix, []byte(p))
		}
	}
	if err == nil {
		b, err = zapcodec.AppendEnd(b, zapcodec.Prefix, pairs(trailers))
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestAStreamedRequestIsReadWithItsTrailers(t *testing.T) {
	big := strings.Repeat("z", 1<<20)
	serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
		told := make(chan string, 1)
		s := start(t, m, func(x *exchange.Exchange) {
			if x.Refusal != nil {
				serialtest.Echo(x)
				return
			}
			b, err := io.ReadAll(readerOf{x.Body})
			if err != nil {
				t.Error(err)
			}
			trailers := ""
			if h := x.Body.Trailers(); h != nil {
				trailers = string(h.Name(0)) + "=" + string(h.Value(0))
			}
			told <- trailers
			h := &x.Response
			h.Reset(nil)
			h.Status = 200
			_ = x.Responder.Respond(h, exchange.NewBytes(b))
		}, nil)
		c := s.Dial()
		r := bufio.NewReader(c)
		for _, chunks := range [][]string{{"a", "", "bc"}, {big, "q"}, {}, {"1", "2", "3"}} {
			send := streamed(t, chunks, []string{"X-Sum: 9"})
			go func() { _, _ = c.Write(send) }()
			trailers := <-told
			if got := readAnswer(t, r); got.body != strings.Join(chunks, "") || trailers != "X-Sum=9" {
				t.Fatalf("body of %d bytes, trailers %q", len(got.body), trailers)
			}
		}
	})
}

func TestTrailersOfAWholeMessageArePassedOn(t *testing.T) {
	q := zapcodec.Request{Method: []byte("POST"), Target: []byte("/"), Headers: pairs([]string{"Host: a"}), Body: []byte("abc"), Trailers: pairs([]string{"X-Sum: 9"})}
	send, err := q.Append(nil, zapcodec.Prefix)
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, serialtest.Modes[0], func(x *exchange.Exchange) {
		x.Response.Reset(nil)
		x.Response.Status = 200
		x.Response.AddKnownString(exchange.Trailer, "X-Sum")
		_ = x.Responder.Respond(&x.Response, x.Body)
	}, nil)
	c := s.Dial()
	_, _ = c.Write(send)
	if got := readAnswer(t, bufio.NewReader(c)); got.body != "abc" || got.trailers != "X-Sum: 9\n" {
		t.Errorf("body %q, trailers %q", got.body, got.trailers)
	}
}

// readerOf hides everything of a source but Read.
type readerOf struct{ io.Reader }

func TestAStreamedBodyIsHeldToItsAnnouncedLength(t *testing.T) {
	for _, q := range []struct {
		announced string
		ok        bool
	}{{"3", true}, {"4", false}, {"2", false}} {
		failed := make(chan error, 1)
		s := start(t, serialtest.Modes[0], func(x *exchange.Exchange) {
			_, err := io.ReadAll(readerOf{x.Body})
			failed <- err
			x.Body = nil
			serialtest.Echo(x)
		}, nil)
		c := s.Dial()
		_, _ = c.Write(streamed(t, []string{"a", "bc"}, nil, "Zap-Body-Length: "+q.announced))
		if err := <-failed; (err == nil) != q.ok {
			t.Errorf("announced %s: %v", q.announced, err)
		}
	}
}

func TestBrokenMessagesGetTheVerdictOfOtherProtocols(t *testing.T) {
	valid := request(t, "GET", "/abc", "")
	raw := func(change func(b []byte)) []byte {
		b := bytes.Clone(valid)
		change(b)
		return b
	}
	replace := func(old, with string) []byte {
		return bytes.Replace(valid, []byte(old), []byte(with), 1)
	}
	for _, q := range []struct {
		name   string
		send   []byte
		status int
		reason string
		closed bool
	}{
		{"a method that is no token", replace("GET", "G T"), 400, "bad_method", false},
		{"a target with a space", replace("/abc", "/a c"), 400, "bad_target", false},
		{"a target without a slash", replace("/abc", "xabc"), 400, "bad_target", false},
		{"a host that is none", replace("Host\x01\x00\x00\x00a", "Host\x01\x00\x00\x00@"), 400, "bad_host", false},
		{"a field name with a space", replace("Host", "Ho t"), 400, "bad_field_name", false},
		{"a value with a line break", replace("Host\x01\x00\x00\x00a", "Hust\x01\x00\x00\x00\n"), 400, "bad_field_value", false},
		{"CONNECT", request(t, "CONNECT", "a:1", ""), 501, "connect", false},
		{"another protocol", []byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), 413, "message_too_large", true},
		{"a magic that is not ZAP's", raw(func(b []byte) { b[4] = 'X' }), 400, "bad_frame", true},
		{"a compressed message", raw(func(b []byte) { b[10] |= 1 }), 400, "bad_frame", true},
		{"a message over the limit", binary.BigEndian.AppendUint32(nil, 65<<20), 413, "message_too_large", true},
		{"data without a request", mustData(t), 400, "bad_frame", true},
		{"too many fields", request(t, "GET", "/", "", many(200)...), 431, "too_many_fields", false},
		{"a head that is too large", request(t, "GET", "/", "", "X-A: "+strings.Repeat("a", 40<<10)), 431, "head_too_large", true},
		{"a head that is too large before a body", request(t, "GET", "/", strings.Repeat("b", 1<<20), "X-A: "+strings.Repeat("a", 40<<10)), 431, "head_too_large", true},
	} {
		t.Run(q.name, func(t *testing.T) {
			serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
				s := start(t, m, serialtest.Echo, nil)
				c := s.Dial()
				go func() { _, _ = c.Write(q.send) }()
				r := bufio.NewReader(c)
				if got := readAnswer(t, r); got.status != q.status || got.body != q.reason {
					t.Fatalf("%d %s, want %d %s", got.status, got.body, q.status, q.reason)
				}
				if q.closed {
					if _, err := r.ReadByte(); !errors.Is(err, io.EOF) {
						t.Fatalf("the connection goes on: %v", err)
					}
					return
				}
				_, _ = c.Write(valid)
				if got := readAnswer(t, r); got.status != 200 {
					t.Fatalf("the next request got %d", got.status)
				}
			})
		})
	}
}

func mustData(t *testing.T) []byte {
	b, err := zapcodec.AppendData(nil, zapcodec.Prefix, []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func many(n int) (f []string) {
	for range n {
		f = append(f, "X-A: b")
	}
	return f
}

func TestEachFlushOfAHandlerIsOneDataFrame(t *testing.T) {
	long := strings.Repeat("l", 20<<10)
	serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
		s := start(t, m, func(x *exchange.Exchange) {
			h := &x.Response
			h.Reset(nil)
			h.Status = 200
			sink, err := x.Responder.Start(h, -1)
			if err != nil {
				t.Error(err)
				return
			}
			for _, p := range []string{"a", "b", "", "c"} {
				_, _ = io.WriteString(sink, p)
			}
			_ = sink.Flush()
			_, _ = io.WriteString(sink, "def")
			_ = sink.Flush()
			_ = sink.Flush()
			_, _ = io.WriteString(sink, long)
			_, _ = io.WriteString(sink, "tail")
			var tr exchange.Head
			tr.Reset(nil)
			tr.AddString("X-End", "yes")
			_ = sink.Finish(&tr)
		}, nil)
		c := s.Dial()
		r := bufio.NewReader(c)
		for range 2 {
			_, _ = c.Write(request(t, "GET", "/", ""))
			got := readAnswer(t, r)
			if got.body != "abcdef"+long+"tail" || got.trailers != "X-End: yes\n" {
				t.Fatalf("%.40q, trailers %q", got.body, got.trailers)
			}
			if want := []int{3, 3, len(long), 4}; len(got.frames) != 4 || got.frames[0] != want[0] || got.frames[1] != want[1] || got.frames[2] != want[2] || got.frames[3] != want[3] {
				t.Fatalf("data frames of %v, want %v", got.frames, want)
			}
		}
	})
}

func TestASourceWithoutLengthIsStreamedPieceByPiece(t *testing.T) {
	serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
		s := start(t, m, func(x *exchange.Exchange) {
			h := &x.Response
			h.Reset(nil)
			h.Status = 200
			h.AddString("Content-Type", "text/event-stream")
			_ = x.Responder.Respond(h, &serialtest.Pieces{List: []string{"one", "two"}, Announced: -1})
		}, nil)
		c := s.Dial()
		_, _ = c.Write(request(t, "GET", "/", ""))
		got := readAnswer(t, bufio.NewReader(c))
		if got.body != "onetwo" || len(got.frames) != 2 || got.fields != "Content-Type: text/event-stream\n" {
			t.Fatalf("%+v", got)
		}
	})
}

func TestABodyBeyondAMessageIsStreamedDown(t *testing.T) {
	body := bytes.Repeat([]byte("0123456789abcdef"), 1<<17) // 2 MiB
	s := start(t, serialtest.Modes[0], func(x *exchange.Exchange) {
		h := &x.Response
		h.Reset(nil)
		h.Status = 200
		_ = x.Responder.Respond(h, exchange.NewBytes(body))
	}, func(o *Options) { o.MessageBytes = 1 << 20 })
	c := s.Dial()
	_, _ = c.Write(request(t, "GET", "/", ""))
	got := readAnswer(t, bufio.NewReader(c))
	if got.body != string(body) || len(got.frames) != 2 {
		t.Fatalf("%d bytes in frames %v", len(got.body), got.frames)
	}
}

func TestContentLengthOfAnAnswerWithoutBodySurvivesForPeersThatKnow(t *testing.T) {
	s := start(t, serialtest.Modes[0], func(x *exchange.Exchange) {
		h := &x.Response
		h.Reset(nil)
		h.Status, h.Length = 200, 42
		if string(x.Request.Target()) == "/304" {
			h.Status = 304
		}
		_ = x.Responder.Respond(h, nil)
	}, nil)
	c := s.Dial()
	r := bufio.NewReader(c)
	_, _ = c.Write(request(t, "HEAD", "/", ""))
	if got := readAnswer(t, r); got.fields != "" {
		t.Fatalf("a public peer is told %q", got.fields)
	}
	for _, q := range [][2]string{{"HEAD", "/"}, {"GET", "/304"}} {
		ours := zapcodec.Request{Method: []byte(q[0]), Target: []byte(q[1]), Headers: pairs([]string{"Host: a"})}
		b, err := ours.Append(nil, zapcodec.Prefix|zapcodec.Extended)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write(b)
		if got := readAnswer(t, r); got.fields != "Zap-Body-Length: 42\n" || got.flags&zapcodec.FlagExtended == 0 {
			t.Fatalf("%s: a peer of ours is told %q, flags %x", q, got.fields, got.flags)
		}
	}
}

func TestWhatZAPCannotCarryIsDroppedOrRefused(t *testing.T) {
	s := start(t, serialtest.Modes[0], func(x *exchange.Exchange) {
		h := &x.Response
		h.Reset(nil)
		h.Status = 103
		if err := x.Responder.Interim(h); err != nil {
			t.Error(err)
		}
		if _, err := x.Responder.Tunnel(h); !errors.Is(err, exchange.ErrTunnel) {
			t.Error(err)
		}
		serialtest.Echo(x)
	}, nil)
	c := s.Dial()
	_, _ = c.Write(request(t, "GET", "/x", "", "Expect: 100-continue", "Connection: upgrade", "Upgrade: websocket"))
	if got := readAnswer(t, bufio.NewReader(c)); got.status != 200 || got.body != "/x" {
		t.Fatalf("%+v", got)
	}
}
