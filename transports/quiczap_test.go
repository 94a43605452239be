package transports

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/handshake"
)

// post makes one call with a body, streamed where it is not whole.
func post(c exchange.ClientConn, body exchange.Source) (string, error) {
	k, err := c.Call()
	if err != nil {
		return "", err
	}
	defer k.Finish()
	x := new(exchange.Exchange)
	x.Request.Reset(nil)
	x.Request.SetMethod([]byte("POST"))
	x.Request.SetAuthority([]byte("localhost"))
	x.Request.SetTarget([]byte("/"))
	if err := k.Send(x, body, exchange.Timeouts{}); err != nil {
		return "", err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	if _, ok := body.Whole(); !ok {
		wg.Go(func() { _ = k.SendBody(body) })
	}
	var h exchange.Head
	if err := k.ReadHead(&h); err != nil {
		body.Close(err)
		return "", err
	}
	src := k.Body()
	if src == nil {
		return "", nil
	}
	b, err := io.ReadAll(src)
	return string(b), err
}

// long is a body of unknown length.
type long struct{ *exchange.Bytes }

func (long) Whole() ([]byte, bool) { return nil, false }
func (long) Length() int64         { return -1 }

func mirror(x *exchange.Exchange) {
	x.Response.Status = 200
	if err := x.Responder.Respond(&x.Response, x.Body); err != nil {
		x.Responder.Abort(err)
	}
}

func dialRig(t testing.TB, r *rig, scheme string) exchange.ClientConn {
	t.Helper()
	c, err := r.dialer(t, scheme, handshake.Require).Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestZAPAndHTTP3ShareAPort(t *testing.T) {
	r := newRig(t, handshake.Require, facts, nil)
	for scheme, want := range map[string]string{
		"h3":       "h3 X25519MLKEM768 1.3 true h3 localhost true",
		"zap+quic": "zap X25519MLKEM768 1.3 true zap-http/1 localhost true",
	} {
		c := dialRig(t, r, scheme)
		for range 3 {
			if body := callOnce(t, c); body != want {
				t.Errorf("%s: %q", scheme, body)
			}
		}
	}
	if n := r.metrics.Listeners.Series("edge").Accepted(); n != 2 {
		t.Errorf("%d connections", n)
	}
}

func TestBodiesOverZAPOverQUICArriveWhole(t *testing.T) {
	r := newRig(t, handshake.Prefer, mirror, nil)
	c := dialRig(t, r, "zap+quic")
	for _, size := range []int{0, 1, 1000, 5000, 60_000, 3 << 20} {
		want := string(bytes.Repeat([]byte("0123456789abcde"), size/15+1)[:size])
		bodies := map[string]exchange.Source{"streamed": long{exchange.NewBytes([]byte(want))}}
		if size < 64<<10 { // no transport gives a whole body that is larger
			bodies["whole"] = exchange.NewBytes([]byte(want))
		}
		for name, body := range bodies {
			if got, err := post(c, body); err != nil || got != want {
				t.Errorf("%s, %d bytes: %d bytes, %v", name, size, len(got), err)
			}
		}
	}
}

func TestStreamsOfZAPOverQUICAreKept(t *testing.T) {
	r := newRig(t, handshake.Prefer, mirror, nil)
	c := dialRig(t, r, "zap+quic").(*zapClient)
	for range 50 {
		if _, err := post(c, exchange.NewBytes([]byte("x"))); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(c.idle); n != 1 {
		t.Errorf("%d streams for one call after the other", n)
	}
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			for range 20 {
				want := strings.Repeat(fmt.Sprint(i), 300)
				got, err := post(c, exchange.NewBytes([]byte(want)))
				if err != nil || got != want {
					t.Errorf("%d bytes, %v", len(got), err)
				}
			}
		})
	}
	wg.Wait()
	if n := len(c.idle); n > 20 {
		t.Errorf("%d streams for 20 callers", n)
	}
}

func TestACancelledCallOverZAPOverQUICEndsOnBothSides(t *testing.T) {
	entered, gone := make(chan struct{}, 1), make(chan struct{}, 1)
	r := newRig(t, handshake.Prefer, func(x *exchange.Exchange) {
		if x.Request.Method == exchange.POST {
			mirror(x)
			return
		}
		told := make(chan struct{})
		_ = x.OnCancel(&exchange.Canceller{Cancel: func(error) { close(told) }})
		entered <- struct{}{}
		<-told
		gone <- struct{}{}
		x.Responder.Abort(exchange.ErrClientGone)
	}, nil)
	c := dialRig(t, r, "zap+quic")
	k, err := c.Call()
	if err != nil {
		t.Fatal(err)
	}
	x := new(exchange.Exchange)
	x.Request.Reset(nil)
	x.Request.SetMethod([]byte("GET"))
	x.Request.SetAuthority([]byte("localhost"))
	x.Request.SetTarget([]byte("/"))
	if err := k.Send(x, nil, exchange.Timeouts{}); err != nil {
		t.Fatal(err)
	}
	reason := errors.New("the client went away")
	go func() {
		<-entered
		k.Canceller().Cancel(reason)
	}()
	var h exchange.Head
	if err := k.ReadHead(&h); !errors.Is(err, reason) {
		t.Error(err)
	}
	if !k.Finish() {
		t.Error("the connection is not usable any more")
	}
	select {
	case <-gone:
	case <-time.After(5 * time.Second):
		t.Fatal("the server was not told")
	}
	k.Canceller().Cancel(reason) // late, and without effect
	if got, err := post(c, exchange.NewBytes([]byte("next"))); err != nil || got != "next" {
		t.Errorf("%q %v", got, err)
	}
}

func TestAnAnswerOverZAPOverQUICIsCutWhereItsBodyIs(t *testing.T) {
	r := newRig(t, handshake.Prefer, func(x *exchange.Exchange) {
		x.Response.Status = 200
		sink, err := x.Responder.Start(&x.Response, -1)
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = sink.Write([]byte("some"))
		_ = sink.Flush()
		sink.Reset(errors.New("upstream gone"))
	}, nil)
	if got, err := post(dialRig(t, r, "zap+quic"), exchange.NewBytes(nil)); err == nil {
		t.Errorf("%q passes for whole", got)
	}
}

func TestADrainLetsExchangesOverZAPOverQUICEnd(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	r := newRig(t, handshake.Prefer, func(x *exchange.Exchange) {
		close(entered)
		<-release
		answer(x, 200, strings.Repeat("whole ", 200_000))
	}, nil)
	c := dialRig(t, r, "zap+quic")
	got := make(chan int, 1)
	go func() {
		body, _ := post(c, exchange.NewBytes([]byte("x")))
		got <- len(body)
	}()
	<-entered
	drained := make(chan error, 1)
	go func() { drained <- r.Drain(t.Context()) }()
	eventually(t, "draining", func() bool { r.mu.Lock(); defer r.mu.Unlock(); return r.draining })
	if _, err := post(c, exchange.NewBytes([]byte("y"))); !errors.Is(err, exchange.ErrNotSent) {
		t.Errorf("a late call: %v", err)
	}
	close(release)
	if n := <-got; n != 1_200_000 {
		t.Errorf("%d bytes", n)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
	eventually(t, "the connection's end", func() bool { return !c.Usable() })
}

func TestAClientOfNeitherProtocolIsRefused(t *testing.T) {
	r := newRig(t, handshake.Prefer, facts, nil)
	r.tls.NextProtos = []string{"other"}
	if qc, err := quic.DialAddr(t.Context(), r.UDPAddr().String(), r.tls, nil); err == nil {
		_ = qc.CloseWithError(0, "")
		t.Error("served")
	}
	eventually(t, "the refusal in the log", func() bool { return strings.Contains(r.log.String(), "no_shared_alpn") })
}
