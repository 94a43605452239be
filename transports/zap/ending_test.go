package zap

import (
	"bufio"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/serial/serialtest"
	"github.com/hanzoai/pqgw/zapcodec"
)

func TestAHandlerIsToldThatTheClientIsGone(t *testing.T) {
	serialtest.AClientThatGoesAwayCancelsTheExchange(t, serve, request(t, "GET", "/", ""))
}

func TestAClientThatTakesNothingIsCut(t *testing.T) {
	starter := func(t testing.TB, m serialtest.Mode, h serialtest.HandlerFunc) *serialtest.Server {
		return start(t, m, h, func(o *Options) { o.WriteTimeout = 300 * time.Millisecond }).Server
	}
	serialtest.AClientThatTakesNothingIsCut(t, starter, request(t, "GET", "/", ""))
}

func TestSlowAndIdleClientsAreEnded(t *testing.T) {
	short := func(o *Options) {
		o.HeadTimeout, o.IdleTimeout, o.StreamIdle = 300*time.Millisecond, 300*time.Millisecond, 300*time.Millisecond
	}
	serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
		for _, q := range []struct {
			name, reason string
			send         []byte
		}{
			{"idle", "", nil},
			{"in the head", "head_timeout", request(t, "GET", "/", "")[:30]},
			{"in the body", "body_timeout", request(t, "POST", "/", "0123456789")[:len(request(t, "POST", "/", "0123456789"))-3]},
		} {
			s := start(t, m, serialtest.Echo, short)
			c := s.Dial()
			_, _ = c.Write(q.send)
			r := bufio.NewReader(c)
			if q.reason != "" {
				if got := readAnswer(t, r); got.status != 408 || got.body != q.reason {
					t.Fatalf("%s: %d %s", q.name, got.status, got.body)
				}
			} else if m.TLS {
				_, _ = r.Peek(1) // shakes hands
			}
			if _, err := r.ReadByte(); !errors.Is(err, io.EOF) {
				t.Fatalf("%s: not closed: %v", q.name, err)
			}
		}
	})
}

func TestDrainingLetsTheRequestUnderWayEnd(t *testing.T) {
	serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
		begun, goOn := make(chan struct{}), make(chan struct{})
		s := start(t, m, func(x *exchange.Exchange) {
			close(begun)
			<-goOn
			serialtest.Echo(x)
		}, nil)
		c := s.client(t, nil)
		done := make(chan struct{})
		x := serialtest.NewExchange("GET", "/last")
		go func() {
			defer close(done)
			if status, body, err := serialtest.RoundTrip(t, c, x, nil); err != nil || status != 200 || body != "/last" {
				t.Errorf("%d %q %v", status, body, err)
			}
		}()
		<-begun
		s.Shutdown()
		close(goOn)
		<-done
		if c.Finish() {
			t.Error("the client would use the connection again, though its server says that it ends")
		}
	})
}

func TestClosingABodyEndsItsReadingWhileDraining(t *testing.T) {
	send := streamed(t, []string{"abc"}, nil)
	serialtest.ClosingABodyEndsItsReadingWhileDraining(t, serve, send[:len(send)-1], func(r io.Reader) (int, error) {
		g, err := tryReadAnswer(bufio.NewReader(r))
		return g.status, err
	})
}

func TestARequestBehindABodyThatWasGivenUpIsServed(t *testing.T) {
	q := zapcodec.Request{Method: []byte("POST"), Target: []byte("/"), Headers: pairs([]string{"Host: a"}), Body: []byte("abc"), Trailers: pairs([]string{"X-Sum: 9"})}
	send, err := q.Append(nil, zapcodec.Prefix)
	if err != nil {
		t.Fatal(err)
	}
	serialtest.EachMode(t, func(t *testing.T, m serialtest.Mode) {
		s := start(t, m, func(x *exchange.Exchange) {
			x.Body.Close(errors.New("not wanted"))
			serialtest.Answer(x, 200, []byte("all the same"))
		}, nil)
		c := s.Dial()
		r := bufio.NewReader(c)
		for range 2 {
			_, _ = c.Write(send)
			if got, err := tryReadAnswer(r); err != nil || got.body != "all the same" {
				t.Fatalf("%q, %v", got.body, err)
			}
		}
	})
}
