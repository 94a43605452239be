package http2

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/exchange"
)

func TestCallsThatWereNotServedMayBeSentAgain(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer func(p *peer)
		usable bool
	}{
		{"REFUSED_STREAM", func(p *peer) { p.write(appendReset(nil, 1, RefusedStream)) }, true},
		{"GOAWAY below the stream", func(p *peer) { p.write(appendGoAway(nil, 0, NoError, "bye")) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, conn := fakeUpstream(t, nil)
			k := newCallOn(t, conn)
			x := newRequest("POST", "/")
			if err := k.Send(x, exchange.NewBytes([]byte("x")), exchange.Timeouts{}); err != nil {
				t.Fatal(err)
			}
			go func() {
				p.await(frameData)
				c.answer(p)
			}()
			if err := k.ReadHead(&x.Response); !errors.Is(err, exchange.ErrNotSent) {
				t.Errorf("error %v", err)
			}
			k.Finish()
			if conn.Usable() != c.usable {
				t.Errorf("usable %v", conn.Usable())
			}
		})
	}
}

func TestAnUpstreamThatBreaksTheRulesIsNotBelieved(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer func(p *peer)
		want   error
	}{
		{"no status", func(p *peer) { p.head(1, true, "x", "y") }, exchange.RefuseStatus},
		{"status of two digits", func(p *peer) { p.head(1, true, ":status", "20") }, exchange.RefuseStatus},
		{"status 101", func(p *peer) { p.head(1, false, ":status", "101") }, exchange.RefuseStatus},
		{"an interim answer that ends", func(p *peer) { p.head(1, true, ":status", "100") }, exchange.RefuseStatus},
		{"a request's pseudo field", func(p *peer) { p.head(1, true, ":status", "200", ":path", "/") }, exchange.RefusePseudo},
		{"a field of the connection", func(p *peer) { p.head(1, true, ":status", "200", "connection", "x") }, exchange.RefuseConnectionData},
		{"a capital letter", func(p *peer) { p.head(1, true, ":status", "200", "X-A", "x") }, exchange.RefuseFieldName},
		{"two lengths", func(p *peer) { p.head(1, true, ":status", "200", "content-length", "1", "content-length", "2") }, exchange.RefuseLength},
		{"too long a head", func(p *peer) { p.head(1, true, ":status", "200", "a", strings.Repeat("v", 65<<10)) }, exchange.RefuseHeadSize},
		{"DATA before the head", func(p *peer) { p.write(appendData(nil, 1, []byte("x"), true)) }, &StreamError{Code: ProtocolError}},
		{"a reset", func(p *peer) { p.write(appendReset(nil, 1, InternalError)) }, &StreamError{Code: InternalError, Remote: true}},
		{"PUSH_PROMISE", func(p *peer) {
			p.write(appendBE32(appendFrameHeader(nil, 4, framePushPromise, flagEndHeaders, 1), 2))
		}, &ConnError{Code: ProtocolError, Reason: "PUSH_PROMISE, which was not allowed"}},
		{"the connection's end", func(p *peer) { _ = p.nc.Close() }, io.ErrUnexpectedEOF},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, conn := fakeUpstream(t, nil)
			k := newCallOn(t, conn)
			defer k.Finish()
			x := newRequest("GET", "/")
			if err := k.Send(x, nil, exchange.Timeouts{}); err != nil {
				t.Fatal(err)
			}
			go func() {
				p.await(frameHeaders)
				c.answer(p)
			}()
			err := k.ReadHead(&x.Response)
			var up *exchange.UpstreamError
			if !errors.As(err, &up) || up.Op != "read head" || up.Answered || errors.Is(err, exchange.ErrNotSent) {
				t.Fatalf("error %v", err)
			}
			if !errors.Is(err, c.want) && up.Err.Error() != c.want.Error() {
				t.Errorf("error %v, want %v", err, c.want)
			}
		})
	}
}

func TestABodyThatIsCutIsNotTakenForTheWhole(t *testing.T) {
	for _, c := range []struct {
		name string
		rest func(p *peer)
	}{
		{"by RST_STREAM", func(p *peer) { p.write(appendReset(nil, 1, NoError)) }},
		{"by the connection's end", func(p *peer) { _ = p.nc.Close() }},
		{"before its length", func(p *peer) { p.write(appendData(nil, 1, nil, true)) }},
		{"after its length", func(p *peer) { p.write(appendData(nil, 1, make([]byte, 20), true)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, conn := fakeUpstream(t, nil)
			k := newCallOn(t, conn)
			defer k.Finish()
			x := newRequest("GET", "/")
			if err := k.Send(x, nil, exchange.Timeouts{}); err != nil {
				t.Fatal(err)
			}
			go func() {
				p.await(frameHeaders)
				p.head(1, false, ":status", "200", "content-length", "10")
				p.write(appendData(nil, 1, []byte("12345"), false))
				c.rest(p)
			}()
			if err := k.ReadHead(&x.Response); err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(k.Body())
			if err == nil || len(b) > 10 {
				t.Errorf("%q, %v", b, err)
			}
		})
	}
}

func TestTimeoutsAndCancelEndACall(t *testing.T) {
	reason := errors.New("no more")
	for _, c := range []struct {
		name string
		t    exchange.Timeouts
		want error
	}{
		{"first byte", exchange.Timeouts{FirstByte: 50 * time.Millisecond}, exchange.ErrTimeout},
		{"cancel", exchange.Timeouts{}, reason},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, conn := fakeUpstream(t, nil)
			k := newCallOn(t, conn)
			x := newRequest("GET", "/")
			if err := k.Send(x, nil, c.t); err != nil {
				t.Fatal(err)
			}
			if c.want == reason {
				go k.Canceller().Cancel(reason)
			}
			if err := k.ReadHead(&x.Response); !errors.Is(err, c.want) {
				t.Errorf("error %v", err)
			}
			p.await(frameReset)
			if !k.Finish() {
				t.Error("the connection is not usable")
			}
			k.Canceller().Cancel(reason) // too late: nothing happens
		})
	}
}

func TestAnIdleBodyTimesOut(t *testing.T) {
	p, conn := fakeUpstream(t, nil)
	k := newCallOn(t, conn)
	defer k.Finish()
	x := newRequest("GET", "/")
	if err := k.Send(x, nil, exchange.Timeouts{Idle: 50 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.await(frameHeaders)
		p.head(1, false, ":status", "200")
	}()
	if err := k.ReadHead(&x.Response); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Body().Next(); !errors.Is(err, exchange.ErrTimeout) {
		t.Errorf("error %v", err)
	}
}

func TestASilentUpstreamIsFoundOutByPing(t *testing.T) {
	p, conn := fakeUpstream(t, &ClientOptions{PingAfter: 40 * time.Millisecond, PingTimeout: 40 * time.Millisecond})
	k := newCallOn(t, conn)
	defer k.Finish()
	x := newRequest("GET", "/")
	if err := k.Send(x, nil, exchange.Timeouts{}); err != nil {
		t.Fatal(err)
	}
	go p.await(framePing)
	if err := k.ReadHead(&x.Response); !errors.Is(err, errNoPong) {
		t.Errorf("error %v", err)
	}
	if conn.Usable() {
		t.Error("the connection is still used")
	}
}

func TestCapacityFollowsTheUpstream(t *testing.T) {
	p, conn := fakeUpstream(t, nil)
	if n := conn.Capacity(); n != assumedStreams {
		t.Errorf("capacity %d at first", n)
	}
	p.write(appendSetting(appendFrameHeader(nil, settingLen, frameSettings, 0, 0), settingMaxStreams, 1))
	eventually(t, "the capacity is 1", func() bool { return conn.Capacity() == 1 })
	k := newCallOn(t, conn)
	if _, err := conn.Call(); !errors.Is(err, exchange.ErrConnBusy) {
		t.Errorf("a second call: %v", err)
	}
	k.Finish()
	newCallOn(t, conn).Finish()
	conn.Close()
	if _, err := conn.Call(); !errors.Is(err, exchange.ErrConnClosed) {
		t.Errorf("a call on a closed connection: %v", err)
	}
}

// stuck is a connection whose peer has stopped reading, from a point on.
type stuck struct {
	net.Conn
	on      atomic.Bool
	release chan struct{}
}

func (s *stuck) Write(p []byte) (int, error) {
	if s.on.Load() {
		<-s.release
	}
	return s.Conn.Write(p)
}

// Who cancels is the watch over all connections as a rule.
func TestCancellingDoesNotWaitForTheUpstream(t *testing.T) {
	ours, theirs := tcpPair(t)
	s := &stuck{Conn: ours, release: make(chan struct{})}
	conn := NewClientConn(s, &exchange.Conn{Protocol: exchange.HTTP2}, &ClientOptions{Limits: clientLimits})
	t.Cleanup(conn.Close)
	p := newPeer(t, theirs, len(preface))
	p.write(appendFrameHeader(nil, 0, frameSettings, 0, 0))
	k := newCallOn(t, conn)
	x := newRequest("GET", "/")
	if err := k.Send(x, nil, exchange.Timeouts{}); err != nil {
		t.Fatal(err)
	}
	read := make(chan error, 1)
	go func() { read <- k.ReadHead(&x.Response) }()
	p.await(frameHeaders)
	s.on.Store(true)
	cancelled := make(chan struct{})
	go func() {
		defer close(cancelled)
		k.Canceller().Cancel(errors.New("client gone"))
	}()
	select {
	case <-cancelled:
	case <-time.After(5 * time.Second):
		t.Error("the canceller waits")
	}
	close(s.release)
	<-cancelled
	p.await(frameReset)
	if err := <-read; err == nil {
		t.Error("a head has come")
	}
	k.Finish()
}
